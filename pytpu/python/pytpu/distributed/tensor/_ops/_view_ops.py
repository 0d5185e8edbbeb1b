"""Names that the type checks of the package `spmd_types` use. The package can be imported, and checks nothing."""

from __future__ import annotations

from ...._absent import absent_class, absent_function

_PLACE = "torch.distributed.tensor._ops._view_ops."
_WHY = "placements of views follow from the axes of ops here, not from this table"

InputDim = absent_class(_PLACE + "InputDim", _WHY)
Split = absent_class(_PLACE + "Split", _WHY)
infer_size = absent_function(_PLACE + "infer_size", _WHY)
view_groups = absent_function(_PLACE + "view_groups", _WHY)
