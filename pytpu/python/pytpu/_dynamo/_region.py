"""The calls that a compiled function records, until its graph ends."""

from __future__ import annotations

import contextlib
import operator
import os
import sys
import threading
import traceback
import types
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytpu as torch

from .. import _C as _extension
from .._subclasses import fake_tensor as _fake
from ..compiler import _calls
from ..ops import OpOverload as _OpOverload
from ..overrides import TorchFunctionMode
from . import exc
from .utils import counters

if TYPE_CHECKING:
    from ._capture import Compiled, _Notice

_C: Any = _extension
Tensor = torch.Tensor
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


#: Functions that read elements, or whose effect belongs to the tensor itself and not to its description.
_READS = frozenset(
    "__array__ __array_wrap__ __bool__ __complex__ __contains__ __deepcopy__ __dlpack__ __float__ __format__ __index__ "
    "__int__ __reduce__ __reduce_ex__ __repr__ __setstate__ __str__ _backward allclose backward cpu_storage data_ptr "
    "dlpack equal grad is_nonzero is_set_to is_shared item jacobian numpy register_hook "
    "register_post_accumulate_grad_hook resize_ retain_grad retains_grad set_ share_memory_ storage storage_type "
    "tolist to_dlpack typed_storage untyped_storage _storage_id _typed_storage".split()
)


#: Properties and methods that say what a tensor is. They need no description where the tensor has none.
_QUESTIONS = frozenset(
    "__get__ __hash__ __len__ dim element_size get_device is_complex is_contiguous is_floating_point is_inference "
    "is_signed ndimension nelement numel size storage_offset stride type".split()
)


#: Properties that belong to the tensor itself.
_OWN = frozenset("grad _grad grad_fn is_leaf _base _version _backward_hooks name".split())


_OPERATORS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "true_divide": operator.truediv,
    "__truediv__": operator.truediv,
    "floor_divide": operator.floordiv,
    "__floordiv__": operator.floordiv,
    "remainder": operator.mod,
    "__mod__": operator.mod,
    "pow": operator.pow,
    "__pow__": operator.pow,
    "matmul": operator.matmul,
    "__matmul__": operator.matmul,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "__add__": operator.add,
    "__sub__": operator.sub,
    "__mul__": operator.mul,
    "__eq__": operator.eq,
    "__ne__": operator.ne,
    "__lt__": operator.lt,
    "__le__": operator.le,
    "__gt__": operator.gt,
    "__ge__": operator.ge,
    "__and__": operator.and_,
    "__or__": operator.or_,
    "__xor__": operator.xor,
    "__getitem__": operator.getitem,
    "__setitem__": operator.setitem,
}


_REFLECTED = {
    "__radd__": operator.add,
    "__rsub__": operator.sub,
    "__rmul__": operator.mul,
    "__rtruediv__": operator.truediv,
    "__rdiv__": operator.truediv,
    "__rfloordiv__": operator.floordiv,
    "__rmod__": operator.mod,
    "__rpow__": operator.pow,
    "__rmatmul__": operator.matmul,
}


_UNARY = {"__neg__": operator.neg, "neg": operator.neg, "__invert__": operator.invert, "__abs__": operator.abs}


class _Ref:
    """The value number `index` of a list of calls, or the item at `path` in it."""

    __slots__ = ("index", "path")

    def __init__(self, index: int, path: tuple[int, ...] = ()) -> None:
        self.index, self.path = index, path


class _Call:
    """One call: what is called, with references in place of tensors."""

    __slots__ = ("args", "is_method", "kwargs", "line", "target")

    def __init__(self, is_method: bool, target: Any, args: Any, kwargs: Any, line: str) -> None:
        self.is_method, self.target, self.args, self.kwargs, self.line = is_method, target, args, kwargs, line


class _Entry:
    """A compiled graph: the function, and which values it returns."""

    def __init__(self, outputs: list[_Ref], fn: Callable[..., Any]) -> None:
        self.outputs, self.fn = outputs, fn
        self.positions = {(ref.index, ref.path): i for i, ref in enumerate(outputs)}


