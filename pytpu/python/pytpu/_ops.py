"""`torch._ops`: the classes of operators."""

from ._higher_order_ops._operators import HigherOrderOperator as HigherOrderOperator
from .ops import OpOverload, OpOverloadPacket as OpOverloadPacket, _Namespace

OperatorBase = OpOverload
_OpNamespace = _Namespace


def __getattr__(name):
    if name == "ops":
        from . import ops

        return ops
    raise AttributeError(f"module 'torch._ops' has no attribute '{name}'")
