"""Sharded tensors, and the functions that make them."""

from __future__ import annotations

import inspect
import itertools
import threading
import warnings

from ... import (
    _C,
    Size,
    Tensor,
    device as _device,
    dtype as _dtype,
    full as _full,
    get_default_dtype,
    linspace as _linspace,
    logspace as _logspace,
    nn,
    no_grad,
    strided,
)
from ...autograd import Function
from ..device_mesh import DeviceMesh, _mesh_resources
from ..distributed_c10d import all_gather_object, broadcast, get_global_rank, get_world_size
from ._dtensor_spec import DTensorSpec, TensorMeta
from ._utils import compute_global_tensor_info, compute_local_shape_and_global_offset, local_places
from .placement_types import Partial, Placement, Replicate, Shard, _packed, _StridedShard, _unpacked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ..checkpoint.metadata import ChunkStorageMetadata, MetadataIndex
    from ..checkpoint.planner import WriteItem

__all__ = [
    "DTensor",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "linspace",
    "logspace",
    "ones",
    "rand",
    "randn",
    "zeros",
]

#: Numbers and groups of meshes by the mesh, the device of the parts and the groups, and meshes by their numbers.
_numbers: dict[tuple[Any, ...], tuple[int, list[Any]]] = {}
_meshes: dict[int, DeviceMesh] = {}
_lock = threading.Lock()


class _Agreeing(threading.local):
    """Whether this thread agrees on the seed of a new mesh. `CommDebugMode` leaves such collectives out."""

    is_active = False


_agreeing = _Agreeing()


def _number(mesh: DeviceMesh, device: _device) -> int:
    """Return the number of a mesh below this module. All ranks of the mesh call this at the same time."""
    # Ranks outside the mesh have no groups of it. Their tensors have no elements.
    is_outside = mesh.get_coordinate() is None
    groups = [] if is_outside else [group._sharding_group() for group in mesh.get_all_groups()]
    # Ranks that are threads have equal meshes with groups of their own. The groups of a mesh that was made before
    # `destroy_process_group` are gone.
    key = (mesh, str(device), *map(id, groups))
    number, known = _numbers.get(key, (-1, None))
    if known == groups:
        return number
    ranks = mesh.mesh.flatten().tolist()
    _agreeing.is_active = True
    try:
        number = _C._sharded_mesh(ranks, list(mesh.shape), mesh.get_rank(), groups, device)
    finally:
        _agreeing.is_active = False
    with _lock:
        _numbers[key], _meshes[number] = (number, groups), mesh
    return number


def _device_of(mesh: DeviceMesh) -> _device:
    """Return the device of this rank in a mesh."""
    return _device(mesh.device_type)


def _current(mesh: DeviceMesh | None) -> DeviceMesh:
    return _mesh_resources.get_current_mesh() if mesh is None else mesh


def _placements(placements: Sequence[Placement] | None, mesh: DeviceMesh, ndim: int) -> tuple[Placement, ...]:
    """Return placements with dimensions from 0. The default is replicated."""
    if placements is None:
        return tuple(Replicate() for _ in range(mesh.ndim))
    if len(placements) != mesh.ndim:
        raise ValueError(
            "`placements` must have the same length as `device_mesh.ndim`! "
            f"Found placements length: {len(placements)}, and device_mesh.ndim: {mesh.ndim}."
        )
    result: list[Placement] = []
    for placement in placements:
        if not isinstance(placement, Placement):
            raise TypeError(f"placements: expects a placement for each mesh dimension, but got {placement!r}")
        if isinstance(placement, Shard) and placement.dim < 0:
            dim = placement.dim + ndim
            is_strided = isinstance(placement, _StridedShard)
            placement = _StridedShard(dim, split_factor=placement.split_factor) if is_strided else Shard(dim)
        if isinstance(placement, Shard) and not 0 <= placement.dim < ndim:
            raise RuntimeError(f"Sharding dim {placement.dim} greater than or equal to tensor ndim {ndim}")
        result.append(placement)
    return tuple(result)


