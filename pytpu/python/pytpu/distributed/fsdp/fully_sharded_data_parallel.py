"""`torch.distributed.fsdp.fully_sharded_data_parallel`: the wrapper class around modules with sharded parameters."""

from __future__ import annotations

import contextlib
import enum
import functools

from ... import Tensor, device as _device, linalg, no_grad, stack
from ...nn import Module, Parameter
from ..device_mesh import DeviceMesh
from ..distributed_c10d import ProcessGroup, get_rank
from ..tensor import DTensor
from . import _optimizer_state
from ._group import ParameterGroup
from ._managed import move_buffers, places_of
from ._parameter import ShardedParameter, on_mesh
from ._policies import MixedPrecisionPolicy
from ._setup import cast_buffers, compute_device, copy_from_first, ignored_in, materialize, mesh_of
from ._state import _KEY, State, states_in
from .api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from .wrap import _Policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from ...optim import Optimizer

__all__ = ["FullyShardedDataParallel", "OptimStateKeyType"]

#: The attribute with the wrapped module, which is a part of names.
_INNER = "_fsdp_wrapped_module"
_PREFIX = f"{_INNER}."

_CONFIGS: dict[StateDictType, tuple[type[StateDictConfig], type[OptimStateDictConfig]]] = {
    StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
    StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
}


class OptimStateKeyType(enum.Enum):
    """The keys of states of optimizers: names of parameters, or their numbers."""

    PARAM_NAME = enum.auto()
    PARAM_ID = enum.auto()


