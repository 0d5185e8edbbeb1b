"""Names of devices, and devices that this build lacks."""

import pickle

import pytest

import pytpu as torch
from pytpu import nn


def test_missing_devices_have_names_but_no_tensors():
    cuda = torch.device("cuda")
    assert (cuda.type, cuda.index, repr(torch.device("mps", 1))) == ("cuda", None, "device(type='mps', index=1)")
    assert cuda == torch.device("cuda") != torch.device("cpu") and torch.device("cuda:0") != torch.device("cpu:0")
    assert torch.ones(1).device != cuda and pickle.loads(pickle.dumps(cuda)) == cuda
    for use in (
        lambda: torch.ones(1, device=cuda),
        lambda: torch.ones(1).to(cuda),
        lambda: nn.Linear(1, 1).to("cuda"),
        lambda: torch.set_default_device(cuda),
        lambda: cuda.__enter__(),
    ):
        with pytest.raises(RuntimeError, match="Torch not compiled with CUDA enabled"):
            use()
    with pytest.raises(RuntimeError, match="Invalid device string: 'cuda:one'"):
        torch.device("cuda:one")
    with pytest.raises(RuntimeError, match="Expected one of cpu, tpu, meta device type at start of device string: gpu"):
        torch.device("gpu")