def _check_equal(description: tuple[Any, ...], mesh: DeviceMesh) -> None:
    """Raise on all ranks of a mesh if their descriptions of a part differ."""
    found = {description}
    if mesh.get_coordinate() is None:
        return
    for group in mesh.get_all_groups():
        all_found: list[Any] = [None] * get_world_size(group)
        all_gather_object(all_found, found, group)
        found = set().union(*all_found)
    if len(found) > 1:
        raise ValueError("Inconsistent tensor metadata (including shape and stride) across ranks.")


class _DTensorMeta(_C._TensorMeta):
    """Calls `DTensor(local_tensor, spec, requires_grad=...)`, which PyTorch has for its own modules."""

    def __call__(cls, local_tensor: Tensor, spec: DTensorSpec | None = None, *, requires_grad: bool = False) -> Any:
        if not isinstance(spec, DTensorSpec):
            raise RuntimeError("make a DTensor with DTensor.from_local, distribute_tensor, or a function such as zeros")
        if local_tensor.requires_grad and not requires_grad:
            warnings.warn(
                "To construct DTensor from torch.Tensor, it's recommended to use local_tensor.detach() and make "
                "requires_grad consistent.",
                stacklevel=2,
            )
        placed, number = [_packed(p) for p in spec.placements], _number(spec.mesh, local_tensor.device)
        strides = None if spec.tensor_meta is None else list(spec.tensor_meta.stride)
        made = _C._sharded_from_local(local_tensor.detach(), number, placed, list(spec.shape), None, strides)
        return made.requires_grad_(requires_grad)


