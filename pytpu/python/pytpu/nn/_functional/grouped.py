"""Products of matrices in groups."""

from __future__ import annotations

import pytpu as torch
from pytpu import _C, Tensor


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Multiply matrices in groups, such as the experts of a mixture and the rows sent to each.

    Args:
        mat_a: Tensor `(m, k)`, or one matrix for each group, `(groups, m, k)`.
        mat_b: Tensor `(k, n)`, or one matrix for each group, `(groups, k, n)`.
        offs: Ends of the groups, `int32`, `(groups,)`, ascending. They divide the rows of a two-dimensional
            `mat_a`, the columns of a two-dimensional `mat_b`, or the summed dimension where both have two.
            `None` where both have three.
        bias: Must be `None`.
        out_dtype: The dtype of `mat_a`, or `None`.

    Returns:
        Tensor `(m, n)`, or `(groups, m, n)` if both have equally many dimensions. Elements that belong to no
        group are zero.

    Raises:
        RuntimeError: Sizes, dtypes or ends do not fit.

    Example:
        >>> import pytpu as torch
        >>> F = torch.nn.functional
        >>> rows, experts = torch.ones(4, 8, dtype=torch.bfloat16), torch.ones(2, 8, 16, dtype=torch.bfloat16)
        >>> F.grouped_mm(rows, experts, offs=torch.tensor([1, 4], dtype=torch.int32)).shape
        torch.Size([4, 16])
    """
    return _C._functions._grouped_mm(mat_a, mat_b, offs, bias, out_dtype)
