"""`torch.optim._functional`: steps of optimizers as functions. Here a step is a method of the optimizer."""

from __future__ import annotations

from .._absent import absent_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

_WHY = "a step is a method of the optimiser here: make one, set the gradients of its parameters and call step()"


def functional_step(name: str) -> Callable[..., NoReturn]:
    """Return the function `torch.optim.name.name`, which always raises an error."""
    return absent_function(f"torch.optim.{name}.{name}", _WHY)


adadelta, adagrad, adam, adamax, adamw = map(functional_step, ("adadelta", "adagrad", "adam", "adamax", "adamw"))
asgd, nadam, radam, rmsprop, rprop, sgd = map(functional_step, ("asgd", "nadam", "radam", "rmsprop", "rprop", "sgd"))
