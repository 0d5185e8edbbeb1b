"""`torch.tpu.compiler`: options for the compiler of the device."""

from __future__ import annotations

import contextlib

from .. import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_now: dict[str, str | bool | int | float] = {}
#: The options that `torch.backends.tpu` sets for all programs.
_of_backend: dict[str, str | bool | int | float] = {}


def _set():
    _C._tpu_set_compiler_options(list({**_of_backend, **_now}.items()))


@contextlib.contextmanager
def custom_compiler_options(options: Mapping[str, str | bool | int | float]) -> Iterator[None]:
    """Return a context manager in which programs are compiled with some options.

    Ops that were recorded before the block are launched first, and ops that were recorded in the block at its end. In a
    nested block, options are added, and replace options of the same name. Options belong to the process, not to the
    thread.

    Args:
        options: Value of each option. The names are those of XLA.

    Raises:
        RuntimeError: If the compiler does not know an option. It is raised when a value is read that needs such a
            program.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.tpu.compiler import custom_compiler_options
        >>> with custom_compiler_options({"xla_cpu_enable_fast_math": False}):
        ...     y = torch.ones(2, device="tpu") + 1
        >>> y.cpu()
        tensor([2., 2.])
    """
    global _now
    before, _now = _now, {**_now, **options}
    try:
        _set()
        yield
    finally:
        _now = before
        _set()
