"""A breakpoint on one rank, for which the others wait."""

from __future__ import annotations

import datetime
import pdb
import sys

from . import _groups
from ._collectives import barrier
from ._groups import get_rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

#: How often each line has called `breakpoint`.
_calls: dict[tuple[str, int], int] = {}


class _Terminal(pdb.Pdb):
    """A debugger that reads the terminal also in a process that a launcher started."""

    def interaction(self, *args, **kwargs):
        """Read commands from the terminal."""
        stdin = sys.stdin
        with open("/dev/stdin") as sys.stdin:
            try:
                super().interaction(*args, **kwargs)
            finally:
                sys.stdin = stdin


def breakpoint(rank: int = 0, skip: int = 0, timeout_s: float | None = 3600) -> None:
    """Stop one rank in the debugger. The other ranks wait until it goes on.

    Args:
        rank: the rank that stops.
        skip: the number of calls of this line that do not stop.
        timeout_s: the new timeout of all groups, in seconds. `None` keeps theirs.
    """
    frame: FrameType = sys._getframe(1)
    place = (frame.f_code.co_filename, frame.f_lineno)
    _calls[place] = _calls.get(place, 0) + 1
    if _calls[place] <= skip:
        return
    if timeout_s is not None:
        for pg in _groups._world.pg_map:
            pg.set_timeout(datetime.timedelta(seconds=timeout_s))
    if get_rank() == rank:
        _Terminal().set_trace(frame)
    barrier()
