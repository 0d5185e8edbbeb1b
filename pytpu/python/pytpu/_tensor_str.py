"""How tensors are printed, as ``torch._tensor_str``."""

import re

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


def _tensor_str(self, indent):
    """Return the numbers of a tensor with their brackets. Later lines start with `indent` spaces.

    ``repr`` writes ``tensor(``, these numbers, and what a reader must know beside them.
    """
    if not self.numel():
        return "[]"
    before = PRINT_OPTS.linewidth
    start = len("tensor(")
    functions.set_printoptions(linewidth=before + start - indent)
    try:
        text = repr(self.detach().cpu())[start:]
    finally:
        functions.set_printoptions(linewidth=before)
    end = text.rindex("]") + 1 if self.dim() else re.search(r"[,)]", text).start()
    return text[:end].replace("\n" + " " * start, "\n" + " " * indent)


def _str(self, *, tensor_contents=None):
    """Return a tensor's text."""
    return repr(self)
