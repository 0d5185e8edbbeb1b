"""Making a batch out of samples."""

import collections.abc
import copy
import re

import pytpu as torch

_NUMPY_TEXT = re.compile(r"[SaUO]")
_TYPE_ERROR = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def default_convert(data):
    """NumPy arrays in a structure as tensors."""
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
        return [default_convert(d) for d in data]
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


def default_collate(batch):
    """Stacks the tensors of a list of samples; numbers become tensors, structures are kept."""
    first = batch[0]
    kind = type(first)
    if isinstance(first, torch.Tensor):
        return torch.stack(list(batch), 0)
    if kind.__module__ == "numpy" and kind.__name__ not in ("str_", "string_", "bytes_"):
        if kind.__name__ in ("ndarray", "memmap"):
            if _NUMPY_TEXT.search(first.dtype.str) is not None:
                raise TypeError(_TYPE_ERROR.format(first.dtype))
            return torch.stack([torch.as_tensor(b) for b in batch], 0)
        if first.shape == ():
            import numpy

            return torch.as_tensor(numpy.asarray(batch))
    if isinstance(first, float):
        return torch.tensor(batch, dtype=torch.float64)
    if isinstance(first, int):
        return torch.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, collections.abc.Mapping):
        return _rebuilt_mapping(first, {key: default_collate([d[key] for d in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return kind(*(default_collate(samples) for samples in zip(*batch)))
    if isinstance(first, collections.abc.Sequence):
        batch = list(batch)
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [default_collate(samples) for samples in zip(*batch)]
        return columns if isinstance(first, tuple) else _rebuilt_sequence(first, columns)
    raise TypeError(_TYPE_ERROR.format(kind))
