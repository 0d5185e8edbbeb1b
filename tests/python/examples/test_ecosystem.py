"""The six quick libraries of `make ecosystem`: each trains a model and computes PyTorch's numbers."""

import pathlib
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "ecosystem"
sys.path.insert(0, str(FOLDER))
import libraries  # noqa: E402
import run  # noqa: E402

sys.path.remove(str(FOLDER))


@pytest.fixture(scope="module")
def python():
    """Return the Python of an environment that has the quick libraries and lacks PyTorch."""
    return run.prepare(run.ROOT / ".ecosystem", libraries.requirements(libraries.QUICK))


@pytest.mark.parametrize("name", libraries.QUICK)
def test_a_library_computes_the_same_numbers_as_on_pytorch(python, name):
    error, _ = run.run(python, name, "cpu")
    assert error is None, error


def test_every_program_has_recorded_numbers_and_catches_no_errors():
    programs = {path.stem.removeprefix("use_") for path in (FOLDER / "programs").glob("*_*.py")}
    records = {path.stem for path in (FOLDER / "expected").glob("*.json")}
    assert programs == records == set(libraries.LIBRARIES)
    assert [name for name in programs if run.catches(libraries.program(name))] == []


def test_the_runner_notices_wrong_missing_and_extra_numbers():
    wanted = {"numbers": {"loss": 2.0, "cpu.draw": 1.0}, "less_exact": {}}
    assert run.compare({"numbers": {"loss": 2.00001, "cpu.draw": 1.0}}, wanted, "cpu") is None
    assert "torch computes 2" in run.compare({"numbers": {"loss": 2.0001, "cpu.draw": 1.0}}, wanted, "cpu")
    assert "loss is nan" in run.compare({"numbers": {"loss": float("nan"), "cpu.draw": 1.0}}, wanted, "cpu")
    assert run.compare({"numbers": {"loss": 2.0}}, wanted, "cpu") == "cpu.draw is missing"
    assert run.compare({"numbers": {"loss": 2.0}}, wanted, "tpu") is None
    assert run.compare({"numbers": {"loss": 2.0, "cpu.draw": 9.0}}, wanted, "tpu") is None
    assert (
        run.compare({"numbers": {"loss": 2.0, "cpu.draw": 1.0, "new": 1.0}}, wanted, "cpu") == "new was never recorded"
    )


def test_the_runner_finds_programs_that_catch_errors(tmp_path):
    program = tmp_path / "use_it.py"
    program.write_text("x = 1\ntry:\n    x()\nexcept TypeError:\n    pass\n")
    assert run.catches(program) == [2]
    program.write_text("import contextlib\nwith contextlib.suppress(TypeError):\n    1()\n")
    assert run.catches(program) == [2]
