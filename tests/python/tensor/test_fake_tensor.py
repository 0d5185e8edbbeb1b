"""Fake tensors: a device, sizes, strides and a dtype, and no elements."""

import copy
import io
import threading

import numpy
import pytest

import pytpu as torch
from pytpu._guards import active_fake_mode, detect_fake_mode
from pytpu._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeCopyMode,
    FakeTensor,
    FakeTensorDeviceMismatchError,
    FakeTensorMode,
    is_fake,
    maybe_get_fake_mode,
    unset_fake_temporarily,
)


@pytest.fixture
def mode():
    with FakeTensorMode() as mode:
        yield mode


MAKERS = {
    "empty": lambda d: torch.empty(2, 3, device=d),
    "zeros": lambda d: torch.zeros(2, 3, device=d),
    "full": lambda d: torch.full((2, 3), 7.0, device=d),
    "rand": lambda d: torch.rand(2, 3, device=d),
    "randint": lambda d: torch.randint(0, 4, (2, 3), device=d),
    "randperm": lambda d: torch.randperm(6, device=d),
    "arange": lambda d: torch.arange(3, device=d),
    "linspace": lambda d: torch.linspace(0, 1, 5, device=d),
    "eye": lambda d: torch.eye(3, device=d),
    "tensor": lambda d: torch.tensor([1, 2], device=d),
    "as_tensor": lambda d: torch.as_tensor(numpy.ones(3), device=d),
    "tril_indices": lambda d: torch.tril_indices(3, 3, device=d),
    "hann_window": lambda d: torch.hann_window(4, device=d),
    "fftfreq": lambda d: torch.fft.fftfreq(4, device=d),
    "empty_strided": lambda d: torch.empty_strided((2, 3), (1, 2), device=d),
}


@pytest.mark.parametrize("device", [None, "cpu", "tpu", "meta"])
@pytest.mark.parametrize("name", MAKERS)
def test_new_tensors_in_the_mode_are_fake(name, device):
    real = MAKERS[name]("meta" if name not in ("tensor", "as_tensor") else None)
    with FakeTensorMode():
        fake = MAKERS[name](device)
    assert isinstance(fake, FakeTensor)
    assert fake.device.type == (device or "cpu")
    assert (fake.shape, fake.stride(), fake.dtype) == (real.shape, real.stride(), real.dtype)
    assert not is_fake(MAKERS[name]("cpu"))


def test_ops_of_fake_tensors_are_fake_within_and_outside_of_the_mode(mode):
    x, y = torch.ones(2, 3), torch.rand(3)
    assert x.is_cpu and not x.is_meta
    for z in (x + y, x @ y, x.t(), torch.cat([x, x]), x.sum(), torch.zeros_like(x), x.new_ones(3), x.softmax(-1)):
        assert isinstance(z, FakeTensor)
    with unset_fake_temporarily():
        assert active_fake_mode() is None
        assert isinstance(x + 1, FakeTensor)
        assert type(torch.ones(1)) is torch.Tensor
    assert active_fake_mode() is mode


def test_text_of_fake_tensors(mode):
    assert str(torch.ones(2, 3)) == "FakeTensor(..., size=(2, 3))"
    assert repr(torch.arange(3)) == "FakeTensor(..., size=(3,), dtype=torch.int64)"
    assert str(torch.ones(2, 3, device="meta")) == "FakeTensor(..., device='meta', size=(2, 3))"
    assert str(torch.ones(2, requires_grad=True)) == "FakeTensor(..., size=(2,), requires_grad=True)"


READS = {
    "item": lambda x: x.sum().item(),
    "bool": lambda x: bool(x.sum()),
    "float": lambda x: float(x[0, 0]),
    "int": lambda x: int(x[0, 0]),
    "tolist": lambda x: x.tolist(),
    "range": lambda x: range(x.sum().long()),
    "index": lambda x: [1, 2][x.sum().long()],
}


@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize("name", READS)
def test_a_read_of_elements_fails_by_the_name_of_its_operator(mode, name, device):
    with pytest.raises(DataDependentOutputException, match=r"^aten\._local_scalar_dense\.default$"):
        READS[name](torch.ones(2, 3, device=device))


SIZES = {
    "nonzero": ("aten.nonzero.default", lambda x: x.nonzero()),
    "where": ("aten.nonzero.default", lambda x: torch.where(x > 0)),
    "mask": ("aten.nonzero.default", lambda x: x[x > 0]),
    "unique": ("aten._unique2.default", lambda x: x.unique()),
    "unique_consecutive": ("aten.unique_consecutive.default", lambda x: torch.unique_consecutive(x)),
    "unique_dim": ("aten.unique_dim.default", lambda x: torch.unique(x, dim=0)),
    "masked_select": ("aten.masked_select.default", lambda x: x.masked_select(x > 0)),
    "bincount": ("aten.bincount.default", lambda x: torch.bincount(x.flatten().long())),
    "repeat_interleave": ("aten.repeat_interleave.Tensor", lambda x: torch.repeat_interleave(x[0].long())),
}


@pytest.mark.parametrize("name", SIZES)
def test_a_size_that_depends_on_elements_fails_by_the_name_of_its_operator(mode, name):
    operator, call = SIZES[name]
    with pytest.raises(DynamicOutputShapeException) as caught:
        call(torch.ones(2, 3))
    assert str(caught.value) == operator
    assert str(caught.value.func) == operator


def test_sizes_that_are_given_need_no_elements(mode):
    x = torch.ones(2, 3)
    assert torch.histc(x, 5).shape == (5,)
    assert torch.repeat_interleave(x[0].long(), output_size=7).shape == (7,)


