"""A worker that is a command."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

__all__ = ["SubprocessHandler", "get_subprocess_handler"]


class SubprocessHandler:
    """Start a command in a session of its own.

    Args:
        entrypoint: the command.
        args: its arguments.
        env: variables that are added to the environment.
        stdout: path of a file for its output, or an empty text.
        stderr: path of a file for its errors, or an empty text.
        local_rank_id: rank of the worker on its node.
        numa_options: must be `None`: workers are not bound to processors.

    Attributes:
        proc: the `subprocess.Popen`.
    """

    def __init__(
        self,
        entrypoint: str,
        args: Sequence[Any],
        env: Mapping[str, str],
        stdout: str | None,
        stderr: str | None,
        local_rank_id: int,
        numa_options: None = None,
    ) -> None:
        self.local_rank_id = local_rank_id
        with ExitStack() as files:
            out, err = (files.enter_context(open(path, "w")) if path else None for path in (stdout, stderr))
            self.proc = subprocess.Popen(
                (entrypoint, *map(str, args)),
                env={**os.environ, **env},
                stdout=out,
                stderr=err,
                # A signal of the terminal reaches the agent alone, which passes it on. A signal for the session reaches
                # the children of the worker too.
                start_new_session=True,
            )

    def close(self, death_sig: signal.Signals | None = None) -> None:
        """Send a signal to the worker and its children.

        Args:
            death_sig: the signal. `None` means `SIGTERM`.
        """
        try:
            os.killpg(self.proc.pid, death_sig or signal.SIGTERM)
        except ProcessLookupError:  # It has just ended.
            pass


def get_subprocess_handler(
    entrypoint: str,
    args: Sequence[Any],
    env: Mapping[str, str],
    stdout: str | None,
    stderr: str | None,
    local_rank_id: int,
    numa_options: None = None,
) -> SubprocessHandler:
    """Return a new `SubprocessHandler`."""
    return SubprocessHandler(entrypoint, args, env, stdout, stderr, local_rank_id, numa_options)
