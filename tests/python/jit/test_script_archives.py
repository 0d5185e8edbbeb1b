"""Archives of TorchScript are read, run and written."""

import copy
import io
import pathlib
import sys
import warnings
import zipfile

import pytest

import pytpu as torch
from pytpu import nn
from pytpu.utils import _pytree as pytree

GOLDENS = pathlib.Path(__file__).resolve().parents[1] / "goldens"
sys.path.insert(0, str(GOLDENS))
import export_programs  # noqa: E402

with zipfile.ZipFile(GOLDENS / "jit_programs.zip") as _zip:
    FILES = {name: _zip.read(name) for name in _zip.namelist()}
NAMES = sorted(name.removesuffix(".pt") for name in FILES if name.endswith(".pt"))
PROGRAMS = export_programs.programs(torch)
#: Programs whose arguments and results TorchScript has.
TRACEABLE = sorted(set(PROGRAMS) - {"trees", "chosen"})


def check(actual, expected):
    found, wanted = pytree.tree_leaves(actual), pytree.tree_leaves(expected)
    for x, y in zip(found, wanted, strict=True):
        if isinstance(y, torch.Tensor):
            assert x.dtype == y.dtype
            torch.testing.assert_close(x.detach().cpu(), y.detach().cpu(), rtol=1e-5, atol=1e-5)
        else:
            assert x == y


def load(name, **options):
    return torch.jit.load(io.BytesIO(FILES[f"{name}.pt"]), **options)


def saved(module, **options):
    buffer = io.BytesIO()
    torch.jit.save(module, buffer, **options)
    buffer.seek(0)
    return buffer


def run(module, name):
    known = torch.load(io.BytesIO(FILES[f"{name}.io"]))
    torch.manual_seed(5)
    for args, result in zip(known["calls"], known["results"], strict=True):
        check(module(*args), result)


@pytest.mark.parametrize("name", NAMES)
def test_archives_give_the_results_of_pytorch(name):
    run(load(name), name)


@pytest.mark.parametrize("name", NAMES)
def test_archives_that_were_read_are_written(name):
    run(torch.jit.load(saved(load(name))), name)


def test_archives_run_on_device_tpu():
    module = load("traced.residual", map_location="tpu")
    known = torch.load(io.BytesIO(FILES["traced.residual.io"]))
    assert next(module.parameters()).device.type == "tpu"
    check(module(known["calls"][0][0].to("tpu")), known["results"][0])


def test_modules_of_archives_are_modules():
    module = load("scripted.flow")
    assert isinstance(module, torch.jit.ScriptModule) and isinstance(module, nn.Module)
    assert module.original_name == "Scripted" and not module.training
    assert [name for name, _ in module.named_parameters()] == [
        "linear.weight",
        "linear.bias",
        "layers.0.weight",
        "layers.0.bias",
    ]
    assert list(module.state_dict())[0] == "calls"
    check(module.double(torch.ones(2, 2)), torch.full((2, 2), 2.0))
    with pytest.raises(ValueError, match="two dimensions"):
        module.double(torch.ones(2))
    assert "def forward(self" in module.code
    x = torch.ones(2, 4)
    module.train()
    module(x)[0].sum().backward()
    assert module.linear.weight.grad is not None
    other = copy.deepcopy(module)
    other.calls.zero_()
    assert module.calls.sum() > 0


def test_calls_are_checked():
    module = load("scripted.flow")
    with pytest.raises(RuntimeError, match=r"forward\(\) is missing value for argument 'x'"):
        module()
    with pytest.raises(RuntimeError, match="Unknown keyword argument 'other'"):
        module(torch.ones(2, 4), other=1)
    with pytest.raises(RuntimeError, match="AssertionError: two dimensions"):
        module(torch.ones(4))


# ---- hostile and damaged archives


