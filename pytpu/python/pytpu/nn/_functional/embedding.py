"""Lookup of embeddings."""

from __future__ import annotations

import warnings

import pytpu as torch
from pytpu import _C, Tensor

_ops = _C._ops


def _renorm_rows(weight, indices, max_norm, norm_type):
    with torch.no_grad():
        _ops.embedding_renorm_(weight, indices.contiguous(), max_norm, norm_type)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Look up rows of a table by index.

    `y[...] = weight[input[...]]`.

    Args:
        input: Indices `(*)`, integers.
        weight: Table `(rows, d)`.
        padding_idx: Index of a row that gets no gradient. Negative indices count from the end.
        max_norm: Largest norm of a row. Rows that are looked up are scaled down to it in place. `None` leaves
            them as they are.
        norm_type: Exponent of that norm.
        scale_grad_by_freq: Whether to divide the gradient of a row by how often its index is in the batch.
        sparse: Whether to make a sparse gradient. Must be false where there is a gradient.

    Returns:
        Tensor `(*, d)`.

    Raises:
        AssertionError: `padding_idx` is not a row.
        IndexError: An index is not a row.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> F.embedding(torch.tensor([1, 0]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[3., 4.],
                [1., 2.]])
    """
    if padding_idx is None:
        padding_idx = -1
    else:
        rows = weight.size(0)
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    if max_norm is not None:
        input = input.contiguous()
        _renorm_rows(weight, input, max_norm, norm_type)
    return _ops.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def _has_equal_bags(input, weight, mode, padding_idx):
    """Return whether bags are rows of a matrix of indices, each with the same number of rows of the table.

    On an accelerator the sum of a dimension costs less than a scatter. On `cpu` the bags have a kernel of their own.
    """
    return (
        input.device.type == "tpu"
        and mode in ("sum", "mean")
        and padding_idx is None
        and input.size(1) > 0
        and weight.is_floating_point()
        and not input.is_floating_point()
    )


def _equal_bags(input, weight, max_norm, norm_type, scale_grad_by_freq, mode, sparse, per_sample_weights):
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}'). Please open a feature request on GitHub."
        )
    if per_sample_weights is not None and per_sample_weights.dtype != weight.dtype:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
            f"'per_sample_weights'; but type {weight.type()} does not equal {per_sample_weights.type()} (while "
            "checking arguments for embedding_bag)"
        )
    if max_norm is not None:
        _renorm_rows(weight, input.reshape(-1), max_norm, norm_type)
    rows = _ops.embedding(weight, input, -1, scale_grad_by_freq, sparse)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    # Bags are added in `float32` and rounded once.
    wide = torch.float32 if weight.dtype in (torch.float16, torch.bfloat16) else weight.dtype
    total = rows.sum(1, dtype=wide)
    return (total / input.size(1) if mode == "mean" else total).to(weight.dtype)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Reduce bags of rows of a table to one vector each.

    `y[i] = reduce(weight[j] for j in bag i)`, without storing the single rows.

    Args:
        input: Indices `(n, k)`, for `n` bags of `k` rows, or `(k,)` with `offsets`.
        weight: Table `(rows, d)`.
        offsets: Starts `(n,)` of the bags in a one-dimensional `input`, ascending from 0.
        max_norm: Largest norm of a row. Rows that are looked up are scaled down to it in place. `None` leaves
            them as they are.
        norm_type: Exponent of that norm.
        scale_grad_by_freq: Whether to divide the gradient of a row by how often its index is in the batch.
        mode: `"sum"`, `"mean"` or `"max"`.
        sparse: Whether to make a sparse gradient. Must be false where there is a gradient.
        per_sample_weights: Factors of the rows, in the shape of `input`. Only for mode `"sum"`.
        include_last_offset: Whether the last offset is the end of the last bag instead of the start of one
            more.
        padding_idx: Index of a row that bags leave out and that gets no gradient.

    Returns:
        Tensor `(n, d)`.

    Raises:
        ValueError: The shapes do not fit, `offsets` is missing or too much, or `mode` is unknown.
        NotImplementedError: There are weights and the mode is not `"sum"`.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> table = torch.tensor([[1.0], [2.0], [4.0]])
        >>> F.embedding_bag(torch.tensor([0, 1, 2]), table, torch.tensor([0, 2]), mode="sum")
        tensor([[3.],
                [4.]])
    """
    if weight.dtype in (torch.int64, torch.int32) and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. "
            "Usage `embedding_bag(weight, input, ...)` is deprecated, and should now be "
            "`embedding_bag(input, weight, ...)`.",
            stacklevel=3,
        )
        weight, input = input, weight
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the "
            f"same shape as the input ({input.shape})"
        )
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        if _has_equal_bags(input, weight, mode, padding_idx):
            return _equal_bags(input, weight, max_norm, norm_type, scale_grad_by_freq, mode, sparse, per_sample_weights)
        offsets = torch.arange(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    modes = {"sum": 0, "mean": 1, "max": 2}
    if mode not in modes:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}'). Please open a feature request on GitHub."
        )
    if max_norm is not None:
        _renorm_rows(weight, input, max_norm, norm_type)
    # The op takes -1 as the last row. Leave the argument out for no padding row.
    extra = () if padding_idx is None else (padding_idx,)
    return _ops.embedding_bag(
        weight, input, offsets, scale_grad_by_freq, modes[mode], sparse, per_sample_weights, include_last_offset, *extra
    )[0]
