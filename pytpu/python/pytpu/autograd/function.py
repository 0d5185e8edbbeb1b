"""`torch.autograd.Function`: an operation with a gradient of its own."""

from __future__ import annotations

import functools

from .. import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pytpu import Tensor


if not TYPE_CHECKING:
    Tensor = _C.Tensor

#: Gives the region of a compiled function that records in this thread. `torch.compile` sets it.
_region: Callable[[], Any] | None = None


class FunctionCtx:
    """The argument `ctx` of `forward` and `backward`: it carries values from one to the other.

    Attributes:
        needs_input_grad: Tuple with one `bool` for each argument of `forward`.
    """

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save tensors for `backward`, which finds them in `saved_tensors`.

        Args:
            tensors: Inputs, outputs or other tensors, or `None`.

        Raises:
            TypeError: If an argument is neither a tensor nor `None`.
        """
        for i, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {i} is of type {type(t).__name__}"
                )
        self.to_save = tensors

    save_for_forward = save_for_backward

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Declare the inputs that `forward` has changed in place. They must also be outputs.

        Args:
            tensors: The inputs.
        """
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Declare the outputs that have no gradient.

        Args:
            tensors: The outputs.
        """
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Set what `backward` gets for an output that has no gradient.

        Args:
            value: If `True`, zeros. If `False`, `None`.
        """
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors that were given to `save_for_backward`.

        Raises:
            RuntimeError: If the graph has been freed.
        """
        saved = self.__dict__.get("_saved")
        if saved is None:
            if self.__dict__.get("_released"):
                raise RuntimeError(
                    "Trying to backward through the graph a second time (or directly access saved tensors after they "
                    "have "
                    "already been freed). Saved intermediate values of the graph are freed when you call .backward() "
                    "or "
                    "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second "
                    "time "
                    "or if you need to access saved tensors after calling backward."
                )
            return tuple(self.__dict__.get("to_save", ()))
        node = self.__dict__["_key"]
        return tuple(None if t is None else _C._unsave(t, node) for t in saved)

    @property
    def saved_variables(self) -> tuple[Tensor | None, ...]:
        """Deprecated name of `saved_tensors`."""
        return self.saved_tensors


class BackwardCFunction(FunctionCtx):
    """Base class of all contexts."""


class FunctionMeta(type):
    """Metaclass that makes a class of contexts for each function."""

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        super().__init__(name, bases, attrs)
        cls._context = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls})


def _with_defaults(forward, args, kwargs):
    """Return the arguments as `setup_context` sees them: by position, with the defaults of `forward`."""
    if not kwargs and not getattr(forward, "__defaults__", None):
        return args, kwargs
    import inspect  # It is slow to import, and rarely needed.

    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args, bound.kwargs


def _flatten(outputs):
    return (outputs,) if isinstance(outputs, Tensor) or not isinstance(outputs, (tuple, list)) else tuple(outputs)


class Function(FunctionCtx, metaclass=FunctionMeta):
    """Base class of operations with a gradient of their own.

    A subclass defines the static methods `forward(ctx, *args)` and `backward(ctx, *grads)`, or `forward(*args)`,
    `setup_context(ctx, inputs, output)` and `backward`. Call it by `apply`. `backward` gets one gradient for each
    output, and returns one gradient, or `None`, for each argument of `forward`.

    Example:
        >>> import pytpu as torch
        >>> class Cube(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x**3
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         (x,) = ctx.saved_tensors
        ...         return grad * 3 * x**2
        >>> x = torch.tensor(2.0, requires_grad=True)
        >>> Cube.apply(x).backward()
        >>> x.grad
        tensor(12.)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        import warnings

        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should "
            "invoke them on "
            "the class itself. Instantiating an autograd function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with "
            "static forward method. (Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs. A subclass defines this.

        Args:
            args: The context, unless the subclass defines `setup_context`, then the arguments of `apply`.

        Returns:
            A tensor, or a tuple of tensors and other values.
        """
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what `backward` needs. A subclass may define this, so that `forward` takes no context.

        Args:
            ctx: The context.
            inputs: The arguments of `forward`.
            output: The result of `forward`.
        """
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Compute the gradients of the arguments. A subclass defines this.

        Args:
            ctx: The context.
            grad_outputs: One gradient for each output of `forward`.

        Returns:
            One gradient, or `None`, for each argument of `forward`. Several form a tuple.
        """
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Compute the gradients of the arguments: another name of `backward`."""
        raise NotImplementedError("You must implement either the backward or vjp method.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` without recording, and record `backward` as its gradient.

        Args:
            args: Arguments of `forward` after the context.
            kwargs: Arguments of `forward` by name.

        Returns:
            The result of `forward`.

        Raises:
            RuntimeError: If a tensor that is marked as dirty is not an output, or is a leaf that requires gradients.
        """
        region = _region and _region()
        if region is not None:
            return region.apply(cls.apply, args, kwargs)
        sets_up = cls.setup_context is not Function.setup_context
        if sets_up:
            args, kwargs = _with_defaults(cls.forward, args, kwargs)
        ctx = cls._context()
        recording = _C.is_grad_enabled()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        before = _C._set_grad_enabled(False)
        try:
            if sets_up:
                result = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, result)
            else:
                result = cls.forward(ctx, *args, **kwargs)
        finally:
            _C._set_grad_enabled(before)
        needs = recording and any(ctx.needs_input_grad)
        dirty = ctx.__dict__.get("dirty_tensors", ())
        outputs = list(_flatten(result))
        for d in dirty:
            if not any(d is y for y in outputs):
                raise RuntimeError(
                    "Some elements marked as dirty during the forward method were not returned as output. The inputs "
                    "that "
                    "are modified inplace must all be outputs of the Function."
                )
            if recording and d.requires_grad and d.is_leaf:
                raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
        given = list(outputs)
        storages = {a._storage_id() for a in args if isinstance(a, Tensor) and a.numel()}
        ctx._views = views = []
        for i, y in enumerate(outputs):
            if isinstance(y, Tensor) and not any(y is d for d in dirty):
                # An input that is returned, and a view that is made inside, are new tensors outside.
                returned = any(y is a for a in args)
                views.append(returned or y._is_view() and y._storage_id() in storages)
                if returned or y._is_view():
                    outputs[i] = y.detach()
            elif isinstance(y, Tensor):
                views.append(False)
        if needs:
            cls._record(ctx, args, given, outputs)
        else:
            ctx.__dict__.pop("to_save", None)
        if isinstance(result, Tensor) or not isinstance(result, (tuple, list)):
            return outputs[0]
        return tuple(outputs)

    @classmethod
    def _record(cls, ctx, args, given, outputs):
        places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        tensors = [y for y in outputs if isinstance(y, Tensor)]
        # The tensors that `forward` returned, which aliases may have replaced.
        inner = [y for y in given if isinstance(y, Tensor)]
        fixed = ctx.__dict__.get("non_differentiable", ())
        differentiable = [
            (y.dtype.is_floating_point or y.dtype.is_complex) and not any(i is f for f in fixed)
            for i, y in zip(inner, tensors)
        ]
        number = {id(y): i for i, y in enumerate(inner) if not any(y is a for a in args) or y is tensors[i]}
        ctx._saved = [None if t is None else _C._save(t, number.get(id(t))) for t in ctx.__dict__.pop("to_save", ())]
        rule = cls.vjp if cls.vjp is not Function.vjp else cls.backward

        def run(*grads):
            if ctx.__dict__.get("materialize_grads", True):
                node = _C._node_of(key)
                # A context may leave out the outputs that have no gradient.
                all_grads = ctx.__dict__.get("_materialize_non_diff_grads", True)
                grads = [
                    _C._zeros_for(node, i) if g is None and (all_grads or differentiable[i]) else g
                    for i, g in enumerate(grads)
                ]
            given = iter(grads)
            grads = [next(given) if is_one else None for is_one in is_tensor]
            found = rule(ctx, *grads)
            if not isinstance(found, (tuple, list)):
                found = (found,)
            # There may be more trailing `None`s than arguments.
            if len(found) > count and all(g is None for g in found[count:]):
                found = found[:count]
            if len(found) != count:
                raise RuntimeError(
                    f"function {cls.__name__}Backward returned an incorrect number of gradients "
                    f"(expected {count}, got {len(found)})"
                )
            for g in found:
                if g is not None and not isinstance(g, Tensor):
                    raise RuntimeError(f"expected Variable or None (got {type(g).__name__})")
            return tuple(found[i] if ctx.needs_input_grad[i] else None for i in places)

        def release():
            ctx.__dict__["_saved"] = None
            ctx.__dict__["_released"] = True

        # `run` must not refer to the arguments: the node would keep them.
        count, is_tensor = len(args), [isinstance(y, Tensor) for y in outputs]
        dirty = [any(y is d for d in ctx.__dict__.get("dirty_tensors", ())) for y in tensors]
        key = ctx._key = _C._attach_function(
            cls.__name__ + "Backward",
            [args[i] for i in places],
            tensors,
            differentiable,
            dirty,
            ctx.__dict__.pop("_views"),
            run,
            release,
            ctx,
        )
        for y, is_dirty in zip(tensors, dirty):
            if is_dirty:
                _C._bump_version(y)


class _NoSecondBackward(Function):
    """Identity whose gradient is an error."""

    @staticmethod
    def forward(ctx, *tensors):
        return tuple(t.detach() for t in tensors)

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a `backward` that cannot be differentiated again.

    It runs without recording. Differentiating its results raises `RuntimeError`.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.autograd.function import once_differentiable
        >>> class Double(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 2
        ...     @staticmethod
        ...     @once_differentiable
        ...     def backward(ctx, grad):
        ...         return grad * 2
        >>> x = torch.ones(1, requires_grad=True)
        >>> Double.apply(x).backward()
        >>> x.grad
        tensor([2.])
    """

    @functools.wraps(f)
    def wrapper(ctx, *args):
        before = _C._set_grad_enabled(False)
        try:
            found = f(ctx, *args)
        finally:
            _C._set_grad_enabled(before)
        if not before or not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            return found
        found = found if isinstance(found, tuple) else (found,)
        tensors = [g for g in found if isinstance(g, Tensor)]
        # Their derivative by the arguments is unknown. Raise the error only when it is needed.
        marked = iter(_NoSecondBackward.apply(*(g.detach().requires_grad_() for g in tensors)) if tensors else ())
        return tuple(next(marked) if isinstance(g, Tensor) else g for g in found)

    return wrapper


class InplaceFunction(Function):
    """Base class of operations that may work in place.

    Args:
        inplace: Whether to work in place.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def _map_tensors(f, value):
    if isinstance(value, Tensor):
        return f(value)
    if isinstance(value, (tuple, list)):
        mapped = [_map_tensors(f, v) for v in value]
        return type(value)(*mapped) if hasattr(value, "_fields") else type(value)(mapped)
    if isinstance(value, dict):
        return {k: _map_tensors(f, v) for k, v in value.items()}
    return value


class NestedIOFunction(Function):
    """Base class of operations on nested tuples, lists and dicts of tensors.

    Example:
        >>> import pytpu as torch
        >>> class Sum(torch.autograd.function.NestedIOFunction):
        ...     @staticmethod
        ...     def forward(ctx, pair):
        ...         return pair[0] + pair[1]
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return (grad, grad)
        >>> a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
        >>> Sum.apply((a, b)).backward()
        >>> a.grad, b.grad
        (tensor([1.]), tensor([1.]))
    """

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` on the nested arguments, and record `backward`.

        Args:
            args: Nested tuples, lists and dicts of tensors.
            kwargs: Further arguments of `forward`, by name.

        Returns:
            The nested result of `forward`.
        """
        flat = []

        def number(t):
            flat.append(t)
            return _Place(len(flat) - 1)

        shape = _map_tensors(number, args)
        results = []

        def fill(value, tensors):
            if isinstance(value, _Place):
                return tensors[value.index]
            if isinstance(value, (tuple, list)):
                return type(value)(fill(v, tensors) for v in value)
            if isinstance(value, dict):
                return {k: fill(v, tensors) for k, v in value.items()}
            return value

        class Flat(Function):
            @staticmethod
            def forward(ctx, *tensors):
                nested = cls.forward(ctx, *fill(shape, tensors), **kwargs)
                out = []

                def place(t):
                    out.append(t)
                    return _Place(len(out) - 1)

                results.append(_map_tensors(place, nested))
                return tuple(out)

            @staticmethod
            def backward(ctx, *grads):
                found = cls.backward(ctx, *_flatten(fill(results[0], grads)))
                out = []
                _map_tensors(out.append, found if isinstance(found, tuple) else (found,))
                return tuple(out)

        Flat.__name__ = cls.__name__
        outputs = Flat.apply(*flat)
        return fill(results[0], outputs)


class _Place:
    """Place of a tensor in a structure."""

    def __init__(self, index):
        self.index = index
