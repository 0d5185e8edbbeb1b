"""Classes of PyTorch that have no instances here, for those who ask: symbolic numbers, objects of TorchScript."""

from ._absent import absent_class

_WHY = "sizes are plain numbers here, no symbols"
SymInt = absent_class("torch.SymInt", _WHY)
SymFloat = absent_class("torch.SymFloat", _WHY)
SymBool = absent_class("torch.SymBool", _WHY)
ScriptObject = absent_class("torch.ScriptObject", "TorchScript is not there")
