"""Tensors of which each rank has some boxes, called shards."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytpu as torch
from pytpu import distributed as dist

from ...checkpoint.metadata import ChunkStorageMetadata, MetadataIndex
from ...checkpoint.planner import WriteItem, WriteItemType
from ..metadata import ShardMetadata
from ..sharding_spec import EnumerableShardingSpec, ShardingSpec
from .metadata import ShardedTensorMetadata, TensorProperties

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytpu import Size, Tensor, device as _device, dtype as _dtype

    from ...distributed_c10d import ProcessGroup

__all__ = [
    "Shard",
    "ShardMetadata",
    "ShardedTensor",
    "ShardedTensorMetadata",
    "TensorProperties",
    "empty",
    "full",
    "init_from_local_shards",
    "ones",
    "pre_load_state_dict_hook",
    "rand",
    "randn",
    "state_dict_hook",
    "zeros",
]


@dataclass
class Shard:
    """A shard of this rank.

    Args:
        tensor: the elements.
        metadata: the place. Its sizes are those of `tensor`.
    """

    tensor: Tensor
    metadata: ShardMetadata

    def __post_init__(self) -> None:
        if list(self.tensor.size()) != list(self.metadata.shard_sizes):
            raise ValueError(
                "Shard tensor size does not match with metadata.shard_lengths! "
                f"Found shard tensor size: {list(self.tensor.size())}, metadata.shard_lengths: "
                f"{self.metadata.shard_sizes}, "
            )

    @classmethod
    def from_tensor_and_offsets(cls, tensor: Tensor, shard_offsets: list[int], rank: int) -> Shard:
        """Return a shard of a rank, from the elements and their first index."""
        place = ShardMetadata(shard_offsets, list(tensor.size()), f"rank:{rank}/{tensor.device}")
        return cls(tensor, place)


class ShardedTensor:
    """A tensor of which each rank has some shards.

    It can be saved in checkpoints, loaded and gathered. It has no arithmetic: `torch.distributed.tensor.DTensor` has.
    Functions such as `zeros` and `init_from_local_shards` make it.

    Args:
        sharding_spec: the rule that divides it.
        *size: the sizes of the whole.
        make: returns the elements of a shard of the given sizes, on the given device. The default is `torch.empty`.
        dtype: the dtype. The default is that of new tensors.
        requires_grad: whether the shards require gradients.
        process_group: the ranks. The default is the group of all ranks.
        init_rrefs: refused: there are no remote references.
    """

    def __init__(
        self,
        sharding_spec: ShardingSpec,
        *size: int | Sequence[int],
        make: Callable[..., Tensor] = torch.empty,
        dtype: _dtype | None = None,
        layout: torch.layout = torch.strided,
        requires_grad: bool = False,
        pin_memory: bool = False,
        memory_format: torch.memory_format = torch.contiguous_format,
        process_group: ProcessGroup | None = None,
        init_rrefs: bool = False,
    ) -> None:
        if init_rrefs:
            raise NotImplementedError("ShardedTensor: init_rrefs needs torch.distributed.rpc, which is not implemented")
        sizes = _as_size(size)
        properties = TensorProperties(
            dtype or torch.get_default_dtype(), layout, requires_grad, memory_format, pin_memory
        )
        metadata = sharding_spec.build_metadata(sizes, properties)
        group = process_group or dist.group.WORLD
        shards = []
        for place in metadata.shards_metadata:
            if place.placement is None or place.placement.rank() != dist.get_rank(group):
                continue
            where = place.placement.device()
            made = make(place.shard_sizes, dtype=properties.dtype, device=where, requires_grad=requires_grad)
            shards.append(Shard(made, place))
        self._set(shards, metadata, sharding_spec, group)

    def _set(
        self, shards: list[Shard], metadata: ShardedTensorMetadata, spec: ShardingSpec, group: ProcessGroup | None
    ) -> None:
        self._local_shards, self._metadata, self._sharding_spec, self._process_group = shards, metadata, spec, group

    @classmethod
    def _init_from_local_shards(
        cls,
        local_shards: list[Shard],
        *global_size: int | Sequence[int],
        process_group: ProcessGroup | None = None,
        init_rrefs: bool = False,
    ) -> ShardedTensor:
        """Return a tensor of shards that the ranks have. All ranks call it."""
        group = process_group or dist.group.WORLD
        mine = [shard.metadata for shard in local_shards]
        properties = TensorProperties.create_from_tensor(local_shards[0].tensor) if local_shards else None
        gathered: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(gathered, (mine, properties), group=group)
        described = next((each for _, each in gathered if each is not None), None)
        if described is None:
            raise ValueError("No local shards on any rank")
        places = sorted((place for each, _ in gathered for place in each), key=lambda place: place.shard_offsets)
        metadata = ShardedTensorMetadata(places, _as_size(global_size), described)
        return cls._init_from_local_shards_and_global_metadata(local_shards, metadata, group)

    @classmethod
    def _init_from_local_shards_and_global_metadata(
        cls,
        local_shards: list[Shard],
        sharded_tensor_metadata: ShardedTensorMetadata,
        process_group: ProcessGroup | None = None,
        init_rrefs: bool = False,
        sharding_spec: ShardingSpec | None = None,
    ) -> ShardedTensor:
        """Return a tensor of the shards of this rank and the places of all shards."""
        places = sharded_tensor_metadata.shards_metadata
        if not places:
            raise ValueError("shards_metadata must not be empty!")
        for shard in local_shards:
            if shard.metadata not in places:
                raise ValueError(f"the shard of this rank is not among the shards of the tensor: {shard.metadata}")
        spec = sharding_spec or EnumerableShardingSpec(places)
        spec.build_metadata(sharded_tensor_metadata.size, sharded_tensor_metadata.tensor_properties)
        made = object.__new__(cls)
        made._set(local_shards, sharded_tensor_metadata, spec, process_group or dist.group.WORLD)
        return made

    def metadata(self) -> ShardedTensorMetadata:
        """Return the places of all shards, and the properties of the tensor."""
        return self._metadata

    def local_shards(self) -> list[Shard]:
        """Return the shards of this rank."""
        return self._local_shards

    def local_tensor(self) -> Tensor:
        """Return the elements of this rank's only shard."""
        if len(self._local_shards) != 1:
            raise NotImplementedError("Only single local shard is supported.")
        return self._local_shards[0].tensor

    def remote_shards(self) -> dict[int, Any]:
        """Raise `RuntimeError`: there are no remote references to shards of other ranks."""
        raise RuntimeError("ShardedTensor created with init_rrefs=False, no RRefs to remote shards available")

    def sharding_spec(self) -> ShardingSpec:
        """Return the rule that divides the tensor."""
        return self._sharding_spec

    def size(self, dim: int | None = None) -> Any:
        """Return the sizes of the whole, or its size in dimension `dim`."""
        return self._metadata.size if dim is None else self._metadata.size[dim]

    @property
    def shape(self) -> Size:
        """The sizes of the whole."""
        return self._metadata.size

    def dim(self) -> int:
        """Return the number of dimensions."""
        return len(self._metadata.size)

    ndim = property(dim)

    def numel(self) -> int:
        """Return the number of elements of the whole."""
        return math.prod(self._metadata.size)

    @property
    def dtype(self) -> _dtype:
        """The dtype."""
        return self._metadata.tensor_properties.dtype

    @property
    def layout(self) -> torch.layout:
        """The layout."""
        return self._metadata.tensor_properties.layout

    @property
    def requires_grad(self) -> bool:
        """Whether the shards require gradients."""
        return self._metadata.tensor_properties.requires_grad

    @property
    def device(self) -> _device:
        """The device of this rank's first shard, or `cpu` without one."""
        return self._local_shards[0].tensor.device if self._local_shards else torch.device("cpu")

    def is_pinned(self) -> bool:
        """Return whether the shards are in pinned memory."""
        return self._metadata.tensor_properties.pin_memory

    def is_contiguous(self, memory_format: torch.memory_format = torch.contiguous_format) -> bool:
        """Return whether the shards are contiguous."""
        return all(shard.tensor.is_contiguous() for shard in self._local_shards)

    def detach(self) -> ShardedTensor:
        """Return the same shards without their history."""
        shards = [Shard(shard.tensor.detach(), shard.metadata) for shard in self._local_shards]
        made = object.__new__(type(self))
        made._set(shards, self._metadata, self._sharding_spec, self._process_group)
        return made

    def gather(
        self, dst: int = 0, out: Tensor | None = None, enforce_dtype: bool = False, dtype: _dtype | None = None
    ) -> None:
        """Copy all shards to a tensor of one rank. All ranks call it.

        Args:
            dst: the global rank.
            out: the tensor on that rank, of the sizes of the whole. `None` on the others.
            enforce_dtype: accepted: `out` decides on the dtype.
            dtype: accepted: `out` decides on the dtype.

        Raises:
            ValueError: if rank `dst` gives no `out`.
        """
        is_target = dist.get_rank() == dst
        if is_target and out is None:
            raise ValueError("`out` Tensor must be provided on dst rank!")
        mine = [(shard.metadata.shard_offsets, shard.tensor.detach().cpu()) for shard in self._local_shards]
        gathered: list[Any] | None = [None] * dist.get_world_size(self._process_group) if is_target else None
        dist.gather_object(mine, gathered, dst=dst, group=self._process_group)
        if out is None or gathered is None:
            return
        with torch.no_grad():
            for shards in gathered:
                for offsets, elements in shards:
                    box = tuple(slice(o, o + n) for o, n in zip(offsets, elements.shape, strict=True))
                    out[box].copy_(elements)

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        """Return the places of this rank's shards."""
        return [_chunk(shard.metadata) for shard in self._local_shards]

    def __get_tensor_shard__(self, index: MetadataIndex) -> Tensor:
        """Return the elements of the shard that begins at `index.offset`."""
        if index.offset is None:
            raise ValueError(f"Cannot lookup {index.fqn} since its a ShardedTensor and no offset was provided")
        for shard in self._local_shards:
            if torch.Size(shard.metadata.shard_offsets) == index.offset:
                return shard.tensor
        raise ValueError(f"Could not find shard at '{index.offset}' for FQN: '{index.fqn}'")

    def __create_write_items__(self, fqn: str, object: object) -> list[WriteItem]:
        """Return an item for each shard of this rank."""
        return [self._write_item(fqn, shard.metadata) for shard in self._local_shards]

    def _write_items_of_all(self, fqn: str) -> list[WriteItem]:
        """Return an item for each shard of all ranks."""
        return [self._write_item(fqn, place) for place in self._metadata.shards_metadata]

    def _write_item(self, fqn: str, place: ShardMetadata) -> WriteItem:
        from ...checkpoint.planner import TensorWriteData

        data = TensorWriteData(_chunk(place), self._metadata.tensor_properties, self._metadata.size)
        return WriteItem(MetadataIndex(fqn, place.shard_offsets), WriteItemType.SHARD, tensor_data=data)

    def __repr__(self) -> str:
        return f"ShardedTensor({self._metadata})"


