"""Printing of tensors, as `torch._tensor_str`."""

import re

from . import _C
from ._functions import settings


class _PrintOptions:
    """The options of `torch.set_printoptions`. Setting an attribute changes the option."""

    def __getattr__(self, name):
        if name == "sci_mode":
            return settings._print_options.get("sci_mode")
        try:
            return settings._print_options[name]
        except KeyError:
            raise AttributeError(f"'__PrinterOptions' object has no attribute '{name}'") from None

    def __setattr__(self, name, value):
        settings.set_printoptions(**{name: value})


PRINT_OPTS = _PrintOptions()
set_printoptions = settings.set_printoptions


def get_printoptions():
    """Return the options as a dictionary."""
    return {
        name: getattr(PRINT_OPTS, name) for name in ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")
    }


def _tensor_str(self, indent):
    """Return the numbers of a tensor with their brackets. Later lines start with `indent` spaces.

    `repr` writes `tensor(`, these numbers, and then dtype, device and gradient function as needed.
    """
    if not self.numel():
        return "[]"
    before = PRINT_OPTS.linewidth
    start = len("tensor(")
    settings.set_printoptions(linewidth=before + start - indent)
    try:
        text = repr(self.detach().as_subclass(_C.Tensor).cpu())[start:]
    finally:
        settings.set_printoptions(linewidth=before)
    end = text.rindex("]") + 1 if self.dim() else re.search(r"[,)]", text).start()
    return text[:end].replace("\n" + " " * start, "\n" + " " * indent)


def _add_suffixes(tensor_str, suffixes, indent, force_newline):
    """Return the text with suffixes after commas and a closing bracket.

    A suffix that would make the line too long goes to a new line.
    """
    parts = [tensor_str]
    length = len(tensor_str) - tensor_str.rfind("\n") + 1
    for suffix in suffixes:
        if force_newline or length + len(suffix) + 2 > PRINT_OPTS.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            length = indent + len(suffix)
            force_newline = False
        else:
            parts.append(", " + suffix)
            length += len(suffix) + 2
    return "".join(parts) + ")"


def _str_intern(inp, *, tensor_contents=None):
    """Return a tensor's text, with other contents if `tensor_contents` is given."""
    if tensor_contents is None:
        return repr(inp)
    name = "tensor(" if type(inp) is _C.Tensor else f"{type(inp).__name__}("
    suffixes = [] if inp.device.type == "cpu" else [f"device='{inp.device}'"]
    return _add_suffixes(name + tensor_contents, suffixes, len(name), False)


def _str(self, *, tensor_contents=None):
    """Return a tensor's text."""
    return _str_intern(self, tensor_contents=tensor_contents)
