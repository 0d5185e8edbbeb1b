"""PyTorch's interface on a Rust tensor library: `import pytpu as torch`.

Code that must be fast is in the extension `pytpu._C`. Its functions are made from the op table at run time, and this
module puts them in their places. Modules that take long to import (`nn`, `optim`, NumPy) are imported at the first
use.
"""

import atexit as _atexit
import importlib as _importlib
import os as _os
import sys as _sys
from math import e, inf, nan, pi

from . import _as_torch

_as_torch.begin()

from . import _C
from ._as_torch import install
from ._C import (
    Generator,
    OutOfMemoryError,
    Tensor,
    as_tensor,
    autocast_decrement_nesting,
    autocast_increment_nesting,
    can_cast,
    clear_autocast_cache,
    device,
    dtype,
    from_numpy,
    get_default_device,
    get_default_dtype,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    is_autocast_cache_enabled,
    is_grad_enabled,
    is_tensor,
    layout,
    memory_format,
    promote_types,
    result_type,
    set_autocast_cache_enabled,
    set_default_device,
    set_default_dtype,
    tensor,
)
from ._size import Size
from .version import __version__

# The functions of the op table, under their own names.
globals().update({_k: _v for _k, _v in vars(_C._functions).items() if not _k.startswith("__")})

# Dtypes, layouts and memory formats.
for _k, _v in vars(_C).items():
    if isinstance(_v, (dtype, layout, memory_format)):
        globals()[_k] = _v
del _k, _v

return_types = _C._return_types
_sys.modules[f"{__package__}.return_types"] = return_types

newaxis = None

from . import _pickling, _tensor as _tensor_methods
from ._info import finfo, iinfo
from ._names import LAZY as _LAZY, MODULES as _MODULES
from .autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .functions import *  # noqa: F403 (the functions are the public surface; `__all__` of the module lists them)
from .random import (
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)


def __getattr__(name):
    if name == "torch":
        return _sys.modules[__package__]
    if name in _MODULES:
        try:
            return _importlib.import_module(f"{__package__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__package__}.{name}":
                raise
    elif name in _LAZY:
        value = getattr(_importlib.import_module(f"{__package__}.{_LAZY[name]}"), name)
        globals()[name] = value
        return value
    return _as_torch._not_there(_sys.modules[__package__], "", name)


def __dir__():
    from importlib.util import find_spec

    there = {name for name in _MODULES if find_spec(f"{__package__}.{name}")}
    return sorted(set(globals()) | there | set(_LAZY))


def _look_for_plugins():
    """Name the folders in which a PJRT plugin may have been installed. This loads nothing."""
    for folder in _sys.path:
        if folder.endswith(("site-packages", "dist-packages")):
            _C._tpu_add_plugin_search_path(folder)


_look_for_plugins()
_C._set_package_folder(_os.path.dirname(__file__))

if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(before=_C._tpu_quiesce)


def _show_unread_error():
    """Print the error of a value on `tpu` that the program never read. This runs when it ends."""
    try:
        _C._tpu_tell_unread_errors(False)
    except Exception as error:
        print(f"torchtpu: the program ends with an error that it never read: {error}", file=_sys.stderr)


_atexit.register(_show_unread_error)

if "TORCH_LOGS" in _os.environ:
    _importlib.import_module("._logging._internal", __package__).init_logs()

# This comes last: `__name__` becomes "torch" here.
_as_torch.finish()
