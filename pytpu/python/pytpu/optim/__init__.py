"""Optimisers and learning-rate schedules, as in `torch.optim`."""

from . import lr_scheduler
from .adafactor import Adafactor
from .adam import Adam, AdamW
from .lbfgs import LBFGS
from .muon import Muon
from .optimizer import Optimizer
from .variants import ASGD, Adadelta, Adamax, NAdam, RAdam, Rprop
from .rmsprop import Adagrad, RMSprop
from .sgd import SGD
from .sparse_adam import SparseAdam


def __getattr__(name):
    # It needs modules, which an optimiser alone does not.
    if name == "swa_utils":
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'torch.optim' has no attribute '{name}'")
