"""`torch.distributed.checkpoint.default_planner`: the planners that `save` and `load` use."""

from __future__ import annotations

import io
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import pytpu as torch

from ._dedup_save_plans import dedup_save_plans
from ._nested_dict import FLATTEN_MAPPING, flatten_state_dict
from ._pieces import narrow, pieces_of, with_memory, write_items
from ._traverse import OBJ_PATH, set_element
from .metadata import (
    STATE_DICT_TYPE,
    STORAGE_TYPES,
    BytesStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorStorageMetadata,
)
from .planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem, WriteItemType
from .planner_helpers import common_boxes, read_items
from .utils import find_state_dict_object

TYPE_CHECKING = False
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

_UNCHANGED = SavePlan([], usable=False)
_MAX_ERRORS = 20


@dataclass
class _LastSave:
    """The plans of a save, which the next one compares with its own.

    Args:
        own: What this rank sent to the coordinator.
        final: What this rank then had to write.
        of_ranks: On the coordinator, what all ranks sent.
        finals: On the coordinator, what all ranks had to write.
        metadata: On the coordinator, the content of the checkpoint.
    """

    own: SavePlan = _UNCHANGED
    final: SavePlan = _UNCHANGED
    of_ranks: list[SavePlan] = field(default_factory=list)
    finals: list[SavePlan] = field(default_factory=list)
    metadata: Metadata | None = None


