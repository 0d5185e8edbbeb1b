"""``torch.distributed.checkpoint.default_planner``: the planners that ``save`` and ``load`` use."""

from __future__ import annotations

import dataclasses
import io
import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytpu as torch

from . import _version
from ._dedup_save_plans import dedup_save_plans
from ._nested_dict import FLATTEN_MAPPING, flatten_state_dict
from ._traverse import OBJ_PATH, set_element
from .metadata import (
    STATE_DICT_TYPE,
    STORAGE_TYPES,
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorStorageMetadata,
)
from .planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem, WriteItemType
from .planner_helpers import (
    _compare_save_plans,
    _contains_usable_plan,
    _create_chunk_list,
    _create_default_metadata_only_plan,
    _create_read_items,
    _create_write_items,
    _init_state_dict,
    _merge_delta_local_plans,
)
from .protocol import _size_of
from .resharding import _check_shard_metadata_pair_overlap as _check_box_overlap
from .utils import find_state_dict_object

if TYPE_CHECKING:
    from pytpu import Tensor

logger: logging.Logger = logging.getLogger(__name__)

__all__ = [
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "create_default_global_load_plan",
    "create_default_global_save_plan",
    "create_default_local_load_plan",
    "create_default_local_save_plan",
]


class DefaultSavePlanner(SavePlanner):
    """A planner that flattens the state dict and lets one rank write what several ranks have.

    Args:
        flatten_state_dict: Whether nested dicts and lists are saved as single values with flat names.
        flatten_sharded_tensors: Accepted for compatibility.
        dedup_replicated_tensors: Deprecated, without effect.
        dedup_save_to_lowest_rank: If `True`, the lowest rank writes what several ranks have. Otherwise ranks share this
            work.
        enable_plan_caching: If `True`, a rank sends its plan to the coordinator only if it has changed since the last
            save by this class.
    """

    mappings: FLATTEN_MAPPING

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.mappings = {}
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        if dedup_replicated_tensors is not None:
            logger.warning(
                "DefaultSavePlanner's `dedup_replicated_tensors` argument is being deprecated, and no longer has any "
                "effect. Please remove this argument from your call."
            )
        self._cached_plans_key: str = self.__class__.__name__
        self._enable_plan_caching = enable_plan_caching
        self._pending_local_plan: SavePlan | None = None

    def set_up_planner(
        self, state_dict: STATE_DICT_TYPE, storage_meta: StorageMeta | None = None, is_coordinator: bool = False
    ) -> None:
        """Take the state dict that is saved."""
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict = state_dict
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> SavePlan:
        """Return the items that this rank could write. With caching, an unusable plan says that nothing changed."""
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        if self.flatten_state_dict:
            plan = dataclasses.replace(plan, planner_data=self.mappings)
        self.plan = plan
        if self._enable_plan_caching:
            before = SavePlanner._cached_save_plan.get(self._cached_plans_key)
            if before is not None and _compare_save_plans(plan, before):
                logger.info("No change in the local plan. Skipping sending the plan to the coordinator")
                return SavePlan([], usable=False)
            self._pending_local_plan = plan
        return self.plan

    def _dedup_save_plans(self, all_plans: list[SavePlan]) -> list[SavePlan]:
        return dedup_save_plans(all_plans, self.dedup_save_to_lowest_rank)

    def _create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        global_plan, metadata = create_default_global_save_plan(self._dedup_save_plans(all_plans))
        if self.flatten_state_dict:
            # The first rank that has a name decides on its path.
            paths: FLATTEN_MAPPING = {}
            for plan in reversed(global_plan):
                paths.update(plan.planner_data)
            metadata = dataclasses.replace(metadata, planner_data=paths)
        errors = _validate_global_plan(global_plan, metadata)
        if errors:
            text = "; ".join(errors)
            raise ValueError(
                f"Failed to validate global plan: {text if len(text) <= 500 else text[:500] + '... (truncated)'}"
            )
        return global_plan, metadata

    def _create_global_plan_with_caching(
        self, all_plans: list[SavePlan]
    ) -> tuple[list[SavePlan], list[SavePlan], Metadata]:
        """Return the plans to send, which are unusable where nothing changed, the full plans, and the metadata."""
        key = self._cached_plans_key
        before = SavePlanner._cached_global_plan.get(key)
        if before is None:
            merged = all_plans
        elif _contains_usable_plan(all_plans):
            merged = _merge_delta_local_plans(SavePlanner._cached_all_plans[key], all_plans)
        else:
            return [SavePlan([], usable=False)] * len(all_plans), before, SavePlanner._cached_metadata[key]
        global_plan, metadata = self._create_global_plan(merged)
        SavePlanner._cached_all_plans[key] = merged
        SavePlanner._cached_global_plan[key] = global_plan
        SavePlanner._cached_metadata[key] = metadata
        if before is None:
            return global_plan, global_plan, metadata
        changes = [
            SavePlan([], usable=False) if _compare_save_plans(old, new) else new
            for old, new in zip(before, global_plan, strict=True)
        ]
        return changes, global_plan, metadata

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Return the final plan of each rank, and the content of the checkpoint.

        Raises:
            ValueError: If chunks overlap, are outside of their tensor, or do not fill it.
        """
        if self._enable_plan_caching:
            to_send, global_plan, metadata = self._create_global_plan_with_caching(all_plans)
        else:
            global_plan, metadata = self._create_global_plan(all_plans)
            to_send = global_plan
        self.global_plan = global_plan
        self.metadata = metadata
        return to_send, metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """Return the plan to follow."""
        if self._enable_plan_caching:
            key = self._cached_plans_key
            if new_plan.usable:
                SavePlanner._cached_final_save_plan[key] = new_plan
            else:
                new_plan = SavePlanner._cached_final_save_plan[key]
            if self._pending_local_plan is not None:
                SavePlanner._cached_save_plan[key] = self._pending_local_plan
                self._pending_local_plan = None
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """Return the tensor or the bytes of an item."""
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """Return the object for a name. Subclasses may override this method."""
        return find_state_dict_object(self.state_dict, index)

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """Return an object in the form that is written. Subclasses may override this method."""
        if write_item.type == WriteItemType.BYTE_IO:
            buffer = io.BytesIO()
            torch.save(object, buffer)
            return buffer
        return object


class DefaultLoadPlanner(LoadPlanner):
    """A planner that fills the values of a state dict in place.

    Objects that are not tensors are read as `torch.load` reads them: without trust in the file. Allow more classes with
    `torch.serialization.add_safe_globals`.

    Args:
        flatten_state_dict: Whether nested dicts and lists were saved as single values with flat names.
        flatten_sharded_tensors: Accepted for compatibility.
        allow_partial_load: If `True`, values that are not in the checkpoint stay as they are.
    """

    original_state_dict: STATE_DICT_TYPE
    mappings: FLATTEN_MAPPING

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.original_state_dict = {}
        self.mappings = {}
        self.allow_partial_load = allow_partial_load

    def set_up_planner(
        self, state_dict: STATE_DICT_TYPE, metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Take the state dict that is filled. Tensors on device ``meta`` get memory."""
        _init_state_dict(state_dict)
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict = state_dict
        self.metadata = metadata
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> LoadPlan:
        """Return the items that this rank needs.

        Raises:
            RuntimeError: If a value is not in the checkpoint.
            ValueError: If a tensor has another size in the checkpoint, or the checkpoint has only a part of it.
        """
        if self.metadata is None:
            raise AssertionError("self.metadata is not None")
        if self.flatten_state_dict:
            unread = self.metadata.state_dict_metadata.keys() - self.state_dict.keys()
            if unread:
                self._use_old_names(unread)
        return create_default_local_load_plan(self.state_dict, self.metadata, not self.allow_partial_load)

    def _use_old_names(self, unread: set[str]) -> None:
        """Flatten the state dict as PyTorch 2.3 did, if the checkpoint has such names."""
        _version._derived_version = "2_3"
        try:
            state_dict, mappings = flatten_state_dict(self.original_state_dict)
        finally:
            _version._derived_version = None
        if state_dict.keys() & unread:
            self.state_dict, self.mappings = state_dict, mappings

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans as they are."""
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, new_plan: LoadPlan) -> LoadPlan:
        """Return the plan as it is."""
        return new_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Put an object that is not a tensor into the state dict."""
        name = read_item.dest_index.fqn
        loaded = torch.load(value)
        if self.flatten_state_dict:
            set_element(self.original_state_dict, _own_keys(self.original_state_dict, self.mappings[name]), loaded)
        else:
            self.state_dict[name] = loaded

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """Return the part of a tensor that an item fills."""
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Do nothing: the part shares the memory of its tensor."""

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """Return the tensor for a name. Subclasses may override this method."""
        return find_state_dict_object(self.state_dict, index)

    def transform_tensor(self, read_item: ReadItem, tensor: Tensor) -> Tensor:
        """Return the part of a tensor that an item fills. Subclasses may override this method."""
        return _narrow(tensor, read_item.dest_offsets, read_item.lengths)


def _own_keys(state_dict: STATE_DICT_TYPE, path: OBJ_PATH) -> OBJ_PATH:
    """Return a path with the keys that the dicts have. Flat names have numbers as texts."""
    keys: list[Any] = []
    container: Any = state_dict
    for key in path:
        if isinstance(container, Mapping) and key not in container:
            key = next((k for k in container if str(k) == key), key)
        keys.append(key)
        try:
            container = container[key]
        except (KeyError, IndexError, TypeError):
            container = None
    return tuple(keys)


def _narrow(tensor: Tensor, offsets: torch.Size, sizes: torch.Size) -> Tensor:
    """Return a box of a tensor, as a view."""
    for dim, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
        if size != tensor.size(dim):
            tensor = tensor.narrow(dim, offset, size)
    return tensor


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """A planner that fills an empty dict with the values of a checkpoint.

    Args:
        keys: Names of values to load, flat or of the dicts that hold them. `None` is all.
        args: Arguments of `DefaultLoadPlanner`.
        kwargs: Arguments of `DefaultLoadPlanner`.
    """

    def __init__(self, keys: set[str] | None = None, *args: Any, **kwargs: Any) -> None:
        self.keys = keys
        super().__init__(*args, **kwargs)

    def _should_include_key(self, key: str, metadata: Metadata) -> bool:
        if self.keys is None or key in self.keys:
            return True
        path = [str(part) for part in (metadata.planner_data or {}).get(key, ())]
        return any(".".join(path[:n]) in self.keys for n in range(1, len(path) + 1))

    def set_up_planner(
        self, state_dict: STATE_DICT_TYPE, metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Make a tensor for each tensor of the checkpoint."""
        if state_dict:
            raise AssertionError("not state_dict")
        if metadata is None:
            raise AssertionError("metadata is not None")
        for name, md in metadata.state_dict_metadata.items():
            if not self._should_include_key(name, metadata):
                continue
            value: Any = md
            if isinstance(md, TensorStorageMetadata):
                value = torch.empty(md.size, dtype=md.properties.dtype)
            if metadata.planner_data is not None and name in metadata.planner_data:
                set_element(state_dict, metadata.planner_data[name], value)
            else:
                state_dict[name] = value
        super().set_up_planner(state_dict, metadata, is_coordinator)


