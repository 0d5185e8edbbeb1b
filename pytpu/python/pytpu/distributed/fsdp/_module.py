"""`fully_shard`, and the class that it gives to modules."""

from __future__ import annotations

import functools
import weakref

from ... import Tensor, accelerator, device as _device
from ...nn import Module, ModuleDict, ModuleList, Parameter
from ..device_mesh import DeviceMesh, init_device_mesh
from ..distributed_c10d import get_process_group_ranks, get_world_size, new_group
from ..tensor import DTensor, Shard
from ._group import ParameterGroup, Tree
from ._managed import move_buffers, places_of, replaced
from ._mesh import FSDPMeshInfo, ShardPlacementResult, _get_mesh_info
from ._parameter import ShardedParameter
from ._policies import CPUOffloadPolicy, DataParallelMeshDims, MixedPrecisionPolicy, OffloadPolicy
from ._state import _KEY, State, state_of, states_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ..distributed_c10d import ProcessGroup
    from ..tensor import Placement

_PLAIN_DTYPES, _NO_OFFLOAD = MixedPrecisionPolicy(), OffloadPolicy()
#: Classes with `FSDPModule` by the classes of modules.
_classes: dict[type, type] = {}


def _no_copy(self: object, memo: object) -> None:
    raise AssertionError("FSDP does not support deepcopy. Please use state dict for serialization.")


def _with_methods(cls: type) -> type:
    """Return a subclass with the methods of `FSDPModule`. A call of it makes a module of the class itself."""

    def plain(sharded: type, *args: Any, **kwargs: Any) -> Any:
        return cls(*args, **kwargs)

    return type(f"FSDP{cls.__name__}", (FSDPModule, cls), {"__deepcopy__": _no_copy, "__new__": plain})


class UnshardHandle:
    """Parameters that are being gathered."""

    def __init__(self, state: State | None = None) -> None:
        self._state = state

    def wait(self) -> None:
        """Wait, and give the module the gathered parameters."""
        if self._state is not None:
            self._state.unshard()
            self._state = None


class GradientReductionHandle:
    """Gradients that are being reduced, after `FSDPModule.finalize_backward`."""

    def __init__(self, tree: Tree | None = None) -> None:
        self._tree = tree

    def wait(self) -> None:
        """Wait for the gradients."""
        if self._tree is not None:
            self._tree.finish()
            self._tree = None


