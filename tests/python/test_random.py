"""State of random generators: saved, restored, separate for each device."""

import pytest

import pytpu as torch
import pytpu.nn as nn


def _state(device):
    return torch.tpu.get_rng_state() if device == "tpu" else torch.get_rng_state()


def _restore(device, state):
    (torch.tpu.set_rng_state if device == "tpu" else torch.set_rng_state)(state)


def test_a_restored_state_repeats_the_numbers(device):
    torch.rand(3, device=device)
    state = _state(device)
    first = torch.randn(5, device=device), torch.rand(3, device=device)
    _restore(device, state)
    assert torch.equal(first[0], torch.randn(5, device=device))
    assert torch.equal(first[1], torch.rand(3, device=device))


def test_states_of_all_tpus_are_restored_together():
    states = torch.tpu.get_rng_state_all()
    assert len(states) == torch.tpu.device_count()
    assert all(s.dtype == torch.uint8 and s.device.type == "cpu" for s in states)
    x = torch.rand(3, device="tpu")
    torch.tpu.set_rng_state_all(states)
    assert torch.equal(x, torch.rand(3, device="tpu"))


def test_seeding_the_tpu_leaves_the_cpu_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    torch.tpu.manual_seed(9)
    assert torch.equal(torch.rand(3), expected)
    assert torch.tpu.initial_seed() == 9 and torch.initial_seed() == 1
    x = torch.rand(3, device="tpu")
    torch.tpu.manual_seed_all(9)
    assert torch.equal(x, torch.rand(3, device="tpu"))


def test_random_seeds_differ():
    torch.tpu.seed()
    first = torch.tpu.initial_seed()
    torch.tpu.seed_all()
    assert torch.tpu.initial_seed() != first


def test_fork_rng_restores_the_devices_it_names():
    state = torch.tpu.get_rng_state()
    with torch.random.fork_rng(devices=[0], device_type="tpu"):
        x, y = torch.rand(3, device="tpu"), torch.rand(3)
    assert torch.equal(torch.tpu.get_rng_state(), state)
    assert torch.equal(x, torch.rand(3, device="tpu")) and torch.equal(y, torch.rand(3))
    with torch.random.fork_rng(devices=["tpu"], device_type="tpu", enabled=False):
        x = torch.rand(3, device="tpu")
    assert not torch.equal(x, torch.rand(3, device="tpu"))


def test_fork_rng_restores_the_cpu_after_an_error():
    state = torch.get_rng_state()
    with pytest.raises(KeyError), torch.random.fork_rng():
        torch.rand(3)
        raise KeyError
    assert torch.equal(torch.get_rng_state(), state)


def test_unknown_devices_are_refused():
    with pytest.raises(RuntimeError, match="invalid device ordinal 200"):
        torch.tpu.get_rng_state(200)
    with pytest.raises(ValueError, match="Expected a tpu device"):
        torch.tpu.get_rng_state("cpu")


class _Trial:
    """Train with dropout. The run can be saved and continued."""

    def __init__(self, device):
        self.device = device
        self.model = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5), nn.Linear(16, 1)).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)

    def steps(self, n):
        for _ in range(n):
            x = torch.randn(8, 4, device=self.device)
            loss = self.model(x).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return [p.detach().cpu() for p in self.model.parameters()]

    def save(self):
        import io

        file = io.BytesIO()
        torch.save([self.model.state_dict(), self.optimizer.state_dict(), _state(self.device)], file)
        file.seek(0)
        return file

    def load(self, file):
        model, optimizer, state = torch.load(file, map_location="cpu")
        self.model.load_state_dict(model)
        self.optimizer.load_state_dict(optimizer)
        _restore(self.device, state)


def test_training_with_dropout_resumes_bit_for_bit(device):
    trial = _Trial(device)
    trial.steps(3)
    file = trial.save()
    expected = trial.steps(3)
    torch.manual_seed(77)
    resumed = _Trial(device)
    resumed.load(file)
    for a, b in zip(resumed.steps(3), expected):
        assert torch.equal(a, b)
