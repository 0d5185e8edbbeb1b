"""`torch.distributed.checkpoint.api`: the error that all ranks raise when one of them fails."""

from __future__ import annotations

import pickle
import traceback
from typing import Any

__all__ = ["CheckpointException"]

# An exception and the lines of its traceback.
WRAPPED_EXCEPTION = tuple[BaseException, traceback.StackSummary]


def wrapped(error: BaseException) -> WRAPPED_EXCEPTION:
    """Return an exception with its traceback, in a form that can be sent to other ranks."""
    # The frames of `extract_tb` may hold code objects, which pickle refuses.
    frames = [(f.filename, f.lineno or 0, f.name, f.line) for f in traceback.extract_tb(error.__traceback__)]
    summary = traceback.StackSummary.from_list(frames)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError("".join(traceback.format_exception_only(type(error), error)).strip())
    return error, summary


def is_wrapped(value: Any) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and isinstance(value[0], BaseException)
        and isinstance(value[1], traceback.StackSummary)
    )


class CheckpointException(BaseException):
    """An error of saving or loading a checkpoint. Every rank raises it if one rank fails.

    Args:
        msg: The step that failed, such as `"write"`.
        failures: For each rank that failed, its exception and the lines of its traceback.
    """

    def __init__(self, msg: str, failures: dict[int, WRAPPED_EXCEPTION]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, WRAPPED_EXCEPTION]:
        """For each rank that failed, its exception and the lines of its traceback."""
        return self._failures

    def __str__(self) -> str:
        texts = [f"CheckpointException ranks:{self._failures.keys()}\n"]
        for rank, (error, frames) in self._failures.items():
            where = [] if frames is None else frames.format()
            what = traceback.format_exception_only(error)
            texts.append("".join([f"Traceback (most recent call last): (RANK {rank})\n", *where, *what]))
        return "".join(texts)
