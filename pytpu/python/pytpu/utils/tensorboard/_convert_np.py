"""Values as NumPy arrays."""

import numpy as np

import pytpu as torch


def make_np(x):
    """Return a tensor, an array or a number as a NumPy array. A number becomes an array of one element."""
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    if isinstance(x, torch.Tensor):
        return _prepare_pytorch(x)
    raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")


def _prepare_pytorch(x):
    if x.dtype == torch.bfloat16:
        # NumPy has no such type, and float32 has every value of it.
        x = x.float()
    return x.detach().cpu().numpy()