def test_gradients_of_fake_tensors_are_fake(mode):
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1 << 20))
    x = torch.ones(4, 8, requires_grad=True)
    model(x).square().mean().backward()
    for t in (x, *model.parameters()):
        assert isinstance(t, FakeTensor) and isinstance(t.grad, FakeTensor)
        assert t.grad.shape == t.shape
    assert isinstance(model[0].weight, torch.nn.Parameter)
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer.step()
    assert all(is_fake(s["exp_avg"]) for s in optimizer.state.values())


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_modules_run_on_fake_tensors(device):
    with FakeTensorMode(), torch.device(device):
        layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        y = layer(torch.rand(2, 5, 32))
        conv = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.MaxPool2d(2))
        z = conv(torch.rand(2, 3, 32, 32))
        y.sum().backward()
    assert (y.shape, y.device.type) == ((2, 5, 32), device)
    assert (z.shape, z.device.type) == ((2, 8, 15, 15), device)


def test_devices_of_fake_tensors_are_checked_and_changed(mode):
    x = torch.ones(2, 3)
    with pytest.raises(FakeTensorDeviceMismatchError, match="at least two devices, cpu and tpu:0!"):
        x + torch.ones(2, 3, device="tpu")
    assert (torch.ones(2, device="tpu") * torch.tensor(2.0)).device.type == "tpu"
    for moved in (x.to("tpu"), x.to(torch.ones(1, device="tpu")), x.to("tpu", torch.float64)):
        assert isinstance(moved, FakeTensor) and moved.device.type == "tpu"
    assert isinstance(x.to("tpu").cpu(), FakeTensor)
    assert x.cpu() is x
    assert isinstance(x.to("meta"), FakeTensor)


def test_other_tensors_are_refused_or_taken():
    real = torch.ones(2, 3)
    with FakeTensorMode():
        x = torch.ones(2, 3)
    message = (
        r"Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with 'allow_non_fake_inputs'. "
        r"Found in aten.add.Tensor\(FakeTensor\(..., size=\(2, 3\)\), tensor\(\[...\], size=\(2, 3\)\)\)"
    )
    with pytest.raises(AssertionError, match=message):
        x + real
    with pytest.raises(AssertionError, match="Please convert all Tensors"):
        torch.cat([real, x])
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert isinstance(x + real, FakeTensor)
        assert isinstance(torch.mm(real, x.t()), FakeTensor)
        assert isinstance(torch.cat([real, x]), FakeTensor)
    assert (real == 1).all()


def test_elements_are_never_written_to_or_read_from_a_real_tensor():
    real = torch.ones(2, 3)
    with FakeTensorMode():
        x = torch.zeros(2, 3)
    with pytest.raises(RuntimeError):
        real.copy_(x)
    with pytest.raises((RuntimeError, AssertionError)):
        real.add_(x)
    assert (real == 1).all()
    with pytest.raises(RuntimeError, match=r"\.numpy\(\) is not supported for tensor subclasses"):
        x.numpy()
    with pytest.raises(RuntimeError):
        numpy.asarray(x)
    assert x.data_ptr() == 0
    with pytest.raises(RuntimeError, match="cannot be saved"):
        torch.save(x, io.BytesIO())


def test_writes_in_place_and_views_keep_their_description(mode):
    x = torch.ones(4, 6)
    version = x._version
    view = x[:, ::2].t()
    view.add_(1)
    view[0] = 3
    assert x._version > version
    assert (view.shape, view.stride(), view._is_view()) == ((3, 4), (2, 6), True)
    assert x.fill_(2) is x


def test_fake_tensors_are_made_of_real_ones():
    mode = FakeTensorMode()
    real = torch.ones(4, 6)[1:, ::2].t().requires_grad_()
    fake = mode.from_tensor(real)
    assert mode.from_tensor(real) is fake
    assert mode.from_tensor(fake) is fake
    assert (fake.shape, fake.stride(), fake.storage_offset()) == (real.shape, real.stride(), real.storage_offset())
    assert fake.requires_grad and fake.is_leaf
    parameter = mode.from_tensor(torch.nn.Parameter(torch.ones(2)))
    assert isinstance(parameter, torch.nn.Parameter) and isinstance(parameter, FakeTensor)
    assert detect_fake_mode([1, fake]) is maybe_get_fake_mode(parameter) is mode
    assert maybe_get_fake_mode(real) is None
    made = FakeTensor(mode, torch.empty(2, 3, device="meta"), "tpu")
    assert (made.fake_mode, made.fake_device.type, made.shape) == (mode, "tpu", (2, 3))


def test_a_module_is_copied_without_elements():
    module = torch.nn.Linear(3, 4)
    with FakeCopyMode(FakeTensorMode()):
        made = copy.deepcopy(module)
    assert all(is_fake(p) for p in made.parameters())
    assert not any(is_fake(p) for p in module.parameters())
    assert made(FakeTensorMode().from_tensor(torch.ones(2, 3))).shape == (2, 4)


def test_a_mode_belongs_to_its_thread(mode):
    found = []
    thread = threading.Thread(target=lambda: found.append((is_fake(torch.ones(1)), active_fake_mode())))
    thread.start()
    thread.join()
    assert found == [(False, None)]


def test_fake_elements_take_no_memory_and_no_random_numbers():
    torch.manual_seed(5)
    with FakeTensorMode():
        x = torch.rand(1 << 30, 1 << 10)
        assert (x @ x.t()).shape == (1 << 30, 1 << 30)
        assert torch.nn.functional.dropout(x).shape == x.shape
    drawn = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(1), drawn)


@pytest.mark.parametrize("name", ["equal", "allclose"])
def test_a_comparison_of_whole_tensors_fails_by_its_own_name(mode, name):
    with pytest.raises(DataDependentOutputException, match=rf"^aten\.{name}\.default$"):
        getattr(torch, name)(torch.ones(2), torch.ones(2))
