"""Custom operators, whose kernels are StableHLO modules."""

from __future__ import annotations

import functools
import inspect
import re

import pytpu as torch
from pytpu import _C

from .. import ops as _ops
from ..autograd import Function as _Function
from ..utils import _pytree as pytree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pytpu import Tensor


_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*")


def check_name(name: str) -> None:
    """Check that a name has the form `namespace::name`.

    Raises:
        ValueError: If it does not, or the namespace is that of the op table.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"Expected `name` to be of the form `namespace::name`, got {name!r}")
    if name.partition("::")[0] in ("aten", "prim"):
        raise ValueError(
            f"{name}: operators of {name.partition('::')[0]} are those of the op table: others cannot take their place"
        )


def place_of(fn: Any) -> str | None:
    """Return file and line of a function, or `None`."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    code = getattr(inspect.unwrap(fn), "__code__", None) if callable(fn) else None
    return code and f"{code.co_filename}, line {code.co_firstlineno}"


def filled(value: Any, places: Any) -> Any:
    """Return the arguments of a call with `places` in place of their numbers."""
    if isinstance(value, _C._Place):
        return places[value.index]
    if type(value) in (list, tuple):
        return type(value)(filled(v, places) for v in value)
    if type(value) is dict:
        return {k: filled(v, places) for k, v in value.items()}
    return value


def on_meta(tensors: list[Tensor]) -> list[Tensor]:
    """Return tensors without data, of the same shapes and dtypes."""
    return [torch.empty(t.shape, dtype=t.dtype, device="meta") for t in tensors]


def _tensors(value):
    return [x for x in pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]


def _register(name):
    """Return the operator with this name, for pickles."""
    space, _, op = name.partition("::")
    return getattr(getattr(_ops, space), op)._op


