"""Inner parts of PyTorch's loader that scripts import all the same."""

from . import collate  # noqa: F401
