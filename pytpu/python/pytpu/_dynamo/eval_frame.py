"""What ``torch.compile`` makes of a module, where libraries look for it."""

from .._compiled import OptimizedModule as OptimizedModule