def create_default_local_load_plan(state_dict: dict[str, Any], metadata: Metadata, strict: bool = True) -> LoadPlan:
    """Return the items that fill a flat state dict.

    Args:
        state_dict: Values by flat names.
        metadata: The content of the checkpoint.
        strict: Whether each value must be in the checkpoint, completely.

    Raises:
        RuntimeError: If a value is not in the checkpoint, and `strict` is true.
        ValueError: If a tensor has another size in the checkpoint, or the checkpoint has only a part of it.
    """
    items: list[ReadItem] = []
    for fqn, obj in state_dict.items():
        if fqn not in metadata.state_dict_metadata:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {fqn}.")
            continue
        md = metadata.state_dict_metadata[fqn]
        if isinstance(md, TensorStorageMetadata) and getattr(obj, "size", None) is not None:
            size = _size_of(obj)
            if md.size != size:
                raise ValueError(f"Size mismatch between saved {md.size} and current: {size} for {fqn}")
        found = _create_read_items(fqn, md, obj)
        if strict and isinstance(md, TensorStorageMetadata):
            _check_filled(fqn, obj, found)
        items += found
    return LoadPlan(items)


def _check_filled(fqn: str, obj: Any, items: list[ReadItem]) -> None:
    """Raise `ValueError` if items do not fill the chunks that this rank has of a tensor."""
    needed = sum(math.prod(chunk.sizes) for chunk in _create_chunk_list(obj))
    found = sum(math.prod(item.lengths) for item in items if item.type == LoadItemType.TENSOR)
    if found < needed:
        raise ValueError(f"The checkpoint has {found} of the {needed} elements of {fqn} that this rank needs")


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """Return the plans as they are: each rank reads what it needs."""
    return all_plans


