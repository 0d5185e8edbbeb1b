"""Numbers of ranks as sizes and strides, for the package `spmd_types`."""

from __future__ import annotations

__all__ = ["_indices_to_layout"]


def _indices_to_layout(indices: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return sizes and strides of an array whose offsets are `indices`, in any order. The largest stride is first.

    Raises:
        AssertionError: there is no such array.

    Example:
        >>> from pytpu.distributed._local_tensor._c10d import _indices_to_layout
        >>> _indices_to_layout([0, 1, 4, 5])
        ((2, 2), (4, 1))
    """
    starts = sorted(indices)
    sizes: list[int] = []
    strides: list[int] = []
    while len(starts) > 1:
        stride = starts[1] - starts[0]
        size = next((i for i, index in enumerate(starts) if index != starts[0] + i * stride), len(starts))
        if starts != [start + i * stride for start in starts[::size] for i in range(size)]:
            raise AssertionError(f"Indices do not form a regular grid: {sorted(indices)}")
        starts = starts[::size]
        sizes.insert(0, size)
        strides.insert(0, stride)
    return tuple(sizes), tuple(strides)