class FullyShardedDataParallel(Module):
    """Shard the parameters of a module over the ranks.

    This is the older form of `fully_shard`, and works in the same way. Parameters are sharded tensors under their own
    names, as with `use_orig_params=True` in PyTorch. There are no flattened parameters.

    Args:
        module: the module.
        process_group: the ranks. A pair has the ranks to shard over, and those to replicate over.
        sharding_strategy: what is sharded. The default is `ShardingStrategy.FULL_SHARD`.
        cpu_offload: where sharded parameters are kept.
        auto_wrap_policy: which submodules are wrapped first. See `torch.distributed.fsdp.wrap`.
        backward_prefetch: `None` turns off early gathers in backward.
        mixed_precision: the dtypes to compute and reduce in.
        ignored_modules: modules whose parameters stay as they are.
        param_init_fn: a function that gives values to the parameters of a module on device `meta`.
        device_id: the device to move the module to.
        sync_module_states: whether parameters and buffers are copied from rank 0 first.
        forward_prefetch: accepted. Forward gathers early on device `cpu`.
        limit_all_gathers: accepted. At most one module is gathered early.
        use_orig_params: accepted. Parameters always keep their names.
        ignored_states: parameters, or modules, that stay as they are.
        device_mesh: a mesh in place of `process_group`.

    Attributes:
        module: the wrapped module.

    Example:
        >>> import pytpu as torch
        >>> import torch.distributed as dist
        >>> from torch.distributed.fsdp import FullyShardedDataParallel
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> model = FullyShardedDataParallel(torch.nn.Linear(2, 3), device_mesh=mesh)
        >>> model(torch.ones(1, 2)).sum().backward()
        >>> model.clip_grad_norm_(1.0)
        tensor(3.)
        >>> dist.destroy_process_group()
    """

    _is_summoned = False
    _settings = StateDictSettings(
        StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig(offload_to_cpu=False)
    )

    def __init__(
        self,
        module: Module,
        process_group: ProcessGroup | tuple[ProcessGroup, ProcessGroup] | None = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Callable[..., bool] | _Policy | None = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], None] | None = None,
        device_id: int | _device | None = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Iterable[Parameter] | Iterable[Module] | None = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:
        super().__init__()
        if process_group is not None and device_mesh is not None:
            raise ValueError(
                "Cannot pass both process_group and device_mesh at the same time. Please just pass only one of them."
            )
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        precision = mixed_precision or MixedPrecision()
        if precision.keep_low_precision_grads:
            raise NotImplementedError("MixedPrecision: keep_low_precision_grads is not implemented")
        ignored = ignored_in(module, ignored_modules, ignored_states)
        device = compute_device(module, device_id, device_mesh)
        info = mesh_of(strategy, process_group, device_mesh, device)
        if auto_wrap_policy is not None:
            settings: dict[str, Any] = {
                "process_group": process_group,
                "sharding_strategy": strategy,
                "cpu_offload": cpu_offload,
                "backward_prefetch": backward_prefetch,
                "mixed_precision": mixed_precision,
                "param_init_fn": param_init_fn,
                "device_id": device_id,
                "sync_module_states": sync_module_states,
                "forward_prefetch": forward_prefetch,
                "limit_all_gathers": limit_all_gathers,
                "use_orig_params": use_orig_params,
                "ignored_states": [p for p in module.parameters() if id(p) in ignored] or None,
                "device_mesh": info.mesh if process_group is None else None,
            }
            _wrap_below(module, auto_wrap_policy, settings, ignored, precision)
        own = places_of((module,), {p for p in module.parameters() if id(p) in ignored})
        materialize(own, param_init_fn, device)
        own = places_of((module,), {p for p in module.parameters() if id(p) in ignored})
        move_buffers((module,), device)
        if precision.buffer_dtype is not None:
            cast_buffers(module, precision.buffer_dtype)
        if sync_module_states:
            copy_from_first(module, own, info, device)
        policy = MixedPrecisionPolicy(
            precision.param_dtype,
            precision.reduce_dtype or precision.param_dtype,
            cast_forward_inputs=precision.cast_forward_inputs,
        )
        target = _device("cpu") if cpu_offload is not None and cpu_offload.offload_params else device
        parameters = [ShardedParameter(where, name, p, info, 0, target, policy) for p, name, where in own]
        group = ParameterGroup(parameters, info, policy)
        if backward_prefetch is None:
            group.prefetches = False
        reshards = strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD)
        self._modules[_INNER] = module
        self.sharding_strategy, self.mixed_precision = strategy, precision
        self.compute_device, self._device_mesh = device, info.mesh
        self.process_group = info.shard_process_group
        state = State((self,), [group], policy, device, None if reshards else False)
        state.casts_root_inputs = precision.cast_root_forward_inputs
        self.__dict__[_KEY] = state
        self._register_state_dict_hook(_to_saved)
        self.register_load_state_dict_pre_hook(_to_loaded)

    @property
    def _state(self) -> State:
        state: State = self.__dict__[_KEY]
        return state

    @property
    def module(self) -> Module:
        """The wrapped module."""
        inner = self._modules[_INNER]
        # A wrapper of activation checkpointing may have been put between.
        checkpointed = getattr(inner, "_checkpoint_wrapped_module", None)
        return checkpointed if isinstance(checkpointed, Module) else inner

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the wrapped module.

        Args:
            *args: its arguments.
            **kwargs: its keyword arguments.
        """
        return self._modules[_INNER](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of this module, or of the wrapped one."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == _INNER:
                raise
            return getattr(self._modules[_INNER], name)

    def __getitem__(self, key: int) -> Any:
        """Return an item of the wrapped module.

        Args:
            key: its index.
        """
        inner: Any = self.module
        return inner[key]

    def check_is_root(self) -> bool:
        """Return whether this module was the first whose forward was called."""
        self._state._lazy_init()
        return self._state._is_root

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """Return the wrappers in a module.

        Args:
            module: the module.
            root_only: whether to return only the outermost ones.
        """
        found = [each for each in module.modules() if isinstance(each, FullyShardedDataParallel)]
        if not root_only:
            return found
        inner = {id(below) for each in found for below in each.modules() if below is not each}
        return [each for each in found if id(each) not in inner]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Yield parameters with their names. Within `summon_full_params`, names are those of the plain module.

        Args:
            *args: arguments of `Module.named_parameters`.
            **kwargs: its keyword arguments.
        """
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_PREFIX, "") if self._is_summoned else name, parameter

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Tensor]]:
        """Yield buffers with their names. Within `summon_full_params`, names are those of the plain module.

        Args:
            *args: arguments of `Module.named_buffers`.
            **kwargs: its keyword arguments.
        """
        for name, buffer in super().named_buffers(*args, **kwargs):
            yield name.replace(_PREFIX, "") if self._is_summoned else name, buffer

    def apply(self, fn: Callable[[Module], None]) -> FullyShardedDataParallel:
        """Call `fn` with the module and its submodules, whose parameters are whole then.

        Args:
            fn: a function of a module.
        """
        with self.summon_full_params(self):
            super().apply(fn)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:  # type: ignore[override]
        def on_local(x: Tensor) -> Any:
            if not isinstance(x, DTensor):
                return fn(x)
            return on_mesh(fn(x._local_tensor), x.device_mesh, x.placements, tuple(x.shape))

        self._state.reshard()
        return super()._apply(on_local, recurse)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Return a context in which backward adds whole gradients on each rank, and does not reduce them.

        Raises:
            RuntimeError: if the module is not the root.
        """
        if not self.check_is_root():
            raise RuntimeError(
                "`no_sync()` on inner FSDP instances is not supported. Please call `no_sync()` on root FSDP module."
            )
        groups = [group for state in states_in((self,)) for group in state.groups]
        before = [(group.syncs, group.reduces_replicas) for group in groups]
        for group in groups:
            group.syncs = group.reduces_replicas = False
        try:
            yield
        finally:
            for group, (syncs, reduces) in zip(groups, before):
                group.syncs, group.reduces_replicas = syncs, reduces

    @no_grad()
    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale the gradients of all parameters so that their norm is at most `max_norm`, and return the norm before.

        Args:
            max_norm: the greatest norm.
            norm_type: the order of the norm, or `inf`.

        Raises:
            RuntimeError: if the module is not the root.
        """
        if not self.check_is_root():
            raise RuntimeError("`clip_grad_norm_()` should only be called on the root FSDP instance")
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        if not gradients:
            return Tensor([0.0]).to(self.compute_device).squeeze(0)
        norms = []
        for gradient in gradients:
            norm: Any = linalg.vector_norm(gradient.float(), float(norm_type))
            norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
            norms.append(norm.to(self.compute_device))
        total = linalg.vector_norm(stack(norms), float(norm_type))
        scale = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            if isinstance(gradient, DTensor):
                local = gradient._local_tensor
                local.mul_(scale.to(local.device).to(local.dtype))
                gradient.copy_(on_mesh(local, gradient.device_mesh, gradient.placements, tuple(gradient.shape)))
            else:
                gradient.mul_(scale.to(gradient.device).to(gradient.dtype))
        return total.to(gradients[0].dtype)

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """Let a function reduce the gradients. Call this on the root, before training.

        The function gets `state`, the gradients of this rank as one dimension, and the memory for this rank's part of
        the result. With `ShardingStrategy.NO_SHARD` it gets two arguments, and writes the result into the gradients.
        `torch.distributed.algorithms._comm_hooks.default_hooks` has such functions. Nothing else is divided.

        Args:
            state: the first argument of the function.
            hook: the function.

        Raises:
            AssertionError: if this is not the root, has hybrid sharding, or has such a function.
            ValueError: if `hook` is no function.
        """
        if not callable(hook):
            raise ValueError(f"The communication hook must be callable but got {hook}")
        if not self.check_is_root():
            raise AssertionError("register_comm_hook can only be called on a root instance.")
        groups = [group for each in states_in((self,)) for group in each.groups]
        for group in groups:
            if group.info.replicas is not None and group.info.shard_mesh_size > 1:
                raise AssertionError("Communication hook are currently not supported for hybrid sharding strategies.")
            if group.reduction is not None:
                raise AssertionError("A communication hook is already registered")
        for group in groups:
            group.reduction = functools.partial(hook, state)

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """Return a context in which the parameters of a module are whole. All ranks enter it.

        Args:
            module: the module, which may contain wrappers.
            recurse: whether to include wrappers below the outermost.
            writeback: whether changes are kept.
            rank0_only: whether only rank 0 has whole parameters.
            offload_to_cpu: whether they are on `cpu`.
            with_grads: whether gradients are whole, too.

        Raises:
            NotImplementedError: for `writeback` together with `rank0_only`.
        """
        if writeback and rank0_only:
            raise NotImplementedError("writeback=True and rank0_only=True is not supported yet")
        modules = FullyShardedDataParallel.fsdp_modules(module)
        if not recurse:
            modules = modules[:1] if modules and modules[0] is module else []
        modules = [each for each in modules if not each._is_summoned]
        is_shown = not rank0_only or get_rank() == 0
        parameters = []
        for each in modules:
            each._state.reshard()
            each._is_summoned = True
            parameters += [p for group in each._state.groups for p in group.parameters]
        for parameter in parameters:
            _show_whole(parameter, is_shown, offload_to_cpu, with_grads)
        try:
            yield
        finally:
            for parameter in parameters:
                if is_shown:
                    _hide_whole(parameter, writeback, with_grads)
            for each in modules:
                each._is_summoned = False

    # ---- state dicts

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> StateDictSettings:
        """Set the kind of state dicts of the wrappers in a module, and return the settings before.

        Args:
            module: the module.
            state_dict_type: the kind.
            state_dict_config: settings of state dicts of modules.
            optim_state_dict_config: settings of those of optimizers.

        Raises:
            RuntimeError: if settings are of another kind.
            NotImplementedError: for `LOCAL_STATE_DICT`.
        """
        config_type, optim_type = _CONFIGS[state_dict_type]
        config = config_type() if state_dict_config is None else state_dict_config
        optim_config = optim_type() if optim_state_dict_config is None else optim_state_dict_config
        if type(config) is not config_type:
            raise RuntimeError(f"Expected state_dict_config of type {config_type} but got {type(config)}")
        if type(optim_config) is not optim_type:
            raise RuntimeError(f"Expected optim_state_dict_config of type {optim_type} but got {type(optim_config)}")
        if state_dict_type is StateDictType.LOCAL_STATE_DICT:
            raise NotImplementedError("StateDictType.LOCAL_STATE_DICT: there are no flattened parameters to save")
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for each in FullyShardedDataParallel.fsdp_modules(module):
            each._settings = StateDictSettings(state_dict_type, config, optim_config)
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """Return the kind of state dicts of the wrappers in a module.

        Args:
            module: the module.
        """
        found = FullyShardedDataParallel.fsdp_modules(module)
        return (found[0] if found else FullyShardedDataParallel)._settings

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Iterator[None]:
        """Return a context with a kind of state dicts. The arguments are those of `set_state_dict_type`."""
        set_type = FullyShardedDataParallel.set_state_dict_type
        before = set_type(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            set_type(module, before.state_dict_type, before.state_dict_config, before.optim_state_dict_config)

    @staticmethod
    def optim_state_dict(
        model: Module,
        optim: Optimizer,
        optim_state_dict: dict[str, Any] | None = None,
        group: ProcessGroup | None = None,
    ) -> dict[str, Any]:
        """Return the state of an optimizer, with names of parameters. `set_state_dict_type` says of which kind.

        Args:
            model: the model.
            optim: the optimizer of its parameters.
            optim_state_dict: the state. The default is that of `optim`.
            group: not used.
        """
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        config = settings.optim_state_dict_config
        return _optimizer_state.named(
            model,
            optim,
            optim.state_dict() if optim_state_dict is None else optim_state_dict,
            is_full=settings.state_dict_type is StateDictType.FULL_STATE_DICT,
            rank0_only=getattr(config, "rank0_only", False),
            offload=config.offload_to_cpu,
        )

    @staticmethod
    def optim_state_dict_to_load(
        model: Module,
        optim: Optimizer,
        optim_state_dict: dict[str, Any],
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: ProcessGroup | None = None,
    ) -> dict[str, Any]:
        """Return a state from `optim_state_dict` as `optim.load_state_dict` takes it.

        Args:
            model: the model.
            optim: the optimizer of its parameters.
            optim_state_dict: the state, of any kind. With `rank0_only`, rank 0 has it and the others an empty dict.
            is_named_optimizer: whether the optimizer names its parameters.
            load_directly: whether to load it.
            group: not used.
        """
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        from_first = getattr(settings.optim_state_dict_config, "rank0_only", False)
        state = _optimizer_state.numbered(model, optim, optim_state_dict, from_first, is_named_optimizer)
        if load_directly:
            optim.load_state_dict(state)
        return state

    @staticmethod
    def full_optim_state_dict(
        model: Module,
        optim: Optimizer,
        optim_input: object = None,
        rank0_only: bool = True,
        group: ProcessGroup | None = None,
    ) -> dict[str, Any]:
        """Return the state of an optimizer with whole tensors, and names of parameters.

        Args:
            model: the model.
            optim: the optimizer of its parameters.
            optim_input: not used.
            rank0_only: whether the other ranks get an empty dict.
            group: not used.
        """
        return _optimizer_state.named(
            model, optim, optim.state_dict(), is_full=True, rank0_only=rank0_only, offload=True
        )

    @staticmethod
    def sharded_optim_state_dict(model: Module, optim: Optimizer, group: ProcessGroup | None = None) -> dict[str, Any]:
        """Return the state of an optimizer with sharded tensors, and names of parameters.

        Args:
            model: the model.
            optim: the optimizer of its parameters.
            group: not used.
        """
        return _optimizer_state.named(model, optim, optim.state_dict(), is_full=False, rank0_only=False, offload=False)

    @staticmethod
    def shard_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any], model: Module, optim_input: object = None, optim: Any = None
    ) -> dict[str, Any]:
        """Return a full state, which all ranks have, as `optim.load_state_dict` takes it.

        Args:
            full_optim_state_dict: the state.
            model: the model.
            optim_input: not used.
            optim: the optimizer of its parameters.
        """
        return _optimizer_state.numbered(model, optim, full_optim_state_dict, False, False)

    @staticmethod
    def scatter_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any] | None,
        model: Module,
        optim_input: object = None,
        optim: Any = None,
        group: object = None,
    ) -> dict[str, Any]:
        """Return a full state, which rank 0 has, as `optim.load_state_dict` takes it on all ranks.

        Args:
            full_optim_state_dict: the state, or `None` on the other ranks.
            model: the model.
            optim_input: not used.
            optim: the optimizer of its parameters.
            group: not used.
        """
        return _optimizer_state.numbered(model, optim, full_optim_state_dict or {}, True, False)

    @staticmethod
    def flatten_sharded_optim_state_dict(
        sharded_optim_state_dict: dict[str, Any], model: Module, optim: Optimizer
    ) -> dict[str, Any]:
        """Return a state from `sharded_optim_state_dict` as `optim.load_state_dict` takes it.

        Args:
            sharded_optim_state_dict: the state.
            model: the model.
            optim: the optimizer of its parameters.
        """
        return _optimizer_state.numbered(model, optim, sharded_optim_state_dict, False, False)

    @staticmethod
    def rekey_optim_state_dict(
        optim_state_dict: dict[str, Any],
        optim_state_key_type: OptimStateKeyType,
        model: Module,
        optim_input: object = None,
        optim: Any = None,
    ) -> dict[str, Any]:
        """Return the state of an optimizer with names of parameters in place of numbers, or the reverse.

        Args:
            optim_state_dict: the state.
            optim_state_key_type: the keys of the result.
            model: the model. It is not wrapped.
            optim_input: not used.
            optim: the optimizer of its parameters.
        """
        is_named = optim_state_key_type is OptimStateKeyType.PARAM_NAME
        return _optimizer_state.rekeyed(model, optim, optim_state_dict, is_named)


