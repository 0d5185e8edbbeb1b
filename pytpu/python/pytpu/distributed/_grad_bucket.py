"""Gradients that communication hooks reduce."""

from __future__ import annotations

import enum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .. import Tensor


class GradBucket:
    """Gradients of one dtype that a communication hook of `DistributedDataParallel` reduces together."""

    def __init__(self, index: int, is_last: bool, buffer: Tensor, parameters: list[Tensor]) -> None:
        self._index, self._is_last, self._buffer, self._parameters = index, is_last, buffer, parameters

    def index(self) -> int:
        """Return the number of the bucket. Buckets are reduced in the order of their numbers."""
        return self._index

    def is_last(self) -> bool:
        """Return whether this is the last bucket of the backward pass."""
        return self._is_last

    def buffer(self) -> Tensor:
        """Return the gradients, one after the other, `(n,)`."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Replace the gradients by another tensor of the same shape."""
        self._buffer = buffer

    def parameters(self) -> list[Tensor]:
        """Return the parameters of the gradients."""
        return list(self._parameters)

    def gradients(self) -> list[Tensor]:
        """Return the gradients as views of the buffer, in the shapes of their parameters."""
        parts = self._buffer.split([parameter.numel() for parameter in self._parameters])
        return [part.view(parameter.shape) for part, parameter in zip(parts, self._parameters, strict=True)]


class BuiltinCommHookType(enum.Enum):
    """Communication hooks by name, for `_register_builtin_comm_hook` of `DistributedDataParallel`."""

    ALLREDUCE = 0
    FP16_COMPRESS = 1
