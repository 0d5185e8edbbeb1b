"""Functions that combine the values of ranks."""

from __future__ import annotations

import enum
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .. import Tensor


class RedOpType(enum.Enum):
    """The kinds of `ReduceOp`."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM, UNUSED = range(10)

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"

    def __int__(self) -> int:
        return self.value

    __index__ = __int__
    __hash__ = enum.Enum.__hash__

    def __eq__(self, other: object) -> bool:
        """Compare kinds only. A `ReduceOp` compares itself with both."""
        return self is other

    def __call__(self, factor: float | Tensor) -> ReduceOp:
        """Return the `ReduceOp` that multiplies by `factor`, for `PREMUL_SUM`."""
        if self is not RedOpType.PREMUL_SUM:
            raise TypeError(f"{self} takes no factor")
        return ReduceOp(self, factor)


_Kind = RedOpType


class _KindsAreInstances(type):
    """Let a `RedOpType` count as a `ReduceOp`, as in PyTorch."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, RedOpType) or super().__instancecheck__(value)


class ReduceOp(metaclass=_KindsAreInstances):
    """A function that combines the values of all ranks.

    `SUM` adds, `AVG` divides the sum by the number of ranks, `PRODUCT` multiplies, `MIN` and `MAX` select.
    `BAND`, `BOR` and `BXOR` are bitwise functions of integers and `bool`. `PREMUL_SUM` multiplies by a factor
    before it adds.

    Integers wrap. `AVG` of integers rounds toward zero. Complex numbers have `SUM` and `AVG` only.

    Args:
        op: the kind, such as `ReduceOp.SUM`.
        factor: the factor of `PREMUL_SUM`, a number or a tensor of one element.
    """

    RedOpType = _Kind
    SUM, AVG, PRODUCT, MIN, MAX = (RedOpType(i) for i in range(5))
    BAND, BOR, BXOR, PREMUL_SUM, UNUSED = (RedOpType(i) for i in range(5, 10))

    def __init__(self, op: _Kind | ReduceOp, factor: float | Tensor | None = None) -> None:
        self.op: _Kind = op if isinstance(op, _Kind) else op.op
        self.factor = factor

    def __eq__(self, other: object) -> bool:
        """Compare kinds, as PyTorch does. The factors of two `PREMUL_SUM` are not compared."""
        return self.op is (other.op if type(other) is ReduceOp else other)

    def __hash__(self) -> int:
        return hash(self.op)

    def __repr__(self) -> str:
        return f"ReduceOp({self.op})"


def _make_nccl_premul_sum(factor: float | Tensor) -> ReduceOp:
    """Return the `ReduceOp` that multiplies by `factor` and adds."""
    return ReduceOp(RedOpType.PREMUL_SUM, factor)


class _DeprecatedReduceOp:
    """The old name of `ReduceOp`. Each use warns."""

    def __getattr__(self, name: str) -> Any:
        if name not in RedOpType.__members__:
            raise AttributeError(f"'_reduce_op' object has no attribute '{name}'")
        warnings.warn(
            "`torch.distributed.reduce_op` is deprecated, please use `torch.distributed.ReduceOp` instead",
            FutureWarning,
            stacklevel=2,
        )
        return RedOpType[name]


reduce_op = _DeprecatedReduceOp()


def supports_complex(reduceOp: ReduceOp | RedOpType) -> bool:
    """Return whether a reduction is defined for complex numbers."""
    kind = reduceOp if isinstance(reduceOp, RedOpType) else reduceOp.op
    return kind in (RedOpType.SUM, RedOpType.AVG, RedOpType.PREMUL_SUM, RedOpType.UNUSED)