class DTensor(Tensor, metaclass=_DTensorMeta):
    """A tensor with the sizes of the whole, of which each rank of a mesh has a part.

    All functions of tensors take it. They redistribute their operands as needed, so all ranks of the mesh make the same
    calls in the same order. Reading elements, as `item` does, gathers them.

    Make one with `distribute_tensor`, `DTensor.from_local`, or a function such as `zeros`.
    """

    __torch_function__ = _C._disabled_torch_function_impl

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        """Return the tensor whose part on this rank is `local_tensor`. Gradients reach `local_tensor`.

        Args:
            local_tensor: the part of this rank.
            device_mesh: the mesh. The default is the innermost one that is active.
            placements: a placement for each mesh dimension. The default is replicated.
            run_check: whether to compare dtypes and sizes over ranks, and to give replicated dimensions the elements of
                the first rank.
            shape: the sizes of the whole. The default takes parts of equal sizes.
            stride: the strides of the whole, given together with `shape`. Strides that leave gaps are ignored.
            grad_placements: the placements whose part is the gradient of `local_tensor`. The default is
                `placements`, with pending reductions replicated.

        Raises:
            RuntimeError: if `shape` is given without `stride`, or `local_tensor` is no plain tensor.
            ValueError: if the part does not have the size of this rank's chunk of `shape`, or `run_check` finds
                that the parts differ in dtype, in `requires_grad`, or without `shape` in sizes or strides.
        """
        if not isinstance(local_tensor, Tensor) or isinstance(local_tensor, DTensor):
            raise RuntimeError(
                f"the local_tensor argument only accepts torch.Tensor but got {type(local_tensor)} value."
            )
        mesh = _current(device_mesh)
        placed = _placements(placements, mesh, local_tensor.ndim)
        if (shape is None) != (stride is None):
            raise RuntimeError(
                f"Found shape:{shape}, stride:{stride}.", "Please pass both shape and stride at the same time."
            )
        if local_tensor.device.type != mesh.device_type and local_tensor.device.type != "meta":
            local_tensor = local_tensor.to(mesh.device_type)
        if run_check:
            layout = (tuple(local_tensor.shape), local_tensor.stride()) if shape is None else ()
            _check_equal((str(local_tensor.dtype), local_tensor.requires_grad, *layout), mesh)
        if shape is None:
            shape, stride = compute_global_tensor_info(local_tensor.shape, local_tensor.stride(), mesh, placed)
        if run_check:
            with no_grad():
                for dim, placement in enumerate(placed):
                    if placement.is_replicate():
                        group = mesh.get_group(dim)
                        local_tensor = local_tensor.contiguous()
                        broadcast(local_tensor, get_global_rank(group, 0), group)
        number = _number(mesh, local_tensor.device)
        gradient = None
        if grad_placements is not None:
            gradient = [_packed(p) for p in _placements(grad_placements, mesh, local_tensor.ndim)]
        packed, strides = [_packed(p) for p in placed], None if stride is None else list(stride)
        made = _C._sharded_from_local(local_tensor, number, packed, list(shape), gradient, strides)
        return made  # type: ignore[no-any-return]  # The class was set below.

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """Return the part of this rank. It is differentiable. Without recording, each call returns the same tensor.

        Args:
            grad_placements: the placements that its gradient has. The default is those of the tensor, with pending
                reductions replicated.
        """
        gradient = None
        if grad_placements is not None:
            gradient = [_packed(p) for p in _placements(grad_placements, self.device_mesh, self.ndim)]
        return _C._sharded_to_local(self, gradient)

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: _dtype | None = None,
        backward_dtype: _dtype | None = None,
    ) -> DTensor:
        """Return the tensor with other placements. The gradient gets the placements of this tensor.

        Args:
            device_mesh: the mesh of the tensor.
            placements: a placement for each mesh dimension.
            async_op: accepted. The call waits.
            forward_dtype: the dtype to convert to before.
            backward_dtype: the dtype to convert the gradient to before. The default is that of the gradient.

        Raises:
            RuntimeError: if `placements` is missing, or asks for a reduction that no summands are known for.
            NotImplementedError: for another mesh.
        """
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        mesh = self.device_mesh
        if device_mesh is not None and device_mesh != mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        placed = _placements(placements, mesh, self.ndim)
        for now, placement in zip(self.placements, placed):
            if isinstance(placement, Partial) and now != placement and placement.reduce_op not in ("sum", "avg"):
                raise RuntimeError(
                    f"Can not redistribute from {now} to {placement}, "
                    "only Shard to Partial(sum) redistribution is supported!"
                )
        x: Any = self
        if backward_dtype is not None and backward_dtype != x.dtype:
            x = _CastGradient.apply(x, backward_dtype)
        if forward_dtype is not None:
            x = x.to(forward_dtype)
        return _C._sharded_redistribute(x, [_packed(p) for p in placed])  # type: ignore[no-any-return]

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """Return the whole tensor, as a plain tensor on each rank. It is differentiable.

        Args:
            grad_placements: the placements that its gradient has. The default is replicated.
        """
        whole = self.redistribute(placements=[Replicate()] * self.device_mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    @property
    def _sharding(self) -> tuple[int, tuple[Any, ...]]:
        found = _C._sharded_spec(self)
        if found is None:
            raise RuntimeError("the tensor is not on a mesh")
        return found

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh of the tensor."""
        number = self._sharding[0]
        return _meshes[number] if number in _meshes else _meshes[_C._sharded_first(number)]

    @property
    def placements(self) -> tuple[Placement, ...]:
        """The placement along each mesh dimension."""
        return tuple(_unpacked(p) for p in self._sharding[1])

    @property
    def _spec(self) -> DTensorSpec:
        return DTensorSpec(self.device_mesh, self.placements, TensorMeta(self.shape, self.stride(), self.dtype))

    @property
    def _local_tensor(self) -> Tensor:
        with no_grad():
            return _C._sharded_to_local(self)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return (
            f"DTensor(local_tensor={self._local_tensor}, device_mesh={self.device_mesh}, placements={self.placements})"
        )

    def _chunks(self) -> list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
        """Return offsets in the whole, offsets in the part, and sizes of the chunks that this rank has."""
        coordinate = self.device_mesh.get_coordinate()
        if coordinate is None:
            return []
        if any(placement.is_partial() for placement in self.placements):
            raise ValueError(f"a DTensor with the placements {self.placements} cannot be saved: redistribute it first")
        dims = []
        for places, whole in zip(local_places(self.shape, self.device_mesh, self.placements, coordinate), self.shape):
            before, pieces = 0, []
            for first, size in places:
                pieces.append((first, before, size))
                before += size
            dims.append(pieces or [(whole, 0, 0)])
        chunks = []
        for pieces in itertools.product(*dims):
            first, own, sizes = zip(*pieces) if pieces else ((), (), ())
            chunks.append((tuple(first), tuple(own), tuple(sizes)))
        return chunks

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        """Return the chunks that this rank has, for `torch.distributed.checkpoint`.

        Raises:
            ValueError: if a reduction is pending.
        """
        from ..checkpoint.metadata import ChunkStorageMetadata

        return [ChunkStorageMetadata(Size(first), Size(sizes)) for first, _, sizes in self._chunks()]

    def __create_write_items__(self, fqn: str, object: Any) -> list[WriteItem]:
        """Return the items of a checkpoint that this rank could write.

        Args:
            fqn: the name of the tensor.
            object: the tensor.
        """
        from ..checkpoint._pieces import shard_items

        return shard_items(fqn, self)

    def __get_tensor_shard__(self, index: MetadataIndex) -> Tensor:
        """Return the memory of a chunk that this rank has.

        Args:
            index: the chunk.

        Raises:
            ValueError: if this rank does not have it.
        """
        chunks = self._chunks()
        for first, own, sizes in chunks:
            if index.offset == Size(first) or index.offset is None and len(chunks) == 1:
                local = self._local_tensor
                for dim, (start, size) in enumerate(zip(own, sizes)):
                    local = local.narrow(dim, start, size)
                return local
        raise ValueError(f"Could not find shard at '{index.offset}' for FQN: '{index.fqn}'")

    def numpy(self, *, force: bool = False) -> Any:
        """Raise: each rank has a part only. Take `full_tensor().numpy()`.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.numpy()

    def __reduce_ex__(self, protocol: Any) -> Any:
        spec = (self.device_mesh, self.placements, tuple(self.shape), self.stride())
        return _rebuilt, (self._local_tensor, *spec, self.requires_grad, isinstance(self, nn.Parameter))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
                "moment."
            )
        copy = self.detach().clone().requires_grad_(self.requires_grad)
        if getattr(self, "_is_param", False):
            copy = nn.Parameter(copy, self.requires_grad)
        memo[id(self)] = copy
        return copy


