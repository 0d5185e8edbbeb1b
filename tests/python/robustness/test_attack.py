"""Short runs of the attacks in ``tests/attack``. ``make attack`` runs them for longer."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest
from patience import HANG_SECONDS

FOLDER = pathlib.Path(__file__).parents[2] / "attack"


def load(name):
    """Import a program of ``tests/attack``."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def interpreted(monkeypatch):
    """Let programs run op by op at first, as users' programs do. The other tests compile each one."""
    monkeypatch.delenv("TORCHTPU_INTERPRET", raising=False)


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_random_calls_neither_crash_nor_hang_nor_raise_internal_errors(device):
    calls, findings = load("random_calls").attack(8, seed=100, devices=[device])
    assert calls > 50
    assert findings == []


def test_calls_on_mixed_devices_raise_or_are_right(interpreted):
    calls, findings = load("random_calls").attack(8, seed=200, devices=["mixed"])
    assert calls > 50
    assert findings == []


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_stored_programs_have_the_values_and_gradients_of_pytorch(device, interpreted):
    programs = load("programs")
    compared, findings = programs.attack_stored(device)
    assert compared > 300
    assert [programs.show(finding) for finding in findings] == []


def test_compiled_programs_have_the_values_and_gradients_of_pytorch():
    programs = load("programs")
    how = {"TORCHTPU_INTERPRET": "0"}
    compared, findings = programs.attack_stored("tpu", slice(5, None, 80), worker_environment=how)
    assert compared >= 4
    assert [programs.show(finding) for finding in findings] == []


def test_mistakes_of_newcomers_raise_what_pytorch_raises(interpreted):
    command = [sys.executable, FOLDER / "mistakes.py"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, env=dict(os.environ))
    assert run.returncode == 0, run.stdout + run.stderr


def test_silent_connections_and_late_ranks_hold_no_rank_up():
    assert load("silent_connections").attack() == []


def test_threads_that_train_at_once_get_the_results_of_one_alone():
    trainings, wrong = load("training_threads").attack(5)
    assert trainings >= 16
    assert wrong == []


def test_processes_that_share_a_cache_and_are_killed_leave_it_whole():
    processes, wrong = load("shared_cache").attack(8)
    assert processes > 20
    assert wrong == []


def test_interrupts_at_random_moments_leave_a_process_that_works():
    wrong, _ = load("interrupts").attack(6)
    assert wrong == []


def test_all_numbers_of_16_bits_give_what_float64_gives():
    patterns = load("bit_patterns")
    functions = patterns.functions()
    assert len(functions) > 100
    wrong = [
        text
        for name, function in functions.items()
        for dtype in patterns.DTYPES.values()
        for text in patterns.check(name, function, dtype, "cpu", step=3)
    ]
    assert wrong == []
