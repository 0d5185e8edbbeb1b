"""The example's network on real digits: the same losses on both devices, from the same seed."""

import importlib.util
import pathlib

import pytest

import pytpu as torch
from pytpu.nn import functional as F
from pytpu.utils.data import DataLoader

pytest.importorskip("sklearn")
PATH = pathlib.Path(__file__).resolve().parents[3] / "examples" / "digits.py"
SPEC = importlib.util.spec_from_file_location("digits", PATH)
digits = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(digits)


def losses(device, steps=50):
    """Return the losses of the first steps."""
    torch.manual_seed(0)
    train, _ = digits.datasets()
    model = digits.Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    out = []
    while len(out) < steps:
        for images, labels in DataLoader(train, batch_size=64, shuffle=True, drop_last=True):
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            out.append(loss.detach())
            if len(out) == steps:
                break
    return [float(loss) for loss in out]


def test_losses_agree_between_devices_and_fall():
    on_cpu, on_tpu = losses("cpu"), losses("tpu")
    assert max(abs(a - b) for a, b in zip(on_cpu, on_tpu)) < 1e-3
    assert on_cpu[-1] < 0.5 * on_cpu[0]
