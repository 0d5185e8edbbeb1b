"""Tensor objects: identity, weak references, garbage collection, subclasses, pickling, NumPy, numbers."""

import copy
import gc
import io
import operator
import pathlib
import pickle
import subprocess
import sys
import weakref

import numpy as np
import pytest

import pytpu as torch


def test_one_tensor_has_one_object():
    x = torch.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    assert x.grad is x.grad
    assert x.to("cpu") is x and x.contiguous() is x and x.float() is x
    y = torch.ones(2)
    assert y.add_(1) is y
    assert x.detach() is not x


def test_attributes_stay_while_the_object_lives():
    x = torch.ones(2)
    x.tag = "a"
    assert x.add_(1).tag == "a" and x.__dict__ == {"tag": "a"}


def test_weak_references():
    x = torch.ones(2)
    r = weakref.ref(x)
    assert r() is x
    del x
    assert r() is None


def test_cycles_are_collected():
    x = torch.ones(2)
    x.me = x
    r = weakref.ref(x)
    del x
    gc.collect()
    assert r() is None


def test_dead_objects_are_reused_clean():
    for _ in range(5000):
        x = torch.ones(1)
        x.a = 1
        del x
    assert not hasattr(torch.ones(1), "a")


def test_memory_is_freed():
    import resource

    x = torch.ones(1000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20000):
        x = x + 1
    y = torch.ones(1000, requires_grad=True)
    for _ in range(2000):
        (y * y).sum().backward()
        y.grad = None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


class Tagged(torch.Tensor):
    pass


class Logged(torch.Tensor):
    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


def test_subclasses_stay_what_they_are():
    x = torch.ones(2).as_subclass(Tagged)
    assert type(x) is Tagged and isinstance(x, torch.Tensor)
    assert type(x + 1) is Tagged and type(torch.add(x, 1)) is Tagged and type(x.sum()) is Tagged
    assert type(torch.cat([x, x])) is Tagged


def test_torch_function_sees_calls():
    x = torch.ones(2).as_subclass(Logged)
    Logged.calls.clear()
    x + 1
    torch.add(x, 1)
    x.mul(2)
    1 - x
    assert Logged.calls == ["add", "add", "mul", "__rsub__"]


def test_torch_function_of_other_types():
    class Other:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, kwargs

    assert torch.add(Other(), 1, alpha=2) == ("add", {"alpha": 2})
    assert torch.add(torch.ones(1), Other())[0] == "add"


def test_torch_function_is_asked_for_items_of_lists_and_by_functions_in_python():
    class Other:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, [t.__name__ for t in types]

    F, o, t = torch.nn.functional, Other(), torch.ones(2, 2)
    for joined in (torch.cat, torch.stack, torch.hstack, torch.vstack):
        assert joined([t, o]) == joined((o,)) == (joined.__name__, ["Other"])
    assert torch.einsum("ij,ij->ij", o, t) == torch.einsum("ij,ij->ij", [o, t]) == ("einsum", ["Other", "Tensor"])
    assert torch.split(o, 1) == ("split", ["Other"]) and torch.unique(o) == ("unique", ["Other"])
    assert torch.meshgrid(o, t) == ("meshgrid", ["Other", "Tensor"]) and torch.norm(o) == ("norm", ["Other"])
    assert F.softmax(o, dim=0) == ("softmax", ["Other"]) and F.interpolate(o, scale_factor=2) == (
        "interpolate",
        ["Other"],
    )
    assert F.mse_loss(t, o) == F.mse_loss(t, target=o) == ("mse_loss", ["Tensor", "Other"])
    with pytest.raises(TypeError, match="expected Tensor as element 1 in argument 0, but got int"):
        torch.cat([t, 1])

    x = t.as_subclass(Logged)
    Logged.calls.clear()
    assert (
        type(torch.stack([t, x])) is Logged and type(F.softmax(x, 0)) is Logged and type(torch.split(x, 1)[0]) is Logged
    )
    F.cross_entropy(x, torch.tensor([0, 1]))
    assert Logged.calls == ["stack", "softmax", "split", "cross_entropy"]


