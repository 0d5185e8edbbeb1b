"""Handles for registered hooks, and the autograd wrapper behind full backward hooks."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from pytpu.nn import Module

_ids = itertools.count()


class RemovableHandle:
    """The handle of a hook, which can remove it. It is also a context manager."""

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.id = next(_ids)
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        extras = extra_dict if isinstance(extra_dict, (list, tuple)) else (extra_dict,)
        self.extra_dict_ref = tuple(weakref.ref(d) for d in extras if d is not None)

    def remove(self) -> None:
        """Remove the hook. It is no error if it was removed before."""
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self):
        return (self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref))

    def __setstate__(self, state):
        hooks, self.id, extras = state
        # A weak reference needs an object. A new `OrderedDict` dies at once, which gives a dead reference.
        self.hooks_dict_ref = weakref.ref(hooks if hooks is not None else OrderedDict())
        self.extra_dict_ref = tuple(weakref.ref(d if d is not None else OrderedDict()) for d in extras)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc):
        self.remove()


class TensorHandle(RemovableHandle):
    """Removes a hook of a tensor."""

    def __init__(self, owner):
        super().__init__(OrderedDict())
        self._owner = owner

    def remove(self):
        """Remove the hook. It is no error if it was removed before."""
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.remove()


def unserializable_hook(f):
    """Mark a hook that must not be saved with its owner."""
    f.__torch_unserializable__ = True
    return f


_boundary = None


def _boundary_function():
    # Made on first use: only modules with backward hooks need `autograd.Function`.
    global _boundary
    if _boundary is None:
        import pytpu as torch

        class HookBoundary(torch.autograd.Function):
            """The identity. It receives all gradients that cross it at once."""

            @staticmethod
            def forward(ctx, state, *tensors):
                ctx.state = state
                # Hooks get `None` for a gradient that did not arrive.
                ctx.set_materialize_grads(False)
                views = tuple(t.view_as(t) for t in tensors)
                # A detached input stays detached inside of the module.
                ctx.mark_non_differentiable(*[v for v, t in zip(views, tensors) if not t.requires_grad])
                return views

            @staticmethod
            def backward(ctx, *grads):
                return (None, *ctx.state(grads))

        _boundary = HookBoundary
    return _boundary


class BackwardHook:
    """A caller of a module's backward hooks, after the gradients of its outputs and of its inputs are known."""

    def __init__(
        self, module: Module, user_hooks: Sequence[Callable[..., Any]], user_pre_hooks: Sequence[Callable[..., Any]]
    ) -> None:
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs = None
        self.input_positions = None
        self.n_inputs = 0
        self.n_outputs = 0
        self.output_positions = None

    @staticmethod
    def _scatter(values, positions, size):
        spread = [None] * size
        for position, value in zip(positions, values):
            spread[position] = value
        return tuple(spread)

    def _cross(self, args, on_grads):
        """Send the tensors among `args` through the boundary. Return the new arguments and the tensors' positions."""
        import pytpu as torch

        positions = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]
        if not (torch.is_grad_enabled() and any(args[i].requires_grad for i in positions)):
            return args, None
        tensors = _boundary_function().apply(on_grads, *[args[i] for i in positions])
        crossed = list(args)
        for position, tensor in zip(positions, tensors):
            crossed[position] = tensor
        # A namedtuple stays one.
        return (type(args)(*crossed) if hasattr(args, "_fields") else type(args)(crossed)), positions

    def _on_output_grads(self, grads):
        for hook in self.user_pre_hooks:
            spread = self._scatter(grads, self.output_positions, self.n_outputs)
            replaced = hook(self.module, spread)
            if replaced is None:
                continue
            replaced = replaced if isinstance(replaced, tuple) else (replaced,)
            if len(replaced) != self.n_outputs:
                raise RuntimeError(
                    "Backward pre hook returned an invalid number of grad_output, "
                    f"got {len(replaced)}, but expected {self.n_outputs}"
                )
            grads = tuple(replaced[i] for i in self.output_positions)
        self.grad_outputs = self._scatter(grads, self.output_positions, self.n_outputs)
        if self.input_positions is None:
            # No input needs a gradient, so the hooks must run now.
            if self.user_hooks:
                import warnings

                warnings.warn(
                    "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                    "inputs require gradients. See "
                    "https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
                    "#torch.nn.Module.register_full_backward_hook for more details.",
                    stacklevel=5,
                )
            for hook in self.user_hooks:
                replaced = hook(self.module, self._scatter((), (), self.n_inputs), self.grad_outputs)
                if replaced is not None and not (isinstance(replaced, tuple) and all(g is None for g in replaced)):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always return None "
                        "or None for all gradients."
                    )
            self.grad_outputs = None
        return grads

    def _on_input_grads(self, grads):
        if self.grad_outputs is None:
            # The gradient has reached the inputs without passing the outputs, as in a second backward. As in PyTorch,
            # hooks do not see it.
            return grads
        spread = self._scatter(grads, self.input_positions, self.n_inputs)
        for hook in self.user_hooks:
            replaced = hook(self.module, spread, self.grad_outputs)
            if replaced is None:
                continue
            replaced = replaced if isinstance(replaced, tuple) else (replaced,)
            if len(replaced) != len(spread):
                raise RuntimeError(
                    f"Backward hook returned an invalid number of grad_input, got {len(replaced)}, "
                    f"but expected {len(spread)}"
                )
            spread = replaced
        self.grad_outputs = None
        return tuple(spread[i] for i in self.input_positions)

    def setup_input_hook(self, args):
        """Wrap the positional inputs of a call."""
        self.n_inputs = len(args)
        args, self.input_positions = self._cross(args, self._on_input_grads)
        return args

    def setup_output_hook(self, result):
        """Wrap the result of a call: a tensor, or a tuple that holds tensors."""
        import pytpu as torch

        single = isinstance(result, torch.Tensor)
        if not single and not isinstance(result, tuple):
            import warnings

            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(result)}",
                stacklevel=5,
            )
        outputs = result if isinstance(result, tuple) else (result,)
        self.n_outputs = len(outputs)
        self.output_positions = [i for i, o in enumerate(outputs) if isinstance(o, torch.Tensor)]
        outputs, _ = self._cross(outputs, self._on_output_grads)
        return outputs if isinstance(result, tuple) else outputs[0]


