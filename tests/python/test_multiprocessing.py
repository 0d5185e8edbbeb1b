"""`torch.multiprocessing`: shared memory and errors of processes."""

import os

import pytest

import pytpu as torch
from pytpu import nn


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_forked_processes_write_to_shared_memory():
    import pytpu.multiprocessing as mp

    model = nn.Linear(3, 2).to(torch.float64)
    half = torch.zeros(2, 2, dtype=torch.bfloat16).t()
    assert not half.is_shared() and half.share_memory_() is half
    weight = model.weight
    assert model.share_memory() is model and model.weight is weight and weight.is_shared() and half.is_shared()
    before = weight.detach().clone()

    def work():
        with torch.no_grad():
            model.weight.add_(1)
            half[0, 1] = 3

    process = mp.get_context("fork").Process(target=work)
    process.start()
    process.join()
    assert process.exitcode == 0
    assert torch.equal(weight, before + 1) and half.tolist() == [[0, 3], [0, 0]]
    with torch.no_grad():
        weight.zero_()
    assert weight.sum().item() == 0 and weight.requires_grad and weight.is_leaf


def _add(i, value):
    if value + i == 4:
        raise KeyError("four")
    if value + i == 9:
        os._exit(7)


def _fail_at_length(i):
    raise ValueError("x" * 200_000)


def test_errors_of_spawned_processes_reach_the_parent():
    import pytpu.multiprocessing as mp

    assert mp.spawn(_add, args=(0,), nprocs=2) is None
    with pytest.raises(mp.ProcessRaisedException, match=r"(?s)-- Process 1 terminated .*KeyError: 'four'") as e:
        mp.spawn(_add, args=(3,), nprocs=2)
    assert e.value.error_index == 1
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with exit code 7"):
        mp.spawn(_add, args=(9,), nprocs=1)
    # An error message may be longer than a pipe's buffer.
    with pytest.raises(mp.ProcessRaisedException) as e:
        mp.spawn(_fail_at_length, nprocs=1)
    assert len(str(e.value)) > 200_000
