"""Names of PyTorch that are not there raise one sentence: what to use, and where to read."""

import importlib.util
import pathlib
import re

import pytest

import pytpu as torch
from pytpu import _not_there

ROOT = pathlib.Path(__file__).parents[3]
SAID = {
    "torch.vmap": "Write the function for a batch",
    "torch.func.vmap": "Write the function for a batch",
    "torch.export.draft_export": "torch.export.export, save and load have programs",
    "torch.jit.CompilationUnit": "torch.jit.trace, save and load have archives",
    "torch.onnx.InputObserver": r"torch\.onnx\.export writes models",
    "torch.fx.passes.reinplace": "torch.fx.symbolic_trace and",
    "torch.sparse_coo_tensor": "Use dense tensors",
    "torch.sparse.mm": "Use dense tensors",
    "torch.nested": "Pad the sequences",
    "torch.quantize_per_tensor": r"Convert weights with model.to\(torch.bfloat16\)",
    "torch.ao.quantization.quantize_dynamic": "Convert weights",
    "torch.quantization.quantize_dynamic": "Convert weights",
    "torch.hub.list": "Clone the repository",
    "torch.cuda.nccl": "Use torch.tpu",
    "torch.lobpcg": "docs/ops.md lists the functions",
    "torch.Tensor.crow_indices": "Use dense tensors",
    "torch.Tensor.q_scale": "Convert weights",
}


@pytest.mark.parametrize("path", SAID)
def test_an_absent_name_says_what_to_use(path):
    owner, _, name = path.rpartition(".")
    owner = eval(owner)
    assert not hasattr(owner, name)
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}': .*{SAID[path]}.* See docs/not-there\.md#"):
        getattr(owner, name)


def test_an_absent_method_says_the_same_of_an_object():
    with pytest.raises(
        AttributeError, match="'Tensor' object has no attribute 'dequantize': tensors and models are not"
    ):
        torch.ones(1).dequantize()


def test_imports_say_it_too():
    for code in ("import torch.export.experimental", "import torch.ao.quantization.quantize_fx"):
        with pytest.raises(ModuleNotFoundError, match=r"No module named 'torch\..*See docs/not-there\.md#"):
            exec(code)
    with pytest.raises(ImportError, match="cannot import name 'vmap' from 'torch': functions are not mapped"):
        exec("from torch import vmap")
    assert importlib.util.find_spec("torch.export.experimental") is None


def test_names_that_libraries_import_and_seldom_call_can_be_imported():
    space = {}
    exec("from torch.func import vmap\nfrom torch.ao.quantization import prepare", space)
    with pytest.raises(NotImplementedError, match=r"torch\.func\.vmap: functions are not mapped"):
        space["vmap"](torch.sin)


def test_names_that_pytorch_lacks_raise_plain_errors():
    for owner, name in ((torch, "nothing"), (torch.nn, "Nothing"), (torch.nn.functional, "nothing"), (torch, "_x")):
        with pytest.raises(AttributeError, match=rf"^module 'torch[\w.]*' has no attribute '{name}'$") as caught:
            getattr(owner, name)
        assert type(caught.value) is AttributeError
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'torch\.nothing'$"):
        importlib.import_module("torch.nothing")


def test_each_section_is_on_the_page():
    page = (ROOT / "docs" / "not-there.md").read_text()
    headings = {h.lower().replace(" ", "-") for h in re.findall(r"^## (.+)$", page, re.MULTILINE)}
    assert {section for _, _, section in _not_there._FAMILIES} | {"all-other-names"} == headings


def test_no_listed_name_is_there():
    there = []
    for module, names in _not_there._listed().items():
        owner = torch.Tensor if module == "Tensor" else None
        if owner is None:
            full = f"torch.{module}" if module else "torch"
            if not names:
                there += [full] if _is_module(full) else []
                continue
            owner = importlib.import_module(full)
        there += [f"{module}.{name}" for name in names if hasattr(owner, name)]
    assert there == [], "run tests/python/goldens/record_absent_names.py again"


def _is_module(full):
    try:
        return importlib.util.find_spec(full) is not None
    except ModuleNotFoundError:
        return False
