"""`torch.fx.experimental.symbolic_shapes`: sizes are plain numbers here, so every question has an answer."""


class GuardOnDataDependentSymNode(RuntimeError):
    """The course of a program depends on the elements of its inputs, so that it has no graph."""


class ConstraintViolationError(RuntimeError):
    """An example has other sizes than its description states."""


def guard_int(a):
    """Return the number."""
    return int(a)


def guard_bool(a):
    """Return the truth value."""
    return bool(a)


def guard_or_false(a):
    """Return the truth value."""
    return bool(a)


def guard_or_true(a):
    """Return the truth value."""
    return bool(a)


def guard_size_oblivious(expr):
    """Return the truth value."""
    return bool(expr)


def definitely_true(a):
    """Return the truth value."""
    return bool(a)


def definitely_false(a):
    """Return the opposite of the truth value."""
    return not a


def statically_known_true(x):
    """Return the truth value."""
    return bool(x)


def has_free_symbols(val):
    """Return `False`: there are no symbols."""
    return False


has_free_unbacked_symbols = is_symbolic = has_free_symbols


def free_symbols(val):
    """Return the empty set: there are no symbols."""
    return set()


def has_hint(a):
    """Return `True`: each number is known."""
    return True


def hint_int(a, fallback=None):
    """Return the number."""
    return int(a)


def constrain_range(a, *, min=None, max=None):
    """Do nothing: a number is known."""


def constrain_unify(a, b):
    """Do nothing: numbers are known."""
