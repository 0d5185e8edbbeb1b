"""`Adagrad`, under PyTorch's name for the module."""

from .rmsprop import Adagrad

__all__ = ["Adagrad"]
