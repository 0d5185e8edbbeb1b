"""Exceptions of ``torch._dynamo``."""

from __future__ import annotations

import enum


class TorchDynamoException(RuntimeError):
    """The base of them all."""


class InternalTorchDynamoError(TorchDynamoException):
    """The tracer failed."""


class SkipFrame(TorchDynamoException):
    """An error of backends that do not want a graph."""


class TorchRuntimeError(TorchDynamoException):
    """A function failed while its result was described."""

    def __init__(self, msg: str, real_stack: object = None) -> None:
        super().__init__(msg)
        self.msg, self.real_stack = msg, real_stack


class InvalidBackend(TorchDynamoException):
    """There is no backend of this name."""

    def __init__(self, name: str, suggestions: list[str] | None = None) -> None:
        meant = f", did you mean: {', '.join(map(repr, suggestions))}?" if suggestions else "."
        super().__init__(
            f"Invalid backend: {name!r}{meant} See `torch._dynamo.list_backends()` for available backends."
        )


class ResetRequired(TorchDynamoException):
    """A function is compiled by another backend than before."""

    def __init__(self) -> None:
        super().__init__(
            "Must call `torch._dynamo.reset()` before changing backends.  Detected two calls to\n"
            "`torch.compile()` with a different backend compiler arguments."
        )


class ShortenTraceback(TorchDynamoException):
    """An error whose traceback ends at the user's frame."""


class BackendCompilerFailed(ShortenTraceback):
    """The backend failed."""

    def __init__(self, backend_fn: object, inner_exception: Exception, first_useful_frame: object = None) -> None:
        name = backend_fn if isinstance(backend_fn, str) else getattr(backend_fn, "__name__", "?")
        self.backend_name, self.inner_exception = name, inner_exception
        super().__init__(f"backend={name!r} raised:\n{type(inner_exception).__name__}: {inner_exception}")


class Unsupported(TorchDynamoException):
    """A function with ``fullgraph=True`` needs several graphs."""

    def __init__(self, msg: str, gb_type: str = "", skip_frame: bool = False, *, case_name: str | None = None) -> None:
        super().__init__(msg)
        self.msg, self.gb_type, self.skip_frame, self.case_name = msg, gb_type, skip_frame, case_name


class UncapturedHigherOrderOpError(TorchDynamoException):
    """A function of functions cannot be in a graph."""


class ObservedException(TorchDynamoException):
    """An error of tracers for exceptions of the program."""


class RecompileError(TorchDynamoException):
    """A function needs another graph, and ``torch._dynamo.config.error_on_recompile`` is set."""


class FailOnRecompileLimitHit(Exception):
    """A function needs more graphs than ``torch._dynamo.config.recompile_limit`` allows.

    It is raised with ``fullgraph=True``, or where ``torch._dynamo.config.fail_on_recompile_limit_hit`` is set.
    """


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