def _wrap_below(
    root: Module, policy: Any, settings: dict[str, Any], ignored: set[int], precision: MixedPrecision
) -> None:
    """Wrap the submodules that a policy chooses, from the inside out."""
    for name, module in root.named_modules():
        if isinstance(module, FullyShardedDataParallel):
            raise ValueError(
                f"FSDP auto wrapping requires modules to not already have FSDP applied but found {name} in\n{root}"
            )
    plain = tuple(precision._module_classes_to_ignore)
    low = precision.param_dtype is not None or precision.reduce_dtype is not None
    without = {**settings, "mixed_precision": None}
    is_plain = lambda module: low and bool(plain) and isinstance(module, plain)
    if isinstance(policy, _Policy):
        chosen = policy._chosen(root, ignored, settings)
        for module in root.modules():
            if is_plain(module):
                chosen[id(module)] = without
        chosen.pop(id(root), None)
        _wrap_chosen(root, chosen, {})
        return

    def visit(module: Module, is_root: bool) -> int:
        """Wrap below a module. Return the number of elements of its parameters that are not wrapped."""
        total = sum(p.numel() for p in module.parameters() if id(p) not in ignored)
        wrapped = 0
        if policy(module=module, recurse=True, nonwrapped_numel=total):
            for name, child in list(module.named_children()):
                if id(child) in ignored:
                    continue
                before = sum(p.numel() for p in child.parameters() if id(p) not in ignored)
                left = visit(child, False)
                if is_plain(child):
                    setattr(module, name, FullyShardedDataParallel(child, **without))
                    left = 0
                elif policy(module=child, recurse=False, nonwrapped_numel=left):
                    setattr(module, name, FullyShardedDataParallel(child, **settings))
                    left = 0
                wrapped += before - left
        return total - wrapped

    visit(root, True)