_C._set_class("sharded", DTensor)


def _rebuilt(
    local: Tensor,
    mesh: DeviceMesh,
    placements: Sequence[Placement],
    shape: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    is_parameter: bool,
) -> DTensor:
    """Return a sharded tensor from its pickle. Its mesh must have the groups of this program."""
    made = DTensor.from_local(local, mesh, placements, shape=shape, stride=stride)
    if is_parameter:
        return nn.Parameter(made, requires_grad)  # type: ignore[return-value]  # A parameter that is sharded.
    return made.requires_grad_(requires_grad)  # type: ignore[return-value]  # It stays a sharded tensor.


class _CastGradient(Function):
    """Convert the gradient to a dtype."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: _dtype) -> Tensor:
        """Return `x`."""
        ctx.dtype = dtype
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Return the gradient in the dtype."""
        return gradients[0].to(ctx.dtype), None


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """Return a leaf as a sharded tensor.

    Args:
        tensor: the whole tensor.
        device_mesh: the mesh. The default is the innermost one that is active.
        placements: a placement for each mesh dimension. The default is replicated.
        src_data_rank: the rank, along each mesh dimension, whose elements count. `None` lets each rank take its part
            of its own `tensor`, without communication.

    Raises:
        RuntimeError: if the tensor is no leaf, or a reduction is pending.
        ValueError: if there is not one placement for each mesh dimension, or `tensor` is sharded otherwise.
    """
    mesh = _current(device_mesh)
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    placed = _placements(placements, mesh, tensor.ndim)
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh:
            raise ValueError(
                f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different device mesh {mesh}."
            )
        if tensor.placements != placed:
            raise ValueError(
                f"Cannot distribute a DTensor with placements {tensor.placements} to a different placements {placed}. "
                "do you want to call `redistribute` instead?"
            )
        return tensor
    for dim, placement in enumerate(placed):
        if placement.is_partial():
            raise RuntimeError(
                f"Trying to distribute tensor with unsupported placements {placement} on device mesh dimension {dim}!"
            )
    packed = [_packed(p) for p in placed]
    with no_grad():
        whole = tensor.detach()
        if whole.device.type not in (mesh.device_type, "meta"):
            whole = whole.to(mesh.device_type)
        number = _number(mesh, whole.device)
        if src_data_rank is None or whole.device.type == "meta":
            made = _part(whole, number, mesh, placed)
        elif src_data_rank == 0:
            made = _C._sharded_distribute(whole, number, packed)
        else:
            whole = whole.clone()
            for dim in range(mesh.ndim):
                group = mesh.get_group(dim)
                broadcast(whole, get_global_rank(group, src_data_rank), group)
            made = _C._sharded_distribute(whole, number, packed)
    made = made.detach().requires_grad_(tensor.requires_grad)
    return made  # type: ignore[no-any-return]