def create_default_local_save_plan(state_dict: dict[str, Any], is_coordinator: bool) -> SavePlan:
    """Return the items of a flat state dict that this rank could write."""
    return SavePlan([item for fqn, obj in state_dict.items() for item in _create_write_items(fqn, obj)])


def create_default_global_save_plan(
    all_plans: list[SavePlan], rewrite_index_hints: bool = True
) -> tuple[list[SavePlan], Metadata]:
    """Return the plans of all ranks, and the content of the checkpoint.

    Args:
        all_plans: The plan of each rank, in which each item occurs once.
        rewrite_index_hints: Whether items get their position in the list of chunks of the tensor.
    """
    md: dict[str, STORAGE_TYPES] = {}
    plans = []
    for plan in all_plans:
        items = []
        for item in plan.items:
            name = item.index.fqn
            if item.type != WriteItemType.SHARD and name in md:
                raise AssertionError("item.index.fqn not in md")
            if item.type == WriteItemType.BYTE_IO:
                md[name] = BytesStorageMetadata()
                items.append(item)
                continue
            data = item.tensor_data
            if data is None:
                raise AssertionError("item.tensor_data is not None")
            tensor = md.setdefault(name, TensorStorageMetadata(data.properties, data.size, []))
            if not isinstance(tensor, TensorStorageMetadata):
                raise AssertionError(f"{name} is a tensor on some ranks and another object on others")
            if rewrite_index_hints:
                index = dataclasses.replace(item.index, index=len(tensor.chunks))
                item = dataclasses.replace(item, index=index)
            items.append(item)
            tensor.chunks.append(data.chunk)
        plans.append(dataclasses.replace(plan, items=items))
    return plans, Metadata(md)


