"""Fixtures of all Python tests."""

import multiprocessing
import os
import pathlib
import re
import shutil
import tempfile

import pytest

import pytpu as torch

# Tests start processes in other folders, so a relative path to the package would not be found there.
if "PYTHONPATH" in os.environ:
    _PATHS = os.environ["PYTHONPATH"].split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) if path else path for path in _PATHS)
# Tests count compiled programs, so nothing may be interpreted. The interpreter is tested in
# `tpu/test_interpret.py`. The variable is read when device "tpu" is first used.
os.environ.setdefault("TORCHTPU_INTERPRET", "0")
# Tests of accelerators run on XLA:CPU.
os.environ.setdefault("TORCHTPU_STANDIN_IS_ACCELERATOR", "1")

# A program that an earlier run left on disk is not compiled, so tests that count programs would depend on that run.
_CACHE = tempfile.mkdtemp(prefix="torchtpu-tests-")
os.environ.setdefault("TORCHTPU_CACHE_DIR", _CACHE)


@pytest.fixture(params=["cpu", "tpu"])
def device(request):
    """Run the test on both devices."""
    return request.param


@pytest.fixture(autouse=True)
def seed():
    """Seed the default generator, so that the order of tests does not matter."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def told_errors():
    """Ask for the errors of values that a test left unread, so that no later test is told of them."""
    yield
    for _ in range(1000):
        if not torch.tpu.is_initialized():
            return
        try:
            torch.tpu.synchronize()
            return
        except (IndexError, RuntimeError, ValueError):
            continue


def pytest_sessionfinish():
    """End the processes that failed tests left, and forget compiled programs.

    At its exit, Python waits for processes without a limit.
    """
    for process in multiprocessing.active_children():
        process.kill()
    shutil.rmtree(_CACHE, ignore_errors=True)


@pytest.fixture
def close():
    """Return a function that compares a tensor with a NumPy array."""
    import numpy as np

    def compare(got, want, rtol=1e-5, atol=1e-6):
        got = got.detach().cpu().numpy() if isinstance(got, torch.Tensor) else np.asarray(got)
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)

    return compare


@pytest.fixture
def run_tutorial():
    """Return a function that runs the Python blocks of a document in `docs` and returns their names."""

    def run(document, at_least):
        text = (pathlib.Path(__file__).resolve().parents[2] / "docs" / document).read_text()
        blocks = re.findall(r"```python\n(.*?)```", text, re.S)
        assert len(blocks) >= at_least
        names = {}
        for block in blocks:
            exec(compile(block, f"docs/{document}", "exec"), names)
        return names

    return run


@pytest.fixture
def default_precision():
    """Set how precisely `float32` is multiplied back to the default after the test."""
    from pytpu.backends import _precision

    yield
    _precision._said.clear()
    _precision._legacy, _precision._cudnn_allowed = "highest", True
    torch._C._tpu_set_matmul_precision(0)
