"""`torch.cuda` without a CUDA device."""

import pytest

import pytpu as torch


def test_events_and_streams_of_cuda_can_be_named_but_not_made():
    cuda = torch.cuda
    for name in ("Event", "Stream", "CUDAGraph"):
        assert not isinstance(3, getattr(cuda, name))
        with pytest.raises(RuntimeError, match=f"^Tried to instantiate dummy base class {name}$"):
            getattr(cuda, name)()
    with cuda.device(None), cuda.stream(None), cuda.device_of(torch.ones(1)):
        pass
    for refused in (cuda.device(0).__enter__, cuda.current_stream, cuda.init):
        with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            refused()
    with pytest.raises(RuntimeError, match="NVTX functions not installed"):
        cuda.nvtx.range_push("step")
    with pytest.raises(RuntimeError, match="NVTX functions not installed"), cuda.nvtx.range("step"):
        pass
