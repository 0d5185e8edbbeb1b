"""The backward graph: its nodes, and hooks on what they keep."""

import contextlib
from _thread import allocate_lock
from collections import namedtuple

from .. import _C
from .._tensor import _handle

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
GradientEdge.__doc__ = """Where the gradient of a tensor goes: a node, and which of its outputs the tensor is."""


def get_gradient_edge(tensor):
    """The edge that the gradient of ``tensor`` takes."""
    return GradientEdge(*_C._gradient_edge(tensor))


def increment_version(tensor):
    """Counts a write to a tensor, or to several."""
    for t in (tensor,) if isinstance(tensor, _C.Tensor) else tensor:
        _C._bump_version(t)


class saved_tensors_hooks:
    """Within, what nodes keep for backward is ``pack_hook(x)``, and backward uses ``unpack_hook`` of it."""

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self):
        _C._push_saved_tensors_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *_):
        _C._pop_saved_tensors_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Within, what nodes keep for backward waits on the host."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        def pack(x):
            copy = x.cpu()
            # A copy of its own also where the tensor is on the host already.
            return x.device, copy.clone() if copy is x or x.device.type == "cpu" else copy

        def unpack(packed):
            device, x = packed
            return x.to(device)

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message):
    """Within, hooks on saved tensors are an error with this text."""
    before = _C._disable_saved_tensors_hooks(error_message)
    try:
        yield
    finally:
        _C._disable_saved_tensors_hooks(before)


class _SavedCopies:
    """Copies of saved tensors that were written to, while writes to them are allowed."""

    def __init__(self):
        self.kept = []

    def clear(self):
        """Drops the copies."""
        self.kept.clear()


_mutation_allowed = False


@contextlib.contextmanager
def allow_mutation_on_saved_tensors():
    """Within, tensors that were kept for backward may be written in place: backward sees what they held before."""
    copies = _SavedCopies()

    def pack(x):
        # Kept by value at once: a write cannot be told from here before it happens.
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
    """Several hooks that go together."""

    def __init__(self, handles):
        self._handles = handles

    def remove(self):
        """Removes them."""
        for handle in self._handles:
            handle.remove()
        self._handles = ()


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Calls ``fn`` once a backward: with all gradients when the last is known (``"all"``), or with the first (``"any"``)."""
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
