"""Flags of `torch.backends.cudnn` and `torch.backends.cuda`."""

import pytest

import pytpu as torch


def test_switches_of_backends_can_be_set_for_a_block():
    cudnn = torch.backends.cudnn
    assert cudnn.version() is None and not cudnn.is_available() and not torch.backends.mps.is_built()
    with cudnn.flags(benchmark=True, deterministic=True):
        assert cudnn.benchmark and cudnn.deterministic
    assert not cudnn.benchmark and not cudnn.deterministic
    torch.backends.cuda.enable_flash_sdp(False)
    assert not torch.backends.cuda.flash_sdp_enabled()
    torch.backends.cuda.enable_flash_sdp(True)


def test_flags_that_are_not_named_are_off_inside_of_a_block():
    cudnn = torch.backends.cudnn
    cudnn.deterministic = True
    try:
        with cudnn.flags(benchmark=True):
            assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32) == (False, True, False, True)
        assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (True, False, True)
        assert cudnn.set_flags(_deterministic=False) == (True, False, 10, True, True)
    finally:
        cudnn.deterministic = False
    with pytest.raises(TypeError, match="unexpected keyword argument 'zzz'"):
        cudnn.flags(zzz=1)
    with pytest.raises(RuntimeError, match="set_enabled_cudnn expects a bool, but got int"):
        cudnn.enabled = 3
    assert cudnn.enabled is True


def test_switches_of_cuda_have_names_and_types():
    matmul = torch.backends.cuda.matmul
    for attempt in (lambda: matmul.zzz, lambda: setattr(matmul, "zzz", 3)):
        with pytest.raises(AttributeError, match="^Unknown attribute zzz$"):
            attempt()
    with pytest.raises(RuntimeError, match="set_allow_tf32_cublas expects a bool, but got str"):
        matmul.allow_tf32 = "ieee"
    with pytest.raises(
        TypeError, match="allow_fp16_reduced_precision_reduction expects a bool or a tuple/list of bools"
    ):
        matmul.allow_fp16_reduced_precision_reduction = "ieee"
    with (
        pytest.warns(FutureWarning, match="sdp_kernel.* is deprecated"),
        torch.backends.cuda.sdp_kernel(enable_flash=False),
    ):
        assert not torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()