class CustomOp(_C._CustomCall):
    """A custom operator. Call it as the function that it was made of, or as `torch.ops.namespace.name`.

    Arguments that are not tensors are static: each new value makes a new program.
    """

    def __init__(self, name: str, fn: Callable[..., Any] | None = None, cpu: Callable[..., Any] | None = None) -> None:
        check_name(name)
        self._name = name
        self._cpu = cpu
        self._backward: Callable[..., Any] | None = None
        self._setup_context: Callable[..., Any] | None = None
        # Whether autograd differentiates through the function that replaces the kernel on the CPU.
        self._cpu_has_gradient = False
        if fn is not None:
            functools.update_wrapper(self, fn)
        self.__name__ = name.partition("::")[2]
        space, _, op = name.partition("::")
        _ops._add(space, op, self)

    def __repr__(self) -> str:
        return f"<CustomOp({self._name})>"

    def __copy__(self) -> CustomOp:
        return self

    def __deepcopy__(self, memo: Any) -> CustomOp:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _register, (self._name,)

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Set the gradient of the operator.

        Args:
            backward: Function of `ctx` and one gradient for each result. It returns a gradient, or `None`, for each
                positional argument.
            setup_context: Function `setup_context(ctx, inputs, output)` that saves what `backward` needs.
        """
        self._backward, self._setup_context = backward, setup_context
        self.clear()

    def _resolve(self, args, kwargs, tensors, needs_grad):
        """Return a function for calls with such arguments, or a kernel and the way to call it."""
        if not tensors:
            raise RuntimeError(f"{self._name}: expected at least one tensor among the arguments")
        devices = {t.device.type for t in tensors if t.dim() or t.device.type != "cpu"} or {"cpu"}
        device = "tpu" if "tpu" in devices else devices.pop()
        platform = "cpu" if device == "cpu" else _C._custom_platform() if device == "tpu" else None
        if device not in ("cpu", "tpu", "meta"):
            raise NotImplementedError(
                f"Could not run '{self._name}' with arguments from the '{device.upper()}' backend."
            )
        if platform == "cpu" and needs_grad and self._backward is None and self._cpu_has_gradient:
            return self._cpu
        served = self._serve(args, kwargs, tensors, platform, needs_grad)
        is_node = getattr(served, "is_node", False)
        if needs_grad and not is_node and (self._backward is not None or callable(served)):
            return self._differentiable(served)
        return served

    def _serve(self, args, kwargs, tensors, platform, needs_grad):
        """Return the function or kernel for such calls on a platform.

        The platform is `"cpu"`, `"tpu"`, another one, or `None` for device `meta`.
        """
        raise NotImplementedError

    def _run_on_cpu(self, *args, **kwargs):
        """Call the function that replaces the kernel on `cpu` and on XLA:CPU."""
        with torch.no_grad():
            return self._cpu(*args, **kwargs)

    def _differentiable(self, served, why=""):
        """Return a function that makes a call one node of the graph, with the registered gradient.

        `why` is the reason why there is no gradient.
        """
        backward_of, setup_context, name = self._backward, self._setup_context, self._name
        if callable(served):
            run = served
        else:
            run = _Plain(served)

        def call(*args, **kwargs):
            leaves, spec = pytree.tree_flatten((args, kwargs))
            at = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
            made = []

            def forward(ctx, *tensors):
                given = list(leaves)
                for i, t in zip(at, tensors):
                    given[i] = t
                args, kwargs = pytree.tree_unflatten(given, spec)
                result = run(*args, **kwargs)
                if setup_context is not None:
                    setup_context(ctx, inputs=(*args, *kwargs.values()), output=result)
                found, structure = pytree.tree_flatten(result)
                made.append(structure)
                return tuple(found)

            def backward(ctx, *grads):
                if backward_of is None:
                    raise RuntimeError(
                        f"Trying to backward through {name.replace('::', '.')}.default but no autograd formula was "
                        "registered. "
                        "Please use register_autograd to add one."
                        + (f"\nnote: JAX does not differentiate the function: {why}" if why else "")
                    )
                grads = pytree.tree_unflatten(list(grads), made[0])
                found = backward_of(ctx, *grads) if isinstance(grads, tuple) else backward_of(ctx, grads)
                found = found if isinstance(found, tuple) else (found,)
                inputs = (*args, *kwargs.values())
                if len(found) < len(args):
                    raise RuntimeError(
                        f"Expected the gradient function to return {len(args)} gradients, one for each input of "
                        f"{name.replace('::', '.')}.default, but got {len(found)}"
                    )
                flat = []
                for value, grad in zip(inputs, (*found, *(None for _ in range(len(inputs) - len(found))))):
                    count = len(_tensors(value))
                    flat += [None] * count if grad is None else pytree.tree_leaves(grad) if count != 1 else [grad]
                return tuple(flat)

            title = f"GeneratedBackwardFor_{name.replace('::', '_')}_default"
            node = type(title, (_Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})
            found = node.apply(*(leaves[i] for i in at))
            return pytree.tree_unflatten(list(found) if isinstance(found, tuple) else [found], made[0])

        call.is_node = True
        return call


class _Plain(_C._CustomCall):
    """A call of one kernel without a gradient."""

    def __init__(self, served):
        self._served = served

    def _resolve(self, args, kwargs, tensors, needs_grad):
        return self._served


class BodyOp(CustomOp):
    """An operator whose module is a text, or a function that makes the text for each set of shapes."""

    def __init__(
        self,
        name: str,
        body: str | Callable[..., str],
        infer: Callable[..., Any] | None = None,
        cpu: Callable[..., Any] | None = None,
    ) -> None:
        if not isinstance(body, str) and not callable(body):
            raise TypeError(f"{name}: expected `body` to be a str or a callable, but got {type(body).__name__}")
        super().__init__(name, body if callable(body) else None, cpu)
        self._body, self._infer = body, infer

    def _inferred(self, args, kwargs, metas):
        """Return the result of the shape rule: tensors on `meta`, or `None` without a rule."""
        if self._infer is None:
            return None
        found = self._infer(*filled(args, metas), **filled(kwargs, metas))
        many = found if isinstance(found, (tuple, list)) else (found,)
        for y in many:
            if not isinstance(y, torch.Tensor):
                raise TypeError(
                    f"{self._name}: expected `infer` to return tensors on device meta, but got {type(y).__name__}"
                )
        return found

    def _module(self, args, kwargs, metas, found):
        """Return the text of the module."""
        return self._body if isinstance(self._body, str) else self._body(*filled(args, metas), **filled(kwargs, metas))

    def _serve(self, args, kwargs, tensors, platform, needs_grad):
        metas = on_meta(tensors)
        found = self._inferred(args, kwargs, metas)
        if platform is None and found is not None:
            return lambda *args, **kwargs: self._fake(args, kwargs)
        if platform == "cpu" and self._cpu is not None:
            return self._run_on_cpu
        text = self._module(args, kwargs, metas, found)
        if not isinstance(text, str):
            raise TypeError(f"{self._name}: expected `body` to return a str, but got {type(text).__name__}")
        kernel = _C._CustomKernel(self._name, text, place_of(self._body))
        many = len(kernel.results) > 1
        if found is not None:
            wanted = [(tuple(y.shape), y.dtype) for y in (found if isinstance(found, (tuple, list)) else (found,))]
            if wanted != kernel.results:
                raise RuntimeError(
                    f"{self._name}: `infer` says {_shown(wanted)}, but the module returns {_shown(kernel.results)}"
                )
            many = isinstance(found, (tuple, list))
        form = ("list" if isinstance(found, list) else "tuple") if many else "one"
        return kernel, list(range(len(tensors))), form, []

    def _fake(self, args, kwargs):
        """Return results on `meta`."""

        def move(x):
            return torch.empty(x.shape, dtype=x.dtype, device="meta") if isinstance(x, torch.Tensor) else x

        return self._infer(*pytree.tree_map(move, args), **pytree.tree_map(move, kwargs))


def _shown(described):
    return ", ".join(f"{str(dtype).removeprefix('torch.')}{list(shape)}" for shape, dtype in described)


def stablehlo_op(
    name: str,
    body: str | Callable[..., str],
    infer: Callable[..., Any] | None = None,
    *,
    cpu: Callable[..., Any] | None = None,
) -> BodyOp:
    """Make an operator of a StableHLO module.

    The functions of the module become part of the program, so the compiler fuses them with other ops. Call the operator
    with tensors, in the order of the arguments of the module, and with static arguments, which `body` gets. It has no
    gradient until `register_autograd` sets one, as for `torch.library.custom_op`.

    Args:
        name: `"namespace::name"`. The operator is also `torch.ops.namespace.name`.
        body: Text of the module, with a function `@main`. Or a function of the arguments, with tensors on device
            `meta`, that returns the text.
        infer: Shape rule: function of the same arguments that returns a tensor, or a tuple or list of tensors, on
            device `meta`. `None` takes the shapes from the text.
        cpu: Function of tensors that is called instead of the module on device `cpu`, and on `tpu` if that is XLA:CPU.

    Raises:
        ValueError: If the name does not have this form. In a call: if the module cannot be part of a program.
        RuntimeError: In a call: if the arguments or the shape rule do not fit the module.
        TypeError: If `body` is neither a text nor a function.

    Example:
        >>> import pytpu as torch
        >>> double = torch.tpu.stablehlo_op("doc_example::double", '''
        ...     func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        ...       %y = stablehlo.add %x, %x : tensor<4xf32>
        ...       return %y : tensor<4xf32>
        ...     }''')
        >>> double(torch.ones(4))
        tensor([2., 2., 2., 2.])
    """
    return BodyOp(name, body, infer, cpu)
