"""Several `torch.save` into one open file, and bits of views that a file keeps."""

import copy
import io
import pickle

import pytest

import pytpu as torch


@pytest.mark.parametrize("zipped", [True, False])
def test_objects_saved_one_after_the_other_are_loaded_in_this_order(zipped):
    file = io.BytesIO()
    objects = [torch.ones(2), {"a": torch.arange(3)}, torch.zeros(300, 4), "text"]
    for x in objects:
        torch.save(x, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    first, second, third, fourth = (torch.load(file) for _ in range(4))
    assert first.tolist() == [1, 1] and second["a"].tolist() == [0, 1, 2]
    assert third.shape == (300, 4) and fourth == "text"


def test_the_second_object_is_loaded_from_its_position():
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    at = file.tell()
    torch.save(torch.zeros(3), file)
    file.seek(at)
    assert torch.load(file).tolist() == [0, 0, 0]


def test_a_path_with_two_objects_gives_the_first(tmp_path):
    path = tmp_path / "two.pt"
    with open(path, "wb") as file:
        torch.save(torch.ones(2), file)
        torch.save(torch.zeros(3), file)
    assert torch.load(path).tolist() == [1, 1]
    assert torch.load(path, mmap=True).tolist() == [1, 1]


def test_a_damaged_first_object_is_not_replaced_by_the_second():
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    damaged = bytearray(file.getvalue())
    damaged[-22:-18] = b"XXXX"  # the end of the directory
    second = io.BytesIO()
    torch.save(torch.zeros(3), second)
    with pytest.raises(RuntimeError):
        torch.load(io.BytesIO(bytes(damaged) + second.getvalue()))


def saved_and_loaded(x, weights_only=True):
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file, weights_only=weights_only)


@pytest.mark.parametrize("weights_only", [True, False])
def test_conjugate_and_negative_views_keep_their_bits_in_a_file(device, weights_only):
    z = torch.tensor([1 + 2j, 3 - 1j], device=device)
    for view in (z.conj(), z.conj().imag, z.conj()[:1], z.conj().conj()):
        y = saved_and_loaded(view, weights_only)
        assert (y.is_conj(), y.is_neg()) == (view.is_conj(), view.is_neg())
        assert y.tolist() == view.tolist()
        y = pickle.loads(pickle.dumps(view))
        assert (y.is_conj(), y.is_neg()) == (view.is_conj(), view.is_neg())
        assert y.tolist() == view.tolist() and copy.deepcopy(view).tolist() == view.tolist()


def test_a_tensor_and_its_conjugate_share_memory_after_loading():
    z = torch.tensor([1 + 2j, 3 - 1j])
    x, y = saved_and_loaded([z, z.conj()])
    x[0] = 5j
    assert y[0].item() == -5j


def test_a_parameter_that_is_a_conjugate_view_keeps_its_bit():
    p = saved_and_loaded(torch.nn.Parameter(torch.tensor([1 + 2j]).conj()))
    assert p.is_conj() and p.requires_grad and p.tolist() == [1 - 2j]


def test_a_sparse_layout_in_a_file_is_named_in_the_error():
    from pytpu.serialization import _get_layout

    assert _get_layout("torch.strided") is torch.strided
    with pytest.raises(NotImplementedError, match=r"layout torch\.sparse_csr are not supported"):
        _get_layout("torch.sparse_csr")
