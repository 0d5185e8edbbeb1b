"""Making a batch out of samples."""

import collections.abc
import copy
import re
import sys

import pytpu as torch

_NUMPY_TEXT = np_str_obj_array_pattern = re.compile(r"[SaUO]")
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


def collate(batch, *, collate_fn_map=None):
    """Makes one of a list of samples: what is in `collate_fn_map`, by its own or a parent type, with the function there, which is given
    the samples and the table; mappings and sequences one entry at a time, of the kind of the first sample.

    Raises `TypeError` for what is neither, and `RuntimeError` for sequences that are not all as long as the first.
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


def collate_tensor_fn(batch, *, collate_fn_map=None):
    """Tensors stacked along a new first dimension."""
    # A tensor is no list of tensors; `stack` says so.
    return torch.stack(batch if isinstance(batch, torch.Tensor) else list(batch), 0)


def collate_numpy_array_fn(batch, *, collate_fn_map=None):
    """Arrays as tensors, stacked; raises `TypeError` for arrays of text and of objects."""
    if _NUMPY_TEXT.search(batch[0].dtype.str) is not None:
        raise TypeError(_TYPE_ERROR.format(batch[0].dtype))
    return collate([torch.as_tensor(b) for b in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch, *, collate_fn_map=None):
    """NumPy's numbers as a tensor."""
    import numpy

    return torch.as_tensor(numpy.asarray(batch))


def collate_float_fn(batch, *, collate_fn_map=None):
    """Numbers as a tensor of `float64`."""
    return torch.tensor(batch, dtype=torch.float64)


def collate_int_fn(batch, *, collate_fn_map=None):
    """Integers, or truth values, as a tensor."""
    return torch.tensor(batch)


def collate_str_fn(batch, *, collate_fn_map=None):
    """Text as it is."""
    return batch


# What `default_collate` does with samples of a type. Types can be added; those of NumPy are, once a program has it.
default_collate_fn_map = {
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
    # Before `float`, of which `numpy.float64` is a kind.
    default_collate_fn_map[torch.Tensor] = others.pop(torch.Tensor, collate_tensor_fn)
    default_collate_fn_map[numpy.ndarray] = collate_numpy_array_fn
    default_collate_fn_map[numpy.bool_, numpy.number, numpy.object_] = collate_numpy_scalar_fn
    default_collate_fn_map.update(others)


_know_numpy()


def default_collate(batch):
    """Stacks the tensors of a list of samples; numbers become tensors, structures are kept."""
    _know_numpy()
    return collate(batch, collate_fn_map=default_collate_fn_map)
