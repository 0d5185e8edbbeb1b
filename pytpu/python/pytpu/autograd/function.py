"""``torch.autograd.Function``: an operation whose gradient the user writes."""

import functools

from .. import _C

Tensor = _C.Tensor


class _Saved:
    """A saved tensor and the version it had."""

    __slots__ = ("tensor", "version", "output")

    def __init__(self, tensor, output):
        # An output is kept without its history, or the node would own itself.
        self.tensor = tensor if output is None else tensor.detach()
        self.version = tensor._version
        self.output = output


class FunctionCtx:
    """What ``forward`` leaves for ``backward``."""

    def save_for_backward(self, *tensors):
        """Keeps tensors for ``saved_tensors``."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {tensors.index(t)} is of type {type(t).__name__}"
                )
        self.to_save = tensors

    save_for_forward = save_for_backward

    def mark_dirty(self, *tensors):
        """Names inputs that ``forward`` changed in place."""
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors):
        """Names outputs that have no gradient."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value):
        """Whether a gradient that never came is given as zeros (True) or as None."""
        self.materialize_grads = value

    @property
    def saved_tensors(self):
        """The tensors given to ``save_for_backward``."""
        saved = self.__dict__.get("_saved")
        if saved is None:
            if self.__dict__.get("_released"):
                raise RuntimeError(
                    "Trying to backward through the graph a second time (or directly access saved tensors after they have "
                    "already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
                    "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time "
                    "or if you need to access saved tensors after calling backward."
                )
            return tuple(self.__dict__.get("to_save", ()))
        return tuple(None if s is None else self._unpack(s) for s in saved)

    def _unpack(self, s):
        if s.tensor._version != s.version:
            t = s.tensor
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{t.type()} {list(t.shape)}] is at version {t._version}; expected version {s.version} instead. Hint: "
                "enable anomaly detection to find the operation that failed to compute its gradient, with "
                "torch.autograd.set_detect_anomaly(True)."
            )
        if s.output is None:
            return s.tensor
        node = self.__dict__["_node"]()
        return s.tensor if node is None else _C._output_of(s.tensor, node, s.output)


class _Meta(type):
    """Gives each function the class of its context, which users see as the node."""

    def __init__(cls, name, bases, attrs):
        super().__init__(name, bases, attrs)
        cls._context = type(name + "Backward", (FunctionCtx,), {"_function": cls})


def _flatten(outputs):
    return (outputs,) if isinstance(outputs, Tensor) or not isinstance(outputs, (tuple, list)) else tuple(outputs)


class Function(metaclass=_Meta):
    """Subclass it with static methods ``forward(ctx, *args)`` and ``backward(ctx, *grads)``, and call ``apply``."""

    @staticmethod
    def forward(*args, **kwargs):
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs, output):
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def vjp(ctx, *grad_outputs):
        raise NotImplementedError("You must implement either the backward or vjp method.")

    @classmethod
    def apply(cls, *args, **kwargs):
        """Runs ``forward`` and records ``backward``."""
        ctx = cls._context()
        recording = _C.is_grad_enabled()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        before = _C._set_grad_enabled(False)
        try:
            if cls.setup_context is not Function.setup_context:
                result = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, result)
            else:
                result = cls.forward(ctx, *args, **kwargs)
        finally:
            _C._set_grad_enabled(before)
        needs = recording and any(ctx.needs_input_grad)
        dirty = ctx.__dict__.get("dirty_tensors", ())
        outputs = list(_flatten(result))
        for i, y in enumerate(outputs):
            if isinstance(y, Tensor) and not any(y is d for d in dirty):
                # An input that is given back, and a view made within, are new tensors outside.
                if any(y is a for a in args) or y._is_view():
                    outputs[i] = y.detach()
        if needs:
            cls._record(ctx, args, outputs)
        else:
            ctx.__dict__.pop("to_save", None)
        if isinstance(result, Tensor) or not isinstance(result, (tuple, list)):
            return outputs[0]
        return tuple(outputs)

    @classmethod
    def _record(cls, ctx, args, outputs):
        places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        tensors = [y for y in outputs if isinstance(y, Tensor)]
        fixed = ctx.__dict__.get("non_differentiable", ())
        differentiable = [y.dtype.is_floating_point and not any(y is f for f in fixed) for y in tensors]
        number = {id(y): i for i, y in enumerate(tensors)}
        ctx._saved = [None if t is None else _Saved(t, number.get(id(t))) for t in ctx.__dict__.pop("to_save", ())]
        rule = cls.vjp if cls.vjp is not Function.vjp else cls.backward

        def node():
            return _C._node_of(key)

        def run(*grads):
            if ctx.__dict__.get("materialize_grads", True):
                grads = [_C._zeros_for(node(), i) if g is None else g for i, g in enumerate(grads)]
            given = iter(grads)
            grads = [next(given) if is_one else None for is_one in is_tensor]
            found = rule(ctx, *grads)
            if not isinstance(found, (tuple, list)):
                found = (found,)
            # Trailing Nones may be more than there are arguments.
            if len(found) > len(args) and all(g is None for g in found[len(args) :]):
                found = found[: len(args)]
            if len(found) != len(args):
                raise RuntimeError(
                    f"function {cls.__name__}Backward returned an incorrect number of gradients "
                    f"(expected {len(args)}, got {len(found)})"
                )
            return tuple(found[i] if ctx.needs_input_grad[i] else None for i in places)

        def release():
            ctx.__dict__["_saved"] = None
            ctx.__dict__["_released"] = True

        is_tensor = [isinstance(y, Tensor) for y in outputs]
        ctx._node = node
        key = _C._attach_function(
            cls.__name__ + "Backward", [args[i] for i in places], tensors, differentiable, run, release
        )
        for y in tensors:
            if any(y is d for d in ctx.__dict__.get("dirty_tensors", ())):
                _C._bump_version(y)


def once_differentiable(f):
    """For a ``backward`` that cannot be differentiated again."""

    @functools.wraps(f)
    def wrapper(ctx, *args):
        before = _C._set_grad_enabled(False)
        try:
            return f(ctx, *args)
        finally:
            _C._set_grad_enabled(before)

    return wrapper
