"""`torch.utils._device`: the default device as a context manager."""

import pytpu as torch

from ._contextlib import context_decorator


class DeviceContext:
    """A block in which new tensors are on a device. `with torch.device(...)` is the public name of it."""

    def __init__(self, device):
        self.device = torch.device(device)

    def __enter__(self):
        self.device.__enter__()

    def __exit__(self, *error):
        return self.device.__exit__(*error)


def device_decorator(device, func):
    """Return a function whose calls run in the block of a device."""
    return context_decorator(lambda: device, func)


def set_device(device):
    """Return a decorator for functions whose new tensors are on a device."""
    return lambda func: device_decorator(torch.device(device), func)


def _device_constructors():
    """Return the functions that make tensors on the default device."""
    names = (
        "empty empty_permuted empty_strided ones arange bartlett_window blackman_window eye full hamming_window "
        "hann_window kaiser_window linspace logspace rand randn randint randperm range tril_indices triu_indices zeros "
        "asarray tensor as_tensor scalar_tensor"
    )
    return {getattr(torch, name) for name in names.split()} | {torch.fft.fftfreq, torch.fft.rfftfreq}
