"""``torch._library.infer_schema``: see `torch.library.infer_schema`."""

from ..library import infer_schema as infer_schema
