"""What happens around the forward of a module with sharded parameters."""

from __future__ import annotations

import copy
import dataclasses

from ... import _C, Tensor, device as _device, is_grad_enabled
from ...nn import Module
from ...nn.parallel.distributed import _tensors_in
from ._group import ParameterGroup, Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._policies import MixedPrecisionPolicy


def converted(structure: Any, f: Callable[[Tensor], Tensor]) -> Any:
    """Return nested tuples, lists, dicts and dataclasses with `f` of each tensor.

    Parts that `f` does not change are the same objects, so that a module may write to them.
    """
    if isinstance(structure, Tensor):
        return f(structure)
    if isinstance(structure, dict):
        before = dict(structure)
    elif isinstance(structure, (list, tuple)):
        before = dict(enumerate(structure))
    elif dataclasses.is_dataclass(structure) and not isinstance(structure, type):
        before = {field.name: getattr(structure, field.name) for field in dataclasses.fields(structure)}
    else:
        return structure
    parts = {key: converted(value, f) for key, value in before.items()}
    if all(parts[key] is before[key] for key in before):
        return structure
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*parts.values())
    if isinstance(structure, (list, tuple)):
        return type(structure)(parts.values())
    made = copy.copy(structure)
    for key, value in parts.items():
        if isinstance(structure, dict):
            made[key] = value
        else:
            setattr(made, key, value)
    return made


