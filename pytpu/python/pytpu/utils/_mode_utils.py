"""`torch.utils._mode_utils`: blocks without modes."""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Iterator

from .. import _C

T = typing.TypeVar("T")


@contextlib.contextmanager
def no_dispatch() -> Iterator[None]:
    """Return a block in which no class and no mode answers calls below autograd."""
    before = _C._set_torch_dispatch_disabled(True)
    try:
        yield
    finally:
        _C._set_torch_dispatch_disabled(before)


def all_same_mode(modes: typing.Sequence[object]) -> bool:
    """Return whether all modes are the first one."""
    return all(mode == modes[0] for mode in modes)
