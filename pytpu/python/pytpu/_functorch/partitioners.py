"""Kinds of ops, which policies of selective checkpointing ask for."""

from __future__ import annotations

from dataclasses import dataclass

from .. import ops

TYPE_CHECKING = False  # As in `typing`, without the cost of importing it.
if TYPE_CHECKING:
    from typing import Any

__all__ = ["OpTypes", "get_default_op_list"]


@dataclass
class OpTypes:
    """Ops by what they cost.

    Args:
        compute_intensive_ops: Products of matrices, convolutions and attention. It pays to keep their results.
    """

    compute_intensive_ops: set[Any]


def get_default_op_list() -> OpTypes:
    """Return the ops of this package by kind."""
    names = "mm bmm addmm convolution convolution_backward _scaled_dot_product_flash_attention"
    return OpTypes({getattr(ops.aten, name) for name in names.split() if hasattr(ops.aten, name)})