def _wrap_chosen(module: Module, chosen: dict[int, dict[str, Any]], done: dict[int, Module]) -> None:
    for name, child in list(module.named_children()):
        if id(child) not in done:
            _wrap_chosen(child, chosen, done)
            settings = chosen.get(id(child))
            done[id(child)] = child if settings is None else FullyShardedDataParallel(child, **settings)
        if done[id(child)] is not child:
            setattr(module, name, done[id(child)])


def _show_whole(parameter: ShardedParameter, is_shown: bool, to_cpu: bool, with_grads: bool) -> None:
    parameter.take_current()
    sharded: Any = parameter.sharded
    whole = sharded.detach().full_tensor()
    gradient = sharded.grad.full_tensor() if with_grads and sharded.grad is not None else None
    if not is_shown:
        return
    shown = Parameter(whole.cpu() if to_cpu else whole.clone(), sharded.requires_grad)
    if gradient is not None:
        shown.grad = gradient.cpu() if to_cpu else gradient
    parameter.put(shown)


@no_grad()
def _hide_whole(parameter: ShardedParameter, writes: bool, with_grads: bool) -> None:
    module, name = parameter.places[0]
    shown: Any = module._parameters[name]
    parameter.put(parameter.sharded)
    if not writes:
        return

    def part(x: Tensor) -> Any:
        local = x.narrow(parameter.dim, *parameter.range).to(parameter.local().device).contiguous()
        return on_mesh(local.clone(), parameter.mesh, parameter.placements, parameter.sizes)

    parameter.sharded.copy_(part(shown.detach()))
    if with_grads and shown.grad is not None:
        parameter.sharded.grad = part(shown.grad)


