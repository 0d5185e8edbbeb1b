"""Inner parts of PyTorch's loader that scripts import all the same."""

from . import collate, pin_memory, worker  # noqa: F401

#: Seconds between two looks at whether the other processes are alive.
MP_STATUS_CHECK_INTERVAL = 5.0
python_exit_status = False
