"""Types of sizes and ratios, for annotations. `_2_t` is one number for two dimensions, or one for each."""

from typing import Optional, Union

from pytpu import Tensor

_scalar_or_tuple_any_t = Union[int, tuple[int, ...]]
_scalar_or_tuple_1_t = Union[int, tuple[int]]
_scalar_or_tuple_2_t = Union[int, tuple[int, int]]
_scalar_or_tuple_3_t = Union[int, tuple[int, int, int]]
_scalar_or_tuple_4_t = Union[int, tuple[int, int, int, int]]
_scalar_or_tuple_5_t = Union[int, tuple[int, int, int, int, int]]
_scalar_or_tuple_6_t = Union[int, tuple[int, int, int, int, int, int]]

_size_any_t = _scalar_or_tuple_any_t
_size_1_t = _scalar_or_tuple_1_t
_size_2_t = _scalar_or_tuple_2_t
_size_3_t = _scalar_or_tuple_3_t
_size_4_t = _scalar_or_tuple_4_t
_size_5_t = _scalar_or_tuple_5_t
_size_6_t = _scalar_or_tuple_6_t

_size_any_opt_t = Union[Optional[int], tuple[Optional[int], ...]]
_size_2_opt_t = Union[Optional[int], tuple[Optional[int], Optional[int]]]
_size_3_opt_t = Union[Optional[int], tuple[Optional[int], Optional[int], Optional[int]]]

_ratio_2_t = Union[float, tuple[float, float]]
_ratio_3_t = Union[float, tuple[float, float, float]]
_ratio_any_t = Union[float, tuple[float, ...]]

_tensor_list_t = Union[Tensor, list[Tensor]]
_maybe_indices_t = Union[Tensor, tuple[Tensor, Tensor]]
