"""Optimisers and learning-rate schedules, as in `torch.optim`."""

from __future__ import annotations

from . import lr_scheduler
from .adafactor import Adafactor
from .adam import Adam, AdamW
from .lbfgs import LBFGS
from .muon import Muon
from .optimizer import Optimizer
from .rmsprop import Adagrad, RMSprop
from .sgd import SGD
from .sparse_adam import SparseAdam
from .variants import ASGD, Adadelta, Adamax, NAdam, RAdam, Rprop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from . import swa_utils as swa_utils

__all__ = [
    "ASGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "LBFGS",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]

Adafactor.__module__ = Muon.__module__ = __name__


def __getattr__(name: str) -> ModuleType:
    # Imported on first use: it imports `nn`, which an optimizer alone does not need.
    if name == "swa_utils":
        from importlib import import_module

        return import_module(f"{__package__}.{name}")
    raise AttributeError(f"module 'torch.optim' has no attribute '{name}'")
