"""Learning-rate schedules."""

from __future__ import annotations

from ._lr_scheduler.base import EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING, LRScheduler as LRScheduler
from ._lr_scheduler.combined import (
    ChainedScheduler as ChainedScheduler,
    ReduceLROnPlateau as ReduceLROnPlateau,
    SequentialLR as SequentialLR,
)
from ._lr_scheduler.cycles import (
    CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts,
    CyclicLR as CyclicLR,
    OneCycleLR as OneCycleLR,
)
from ._lr_scheduler.forms import (
    ConstantLR as ConstantLR,
    CosineAnnealingLR as CosineAnnealingLR,
    ExponentialLR as ExponentialLR,
    LambdaLR as LambdaLR,
    LinearLR as LinearLR,
    MultiplicativeLR as MultiplicativeLR,
    MultiStepLR as MultiStepLR,
    PolynomialLR as PolynomialLR,
    StepLR as StepLR,
)
from .optimizer import Optimizer as Optimizer

# The older name.
_LRScheduler = LRScheduler