def _part(whole: Tensor, number: int, mesh: DeviceMesh, placements: Sequence[Placement]) -> DTensor:
    """Return a sharded tensor of a tensor that every rank has."""
    replicated = [_packed(Replicate())] * mesh.ndim
    made = _C._sharded_from_local(whole, number, replicated, list(whole.shape))
    return _C._sharded_redistribute(made, [_packed(p) for p in placements])  # type: ignore[no-any-return]


def distribute_module(
    module: nn.Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, nn.Module, DeviceMesh], None] | None = None,
    input_fn: Callable[[nn.Module, Any, DeviceMesh], Any] | None = None,
    output_fn: Callable[[nn.Module, Any, DeviceMesh], Any] | None = None,
) -> nn.Module:
    """Make the parameters and buffers of a module sharded tensors, and return the module.

    Those that `partition_fn` leaves are replicated.

    Args:
        module: the module.
        device_mesh: the mesh. The default is the innermost one that is active.
        partition_fn: shards parameters of a submodule. It gets its name, the submodule and the mesh.
        input_fn: converts the inputs of the module. It gets the module, the inputs and the mesh.
        output_fn: converts the outputs of the module. It gets the module, the outputs and the mesh.

    `input_fn` and `output_fn` without the module as an argument are deprecated.

    Raises:
        RuntimeError: if the module was distributed before.
        ValueError: if `input_fn` or `output_fn` takes another number of arguments.
    """
    mesh = _current(device_mesh)
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError(
            "distribute_module should only be called once on a module, but it has already been called on this module!"
        )
    for name, each in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, each, mesh)
        for key, parameter in list(each._parameters.items()):
            if parameter is not None and not isinstance(parameter, DTensor):
                sharded = nn.Parameter(distribute_tensor(parameter.detach(), mesh), parameter.requires_grad)
                each.register_parameter(key, sharded)
        for key, buffer in list(each._buffers.items()):
            if buffer is not None and not isinstance(buffer, DTensor):
                each._buffers[key] = distribute_tensor(buffer, mesh)
    if input_fn is not None:
        convert_inputs = _converter("input_fn", input_fn)
        module.register_forward_pre_hook(lambda module, inputs: convert_inputs(module, inputs, mesh))
    if output_fn is not None:
        convert_outputs = _converter("output_fn", output_fn)
        module.register_forward_hook(lambda module, inputs, outputs: convert_outputs(module, outputs, mesh))
    module._distribute_module_applied = True  # type: ignore[assignment]  # A mark, as PyTorch's.
    return module


def _converter(name: str, given: Callable[..., Any]) -> Callable[[nn.Module, Any, DeviceMesh], Any]:
    """Return a function of `distribute_module` that takes the module too."""
    count = len(inspect.signature(given).parameters)
    if count == 2:
        warnings.warn(
            f"Deprecating {name} that takes two arguments (inputs, device_mesh), "
            f"please use {name} that takes in (module, inputs, device_mesh) instead!",
            FutureWarning,
            stacklevel=3,
        )
        return lambda module, values, mesh: given(values, mesh)
    if count != 3:
        raise ValueError(f"{name} should take in 3 arguments, but got {count} arguments!")
    return given


