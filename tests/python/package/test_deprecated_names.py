"""Deprecated names and settings of PyTorch that still work."""

import pytest

import pytpu as torch


def test_deprecated_settings_work():
    torch.set_default_tensor_type("torch.DoubleTensor")
    try:
        assert torch.ones(1).dtype == torch.float64
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)
    assert torch.ones(1).dtype == torch.float32
    with pytest.raises(TypeError, match="^only floating-point types are supported as the default type"):
        torch.set_default_tensor_type(torch.IntTensor)
    with pytest.raises(TypeError, match="invalid type object"):
        torch.set_default_tensor_type("DoubleTensor")
    assert torch.get_device_module("cpu") is torch.cpu and torch.get_device_module() is torch.tpu
    torch.set_num_interop_threads(2)
    assert torch.get_num_interop_threads() == 1 and not torch.set_flush_denormal(True)
    assert torch.GradScaler is torch.amp.GradScaler


def test_deprecated_methods_work(device):
    x = torch.arange(6.0, device=device).view(2, 3)
    assert torch.functional.einsum is torch.einsum and set(torch.functional.__all__) <= set(dir(torch))
    assert (
        x.to_dense() is x
        and x.to_dense(torch.float64).dtype == torch.float64
        and (x.sparse_dim(), x.dense_dim()) == (0, 2)
    )
    with pytest.raises(RuntimeError, match="coalesce expected sparse coordinate tensor layout but got Strided"):
        x.coalesce()
    with pytest.warns(UserWarning, match="non-inplace resize is deprecated"):
        assert x.resize(3, 2).shape == (3, 2)
    with (
        pytest.warns(UserWarning),
        pytest.raises(RuntimeError, match=r"requested resize to 5 \(5 elements in total\), but the given"),
    ):
        x.resize_as(torch.ones(5))
    assert x.__div__(2).tolist() == (x / 2).tolist() and x[0, 1].__nonzero__() is True
    assert torch.norm_except_dim(x, 1, 1).tolist() == [[3, 5, 7]] and torch.norm_except_dim(x, 2, -1).shape == ()
    z = torch.tensor([1 + 2j], device=device)
    pair = torch.view_as_real_copy(z).zero_()
    assert z.tolist() == [1 + 2j] and torch.view_as_complex_copy(pair).tolist() == [0j]


def test_legacy_tensor_types():
    assert torch.FloatTensor([1, 2]).tolist() == [1.0, 2.0] and torch.LongTensor((3,)).dtype is torch.int64
    assert torch.FloatTensor(2, 3).shape == (2, 3) and torch.HalfTensor().shape == (0,)
    assert isinstance(torch.zeros(2), torch.FloatTensor) and not isinstance(torch.zeros(2), torch.LongTensor)
    assert torch.zeros(2).type(torch.BoolTensor).dtype is torch.bool
    assert torch.ByteTensor.dtype is torch.uint8
    with pytest.raises(TypeError, match="expected torch.FloatTensor"):
        torch.FloatTensor(torch.zeros(2).long())
    with pytest.raises(TypeError, match="data must be a sequence"):
        torch.FloatTensor(1.5)