def _chunk(place: ShardMetadata) -> ChunkStorageMetadata:
    return ChunkStorageMetadata(torch.Size(place.shard_offsets), torch.Size(place.shard_sizes))


def _as_size(sizes: Sequence[Any]) -> Size:
    """Return sizes that were given as integers, or as one sequence."""
    if len(sizes) == 1 and not isinstance(sizes[0], int):
        return torch.Size(sizes[0])
    return torch.Size(sizes)


def empty(sharding_spec: ShardingSpec, *size: int | Sequence[int], **options: Any) -> ShardedTensor:
    """Return a tensor whose elements have no values yet. `options` are those of `ShardedTensor`."""
    return ShardedTensor(sharding_spec, *size, **options)


def zeros(sharding_spec: ShardingSpec, *size: int | Sequence[int], **options: Any) -> ShardedTensor:
    """Return a tensor of zeros. `options` are those of `ShardedTensor`."""
    return ShardedTensor(sharding_spec, *size, make=torch.zeros, **options)


def ones(sharding_spec: ShardingSpec, *size: int | Sequence[int], **options: Any) -> ShardedTensor:
    """Return a tensor of ones. `options` are those of `ShardedTensor`."""
    return ShardedTensor(sharding_spec, *size, make=torch.ones, **options)


def full(sharding_spec: ShardingSpec, size: Sequence[int], fill_value: Any, **options: Any) -> ShardedTensor:
    """Return a tensor of the value `fill_value`. `options` are those of `ShardedTensor`."""

    def make(sizes: Sequence[int], **kind: Any) -> Tensor:
        return torch.full(sizes, fill_value, **kind)

    return ShardedTensor(sharding_spec, size, make=make, **options)


