"""Types of sizes, for annotations."""

from typing import Optional, Union

from pytpu import Tensor


def _of(kind, n):
    return Union[kind, tuple[(kind,) * n]]


_scalar_or_tuple_any_t = Union[int, tuple[int, ...]]
_size_any_t = _scalar_or_tuple_any_t
_size_1_t, _size_2_t, _size_3_t, _size_4_t, _size_5_t, _size_6_t = (_of(int, n) for n in range(1, 7))
_size_any_opt_t = Union[Optional[int], tuple[Optional[int], ...]]
_size_2_opt_t, _size_3_opt_t = (_of(Optional[int], n) for n in (2, 3))
_ratio_2_t, _ratio_3_t = (_of(float, n) for n in (2, 3))
_ratio_any_t = Union[float, tuple[float, ...]]
_tensor_list_t = Union[Tensor, list[Tensor]]
_maybe_indices_t = _of(Tensor, 2)