class FSDPModule:
    """The methods that `fully_shard` adds to a module."""

    def _get_fsdp_state(self) -> State:
        state = state_of(self)
        if state is None:
            raise AssertionError(f"No FSDP state found on {self}")
        return state

    def _groups(self, recurse: bool) -> list[ParameterGroup]:
        own = self._get_fsdp_state()
        states = states_in((self,)) if recurse and isinstance(self, Module) else [own]
        return [group for state in states for group in state.groups]

    def reshard(self) -> None:
        """Give the module its sharded parameters back, and free the gathered ones. Submodules keep theirs."""
        self._get_fsdp_state().reshard()

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Give the module its gathered parameters. Submodules keep theirs.

        Args:
            async_op: whether to return a handle at once, whose `wait` ends the call.
        """
        state = self._get_fsdp_state()
        state.begin_gather()
        if async_op:
            return UnshardHandle(state)
        state.unshard()
        return None

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Accepted. Each backward pass ends with all its gradients reduced, if they are to be.

        Args:
            is_last_backward: whether no other backward pass follows in this step.
        """

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Set whether backward reduces gradients. Otherwise it adds them to whole gradients on each rank.

        Args:
            requires_gradient_sync: whether backward reduces gradients.
            recurse: whether to set it for submodules too.
        """
        for group in self._groups(recurse):
            group.syncs = group.reduces_replicas = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Set whether backward reduces gradients over replicas, on a mesh with two dimensions.

        Args:
            requires_all_reduce: whether it does. Otherwise gradients of shards are added up until it does.
            recurse: whether to set it for submodules too.
        """
        for group in self._groups(recurse):
            group.reduces_replicas = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Set whether gathered parameters are freed after forward, and gathered again in backward.

        Args:
            reshard_after_forward: whether they are.
            recurse: whether to set it for submodules too.

        Raises:
            ValueError: if it is not a `bool`.
        """
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(f"reshard_after_forward should be a bool, got {type(reshard_after_forward)}")
        states = states_in((self,)) if recurse and isinstance(self, Module) else [self._get_fsdp_state()]
        for state in states:
            state.decides_by_root = False
        for group in self._groups(recurse):
            group.reshards_after_forward, group.keepers = reshard_after_forward, None

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Set whether gathered parameters are freed after backward.

        Args:
            reshard_after_backward: whether they are. Set it before the last backward of a step.
            recurse: whether to set it for submodules too.
        """
        for group in self._groups(recurse):
            group.reshards_after_backward = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Set modules whose parameters are gathered early, when the forward of this one begins.

        Args:
            modules: the modules, in the order of their forwards.
        """
        self._get_fsdp_state().next_in_forward = _states_of(modules)

    def set_modules_to_backward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Set modules whose parameters are gathered early, when the backward of this one begins.

        Args:
            modules: the modules, in the order of their backwards. The default is the one before in forward.
        """
        self._get_fsdp_state().next_in_backward = _states_of(modules)

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Divide sums of gradients by `factor`, and not by the number of ranks.

        Args:
            factor: the divisor.
        """
        for group in self._groups(False):
            group.divide_factor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Set whether ranks add gradients and then divide, in place of a mean.

        Args:
            enable: whether they do.
        """
        for group in self._groups(False):
            group.sums = enable

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Set whether backward gathers the parameters when it reaches the module.

        Args:
            unshard_in_backward: `False` is for parameters that backward does not read, such as those of embeddings.
        """
        for group in self._groups(False):
            group.unshards_in_backward = unshard_in_backward

    def set_reduce_scatter_unused_params(self, reduce_scatter_unused_params: bool, *, recurse: bool = True) -> None:
        """Set whether parameters without a gradient on this rank take part in reductions, with zeros.

        Args:
            reduce_scatter_unused_params: whether they do.
            recurse: whether to set it for submodules too.
        """
        for group in self._groups(recurse):
            group.reduces_unused = reduce_scatter_unused_params

    def set_reduce_scatter_max_input_buffers(self, max_input_buffers: int, *, recurse: bool = True) -> None:
        """Set how many groups of gradients may wait to be reduced.

        Args:
            max_input_buffers: the number, at least 1.
            recurse: whether to set it for submodules too.

        Raises:
            TypeError: if it is no integer.
            ValueError: if it is not positive.
        """
        if not isinstance(max_input_buffers, int) or isinstance(max_input_buffers, bool):
            raise TypeError(f"max_input_buffers must be an int, got {type(max_input_buffers).__name__}")
        if max_input_buffers < 1:
            raise ValueError(f"max_input_buffers must be a positive int, got {max_input_buffers}")
        for group in self._groups(recurse):
            group.reductions_in_flight = max_input_buffers

    def set_all_reduce_hook(self, hook: Callable[[Tensor], None], *, stream: object = None) -> None:
        """Call a function with each reduced gradient of a shard, before it is added to `.grad`.

        Args:
            hook: a function that changes the gradient in place.
            stream: the stream that is current while the function runs.

        Raises:
            ValueError: for a stream, if the mesh has two dimensions.
        """
        for group in self._groups(False):
            if stream is not None and group.info.replicas is not None:
                raise ValueError("stream cannot be set when using native HSDP")
            group.reduced_hook, group.hook_stream = hook, stream

    def set_post_optim_event(self, event: object) -> None:
        """Accepted: collectives wait for the optimizer in any case.

        Args:
            event: an event of a stream.
        """

    def set_allocate_memory_from_process_group_for_comm(self, enable: bool) -> None:
        """Accepted: messages are in ordinary memory.

        Args:
            enable: whether process groups should allocate memory.
        """

    def set_separate_reduce_scatter_group(self, enable: bool = True, *, recurse: bool = True) -> None:
        """Accepted: gathers and reductions of a group of ranks run one after another.

        Args:
            enable: whether reductions should have a group of their own.
            recurse: whether to set it for submodules too.
        """

    def set_keep_unsharded_storage(self, keep: bool, *, recurse: bool = True) -> None:
        """Accepted: each gather has new memory.

        Args:
            keep: whether gathered parameters should keep their memory.
            recurse: whether to set it for submodules too.
        """

    def _set_unshard_async_op(self, async_op: bool) -> None:
        """Accepted: gathers are asynchronous in any case."""

    def set_custom_all_gather(self, comm: object) -> None:
        """Raise `NotImplementedError`."""
        raise NotImplementedError("FSDPModule.set_custom_all_gather is not implemented")

    def set_custom_reduce_scatter(self, comm: object) -> None:
        """Raise `NotImplementedError`."""
        raise NotImplementedError("FSDPModule.set_custom_reduce_scatter is not implemented")

    def set_symm_mem_for_comm(self, backend: str = "NCCL") -> None:
        """Raise `NotImplementedError`."""
        raise NotImplementedError("FSDPModule.set_symm_mem_for_comm is not implemented")

    def set_manual_backward_finalization(self, enabled: bool) -> None:
        """Set whether a call of `finalize_backward` ends backward passes. Call this on the root, before forward.

        Args:
            enabled: whether gradients may be incomplete, and parameters gathered, until `finalize_backward`.

        Raises:
            RuntimeError: if the module is not the root.
        """
        state = self._get_fsdp_state()
        tree = state._lazy_init()
        if not state._is_root:
            raise RuntimeError("set_manual_backward_finalization must be called on the root FSDP module")
        tree.is_manual = enabled

    def finalize_backward(self, *, async_op: bool = False) -> GradientReductionHandle | None:
        """End backward passes: wait for all gradients, and free gathered parameters.

        Args:
            async_op: whether to return a handle at once, whose `wait` ends the call.

        Raises:
            RuntimeError: without `set_manual_backward_finalization`.
        """
        tree = self._get_fsdp_state().tree
        if tree is None or not tree.is_manual:
            raise RuntimeError(
                "FSDP finalize_backward requires manual backward finalization. Call "
                "set_manual_backward_finalization(True) before forward"
            )
        handle = GradientReductionHandle(tree)
        if async_op:
            return handle
        handle.wait()
        return None

    def reset_iter_state(self) -> None:
        """Forget the forward and backward passes that have begun, for example after an exception.

        Raises:
            RuntimeError: if the module is not the root.
        """
        state = self._get_fsdp_state()
        if not state._is_root or state.tree is None:
            raise RuntimeError("reset_iter_state must be called on the root FSDP module")
        for each in states_in(state.modules):
            each.forget_failed_call()
        state.tree.forget()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        from ._parameter import on_mesh

        def on_local(x: Tensor) -> Any:
            if not isinstance(x, DTensor):
                return fn(x)
            return on_mesh(fn(x._local_tensor), x.device_mesh, x.placements, tuple(x.shape))

        self.reshard()
        return super()._apply(on_local, recurse)  # type: ignore[misc]  # `Module` follows in the order of classes.


def _states_of(modules: Sequence[FSDPModule]) -> list[State]:
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects FSDPModule but got {type(module)}: {module}")
    return [module._get_fsdp_state() for module in modules]


def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Parameter], Placement | ShardPlacementResult | None] | None = None,
    mp_policy: MixedPrecisionPolicy = _PLAIN_DTYPES,
    offload_policy: OffloadPolicy = _NO_OFFLOAD,
    ignored_params: set[Parameter] | None = None,
    dp_mesh_dims: DataParallelMeshDims | None = None,
) -> Any:
    """Shard the parameters of a module over the ranks of a mesh, and return the module.

    The parameters become sharded tensors, of which each rank has a chunk. Forward and backward gather them when they
    are needed, and free them afterwards. Backward reduces the gradients, so that `.grad` is sharded too. The class of
    the module becomes a subclass with `FSDPModule`. The batch of each rank is a plain tensor.

    The parameters of one call are gathered together. So shard the blocks of a model first, and then the model, which
    has the rest of the parameters.

    Args:
        module: the module, or a list of modules whose parameters are gathered together.
        mesh: a mesh with one dimension, along which parameters are sharded. With two dimensions, they are replicated
            along the first, and sharded along the second. The default has all ranks.
        reshard_after_forward: whether gathered parameters are freed after forward, and gathered again in backward. The
            default is `True`, except for the root module. With a number, groups of so many ranks keep the parameters
            together after forward, and gather them from each other in backward. It must divide the number of ranks.
        shard_placement_fn: a function from a parameter to its `Shard`, or `None` for the first dimension.
        mp_policy: the dtypes to compute and reduce in.
        offload_policy: where sharded parameters are kept.
        ignored_params: parameters that stay as they are.
        dp_mesh_dims: the data parallel dimensions of `mesh`. Parameters may then be sharded tensors on all of it, or
            parts with types by the package `spmd_types`. They become sharded tensors on the data parallel dimensions,
            and on others that have several ranks. A module computes with the whole part if it has types.

    Raises:
        ValueError: for a container without forward, a parameter without dimensions, or another mesh.
        NotImplementedError: if a dimension other than the first cannot be divided evenly.

    Example:
        >>> import pytpu as torch
        >>> import torch.distributed as dist
        >>> from torch.distributed.fsdp import fully_shard
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> model = fully_shard(torch.nn.Linear(2, 3), mesh=dist.init_device_mesh("cpu", (1,)))
        >>> model(torch.ones(1, 2)).sum().backward()
        >>> type(model).__name__, model.bias.grad.placements, model.bias.grad.full_tensor()
        ('FSDPLinear', (Shard(dim=0),), tensor([1., 1., 1.]))
        >>> dist.destroy_process_group()
    """
    modules = tuple(module) if isinstance(module, (list, tuple)) else (module,)
    for each in modules:
        if isinstance(each, (ModuleList, ModuleDict)) and type(each).forward is Module.forward:
            raise ValueError(f"fully_shard does not support containers that do not implement forward: {each}")
        if state_of(each) is not None:
            raise AssertionError(
                "Each distinct composable distributed API can only be applied to a module once. Trying to apply "
                f"fully_shard to the following module {each}"
            )
    if mesh is None:
        mesh = init_device_mesh(_default_device_type(modules), (get_world_size(),))
    info = _get_mesh_info(mesh, dp_mesh_dims)
    reshards, keepers = _reshards(reshard_after_forward, info)
    device = _device(mesh.device_type)
    places = places_of(modules, ignored_params or set())
    move_buffers(modules, device)
    target = _device("cpu") if isinstance(offload_policy, CPUOffloadPolicy) else device
    by_info: dict[int, tuple[FSDPMeshInfo, list[ShardedParameter]]] = {}
    for parameter, name, where in places:
        dim, own_info = _placement(parameter, shard_placement_fn, info)
        sharded = ShardedParameter(where, name, parameter, own_info, dim, target, mp_policy, dp_mesh_dims, mesh)
        replaced[id(parameter)] = parameter
        by_info.setdefault(id(own_info), (own_info, []))[1].append(sharded)
    groups = [ParameterGroup(parameters, of, mp_policy) for of, parameters in by_info.values()]
    for group in groups:
        group.keepers = keepers if group.info is info else None
    state = State(modules, groups, mp_policy, device, reshards)
    for each in modules:
        each.__dict__[_KEY] = state
        cls = type(each)
        if cls not in _classes:
            _classes[cls] = _with_methods(cls)
        each.__class__ = _classes[cls]
    return module


fully_shard.state = state_of  # type: ignore[attr-defined]  # As in PyTorch, the state of a module.


def _default_device_type(modules: tuple[Module, ...]) -> str:
    # A module on `tpu` stays there, also where XLA's CPU backend stands in for the accelerator.
    found = accelerator.current_accelerator(check_available=True)
    is_on_tpu = any(p.device.type == "tpu" for module in modules for p in module.parameters())
    return "tpu" if found is not None or is_on_tpu else "cpu"


#: The groups of ranks that keep parameters after forward, by the group of all ranks and the number.
_keepers: weakref.WeakKeyDictionary[Any, dict[int, ProcessGroup]] = weakref.WeakKeyDictionary()


def _reshards(given: bool | int | None, info: FSDPMeshInfo) -> tuple[bool | None, ProcessGroup | None]:
    """Return whether parameters are freed after forward, and the ranks that keep them together, if they are fewer."""
    if given is None or isinstance(given, bool):
        return given, None
    ranks = info.shard_mesh_size
    if not isinstance(given, int):
        raise ValueError(
            f"reshard_after_forward should be a bool or an int representing the group size to reshard to, not {given}"
        )
    if given < 1 or given > ranks or ranks % given != 0:
        raise ValueError(f"If passing reshard_after_forward as an int, it should be a factor of {ranks}, not {given}")
    if given in (1, ranks):
        return given == ranks, None
    known = _keepers.setdefault(info.shard_process_group, {})
    if given not in known:
        first = info.shard_mesh_rank // given * given
        members = get_process_group_ranks(info.shard_process_group)[first : first + given]
        group = new_group(members, use_local_synchronization=True)
        assert not isinstance(group, int)  # This rank is one of the members.
        known[given] = group
    return True, known[given]


def _placement(
    parameter: Parameter,
    of: Callable[[Parameter], Placement | ShardPlacementResult | None] | None,
    info: FSDPMeshInfo,
) -> tuple[int, FSDPMeshInfo]:
    """Return the dimension that a parameter is sharded on, and the mesh."""
    given: Any = None if of is None else of(parameter)
    if isinstance(given, ShardPlacementResult):
        given, info = given.placement, given.mesh_info
        if not isinstance(info, FSDPMeshInfo):
            raise ValueError(
                f"Per-param mesh via shard_placement_fn is not supported with {type(info).__name__}; it requires "
                "FSDPMeshInfo (or subclass)"
            )
    if given is None:
        return 0, info
    if not isinstance(given, Shard):
        raise ValueError(f"Invalid shard_placement_fn result: {given}")
    dim = given.dim + parameter.ndim if given.dim < 0 else given.dim
    if not 0 <= dim < parameter.ndim:
        raise AssertionError(f"Shard dim {given.dim} is invalid for {parameter.ndim}D tensor: {parameter.shape}")
    return dim, info


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Gather parameters around a method of a module, as around its forward.

    Args:
        module: the module. Nothing happens if it is not an `FSDPModule`.
        method_name: the name of the method.

    Raises:
        ValueError: if there is no such method.
    """
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    state = module._get_fsdp_state()
    method = getattr(module, method_name)

    @functools.wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = state.before_forward(module, args, kwargs)
        try:
            output = method(*args, **kwargs)
        except BaseException:
            state.after_forward(module, None)
            raise
        return state.after_forward(module, output)

    setattr(module, method_name, wrapped)


def share_comm_ctx(modules: list[FSDPModule]) -> None:
    """Accepted: roots wait for the collectives of each other in any case.

    Args:
        modules: modules of `fully_shard`.

    Raises:
        ValueError: if one of them is another module.
    """
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects list of FSDPModules but got {module}")
