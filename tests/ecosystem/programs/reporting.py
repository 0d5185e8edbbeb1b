"""What every program of this folder shares: the device it is told, and the line of JSON that it ends in."""

import argparse
import json
import sys

import torch


def device():
    """Return the device that the option ``--device`` names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", choices=["cpu", "tpu"])
    return torch.device(parser.parse_args().device)


def check_on(module, device):
    """Raise AssertionError unless every parameter and buffer of ``module`` lies on ``device``."""
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        assert tensor.device.type == torch.device(device).type, f"{name} is on {tensor.device}, not on {device}"


def report(numbers, less_exact=None):
    """Print ``numbers`` as one line of JSON.

    Args:
        numbers: name to number (a Python number, or a tensor of one element). A name that starts with ``cpu.`` stands
            for a number that is compared on cpu only, because it depends on random draws that the library makes on its
            device.
        less_exact: name to ``(relative tolerance, reason)`` for numbers that do not agree to five significant digits.
    """
    numbers = {name: float(number) for name, number in numbers.items()}
    line = {"numbers": numbers, "less_exact": less_exact or {}, "torch": torch.__version__, "file": torch.__file__}
    sys.stdout.flush()
    print("\n" + json.dumps(line), flush=True)
