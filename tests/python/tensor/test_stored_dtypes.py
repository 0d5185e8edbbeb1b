"""Dtypes that are only stored: unsigned integers of more than 8 bits, and floats of 8. Values are PyTorch's."""

import copy
import hashlib
import io
import pathlib
import pickle

import numpy as np
import pytest

import pytpu as torch
from pytpu import safetensors

UNSIGNED = ["uint16", "uint32", "uint64"]
# The values of 0, 1, 2.5, 3, 100 and 448, and the hashes of the codes of all `bfloat16` numbers and of the numbers of
# all codes.
FLOATS = {
    "float8_e4m3fn": ([0.0, 1.0, 2.5, 3.0, 96.0, 448.0], "556222ae80c3498b", "0c5d81084420441d"),
    "float8_e5m2": ([0.0, 1.0, 2.5, 3.0, 96.0, 448.0], "875dd70a7c02e2f8", "f3e7031368f3245d"),
    "float8_e4m3fnuz": ([0.0, 1.0, 2.5, 3.0, 96.0, float("nan")], "b5a02ccdb033ad92", "3551e5a780d001d5"),
    "float8_e5m2fnuz": ([0.0, 1.0, 2.5, 3.0, 96.0, 448.0], "fbc7c46b2110bf77", "801b50f1b9613085"),
    "float8_e8m0fnu": ([2.0**-127, 1.0, 2.0, 4.0, 128.0, 512.0], "c7ce8810bf43d855", "77b869e821d2ed59"),
}
NAMES = [*UNSIGNED, *FLOATS]
DEVICES = ["cpu", "tpu"]


@pytest.fixture(params=[(name, device) for name in NAMES for device in DEVICES], ids=lambda p: "-".join(p))
def made(request):
    """A tensor of each dtype on each device, and its numbers."""
    name, device = request.param
    numbers = FLOATS[name][0] if name in FLOATS else [0, 1, 2, 3, 100, 448]
    x = torch.tensor([[0.0, 1.0, 2.5], [3.0, 100.0, 448.0]], device=device).to(getattr(torch, name))
    return x, numbers


def same(x, numbers):
    return np.array_equal(np.array(x.tolist(), dtype=np.float64).ravel(), np.array(numbers, np.float64), equal_nan=True)


