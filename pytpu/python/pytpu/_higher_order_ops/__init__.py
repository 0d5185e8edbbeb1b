"""``torch._higher_order_ops``: ops that take functions."""

from ..functions import cond as cond
from .associative_scan import associative_scan as associative_scan
