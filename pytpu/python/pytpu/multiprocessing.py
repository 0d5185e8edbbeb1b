"""Processes, as Python's `multiprocessing` has them, and `spawn`.

A tensor in shared memory (`Tensor.share_memory_`, `Module.share_memory`) is the same for all processes that get it: forked, started
afresh, or through a queue or a pipe. Other tensors are copied on the way, and stay where they are; PyTorch moves them to shared memory.
"""

import multiprocessing as _multiprocessing
import multiprocessing.connection as _connection
import signal as _signal
import sys as _sys
import traceback as _traceback
from multiprocessing import *  # noqa: F403

from . import _sharing
from ._C import Tensor as _Tensor
from .nn.parameter import Parameter as _Parameter

__all__ = [
    *_multiprocessing.__all__,
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "spawn",
    "start_processes",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
]


for _kind in (_Tensor, _Parameter):
    _sharing.register(_kind)
del _kind


class ProcessException(Exception):
    """A process of `spawn` failed: which one, and its process id."""

    def __init__(self, msg, error_index, pid):
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = pid


class ProcessRaisedException(ProcessException):
    """It raised."""


class ProcessExitedException(ProcessException):
    """It ended by a signal or with an exit code other than zero."""

    def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name


def _run(fn, i, args, errors):
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        errors.send(_traceback.format_exc())
        _sys.exit(1)


class ProcessContext:
    """The processes that `spawn` started."""

    def __init__(self, processes, errors):
        self.processes = processes
        self._left = {process.sentinel: index for index, process in enumerate(processes)}
        self._listening = {receiver: index for index, receiver in enumerate(errors)}
        self._texts = {}

    def pids(self):
        """Their process ids."""
        return [process.pid for process in self.processes]

    def _hear(self, receivers):
        for receiver in list(receivers):
            index = self._listening.pop(receiver)
            try:
                self._texts[index] = receiver.recv()
            except (EOFError, OSError):  # It ended without a word.
                pass
            receiver.close()

    def join(self, timeout=None, grace_period=None):
        """Waits for one of them or for `timeout` seconds; whether all have ended.

        Raises `ProcessException` when one failed, after the others were ended.
        """
        if not self._left:
            return True
        failed = None
        ready = _connection.wait([*self._left, *self._listening], timeout=timeout)
        # A process ends when what it has to say has been heard.
        self._hear(receiver for receiver in ready if receiver in self._listening)
        for sentinel in ready:
            if sentinel not in self._left:
                continue
            index = self._left.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0 and failed is None:
                failed = index
        if failed is None:
            return not self._left
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join(grace_period)
            if process.is_alive():
                process.kill()
                process.join()
        self._hear([receiver for receiver, index in self._listening.items() if index == failed])
        process = self.processes[failed]
        if failed in self._texts:
            text = f"\n\n-- Process {failed} terminated with the following error:\n{self._texts[failed]}"
            raise ProcessRaisedException(text, failed, process.pid)
        code = process.exitcode
        if code < 0:
            name = _signal.Signals(-code).name
            raise ProcessExitedException(
                f"process {failed} terminated with signal {name}", failed, process.pid, code, name
            )
        raise ProcessExitedException(f"process {failed} terminated with exit code {code}", failed, process.pid, code)


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Calls `fn(i, *args)` in process `i` of `nprocs`. Waits for all of them, or returns their `ProcessContext`."""
    context = _multiprocessing.get_context(start_method)
    processes, errors = [], []
    for i in range(nprocs):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, i, args, sender), daemon=daemon)
        process.start()
        sender.close()
        processes.append(process)
        errors.append(receiver)
    running = ProcessContext(processes, errors)
    if not join:
        return running
    while not running.join():
        pass
    return None


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """As `start_processes`, with processes that start afresh.

    Raises `ProcessRaisedException` with the traceback of a process that raised, `ProcessExitedException` for one that ended otherwise.
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def get_all_sharing_strategies():
    """One: shared memory is a file, of which processes hand each other the descriptor."""
    return {"file_descriptor"}


def get_sharing_strategy():
    """The one there is."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy):
    """Takes PyTorch's names and changes nothing."""
    if new_strategy not in ("file_descriptor", "file_system"):
        raise AssertionError(f"unknown sharing strategy {new_strategy!r}")
