"""Functions that the modules of absent accelerators share. They answer scripts that ask."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def is_initialized() -> bool:
    return False


def manual_seed(seed: int) -> None:
    """Do nothing: there are no generators to seed."""


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Do nothing: there is no memory to free."""


def no_memory(device: Any = None) -> int:
    """Bytes that were allocated: none."""
    return 0


def absent_class(name, why="it is not part of this package", base=object):
    """Make a class that can be imported, inherited from, and used in annotations and `isinstance`.

    Making an instance raises an error.

    Args:
        name: the full name, `torch.fx.Tracer`.
        why: the end of the error's text.
        base: the class that it inherits from.
    """
    module, _, last = name.rpartition(".")

    def refuse(self, *args, **kwargs):
        raise NotImplementedError(f"{name}: {why}")

    body = {
        "__module__": module,
        "__init__": refuse,
        "__doc__": f"A name only. Raises `NotImplementedError` when it is made: {why}.",
    }
    return type(last, (base,), body)


def absent_function(name, why="it is not part of this package"):
    """Make a function that can be imported. A call raises `NotImplementedError` with the full name."""
    module, _, last = name.rpartition(".")

    def refuse(*args, **kwargs):
        raise NotImplementedError(f"{name}: {why}")

    refuse.__module__, refuse.__name__, refuse.__qualname__ = module, last, last
    refuse.__doc__ = f"A name only. Raises `NotImplementedError`: {why}."
    return refuse


class AbsentMember:
    """A method that PyTorch's tensors have and this package lacks. Reading it raises an error that says what to use."""

    def __init__(self, name):
        self.name = name

    def __get__(self, instance, owner=None):
        from ._not_there import AbsentNameError, sentence

        start = "type object 'Tensor'" if instance is None else "'Tensor' object"
        text = sentence(f"Tensor.{self.name}")
        raise AbsentNameError(f"{start} has no attribute '{self.name}'{text and ': ' + text or ''}")