def _to_saved(module: Any, state: dict[str, Any], prefix: str, metadata: object) -> None:
    """Rename and convert the values of one wrapper in a state dict."""
    settings = module._settings
    inner = prefix + _PREFIX
    is_full = settings.state_dict_type is StateDictType.FULL_STATE_DICT
    config = settings.state_dict_config
    is_kept = not getattr(config, "rank0_only", False) or get_rank() == 0
    for key in [key for key in state if key.startswith(inner)]:
        value: Any = state.pop(key)
        if isinstance(value, DTensor):
            if is_full:
                value = value.full_tensor().detach()
            elif config.offload_to_cpu and value._local_tensor.device.type != "cpu":
                value = on_mesh(value._local_tensor.cpu(), value.device_mesh, value.placements, tuple(value.shape))
        if isinstance(value, Tensor) and not isinstance(value, DTensor) and is_full and config.offload_to_cpu:
            value = value.cpu()
        if is_kept or not is_full:
            state[prefix + key[len(inner) :]] = value


def _to_loaded(module: Any, state: dict[str, Any], prefix: str, *rest: object) -> None:
    """Rename the values of one wrapper in a state dict, and shard those that are whole."""
    for key in [key for key in state if key.startswith(prefix)]:
        state[f"{prefix}{_PREFIX}{key[len(prefix) :]}"] = state.pop(key)
    names = {id(each): name for name, each in module.named_modules()}
    for group in module._state.groups:
        for parameter in group.parameters:
            for owner, name in parameter.places:
                path = names.get(id(owner), "")
                key = prefix + (f"{path}.{name}" if path else name)
                key = _find_key(state, key)
                value = state.get(key)
                if value is None or isinstance(value, DTensor):
                    continue
                parameter.take_current()
                local = value.detach().narrow(parameter.dim, *parameter.range)
                local = local.to(parameter.local().device).contiguous()
                state[key] = on_mesh(local, parameter.mesh, parameter.placements, parameter.sizes)


def _find_key(state: dict[str, Any], key: str) -> str:
    """Return the key of a value of which wrappers further below have not been renamed yet."""
    if key in state or _PREFIX not in key:
        return key
    head, _, tail = key.partition(_PREFIX)
    return head + _PREFIX + tail.replace(_PREFIX, "")
