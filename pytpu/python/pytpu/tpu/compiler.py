"""``torch.tpu.compiler``: options for the device's compiler."""

import contextlib

from .. import _C

_now = {}


@contextlib.contextmanager
def custom_compiler_options(options):
    """Compile what is launched until the end of the block with these options.

    What was recorded before the block is launched first, and so is what was recorded in it at its end. Blocks may be nested: the
    options of the inner one are added, and win. Options are of the process, not of the thread.

    Args:
        options: value of each option by its name: a text, a truth value or a number. The names are those of XLA.

    Raises:
        RuntimeError: the compiler knows no such option. Raised where a value is read that was to be computed with it.

    Example:
        >>> with torch.tpu.compiler.custom_compiler_options({"xla_cpu_enable_fast_math": False}):
        ...     y = x @ w
    """
    global _now
    before, _now = _now, {**_now, **options}
    try:
        _C._tpu_set_compiler_options(list(_now.items()))
        yield
    finally:
        _now = before
        _C._tpu_set_compiler_options(list(before.items()))
