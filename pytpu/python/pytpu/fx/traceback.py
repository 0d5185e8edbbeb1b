"""``torch.fx.traceback``: notes for graphs, which are not made here."""

from __future__ import annotations

import contextlib

TYPE_CHECKING = False  # As in `typing`, without the cost of importing it.
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

__all__ = ["annotate"]


def annotate(annotation_dict: dict[str, Any]) -> AbstractContextManager[None]:
    """Return a context without an effect: there is no graph whose nodes could have the notes."""
    return contextlib.nullcontext()
