"""The backward graph: its nodes, and hooks on saved tensors."""

from __future__ import annotations

import contextlib
from _thread import allocate_lock
from collections import namedtuple

from .. import _C
from .._tensor import _handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Literal

    from pytpu import Tensor
    from pytpu.utils.hooks import RemovableHandle


__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]

Node = _C.Node

GradientEdge = namedtuple("GradientEdge", ["node", "output_nr", "ownership_token"], defaults=[None])
GradientEdge.__doc__ = (
    """Edge of the graph that the gradient of a tensor takes: a node, and the number of one of its outputs."""
)


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge of the graph that the gradient of `tensor` takes.

    Args:
        tensor: Tensor that requires gradients.

    Returns:
        A `GradientEdge`, which `backward` and `grad` take in place of the tensor.

    Raises:
        RuntimeError: If `tensor` does not require gradients.

    Example:
        >>> import pytpu as torch
        >>> x = torch.ones(1, requires_grad=True)
        >>> y = x * 2
        >>> edge = torch.autograd.graph.get_gradient_edge(y)
        >>> torch.autograd.grad(y * 3, edge)
        (tensor([3.]),)
    """
    return GradientEdge(*_C._gradient_edge(tensor))


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Count a write to a tensor, or to several tensors.

    Autograd then notices a change of a saved tensor that it does not see itself.

    Args:
        tensor: The tensors that were written to.
    """
    for t in (tensor,) if isinstance(tensor, _C.Tensor) else tensor:
        _C._bump_version(t)


class saved_tensors_hooks:
    """Context manager in which saved tensors are packed and unpacked by functions.

    Args:
        pack_hook: Function of a tensor that the graph saves. It returns a value to keep instead.
        unpack_hook: Function of that value. It returns a tensor with the contents of the saved one.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> with torch.autograd.graph.saved_tensors_hooks(lambda x: x.numpy(), torch.from_numpy):
        ...     y = x * x
        >>> y.backward()
        >>> x.grad
        tensor(6.)
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        _C._push_saved_tensors_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *_: Any) -> None:
        _C._pop_saved_tensors_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Context manager that keeps saved tensors on the CPU, and copies them back for backward.

    Args:
        pin_memory: Accepted for compatibility.
        device_type: Accepted for compatibility.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> with torch.autograd.graph.save_on_cpu():
        ...     y = x * x
        >>> y.backward()
        >>> x.grad
        tensor(6.)
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(x):
            copy = x.cpu()
            # Copy also if the tensor is on the host already.
            return x.device, copy.clone() if copy is x or x.device.type == "cpu" else copy

        def unpack(packed):
            device, x = packed
            return x.to(device)

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Return a context manager in which `saved_tensors_hooks` raises an error.

    Args:
        error_message: Text of the `RuntimeError`.

    Example:
        >>> import pytpu as torch
        >>> with torch.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
        ...     try:
        ...         with torch.autograd.graph.save_on_cpu():
        ...             pass
        ...     except RuntimeError as error:
        ...         print(error)
        no hooks here
    """
    before = _C._disable_saved_tensors_hooks(error_message)
    try:
        yield
    finally:
        _C._disable_saved_tensors_hooks(before)


class _SavedCopies:
    """Copies of saved tensors, while writes to these are allowed."""

    def __init__(self):
        self.kept = []

    def clear(self) -> None:
        """Drop the copies."""
        self.kept.clear()


_mutation_allowed = False


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_SavedCopies]:
    """Return a context manager in which saved tensors may be written to.

    The graph keeps a copy of each tensor that it saves. Backward must run within the block.

    Raises:
        RuntimeError: If two such blocks are nested.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
        ...     y = x.clone()
        ...     z = y * y
        ...     _ = y.zero_()
        ...     z.backward()
        >>> x.grad
        tensor(6.)
    """
    copies = _SavedCopies()

    def pack(x):
        # Copy at once: a later write cannot be noticed before it happens.
        copies.kept.append(x.clone())
        return len(copies.kept) - 1

    def unpack(i):
        if i >= len(copies.kept):
            raise RuntimeError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' contextin which the graph was "
                "originally recorded."
            )
        return copies.kept[i]

    global _mutation_allowed
    if _mutation_allowed:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    _mutation_allowed = True
    try:
        with saved_tensors_hooks(pack, unpack):
            yield copies
    finally:
        _mutation_allowed = False
        copies.clear()


class _Handles:
    """Handle of several hooks."""

    def __init__(self, handles):
        self._handles = handles

    def remove(self):
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles = ()


def register_multi_grad_hook(
    tensors: Sequence[Tensor],
    fn: Callable[[Sequence[Tensor | None]], None] | Callable[[Tensor], None],
    *,
    mode: Literal["all", "any"] = "all",
) -> RemovableHandle:
    """Call `fn` once in each backward pass, when gradients of `tensors` are known.

    Args:
        tensors: Tensors. Those that do not require gradients have the gradient `None`.
        fn: With `mode="all"`, function of the list of all gradients, called when the last one is known. With
            `mode="any"`, function of the first gradient that is known.
        mode: `"all"` or `"any"`.

    Returns:
        A handle whose `remove()` removes the hooks.

    Raises:
        ValueError: If `mode` is unknown.

    Example:
        >>> import pytpu as torch
        >>> a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
        >>> handle = torch.autograd.graph.register_multi_grad_hook([a, b], print)
        >>> (a + 2 * b).sum().backward()
        [tensor([1.]), tensor([2.])]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = allocate_lock()
    if mode == "any":
        last = [None]

        def first(grad):
            task = _C._current_graph_task_id()
            with lock:
                if last[0] == task:
                    return
                last[0] = task
            fn(grad)

        return _handle(_Handles([t.register_hook(first) for t in tensors if t.requires_grad]))
    nodes = [_C._gradient_edge(t)[0] if t.requires_grad else None for t in tensors]
    expected, seen, buffers = {}, {}, {}

    def hook_for(index):
        def hook(grad):
            task = _C._current_graph_task_id()
            with lock:
                if task not in buffers:
                    buffers[task] = [None] * len(tensors)
                    seen[task] = 0
                    expected[task] = sum(n is not None and _C._will_engine_execute_node(n) for n in nodes)
                buffers[task][index] = grad
                seen[task] += 1
                done = seen[task] == expected[task]
                grads = buffers[task]
                if done:
                    del buffers[task], seen[task], expected[task]
            if done:
                fn(grads)

        return hook

    return _handle(_Handles([t.register_hook(hook_for(i)) for i, t in enumerate(tensors) if t.requires_grad]))
