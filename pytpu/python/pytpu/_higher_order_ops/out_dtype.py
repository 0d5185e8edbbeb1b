"""An op whose result has a wider dtype than its operands."""

from .. import _C


def out_dtype(op, output_dtype, *args):
    """Return `op(*args)`, computed in `output_dtype`, such as the product of `int8` matrices in `int32`."""
    return op(*(a.to(output_dtype) if isinstance(a, _C.Tensor) else a for a in args))
