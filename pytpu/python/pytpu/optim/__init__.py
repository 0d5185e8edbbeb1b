"""Optimisers and learning-rate schedules, as in `torch.optim`."""

from . import lr_scheduler
from .adam import Adam, AdamW
from .optimizer import Optimizer
from .variants import ASGD, Adadelta, Adamax, NAdam, RAdam, Rprop
from .rmsprop import Adagrad, RMSprop
from .sgd import SGD
