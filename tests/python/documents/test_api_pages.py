"""The pages of the reference: each class stands where its users look for it."""

import importlib.util
import pathlib

import pytest

FILE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "api_pages.py"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("api_pages", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = tmp_path_factory.mktemp("api")
    module.write(folder)
    return {page.stem: page.read_text() for page in folder.iterdir()}


def documented(text):
    return {line.split(":: ")[1] for line in text.splitlines() if line.startswith(".. auto")}


@pytest.mark.parametrize("name", ["torch.Tensor", "torch.Size", "torch.nn.Module", "torch.optim.Optimizer"])
def test_central_classes_have_pages_of_their_own(pages, name):
    own = name.replace("torch", "pytpu", 1)
    assert documented(pages[name]) == {own}
    last = name.rpartition(".")[2]
    assert [page for page, text in pages.items() if last in {d.rpartition(".")[2] for d in documented(text)}] == [name]


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("torch.nn", "Linear"), ("torch.nn.functional", "relu"), ("torch.nn.init", "xavier_uniform_"),
        ("torch.linalg", "cholesky"), ("torch.special", "erfcx"), ("torch.fft", "rfft"), ("torch", "matmul"),
        ("torch.optim", "AdamW"), ("torch.optim.lr_scheduler", "StepLR"), ("torch.utils.data", "DataLoader"),
    ],
)  # fmt: skip
def test_names_stand_on_the_pages_of_their_modules(pages, page, name):
    assert f"{page.replace('torch', 'pytpu', 1)}.{name}" in documented(pages[page])
