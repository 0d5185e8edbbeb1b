"""Modules, classes and functions have PyTorch's names, so that each library reads the other's pickles."""

import copy
import importlib
import inspect
import io
import json
import pathlib
import pickle
import pickletools
import subprocess
import sys

import pytest

import pytpu as torch
from pytpu import nn

HOMES = json.loads((pathlib.Path(__file__).parents[1] / "goldens" / "names.json").read_text())

# Names of the extension that differ: one object for two of PyTorch, or a name that only Rust can set.
BY_THE_EXTENSION = {
    "torch": {"Future", "PyTorchFileReader", "to_dlpack", "TensorType"},
    "torch.linalg": {"LinAlgError", "multi_dot"},
}
# Names whose qualified name in PyTorch is that of a wrapper, deprecated names, and classes that replace others.
OTHERWISE = {
    "torch": {
        "ScriptFunction",
        "ScriptModule",
        "lu",
        "sym_sqrt",
        "symeig",
        "unique",
        "unique_consecutive",
        "stft",
        "Storage",
    },
    "torch.accelerator": {"current_device_idx", "set_device_idx"},
    "torch.autograd": {"Variable", "is_multithreading_enabled"},
    "torch.autograd.variable": {"Variable"},
    "torch.functional": {"lu", "unique", "unique_consecutive", "stft"},
    "torch.jit": {"RecursiveScriptModule", "ScriptFunction", "ScriptModule", "TopLevelTracedModule", "TracedModule"},
    "torch.nn.attention": {"SDPBackend"},
    "torch.nn.attention.flex_attention": {"FlexKernelOptions"},
    "torch.quantization": {
        "convert",
        "fuse_modules",
        "get_default_qat_qconfig",
        "get_default_qconfig",
        "prepare",
        "prepare_qat",
        "quantize",
        "quantize_dynamic",
        "quantize_qat",
        "swap_module",
    },
    "torch.storage": {"Storage"},
    "torch.utils.dlpack": {"to_dlpack"},
    "torch.overrides": {"has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"},
}


def differing(root):
    """Return the public names of a package whose home is not PyTorch's."""
    wrong = []
    for module, names in HOMES.items():
        full = f"torch.{module}" if module else "torch"
        there = importlib.import_module(root + full[5:])
        for name, home in names.items():
            value = inspect.getattr_static(there, name, None) or getattr(there, name, None)
            if value is None or not hasattr(value, "__qualname__") or not hasattr(value, "__module__"):
                continue
            got = f"{value.__module__}.{value.__qualname__}"
            want = home or f"{full}.{name}"
            # PyTorch's functions in C++ are members of classes.
            want = want.replace("_VariableFunctionsClass.", "").replace("boolean_dispatch.<locals>.fn", name)
            if got != want and "<locals>" not in want and "pybind11" not in want:
                wrong.append((full, name, got, want))
    return wrong


def is_known(full, name):
    return any(name in table.get(full, ()) for table in (BY_THE_EXTENSION, OTHERWISE))


def test_public_names_say_the_module_that_they_have_in_pytorch():
    wrong = [line for line in differing("pytpu") if not is_known(line[0], line[1])]
    assert wrong == []


