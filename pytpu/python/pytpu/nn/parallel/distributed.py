"""Gradients averaged over processes: needs a group of them, and none can be made yet."""

from ..modules.module import Module


class DistributedDataParallel(Module):
    """Raises `ValueError`, as PyTorch does in a process without a group."""

    def __init__(self, module, *args, **kwargs):
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
