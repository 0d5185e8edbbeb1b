"""How much `torch.distributed` checks and reports."""

from __future__ import annotations

import enum
import os

from .. import _C


class DebugLevel(enum.IntEnum):
    """Levels of `TORCH_DISTRIBUTED_DEBUG`.

    Ranks compare their collectives at each level. At `DETAIL` shapes must be equal too, and not only the numbers of
    elements. Asynchronous calls then wait, so that a mismatch is raised at the call.
    """

    OFF, INFO, DETAIL = range(3)


def _level_of_environment() -> DebugLevel:
    name = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if name not in DebugLevel.__members__:
        raise ValueError(f"The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL, not {name}.")
    return DebugLevel[name]


_level = DebugLevel.OFF


def get_debug_level() -> DebugLevel:
    """Return the level, that of `TORCH_DISTRIBUTED_DEBUG` at the import unless it was set."""
    return _level


def set_debug_level(level: DebugLevel) -> None:
    """Set the level."""
    global _level
    _level = DebugLevel(level)
    _C._set_compares_shapes(_level is DebugLevel.DETAIL)


def set_debug_level_from_env() -> None:
    """Set the level to that of `TORCH_DISTRIBUTED_DEBUG`."""
    set_debug_level(_level_of_environment())


set_debug_level_from_env()
