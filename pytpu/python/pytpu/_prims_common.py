"""`torch._prims_common`: sizes, strides and memory formats as numbers."""

import pytpu as torch


def make_contiguous_strides_for(shape, row_major=True):
    """Return the strides of a contiguous tensor of a shape, or those of its last two dimensions in column order."""
    if not shape:
        return ()
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    strides.reverse()
    if not row_major and len(shape) > 1:
        strides[-2:] = [1, max(shape[-2], 1)]
    return tuple(strides)


def suggest_memory_format(x):
    """Return the memory format that the strides of a tensor have."""
    if x.dim() == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last):
        return torch.channels_last
    if x.dim() == 5 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last_3d):
        return torch.channels_last_3d
    return torch.contiguous_format


def is_float_dtype(dtype):
    """Return whether a dtype is one of real floating-point numbers."""
    return dtype.is_floating_point


def is_complex_dtype(dtype):
    """Return whether a dtype is complex."""
    return dtype.is_complex


def is_boolean_dtype(dtype):
    """Return whether a dtype is `bool`."""
    return dtype == torch.bool


def is_integer_dtype(dtype):
    """Return whether a dtype is one of integers."""
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def canonicalize_dim(rank, idx, wrap_scalar=True):
    """Return a dimension as a number that is not negative.

    Raises:
        IndexError: If there is no such dimension.
    """
    if rank == 0 and wrap_scalar:
        rank = 1
    if not -rank <= idx < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {idx})")
    return idx % rank
