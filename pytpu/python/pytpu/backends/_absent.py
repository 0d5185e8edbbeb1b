"""Attributes that the modules of absent libraries share."""

import sys
import types
from contextlib import contextmanager


class Switches:
    """Attributes that can be set to a value of the type that they have. There are no others.

    `setters` has the names of functions for errors about booleans. A switch without a name takes pairs of booleans as
    well.
    """

    def __init__(self, setters, **values):
        self.__dict__.update(values)
        self.__dict__["_setters"] = setters

    def __getattr__(self, name):
        raise AttributeError(f"Unknown attribute {name}")

    def __setattr__(self, name, value):
        linked = getattr(type(self), name, None)
        if isinstance(linked, property):
            return linked.fset(self, value)
        if name not in self.__dict__:
            raise AttributeError(f"Unknown attribute {name}")
        if isinstance(self.__dict__[name], bool) and not isinstance(value, bool):
            setter = self._setters.get(name)
            if setter is not None:
                raise RuntimeError(f"{setter} expects a bool, but got {type(value).__name__}")
            if not isinstance(value, (tuple, list)) or not all(isinstance(v, bool) for v in value):
                raise TypeError(f"{name} expects a bool or a tuple/list of bools, but got {type(value)}")
            value = all(value)
        self.__dict__[name] = value


def linked(**properties):
    """The class of a module of switches.

    A switch may be a property: setting it then changes another setting as well.
    """
    return type("Switches", (Switches,), properties)


def is_available():
    return False


is_built = is_available


def check_booleans(module, properties=(), **setters):
    """Make a module's attributes take only booleans.

    Errors use the name of the setter. `properties` are linked to others.
    """

    class Checked(types.ModuleType):
        def __setattr__(self, name, value):
            if name in setters and not isinstance(value, bool):
                raise RuntimeError(f"{setters[name]} expects a bool, but got {type(value).__name__}")
            super().__setattr__(name, value)

    for name, linked_to in dict(properties).items():
        setattr(Checked, name, linked_to)
    sys.modules[module].__class__ = Checked


def setter(module, names):
    """Set the values that are not `None`, as `set_flags` of a module, and return the old ones."""

    def set_flags(*values):
        there = sys.modules[module]
        before = tuple(getattr(there, name) for name in names)
        for name, value in zip(names, values):
            if value is not None:
                setattr(there, name, value)
        return before

    return set_flags


@contextmanager
def during(set_flags, *values):
    """Context manager of flags."""
    before = set_flags(*values)
    try:
        yield
    finally:
        set_flags(*before)
