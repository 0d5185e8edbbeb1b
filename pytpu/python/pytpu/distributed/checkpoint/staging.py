"""`torch.distributed.checkpoint.staging`: copies of state dicts that `async_save` writes."""

from __future__ import annotations

import copy
import io
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pytpu as torch

from ..tensor import DTensor
from .metadata import STATE_DICT_TYPE
from .protocol import CheckpointableTensor, copy_attributes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytpu import Tensor

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


@runtime_checkable
class AsyncStager(Protocol):
    """A class that copies a state dict before `async_save` writes it, so that training can go on."""

    _synchronize_after_execute: bool = True

    @property
    def should_synchronize_after_execute(self) -> bool:
        """Whether `async_save` waits for the copy."""
        return self._synchronize_after_execute

    def stage(self, state_dict: STATE_DICT_TYPE) -> Future[STATE_DICT_TYPE] | STATE_DICT_TYPE:
        """Return the copy, or a future of it."""
        raise NotImplementedError(f"{type(self).__name__} must implement stage method")

    def synchronize_staging(self) -> None:
        """Wait for the copy. Deprecated: use `AsyncSaveResponse.staging_completion`."""
        warnings.warn(
            "`synchronize_staging` is deprecated and will be removed in future versions."
            "Please use staging_future from AsyncSaveResponse instead.",
            FutureWarning,
            stacklevel=2,
        )

    def close(self) -> None:
        """Free what the stager holds."""


class _Copier:
    """Copies of the tensors of one state dict in host memory.

    Args:
        is_shared: Whether the copies are in memory that processes share.
    """

    def __init__(self, is_shared: bool = False) -> None:
        self.is_shared = is_shared
        # Tensors that are one tensor under two names are copied once.
        self._copies: dict[tuple[Any, ...], Tensor] = {}

    def copy(self, value: Any, target: Any = None) -> Any:
        """Return a copy of a value, with dicts and lists.

        Args:
            value: A tensor, a container or another object.
            target: A copy of an earlier call. Its tensors are filled and returned where sizes and dtypes are the same.
        """
        if isinstance(value, DTensor):
            return self._copy_dtensor(value)
        if hasattr(value, "__create_chunk_list__"):
            return copy.deepcopy(value)
        if isinstance(value, torch.Tensor):
            return self._copy_tensor(value, target)
        if isinstance(value, (str, bytes, int, float, bool, complex)) or value is None:
            return value
        if isinstance(value, dict):
            targets = target if isinstance(target, dict) else {}
            return {key: self.copy(item, targets.get(key)) for key, item in value.items()}
        if type(value) in (list, tuple):
            same = target if isinstance(target, (list, tuple)) and len(target) == len(value) else [None] * len(value)
            return type(value)(self.copy(item, t) for item, t in zip(value, same, strict=True))
        if isinstance(value, io.BytesIO):
            return io.BytesIO(value.getvalue())
        return copy.deepcopy(value)

    def _copy_tensor(self, tensor: Tensor, target: Any) -> Tensor:
        source = tensor.detach().as_subclass(torch.Tensor)
        key = (source._storage_id(), source.storage_offset(), source.size(), source.stride(), source.dtype)
        if key in self._copies:
            return self._copies[key]
        if isinstance(target, torch.Tensor) and target.size() == source.size() and target.dtype == source.dtype:
            made = target.copy_(source)
        else:
            made = source.clone() if source.is_cpu else source.cpu()
            if self.is_shared:
                made = made.share_memory_()
        if isinstance(tensor, CheckpointableTensor):
            copy_attributes(tensor, made)
        self._copies[key] = made
        return made

    def _copy_dtensor(self, tensor: Any) -> Any:
        return DTensor.from_local(
            self._copy_tensor(tensor.to_local(), None),
            device_mesh=tensor.device_mesh,
            placements=tensor.placements,
            run_check=False,
            shape=tensor.size(),
            stride=tensor.stride(),
        )


@dataclass
class StagingOptions:
    """Options of `DefaultStager`.

    Args:
        use_pinned_memory: Accepted for compatibility. This package has no pinned memory.
        use_shared_memory: Whether the copy is in memory that processes share.
        use_async_staging: Whether a thread makes the copy. Do not change the state dict before the future of `stage`
            is complete.
        use_non_blocking_copy: Accepted for compatibility. It requires an accelerator.
    """

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


class DefaultStager(AsyncStager):
    """A stager that copies a state dict to host memory.

    Args:
        config: Options.

    Raises:
        AssertionError: If `use_non_blocking_copy` is set, and there is no accelerator.
    """

    def __init__(self, config: StagingOptions | None = None) -> None:
        options = config or StagingOptions()
        if options.use_non_blocking_copy and not torch.accelerator.is_available():
            raise AssertionError("Non-blocking copy requires that the current accelerator is available.")
        self._is_shared = options.use_shared_memory
        self._thread = ThreadPoolExecutor(max_workers=1) if options.use_async_staging else None
        self._copied: Future[STATE_DICT_TYPE] | None = None

    def stage(self, state_dict: STATE_DICT_TYPE, **kwargs: Any) -> STATE_DICT_TYPE | Future[STATE_DICT_TYPE]:
        """Return a copy of the state dict, or a future of it with `use_async_staging`."""
        copier = _Copier(self._is_shared)
        if self._thread is None:
            return copier.copy(state_dict)
        self._copied = self._thread.submit(copier.copy, state_dict)
        return self._copied

    def synchronize_staging(self) -> None:
        """Wait for the copy."""
        if self._copied is not None:
            self._copied.result()

    def close(self) -> None:
        """Wait for the copy, and end the thread."""
        if self._thread is not None:
            self._thread.shutdown()


class BlockingAsyncStager(AsyncStager):
    """A stager whose `stage` returns when the copy is complete.

    Args:
        cache_staged_state_dict: Whether the memory of a copy is used for the next one. Wait for the last save before
            the next one then.
        type_check: Accepted for compatibility.
    """

    _synchronize_after_execute: bool = False

    def __init__(self, cache_staged_state_dict: bool = False, type_check: bool = False) -> None:
        self.cache_staged_state_dict = cache_staged_state_dict
        self.type_check = type_check
        self.state_dict_cache: STATE_DICT_TYPE | None = None

    def stage(self, state_dict: STATE_DICT_TYPE) -> STATE_DICT_TYPE:
        """Return a copy of the state dict in host memory."""
        copied = _Copier().copy(state_dict, self.state_dict_cache)
        if self.cache_staged_state_dict:
            self.state_dict_cache = copied
        return copied

    def synchronize_staging(self) -> None:
        """Do nothing: `stage` has waited."""

    def close(self) -> None:
        """Do nothing."""
