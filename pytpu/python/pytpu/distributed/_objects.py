"""Collectives on Python objects, which travel as pickles.

A pickle can run code: use these functions among processes that trust each other. `weights_only=True` accepts only
what `torch.load` accepts with the same argument.
"""

from __future__ import annotations

import io
import pickle

from .. import Tensor, cat, device as _device, empty, frombuffer, int64, load, save, tensor as _tensor, uint8, zeros
from ._collectives import (
    _canonicalize_group_rank,
    _check_not_self_rank,
    _check_output_list,
    all_gather_single,
    broadcast,
    gather_single,
    scatter,
)
from ._groups import _get_object_coll_device, _member
from ._messages import recv, send
from ._process_group import ProcessGroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def _object_to_tensor(
    obj: object, device: _device | str, group: ProcessGroup | None, weights_only: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the bytes of an object, and their number, as tensors."""
    if weights_only:
        stream = io.BytesIO()
        save(obj, stream)
        data = stream.getvalue()
    else:
        data = pickle.dumps(obj)
    return frombuffer(bytearray(data), dtype=uint8).to(device), _tensor([len(data)], device=device)


def _tensor_to_object(
    tensor: Tensor, tensor_size: Tensor | int, group: ProcessGroup | None, weights_only: bool = False
) -> Any:
    """Return the object of the first `tensor_size` bytes of a tensor."""
    data = tensor.cpu().numpy().tobytes()[: int(tensor_size)]
    return load(io.BytesIO(data), weights_only=True) if weights_only else pickle.loads(data)


def _pad(data: Tensor, size: int) -> Tensor:
    if data.numel() == size:
        return data
    return cat([data, zeros(size - data.numel(), dtype=uint8, device=data.device)])


def _join(objects: Sequence[object], device: _device | str, weights_only: bool) -> tuple[Tensor, Tensor]:
    """Return the bytes of several objects, and their numbers."""
    pairs = [_object_to_tensor(obj, device, None, weights_only) for obj in objects]
    if not pairs:
        return empty(0, dtype=uint8, device=device), empty(0, dtype=int64, device=device)
    return cat([data for data, _ in pairs]), cat([size for _, size in pairs])


def _fill(objects: list[Any], data: Tensor, sizes: Tensor, weights_only: bool) -> None:
    """Put the objects of `_join` into a list."""
    at = 0
    for i, size in enumerate(sizes.tolist()):
        objects[i] = _tensor_to_object(data[at : at + size], size, None, weights_only)
        at += size


def all_gather_object(
    object_list: list[Any], obj: Any, group: ProcessGroup | None = None, weights_only: bool = False
) -> None:
    """Gather an object of each rank, on all ranks.

    Args:
        object_list: a list with a place for each rank, which the objects are put into.
        obj: the object of this rank, which can be pickled.
        group: the ranks. The default is the group of all ranks.
        weights_only: whether objects are read by `torch.load(weights_only=True)`.
    """
    pg = _member(group, "all_gather_object")
    if pg is None:
        return
    device = _get_object_coll_device(pg)
    data, size = _object_to_tensor(obj, device, pg, weights_only)
    sizes = empty(pg.size(), dtype=int64, device=device)
    all_gather_single(sizes, size, pg)
    longest = int(sizes.max())
    gathered = empty(pg.size(), longest, dtype=uint8, device=device)
    all_gather_single(gathered, _pad(data, longest), pg)
    for i, n in enumerate(sizes.tolist()):
        object_list[i] = _tensor_to_object(gathered[i], n, pg, weights_only)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    group_dst: int | None = None,
    weights_only: bool = False,
) -> None:
    """Gather an object of each rank, on one rank.

    Args:
        obj: the object of this rank, which can be pickled.
        object_gather_list: on rank `dst` a list with a place for each rank. `None` on the others.
        dst: the global rank that gets the objects, 0 by default. Or `group_dst`, its rank in `group`.
        group: the ranks. The default is the group of all ranks.
        group_dst: the rank in `group` that gets the objects.
        weights_only: whether objects are read by `torch.load(weights_only=True)`.
    """
    pg = _member(group, "gather_object")
    if pg is None:
        return
    root = _canonicalize_group_rank(pg, 0 if dst is None and group_dst is None else dst, group_dst)
    _check_output_list(pg, root, object_gather_list)
    device = _get_object_coll_device(pg)
    data, size = _object_to_tensor(obj, device, pg, weights_only)
    sizes = empty(pg.size(), dtype=int64, device=device)
    all_gather_single(sizes, size, pg)
    longest = int(sizes.max())
    is_root = pg.rank() == root
    gathered = empty(pg.size(), longest, dtype=uint8, device=device) if is_root else None
    gather_single(_pad(data, longest), gathered, group=pg, group_dst=root)
    if gathered is not None and object_gather_list is not None:
        for i, n in enumerate(sizes.tolist()):
            object_gather_list[i] = _tensor_to_object(gathered[i], n, pg, weights_only)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: _device | None = None,
    group_src: int | None = None,
    weights_only: bool = False,
) -> None:
    """Copy the objects of one rank's list to the lists of all ranks, which have the same length.

    Args:
        object_list: the objects of rank `src`, which can be pickled, and the places on the others.
        src: the global rank of the source, 0 by default. Or `group_src`, its rank in `group`.
        group: the ranks. The default is the group of all ranks.
        device: the device of the tensors that carry the objects.
        group_src: the rank of the source in `group`.
        weights_only: whether objects are read by `torch.load(weights_only=True)`.
    """
    pg = _member(group, "broadcast_object_list")
    if pg is None:
        return
    root = _canonicalize_group_rank(pg, 0 if src is None and group_src is None else src, group_src)
    place = device or _get_object_coll_device(pg)
    is_root = pg.rank() == root
    if is_root:
        data, sizes = _join(object_list, place, weights_only)
    else:
        sizes = empty(len(object_list), dtype=int64, device=place)
    broadcast(sizes, group=pg, group_src=root)
    if not is_root:
        data = empty(int(sizes.sum()), dtype=uint8, device=place)
    broadcast(data, group=pg, group_src=root)
    if not is_root:
        _fill(object_list, data, sizes, weights_only)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: Sequence[Any] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    group_src: int | None = None,
    weights_only: bool = False,
) -> None:
    """Hand each rank an object of one rank's list.

    Args:
        scatter_object_output_list: a list of at least one place. The first one gets the object of this rank.
        scatter_object_input_list: on rank `src` an object for each rank, which can be pickled.
        src: the global rank of the source, 0 by default. Or `group_src`, its rank in `group`.
        group: the ranks. The default is the group of all ranks.
        group_src: the rank of the source in `group`.
        weights_only: whether objects are read by `torch.load(weights_only=True)`.
    """
    pg = _member(group, "scatter_object_list")
    if pg is None:
        return
    root = _canonicalize_group_rank(pg, 0 if src is None and group_src is None else src, group_src)
    if not isinstance(scatter_object_output_list, list) or len(scatter_object_output_list) < 1:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    device = _get_object_coll_device(pg)
    is_root = pg.rank() == root
    parts, sizes, longest = [], [], _tensor([0], device=device)
    if is_root:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        pairs = [_object_to_tensor(obj, device, pg, weights_only) for obj in scatter_object_input_list]
        longest = max((size for _, size in pairs), key=int).clone()
        parts, sizes = [_pad(data, int(longest)) for data, _ in pairs], [size for _, size in pairs]
    broadcast(longest, group=pg, group_src=root)
    data, size = empty(int(longest), dtype=uint8, device=device), _tensor([0], device=device)
    scatter(data, parts or None, group=pg, group_src=root)
    scatter(size, sizes or None, group=pg, group_src=root)
    scatter_object_output_list[0] = _tensor_to_object(data, size, pg, weights_only)


def send_object_list(
    object_list: Sequence[Any],
    dst: int | None = None,
    group: ProcessGroup | None = None,
    device: _device | None = None,
    group_dst: int | None = None,
    use_batch: bool = False,
    weights_only: bool = False,
) -> None:
    """Send objects to another rank, which calls `recv_object_list` with a list of the same length.

    Args:
        object_list: the objects, which can be pickled.
        dst: the global rank of the receiver. Or `group_dst`, its rank in `group`.
        group: the ranks. The default is the group of all ranks.
        device: the device of the tensors that carry the objects.
        group_dst: the rank of the receiver in `group`.
        use_batch: accepted: messages of both kinds are the same.
        weights_only: whether objects are written by `torch.save`.
    """
    pg = _member(group, "send_object_list")
    if pg is None:
        return
    to = _canonicalize_group_rank(pg, dst, group_dst)
    _check_not_self_rank(pg, to, "destination")
    data, sizes = _join(object_list, device or _get_object_coll_device(pg), weights_only)
    send(sizes, group=pg, group_dst=to)
    send(data, group=pg, group_dst=to)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: _device | None = None,
    group_src: int | None = None,
    use_batch: bool = False,
    weights_only: bool = False,
) -> int:
    """Receive objects from another rank, which calls `send_object_list` with a list of the same length.

    Args:
        object_list: the places of the objects.
        src: the global rank of the sender. Or `group_src`, its rank in `group`. Without both, any rank.
        group: the ranks. The default is the group of all ranks.
        device: the device of the tensors that carry the objects.
        group_src: the rank of the sender in `group`.
        use_batch: accepted: messages of both kinds are the same.
        weights_only: whether objects are read by `torch.load(weights_only=True)`.

    Returns:
        The global rank of the sender, or -1 if this rank is not in `group`.
    """
    pg = _member(group, "recv_object_list")
    if pg is None:
        return -1
    place = device or _get_object_coll_device(pg)
    sizes = empty(len(object_list), dtype=int64, device=place)
    source = recv(sizes, src, pg, group_src=group_src)
    data = empty(int(sizes.sum()), dtype=uint8, device=place)
    recv(data, source, pg)
    _fill(object_list, data, sizes, weights_only)
    return source
