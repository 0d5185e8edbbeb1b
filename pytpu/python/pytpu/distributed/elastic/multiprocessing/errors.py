"""How the error of a worker reaches the agent: in a file of JSON, whose path is `TORCHELASTIC_ERROR_FILE`.

`record` writes the file. The agent reads the files of its workers, and raises `ChildFailedError` with a summary.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import socket
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from typing import Any, TypeVar

from ..utils.logging import get_logger

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]

logger = get_logger(__name__)

_ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
_NOT_AVAILABLE = "<N/A>"
_HELP = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
_WIDTH = 60

_Function = TypeVar("_Function", bound=Callable[..., Any])


class ErrorHandler:
    """Write the error of a process to the file that `TORCHELASTIC_ERROR_FILE` names.

    A program may pass an object of a class that inherits from this one to `record`.
    """

    # The name of the function that `record` decorates.
    _function_name: str | None = None

    def set_entrypoint_fn_name(self, fn_name: str | None) -> None:
        """Keep the name of the recorded function.

        Args:
            fn_name: the qualified name, or `None` if the function has none.
        """
        self._function_name = fn_name

    def initialize(self) -> None:
        """Prepare the process before its function runs: print the stacks of all threads on a fatal signal."""
        try:
            faulthandler.enable(all_threads=True)
        except Exception as error:  # Standard error may be closed, or an object without a file.
            warnings.warn(f"Unable to enable fault handler. {type(error).__name__}: {error}", stacklevel=2)

    def record_exception(self, e: BaseException) -> None:
        """Write an exception to the error file.

        Args:
            e: the exception that is being handled.
        """
        path = os.environ.get(_ERROR_FILE)
        if not path:
            return
        details = {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}
        message = {"message": f"{type(e).__name__}: {e}", "extraInfo": details}
        with open(path, "w") as file:
            json.dump({"message": message}, file)

    def record_success(self) -> None:
        """Log that the recorded function has returned. Other classes may override this method."""
        logger.debug("%s has returned", self._function_name)

    def maybe_enrich_signal_failure_message(self, message: str, error_file: str) -> str:
        """Return the message of a worker that a signal ended. Other classes may add to it.

        Args:
            message: the message.
            error_file: path of the worker's error file.
        """
        return message

    def override_error_code_in_rootcause_data(
        self, rootcause_error_file: str, rootcause_error: dict[str, Any], error_code: int = 0
    ) -> None:
        """Set the exit code in the content of an error file, because a process cannot know its own.

        Args:
            rootcause_error_file: path of the file.
            rootcause_error: content of the file, which is changed.
            error_code: the exit code.
        """
        message = rootcause_error.get("message")
        if isinstance(message, dict):
            message["errorCode"] = error_code
        else:
            logger.warning("error file %s has no place for the exit code %s", rootcause_error_file, error_code)

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Copy the error file of a worker to the error file of this process.

        Args:
            rootcause_error_file: path of the worker's file.
            error_code: exit code of the worker.
        """
        with open(rootcause_error_file) as file:
            error = json.load(file)
        if error_code:
            self.override_error_code_in_rootcause_data(rootcause_error_file, error, error_code)
        path = os.environ.get(_ERROR_FILE)
        if not path:
            logger.info("this process has no error file, so %s is not copied", rootcause_error_file)
            return
        if os.path.isfile(path):
            # A worker that inherited the variable has written to it.
            with open(path, errors="replace") as file:
                logger.warning("the error file %s is overwritten. It contains %s", path, file.read())
        try:
            with open(path, "w") as file:
                json.dump(error, file)
        except OSError as problem:
            warnings.warn(f"Unable to write error to file. {type(problem).__name__}: {problem}", stacklevel=2)


def get_error_handler() -> ErrorHandler:
    """Return a new `ErrorHandler`."""
    return ErrorHandler()