def test_parameter():
    p = torch.nn.Parameter(torch.ones(2))
    assert isinstance(p, torch.Tensor) and p.requires_grad and p.is_leaf
    assert type(p + 1) is torch.Tensor
    p.data = torch.zeros(3)
    assert p.shape == (3,) and p.requires_grad and type(p) is torch.nn.Parameter


def test_data_keeps_the_graph_that_exists():
    p = torch.ones(2, requires_grad=True)
    loss = (p * 2).sum()
    p.data = torch.zeros(2)
    loss.backward()
    assert p.grad.tolist() == [2.0, 2.0] and p.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64],
    ids=str,
)
def test_pickle(dtype):
    x = torch.arange(6).reshape(2, 3).to(dtype)
    y = pickle.loads(pickle.dumps(x))
    assert y.dtype == dtype and torch.equal(x, y)
    assert pickle.loads(pickle.dumps((dtype, x.shape, x.device))) == (dtype, x.shape, x.device)


def test_copies():
    x = torch.arange(4.0, requires_grad=True)
    y = copy.deepcopy(x)
    assert y.requires_grad and torch.equal(x, y) and y.data_ptr() != x.data_ptr()
    a = torch.zeros(4)
    views = copy.deepcopy([a[:2], a[1:]])
    views[0][1] = 5
    assert views[1][0].item() == 5
    p = copy.deepcopy(torch.nn.Parameter(a))
    assert type(p) is torch.nn.Parameter
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(x * 2)


def test_save_and_load():
    base = torch.arange(10.0)
    state = {
        "w": base[2:6].reshape(2, 2),
        "v": base,
        "n": 3,
        "p": torch.nn.Parameter(torch.ones(2)),
        "b": torch.ones(2, dtype=torch.bfloat16),
    }
    f = io.BytesIO()
    torch.save(state, f)
    f.seek(0)
    back = torch.load(f)
    assert set(back) == set(state) and back["n"] == 3 and type(back["p"]) is torch.nn.Parameter
    assert torch.equal(back["w"], state["w"]) and back["b"].dtype == torch.bfloat16
    back["v"][2] = 99
    assert back["w"][0, 0].item() == 99  # both share one storage, as before


def test_load_runs_no_code():
    class Evil:
        def __reduce__(self):
            return print, ("owned",)

    f = io.BytesIO()
    torch.save({"x": Evil()}, f)
    f.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(f)


def test_numpy_shares_memory():
    a = np.arange(6.0).reshape(2, 3)
    x = torch.from_numpy(a)
    x[0, 0] = 9
    assert a[0, 0] == 9 and x.numpy() is not a
    x.numpy()[1, 1] = 8
    assert x[1, 1].item() == 8
    assert np.asarray(x.t()).strides == (8, 24)
    b = torch.ones(3).numpy()
    gc.collect()
    assert b.sum() == 3
    assert torch.tensor(a).data_ptr() != a.ctypes.data
    assert torch.as_tensor(a).data_ptr() == a.ctypes.data
    assert np.exp(torch.zeros(2)).tolist() == [1.0, 1.0]


def test_numpy_refuses():
    with pytest.raises(RuntimeError, match="Can't call numpy\\(\\) on Tensor that requires grad"):
        torch.ones(1, requires_grad=True).numpy()
    with pytest.raises(TypeError, match="Got unsupported ScalarType BFloat16"):
        torch.ones(1, dtype=torch.bfloat16).numpy()
    with pytest.raises(ValueError, match="negative"):
        torch.from_numpy(np.arange(3)[::-1])
    with pytest.raises(TypeError, match="expected np.ndarray \\(got list\\)"):
        torch.from_numpy([1])


