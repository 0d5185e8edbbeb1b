"""`torch._higher_order_ops`: ops that take functions."""

from ..functions import cond as cond
from ..nn.attention.flex_attention import flex_attention as flex_attention
from .associative_scan import associative_scan as associative_scan
from .out_dtype import out_dtype as out_dtype
