"""Anomaly mode: find the operation whose gradient fails or is NaN."""

from __future__ import annotations

import warnings

from .. import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class set_detect_anomaly:
    """Turn anomaly mode on or off. As a context manager, restore the state at the end of the block.

    In anomaly mode, the graph keeps the traceback of each operation. If backward fails or computes a NaN, a warning
    shows the traceback of the operation in forward.

    Args:
        mode: If `True`, turn anomaly mode on.
        check_nan: If `True`, backward raises an error when it computes a NaN.

    Example:
        >>> import pytpu as torch
        >>> with torch.autograd.set_detect_anomaly(True):
        ...     print(torch.is_anomaly_enabled())
        True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = _C._set_anomaly_enabled(bool(mode), bool(check_nan))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        _C._set_anomaly_enabled(*self._before)


class detect_anomaly:
    """Context manager for anomaly mode, which finds the operation whose gradient fails or is NaN.

    Args:
        check_nan: If `True`, backward raises an error when it computes a NaN.

    Example:
        >>> import pytpu as torch
        >>> import warnings
        >>> x = torch.tensor(0.0, requires_grad=True)
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     with torch.autograd.detect_anomaly():
        ...         y = (x * 0).sqrt() * 0
        ...         try:
        ...             y.backward()
        ...         except RuntimeError as error:
        ...             print(error)
        Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._before = _C._set_anomaly_enabled(True, bool(self.check_nan))

    def __exit__(self, *_: Any) -> None:
        _C._set_anomaly_enabled(*self._before)
