"""`torch.fx.annotate`: types for values of a graph."""

from __future__ import annotations

from typing import Any

from ._compatibility import compatibility
from .proxy import Proxy


@compatibility(is_backward_compatible=False)
def annotate(val: Any, type: Any) -> Any:
    """Give a traced value a type, and return it. Any other value is returned as it is.

    Raises:
        RuntimeError: The value has a type already.
    """
    if isinstance(val, Proxy):
        node = val.node
        if node.type:
            raise RuntimeError(
                f"Tried to annotate a value that already had a type on it! Existing type is {node.type} and new type "
                f"is {type}. This could happen if you tried to annotate a function parameter value (in which case you "
                "should use the type slot on the function signature) or you called annotate on the same value twice"
            )
        node.type = type
    return val
