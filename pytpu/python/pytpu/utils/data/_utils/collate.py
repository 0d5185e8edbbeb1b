"""How samples become a batch, under PyTorch's name for the module."""

from ..collate import _NUMPY_TEXT as np_str_obj_array_pattern  # noqa: F401

from ..collate import (  # noqa: F401
    collate, collate_float_fn, collate_int_fn, collate_numpy_array_fn, collate_numpy_scalar_fn, collate_str_fn, collate_tensor_fn,
    default_collate, default_collate_fn_map, default_convert,
)
