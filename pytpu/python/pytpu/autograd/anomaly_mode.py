"""Anomaly mode: backward says which forward call is to blame."""

import warnings

from .. import _C


class set_detect_anomaly:
    """Switches anomaly mode at once; as a context manager, until the end of the block.

    While it is on, steps of the backward graph remember the call that made them, and a backward that fails, or that makes
    a NaN (with ``check_nan``), warns with the traceback of that call.
    """

    def __init__(self, mode, check_nan=True):
        self._before = _C._set_anomaly_enabled(bool(mode), bool(check_nan))

    def __enter__(self):
        pass

    def __exit__(self, *_):
        _C._set_anomaly_enabled(*self._before)


class detect_anomaly:
    """Anomaly mode for a block."""

    def __init__(self, check_nan=True):
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self):
        self._before = _C._set_anomaly_enabled(True, bool(self.check_nan))

    def __exit__(self, *_):
        _C._set_anomaly_enabled(*self._before)
