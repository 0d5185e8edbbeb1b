"""Exceptions of ``torch._dynamo``, for ``except`` clauses: nothing here raises them."""


class TorchDynamoException(RuntimeError):
    """The base of them all."""


class BackendCompilerFailed(TorchDynamoException):
    """The backend failed."""


class InternalTorchDynamoError(TorchDynamoException):
    """The tracer failed."""


class Unsupported(TorchDynamoException):
    """An error of tracers for Python code that they cannot follow."""


class TorchRuntimeError(TorchDynamoException):
    """An op failed while it was traced."""
