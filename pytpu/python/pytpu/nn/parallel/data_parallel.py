"""Batches split over devices. There is one accelerator at most, which gets them whole."""

from ..modules.module import Module


class DataParallel(Module):
    """A module that stands for another, as ``module``, and hands batches on to it.

    Raises `RuntimeError` when called for more than one device.
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise RuntimeError(f"DataParallel: {len(device_ids)} devices were named, and there is one")
        self.module = module
        self.device_ids = [] if device_ids is None else list(device_ids)
        self.output_device = output_device
        self.dim = dim

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """Calls `module` as `DataParallel` does."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))
