"""Short runs of the attacks in ``tests/attack``. ``make attack`` runs them for longer."""

import importlib.util
import pathlib
import sys

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "attack"


def load(name):
    """Import a program of ``tests/attack``."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_random_calls_neither_crash_nor_hang_nor_raise_internal_errors(device):
    calls, findings = load("random_calls").attack(8, seed=100, devices=[device])
    assert calls > 50
    assert findings == []


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