def rand(sharding_spec: ShardingSpec, *size: int | Sequence[int], **options: Any) -> ShardedTensor:
    """Return a tensor of uniform random numbers, which each rank draws. `options` are those of `ShardedTensor`."""
    return ShardedTensor(sharding_spec, *size, make=torch.rand, **options)


def randn(sharding_spec: ShardingSpec, *size: int | Sequence[int], **options: Any) -> ShardedTensor:
    """Return a tensor of normal random numbers, which each rank draws. `options` are those of `ShardedTensor`."""
    return ShardedTensor(sharding_spec, *size, make=torch.randn, **options)


def init_from_local_shards(
    local_shards: list[Shard],
    *global_size: int | Sequence[int],
    process_group: ProcessGroup | None = None,
    init_rrefs: bool = False,
) -> ShardedTensor:
    """Return a tensor of shards that the ranks have. All ranks call it.

    Args:
        local_shards: the shards of this rank.
        *global_size: the sizes of the whole.
        process_group: the ranks. The default is the group of all ranks.
        init_rrefs: refused: there are no remote references.
    """
    return ShardedTensor._init_from_local_shards(local_shards, *global_size, process_group=process_group)


def state_dict_hook(module: torch.nn.Module, destination: dict[str, Any], prefix: str, local_metadata: Any) -> None:
    """Add attributes that are `ShardedTensor` to a state dict. Register it with `_register_state_dict_hook`."""
    for path, submodule in module.named_modules():
        for name, value in vars(submodule).items():
            if isinstance(value, ShardedTensor):
                destination[prefix + (f"{path}." if path else "") + name] = value


def pre_load_state_dict_hook(
    module: torch.nn.Module,
    state_dict: dict[str, Any],
    prefix: str,
    local_metadata: Any,
    strict: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
    error_msgs: list[str],
) -> None:
    """Take `ShardedTensor` values out of a state dict, and set the attributes that have their names."""
    for path, submodule in module.named_modules():
        for name in list(vars(submodule)):
            key = prefix + (f"{path}." if path else "") + name
            if isinstance(state_dict.get(key), ShardedTensor):
                setattr(submodule, name, state_dict.pop(key))
