"""`ModTracker`: which modules run their forward or backward now."""

from __future__ import annotations

import weakref

from ... import _C, Tensor
from ...autograd.graph import register_multi_grad_hook
from ...nn.modules.module import Module, register_module_forward_hook, register_module_forward_pre_hook
from ...utils._pytree import tree_leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["ModTracker"]


def with_gradients(values: object) -> list[Tensor]:
    """Return the tensors of a nested structure that require gradients."""
    return [value for value in tree_leaves(values) if isinstance(value, Tensor) and value.requires_grad]


class ModTracker:
    """A context that knows which modules are running, by their names.

    The name of a module is its path from the module whose forward was called first, which has the name of its class:
    `"Net.layers.0"`.

    Example::

        with ModTracker() as tracker:
            model(x)  # in the forward of a layer, `tracker.parents` is {"Global", "Net", "Net.layers.0"}
    """

    #: The names of the modules whose forward or backward runs now, and `"Global"`.
    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._named_below: weakref.WeakSet[Module] = weakref.WeakSet()
        self._running: dict[str, int] = {}
        self._user_hooks: dict[str, Callable[..., Any]] = {}
        #: What ends the backward of modules whose inputs need no gradients: it ends with the whole backward.
        self._at_end: list[Callable[..., None]] = []
        self._is_end_queued = False
        #: Whether the functions of the end of a backward pass run.
        self._is_ending = False

    @property
    def is_bw(self) -> bool:
        """Whether a backward pass runs now."""
        return self._is_ending or _C._current_graph_task_id() != -1

    def get_known_fqn(self, mod: Module) -> str | None:
        """Return the name of a module, or `None` if it has not run."""
        return self._names.get(mod)

    def register_user_hooks(
        self,
        pre_fw_hook: Callable[[Module, Any], None] | None = None,
        post_fw_hook: Callable[[Module, Any, Any], None] | None = None,
        pre_bw_hook: Callable[[Module | None, Any], None] | None = None,
        post_bw_hook: Callable[[Module | None, Any], None] | None = None,
    ) -> None:
        """Call functions around the forward and backward of each module. The module is among `parents` then.

        Args:
            pre_fw_hook: gets the module and its inputs.
            post_fw_hook: gets the module, its inputs and its outputs.
            pre_bw_hook: gets the module and gradients of its outputs. The module is `None` if it is gone.
            post_bw_hook: gets the module and gradients of its inputs.

        Raises:
            AssertionError: if there is such a function already.
        """
        given = {
            "pre_fw_hook": pre_fw_hook,
            "post_fw_hook": post_fw_hook,
            "pre_bw_hook": pre_bw_hook,
            "post_bw_hook": post_bw_hook,
        }
        for name, hook in given.items():
            if hook is None:
                continue
            if name in self._user_hooks:
                raise AssertionError(
                    f"Only one {name} can be registered at a time Clear the existing hook by calling "
                    "``clear_user_hooks`` before registering a new one"
                )
            self._user_hooks[name] = hook

    def clear_user_hooks(self) -> None:
        """Forget the functions of `register_user_hooks`."""
        self._user_hooks.clear()

    def _call_user_hook(self, kind: str, *arguments: Any) -> None:
        hook = self._user_hooks.get(kind)
        if hook is not None:
            hook(*arguments)

    def _name_of(self, module: Module) -> str:
        """Return the name of a module. The first call names the modules below it too."""
        name = self._names.setdefault(module, type(module).__name__)
        if module not in self._named_below:
            self._named_below.add(module)
            for key, child in module.named_children():
                self._names[child] = f"{name}.{key}"
                self._name_of(child)
        return name

    def _begin(self, name: str) -> None:
        self._running[name] = self._running.get(name, 0) + 1 if name in self.parents else 1
        self.parents.add(name)

    def _end(self, name: str) -> None:
        if name in self.parents:
            self._running[name] -= 1
            if self._running[name] == 0:
                self.parents.discard(name)

    def _backward_begins(self, module: weakref.ref[Module], name: str) -> Callable[..., None]:
        def begin(*gradients: Any) -> None:
            self._queue_end()
            self._begin(name)
            self._call_user_hook("pre_bw_hook", module(), gradients)

        return begin

    def _backward_ends(self, module: weakref.ref[Module], name: str) -> Callable[..., None]:
        def end(*gradients: Any) -> None:
            self._call_user_hook("post_bw_hook", module(), gradients)
            self._end(name)

        return end

    def _queue_end(self) -> None:
        """Forget the modules of this backward when it ends."""
        if self._is_end_queued:
            return
        self._is_end_queued = True
        ends, self._at_end = self._at_end[::-1], []

        def end() -> None:
            self._is_ending = True
            try:
                for each in ends:
                    each()
            finally:
                self.parents = {"Global"}
                self._is_end_queued = self._is_ending = False

        _C._at_end_of_backward(end)

    def _fw_pre_hook(self, mod: Module, input: Any) -> None:
        name, module = self._name_of(mod), weakref.ref(mod)
        self._begin(name)
        self._call_user_hook("pre_fw_hook", mod, input)
        if self.is_bw:
            return
        tensors = with_gradients(input)
        if tensors:
            register_multi_grad_hook(tensors, self._backward_ends(module, name))
        else:
            self._at_end.append(self._backward_ends(module, name))

    def _fw_post_hook(self, mod: Module, input: Any, output: Any) -> None:
        name = self._name_of(mod)
        self._call_user_hook("post_fw_hook", mod, input, output)
        self._end(name)
        tensors = with_gradients(output)
        if tensors and not self.is_bw:
            register_multi_grad_hook(tensors, self._backward_begins(weakref.ref(mod), name), mode="any")

    def __enter__(self) -> ModTracker:
        self._handles = [
            register_module_forward_pre_hook(self._fw_pre_hook),
            register_module_forward_hook(self._fw_post_hook, always_call=True),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._handles:
            handle.remove()