# By class, since a program makes a planner for each save.
_last_saves: WeakKeyDictionary[type, _LastSave] = WeakKeyDictionary()


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
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.mappings = {}
        self._sends_changes_only = enable_plan_caching
        self._this_save = _LastSave()
        if dedup_replicated_tensors is not None:
            logger.warning(
                "DefaultSavePlanner's `dedup_replicated_tensors` argument is being deprecated, and no longer has any "
                "effect. Please remove this argument from your call."
            )

    def set_up_planner(
        self, state_dict: STATE_DICT_TYPE, storage_meta: StorageMeta | None = None, is_coordinator: bool = False
    ) -> None:
        """Take the state dict that is saved."""
        self.is_coordinator = is_coordinator
        self.state_dict, self.mappings = flatten_state_dict(state_dict) if self.flatten_state_dict else (state_dict, {})
        self._last_save = _last_saves.get(type(self), _LastSave())
        self._this_save = _LastSave()

    def create_local_plan(self) -> SavePlan:
        """Return the items that this rank could write. With caching, an unusable plan says that nothing changed."""
        paths = self.mappings if self.flatten_state_dict else None
        self.plan = replace(create_default_local_save_plan(self.state_dict, self.is_coordinator), planner_data=paths)
        self._this_save.own = self.plan
        return _UNCHANGED if self._sends_changes_only and self.plan == self._last_save.own else self.plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Return the final plan of each rank, and the content of the checkpoint.

        Raises:
            ValueError: If chunks overlap, are outside of their tensor, or do not fill it.
        """
        if not self._sends_changes_only:
            self.global_plan, self.metadata = self._plan_of_all(all_plans)
            return self.global_plan, self.metadata
        last, this = self._last_save, self._this_save
        this.of_ranks = [plan if plan.usable else last.of_ranks[rank] for rank, plan in enumerate(all_plans)]
        if last.metadata is not None and this.of_ranks == last.of_ranks:
            # The storage adds to the metadata.
            this.finals, this.metadata = last.finals, replace(last.metadata)
        else:
            this.finals, this.metadata = self._plan_of_all(this.of_ranks)
        self.global_plan, self.metadata = this.finals, this.metadata
        # A rank without a plan of the last save has sent a new one.
        changes = [
            new if plan.usable or new != last.finals[rank] else _UNCHANGED
            for rank, (plan, new) in enumerate(zip(all_plans, this.finals, strict=True))
        ]
        return changes, this.metadata

    def _plan_of_all(self, plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        finals, metadata = create_default_global_save_plan(dedup_save_plans(plans, self.dedup_save_to_lowest_rank))
        if self.flatten_state_dict:
            # The first rank that has a name decides on its path.
            metadata.planner_data = {name: path for plan in reversed(plans) for name, path in plan.planner_data.items()}
        # One process may save a part of the tensors.
        errors = _errors_of(metadata, is_complete=len(plans) > 1)
        if errors:
            more = f"; and {len(errors) - _MAX_ERRORS} more" if len(errors) > _MAX_ERRORS else ""
            raise ValueError(f"Failed to validate global plan: {'; '.join(errors[:_MAX_ERRORS])}{more}")
        return finals, metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """Return the plan to follow."""
        if self._sends_changes_only:
            if not new_plan.usable:
                new_plan = replace(self._last_save.final, storage_data=new_plan.storage_data)
            self._this_save.final = new_plan
            # All ranks have their plans now.
            _last_saves[type(self)] = self._this_save
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
        if write_item.type != WriteItemType.BYTE_IO:
            return object
        data = io.BytesIO()
        torch.save(object, data)
        return data


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
        self.allow_partial_load = allow_partial_load
        self.original_state_dict, self.mappings = {}, {}

    def set_up_planner(
        self, state_dict: STATE_DICT_TYPE, metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Take the state dict that is filled. Tensors on device `meta` get memory."""
        self.original_state_dict = with_memory(state_dict)
        self.metadata, self.is_coordinator = metadata, is_coordinator
        self.state_dict, self.mappings = flatten_state_dict(state_dict) if self.flatten_state_dict else (state_dict, {})

    def create_local_plan(self) -> LoadPlan:
        """Return the items that this rank needs.

        Raises:
            RuntimeError: If a value is not in the checkpoint.
            ValueError: If a tensor has another size in the checkpoint, or the checkpoint has only a part of it.
        """
        if self.metadata is None:
            raise ValueError("a plan needs the content of the checkpoint: call set_up_planner with metadata")
        unread = self.metadata.state_dict_metadata.keys() - self.state_dict.keys()
        if unread and self.flatten_state_dict:
            # Names that are unread may be those of PyTorch 2.3.
            flat, paths = flatten_state_dict(self.original_state_dict, has_old_rules=True)
            if not unread.isdisjoint(flat):
                self.state_dict, self.mappings = flat, paths
        return create_default_local_load_plan(self.state_dict, self.metadata, strict=not self.allow_partial_load)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans as they are."""
        return global_plan

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
        return narrow(tensor, read_item.dest_offsets, read_item.lengths)


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


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """A planner that fills an empty dict with the values of a checkpoint.

    Args:
        keys: Names of values to load, flat or of the dicts that hold them. `None` is all.
        args: Arguments of `DefaultLoadPlanner`.
        kwargs: Arguments of `DefaultLoadPlanner`.
    """

    def __init__(self, keys: set[str] | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.keys = keys

    def set_up_planner(
        self, state_dict: STATE_DICT_TYPE, metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Make a tensor for each tensor of the checkpoint.

        Raises:
            ValueError: If `state_dict` is not empty.
        """
        if state_dict or metadata is None:
            raise ValueError("this planner needs an empty state_dict and the content of the checkpoint")
        paths = metadata.planner_data or {}
        for name, saved in metadata.state_dict_metadata.items():
            path = paths.get(name, (name,))
            parents = {".".join(map(str, path[: n + 1])) for n in range(len(path))}
            if self.keys is not None and self.keys.isdisjoint({name, *parents}):
                continue
            value: Any = None
            if isinstance(saved, TensorStorageMetadata):
                value = torch.empty(saved.size, dtype=saved.properties.dtype)
            set_element(state_dict, path, value)
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
    plan = LoadPlan([])
    for fqn, value in state_dict.items():
        saved = metadata.state_dict_metadata.get(fqn)
        if saved is None:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {fqn}.")
            continue
        pieces = pieces_of(value) if isinstance(saved, TensorStorageMetadata) else None
        if pieces is not None and isinstance(saved, TensorStorageMetadata) and saved.size != pieces.size():
            raise ValueError(f"Size mismatch between saved {saved.size} and current: {pieces.size()} for {fqn}")
        items = read_items(fqn, saved, value)
        if pieces is not None and strict:
            needed = sum(math.prod(chunk.sizes) for chunk in pieces.chunks())
            found = sum(math.prod(item.lengths) for item in items)
            if found < needed:
                raise ValueError(f"The checkpoint has {found} of the {needed} elements of {fqn} that this rank needs")
        plan.items += items
    return plan


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """Return the plans as they are: each rank reads what it needs."""
    return all_plans


