"""Products of matrices in groups."""

from pytpu import _C


def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """Multiply matrices in groups, such as the experts of a mixture and the rows that were sent to each.

    Args:
        mat_a: ``(m, k)``, or one matrix for each group, ``(groups, m, k)``.
        mat_b: ``(k, n)``, or one matrix for each group, ``(groups, k, n)``.
        offs: the ends of the groups, ``int32``, ``(groups,)``, ascending. They divide the rows of a `mat_a` of two dimensions, the
            columns of a `mat_b` of two dimensions, or, where both have two, the summed dimension. Not given if both have three.
        bias: must be ``None``.
        out_dtype: the dtype of `mat_a`, or ``None``.

    Returns:
        Tensor ``(m, n)``, or ``(groups, m, n)`` if both have equally many dimensions. What belongs to no group is zero.

    Raises:
        RuntimeError: sizes, dtypes or ends do not fit.
    """
    return _C._functions._grouped_mm(mat_a, mat_b, offs, bias, out_dtype)
