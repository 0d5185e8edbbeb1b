"""`torch.autograd.forward_ad`: dual tensors, which are not made here. `torch.func.jvp` has derivatives of this mode."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "unpack_dual"]

_level = -1


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Begin a level, and return its number."""
    global _level
    _level += 1
    return _level


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level.

    Raises:
        RuntimeError: If `level` is not the last one that has begun.
    """
    global _level
    if level is not None and level != _level:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    _level -= 1


@contextlib.contextmanager
def dual_level():
    """Return a context manager for a level."""
    level = enter_dual_level()
    try:
        yield level
    finally:
        exit_dual_level(level=level)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return a tensor with its tangent, which is `None`: no tensor is a dual tensor."""
    return UnpackedDualTensor(tensor, None)
