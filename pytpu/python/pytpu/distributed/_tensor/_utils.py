"""The older name of the place of functions that compute the sizes of parts."""

from ..tensor._utils import (
    compute_global_tensor_info as compute_global_tensor_info,
    compute_local_shape_and_global_offset as compute_local_shape_and_global_offset,
)
