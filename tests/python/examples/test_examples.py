"""The larger examples, step by step against PyTorch.

`goldens/*.json` hold the losses of the same functions under PyTorch 2.15 on a CPU: this file run as a script, where
`import pytpu` gives PyTorch, writes them. Random streams agree, so both start from the same parameters and batches.
"""

import importlib.util
import json
import pathlib

import pytest

import pytpu as torch

HERE = pathlib.Path(__file__).resolve().parents[1]
ROOT = HERE.parents[1]


def example(name):
    """Import an example."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def char_gpt_losses(device, steps=50):
    """A small GPT on the text of a licence, in single precision."""
    gpt = example("char_gpt")
    torch.manual_seed(0)
    text = (ROOT / "LICENSE-APACHE").read_text(encoding="utf-8")
    letters = sorted(set(text))
    data = torch.tensor([letters.index(c) for c in text])
    model = gpt.GPT(len(letters), block=32, layers=3, heads=4, width=64, dropout=0.1).to(device)
    optimizer = gpt.optimizer_for(model, 1e-3)
    losses = []
    gpt.train(
        model,
        data,
        optimizer,
        gpt.schedule_for(optimizer, steps),
        steps,
        16,
        device,
        lambda _, loss: losses.append(loss),
    )
    return [float(loss) for loss in losses]


def resnet_losses(device, steps=25):
    """ResNet-18 on small digits, in double precision.

    In single precision, a rounding error in one weight changes the losses by a third within 25 steps, also in PyTorch.
    """
    resnet = example("resnet")
    torch.manual_seed(0)
    training, _ = resnet.datasets(32)
    loader = resnet.DataLoader(training, batch_size=16, shuffle=True, drop_last=True)
    model = resnet.ResNet18(10).double().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=2e-3, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    batches = ((images.double(), labels) for images, labels in loader)
    losses = []
    for loss in resnet.train(model, batches, optimizer, schedule, device):
        losses.append(loss)
        if len(losses) == steps:
            break
    return [float(loss) for loss in losses]


def worst(losses, name):
    """Return the largest difference from PyTorch's losses."""
    golden = json.loads((HERE / "goldens" / f"{name}.json").read_text())
    assert len(losses) == len(golden) and golden[-1] < 0.8 * golden[0]
    return max(abs(a - b) for a, b in zip(losses, golden))


def test_char_gpt_has_the_losses_of_pytorch():
    assert worst(char_gpt_losses("cpu"), "char_gpt") < 1e-3


def test_resnet_has_the_losses_of_pytorch():
    pytest.importorskip("sklearn")
    assert worst(resnet_losses("cpu"), "resnet") < 1e-3


if __name__ == "__main__":
    for name, losses in (("char_gpt", char_gpt_losses("cpu")), ("resnet", resnet_losses("cpu"))):
        (HERE / "goldens" / f"{name}.json").write_text(json.dumps(losses, indent=0) + "\n")
