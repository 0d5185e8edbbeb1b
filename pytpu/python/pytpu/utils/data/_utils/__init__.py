"""Private parts of PyTorch's loader that scripts import."""

import importlib.util

from . import collate, pin_memory, signal_handling, worker  # type: ignore[attr-defined]  # Made at run time.

#: Seconds between two checks whether the other processes are alive.
MP_STATUS_CHECK_INTERVAL = 5.0
python_exit_status = False
#: Whether NumPy is installed, so that workers seed it.
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
