"""Optimisers and learning-rate schedules, as in `torch.optim`."""

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

Adafactor.__module__ = Muon.__module__ = __name__


def __getattr__(name):
    # Imported on first use: it imports `nn`, which an optimizer alone does not need.
    if name == "swa_utils":
        from importlib import import_module

        return import_module(f"{__package__}.{name}")
    raise AttributeError(f"module 'torch.optim' has no attribute '{name}'")