def _fill(
    value: float,
    size: Sequence[Any],
    dtype: _dtype | None,
    requires_grad: bool,
    device_mesh: DeviceMesh | None,
    placements: Sequence[Placement] | None,
) -> DTensor:
    """Return a sharded tensor with one value everywhere. Only the part of this rank takes memory."""
    mesh = _current(device_mesh)
    sizes = Size(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
    placed = _placements(placements, mesh, len(sizes))
    local, _ = compute_local_shape_and_global_offset(sizes, mesh, placed)
    part = _full(local, value, dtype=dtype, device=_device_of(mesh))
    made = _C._sharded_from_local(part, _number(mesh, part.device), [_packed(p) for p in placed], list(sizes))
    made.requires_grad_(requires_grad)
    return made  # type: ignore[no-any-return]


def zeros(
    *size: Any,
    requires_grad: bool = False,
    dtype: _dtype | None = None,
    layout: object = strided,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a sharded tensor of zeros.

    Args:
        size: sizes of the whole, as integers or one sequence.
        requires_grad: whether it requires a gradient.
        dtype: element type. The default is `get_default_dtype`.
        layout: `torch.strided`.
        device_mesh: the mesh. The default is the innermost one that is active.
        placements: a placement for each mesh dimension. The default is replicated.
    """
    return _fill(0.0, size, _default(dtype), requires_grad, device_mesh, placements)


def ones(
    *size: Any,
    dtype: _dtype | None = None,
    layout: object = strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a sharded tensor of ones. The arguments are those of `zeros`."""
    return _fill(1.0, size, _default(dtype), requires_grad, device_mesh, placements)


def empty(
    *size: Any,
    dtype: _dtype | None = None,
    layout: object = strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a sharded tensor whose elements are to be set. They are zeros. The arguments are those of `zeros`."""
    return _fill(0.0, size, _default(dtype), requires_grad, device_mesh, placements)


def full(
    size: Sequence[int],
    fill_value: float,
    *,
    dtype: _dtype | None = None,
    layout: object = strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a sharded tensor with one value everywhere. The other arguments are those of `zeros`.

    Args:
        size: sizes of the whole.
        fill_value: the value. Without `dtype`, it decides the element type.
    """
    return _fill(fill_value, (size,), dtype, requires_grad, device_mesh, placements)


def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: _dtype | None = None,
    layout: object = strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a sharded tensor of `steps` numbers at equal distances. The other arguments are those of `zeros`.

    Args:
        start: the first number.
        end: the last number.
        steps: how many numbers.
    """
    return _fill_spaced(_linspace(start, end, steps, dtype=dtype), requires_grad, device_mesh, placements)


def logspace(
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    *,
    dtype: _dtype | None = None,
    layout: object = strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a sharded tensor of `steps` powers of `base`. The other arguments are those of `zeros`.

    Args:
        start: the first exponent.
        end: the last exponent.
        steps: how many numbers. The exponents have equal distances.
        base: the base.
    """
    return _fill_spaced(_logspace(start, end, steps, base, dtype=dtype), requires_grad, device_mesh, placements)


def _fill_spaced(
    whole: Tensor, requires_grad: bool, device_mesh: DeviceMesh | None, placements: Sequence[Placement] | None
) -> DTensor:
    mesh = _current(device_mesh)
    whole = whole.to(_device_of(mesh))
    made = _part(whole, _number(mesh, whole.device), mesh, _placements(placements, mesh, 1))
    return made.requires_grad_(requires_grad)  # type: ignore[return-value]  # It stays a sharded tensor.


def rand(
    *size: Any,
    requires_grad: bool = False,
    dtype: _dtype | None = None,
    layout: object = strided,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a sharded tensor of random numbers from [0, 1). They do not depend on `placements`.

    The arguments are those of `zeros`.
    """
    return _random("uniform_", size, dtype, requires_grad, device_mesh, placements)


def randn(
    *size: Any,
    requires_grad: bool = False,
    dtype: _dtype | None = None,
    layout: object = strided,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a sharded tensor of normally distributed numbers. They do not depend on `placements`.

    The arguments are those of `zeros`.
    """
    return _random("normal_", size, dtype, requires_grad, device_mesh, placements)


def _default(dtype: _dtype | None) -> _dtype:
    return get_default_dtype() if dtype is None else dtype


def _random(
    method: str,
    size: Sequence[Any],
    dtype: _dtype | None,
    requires_grad: bool,
    device_mesh: DeviceMesh | None,
    placements: Sequence[Placement] | None,
) -> DTensor:
    x = _fill(0.0, size, _default(dtype), False, device_mesh, placements)
    getattr(x, method)()
    made = x.redistribute(placements=_placements(placements, x.device_mesh, x.ndim))
    made.requires_grad_(requires_grad)
    return made
