"""``torch.distributed.algorithms``: names around training in several processes."""

from ..._absent import absent_class
from .. import _WHY

Join = absent_class("torch.distributed.algorithms.join.Join", _WHY)
Joinable = absent_class("torch.distributed.algorithms.join.Joinable", _WHY)
JoinHook = absent_class("torch.distributed.algorithms.join.JoinHook", _WHY)
