"""Functions on the tensors of nested containers and modules, which libraries share."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytpu as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from .distributed_c10d import ProcessGroup

__all__: list[str] = []


def _apply_to_tensors(fn: Callable[[torch.Tensor], Any], container: Any) -> Any:
    """Return `container` with `fn` applied to its tensors, in dicts, lists, tuples, sets and dataclasses."""
    if isinstance(container, torch.Tensor):
        return fn(container)
    if dataclasses.is_dataclass(container) and not isinstance(container, type):
        fields = {field.name: getattr(container, field.name) for field in dataclasses.fields(container)}
        return dataclasses.replace(container, **{key: _apply_to_tensors(fn, value) for key, value in fields.items()})
    if isinstance(container, torch.nn.utils.rnn.PackedSequence):
        _apply_to_tensors(fn, container.data)
        return container
    if isinstance(container, dict):
        mapped = ((key, _apply_to_tensors(fn, value)) for key, value in container.items())
        return type(container)(mapped)
    if isinstance(container, tuple) and hasattr(container, "_fields"):
        return type(container)(*(_apply_to_tensors(fn, value) for value in container))
    if isinstance(container, (list, tuple, set)):
        return type(container)(_apply_to_tensors(fn, value) for value in container)
    return container


def _recursive_to(inputs: Any, target_device: torch.device, use_side_stream_for_tensor_copies: bool) -> list[Any]:
    """Return a list of one item: `inputs` with all tensors on a device."""
    return [_apply_to_tensors(lambda tensor: tensor.to(target_device), inputs)]


def _to_kwargs(
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    target_device: torch.device,
    use_side_stream_for_tensor_copies: bool,
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Return the arguments of a call with all tensors on a device. Both results are tuples of one item."""
    (moved,) = _recursive_to(inputs, target_device, use_side_stream_for_tensor_copies)
    (named,) = _recursive_to(kwargs or {}, target_device, use_side_stream_for_tensor_copies)
    return (moved,), (named,)


def _cast_forward_inputs(dtype: torch.dtype | None, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Return arguments whose floating-point tensors have a dtype. `None` leaves them as they are."""

    def cast(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    if dtype is None:
        return args, kwargs
    return _apply_to_tensors(cast, args), _apply_to_tensors(cast, kwargs)


def _pack_kwargs(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """Return all arguments as positional ones, and the names of those that were given by name."""
    return (*args, *kwargs.values()), tuple(kwargs)


def _unpack_kwargs(flat_args: tuple[Any, ...], kwarg_keys: tuple[str, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of `_pack_kwargs`."""
    if len(kwarg_keys) > len(flat_args):
        raise AssertionError(f"too many keys {len(kwarg_keys)} vs. {len(flat_args)}")
    split = len(flat_args) - len(kwarg_keys)
    return flat_args[:split], dict(zip(kwarg_keys, flat_args[split:], strict=True))


def _replace_by_prefix(state_dict: dict[str, Any], old_prefix: str, new_prefix: str) -> None:
    """Rename the keys of a dict that begin with `old_prefix`."""
    if old_prefix == new_prefix:
        raise ValueError("old_prefix and new_prefix must be distinct")
    for key in [key for key in state_dict if key.startswith(old_prefix)]:
        state_dict[new_prefix + key[len(old_prefix) :]] = state_dict.pop(key)


def _sync_module_states(
    module: torch.nn.Module,
    process_group: ProcessGroup,
    broadcast_bucket_size: int,
    src: int,
    params_and_buffers_to_ignore: Container[str],
    broadcast_buffers: bool = True,
) -> None:
    """Copy parameters and buffers of a rank to all ranks.

    Args:
        module: the module, the same one on all ranks.
        process_group: the ranks.
        broadcast_bucket_size: accepted, and not used.
        src: the rank in the group.
        params_and_buffers_to_ignore: names that are left as they are.
        broadcast_buffers: whether buffers are copied, too.
    """
    from ._reducer import _broadcast_coalesced

    named: Iterable[Any] = list(module.named_parameters()) + (list(module.named_buffers()) if broadcast_buffers else [])
    tensors = [tensor.detach() for name, tensor in named if name not in params_and_buffers_to_ignore]
    _broadcast_coalesced(process_group, tensors, broadcast_bucket_size, src)


def _verify_param_shape_across_processes(
    process_group: ProcessGroup, tensors: list[torch.Tensor], logger: object = None
) -> None:
    """Raise `RuntimeError` on all ranks if the ranks have different parameters.

    Args:
        process_group: the ranks.
        tensors: the parameters of this rank.
        logger: accepted, and not used.
    """
    from ..nn.parallel.distributed import _check_same_shapes

    _check_same_shapes(process_group, tensors)
