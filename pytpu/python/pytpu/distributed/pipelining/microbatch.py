"""Splitting a batch into microbatches, and merging their results."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import pytpu as torch

from ...nn.attention.flex_attention import BlockMask
from ...utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]

DEFAULT_CHUNK_DIM = 0


class TensorChunkSpec:
    """The dimension along which a tensor is split.

    Args:
        split_dim: Dimension.
    """

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"{type(self).__module__}.{type(self).__name__}({self.split_dim})"

    def __str__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims: tuple[int, ...]) -> tuple[TensorChunkSpec, ...]:
        """Return the specs of positional arguments from their dimensions.

        Args:
            chunk_dims: Dimension of each argument. Nested tuples, lists and dicts keep their form.

        Example:
            >>> from pytpu.distributed.pipelining.microbatch import TensorChunkSpec
            >>> [str(spec) for spec in TensorChunkSpec.from_tuple((0, 1))]
            ['TensorChunkSpec(0)', 'TensorChunkSpec(1)']
        """
        return tree_map(TensorChunkSpec, chunk_dims)

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> dict[str, TensorChunkSpec]:
        """Return the specs of keyword arguments from their dimensions.

        Args:
            chunk_dims: Dimension of each argument, by its name.
        """
        return tree_map(TensorChunkSpec, chunk_dims)


class _Replicate:
    """The mark of a value that every microbatch gets as a whole."""


class _CustomReducer:
    """A way to merge values of microbatches: from `init_value` on, `reduce_fn(merged, value)`."""

    def __init__(self, init_value: Any, reduce_fn: Callable[[Any, Any], Any]) -> None:
        self.init_value = init_value
        self.reduce_fn = reduce_fn


sum_reducer = _CustomReducer(torch.tensor(0.0), operator.add)


def _is_block_mask(value: Any) -> bool:
    return isinstance(value, BlockMask)


def _default_spec(value: Any) -> TensorChunkSpec | _Replicate:
    return TensorChunkSpec(DEFAULT_CHUNK_DIM) if isinstance(value, (torch.Tensor, BlockMask)) else _Replicate()


def _size_to_split(value: Any, spec: Any) -> int | None:
    """Return the size along the dimension of `spec`, or `None` if every microbatch gets `value` as a whole."""
    if spec is _Replicate or isinstance(spec, _Replicate):
        return None
    if not isinstance(value, (torch.Tensor, BlockMask)):
        raise ValueError(f"Unsupported chunk spec: {spec} and value: {value} combination.")
    if not isinstance(spec, TensorChunkSpec):
        raise AssertionError(f"Expected TensorChunkSpec, got {type(spec)}")
    if isinstance(value, torch.Tensor):
        return value.size(spec.split_dim)
    if spec.split_dim != 0:
        raise AssertionError("BlockMask only supports split_dim=0")
    batch = value.kv_num_blocks.size(0)
    return None if batch == 1 else batch  # A batch of 1 is broadcast.


def _split_along(tensor: torch.Tensor, spec: TensorChunkSpec, num_chunks: int) -> Sequence[torch.Tensor]:
    """Split a tensor into `num_chunks` pieces. The first pieces are larger by one if the size is no multiple."""
    size = tensor.size(spec.split_dim)
    if size < num_chunks:
        raise AssertionError(f"Tensor size {size} is smaller than num_chunks")
    pieces = torch.tensor_split(tensor, num_chunks, spec.split_dim)
    if tensor.requires_grad and tensor.is_leaf:
        # A backward reads the gradients of a stage's inputs, and pieces of a leaf are no leaves.
        for piece in pieces:
            piece.retain_grad()
    return pieces


def _split_mask(mask: BlockMask, num_chunks: int) -> list[BlockMask]:
    """Split a block mask along the batch."""
    if mask.kv_num_blocks.size(0) == 1:
        return [mask] * num_chunks

    def split(blocks):
        return [None] * num_chunks if blocks is None else torch.tensor_split(blocks, num_chunks, 0)

    def mask_from(start):
        return lambda b, h, q_idx, kv_idx: mask.mask_mod(b + start, h, q_idx, kv_idx)

    pieces = []
    start = 0
    for numbers, indices, full_numbers, full_indices in zip(
        split(mask.kv_num_blocks),
        split(mask.kv_indices),
        split(mask.full_kv_num_blocks),
        split(mask.full_kv_indices),
    ):
        pieces.append(
            BlockMask.from_kv_blocks(
                kv_num_blocks=numbers,
                kv_indices=indices,
                full_kv_num_blocks=full_numbers,
                full_kv_indices=full_indices,
                BLOCK_SIZE=mask.BLOCK_SIZE,
                mask_mod=mask_from(start),
                seq_lengths=mask.seq_lengths,
            )
        )
        start += numbers.size(0)
    return pieces


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    chunks: int,
    args_chunk_spec: tuple[TensorChunkSpec, ...] | None = None,
    kwargs_chunk_spec: dict[str, TensorChunkSpec] | None = None,
) -> tuple[list[tuple], list[dict]]:
    """Split the arguments of a call into the arguments of microbatches.

    Args:
        args: Positional arguments.
        kwargs: Keyword arguments, or `None`.
        chunks: Number of microbatches. There are fewer if a tensor is smaller than this.
        args_chunk_spec: A spec for each leaf of `args`, in the same form. The default splits tensors along dimension 0
            and gives every microbatch the other values.
        kwargs_chunk_spec: The same for `kwargs`.

    Returns:
        The positional arguments of each microbatch, and the keyword arguments of each.

    Raises:
        AssertionError: If a spec has another form than the arguments, or no tensor is described by it.
        ValueError: If a value is no tensor and its spec says to split it.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.distributed.pipelining.microbatch import split_args_kwargs_into_chunks
        >>> args, kwargs = split_args_kwargs_into_chunks((torch.arange(4),), {"scale": 2}, 2)
        >>> args, kwargs
        ([(tensor([0, 1]),), (tensor([2, 3]),)], [{'scale': 2}, {'scale': 2}])
    """
    arguments = {"args": tuple(args), "kwargs": kwargs or {}}
    specs = {
        "args": args_chunk_spec
        if args_chunk_spec is not None
        else tree_map(_default_spec, arguments["args"], is_leaf=_is_block_mask),
        "kwargs": kwargs_chunk_spec
        if kwargs_chunk_spec is not None
        else tree_map(_default_spec, arguments["kwargs"], is_leaf=_is_block_mask),
    }
    values, form = tree_flatten(arguments, is_leaf=_is_block_mask)
    flat_specs: list[Any] = []
    for kind in ("args", "kwargs"):
        leaves, _ = tree_flatten(specs[kind]) if arguments[kind] else ([], None)
        expected = len(tree_flatten(arguments[kind], is_leaf=_is_block_mask)[0])
        if len(leaves) != expected:
            raise AssertionError(f"{kind} has {expected} values, but {kind}_chunk_spec has {len(leaves)}")
        flat_specs.extend(leaves)

    sizes = [_size_to_split(value, spec) for value, spec in zip(values, flat_specs)]
    count = min([chunks, *(size for size in sizes if size is not None)])
    columns: list[Sequence[Any]] = []
    for value, spec, size in zip(values, flat_specs, sizes):
        if size is None:
            columns.append([value] * count)
        elif isinstance(value, BlockMask):
            columns.append(_split_mask(value, count))
        else:
            columns.append(_split_along(value, spec, count))
    pieces = [tree_unflatten([column[index] for column in columns], form) for index in range(count)]
    return [piece["args"] for piece in pieces], [piece["kwargs"] for piece in pieces]


def merge_chunks(chunks: list[Any], chunk_spec: Any) -> Any:
    """Merge the results of microbatches.

    Args:
        chunks: Result of each microbatch, all of one form.
        chunk_spec: A `TensorChunkSpec` for each tensor to concatenate, a reducer for each value to reduce. Values with
            another spec must be equal in all microbatches. `None` concatenates all tensors along dimension 0.

    Returns:
        The merged values, in the form of one result.

    Raises:
        ValueError: If a result has another form than `chunk_spec`.
        AssertionError: If values that should be equal are not.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.distributed.pipelining.microbatch import merge_chunks
        >>> merge_chunks([torch.tensor([1]), torch.tensor([2])], None)
        tensor([1, 2])
    """
    if chunk_spec is not None:
        specs, form = tree_flatten(chunk_spec)
    else:
        values, form = tree_flatten(chunks[0])
        specs = [TensorChunkSpec(DEFAULT_CHUNK_DIM)] * len(values)
    rows = []
    for chunk in chunks:
        values, _ = tree_flatten(chunk)
        if len(values) != len(specs):
            raise ValueError(f"Chunk {chunk} did not match chunk spec {chunk_spec}")
        rows.append(values)

    merged = []
    for spec, column in zip(specs, zip(*rows)):
        if isinstance(spec, TensorChunkSpec):
            merged.append(torch.cat(column, dim=spec.split_dim))
        elif isinstance(spec, _CustomReducer):
            value = spec.init_value
            for part in column:
                value = spec.reduce_fn(value, part)
            merged.append(value)
        else:
            for value in column[1:]:
                if value != column[0]:
                    raise AssertionError(f"Expected {column[0]}, got {value}")
            merged.append(column[0])
    return tree_unflatten(merged, form)
