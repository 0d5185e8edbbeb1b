"""The end of a process with its parent."""

import os
import signal
import sys

# The number of an option of Linux: a signal for this process when the thread that started it ends.
_PR_SET_PDEATHSIG = 1


def signal_at_parent_death(parent: int, number: int = signal.SIGINT) -> None:
    """Let the system send a signal to this process when its parent ends. On other systems than Linux, do nothing.

    Args:
        parent: the process that the parent had when it started this one. If it has ended already, the signal is sent
            at once.
        number: the signal.
    """
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)
