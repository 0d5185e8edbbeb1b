"""``torch._library``: the parts of `torch.library` that libraries import from here."""

from . import custom_ops as custom_ops, infer_schema as infer_schema