def hashed(x):
    return hashlib.sha256(x.contiguous().cpu().view(torch.uint8).numpy().tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", FLOATS)
def test_all_numbers_convert_as_in_pytorch(name, device):
    dtype = getattr(torch, name)
    numbers = torch.arange(65536, dtype=torch.int32, device=device).to(torch.int16).view(torch.bfloat16)
    assert hashed(numbers.float().to(dtype)) == FLOATS[name][1]
    codes = torch.arange(256, dtype=torch.int32, device=device).to(torch.uint8).view(dtype).float()
    assert hashed(torch.where(codes.isnan(), 0, codes)) == FLOATS[name][2]


def test_casts(made):
    x, numbers = made
    dtype = x.dtype
    assert same(x, numbers) and x.element_size() == dtype.itemsize
    for wide in (torch.float64, torch.float32):
        assert same(x.to(wide), numbers)
    finite = [n for n in numbers if n == n]
    assert same(x.to(torch.int64).ravel()[: len(finite)], [int(n) for n in finite])
    assert same(x.to(torch.bool), [n != 0 for n in numbers])
    assert same(x.to(torch.complex64).real, numbers)
    assert same(x.double().to(dtype), numbers)
    # Through `int16`, in which 448 has its bits.
    assert same(x.to(torch.int16).to(torch.uint8).ravel()[1:4], [int(n) for n in numbers[1:4]])


@pytest.mark.parametrize("device", DEVICES)
def test_integers_wrap_and_keep_64_bits(device):
    for name in UNSIGNED:
        dtype = getattr(torch, name)
        top = 2 ** (8 * dtype.itemsize)
        assert torch.tensor([-1, -3], device=device).to(dtype).tolist() == [top - 1, top - 3]
        assert torch.tensor([-1.0, -2.5], device=device).to(dtype).tolist() == [top - 1, top - 2]
        assert torch.tensor([-1], dtype=dtype, device=device).item() == top - 1
        assert torch.full((1,), -1, dtype=dtype, device=device).item() == top - 1
    x = torch.tensor([2**64 - 1, 2**63, 5], dtype=torch.uint64, device=device)
    assert x.tolist() == [2**64 - 1, 2**63, 5] and x[0].item() == 2**64 - 1
    assert (x == 2**64 - 1).tolist() == [True, False, False]
    assert x.double().tolist() == [2.0**64, 2.0**63, 5.0] and x.to(torch.int32).tolist() == [-1, 0, 5]
    assert x.sort().values.tolist() == [5, 2**63, 2**64 - 1] and x.max().item() == 2**64 - 1
    assert x.unique().tolist() == [5, 2**63, 2**64 - 1] and x.argmin().item() == 2
    assert (
        repr(x.cpu())
        == "tensor([18446744073709551615,  9223372036854775808,                    5],\n       dtype=torch.uint64)"
    )


def test_numbers_that_do_not_fit_are_refused():
    with pytest.raises(RuntimeError, match="^value cannot be converted to type uint16 without overflow$"):
        torch.tensor([70000], dtype=torch.uint16)
    with pytest.raises(RuntimeError, match="^value cannot be converted to type uint16_t without overflow$"):
        torch.full((2,), 70000, dtype=torch.uint16)


def test_elements_move(made):
    x, n = made
    device = x.device
    at = torch.tensor([1, 0], device=device)
    rows = [n[:3], n[3:]]
    assert same(x[1], rows[1]) and same(x[:, 1:], [*rows[0][1:], *rows[1][1:]]) and same(x[at], rows[1] + rows[0])
    assert same(x[at == 1], rows[0]) and same(x.t().contiguous(), [v for pair in zip(*rows) for v in pair])
    assert same(torch.cat([x, x]), n + n) and same(torch.stack([x, x], 1), 2 * rows[0] + 2 * rows[1])
    assert same(x.flip(0), rows[1] + rows[0]) and same(x.roll(1), [n[-1], *n[:-1]]) and same(x.repeat(2, 1), n + n)
    mask = torch.tensor([[True], [False]], device=device)
    assert same(torch.where(mask, x, x.flip(0)), 2 * rows[0])
    assert same(x.gather(1, torch.tensor([[0], [2]], device=device)), [n[0], n[5]])
    assert same(x.index_select(1, at), [n[1], n[0], n[4], n[3]]) and same(x.unbind()[1], rows[1])
    assert same(x[:, :1].expand(2, 2), [n[0], n[0], n[3], n[3]]) and same(x.diagonal(), [n[0], n[4]])
    assert same(x.cpu(), n) and same(x.clone(), n) and same(copy.deepcopy(x), n) and same(x.to("cpu").to(device), n)


def test_writes(made):
    x, n = made
    one, two = x[0, 1], x[0, 1].double().item() * 2
    y = x.clone()
    y[0] = 2
    y[1, 1] = 1
    y[:, 2] = x[:, 1]
    assert same(y, [two, two, n[1], n[3], 1, n[4]])
    assert same(torch.zeros_like(x).copy_(x.double()), n) and same(x.clone().fill_(2), [two] * 6)
    assert same(x.clone().index_put_((torch.tensor([0], device=x.device),), one), [1.0] * 3 + n[3:])
    base = x.clone().view(-1)
    base.view(torch.uint8)[: x.element_size()] = one.reshape(1).view(torch.uint8)
    assert same(base, [1.0, *n[1:]])


def test_creation(made):
    x, _ = made
    like = {"dtype": x.dtype, "device": x.device}
    zero = 2.0**-127 if x.dtype == torch.float8_e8m0fnu else 0
    assert same(torch.zeros(2, **like), [zero] * 2) and same(torch.ones(2, **like), [1, 1])
    assert same(torch.tensor([1, 2], **like), [1, 2]) and same(torch.full((2,), 4, **like), [4, 4])
    assert torch.empty(2, **like).dtype == x.dtype and same(torch.ones_like(x), [1] * 6)


def test_comparisons(made):
    x, n = made
    assert same(x == x, [v == v for v in n]) and same(x != 1, [v != 1 for v in n]) and same(x == 1, [v == 1 for v in n])
    assert torch.equal(x, x.clone()) == all(v == v for v in n)
    assert x.any().item() and x.all().item() == (n[0] != 0) and same(x.isnan(), [v != v for v in n])
    assert bool(x[0, 1]) and int(x[0, 1]) == 1 and x[1, 0].item() == n[3]


def test_arithmetic_that_is_not_there_says_so():
    for name in FLOATS:
        x = torch.ones(2).to(getattr(torch, name))
        with pytest.raises(NotImplementedError, match=f"not implemented for '{x.dtype._scalar_type}'"):
            x + x
    for name in NAMES:
        dtype = getattr(torch, name)
        x = torch.ones(2).to(dtype)
        with pytest.raises(NotImplementedError, match=f"^\"arange_cpu\" not implemented for '{dtype._scalar_type}'$"):
            torch.arange(3, dtype=dtype)
        text = f"is not supported, attempted to promote {dtype._scalar_type} and Long$"
        with pytest.raises(RuntimeError, match=text):
            torch.cat([x, torch.ones(1, dtype=torch.int64)])
        with pytest.raises(RuntimeError, match=text):
            torch.promote_types(torch.int64, dtype)
    assert torch.promote_types(torch.uint16, torch.float16) == torch.float16
    assert torch.result_type(torch.ones(1).to(torch.uint16), 2.5) == torch.float32


def test_files(made):
    x, n = made
    file = io.BytesIO()
    torch.save({"x": x, "row": x[1]}, file)
    file.seek(0)
    found = torch.load(file)
    assert found["x"].dtype == x.dtype and found["x"].device == x.device and same(found["x"], n)
    assert same(found["row"], n[3:])
    assert same(pickle.loads(pickle.dumps(x)), n)
    found = safetensors.load(safetensors.save({"x": x.cpu(), "y": torch.ones(3)}))
    assert found["x"].dtype == x.dtype and same(found["x"], n)


def test_files_of_pytorch():
    found = torch.load(pathlib.Path(__file__).parents[1] / "goldens" / "stored_dtypes.pt")
    for name in NAMES:
        numbers = FLOATS[name][0] if name in FLOATS else [0, 1, 2, 3, 100, 448]
        assert found[name].dtype == getattr(torch, name) and same(found[name], numbers)
    assert found["largest"].item() == 2**64 - 1
    found["base"][2] = 7
    assert found["view"].tolist() == [7, 3]


def test_exchange():
    for name in UNSIGNED:
        array = np.array([[1, 2], [3, 4]], dtype=name)
        x = torch.from_numpy(array)
        array[0, 0] = 9
        assert x.dtype == getattr(torch, name) and x.tolist() == [[9, 2], [3, 4]]
        assert x.numpy().dtype == array.dtype and np.from_dlpack(x).tolist() == x.tolist()
        assert torch.tensor(array).dtype == x.dtype and torch.from_dlpack(array).tolist() == x.tolist()
    for name in FLOATS:
        x = torch.ones(2).to(getattr(torch, name))
        assert torch.from_dlpack(x).dtype == x.dtype
        with pytest.raises(TypeError, match=f"^Got unsupported ScalarType {x.dtype._scalar_type}$"):
            x.numpy()


def test_gradients_pass_casts():
    x = torch.tensor([1.0, 2.3, 500.0], requires_grad=True)
    x.to(torch.float8_e4m3fn).float().backward(torch.tensor([1.0, 2.0, 3.0]))
    assert x.grad.tolist() == [1.0, 2.0, 3.0]
    assert x.to(torch.float8_e5m2).requires_grad and torch.ones(2).to(torch.float8_e5m2).requires_grad_().requires_grad
    with pytest.raises(RuntimeError, match="only Tensors of floating point"):
        torch.ones(2).to(torch.uint16).requires_grad_()


def test_hash_of_a_tensor():
    x = torch.tensor([[1.5, -2.0, 3.0], [4.0, 0.25, -1.0]])
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        assert torch.hash_tensor(x.to(dtype)).item() == 9205357638345293824
        assert torch.hash_tensor(x.to(dtype), 1).tolist() == [13830554455654793216, 13848568854164275200]
    assert x.to(torch.int8).hash_tensor(1, keepdim=True).tolist() == [[2**64 - 4], [2**64 - 5]]
    assert torch.hash_tensor(torch.zeros(0, 2), 1).shape == (0,)
    with pytest.raises(RuntimeError, match="^Unknown hash_tensor mode: 1$"):
        torch.hash_tensor(x, mode=1)