@pytest.mark.parametrize(
    ("array", "name"),
    [
        (np.array(["a"]), "str_"),
        (np.array([None]), "object_"),
        (np.array([b"x"]), "bytes_"),
        (np.array(["2020-01-01"], dtype="M8[D]"), "datetime64"),
        (np.zeros(2, dtype=[("a", "i4")]), "void"),
    ],
)
@pytest.mark.parametrize("make", [torch.from_numpy, torch.tensor, torch.as_tensor])
def test_refused_numpy_dtypes_are_named_as_numpys_classes(make, array, name):
    with pytest.raises(
        TypeError, match=f"^can't convert np.ndarray of type numpy.{name}. The only supported types are: "
    ):
        make(array)


def test_tensor_from_data():
    assert torch.tensor([1, 2]).dtype == torch.int64
    assert torch.tensor([1, 2.0]).dtype == torch.float32
    assert torch.tensor([True]).dtype == torch.bool
    assert torch.tensor(np.float64(2)).dtype == torch.float64
    assert torch.tensor([np.float32(1)]).dtype == torch.float32
    assert torch.tensor([torch.tensor(1), torch.tensor(2)]).tolist() == [1, 2]
    assert torch.tensor([[], []]).shape == (2, 0)
    assert torch.tensor([[1, 2], [3, 4]], dtype=torch.float16).tolist() == [[1, 2], [3, 4]]
    assert torch.tensor(range(3)).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="expected sequence of length 2 at dim 1 \\(got 1\\)"):
        torch.tensor([[1, 2], [3]])
    with pytest.raises(RuntimeError, match="Could not infer dtype of NoneType"):
        torch.tensor([None])
    with pytest.raises(ValueError, match="Overflow"):
        torch.tensor(2**70)


OPERATORS = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne"]


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_agree_with_numpy(name):
    f = getattr(operator, name)
    a, b = np.array([1.5, 2.0, 3.25]), np.array([2.0, 2.0, 0.5])
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    np.testing.assert_allclose(f(x, y).numpy(), f(a, b))
    np.testing.assert_allclose(f(x, 2).numpy(), f(a, 2))
    np.testing.assert_allclose(f(2.5, y).numpy(), f(2.5, b))
    in_place = getattr(operator, "i" + name, None)
    if in_place:
        z = x.clone()
        same = in_place(z, y)
        assert same is z
        np.testing.assert_allclose(z.numpy(), f(a, b))


def test_integer_operators():
    x = torch.tensor([6, 5])
    assert (x & 3).tolist() == [2, 1] and (x | 1).tolist() == [7, 5] and (x ^ x).tolist() == [0, 0]
    assert (~x).tolist() == [-7, -6] and (x << 1).tolist() == [12, 10] and (1 << torch.tensor([2])).tolist() == [4]
    assert (-x).tolist() == [-6, -5] and abs(-x).tolist() == [6, 5]
    assert [10, 20, 30][torch.tensor(1)] == 20
    assert 5 in x and 7 not in x
    assert (x == None) is False  # noqa: E711
    assert hash(x) == hash(x) and len({x, x}) == 1
    assert float(torch.tensor(2)) == 2.0 and int(torch.tensor(2.9)) == 2


def test_in_place_changes_are_checked():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        x += 1
    y = x * 1
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_modes():
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad
    assert (x * 2).requires_grad

    @torch.no_grad()
    def f():
        return x * 2

    assert not f().requires_grad
    torch.set_grad_enabled(False)
    assert not (x * 2).requires_grad
    torch.set_grad_enabled(True)


def test_function():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            y = x * x
            ctx.save_for_backward(x, y)
            ctx.k = k
            return y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            assert torch.equal(y, x * x)
            return g * 2 * x * ctx.k, None

    x = torch.tensor([1.0, 3.0], requires_grad=True)
    y = Square.apply(x, 10)
    assert y.grad_fn.name() == "SquareBackward"
    y.sum().backward()
    assert x.grad.tolist() == [20.0, 60.0]
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()


def test_errors_in_backward_keep_their_type():
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x + 1

        @staticmethod
        def backward(ctx, g):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Bad.apply(torch.ones(1, requires_grad=True)).backward()


