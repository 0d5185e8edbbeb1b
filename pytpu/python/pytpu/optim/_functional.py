"""``torch.optim._functional``: steps of optimisers as functions. Here a step is a method of the optimiser."""

from .._absent import absent_function

_WHY = "a step is a method of the optimiser here: make one, set the gradients of its parameters and call step()"


def functional_step(name):
    """Return the function ``torch.optim.x.x``, which refuses to be called."""
    return absent_function(f"torch.optim.{name}.{name}", _WHY)


adadelta, adagrad, adam, adamax, adamw = map(functional_step, ("adadelta", "adagrad", "adam", "adamax", "adamw"))
asgd, nadam, radam, rmsprop, rprop, sgd = map(functional_step, ("asgd", "nadam", "radam", "rmsprop", "rprop", "sgd"))
