"""How samples become a batch, under PyTorch's name for the module."""

from ..collate import default_collate, default_convert  # noqa: F401