class State:
    """The parameters that one call of `fully_shard` has sharded, and hooks around its modules.

    Args:
        modules: the modules of the call.
        groups: the parameters, one group for each mesh.
        policy: the dtypes.
        device: the device that the modules compute on.
        reshards_after_forward: whether parameters are freed after forward. `None` means unless this is the root.
    """

    def __init__(
        self,
        modules: tuple[Module, ...],
        groups: list[ParameterGroup],
        policy: MixedPrecisionPolicy,
        device: _device,
        reshards_after_forward: bool | None,
    ) -> None:
        self.modules, self.groups, self.policy, self.device = modules, groups, policy, device
        self.decides_by_root = reshards_after_forward is None
        for group in groups:
            group.reshards_after_forward = reshards_after_forward is not False
        self.tree: Tree | None = None
        #: The name of the first module in the root, once that is known.
        self.name: str | None = None
        self._is_root = False
        #: Whether inputs of the root become the gathered dtype, if those of other modules do not.
        self.casts_root_inputs = False
        #: Modules to gather early in forward and in backward, that the user has named.
        self.next_in_forward: list[State] = []
        self.next_in_backward: list[State] | None = None
        self._below: list[State] = []
        self._to_run: set[int] = set()
        #: For each call in progress, the hooks on saved tensors.
        self._calls: list[list[Any]] = []
        for module in modules:
            module.register_forward_pre_hook(self._before, prepend=True, with_kwargs=True)
            module.register_forward_hook(self._after, always_call=True)
            module.register_state_dict_pre_hook(self._reshard_first)
            module.register_load_state_dict_pre_hook(self._reshard_first)

    # PyTorch's tests read these names.

    @property
    def _fsdp_param_group(self) -> ParameterGroup | None:
        """The group of the parameters, if there are any."""
        return self.groups[0] if self.groups else None

    @property
    def _state_ctx(self) -> Tree | None:
        """The tree of this state."""
        return self.tree

    def _reshard_first(self, *args: Any) -> None:
        self.reshard()

    def reshard(self) -> None:
        """Give the modules the sharded parameters back."""
        for group in self.groups:
            group.reshard()

    def unshard(self) -> None:
        """Give the modules the gathered parameters."""
        for group in self.groups:
            group.place()

    def begin_gather(self) -> None:
        """Begin to gather the parameters."""
        for group in self.groups:
            group.begin_gather()

    def forget_failed_call(self) -> None:
        """Forget a call of which some modules have run, and others have not because of an exception."""
        if self._to_run and not self._calls:
            self._to_run.clear()
            self.reshard()

    def _lazy_init(self) -> Tree:
        """Return the tree of this state. The first module whose forward is called is its root."""
        if self.tree is not None:
            return self.tree
        if len(self.modules) > 1:
            raise RuntimeError(f"FSDP requires a single root module but got {self.modules}")
        self._is_root = True
        tree = self.tree = Tree()
        names = {id(module): name for name, module in self.modules[0].named_modules()}
        self._below = states_in(self.modules)
        for state in self._below:
            if state is not self and state.tree is not None:
                name = names.get(id(state.modules[0]), "")
                raise RuntimeError(
                    f"FSDP state has already been lazily initialized for {name}\n"
                    "FSDP requires running forward through the root module first"
                )
            state.tree = tree
            state.name = names.get(id(state.modules[0]), "")
            tree.all_states.append(state)
            for group in state.groups:
                group.tree, group.module_name = tree, state.name
                tree.groups.append(group)
                for parameter in group.parameters:
                    module, own = parameter.places[0]
                    prefix = names.get(id(module), "")
                    parameter.name = f"{prefix}.{own}" if prefix else own
        if self.decides_by_root:
            for group in self.groups:
                group.reshards_after_forward = False
        return tree

    def _before(self, module: Module, args: Any, kwargs: Any) -> Any:
        return self.before_forward(module, args, kwargs)

    def before_forward(self, module: Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Gather the parameters. Return the inputs of the module, moved and converted."""
        tree = self._lazy_init()
        if self._is_root:
            tree.begins_forward()
            for state in self._below:
                state.forget_failed_call()
            args, kwargs = converted((args, kwargs), self._on_device)
        if self.policy.param_dtype is not None and self._casts_inputs():
            args, kwargs = converted((args, kwargs), lambda x: self._cast(x, self.policy.param_dtype))
        if not self._to_run:
            self._to_run = {id(each) for each in self.modules}
            for group in self.groups:
                group.drop_outdated()
                group.begin_gather()
            for group in self.groups:
                group.place()
                tree.enters(group)
            for state in self.next_in_forward:
                state.begin_gather()
        hooks = []
        if is_grad_enabled():
            for group in self.groups:
                # Also when a checkpoint runs forward again: it must see the same tensors as before.
                if group.reshards_after_forward:
                    hooks.append(_C._Remade(group.place(), group.again))
        self._calls.append(hooks)
        return args, kwargs

    def _casts_inputs(self) -> bool:
        return self.policy.cast_forward_inputs or (self._is_root and self.casts_root_inputs)

    def _after(self, module: Module, args: Any, output: Any) -> Any:
        # The hook is called after an exception too, which may come before `_before` has ended.
        return self.after_forward(module, output) if self._calls else output

    def after_forward(self, module: Module, output: Any) -> Any:
        """Free the parameters. Return the output of the module, converted, with hooks for its backward."""
        for hooks in reversed(self._calls.pop()):
            hooks.pop()
        self._to_run.discard(id(module))
        if not self._to_run:
            # The root keeps its parameters for backward only.
            is_last_use = self.decides_by_root and not is_grad_enabled()
            for group in self.groups:
                if (group.reshards_after_forward or is_last_use) and not group.is_in_backward:
                    group.reshard_after_forward()
        outputs = [x for x in _tensors_in(output) if x.requires_grad] if is_grad_enabled() else []
        if outputs and self.tree is not None:
            for group in self.groups:
                self.tree.leaves(group)
            for x in outputs:
                x.register_hook(self._before_backward)
        if self.policy.output_dtype is not None:
            output = converted(output, lambda x: self._cast(x, self.policy.output_dtype))
        if self._is_root and self.tree is not None:
            self.tree.ends_forward()
        return output

    def _before_backward(self, gradient: Tensor) -> None:
        for group in self.groups:
            if self.tree is not None and not group.is_in_backward:
                self.tree.enters_backward(group, self.next_in_backward is None)
        for state in self.next_in_backward or ():
            state.begin_gather()

    def _on_device(self, x: Tensor) -> Tensor:
        return x if x.device.type in (self.device.type, "meta") else x.to(self.device)

    @staticmethod
    def _cast(x: Tensor, dtype: Any) -> Tensor:
        return x.to(dtype) if x.is_floating_point() and x.dtype != dtype else x


#: States by the attribute of their modules.
_KEY = "_fsdp_state"


def state_of(module: object) -> State | None:
    """Return the state that a module belongs to."""
    return getattr(module, "__dict__", {}).get(_KEY)


def states_in(modules: tuple[Module, ...]) -> list[State]:
    """Return the states of modules and their submodules, each once."""
    found: dict[int, State] = {}
    for module in modules:
        for each in module.modules():
            state = state_of(each)
            if state is not None:
                found.setdefault(id(state), state)
    return list(found.values())
