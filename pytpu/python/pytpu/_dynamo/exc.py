"""Exceptions of ``torch._dynamo``. `torch.export` raises `UserError`; the others are for ``except`` clauses."""

import enum


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


class UserErrorType(enum.Enum):
    """What is wrong in a call."""

    DYNAMIC_CONTROL_FLOW = enum.auto()
    ANTI_PATTERN = enum.auto()
    STANDARD_LIBRARY = enum.auto()
    CONSTRAINT_VIOLATION = enum.auto()
    DYNAMIC_DIM = enum.auto()
    INVALID_INPUT = enum.auto()
    INVALID_OUTPUT = enum.auto()
    UNSUPPORTED_ALIASED_MUTATED_DYNAMIC_INPUTS = enum.auto()


class UserError(TorchDynamoException):
    """An error of a program that runs, and cannot be exported.

    Args:
        error_type: what is wrong.
        msg: the text.
        case_name: the section of PyTorch's documentation that explains it.
    """

    def __init__(self, error_type, msg, case_name=None):
        if case_name is not None:
            page = f"https://pytorch.org/docs/main/generated/exportdb/index.html#{case_name.replace('_', '-')}"
            msg += (" " if msg.endswith(".") else "\n") + f"For more information about this error, see: {page}"
        super().__init__(msg)
        self.error_type = error_type
        self.msg = self.message = msg
