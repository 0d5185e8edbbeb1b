"""Symbolic numbers of PyTorch's tracers. Sizes are ints here, so these classes have no instances."""

from ._absent import absent_class

_WHY = "sizes are plain numbers here, no symbols"
SymInt = absent_class("torch.SymInt", _WHY)
SymFloat = absent_class("torch.SymFloat", _WHY)
SymBool = absent_class("torch.SymBool", _WHY)
