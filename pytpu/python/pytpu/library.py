"""`torch.library`: operators written in Python, with a schema, a kernel for each device, and a gradient.

Call them through the result of `custom_op`, or as `torch.ops.namespace.name`. Modes and classes below autograd get
their calls (`torch.utils._python_dispatch`). Kernels can take the place of those of aten: `Library("aten", "IMPL")`.
"""

from __future__ import annotations

import functools
import inspect
import operator
import typing
from typing import TYPE_CHECKING

import pytpu as torch

from . import _torch_dispatch, ops as _ops
from ._operators import checks as _checks
from ._operators.registry import _REGISTRY, _operator, _register, declare as declare
from ._operators.schema import _Argument as _Argument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "impl",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
]

_DEVICES = ("cpu", "tpu", "cuda", "meta", "xpu", "mps", "xla", "ipu", "hpu", "mtia", "privateuseone")
_KEYS = {"CPU": "cpu", "CUDA": "cuda", "Meta": "meta", "PrivateUse1": "tpu", "XLA": "tpu"}
_BOTH = ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "")


_SCALARS = {torch.Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str"}
_SCALARS |= {torch.dtype: "ScalarType", torch.device: "Device"}


def _spelled(annotation):
    """Return the name of a type in schemas, or `None` if it has none."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (list, typing.Sequence) or getattr(origin, "__name__", "") == "Sequence":
        item = _spelled(args[0]) if args else None
        return item and f"{item}[]"
    if origin is not tuple and type(None) in args:
        rest = tuple(a for a in args if a is not type(None))
        inner = _spelled(functools.reduce(operator.or_, rest))
        return inner and f"{inner}?"
    if set(args) == {int, float, bool}:
        return "Scalar"
    return _SCALARS.get(annotation) if isinstance(annotation, type) else None


def infer_schema(
    prototype_function: Callable[..., typing.Any], /, *, mutates_args: str | Iterable[str], op_name: str | None = None
) -> str:
    """Return the schema of an operator, from the annotations of a function.

    Args:
        prototype_function: Function with annotations of all parameters and of the result.
        mutates_args: Names of the arguments that the function changes in place, or `"unknown"` for all tensors.
        op_name: Name to put before the schema.

    Raises:
        ValueError: If an annotation is missing, or has a type that schemas do not have.

    Example:
        >>> import pytpu as torch
        >>> def double(x: torch.Tensor, k: int = 2) -> torch.Tensor:
        ...     return x * k
        >>> torch.library.infer_schema(double, mutates_args=())
        '(Tensor x, SymInt k=2) -> Tensor'
    """
    signature = inspect.signature(prototype_function)

    def refuse(what):
        raise ValueError(f"infer_schema(func): {what} Got func with signature {signature})")

    hints = typing.get_type_hints(prototype_function)
    named = set() if mutates_args == "unknown" else set(mutates_args)
    unknown = named - set(signature.parameters)
    if unknown:
        refuse(
            f"{unknown} in mutates_args were not found in the custom op's signature. mutates_args should contain the "
            "names of "
            "all args that the custom op mutates, or just the string 'unknown' if you don't know."
        )
    parts, keyword_only = [], False
    for i, (name, p) in enumerate(signature.parameters.items()):
        if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            refuse("We do not support positional-only args, varargs, or varkwargs.")
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
            keyword_only = True
        if name not in hints:
            refuse(f"Parameter {name} must have a type annotation.")
        kind = _spelled(hints[name])
        if kind is None:
            refuse(f"Parameter {name} has unsupported type {hints[name]}.")
        if name in named or (mutates_args == "unknown" and kind.startswith("Tensor")):
            if not kind.startswith("Tensor"):
                refuse(f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated")
            kind = f"Tensor(a{i}!){kind[6:]}"
        default = ""
        if p.default is not p.empty:
            shown = repr(p.default).removeprefix("torch.")
            default = f'="{p.default}"' if isinstance(p.default, str) else f"={shown}"
        parts.append(f"{kind} {name}{default}")
    if signature.return_annotation is signature.empty:
        refuse("No return type annotation was provided. Please add one.")
    returned = hints["return"]
    if returned in (None, type(None)):
        result: str | None = "()"
    elif typing.get_origin(returned) is tuple:
        kinds = [_spelled(r) for r in typing.get_args(returned)]
        result = None if None in kinds else f"({', '.join(map(str, kinds))})"
    else:
        result = _spelled(returned)
    if result is None:
        refuse(f"Return has unsupported type {returned}.")
    return f"{op_name or ''}({', '.join(parts)}) -> {result}"


def _devices(device_types):
    # "default" is PyTorch's name for the kernel of all devices that have no kernel of their own.
    if device_types is None or device_types == "default":
        return None
    found = [device_types] if isinstance(device_types, str) else list(device_types)
    for d in found:
        if d not in _DEVICES:
            raise RuntimeError(f"Expected one of {', '.join(_DEVICES)} device type: {d}")
    return found


class CustomOpDef:
    """An operator that `custom_op` made. Call it, or register more kernels.

    Example:
        >>> import pytpu as torch
        >>> @torch.library.custom_op("doc_example::plus_one", mutates_args=())
        ... def plus_one(x: torch.Tensor) -> torch.Tensor:
        ...     return x + 1
        >>> plus_one(torch.zeros(2))
        tensor([1., 1.])
    """

    def __init__(self, name: str, fn: Callable[..., typing.Any], schema: str) -> None:
        self._qualname = name
        self._namespace, _, self._name = name.partition("::")
        self._init_fn = fn
        self._operator = _register(name, schema)
        self._operator.opaque = True
        self._schema = schema
        self.__name__ = self._name
        self.__doc__ = fn.__doc__

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        return self._operator(*args, **kwargs)

    @property
    def _opoverload(self):
        return getattr(getattr(_ops, self._namespace), self._name).default

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Callable[..., typing.Any] | None = None, /
    ) -> Callable[..., typing.Any]:
        """Register a kernel for some devices. Without `fn`, return a decorator.

        Args:
            device_types: Device type, or several. `None` is all that have no kernel of their own.
            fn: The kernel.

        Raises:
            RuntimeError: If a device type is unknown.
        """

        def register(fn):
            devices = _devices(device_types)
            if devices is None:
                self._operator.fallback = fn
            else:
                self._operator.kernels.update(dict.fromkeys(devices, fn))
            return fn

        return register if fn is None else register(fn)

    def register_fake(self, fn: Callable[..., typing.Any], /) -> Callable[..., typing.Any]:
        """Register the kernel for tensors on `meta`, which computes shapes and dtypes.

        Args:
            fn: The kernel. It returns tensors on `meta`.
        """
        self._operator.fake = fn
        return fn

    def register_autograd(
        self, backward: Callable[..., typing.Any], /, *, setup_context: Callable[..., typing.Any] | None = None
    ) -> None:
        """Register the gradient of the operator.

        Args:
            backward: Function of `ctx` and one gradient for each result. It returns a gradient, or `None`, for each
                positional argument.
            setup_context: Function `setup_context(ctx, inputs, output)` that saves what `backward` needs.

        Raises:
            RuntimeError: If the operator changes its arguments.
        """
        if self._operator.schema.mutates:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self} with schema "
                f"{self._qualname}{self._schema}. Please create a functional operator and register an autograd "
                "formula for that."
            )
        self._operator.backward, self._operator.setup_context = backward, setup_context


def custom_op(
    name: str,
    fn: Callable[..., typing.Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Sequence[typing.Any] | None = None,
) -> CustomOpDef | Callable[[Callable[..., typing.Any]], CustomOpDef]:
    """Make an operator of a function. Without a function, return a decorator.

    Autograd does not look inside of the function. `register_autograd` registers its gradient.

    Args:
        name: `"namespace::name"`. The operator is also `torch.ops.namespace.name`.
        fn: Function with annotations of all parameters and of the result.
        mutates_args: Names of the arguments that the function changes in place, or `"unknown"` for all tensors.
        device_types: Devices that the function is the kernel for. `None` is all.
        schema: Schema of the operator. `None` takes it from the annotations.
        tags: Accepted for compatibility.

    Returns:
        The operator, a `CustomOpDef`, or a decorator that makes it.

    Raises:
        ValueError: If the name does not have this form, or an annotation is missing.

    Example:
        >>> import pytpu as torch
        >>> @torch.library.custom_op("doc_example::cube", mutates_args=())
        ... def cube(x: torch.Tensor) -> torch.Tensor:
        ...     return x**3
        >>> def setup_context(ctx, inputs, output):
        ...     ctx.save_for_backward(inputs[0])
        >>> cube.register_autograd(lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2, setup_context=setup_context)
        >>> x = torch.tensor(2.0, requires_grad=True)
        >>> cube(x).backward()
        >>> x.grad
        tensor(12.)
    """

    def make(fn):
        devices = _devices(device_types)
        made = CustomOpDef(name, fn, infer_schema(fn, mutates_args=mutates_args) if schema is None else schema)
        made.register_kernel(devices, fn)
        return made

    return make if fn is None else make(fn)


def register_kernel(
    op: str | CustomOpDef | _ops.OpOverload | _ops.OpOverloadPacket,
    device_types: str | Sequence[str] | None,
    func: Callable[..., typing.Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Callable[..., typing.Any]:
    """Register a kernel of an operator for some devices. Without `func`, return a decorator.

    Args:
        op: The operator, or its name.
        device_types: Device type, or several. `None` is all that have no kernel of their own.
        func: The kernel.
        lib: Accepted for compatibility.

    Raises:
        AttributeError: If there is no such operator.
        RuntimeError: If a device type is unknown.

    Example:
        >>> import pytpu as torch
        >>> torch.library.define("doc_example::triple", "(Tensor x) -> Tensor")
        >>> @torch.library.register_kernel("doc_example::triple", "cpu")
        ... def triple(x):
        ...     return x * 3
        >>> torch.ops.doc_example.triple(torch.ones(2))
        tensor([3., 3.])
    """

    def register(fn):
        devices, found = _devices(device_types), _operator(op)
        if devices is None:
            found.fallback = fn
        else:
            found.kernels.update(dict.fromkeys(devices, fn))
        return fn

    return register if func is None else register(func)


def register_fake(
    op: str | CustomOpDef | _ops.OpOverload | _ops.OpOverloadPacket,
    func: Callable[..., typing.Any] | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = False,
) -> Callable[..., typing.Any]:
    """Register the kernel of an operator for tensors on `meta`. Without `func`, return a decorator.

    Args:
        op: The operator, or its name.
        func: The kernel. It returns tensors on `meta`.
        lib: Accepted for compatibility.
        allow_override: Accepted for compatibility. A new kernel replaces the old one.

    Raises:
        AttributeError: If there is no such operator.

    Example:
        >>> import pytpu as torch
        >>> @torch.library.custom_op("doc_example::minus_one", mutates_args=())
        ... def minus_one(x: torch.Tensor) -> torch.Tensor:
        ...     return x - 1
        >>> @torch.library.register_fake("doc_example::minus_one")
        ... def minus_one_shape(x):
        ...     return torch.empty_like(x)
        >>> minus_one(torch.empty(2, 3, device="meta")).shape
        torch.Size([2, 3])
    """

    def register(fn):
        _operator(op).fake = fn
        return fn

    return register if func is None else register(func)


impl_abstract = register_fake


def register_autograd(
    op: str | CustomOpDef | _ops.OpOverload | _ops.OpOverloadPacket,
    backward: Callable[..., typing.Any],
    /,
    *,
    setup_context: Callable[..., typing.Any] | None = None,
    lib: Library | None = None,
) -> None:
    """Register the gradient of an operator, as `CustomOpDef.register_autograd` does.

    Args:
        op: The operator, or its name.
        backward: Function of `ctx` and one gradient for each result.
        setup_context: Function `setup_context(ctx, inputs, output)` that saves what `backward` needs.
        lib: Accepted for compatibility.

    Raises:
        AttributeError: If there is no such operator.
    """
    found = _operator(op)
    found.backward, found.setup_context = backward, setup_context


def register_autocast(
    op: str | CustomOpDef | _ops.OpOverload,
    device_type: str,
    cast_inputs: torch.dtype,
    /,
    *,
    lib: Library | None = None,
) -> None:
    """Cast the floating-point operands of an operator under autocast.

    Args:
        op: The operator, or its name.
        device_type: The device of the autocast.
        cast_inputs: The dtype that operands other than `float64` are cast to. The kernel runs without autocast.
        lib: Accepted for compatibility.

    Raises:
        ValueError: If `op` is no operator.

    Example:
        >>> import pytpu as torch
        >>> @torch.library.custom_op("doc_example::same", mutates_args=())
        ... def same(x: torch.Tensor) -> torch.Tensor:
        ...     return x.clone()
        >>> torch.library.register_autocast("doc_example::same", "cpu", torch.bfloat16)
        >>> with torch.autocast("cpu", dtype=torch.bfloat16):
        ...     same(torch.ones(1)).dtype
        torch.bfloat16
    """
    if not isinstance(op, (str, CustomOpDef, _ops.OpOverload)):
        raise ValueError(f"register_autocast({op}): got unexpected type for op: {type(op)}")
    _operator(_qualname_of(op)).autocast[device_type] = cast_inputs


def _qualname_of(op: str | CustomOpDef | _ops.OpOverload) -> str:
    if isinstance(op, str):
        return op
    return op._qualname if isinstance(op, CustomOpDef) else op.overloadpacket._qualified_op_name


def register_torch_dispatch(
    op: str | CustomOpDef | _ops.OpOverload,
    torch_dispatch_class: type,
    func: Callable[..., typing.Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Callable[..., typing.Any]:
    """Register the answer of a mode or a class with ``__torch_dispatch__`` to the calls of an operator.

    Args:
        op: The operator, or its name.
        torch_dispatch_class: The mode's class, or the class of tensors.
        func: The answer: a function of the mode (or the class), the overload, the classes of operands, the arguments
            and the keyword arguments. Without it, a decorator is returned.
        lib: Accepted for compatibility.

    Returns:
        The function, or a decorator.

    Raises:
        ValueError: If `op` is no operator.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.utils._python_dispatch import TorchDispatchMode
        >>> class Quiet(TorchDispatchMode):
        ...     pass
        >>> @torch.library.custom_op("doc_example::loud", mutates_args=())
        ... def loud(x: torch.Tensor) -> torch.Tensor:
        ...     return x * 10
        >>> @torch.library.register_torch_dispatch("doc_example::loud", Quiet)
        ... def answer(mode, func, types, args, kwargs):
        ...     return args[0] / 10
        >>> x = torch.ones(1)
        >>> with Quiet():
        ...     y = loud(x)
        >>> y
        tensor([0.1000])
    """
    if not isinstance(op, (str, CustomOpDef, _ops.OpOverload)):
        raise ValueError(f"register_torch_dispatch({op}): got unexpected type for op: {type(op)}")
    name = _qualname_of(op)

    def register(answer):
        _torch_dispatch.register(name, torch_dispatch_class, answer)
        return answer

    return register if func is None else register(func)


def fallthrough_kernel() -> None:
    """Stand for "no kernel of this dispatch key" in `Library.impl`.

    Raises:
        NotImplementedError: If it is called.
    """
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: Sequence[typing.Any] = ()) -> None:
    """Declare an operator. `impl` registers its kernels.

    Args:
        qualname: `"namespace::name"`.
        schema: Schema, such as `"(Tensor x, int k=2) -> Tensor"`.
        lib: Accepted for compatibility.
        tags: Accepted for compatibility.

    Raises:
        ValueError: If the name does not have this form.
        RuntimeError: If the schema cannot be read.

    Example:
        >>> import pytpu as torch
        >>> torch.library.define("doc_example::twice", "(Tensor x) -> Tensor")
        >>> @torch.library.impl("doc_example::twice", "default")
        ... def twice(x):
        ...     return x * 2
        >>> torch.ops.doc_example.twice(torch.ones(2))
        tensor([2., 2.])
    """
    _register(qualname, schema)


def impl(
    qualname: str | Library,
    types: str | Sequence[str],
    func: Callable[..., typing.Any] | str | None = None,
    *,
    lib: Library | None = None,
) -> Callable[..., typing.Any]:
    """Register a kernel of a declared operator. Without `func`, return a decorator.

    Args:
        qualname: `"namespace::name"`. In the older form: a `Library`.
        types: Devices, dispatch keys of devices, or `"default"` for all. In the older form: the name in the library.
        func: The kernel. In the older form: the dispatch key.
        lib: Accepted for compatibility.

    Raises:
        AttributeError: If there is no such operator.
        NotImplementedError: If the dispatch key is not that of a device.
    """
    if isinstance(qualname, Library):
        # The older form of the decorator: `impl(library, name, dispatch_key)`.
        def register_in(fn):
            qualname.impl(types, fn, func or "")
            return fn

        return register_in

    def register(fn):
        found = _operator(qualname)
        for kind in [types] if isinstance(types, str) else types:
            if kind in (*_BOTH, "default"):
                found.fallback = fn
            elif _KEYS.get(kind, kind) in _DEVICES:
                found.kernels[_KEYS.get(kind, kind)] = fn
            else:
                raise NotImplementedError(f"kernels of the dispatch key {kind} are not supported")
        return fn

    return register if func is None else register(func)


class Library:
    """Operators of one namespace.

    Args:
        ns: The namespace.
        kind: `"DEF"` to declare operators, `"IMPL"` or `"FRAGMENT"` to add to the namespace.
        dispatch_key: Dispatch key of the kernels that do not name one.

    Raises:
        ValueError: If `kind` is unknown.
        RuntimeError: If operators of `aten` or `prim` are to be declared.

    Example:
        >>> import pytpu as torch
        >>> lib = torch.library.Library("doc_library", "DEF")
        >>> lib.define("half(Tensor x) -> Tensor")
        'half'
        >>> lib.impl("half", lambda x: x / 2)
        >>> torch.ops.doc_library.half(torch.ones(2))
        tensor([0.5000, 0.5000])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError("Unsupported kind: ", kind)
        if ns in ("aten", "prim") and kind == "DEF":
            raise RuntimeError(
                f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please put all of your "
                "definitions in a single TORCH_LIBRARY block."
            )
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._names: list[str] = []
        self._overrides: list[tuple[str, str]] = []

    def define(self, schema: str, alias_analysis: str = "", *, tags: Sequence[typing.Any] = ()) -> str:
        """Declare an operator, and return its name.

        Args:
            schema: Name and schema, such as `"twice(Tensor x) -> Tensor"`.
            alias_analysis: Accepted for compatibility.
            tags: Accepted for compatibility.
        """
        name, paren, rest = schema.partition("(")
        define(f"{self.ns}::{name.strip()}", paren + rest)
        self._names.append(name.strip())
        return name.strip()

    def impl(
        self,
        op_name: str | _ops.OpOverload | _ops.OpOverloadPacket,
        fn: Callable[..., typing.Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Register a kernel of an operator.

        Args:
            op_name: Name of the operator, or the operator.
            fn: The kernel.
            dispatch_key: Dispatch key or device. An empty text is that of the library, or all devices.
            with_keyset: Accepted for compatibility.
            allow_override: Accepted for compatibility.

        Raises:
            NotImplementedError: If the dispatch key is not that of a device.
        """
        if fn is fallthrough_kernel:
            return
        if self.ns in ("aten", "prim"):
            self._override(op_name, fn, dispatch_key or self.dispatch_key)
            return
        name = op_name if isinstance(op_name, str) else op_name.__name__.partition(".")[0]
        impl(f"{self.ns}::{name.rpartition('::')[2]}", dispatch_key or self.dispatch_key or "default", fn)

    def _override(
        self, op_name: str | _ops.OpOverload | _ops.OpOverloadPacket, fn: Callable[..., typing.Any], key: str
    ) -> None:
        """Put a kernel in the place of that of an operator of the op table."""
        name = op_name if isinstance(op_name, str) else op_name.name() if hasattr(op_name, "name") else str(op_name)
        name = name.rpartition("::")[2].removeprefix("aten.")
        key = key or "CompositeImplicitAutograd"
        packet = getattr(_ops.aten, name.partition(".")[0], None)
        if packet is None:
            raise RuntimeError(f"Could not find operator aten::{name}")
        _torch_dispatch.override(name.removesuffix(".default"), key, fn)
        self._overrides.append((name.removesuffix(".default"), key))

    def _destroy(self):
        """Remove the operators that this library declared, and the kernels that took the place of others."""
        for name, key in self._overrides:
            _torch_dispatch.restore(name, key)
        self._overrides.clear()
        for name in self._names:
            _REGISTRY.pop(f"{self.ns}::{name}", None)
            _ops._remove(self.ns, name)
        self._names.clear()


class OpCheckError(Exception):
    """A test of `opcheck` failed."""


_TESTS = tuple(_checks.TESTS)


def opcheck(
    op: str | CustomOpDef | _ops.OpOverload | _ops.OpOverloadPacket,
    args: tuple[typing.Any, ...],
    kwargs: dict[str, typing.Any] | None = None,
    *,
    test_utils: str | Sequence[str] = _TESTS,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, typing.Any]:
    """Test whether an operator behaves as its registrations say.

    `test_schema`: arguments change only where the schema says so, and no result shares memory with an argument.
    `test_autograd_registration`: there is a gradient if results require one. `test_faketensor`: the kernel for `meta`
    gives the real shapes and dtypes. `test_aot_dispatch_dynamic`: a second call gives the same results.

    Args:
        op: The operator, or its name.
        args: Sample arguments.
        kwargs: Sample arguments by name.
        test_utils: Name of a test, or names of several.
        raise_exception: If `False`, return errors instead of raising them.
        atol: Absolute tolerance of the last test.
        rtol: Relative tolerance of the last test.

    Returns:
        A dict from the name of each test to `"SUCCESS"` or to the error.

    Raises:
        OpCheckError: If a test failed, and `raise_exception` is `True`.
        ValueError: If a test is unknown.

    Example:
        >>> import pytpu as torch
        >>> @torch.library.custom_op("doc_example::negate", mutates_args=())
        ... def negate(x: torch.Tensor) -> torch.Tensor:
        ...     return -x
        >>> torch.library.opcheck(negate, (torch.ones(2),), test_utils="test_schema")
        {'test_schema': 'SUCCESS'}
    """
    kwargs = kwargs or {}
    tests = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    unknown = set(tests) - set(_TESTS)
    if unknown:
        raise ValueError(f"opcheck: unknown tests {sorted(unknown)}, expected names of {_TESTS}")
    name = (
        op._qualname
        if isinstance(op, CustomOpDef)
        else getattr(getattr(op, "overloadpacket", op), "_qualified_op_name", op)
    )
    found: dict[str, typing.Any] = {}
    for test in tests:
        try:
            _checks.TESTS[test](_operator(name), args, kwargs, atol, rtol)
            found[test] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(
                    f"opcheck(op, ...): {test} failed with {error} (scroll up for stack trace)"
                ) from error
            found[test] = error
    return found


class _FakeContext:
    """What a kernel for `meta` may ask. Sizes that depend on values are not known, so they are an error."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        """Raise `NotImplementedError`: shapes on `meta` are numbers, and this one depends on values."""
        raise NotImplementedError(
            "torch.library.get_ctx().new_dynamic_size: the size of the result depends on values, which tensors on meta "
            "do not have"
        )

    create_unbacked_symint = new_dynamic_size


def get_ctx() -> _FakeContext:
    """Return the context of a kernel for `meta`, which PyTorch uses to make sizes that depend on values.

    Such sizes are not there: its methods raise `NotImplementedError`.
    """
    return _FakeContext()