class _Current(threading.local):
    """The region of a thread."""

    region: Region | _Notice | None = None


_current = _Current()


def current() -> Region | None:
    """Return the region that records in this thread, or ``None``."""
    region = _current.region
    return None if region is None or region.paused else region


def _settings() -> tuple[Any, ...]:
    """Return the settings that functions read: gradients, inference mode, autocast and the default dtype."""
    return (
        _C.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        *((_C._autocast_enabled(kind), _C._autocast_dtype(kind)) for kind in ("cpu", "tpu")),
        torch.get_default_dtype(),
    )


@contextlib.contextmanager
def _under(settings: tuple[Any, ...]) -> Iterator[None]:
    """Return a block with these settings, which leaves the settings as they were."""
    before = _settings()
    if settings == before:
        try:
            yield
        finally:
            _C._set_grad_enabled(before[0])
        return
    _set(settings)
    try:
        yield
    finally:
        _set(before)


def _set(settings: tuple[Any, ...]) -> None:
    grad, inference, cpu, tpu, dtype = settings
    _C._set_inference_mode(inference, grad)
    _C._set_grad_enabled(grad)
    for kind, (on, kind_dtype) in (("cpu", cpu), ("tpu", tpu)):
        _C._set_autocast_enabled(kind, on)
        _C._set_autocast_dtype(kind, kind_dtype)
    torch.set_default_dtype(dtype)


