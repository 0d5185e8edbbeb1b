"""Random number generators."""

from . import _C

default_generator = _C.default_generator


def manual_seed(seed):
    """Seeds the generators of all devices."""
    seed = int(seed)
    if seed < 0:
        seed += 2**64
    return default_generator.manual_seed(seed)


def seed():
    """Seeds the generators with a number that is not deterministic, and returns it."""
    return default_generator.seed()


def initial_seed():
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state():
    """The state of the default generator, a tensor of bytes."""
    return default_generator.get_state()


def set_rng_state(state):
    """Sets the state of the default generator."""
    default_generator.set_state(state)


class fork_rng:
    """Restores the state of the generator at the end of the block."""

    def __init__(self, devices=None, enabled=True, **_):
        self._enabled = enabled

    def __enter__(self):
        if self._enabled:
            self._state = get_rng_state()

    def __exit__(self, *_):
        if self._enabled:
            set_rng_state(self._state)
