"""How tensors are printed, as ``torch._tensor_str``."""

from . import functions


class _PrintOptions:
    """The options of ``torch.set_printoptions``; to set one changes it."""

    def __getattr__(self, name):
        if name == "sci_mode":
            return functions._print_options.get("sci_mode")
        try:
            return functions._print_options[name]
        except KeyError:
            raise AttributeError(f"'__PrinterOptions' object has no attribute '{name}'") from None

    def __setattr__(self, name, value):
        functions.set_printoptions(**{name: value})


PRINT_OPTS = _PrintOptions()
set_printoptions = functions.set_printoptions


def get_printoptions():
    """Return the options as a dictionary."""
    return {name: getattr(PRINT_OPTS, name) for name in ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")}


def _str(self, *, tensor_contents=None):
    """Return a tensor's text."""
    return repr(self)