def _frames() -> list[traceback.FrameSummary]:
    """Return the frames of the user, the outermost first, up to the compiled call."""
    found: list[traceback.FrameSummary] = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code is _run_program.__code__:
            break
        if not code.co_filename.startswith(_PACKAGE):
            found.append(traceback.FrameSummary(code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return found[::-1]


def _place() -> str:
    """Return the line of the user that calls, as ``file:line in function``."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            return f'File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}'
        frame = frame.f_back
    return ""


def _text(frames: list[traceback.FrameSummary]) -> str:
    return "\n\nfrom user code:\n" + "".join(traceback.format_list(frames)) if frames else ""


class GraphCompileReason:
    """Why a graph ends.

    Attributes:
        reason: the text.
        user_stack: the frames of the user, the outermost first.
        graph_break: whether the program goes on after it.
    """

    def __init__(self, reason: str, user_stack: list[traceback.FrameSummary], graph_break: bool = True) -> None:
        self.reason, self.user_stack, self.graph_break = reason, user_stack, graph_break

    def __repr__(self) -> str:
        return f"GraphCompileReason(reason={self.reason!r}, user_stack={self.user_stack!r})"


def _is_plain(kind: type) -> bool:
    """Return whether functions of tensors of a class are those of `Tensor`."""
    how = kind.__dict__.get("__torch_function__", None)
    if how is None:
        how = getattr(kind, "__torch_function__", None)
    return getattr(how, "__func__", how) in _PLAIN


_PLAIN: list[Any] = [
    getattr(Tensor.__torch_function__, "__func__", Tensor.__torch_function__),
    _C._disabled_torch_function_impl,
]


#: Classes of arguments that graphs hold beside numbers, strings and tensors.
_CONSTANTS = frozenset((torch.dtype, torch.device, torch.memory_format, torch.layout))


#: The dtypes of Python's classes.
_DTYPES = {float: torch.float64, int: torch.int64, bool: torch.bool, complex: torch.complex128}


class _NoDescription(Exception):
    """A value that the graph cannot hold."""


_applications: weakref.WeakKeyDictionary[type, Any] = weakref.WeakKeyDictionary()


def _applied(cls: Any) -> Callable[..., Any]:
    """Return `apply` of a `torch.autograd.Function` as a function, which graphs can name."""
    found: Any = _applications.get(cls)
    if found is None:
        apply = cls.apply

        def call(*args: Any, **kwargs: Any) -> Any:
            return apply(*args, **kwargs)

        call.__name__ = call.__qualname__ = f"{cls.__name__}_apply"
        call.__module__ = f"{cls.__module__}"
        found = _applications[cls] = call
    return found


_UNKNOWN = (
    "torch.compile: a tensor within the compiled function was made by something that is no torch function, so no graph "
    "can hold it. Move it into a function with torch.compiler.disable"
)


class Region(TorchFunctionMode):
    """A call of a compiled function: a mode that records.

    Args:
        compiled: the function.
        program: the Python function that runs.
        args: its arguments, which give names to inputs of graphs.
        kwargs: the same, by name.
    """

    def __init__(self, compiled: Compiled, program: Callable[..., Any], args: Any, kwargs: Any) -> None:
        super().__init__()
        self.compiled, self.program, self.args, self.kwargs = compiled, program, args, kwargs
        self.paused = False
        self.segment = 0
        self.entries = 0
        self._begin()

    def _begin(self) -> None:
        self.calls: list[_Call] = []
        self.keys: list[Any] = []
        self.inputs: list[Tensor] = []
        self.values: dict[int, tuple[Any, _Ref]] = {}
        self.made: list[tuple[Any, _Ref]] = []
        self.lifted: dict[int, Tensor] = {}
        self.originals: dict[int, Tensor] = {}
        self.settings = self.first_settings = _settings()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.paused:
            return func(*args, **kwargs)
        return self.call(func, args, kwargs)

    # ---- values

    def _lift(self, value: Tensor) -> Tensor:
        """Return the description of a tensor of the program."""
        if _C._is_fake(value):
            return value
        found = self.lifted.get(id(value))
        if found is not None:
            return found
        if not _is_plain(type(value)):
            raise _NoDescription(f"a tensor of class {type(value).__name__}, which overrides functions")
        with torch.enable_grad():
            fake = _C._fake_of(value)
            if value.requires_grad:
                fake.requires_grad_()
                if not value.is_leaf:
                    copy = fake.clone()
                    fake = copy if copy.stride() == fake.stride() else fake
        fake.__class__ = Tensor
        ref = _Ref(self.count)
        self.count += 1
        self.inputs.append(value)
        self.keys.append(
            ("input", type(value), value.dtype, value.shape, value.stride(), value.device, value.requires_grad)
        )
        self.calls.append(_Call(False, None, (), {}, ""))
        self.lifted[id(value)] = fake
        self.originals[id(fake)] = value
        self.values[id(fake)] = (weakref.ref(fake), ref)
        return fake

    def _described(self, value: Any) -> Any:
        """Return an argument with descriptions in place of tensors."""
        if isinstance(value, Tensor):
            return self._lift(value)
        kind = type(value)
        if kind is tuple:
            return tuple([self._described(v) for v in value])
        if kind is list:
            return [self._described(v) for v in value]
        if kind is dict:
            return {k: self._described(v) for k, v in value.items()}
        if kind is slice:
            return slice(self._described(value.start), self._described(value.stop), self._described(value.step))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return kind(*[self._described(v) for v in value])
        return value

    def _known(self, value: Any) -> Any:
        """Return an argument with the descriptions of those tensors that have one."""
        return self.lifted.get(id(value), value) if isinstance(value, Tensor) else value

    def _encode(self, value: Any) -> tuple[Any, Any]:
        """Return an argument with references in place of tensors, and a key."""
        if isinstance(value, Tensor):
            ref = self._ref(value)
            return ref, (_Ref, ref.index, ref.path)
        kind = type(value)
        if kind is float or kind is complex:
            return value, (kind, repr(value))
        if value is None or kind in (int, bool, str):
            return value, (kind, value)
        if kind in (tuple, list):
            items = [self._encode(v) for v in value]
            return kind([v for v, _ in items]), (kind, tuple([k for _, k in items]))
        if kind is dict:
            items = [self._encode(v) for v in value.values()]
            return dict(zip(value, [v for v, _ in items])), (kind, tuple(value), tuple([k for _, k in items]))
        if kind is slice:
            items = [self._encode(v) for v in (value.start, value.stop, value.step)]
            return slice(*[v for v, _ in items]), (kind, tuple([k for _, k in items]))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            items = [self._encode(v) for v in value]
            return kind(*[v for v, _ in items]), (kind, tuple([k for _, k in items]))
        if kind is type and value in _DTYPES:
            return _DTYPES[value], (kind, value)
        if kind is torch.Size:
            return value, (kind, tuple(value))
        if kind is range:
            return value, (kind, value)
        if kind in _CONSTANTS or value is Ellipsis or isinstance(value, _OpOverload):
            return value, (kind, value)
        raise _NoDescription(f"an argument of class {kind.__name__}")

    def _ref(self, fake: Tensor) -> _Ref:
        found = self.values.get(id(fake))
        if found is None or found[0]() is not fake:
            raise RuntimeError(_UNKNOWN)
        return found[1]

    def _track(self, result: Any, index: int, path: tuple[int, ...] = ()) -> Any:
        """Note what a call made. Return it with the tensors of the program in place of their descriptions."""
        if isinstance(result, Tensor):
            original = self.originals.get(id(result))
            ref = _Ref(index, path)
            known = self.values.get(id(result))
            if known is not None and known[0]() is result:
                # A function in place returns its operand, whose value is from now on this one.
                self.values[id(result)] = (known[0], ref)
                return result if original is None else original
            if not _C._is_fake(result):
                raise _NoDescription("a result with elements")
            if type(result) is _fake.FakeTensor:
                result.__class__ = Tensor
            weak = weakref.ref(result)
            self.values[id(result)] = (weak, ref)
            self.made.append((weak, ref))
            return result
        if isinstance(result, (tuple, list)) and type(result) is not torch.Size:
            items = [self._track(item, index, (*path, i)) for i, item in enumerate(result)]
            if all(a is b for a, b in zip(items, result)):
                return result
            kind: Any = type(result)
            return kind(*items) if hasattr(result, "_fields") else kind(items)
        return result

    # ---- calls

    def call(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Record a call, or end the graph and run it."""
        name = getattr(func, "__name__", type(func).__name__)
        prop = ""
        if name in ("__get__", "__set__", "__delete__"):
            prop = getattr(getattr(func, "__self__", None), "__name__", "")
            if name != "__get__":
                if prop in ("grad", "_grad") and len(args) > 1 and args[1] is None and not _C._is_fake(args[0]):
                    return func(*args, **kwargs)
                return self.break_and_run(f"Assignment to Tensor.{prop}", func, args, kwargs)
            if prop in _OWN:
                if prop == "is_leaf" or not isinstance(args[0], Tensor):
                    return func(*[self._known(a) for a in args], **kwargs)
                return func(*args, **kwargs)
        elif name in _READS:
            return self.break_and_run(
                f"Tensor.{name}" if hasattr(Tensor, name) else f"torch.{name}", func, args, kwargs
            )
        elif kwargs.get("requires_grad") or (name == "requires_grad_" and (args[1:] or [True])[0]):
            # A leaf collects gradients, so it must be the same object for the program and for autograd.
            return self.break_and_run("a leaf that requires gradients", func, args, kwargs)
        elif name in _OF_VALUES and any(hasattr(a, "__array__") and not isinstance(a, Tensor) for a in args):
            # A tensor of an array is an input of the graph.
            return func(*args, **kwargs)
        settings = _settings()
        if settings[1:] != self.settings[1:]:
            if any(call.target is not None for call in self.calls):
                self.end("a block of autocast, inference mode or another default dtype")
            self.settings = self.first_settings = settings
        before = _C._set_fake_mode(True)
        self.paused = True
        try:
            if name in _QUESTIONS:
                fake_args = [self._known(a) for a in args]
                fake_kwargs = kwargs
                if not any(isinstance(a, Tensor) and _C._is_fake(a) for a in fake_args):
                    _C._set_fake_mode(before)
                    if prop not in _VIEWS:
                        return func(*args, **kwargs)
                    _C._set_fake_mode(True)
                    fake_args = [self._described(a) for a in args]
            else:
                fake_args = [self._described(a) for a in args]
                fake_kwargs = {k: self._described(v) for k, v in kwargs.items()}
            result = func(*fake_args, **fake_kwargs)
            if not (result is None or isinstance(result, Tensor) or _has_tensor(result)):
                return result
            encoded, key = self._encode(tuple(fake_args))
            encoded_kwargs, kwargs_key = self._encode(dict(fake_kwargs))
            if settings[0] != self.settings[0]:
                self.calls.append(_Call(False, _C._set_grad_enabled, (settings[0],), {}, ""))
                self.keys.append(("grad", settings[0]))
                self.count += 1
                self.settings = settings
            if name in _RESHAPED:
                if id(result) in self.originals:
                    raise _NoDescription("an input, whose sizes change")
                # The object has another value from now on.
                name = name[:-1]
            is_method, target, encoded, encoded_kwargs = _node_of(func, name, prop, encoded, encoded_kwargs)
            tracked = self._track(result, self.count)
        except (_fake.DataDependentOutputException, _fake.DynamicOutputShapeException, _NoDescription) as error:
            failure: Exception = error
        except Exception as error:
            failure = error
        else:
            self.calls.append(_Call(is_method, target, encoded, encoded_kwargs, _place()))
            self.keys.append((target, key, kwargs_key))
            self.count += 1
            return tracked
        finally:
            self.paused = False
            _C._set_fake_mode(before)
        # The frames of the traceback keep descriptions alive, which would become results of the graph.
        return self._failed(failure.with_traceback(None), func, name, args, kwargs)

    def apply(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Record a call of a `torch.autograd.Function`: the graph calls it, with its own backward."""
        if any(callable(a) and not isinstance(a, (Tensor, type)) for a in (*args, *kwargs.values())):
            return self.break_and_run(
                "a torch.autograd.Function with a function among its arguments", func, args, kwargs
            )
        return self.call(_applied(func.__self__), args, kwargs)

    def _failed(self, error: Exception, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        if isinstance(error, (_fake.DataDependentOutputException, _fake.DynamicOutputShapeException)):
            kind = "Data-dependent" if isinstance(error, _fake.DataDependentOutputException) else "Dynamic shape"
            return self.break_and_run(f"{kind} operator {error.func}", func, args, kwargs)
        if isinstance(error, _NoDescription):
            return self.break_and_run(f"{name} of {error}", func, args, kwargs)
        if self.compiled.fullgraph:
            frames = _frames()
            raise exc.TorchRuntimeError(
                "RuntimeError when making fake tensor call\n  Explanation: Dynamo failed to run FX node with fake "
                f"tensors: call_function {func}: got {type(error).__name__}({str(error)!r}){_text(frames)}"
            ) from error
        return self.break_and_run(f"{name} raised {type(error).__name__}", func, args, kwargs)

    def break_and_run(self, reason: str, func: Any, args: Any, kwargs: Any) -> Any:
        """End the graph, and call a function with real values."""
        self.end(reason)
        self.paused = True
        try:
            return func(*args, **kwargs)
        finally:
            self.paused = False

    def outside(self, reason: str, func: Any, args: Any, kwargs: Any) -> Any:
        """End the graph, and call a function that is not compiled."""
        self.end(reason)
        self.paused = True
        depth, _calls.depth = _calls.depth, 0
        try:
            return func(*args, **kwargs)
        finally:
            self.paused = False
            _calls.depth = depth

    # ---- ends

    def end(self, reason: str | None = None) -> None:
        """Run what is recorded. `reason` is why the graph ends before the function."""
        frames: list[traceback.FrameSummary] = []
        if reason is not None:
            frames = _frames()
            if self.compiled.fullgraph:
                raise _unsupported(reason, frames)
            self.compiled.broken(GraphCompileReason(reason, frames))
        if any(call.target is not None for call in self.calls):
            self.paused = True
            depth, _calls.depth = _calls.depth, 0
            try:
                self._run(GraphCompileReason(reason, frames) if reason is not None else None)
            finally:
                self.paused = False
                _calls.depth = depth
                self.segment += 1
                self._begin()
        else:
            self._begin()

    def _run(self, reason: GraphCompileReason | None) -> None:
        alive = []
        for weak, ref in self.made:
            value = weak()
            if value is not None:
                # The last value of an operand is the one after functions in place.
                alive.append((value, self.values[id(value)][1] if self.values[id(value)][0]() is value else ref))
        wanted = [(ref.index, ref.path) for _, ref in alive]
        key = (self.segment, self.first_settings, tuple(self.keys))
        compiled = self.compiled
        known = compiled.cache.get(key, ())
        entry = next((e for e in known if all(w in e.positions for w in wanted)), None)
        if entry is None:
            entry = compiled.compile_new(self, key, [ref for _, ref in alive], reason)
        with _under(self.first_settings):
            fn = entry.fn
            results = fn(list(self.inputs)) if getattr(fn, "_boxed_call", False) else fn(*self.inputs)
        if isinstance(results, Tensor):
            results = (results,)
        results = list(results) if results is not None else []
        holders = {id(x) for x in self.inputs}
        used: set[int] = set()
        for (fake, _), place in zip(alive, wanted):
            real = results[entry.positions[place]]
            if not isinstance(real, Tensor):
                raise exc.TorchRuntimeError(f"the compiled graph returned {type(real).__name__} in place of a tensor")
            if id(real) in holders or id(real) in used or not _is_plain(type(real)):
                real = real.view_as(real)
            used.add(id(real))
            if fake.requires_grad and real.grad_fn is None:
                # The history of the description goes nowhere.
                with contextlib.suppress(RuntimeError):
                    fake.detach_() if not fake.is_leaf else fake.requires_grad_(False)
            _C._swap_tensor(fake, real)
            if real.requires_grad and real.is_leaf:
                fake.requires_grad_()


def _unsupported(reason: str, frames: list[traceback.FrameSummary]) -> exc.Unsupported:
    counters["unimplemented"][reason] += 1
    return exc.Unsupported(
        f"{reason}\n  Explanation: the call needs the elements of a tensor, or runs outside of the graph, and "
        "`fullgraph=True` asks for one graph.\n  Hint: Use `torch.where` or `torch.cond` for a choice, and keep "
        f"numbers in tensors. Without `fullgraph=True` the program runs in several graphs.{_text(frames)}"
    )


#: Functions that make tensors of arrays.
_OF_VALUES = frozenset("as_tensor asarray from_numpy tensor".split())


#: Methods that change the sizes of a tensor.
_RESHAPED = frozenset("squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_".split())


#: Properties whose value is a tensor.
_VIEWS = frozenset("T mT H mH data real imag".split())


def _has_tensor(value: Any) -> bool:
    if isinstance(value, Tensor):
        return True
    return (
        isinstance(value, (tuple, list)) and type(value) is not torch.Size and any(_has_tensor(item) for item in value)
    )


def _node_of(func: Any, name: str, prop: str, args: Any, kwargs: Any) -> tuple[bool, Any, Any, Any]:
    """Return whether a call is one of a method, its target, and its arguments, in the form of PyTorch's graphs."""
    if prop:
        if prop == "data":
            return True, "detach", args, {}
        return False, getattr, (args[0], prop), {}
    is_method = isinstance(func, (types.MethodDescriptorType, types.WrapperDescriptorType)) or (
        getattr(func, "__qualname__", "").removesuffix("_") == f"Tensor.{name}".removesuffix("_")
    )
    if not is_method or not hasattr(Tensor, name):
        return False, func, args, kwargs
    if not kwargs:
        if len(args) == 1 and name in _UNARY:
            return False, _UNARY[name], args, kwargs
        if len(args) == 2 and name in _REFLECTED:
            return False, _REFLECTED[name], (args[1], args[0]), kwargs
        if (len(args) == 2 or name == "__setitem__") and name in _OPERATORS:
            return False, _OPERATORS[name], args, kwargs
    if not (args and isinstance(args[0], _Ref)):
        return False, func, args, kwargs
    return True, name, args, kwargs


def _run_program(program: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    # The user's frames end at the code of this function.
    return program(*args, **kwargs)
