"""Window functions: shapes, values, errors."""

import numpy as np
import pytest

import pytpu as torch


def test_windows_are_symmetric_or_periodic(device):
    for name in ("bartlett", "blackman", "hamming", "hann", "kaiser"):
        whole = getattr(torch, f"{name}_window")(9, False, device=device)
        cut = getattr(torch, f"{name}_window")(8, True, device=device)
        assert torch.allclose(whole[:-1], cut, atol=1e-6), name
        assert torch.allclose(whole, whole.flip(0), atol=1e-6), name
        signal = getattr(torch.signal.windows, name)(9)
        assert torch.allclose(whole.cpu(), signal, atol=1e-6), name


def test_window_values(close):
    close(torch.hann_window(6), 0.5 - 0.5 * np.cos(np.arange(6) / 6 * 2 * np.pi))
    close(torch.signal.windows.gaussian(5, std=2.0), np.exp(-(((np.arange(5) - 2) / 2) ** 2) / 2))
    close(torch.signal.windows.exponential(5, tau=3.0), np.exp(-np.abs(np.arange(5) - 2) / 3))
    close(torch.signal.windows.cosine(4), np.sin((np.arange(4) + 0.5) * np.pi / 4))
    close(torch.kaiser_window(7, False, 8.6), np.kaiser(7, 8.6), atol=1e-5)


def test_windows_refuse_negative_lengths():
    with pytest.raises(ValueError, match="requires non-negative window length, got M=-1"):
        torch.signal.windows.hann(-1)
    with pytest.raises(RuntimeError, match="requires non-negative window_length"):
        torch.hann_window(-1)
