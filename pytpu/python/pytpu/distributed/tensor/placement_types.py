"""`torch.distributed.tensor.placement_types`: what ranks along a mesh dimension have of a tensor."""

from __future__ import annotations

import operator

from ... import Tensor, cat, zeros

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Partial", "Placement", "Replicate", "Shard"]

#: The reductions of `Partial` in the order of their numbers.
_REDUCTIONS = ("sum", "avg", "product", "min", "max", "band", "bor", "bxor")


class Placement:
    """What ranks along a mesh dimension have of a tensor. Placements are compared by their values."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether each rank has a part of a dimension, or of `dim`."""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Return whether each rank has the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether a reduction is pending, or the reduction `reduce_op`."""
        return isinstance(self, Partial) and (reduce_op is None or self.reduce_op == reduce_op)

    def _key(self) -> tuple[object, ...]:
        return ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Placement) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self).__name__, *self._key()))


class Replicate(Placement):
    """Each rank has the whole tensor."""

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


class Shard(Placement):
    """Each rank has a chunk of a dimension, by the rule of `torch.chunk`: the last chunks may be smaller, or empty.

    Args:
        dim: the dimension.

    Raises:
        TypeError: if `dim` is no integer.
    """

    def __init__(self, dim: int) -> None:
        self.dim = operator.index(dim)

    def _key(self) -> tuple[object, ...]:
        return (self.dim,)

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """Return the size and the first place of a chunk.

        Args:
            curr_local_size: the size of the dimension.
            num_chunks: the number of chunks.
            rank: the number of the chunk.
        """
        size = -(-curr_local_size // num_chunks)
        start, end = min(size * rank, curr_local_size), min(size * (rank + 1), curr_local_size)
        return end - start, start

    def _local_shard_size_and_offset(self, curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        return self.local_shard_size_and_offset(curr_local_size, num_chunks, rank)

    def _pieces(self, size: int, num_chunks: int, rank: int) -> list[tuple[int, int]]:
        """Return the first places and sizes of the pieces that a rank has."""
        length, start = self.local_shard_size_and_offset(size, num_chunks, rank)
        return [(start, length)]

    def _split_tensor(
        self, tensor: Tensor, num_chunks: int, *, with_padding: bool = True, contiguous: bool = True
    ) -> tuple[list[Tensor], list[int]]:
        """Return the parts of all ranks, and the number of places each was padded with to equal sizes."""
        if tensor.ndim <= 0:
            raise AssertionError(f"Expected tensor.dim() > 0, got {tensor.ndim}")
        parts, pads = list[Tensor](), list[int]()
        for rank in range(num_chunks):
            pieces = self._pieces(tensor.size(self.dim), num_chunks, rank)
            taken = [tensor.narrow(self.dim, start, length) for start, length in pieces]
            parts.append(taken[0] if len(taken) == 1 else cat(taken, self.dim))
        if with_padding:
            longest = max(part.size(self.dim) for part in parts)
            for i, part in enumerate(parts):
                pads.append(longest - part.size(self.dim))
                if pads[i]:
                    sizes = list(part.shape)
                    sizes[self.dim] = pads[i]
                    parts[i] = cat([part, zeros(sizes, dtype=part.dtype, device=part.device)], self.dim)
        return [part.contiguous() for part in parts] if contiguous else parts, pads


class _StridedShard(Shard):
    """The dimension is divided into `split_factor` chunks, and each rank has a chunk of each of them.

    Args:
        dim: the dimension.
        split_factor: the number of chunks.
        sf: another name of `split_factor`.
    """

    def __init__(self, dim: int, *, split_factor: int = 1, sf: int | None = None) -> None:
        super().__init__(dim)
        if sf is not None and split_factor != 1:
            raise TypeError("_StridedShard received both split_factor and sf")
        self.split_factor = split_factor if sf is None else sf

    def is_shard(self, dim: int | None = None) -> bool:
        """Return `False`: the part of a rank is no chunk."""
        return False

    def _key(self) -> tuple[object, ...]:
        return (self.dim, self.split_factor)

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"

    def _pieces(self, size: int, num_chunks: int, rank: int) -> list[tuple[int, int]]:
        pieces = []
        for chunk in range(self.split_factor):
            whole, start = self.local_shard_size_and_offset(size, self.split_factor, chunk)
            length, offset = self.local_shard_size_and_offset(whole, num_chunks, rank)
            pieces.append((start + offset, length))
        return pieces


class Partial(Placement):
    """Each rank has a tensor of the same sizes. The value is the reduction of those of all ranks.

    Args:
        reduce_op: `"sum"`, `"avg"`, `"product"`, `"min"`, `"max"`, `"band"`, `"bor"` or `"bxor"`.
    """

    LINEAR_REDUCE_OPS = ("sum", "avg")
    ALL_REDUCE_OPS = ("sum", "avg", "min", "max", "product")

    def __init__(self, reduce_op: str = "sum") -> None:
        self.reduce_op = reduce_op

    def _key(self) -> tuple[object, ...]:
        return (self.reduce_op,)

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


_Partial = Partial


def _is_shard_like(p: Placement) -> bool:
    """Return whether each rank has a part of a dimension, which need not be a chunk."""
    return isinstance(p, Shard)


def _packed(placement: Placement) -> tuple[str | int, ...]:
    """Return a placement as the functions of `_C` take it."""
    if isinstance(placement, Shard):
        return ("S", placement.dim, getattr(placement, "split_factor", 1))
    if isinstance(placement, Partial):
        if placement.reduce_op not in _REDUCTIONS:
            raise ValueError(f"Unsupported reduce op: {placement.reduce_op}")
        return ("P", _REDUCTIONS.index(placement.reduce_op))
    return ("R",)


def _unpacked(placement: tuple[Any, ...]) -> Placement:
    """Return the placement that `_C` has returned."""
    kind, *numbers = placement
    if kind == "S":
        dim, split_factor = numbers
        return Shard(dim) if split_factor == 1 else _StridedShard(dim, split_factor=split_factor)
    return Partial(_REDUCTIONS[numbers[0]]) if kind == "P" else Replicate()
