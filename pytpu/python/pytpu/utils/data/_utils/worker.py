"""Worker processes, under PyTorch's name for the module."""

from ..worker import WorkerInfo, get_worker_info  # noqa: F401


class ManagerWatchdog:
    """Tells a worker whether the process that started it is alive."""

    def __init__(self):
        import os

        self.manager_pid = os.getppid()

    def is_alive(self):
        """Return whether it is."""
        import os

        return os.getppid() == self.manager_pid
