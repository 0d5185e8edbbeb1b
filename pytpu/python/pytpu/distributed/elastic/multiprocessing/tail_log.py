"""Copies of growing log files on the console."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import TextIO

from ..utils.logging import get_logger

__all__ = ["TailLog", "tail_logfile"]

logger = get_logger(__name__)


def tail_logfile(
    header: str,
    file: str,
    dst: TextIO,
    finished: threading.Event,
    interval_sec: float,
    log_line_filter: Callable[[str], bool] | None = None,
) -> None:
    """Copy the lines of a file while a process writes them. Return at the end of the file after `finished` is set.

    Args:
        header: text before each line.
        file: path of the file, which need not exist yet.
        dst: where the lines go.
        finished: an event that is set when nobody writes to the file any more.
        interval_sec: seconds between two looks at the file.
        log_line_filter: a function of a line, which says whether to copy it. `None` copies all.
    """
    # The event is read before the file: lines that were written before the event are copied.
    while True:
        ended = finished.is_set()
        if os.path.exists(file):
            break
        if ended:
            return
        finished.wait(interval_sec)
    part = ""
    with open(file, errors="replace") as lines:
        while True:
            ended = finished.is_set()
            wrote = False
            for line in lines:
                part += line
                if part.endswith("\n"):
                    wrote |= _write(dst, header, part, log_line_filter)
                    part = ""
            if ended and part:
                wrote |= _write(dst, header, part, log_line_filter)
            if wrote:
                dst.flush()
            if ended:
                return
            finished.wait(interval_sec)


def _write(dst, header, line, log_line_filter):
    if log_line_filter is not None and not log_line_filter(line):
        return False
    dst.write(f"{header}{line}")
    return True


class TailLog:
    """Copy log files to one stream, in a thread for each file.

    Args:
        name: name of the workers. Lines begin with `[{name}{rank}]:`.
        log_files: paths by local rank.
        dst: where the lines go.
        log_line_prefixes: beginnings of the lines by local rank, which replace the ones above.
        interval_sec: seconds between two looks at a file.
        log_line_filter: a function of a line, which says whether to copy it.
    """

    def __init__(
        self,
        name: str,
        log_files: Mapping[int, str],
        dst: TextIO | None,
        log_line_prefixes: Mapping[int, str] | None = None,
        interval_sec: float = 0.1,
        log_line_filter: Callable[[str], bool] | None = None,
    ) -> None:
        self._dst = dst
        self._finished = threading.Event()
        self._stopped = False
        self._threads: list[threading.Thread] = []
        for rank, path in log_files.items() if dst is not None else ():
            header = (log_line_prefixes or {}).get(rank, f"[{name}{rank}]:")
            arguments = (header, path, dst, self._finished, interval_sec, log_line_filter)
            thread = threading.Thread(target=self._copy, args=arguments, name=f"TailLog_{name}{rank}", daemon=True)
            self._threads.append(thread)

    @staticmethod
    def _copy(header, path, *others):
        try:
            tail_logfile(header, path, *others)
        except Exception:  # The console may be closed. The workers go on.
            logger.exception("cannot copy %s", path)

    def start(self) -> TailLog:
        """Start to copy, and return this object."""
        for thread in self._threads:
            thread.start()
        return self

    def stop(self) -> None:
        """Copy what the files have now, and stop."""
        self._finished.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        self._stopped = True

    def stopped(self) -> bool:
        """Return whether `stop` was called."""
        return self._stopped