def changed(name, change):
    """Return an archive with changed files."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(FILES[f"{name}.pt"])) as source, zipfile.ZipFile(made, "w") as target:
        for file in source.namelist():
            data = change(file.partition("/")[2], source.read(file))
            if data is not None:
                target.writestr(zipfile.ZipInfo(file), data)
    made.seek(0)
    return made


BODIES = [
    "__import__('os').system('true')",
    "open('x', 'w')",
    "torch.load('x')",
    "torch.hub.load('x', 'y')",
    "x.__class__",
    "x.numpy()",
    "x.__reduce__()",
    "getattr(x, '__class__')",
    "getattr(self, '__class__')",
    "(lambda: 1)()",
    "[i for i in x]",
    "ops.os.system('true')",
    "torch.save(x, 'x')",
    "torch.from_file('x')",
    "print(x)",
    "eval('1')",
    "self._program",
    "torch.numpy(x)",
]


@pytest.mark.parametrize("body", BODIES)
def test_code_reaches_operators_only(body, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def change(name, data):
        if name.endswith("export_programs.py"):
            text = data.decode()
            head, _, _ = text.partition("    return ") if "    return " in text else (text, "", "")
            start = head.index("-> Tensor:\n") + len("-> Tensor:\n")
            return (head[:start] + f"    return {body}\n").encode()
        return data

    archive = changed("traced.perceptron", change)
    with pytest.raises((RuntimeError, AttributeError, NotImplementedError)):
        torch.jit.load(archive)(torch.ones(2, 4))
    assert not list(tmp_path.iterdir())


def test_pickles_make_no_other_objects():
    def change(name, data):
        return b"\x80\x02cos\nsystem\n(X\x04\x00\x00\x00truetR." if name == "data.pkl" else data

    with pytest.raises(RuntimeError, match="os"):
        torch.jit.load(changed("traced.perceptron", change))


def test_damaged_archives_are_refused(tmp_path):
    data = FILES["traced.perceptron.pt"]
    for size in (0, 10, len(data) // 2, len(data) - 1):
        with pytest.raises(RuntimeError):
            torch.jit.load(io.BytesIO(data[:size]))

    def without_code(name, content):
        return None if name.startswith("code/") else content

    def bad_code(name, content):
        return b"class (" if name.endswith(".py") else content

    for change in (without_code, bad_code):
        with pytest.raises(RuntimeError):
            torch.jit.load(changed("traced.perceptron", change))
    buffer = io.BytesIO()
    torch.save({"a": torch.ones(2)}, buffer)
    buffer.seek(0)
    with pytest.raises(RuntimeError, match="constants.pkl"):
        torch.jit.load(buffer)
    with pytest.raises(ValueError, match="does not exist"):
        torch.jit.load(tmp_path / "missing.pt")


# ---- tracing


@pytest.mark.parametrize("name", TRACEABLE)
def test_traced_modules_do_what_modules_do(name):
    module, args, _, _ = PROGRAMS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        traced = torch.jit.trace(module, copy.deepcopy(args))
    torch.manual_seed(5)
    values = copy.deepcopy(args)
    expected = copy.deepcopy(module)(*values)
    again = torch.jit.load(saved(traced))
    for made in (again, copy.deepcopy(traced)):
        torch.manual_seed(5)
        others = copy.deepcopy(args)
        check(made(*others), expected)
        check(others, values)


def test_traced_modules_share_weights():
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    traced = torch.jit.trace(module, torch.ones(1, 3))
    assert traced.get_parameter("0.weight") is module[0].weight
    assert list(traced.state_dict()) == list(module.state_dict())
    assert "getattr(self, '0')" in traced.code
    check(traced(torch.ones(5, 3)), module(torch.ones(5, 3)))


def test_functions_are_traced():
    traced = torch.jit.trace(lambda x, y: (x + y, {"a": x.sum(), "b": y}), (torch.ones(2), torch.ones(2)))
    first, second = torch.jit.load(saved(traced))(torch.ones(2), torch.zeros(2))
    assert first.tolist() == [1.0, 1.0] and sorted(second) == ["a", "b"]


def test_sizes_that_the_code_asks_for_are_fixed():
    traced = torch.jit.trace(lambda x: x + 1 if x.shape[0] == 2 else x - 1, torch.zeros(2, 3))
    # The check of sizes is that of PyTorch: there is none.
    assert traced(torch.zeros(4, 3)).sum() == 12


def test_what_cannot_be_traced():
    with pytest.raises(RuntimeError, match="Could not guard on data-dependent expression"):
        torch.jit.trace(lambda x: x if x.sum() > 0 else -x, torch.ones(2))
    with pytest.raises(NotImplementedError, match="arguments must be tensors"):
        torch.jit.trace(lambda pair: pair[0], ((torch.ones(1), torch.ones(2)),))
    with pytest.raises(NotImplementedError, match="only modules of torch.jit.trace and torch.jit.load are written"):
        torch.jit.save(torch.jit.script(nn.ReLU()), io.BytesIO())


def test_tracing_is_known_while_it_runs():
    seen = []

    def function(x):
        seen.append(torch.jit.is_tracing())
        return x + 1

    torch.jit.trace(function, torch.ones(1), check_trace=False)
    assert all(seen) and not torch.jit.is_tracing()


def test_extra_files(tmp_path):
    path = tmp_path / "model.pt"
    torch.jit.trace(nn.ReLU(), torch.ones(1)).save(path, {"notes.txt": "text"})
    found = {"notes.txt": ""}
    torch.jit.load(path, _extra_files=found)
    assert found == {"notes.txt": b"text"}
