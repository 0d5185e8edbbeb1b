"""``torch._ops``: the classes of operators."""

from ._absent import absent_class
from .ops import OpOverload, OpOverloadPacket as OpOverloadPacket, _Namespace

HigherOrderOperator = absent_class(
    "torch._ops.HigherOrderOperator", "operators that take functions are written as functions here"
)
OperatorBase = OpOverload
_OpNamespace = _Namespace


def __getattr__(name):
    if name == "ops":
        from . import ops

        return ops
    raise AttributeError(f"module 'torch._ops' has no attribute '{name}'")
