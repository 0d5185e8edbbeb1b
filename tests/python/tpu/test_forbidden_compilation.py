"""`torch.tpu.forbid_compilation`: where a program would be compiled, an error says why."""

import threading

import pytest

import pytpu as torch
from pytpu import nn


def answer(model, rows):
    x = torch.ones(rows, 5).to("tpu")
    with torch.no_grad():
        return model(x)


@pytest.fixture
def model():
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 3)).to("tpu")
    for rows in (2, 4):
        for _ in range(2):
            answer(made, rows).sum().item()
    return made


def test_programs_that_are_there_run(model):
    want = answer(model, 4).sum().item()
    before = torch.tpu.compilation_count()
    with torch.tpu.forbid_compilation():
        got = answer(model, 4).sum().item()
        with torch.tpu.forbid_compilation():
            answer(model, 2).sum().item()
    assert got == want
    assert torch.tpu.compilation_count() == before


def test_another_size_raises_at_the_read_and_names_it(model):
    before = torch.tpu.compilation_count()
    words = "compilations are forbidden.*argument .: dimension 0 is 3 instead of"
    with pytest.raises(RuntimeError, match=words), torch.tpu.forbid_compilation():
        y = answer(model, 3).sum()
        for _ in range(2):
            with pytest.raises(RuntimeError, match=words) as error:
                y.item()
            assert "ops (" in str(error.value)
    assert torch.tpu.compilation_count() == before
    assert answer(model, 3).shape == (3, 3)


def test_the_end_of_the_block_raises_what_nobody_read(model):
    with pytest.raises(RuntimeError, match="compilations are forbidden"), torch.tpu.forbid_compilation():
        _y = answer(model, 6)
    with pytest.raises(ValueError, match="mine"), torch.tpu.forbid_compilation():
        _y = answer(model, 8)
        raise ValueError("mine")
    with torch.tpu.forbid_compilation():  # what was refused before is forgotten
        answer(model, 2).sum().item()


def test_work_before_the_block_is_compiled(model):
    y = answer(model, 9).sum()
    with torch.tpu.forbid_compilation():
        assert y.item() == y.item()


def test_other_threads_are_held_too(model):
    errors = []

    def work():
        try:
            answer(model, 13).sum().item()
        except RuntimeError as e:
            errors.append(str(e))

    with pytest.raises(RuntimeError, match="compilations are forbidden"), torch.tpu.forbid_compilation():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert "compilations are forbidden" in errors[0]
