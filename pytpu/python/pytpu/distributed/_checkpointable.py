"""The interface by which a tensor that is spread over ranks takes part in checkpoints."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor

    from .checkpoint.metadata import ChunkStorageMetadata, MetadataIndex
    from .checkpoint.planner import WriteItem


@runtime_checkable
class _Checkpointable(Protocol):
    """A tensor of which this rank has some chunks.

    A class needs no base class. Checkpoints call these methods, `size()`, `dtype` and `requires_grad`:

    * `__create_chunk_list__` returns the chunks of this rank, in global indices. The chunks of one rank do not overlap.
      A rank that has no part of the tensor returns an empty list. Ranks that have the same chunk return equal offsets
      and sizes: one of them writes it.
    * `__get_tensor_shard__` returns the local memory of one of these chunks. Loading writes to it in place.
    * `__create_write_items__` returns the items to write. A class may leave it out. The items are then made of
      `__create_chunk_list__`.
    """

    def __create_write_items__(self, fqn: str, object: object) -> list[WriteItem]:
        """Return the items that this rank could write.

        Args:
            fqn: Flat name of the tensor in the state dict.
            object: The tensor.
        """
        ...

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        """Return the chunks of this rank."""
        ...

    def __get_tensor_shard__(self, index: MetadataIndex) -> Tensor:
        """Return the memory of the chunk whose offsets are `index.offset`."""
        ...