def call_node_hooks(module, hooks, args, result):
    """Register hooks of the older kind, from `Module.register_backward_hook`, on the node that made `result`.

    They get the gradients of that one node. For a module that records several nodes, these are the gradients of the
    inputs of the last node.
    """
    import functools
    import warnings

    import pytpu as torch

    tensor, nested = result, False
    while not isinstance(tensor, torch.Tensor):
        nested = nested or not isinstance(tensor, tuple)
        tensor = (
            next(v for v in tensor.values() if isinstance(v, torch.Tensor)) if isinstance(tensor, dict) else tensor[0]
        )
    node = tensor.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(functools.wraps(hook)(functools.partial(hook, module)))
    text = _missing_gradients(args, result, node, nested)
    if text is not None:
        warnings.warn(
            f"Using {text} Please use register_full_backward_hook to get the documented behavior.",
            FutureWarning,
            stacklevel=4,
        )


def _missing_gradients(args, result, node, nested):
    """Describe the gradients that a hook of the older kind does not get, or return `None` if it gets all."""
    import pytpu as torch

    deprecated = "is deprecated and will be removed in future versions. This hook will be missing some"
    results = result if isinstance(result, tuple) else (result,)
    if nested or not all(isinstance(r, torch.Tensor) for r in results):
        return (
            "non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors "
            f"{deprecated} of the grad_output."
        )
    if not all(isinstance(a, torch.Tensor) for a in args):
        return (
            "non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of Tensors is "
            "deprecated and will be removed in future versions. This hook will be missing some of the grad_input."
        )
    if len({r.grad_fn for r in results if r.grad_fn is not None}) > 1:
        return (
            f"a non-full backward hook when outputs are generated by different autograd Nodes {deprecated} grad_output."
        )
    sources = {a.grad_fn for a in args if a.grad_fn is not None}
    for following, _ in node.next_functions:
        if following is not None and following not in sources and not hasattr(following, "variable"):
            return (
                f"a non-full backward hook when the forward contains multiple autograd Nodes {deprecated} grad_input."
            )
    return None
