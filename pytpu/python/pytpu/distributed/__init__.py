"""Training in several processes is not there yet: `is_available()` says so, and scripts that ask go on without.

`init_process_group` raises `RuntimeError`. As no process is in a group, what needs one raises the `ValueError` that it raises in
PyTorch before a group was made.
"""

import os

__all__ = [
    "all_gather", "all_reduce", "barrier", "broadcast", "destroy_process_group", "gather", "get_backend", "get_rank",
    "get_world_size", "init_process_group", "irecv", "is_available", "is_initialized", "is_torchelastic_launched", "isend",
    "new_group", "recv", "reduce", "reduce_scatter", "scatter", "send",
]


def is_available():
    """Whether processes can be joined in a group."""
    return False


def is_initialized():
    """Whether this process is in a group: no."""
    return False


def is_torchelastic_launched():
    """Whether ``torchrun`` started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def init_process_group(*args, **kwargs):
    """Raises `RuntimeError`."""
    raise RuntimeError("torch.distributed is not available: training in several processes is not there yet")


def destroy_process_group(group=None):
    """Raises `ValueError`: there is no group."""
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


def _of_a_group(name):
    def call(*args, **kwargs):
        destroy_process_group()

    call.__name__ = call.__qualname__ = name
    call.__doc__ = destroy_process_group.__doc__
    return call


for _name in set(__all__) - set(globals()):
    globals()[_name] = _of_a_group(_name)
del _name
