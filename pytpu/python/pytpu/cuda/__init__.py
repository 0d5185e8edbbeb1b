"""``torch.cuda``: there is none, and scripts that ask are told so. The accelerator is ``torch.tpu``."""

import collections

from pytpu import OutOfMemoryError as OutOfMemoryError

from .. import _absent
from .._absent import device_count as device_count
from .._absent import empty_cache as empty_cache
from .._absent import is_available as is_available
from .._absent import is_initialized as is_initialized
from .._absent import manual_seed as manual_seed
from .._absent import manual_seed_all as manual_seed_all

from . import amp as amp

memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = _absent.no_memory


def is_bf16_supported():
    return False


def memory_stats(device=None):
    """Nothing was ever allocated."""
    return collections.OrderedDict()


def get_rng_state_all():
    """One state a device: none."""
    return []


def set_rng_state_all(new_states):
    """Restores what ``get_rng_state_all`` gave."""
    for _ in new_states:
        _none()


def _none(*_args, **_kwargs):
    raise AssertionError("Torch not compiled with CUDA enabled")


current_device = get_device_capability = get_device_name = get_device_properties = set_device = synchronize = _none
mem_get_info = ipc_collect = reset_peak_memory_stats = get_rng_state = set_rng_state = _none
