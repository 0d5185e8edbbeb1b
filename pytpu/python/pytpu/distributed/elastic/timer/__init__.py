"""Timers that end a worker which is stuck. A worker sets one with `expires`, and the agent's process watches it."""

from .api import TimerClient, TimerRequest, TimerServer, configure, expires
from .file_based_local_timer import FileTimerClient, FileTimerRequest, FileTimerServer
from .local_timer import LocalTimerClient, LocalTimerServer