def create_default_local_save_plan(state_dict: dict[str, Any], is_coordinator: bool) -> SavePlan:
    """Return the items of a flat state dict that this rank could write."""
    return SavePlan([item for fqn, value in state_dict.items() for item in write_items(fqn, value)])


def create_default_global_save_plan(
    all_plans: list[SavePlan], rewrite_index_hints: bool = True
) -> tuple[list[SavePlan], Metadata]:
    """Return the plans of all ranks, and the content of the checkpoint.

    Args:
        all_plans: The plan of each rank, in which each item occurs once.
        rewrite_index_hints: Whether items get their position in the list of chunks of the tensor.

    Raises:
        ValueError: If ranks have different values under one name.
    """
    content: dict[str, STORAGE_TYPES] = {}

    def recorded(item: WriteItem) -> WriteItem:
        name, data = item.index.fqn, item.tensor_data
        if data is None or item.type == WriteItemType.BYTE_IO:
            if name in content:
                raise ValueError(f"{name}: several ranks have different objects of this name")
            content[name] = BytesStorageMetadata()
            return item
        tensor = content.setdefault(name, TensorStorageMetadata(data.properties, data.size, []))
        if not isinstance(tensor, TensorStorageMetadata) or (item.type == WriteItemType.TENSOR and tensor.chunks):
            raise ValueError(f"{name}: several ranks have different objects of this name")
        tensor.chunks.append(data.chunk)
        position = len(tensor.chunks) - 1 if rewrite_index_hints else item.index.index
        return replace(item, index=replace(item.index, index=position))

    plans = [replace(plan, items=[recorded(item) for item in plan.items]) for plan in all_plans]
    return plans, Metadata(content)


def _create_default_local_metadata(state_dict: dict[str, Any]) -> Metadata:
    """Return the content of a checkpoint of a flat state dict, as far as this rank knows it."""
    items: list[WriteItem] = []
    for fqn, value in state_dict.items():
        items += value._write_items_of_all(fqn) if hasattr(value, "_write_items_of_all") else write_items(fqn, value)
    return create_default_global_save_plan([SavePlan(items)])[1]


def _errors_of(metadata: Metadata, is_complete: bool) -> list[str]:
    """Return what is wrong with chunks: they overlap, are outside of their tensor, or do not fill it.

    Args:
        metadata: The content of a checkpoint.
        is_complete: Whether chunks must fill their tensors.
    """
    errors: list[str] = []
    for key, tensor in metadata.state_dict_metadata.items():
        if not isinstance(tensor, TensorStorageMetadata) or len(tensor.size) == 0:
            continue
        for chunk in tensor.chunks:
            box = zip(chunk.offsets, chunk.sizes, tensor.size, strict=True)
            if not all(offset >= 0 and 0 <= n <= size - offset for offset, n, size in box):
                errors.append(f"key:{key} has out of bounds chunk: tensor-size:{tensor.size} chunk: {chunk}")
        for i, j, _, _ in common_boxes(tensor.chunks, tensor.chunks):
            if i < j:
                errors.append(f"key:{key} has overlapping chunks: {tensor.chunks[j]} {tensor.chunks[i]}")
        volume, filled = math.prod(tensor.size), sum(math.prod(chunk.sizes) for chunk in tensor.chunks)
        if is_complete and filled != volume:
            errors.append(f"key:{key} invalid fill tensor-volume: {volume} chunks-volume: {filled}")
    return errors
