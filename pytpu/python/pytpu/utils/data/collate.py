"""Functions that combine samples to batches."""

from __future__ import annotations

import collections.abc
import copy
import re
import sys

import pytpu as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pytpu import Tensor


_NUMPY_TEXT = np_str_obj_array_pattern = re.compile(r"[SaUO]")
_TYPE_ERROR = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def default_convert(data: Any) -> Any:
    """Convert the NumPy arrays of a structure to tensors.

    This is the `collate_fn` of a `DataLoader` without batches.

    Args:
        data: Array, number, mapping or sequence, nested as needed.

    Returns:
        The same structure. Arrays and NumPy numbers are tensors, and tuples are lists. Arrays of text or objects, and
        all other values, stay as they are.

    Example:
        >>> import pytpu as torch
        >>> import numpy as np
        >>> torch.utils.data.default_convert({"x": np.array([1, 2]), "name": "a"})
        {'x': tensor([1, 2]), 'name': 'a'}
    """
    if isinstance(data, torch.Tensor):
        return data
    kind = type(data)
    if kind.__module__ == "numpy" and kind.__name__ not in ("str_", "string_", "bytes_"):
        if kind.__name__ == "ndarray" and _NUMPY_TEXT.search(data.dtype.str) is not None:
            return data
        return torch.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return _rebuilt_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return kind(*(default_convert(d) for d in data))
    if isinstance(data, tuple):
        return [default_convert(d) for d in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return _rebuilt_sequence(data, [default_convert(d) for d in data])
    return data


def _rebuilt_mapping(like, entries):
    try:
        if isinstance(like, collections.abc.MutableMapping):
            clone = copy.copy(like)
            clone.update(entries)
            return clone
        return type(like)(entries)
    except TypeError:
        return entries


def _rebuilt_sequence(like, items):
    try:
        if isinstance(like, collections.abc.MutableSequence):
            clone = copy.copy(like)
            for i, item in enumerate(items):
                clone[i] = item
            return clone
        return type(like)(items)
    except TypeError:
        return items


def collate(batch: Any, *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Any:
    """Combine a list of samples to a batch, with one function for each type.

    Mappings and sequences are combined one entry at a time. The result has the type of the first sample.

    Args:
        batch: List of samples.
        collate_fn_map: Function for each type, or tuple of types. It gets the samples, and this table as
            `collate_fn_map`. The type of the first sample decides: itself, or a type that it is an instance of.

    Returns:
        The batch.

    Raises:
        TypeError: If the samples are not of a type in the table, nor a mapping, nor a sequence.
        RuntimeError: If sequences differ in length.

    Example:
        >>> import pytpu as torch
        >>> from pytpu.utils.data.collate import collate
        >>> collate([1, 2, 3], collate_fn_map={int: lambda batch, collate_fn_map: sum(batch)})
        6
    """
    first = batch[0]
    kind = type(first)
    table = {} if collate_fn_map is None else collate_fn_map
    of_kind = kind if kind in table else next((t for t in table if isinstance(first, t)), None)
    if of_kind is not None:
        return table[of_kind](batch, collate_fn_map=table)

    def one(samples):
        return collate(samples, collate_fn_map=collate_fn_map)

    if isinstance(first, collections.abc.Mapping):
        return _rebuilt_mapping(first, {key: one([d[key] for d in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return kind(*(one(samples) for samples in zip(*batch)))
    if isinstance(first, collections.abc.Sequence):
        batch = list(batch)
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [one(samples) for samples in zip(*batch)]
        return columns if isinstance(first, tuple) else _rebuilt_sequence(first, columns)
    raise TypeError(_TYPE_ERROR.format(kind))


def collate_tensor_fn(batch: Any, *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Tensor:
    """Stack tensors of the same shape along a new dimension 0."""
    # `stack` raises an error for a tensor in place of a list.
    return torch.stack(batch if isinstance(batch, torch.Tensor) else list(batch), 0)  # type: ignore[arg-type]


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Tensor:
    """Stack arrays as tensors along a new dimension 0.

    Raises:
        TypeError: If the arrays hold text or objects.
    """
    if _NUMPY_TEXT.search(batch[0].dtype.str) is not None:
        raise TypeError(_TYPE_ERROR.format(batch[0].dtype))
    return collate([torch.as_tensor(b) for b in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Tensor:
    """Return NumPy numbers as a tensor with one dimension."""
    import numpy

    return torch.as_tensor(numpy.asarray(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Tensor:
    """Return numbers as a `float64` tensor with one dimension."""
    return torch.tensor(batch, dtype=torch.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Tensor:
    """Return integers or booleans as a tensor with one dimension."""
    return torch.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Any:
    """Return a list of texts as it is."""
    return batch


# Functions of `default_collate` by type. Users can add types. Those of NumPy are added once it is imported.
default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    torch.Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def _know_numpy():
    numpy = sys.modules.get("numpy")
    if numpy is None or numpy.ndarray in default_collate_fn_map:
        return
    others = dict(default_collate_fn_map)
    default_collate_fn_map.clear()
    # Before `float`, as `numpy.float64` is a subclass of it.
    default_collate_fn_map[torch.Tensor] = others.pop(torch.Tensor, collate_tensor_fn)
    default_collate_fn_map[numpy.ndarray] = collate_numpy_array_fn
    default_collate_fn_map[numpy.bool_, numpy.number, numpy.object_] = collate_numpy_scalar_fn
    default_collate_fn_map.update(others)


_know_numpy()


def default_collate(batch: Any) -> Any:
    """Combine a list of samples to a batch. This is the default `collate_fn` of a `DataLoader`.

    Args:
        batch: List of samples: tensors, arrays, numbers, texts, or mappings and sequences of these.

    Returns:
        Tensors and arrays of shape `(*)` become one tensor of shape `(n, *)`. Python floats become a `float64` tensor,
        integers an `int64` tensor of shape `(n,)`. Texts stay a list. A mapping is combined for each key, a sequence
        for each position.

    Raises:
        TypeError: If samples have another type.
        RuntimeError: If sequences differ in length, or tensors in shape.

    Example:
        >>> import pytpu as torch
        >>> torch.utils.data.default_collate([(torch.tensor([1, 2]), "a"), (torch.tensor([3, 4]), "b")])
        [tensor([[1, 2],
                [3, 4]]), ('a', 'b')]
    """
    _know_numpy()
    return collate(batch, collate_fn_map=default_collate_fn_map)
