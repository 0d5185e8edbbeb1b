"""``torch.nn.attention.varlen``: attention of sequences of unequal lengths in one tensor, which is not there yet."""

from ..._absent import absent_class, absent_function

_WHY = "it is not implemented yet. Use `flex_attention` with a mask of documents"
AuxRequest = absent_class("torch.nn.attention.varlen.AuxRequest", _WHY)
varlen_attn = absent_function("torch.nn.attention.varlen.varlen_attn", _WHY)
