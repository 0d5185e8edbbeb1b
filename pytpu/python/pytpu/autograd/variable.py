"""An old name of the tensor."""

from .. import _C

Variable = _C.Tensor
