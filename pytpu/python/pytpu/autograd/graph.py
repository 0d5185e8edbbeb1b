"""The backward graph."""

from .. import _C

Node = _C.Node
