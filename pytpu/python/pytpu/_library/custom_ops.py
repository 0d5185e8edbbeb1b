"""``torch._library.custom_ops``: see `torch.library`."""

from ..library import CustomOpDef as CustomOpDef, custom_op as custom_op
