"""`torch.tpu.forbid_compilation`: where a program would be compiled, an error says why."""

import threading

import pytest

import pytpu as torch
from pytpu import nn


@pytest.fixture
def model():
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 3)).to("tpu")
    for rows in (2, 4):
        for _ in range(2):
            made(torch.ones(rows, 5, device="tpu")).sum().item()
    return made


def test_programs_that_are_there_run(model):
    want = model(torch.ones(4, 5, device="tpu")).sum().item()
    before = torch.tpu.compilation_count()
    with torch.tpu.forbid_compilation():
        assert model(torch.ones(4, 5, device="tpu")).sum().item() == want
        with torch.tpu.forbid_compilation():
            model(torch.ones(2, 5, device="tpu")).sum().item()
    assert torch.tpu.compilation_count() == before


def test_another_size_raises_at_the_read_and_names_it(model):
    before = torch.tpu.compilation_count()
    words = "compilations are forbidden.*dimension 0 is 3 instead of"
    with pytest.raises(RuntimeError, match=words), torch.tpu.forbid_compilation():
        y = model(torch.ones(3, 5, device="tpu")).sum()
        for _ in range(2):
            with pytest.raises(RuntimeError, match=words) as error:
                y.item()
            assert "ops (" in str(error.value)
    assert torch.tpu.compilation_count() == before
    assert model(torch.ones(3, 5, device="tpu")).shape == (3, 3)


def test_the_end_of_the_block_raises_what_nobody_read(model):
    with pytest.raises(RuntimeError, match="compilations are forbidden"), torch.tpu.forbid_compilation():
        model(torch.ones(6, 5, device="tpu"))
    with pytest.raises(ValueError, match="mine"), torch.tpu.forbid_compilation():
        model(torch.ones(8, 5, device="tpu"))
        raise ValueError("mine")
    with torch.tpu.forbid_compilation():  # what was refused before is forgotten
        model(torch.ones(2, 5, device="tpu")).sum().item()


def test_work_before_the_block_is_compiled(model):
    y = model(torch.ones(9, 5, device="tpu")).sum()
    with torch.tpu.forbid_compilation():
        assert y.item() == y.item()


def test_weights_keep_their_values(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = [p.detach().cpu() for p in model.parameters()]
    with pytest.raises(RuntimeError, match="compilations are forbidden"), torch.tpu.forbid_compilation():
        model(torch.ones(11, 5, device="tpu")).sum().backward()
        optimizer.step()
    for p, was in zip(model.parameters(), before, strict=True):
        assert torch.equal(p.detach().cpu(), was)


def test_other_threads_are_held_too(model):
    errors = []

    def work():
        try:
            model(torch.ones(13, 5, device="tpu")).sum().item()
        except RuntimeError as e:
            errors.append(str(e))

    with pytest.raises(RuntimeError, match="compilations are forbidden"), torch.tpu.forbid_compilation():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert "compilations are forbidden" in errors[0]