def test_functions_are_freed():
    class Id(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 1
            ctx.save_for_backward(y)
            ctx.mark = Mark()
            marks.append(weakref.ref(ctx.mark))
            return y

        @staticmethod
        def backward(ctx, g):
            return g

    class Mark:
        pass

    marks = []
    Id.apply(torch.ones(1, requires_grad=True))
    gc.collect()
    torch.ones(1)
    gc.collect()
    assert marks[0]() is None


def test_hooks():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    seen = []
    h = y.register_hook(lambda g: seen.append(g.tolist()) or g * 10)
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p is x))
    y.sum().backward()
    assert x.grad.tolist() == [20.0, 20.0] and seen == [[1.0, 1.0], True]
    h.remove()
    y = x * 2
    y.retain_grad()
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]


def test_grad():
    x = torch.tensor(3.0, requires_grad=True)
    (g,) = torch.autograd.grad(x * x * x, x, create_graph=True)
    (h,) = torch.autograd.grad(g, x)
    assert g.item() == 27.0 and h.item() == 18.0 and x.grad is None


def test_dtypes_devices_and_sizes_print_and_compare():
    assert repr(torch.float32) == "torch.float32" and torch.float is torch.float32
    assert repr(torch.device("tpu", 1)) == "device(type='tpu', index=1)" and str(torch.device("cpu")) == "cpu"
    assert torch.device("cpu") == torch.ones(1).device
    assert repr(torch.ones(2, 3).shape) == "torch.Size([2, 3])" and torch.ones(2, 3).shape[1:] == (3,)
    assert isinstance(torch.ones(2).shape, tuple) and torch.ones(2, 3).shape.numel() == 6
    assert torch.finfo(torch.float32).eps == 2.0**-23 and torch.iinfo(torch.int8).min == -128
    assert torch.Tensor([1, 2]).tolist() == [1.0, 2.0] and torch.Tensor(2, 3).shape == (2, 3)
    assert torch.ones(2).type() == "torch.FloatTensor"
    assert torch.empty(3, 4).T.stride() == (1, 4)


def test_dtypes_without_tensors_exist_as_names():
    d = torch.float8_e4m3fn
    assert (repr(torch.int4), torch.int4.itemsize, torch.uint4.is_signed) == ("torch.int4", 1, False)
    assert (repr(d), d.itemsize, d.is_floating_point, d.is_signed) == ("torch.float8_e4m3fn", 1, True, True)
    assert isinstance(d, torch.dtype) and d != torch.float8_e5m2 and copy.deepcopy(d) is d
    assert pickle.loads(pickle.dumps(torch.uint16)) is torch.uint16 and not torch.uint16.is_signed
    assert torch.float16.to_complex() is torch.complex32 is torch.chalf and torch.chalf.to_real() is torch.float16
    assert torch.finfo(d).max == 448 and torch.finfo(torch.float8_e8m0fnu).min == 2.0**-127
    assert torch.iinfo(torch.uint64).max == 2**64 - 1
    with pytest.raises(RuntimeError, match="isSignedType not supported for quantized types"):
        torch.qint8.is_signed
    x, d = torch.ones(2), torch.complex32
    for call in (
        lambda: x.to(d),
        lambda: x.to("cpu", d),
        lambda: x.type(d),
        lambda: torch.zeros(2, dtype=d),
        lambda: torch.tensor([1.0], dtype=d),
        lambda: torch.promote_types(d, torch.float32),
        lambda: x.sum(dtype=d),
    ):
        with pytest.raises(NotImplementedError, match="tensors of torch.complex32 are not supported"):
            call()


