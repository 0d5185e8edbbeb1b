"""Private parts of PyTorch's loader that scripts import."""

from . import collate, pin_memory, worker  # type: ignore[attr-defined]  # Made at run time.

#: Seconds between two checks whether the other processes are alive.
MP_STATUS_CHECK_INTERVAL = 5.0
python_exit_status = False
