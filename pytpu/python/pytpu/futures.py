"""`torch.futures`: results that another thread sets."""

from __future__ import annotations

import logging
import threading
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Future", "collect_all", "wait_all"]


_logger = logging.getLogger(__name__)


def _fail(error):
    """Return PyTorch's message about an error of a callback, with the lines of the callback."""
    lines = traceback.extract_tb(error.__traceback__)
    at = "\n".join(f"  {line.filename}({line.lineno}): {line.name}" for line in reversed(lines))
    return f"Got the following error when running the callback: {type(error).__name__}: {error}\n\nAt:\n{at}\n"


class Future:
    """A value or an error that is set later.

    Example:
        >>> import pytpu as torch
        >>> future = torch.futures.Future()
        >>> doubled = future.then(lambda f: f.value() * 2)
        >>> future.set_result(3)
        >>> doubled.wait()
        6
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._set = threading.Event()
        self._lock = threading.Lock()
        self._result = self._error = None
        self._callbacks = []

    def __class_getitem__(cls, item):
        import types

        return types.GenericAlias(cls, item)

    def done(self) -> bool:
        """Return whether the value or an error was set."""
        return self._set.is_set()

    def wait(self) -> Any:
        """Wait for the value. Raise the error if one was set."""
        self._set.wait()
        return self.value()

    def value(self) -> Any:
        """Return the value, which must have been set."""
        if not self.done():
            raise RuntimeError("value() can be called only after wait() or in a callback: the future is not completed")
        if self._error is not None:
            raise self._error
        return self._result

    def _complete(self, result, error):
        with self._lock:
            if self.done():
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future can only be marked "
                    "completed once."
                )
            self._result, self._error = result, error
            self._set.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            self._run(callback)

    def _run(self, callback):
        # The thread that sets the result has no use for an error of a callback, so it is logged.
        try:
            callback(self)
        except BaseException as error:
            _logger.error(_fail(error))

    def set_result(self, result: Any) -> None:
        """Set the value and run the callbacks."""
        self._complete(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Set an error, which `wait` raises."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._complete(None, result)

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call `callback(future)` when the value is set, or at once if it is set already.

        An error of `callback` is logged, and not raised.
        """
        with self._lock:
            if not self.done():
                self._callbacks.append(callback)
                return
        self._run(callback)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """Return a future of `callback(future)`, which is called when the value is set.

        If `callback` fails, the future has a `RuntimeError` with the message of the error, which is its `__cause__`.
        """
        following = Future()

        def run(future):
            try:
                result = callback(future)
            except BaseException as error:
                failure = RuntimeError(_fail(error))
                failure.__cause__ = error
                following.set_exception(failure)
            else:
                following.set_result(result)

        self.add_done_callback(run)
        return following


def collect_all(futures: list[Future]) -> Future:
    """Return a future of the list of futures, which is complete when all of them are."""
    futures = list(futures)
    together = Future()
    left = len(futures)
    lock = threading.Lock()
    if not futures:
        together.set_result([])

    def count(_):
        nonlocal left
        with lock:
            left -= 1
            is_last = left == 0
        if is_last:
            failed = next((f._error for f in futures if f._error is not None), None)
            together._complete(futures, None) if failed is None else together._complete(None, failed)

    for future in futures:
        future.add_done_callback(count)
    return together


def wait_all(futures: list[Future]) -> list[Any]:
    """Wait for all futures and return their values."""
    return [future.wait() for future in collect_all(futures).wait()]
