"""Functions by which loaders of other packages are told about dead workers.

They record nothing: such a loader asks its workers whether they are alive while it waits for a batch.
"""

from __future__ import annotations

__all__: list[str] = []


def _set_worker_signal_handlers() -> None:
    """Do nothing: signals end a worker."""


def _set_SIGCHLD_handler() -> None:
    """Do nothing: dead workers are found while a loader waits."""


def _set_worker_pids(key: int, pids: tuple[int, ...]) -> None:
    """Do nothing: dead workers are found while a loader waits."""


def _remove_worker_pids(key: int) -> None:
    """Do nothing: nothing was recorded."""
