"""Random number generators."""

import contextlib
import copyreg

from . import _C

default_generator = _C.default_generator


def _rebuilt(device, seed, state):
    return _C.Generator(device).manual_seed(seed).set_state(state)


def _clone_state(self):
    """A generator that goes on as this one does."""
    return _rebuilt(self.device, self.initial_seed(), self.get_state())


# Copies and pickles hold the seed and the state.
copyreg.pickle(_C.Generator, lambda g: (_rebuilt, (str(g.device), g.initial_seed(), g.get_state())))
_C.Generator.clone_state = _clone_state


def manual_seed(seed):
    """Seeds the generators of all devices."""
    seed = int(seed)
    if seed < -(2**63):
        raise ValueError("Overflow when unpacking long long")
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


def set_rng_state(new_state):
    """Sets the state of the default generator."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, **_):
    """Restores the state of the generator at the end of the block, or of the decorated function."""
    state = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state)