def test_types_name_dtypes_and_devices():
    x = torch.ones(2)
    assert x.type("torch.DoubleTensor").dtype is torch.float64 and x.type(torch.LongTensor).dtype is torch.int64
    assert x.type("torch.FloatTensor") is x
    y = x.type("torch.tpu.HalfTensor")
    assert (y.device.type, y.dtype, y.type(torch.FloatTensor).device.type) == ("tpu", torch.float16, "cpu")
    assert torch.cuda.FloatTensor.is_cuda and not isinstance(x, torch.cuda.FloatTensor)
    assert isinstance(x, torch.FloatTensor) and not isinstance(y, torch.HalfTensor)
    with pytest.raises(ValueError, match="invalid type: 'DoubleTensor'"):
        x.type("DoubleTensor")
    with pytest.raises(TypeError, match="dtype must be a type, str, or dtype object"):
        x.type(3)
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        torch.cuda.FloatTensor(2)


def test_classes_can_be_allowed_in_files():
    from pytpu import nn, serialization

    class Keeper(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.act = nn.Linear(2, 2), nn.functional.relu

    Keeper.__qualname__, Keeper.__module__ = "Keeper", __name__
    globals()["Keeper"] = Keeper
    file = io.BytesIO()
    torch.save(Keeper(), file)
    # Files have PyTorch's names of modules and functions.
    assert b"torch.nn.functional\nrelu" in file.getvalue() and b"pytpu" not in file.getvalue()

    def load():
        file.seek(0)
        return torch.load(file)

    with pytest.raises(pickle.UnpicklingError, match="was not an allowed global"):
        load()
    allowed = [Keeper, nn.Linear, nn.functional.relu]
    # Other tests of this process may have imported packages that allow their classes.
    before = serialization.get_safe_globals()
    with serialization.safe_globals(allowed):
        assert [x for x in serialization.get_safe_globals() if x not in before] == allowed
        assert load().act is nn.functional.relu
    assert serialization.get_safe_globals() == before
    with pytest.raises(pickle.UnpicklingError):
        load()
    serialization.add_safe_globals([(Keeper, f"{__name__}.Keeper"), *allowed[1:]])
    try:
        assert isinstance(load(), Keeper)
    finally:
        serialization.clear_safe_globals()
        serialization.add_safe_globals(before)


def test_random_streams():
    torch.manual_seed(0)
    a = torch.rand(3)
    state = torch.get_rng_state()
    b = torch.rand(3)
    torch.set_rng_state(state)
    assert torch.equal(b, torch.rand(3))
    torch.manual_seed(0)
    assert torch.equal(a, torch.rand(3)) and torch.initial_seed() == 0
    g = torch.Generator().manual_seed(0)
    assert torch.equal(torch.rand(3, generator=g), a)


def test_unseeded_numbers_differ_from_run_to_run():
    script = "import pytpu as t; print(t.initial_seed(), *t.rand(3).tolist(), *t.rand(3, device='tpu').tolist())"
    runs = [subprocess.run([sys.executable, "-c", script], capture_output=True, text=True) for _ in range(2)]
    (seed, *a), (other, *b) = (run.stdout.split() for run in runs)
    assert len(a) == 6 and seed != other and all(x != y for x, y in zip(a, b))
    # A new generator always has the same seed.
    for device in ("cpu", "tpu"):
        assert torch.Generator(device).initial_seed() == 67280421310721


def test_forked_random_streams():
    torch.manual_seed(0)
    a = torch.rand(3)

    @torch.random.fork_rng()
    def aside():
        return torch.rand(3)

    torch.manual_seed(0)
    assert torch.equal(aside(), a)
    with pytest.raises(KeyError), torch.random.fork_rng():
        torch.rand(3)
        raise KeyError
    with torch.random.fork_rng(enabled=False):
        assert torch.equal(torch.rand(3), a)
    assert not torch.equal(torch.rand(3), a)


def test_an_unmodified_script_runs(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\nimport torch.nn as nn\nfrom torch.nn import functional as F\n"
        "print(F.relu(torch.tensor([-1.0, 2.0])).tolist(), nn.Linear(2, 1).weight.shape)\n"
    )
    r = subprocess.run([sys.executable, "-m", "pytpu", str(script)], capture_output=True, text=True)
    assert r.stdout == "[0.0, 2.0] torch.Size([1, 2])\n", r.stderr


def test_import_is_light():
    code = "import sys, pytpu; print([m for m in ('numpy', 'pytpu.nn', 'pytpu.optim') if m in sys.modules])"
    r = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert r.stdout == "[]\n", r.stderr


def test_views_in_place():
    x = torch.arange(6.0).reshape(2, 3)
    same = x
    assert x.t_() is same and x.shape == (3, 2) and x.unsqueeze_(0).squeeze_(0).shape == (3, 2)
    y = torch.ones(2, requires_grad=True)
    z = (y * 2).unsqueeze_(0)
    z.sum().backward()
    assert y.grad.tolist() == [2.0, 2.0]


def test_closeness():
    x = torch.tensor([1.0, float("nan"), float("inf")])
    assert torch.isclose(x, x).tolist() == [True, False, True]
    assert torch.allclose(x, x, equal_nan=True) and not torch.allclose(torch.ones(1), torch.ones(1) * 1.1)
    assert torch.tensordot(torch.ones(2, 3), torch.ones(3, 4), 1).tolist() == [[3.0] * 4] * 2


def test_threads_share_tensors():
    import threading

    x = torch.ones(512, 1024)  # large enough that the call releases the GIL
    results = []
    threads = [threading.Thread(target=lambda: results.append((x + x).sum().item())) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert results == [2.0 * 512 * 1024] * 8


LEGACY = (
    pathlib.Path(__file__).parents[1] / "goldens" / "legacy_format.pt"
)  # torch.save of PyTorch 2.15, without its zip archive


def test_files_of_pytorchs_old_format_are_read(device):
    read = torch.load(LEGACY, map_location=device)
    assert read["epoch"] == 3 and read["flags"].tolist() == [True, False] and read["half"].dtype == torch.float16
    assert read["whole"].device.type == device and read["whole"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert read["view"].tolist() == [[1, 4], [2, 5]]
    assert read["model"]["weight"].shape == (3, 2) and read["model"]["bias"].sum().item() == pytest.approx(
        0.1839, abs=1e-4
    )
    assert read["optimizer"]["state"][0]["momentum_buffer"].cpu().eq(1).all()
    with open(LEGACY, "rb") as file:
        assert torch.load(file)["view"].tolist() == [[1, 4], [2, 5]]


def test_damaged_files_of_the_old_format(tmp_path):
    whole = LEGACY.read_bytes()
    path = tmp_path / "damaged.pt"
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises((EOFError, pickle.UnpicklingError, RuntimeError)):
            torch.load(path)
    path.write_bytes(b"hello world" * 5)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path)
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "missing.pt")


def test_storages_are_the_memory_of_tensors(device):
    x = torch.arange(6.0, device=device).view(2, 3)
    bytes_, elements = x.untyped_storage(), x[1:].storage()
    assert isinstance(bytes_, torch.UntypedStorage) and isinstance(elements, torch.FloatStorage)
    assert not isinstance(elements, torch.LongStorage) and torch.is_storage(elements) and not torch.is_storage(x)
    assert (len(bytes_), len(elements), elements.nbytes(), elements.element_size()) == (24, 6, 24, 4)
    assert elements.tolist() == [0, 1, 2, 3, 4, 5] and elements[4] == 4 and elements.dtype == torch.float32
    assert bytes_.tolist()[:8] == [0, 0, 0, 0, 0, 0, 128, 63] and bytes_.device == x.device
    assert bytes_ == x.view(-1).untyped_storage() and bytes_ != x.clone().untyped_storage()
    assert elements.long().tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(RuntimeError, match="slices are only supported in UntypedStorage"):
        elements[1:3]
    assert (
        repr(torch.ones(1).untyped_storage())
        == " 0\n 0\n 128\n 63\n[torch.storage.UntypedStorage(device=cpu) of size 4]"
    )
    again = torch.empty(0, device=device).set_(elements, 1, (2, 2), (2, 1))
    assert again.tolist() == [[1, 2], [3, 4]]


def test_storages_can_be_written_to_and_made():
    x = torch.arange(6.0)
    x.storage()[0] = 9
    x.untyped_storage()[7] = 64
    assert x.tolist() == [9, 4, 2, 3, 4, 5]
    x.storage().copy_(torch.FloatStorage([5, 4, 3, 2, 1, 0]))
    assert x.tolist() == [5, 4, 3, 2, 1, 0]
    y = torch.empty(0).set_(x.untyped_storage(), 2, (2,))
    y.zero_()
    assert x.tolist() == [5, 4, 0, 0, 1, 0] and x.storage().clone().fill_(1).tolist() == [1] * 6 and x[0] == 5
    assert (
        torch.UntypedStorage.from_buffer(b"ab", dtype=torch.uint8).tolist() == [97, 98]
        and torch.UntypedStorage(3).nbytes() == 3
    )
    assert torch.TypedStorage(wrap_storage=x.untyped_storage(), dtype=torch.int32).tolist()[2] == 0


def test_typed_storages_are_deprecated_once():
    import subprocess
    import sys

    script = (
        "import pytpu as torch, warnings; warnings.simplefilter('always'); [torch.ones(1).storage() for _ in range(3)]"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stderr.count("TypedStorage is deprecated") == 1, done.stderr


def test_generators_are_copied_with_their_state(device):
    import copy
    import pickle

    generator = torch.Generator(device).manual_seed(7)
    torch.rand(3, generator=generator, device=device)
    twins = [copy.deepcopy(generator), pickle.loads(pickle.dumps(generator)), generator.clone_state()]
    want = torch.rand(4, generator=generator, device=device).tolist()
    for twin in twins:
        assert twin is not generator and twin.initial_seed() == 7 and twin.device == generator.device
        assert torch.rand(4, generator=twin, device=device).tolist() == want


def test_objects_named_torch_are_pickled_without_a_module_torch():
    import pickle

    for thing in (
        torch.relu,
        torch.add,
        torch.nn.functional.gelu,
        torch.strided,
        torch.channels_last,
        len,
        torch.float32,
    ):
        assert pickle.loads(pickle.dumps(thing)) is thing
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps([torch.Tensor, Logged], protocol)) == [torch.Tensor, Logged]
    assert (torch.Tensor.__module__, torch.Tensor.__qualname__) == ("torch", "Tensor")
    assert pickle.loads(pickle.dumps([1].append)).__name__ == "append"
    result = torch.tensor([[1.0, 3.0]]).max(1)
    again = pickle.loads(pickle.dumps(result))
    assert type(again) is type(result) and again.values.tolist() == [3] and again.indices.tolist() == [1]
    # Files have PyTorch's names.
    import io
    import zipfile

    file = io.BytesIO()
    torch.save([torch.relu, result, torch.nn.functional.gelu, torch.nn.functional.logsigmoid], file)
    text = zipfile.ZipFile(file).read("archive/data.pkl")
    assert b"torch\nrelu" in text and b"torch._C._nn\ngelu" in text and b"_pickling" not in text
    file.seek(0)
    back = torch.load(file, weights_only=False)
    assert back[0] is torch.relu and type(back[1]) is type(result) and back[2] is torch.nn.functional.gelu
    assert back[3](torch.zeros(1)).item() == pytest.approx(-0.6931472)


def test_elements_are_mapped_by_a_function():
    x = torch.tensor([1.0, 2.0])
    assert x.map_(torch.tensor([10.0, 20.0]), lambda a, b: a + b).tolist() == [11.0, 22.0]
    assert x.map2_(x, x, lambda a, b, c: a + b - c).tolist() == [11.0, 22.0]
    assert torch.tensor([2.0], dtype=torch.float64).float_power_(3).item() == 8.0


def test_the_hash_of_a_tensor_is_its_id():
    x = torch.ones(2)
    assert hash(x) == id(x) and hash(x + 1) != hash(x)