@dataclass
class ProcessFailure:
    """The failure of a worker.

    Args:
        local_rank: rank of the worker on its node.
        pid: the process.
        exitcode: its exit code. -9 means signal 9.
        error_file: path of its error file, which may be absent.

    Attributes:
        error_file_data: content of the error file.
        message: a text, or the object in the error file with the keys `message` and `extraInfo`.
        timestamp: time of the failure in seconds since 1970.
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: dict[str, Any] = field(init=False)
    message: Any = field(init=False)
    timestamp: int = field(init=False)

    def __post_init__(self) -> None:
        self.message = ""
        if os.path.isfile(self.error_file):
            with open(self.error_file) as file:
                self.error_file_data = json.load(file)
            self.message = self.error_file_data["message"]
            if isinstance(self.message, str):
                self.timestamp = int(self.error_file_data.get("timestamp", 0))
            else:
                self.timestamp = int(self.message["extraInfo"]["timestamp"])
        else:
            self.error_file = _NOT_AVAILABLE
            self.error_file_data = {"message": "<NONE>"}
            self.timestamp = int(time.time())
        if self.message:
            return
        if self.exitcode < 0:
            self.message = f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
        else:
            self.error_file_data["errorTraits"] = {"category": "system_terminated_error", "retryability": "False"}
            self.message = _HELP

    def signal_name(self) -> str:
        """Return the name of the signal that ended the process, or `<N/A>`."""
        try:
            return signal.Signals(-self.exitcode).name
        except ValueError:
            return _NOT_AVAILABLE

    def timestamp_isoformat(self) -> str:
        """Return the time of the failure as `YYYY-MM-DD_HH:MM:SS`."""
        return datetime.fromtimestamp(self.timestamp).isoformat(sep="_")


class ChildFailedError(Exception):
    """Workers failed. The text lists all failures, the first one last.

    `record` copies the error file of the first failure, so that a scheduler sees the cause and not the agent.

    Args:
        name: name of the program.
        failures: failures by global rank. There is at least one.
    """

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        self.name = name
        self.failures = failures
        if not failures:
            raise AssertionError("ChildFailedError: failures: there are none")
        super().__init__(self.format_msg())

    def __reduce__(self) -> Any:
        return type(self), (self.name, self.failures)

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """Return the global rank and the failure of the worker that failed first."""
        rank = min(self.failures, key=lambda rank: self.failures[rank].timestamp)
        return rank, self.failures[rank]

    def format_msg(self, boarder_delim: str = "=", section_delim: str = "-") -> str:
        """Return the summary of all failures.

        Args:
            boarder_delim: character of the first and the last line.
            section_delim: character of the lines between sections.
        """
        first, _ = self.get_first_failure()
        title = f"{self.name} FAILED"
        texts = {rank: self._format_failure(i, rank, x) for i, (rank, x) in enumerate(self.failures.items())}
        longest = max(len(line) for text in [title, *texts.values()] for line in text.split("\n"))
        border, section = (delimiter * min(longest, _WIDTH) for delimiter in (boarder_delim, section_delim))
        others = [text for rank, text in texts.items() if rank != first] or ["  <NO_OTHER_FAILURES>"]
        lines = ["", border, title, section, "Failures:", *others, section]
        return "\n".join([*lines, "Root Cause (first observed failure):", texts[first], border])

    def _format_failure(self, index: int, rank: int, failure: ProcessFailure) -> str:
        message = failure.message
        if isinstance(message, dict):
            text = message.get("extraInfo", {}).get("py_callstack", message.get("message", _NOT_AVAILABLE))
            message = text.replace("\n", "\n  ")
        name = ""
        if failure.exitcode < 0:
            message = get_error_handler().maybe_enrich_signal_failure_message(message, failure.error_file)
            name = f" ({failure.signal_name()})" if failure.signal_name() != _NOT_AVAILABLE else ""
        return "\n".join(
            [
                f"[{index}]:",
                f"  time      : {failure.timestamp_isoformat()}",
                f"  host      : {socket.getfqdn()}",
                f"  rank      : {rank} (local_rank: {failure.local_rank})",
                f"  exitcode  : {failure.exitcode} (pid: {failure.pid}){name}",
                f"  error_file: {failure.error_file}",
                f"  traceback : {message}",
            ]
        )


def record(fn: _Function, error_handler: ErrorHandler | None = None) -> _Function:
    """Write an exception of the main function of a program to the error file, and raise it again. This is a decorator.

    Args:
        fn: the function. A program decorates one function.
        error_handler: the object that writes the file. `None` takes a new `ErrorHandler`.

    Returns:
        The function. It returns `None` where `fn` exits with code 0.

    Example:
        >>> from pytpu.distributed.elastic.multiprocessing.errors import record
        >>> @record
        ... def main():
        ...     return 3
        >>> main()
        3
    """
    handler = error_handler or get_error_handler()

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        handler.set_entrypoint_fn_name(getattr(fn, "__qualname__", None))
        handler.initialize()
        try:
            result = fn(*args, **kwargs)
        except SystemExit as error:
            if error.code == 0:
                return None
            raise
        except ChildFailedError as error:
            rank, failure = error.get_first_failure()
            if failure.error_file != _NOT_AVAILABLE:
                handler.dump_error_file(failure.error_file, failure.exitcode)
            else:
                logger.info("rank %s failed without an error file. %s", rank, _HELP)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise
        handler.record_success()
        return result

    return call  # type: ignore[return-value]
