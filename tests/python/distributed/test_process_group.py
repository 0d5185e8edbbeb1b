"""`torch.distributed` without a process group."""

import pytest

import pytpu as torch


def test_calls_without_a_process_group_raise():
    from pytpu.distributed import destroy_process_group, get_rank, init_process_group

    with pytest.raises(RuntimeError, match="torch.distributed is not available"):
        init_process_group(backend="gloo")
    for call in (destroy_process_group, get_rank, torch.distributed.barrier, torch.distributed.all_reduce):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            call()
    assert not torch.distributed.is_torchelastic_launched()
