"""What the modules of libraries that are not here share."""

from contextlib import contextmanager


class Switches:
    """Attributes that can be set."""

    def __init__(self, **values):
        self.__dict__.update(values)


def is_available():
    return False


is_built = is_available


def scope(names):
    """A context manager over the switches in `names`, a module's dictionary: they are set inside and as before outside."""

    @contextmanager
    def flags(**values):
        before = {name: names[name] for name in values if name in names}
        names.update(values)
        try:
            yield
        finally:
            names.update(before)

    return flags