def test_every_class_is_found_under_its_qualified_name():
    # In a fresh process: all modules are imported.
    code = """
import importlib, pkgutil, warnings
warnings.simplefilter("ignore")
import pytpu
for found in pkgutil.walk_packages(pytpu.__path__, "pytpu."):
    if "_shim" in found.name or found.name.endswith(("__main__", "tensorboard")) or "tensorboard" in found.name:
        continue
    module = importlib.import_module(found.name)
    for value in list(vars(module).values()):
        own = getattr(value, "__module__", None)
        if not isinstance(value, type) or not isinstance(own, str) or "<locals>" in value.__qualname__:
            continue
        if own.startswith(("torch", "pytpu")):
            there = importlib.import_module(own)
            for part in value.__qualname__.split("."):
                there = getattr(there, part, None)
            if there is not value and value.__name__ != "PackedSequence":
                print(own, value.__qualname__)
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == ""


def test_modules_are_called_torch():
    assert (
        torch.__name__ == "torch"
        and torch.nn.__name__ == "torch.nn"
        and torch.optim.lr_scheduler.__name__ == "torch.optim.lr_scheduler"
    )
    assert sys.modules["torch.nn"] is sys.modules["pytpu.nn"] is nn
    for wrong, text in (
        ("torch.nn", "module 'torch.nn' has no attribute 'missing'"),
        ("torch.utils", "module 'torch.utils' has no"),
    ):
        with pytest.raises(AttributeError, match=text):
            importlib.import_module(wrong).missing
    with pytest.raises(ImportError, match="cannot import name 'missing' from 'torch.nn'"):
        exec("from torch.nn import missing")
    with pytest.raises(ModuleNotFoundError, match="No module named 'torch.missing'"):
        importlib.import_module("torch.missing")


def test_the_same_module_under_both_names():
    import torch as second
    import torch.nn.functional as F
    from torch.nn.modules.linear import Linear

    assert second is torch and F is nn.functional and Linear is nn.Linear
    assert torch.nn.__spec__.name == "pytpu.nn" and torch.nn.__package__ == "pytpu.nn"
    assert importlib.util.find_spec("torch.nn.functional") and importlib.util.find_spec("torch.missing") is None
    assert torch.torch is torch


def test_submodules_without_a_file_can_be_imported():
    from torch.cuda.memory import memory_allocated
    from torch.profiler.profiler import profile
    from torch.utils.benchmark.utils.timer import Timer

    assert profile is torch.profiler.profile and Timer is torch.utils.benchmark.Timer and memory_allocated() == 0


def test_source_and_modules_are_found():
    for cls in (nn.Linear, torch.no_grad, torch.optim.AdamW, torch.profiler.profile, torch.utils.benchmark.Timer):
        assert inspect.getsource(cls).startswith("class ")
        assert inspect.getmodule(cls) is not None
    assert inspect.getsource(nn.functional.relu)
    assert importlib.reload(importlib.import_module("pytpu.nn.init")).__name__ == "torch.nn.init"


def test_a_failing_import_leaves_no_half_module(tmp_path, monkeypatch):
    (tmp_path / "wrong.py").write_text("value = 1\nraise KeyError('wrong')\n")
    monkeypatch.setattr(torch.utils, "__path__", [*torch.utils.__path__, str(tmp_path)])
    for _ in range(2):
        with pytest.raises(KeyError):
            importlib.import_module("torch.utils.wrong")
    assert "torch.utils.wrong" not in sys.modules and "pytpu.utils.wrong" not in sys.modules


def _globals(data):
    """Return the names that a pickle of protocol 2 uses."""
    return {argument for code, argument, _ in pickletools.genops(data) if code.name == "GLOBAL"}


def _objects():
    torch.manual_seed(0)
    yield from (torch.relu, nn.functional.gelu, nn.functional.relu, torch.special.entr, torch.fft.fft, torch.linalg.inv)
    yield from (
        torch.Tensor,
        torch.float32,
        torch.strided,
        torch.device("cpu"),
        torch.Size([2, 3]),
        torch.no_grad,
        torch.einsum,
    )
    yield from (torch.return_types.max, nn.Linear, torch.optim.SGD, torch.testing.assert_close, torch.profiler.profile)


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_classes_functions_and_constants_are_pickled_by_name(protocol):
    for value in _objects():
        assert pickle.loads(pickle.dumps(value, protocol)) == value
        assert copy.deepcopy(value) == value
        assert not any("pytpu" in name for name in _globals(pickle.dumps(value, 2)))


def test_a_pickled_model_names_only_what_pytorch_has(device):
    model = nn.Sequential(
        nn.Linear(2, 3), nn.Flatten(), nn.BatchNorm1d(3), nn.LSTM(3, 4), nn.InstanceNorm2d(2, affine=True)
    ).to(device)
    data = pickle.dumps(model, 2)
    assert all(
        name.partition(" ")[0].partition(".")[0] in ("torch", "collections", "_codecs", "__builtin__")
        for name in _globals(data)
    )
    assert "torch.nn.modules.flatten Flatten" in _globals(data) and "torch._utils _rebuild_parameter" in _globals(data)
    again = pickle.loads(data)
    for (name, x), y in zip(model.state_dict().items(), again.state_dict().values()):
        assert torch.equal(x, y) and x.device == y.device, name


def test_pickled_tensors_keep_their_class_and_flags(device):
    x = torch.arange(12.0, device=device).reshape(3, 4)
    for y in (x, x.t(), x[1:], x[:, 1], x.bool(), x.half(), x.bfloat16(), torch.empty(0, 3, device=device), x.sum()):
        z = pickle.loads(pickle.dumps(y))
        assert torch.equal(y, z) and z.dtype == y.dtype and z.device == y.device
        if device == "cpu":
            assert z.stride() == y.stride() and z.storage_offset() == y.storage_offset()
    leaf = torch.ones(2, device=device, requires_grad=True)
    assert pickle.loads(pickle.dumps(leaf)).requires_grad
    leaf.tag = "kept"
    assert pickle.loads(pickle.dumps(leaf)).tag == "kept"
    complex_ = torch.view_as_complex(torch.ones(2, 2)).conj()
    assert torch.equal(pickle.loads(pickle.dumps(complex_)), complex_)
    meta = pickle.loads(pickle.dumps(torch.empty(2, 3, device="meta")))
    assert meta.is_meta and meta.shape == (2, 3)


# Written by PyTorch 2.15.0: pickle.dumps([torch.view_as_complex(torch.tensor([[1., 2.]])).conj(),
# torch.ones(2)._neg_view()], 2)
CONJUGATED = (pathlib.Path(__file__).parents[1] / "goldens" / "conjugated.pickle").read_bytes()
# Written by PyTorch 2.15.0, see ``record_pickle.py``.
MODEL = (pathlib.Path(__file__).parents[1] / "goldens" / "model.pickle").read_bytes()


def test_pickles_of_pytorch_are_read():
    x, y = pickle.loads(CONJUGATED)
    assert x.tolist() == [1 - 2j] and y.tolist() == [-1.0, -1.0]
    loaded = pickle.loads(MODEL)
    model, optimizer, out = loaded["model"], loaded["optimizer"], loaded["out"]
    assert isinstance(model, nn.Sequential) and isinstance(optimizer, torch.optim.AdamW)
    assert torch.equal(loaded["function"](torch.tensor([-1.0, 1.0])), torch.tensor([0.0, 1.0]))
    torch.testing.assert_close(model(loaded["x"]), out)
    assert optimizer.state_dict()["state"][0]["step"] == 1


def test_a_process_that_imported_pytpu_reads_pickles_by_torchs_names(tmp_path):
    path = tmp_path / "model.pickle"
    path.write_bytes(pickle.dumps(nn.Linear(2, 2)))
    code = f"import pytpu, pickle; print(type(pickle.load(open({str(path)!r}, 'rb'))))"
    assert (
        subprocess.check_output([sys.executable, "-c", code], text=True) == "<class 'torch.nn.modules.linear.Linear'>\n"
    )


def test_torch_save_names_moved_classes_as_pytorch_does():
    file = io.BytesIO()
    torch.save(nn.Sequential(nn.Flatten(), nn.PixelShuffle(2)), file)
    data = file.getvalue()
    assert b"torch.nn.modules.flatten\nFlatten" in data and b"torch.nn.modules.pixelshuffle\nPixelShuffle" in data
    file.seek(0)
    assert isinstance(torch.load(file, weights_only=False)[0], nn.Flatten)


# ---- functions of the extension


def test_functions_of_special_and_linalg_are_their_own():
    pairs = [
        ("erf", "erf"),
        ("expit", "sigmoid"),
        ("psi", "digamma"),
        ("digamma", "digamma"),
        ("round", "round"),
        ("softmax", "softmax"),
    ]
    for name, of_torch in pairs:
        f = getattr(torch.special, name)
        assert (
            f is not getattr(torch, of_torch)
            and f.__name__ == f"special_{name}"
            and f.__module__ == "torch._C._special"
        )
    assert torch.special.psi is not torch.special.digamma and torch.linalg.matmul is not torch.matmul
    x = torch.tensor([0.25, 0.5])
    assert torch.equal(torch.special.expit(x), torch.sigmoid(x)) and torch.equal(
        torch.special.round(x, decimals=1), torch.round(x, decimals=1)
    )
    assert torch.linalg.matmul(x, x) == torch.matmul(x, x)


def test_named_objects_of_the_extension():
    assert torch.is_tensor.__name__ == torch.is_tensor.__qualname__ == "is_tensor"
    assert torch.Generator.__module__ == "torch._C" and repr(torch.Generator()).startswith(
        "<torch._C.Generator object at 0x"
    )
    x = torch.ones(2)
    assert torch.fill_.__name__ == "fill_" and torch.zero_(torch.fill_(x, 2)) is x and x.sum() == 0


def test_operators_are_copied_and_pickled_as_themselves():
    for op in (torch.ops.aten.add, torch.ops.aten.add.Tensor, torch.ops.aten.special_erf.default):
        assert copy.copy(op) is copy.deepcopy(op) is pickle.loads(pickle.dumps(op)) is op