def _create_default_local_metadata(state_dict: STATE_DICT_TYPE) -> Metadata:
    """Return the content of a checkpoint that holds what this rank has."""
    return create_default_global_save_plan([_create_default_metadata_only_plan(state_dict)])[1]


def _check_box_bounds(outer_box_size: torch.Size, inner_box: ChunkStorageMetadata) -> bool:
    """Return whether a chunk is inside of its tensor."""
    box = zip(inner_box.offsets, inner_box.sizes, outer_box_size, strict=True)
    return all(offset >= 0 and size >= 0 and offset + size <= outer for offset, size, outer in box)


def _validate_global_plan(global_plan: list[SavePlan], metadata: Metadata) -> list[str]:
    """Return what is wrong with a plan: chunks that overlap, are outside of their tensor, or do not fill it."""
    errors: list[str] = []
    for key, value in metadata.state_dict_metadata.items():
        if isinstance(value, BytesStorageMetadata) or len(value.size) == 0:
            continue
        for chunk in value.chunks:
            if not _check_box_bounds(value.size, chunk):
                errors.append(f"key:{key} has out of bounds chunk: tensor-size:{value.size} chunk: {chunk}")
        errors += [f"key:{key} has overlapping chunks: {a} {b}" for a, b in _overlaps(value)]
        volume, filled = math.prod(value.size), sum(math.prod(chunk.sizes) for chunk in value.chunks)
        # One process may save a part of the tensors.
        if len(global_plan) > 1 and filled != volume:
            errors.append(f"key:{key} invalid fill tensor-volume: {volume} chunks-volume: {filled}")
    for text in errors:
        logger.warning(text)
    return errors


def _overlaps(tensor: TensorStorageMetadata) -> list[tuple[ChunkStorageMetadata, ChunkStorageMetadata]]:
    """Return the pairs of chunks that have an element in common."""
    found = []
    # Sweep along the dimension in which chunks start at the most different places.
    dim = max(range(len(tensor.size)), key=lambda d: len({chunk.offsets[d] for chunk in tensor.chunks}))
    active: list[ChunkStorageMetadata] = []
    for chunk in sorted(tensor.chunks, key=lambda c: tuple(c.offsets[dim:]) + tuple(c.offsets[:dim])):
        active = [other for other in active if other.offsets[dim] + other.sizes[dim] > chunk.offsets[dim]]
        found += [(chunk, other) for other in active if _check_box_overlap(chunk, other)]
        active.append(chunk)
    return found
