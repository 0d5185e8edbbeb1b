"""The README's Python example runs as it stands, on both devices."""

import pathlib
import re
import textwrap

README = pathlib.Path(__file__).resolve().parents[3] / "README.md"


def example():
    """Return the README's first Python block."""
    block = re.search(r"^ *```python\n(.*?)^ *```", README.read_text(), re.M | re.S)
    return textwrap.dedent(block.group(1))


def test_the_example_runs_on_tpu():
    names = {}
    exec(compile(example(), "README.md", "exec"), names)
    assert names["loss"].device.type == "tpu"
    assert names["model"].weight.grad is not None


def test_the_example_runs_after_its_device_string_is_changed():
    names = {}
    exec(compile(example().replace('"tpu"', '"cpu"'), "README.md", "exec"), names)
    assert names["loss"].device.type == "cpu"
