"""Exports as bytes: in the disk cache, and in the files of `torch.tpu.pallas.load`."""

import hashlib
import json
import os
import zlib

import pytpu as torch
from pytpu import _C
from pytpu._replace_file import replacing

_MAGIC = b"torchtpu custom kernel 1\n"


def written(export):
    """Return the bytes of an export."""
    return json.dumps(export).encode()


def parsed(data):
    """Return the export in these bytes, or `None`."""
    try:
        found = json_of(data)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "text" in found and "form" in found else None


def _argument(value):
    if isinstance(value, _C._Place):
        return ["tensor", value.index]
    if type(value) in (list, tuple):
        return [type(value).__name__, [_argument(v) for v in value]]
    if type(value) is dict:
        return ["dict", [[k, _argument(v)] for k, v in value.items()]]
    return ["static", type(value).__qualname__, repr(value)]


def call(args, kwargs):
    """Describe the arguments of a call: the structure, and the values of static arguments."""
    return [_argument(tuple(args)), _argument(dict(sorted(kwargs.items())))]


def save(file, content):
    """Write a file completely, or not at all."""
    data = zlib.compress(json.dumps(content).encode())
    with replacing(file) as f:
        f.write(_MAGIC + hashlib.sha256(data).hexdigest().encode() + b"\n" + data)


def load(file):
    """Read a file of `save`.

    Raises:
        ValueError: it is no such file, or it is damaged.
    """
    with open(file, "rb") as f:
        data = f.read()
    shown = os.fspath(file)
    if not data.startswith(_MAGIC):
        raise ValueError(f"{shown} is not a file of a custom kernel, or of another version")
    checksum, _, data = data[len(_MAGIC) :].partition(b"\n")
    if hashlib.sha256(data).hexdigest().encode() != checksum:
        raise ValueError(f"{shown} is damaged: its checksum does not fit its content")
    try:
        content = json_of(_inflate(data))
        _check_kernels(content)
    except (ValueError, zlib.error) as error:
        raise ValueError(f"{shown} is damaged: {error}") from None
    return content


def expanded_limit(size):
    """Return the number of bytes that `size` compressed bytes may become, as for the archives of `torch.load`."""
    return (256 << 20) + 32 * size


def _inflate(data):
    limit = expanded_limit(len(data))
    stream = zlib.decompressobj()
    found = stream.decompress(data, limit)
    if stream.unconsumed_tail:
        raise ValueError(f"{len(data)} compressed bytes become more than {limit}, which is refused")
    if not stream.eof:
        raise ValueError("the compressed bytes end early")
    return found


# Structures of arguments are not nested deeper. Python cannot recurse much deeper than that.
_DEPTH = 100


def json_of(data):
    """Parse JSON that is nested at most 100 deep, with texts that can be encoded.

    Raises:
        ValueError: it is something else.
    """
    try:
        content = json.loads(data)
    except RecursionError:
        raise ValueError(f"values are nested deeper than {_DEPTH}") from None
    pending = [(content, 0)]
    while pending:
        value, depth = pending.pop()
        if depth > _DEPTH:
            raise ValueError(f"values are nested deeper than {_DEPTH}")
        if isinstance(value, str):
            value.encode()
        elif isinstance(value, (list, dict)):
            pending.extend((v, depth + 1) for v in (value if isinstance(value, list) else [*value, *value.values()]))
    return content


def expect(holds, what):
    """Raise a `ValueError` about damaged content unless `holds`."""
    if not holds:
        raise ValueError(f"{what} is missing or has another form")


def is_count(value, end=None):
    """Return whether a value is a natural number, less than `end` if that is given."""
    return type(value) is int and 0 <= value < (1 << 63 if end is None else end)


def check_described(value, what):
    """Check a list of shapes and dtypes of tensors."""
    expect(isinstance(value, list), what)
    for item in value:
        expect(isinstance(item, list) and len(item) == 2, what)
        shape, dtype = item
        expect(isinstance(shape, list) and all(map(is_count, shape)), what)
        expect(isinstance(dtype, str) and isinstance(getattr(torch, dtype, None), torch.dtype), what)


def described(tensors):
    """Return shapes and dtypes of a kernel in the form of a file."""
    return [[list(shape), str(dtype).removeprefix("torch.")] for shape, dtype in tensors]


def _check_kernels(content):
    expect(isinstance(content, dict), "the content")
    expect(isinstance(content.get("name"), str), "the name")
    check_described(content.get("args"), "the description of the arguments")
    expect("call" in content, "the call")
    exports = content.get("exports")
    expect(isinstance(exports, dict), "the list of platforms")
    for of_platform in exports.values():
        expect(isinstance(of_platform, dict) and "plain" in of_platform, "a kernel")
        for export in of_platform.values():
            _check_kernel(content["name"], export, content["args"])


def _check_kernel(name, export, args):
    expect(isinstance(export, dict) and isinstance(export.get("text"), str), "the text of a kernel")
    expect(isinstance(export.get("why", ""), str), "the reason against a gradient")
    try:
        kernel = _C._CustomKernel(name, export["text"], None)
    except Exception as error:
        raise ValueError(f"the text of a kernel: {error}") from None
    expect(described(kernel.args) == args, "the description of the arguments")
    expect("form" in export, "the structure of the results")
    _check_form(export["form"], len(kernel.results))
    if "backward" not in export:
        return
    inputs, results = export.get("inputs"), export.get("results")
    expect(isinstance(export["backward"], str), "the text of a gradient")
    expect(isinstance(inputs, list) and isinstance(results, list), "the operands of a gradient")
    for pair in inputs:
        expect(isinstance(pair, list) and len(pair) == 2, "the operands of a gradient")
        expect(isinstance(pair[0], str) and is_count(pair[1]), "the operands of a gradient")
    expect(all(r is None or is_count(r) for r in results), "the results of a gradient")
    expect(is_count(export.get("visible")), "the number of results")
    try:
        gradient = _C._CustomKernel(name, export["backward"], None)
        pairs = [tuple(i) for i in inputs]
        kernel.with_gradient(export["text"], None, export["visible"], gradient, pairs, results)
    except Exception as error:
        raise ValueError(f"the text of a gradient: {error}") from None


def _check_form(form, count):
    """Check the structure of the results of a kernel, which has `count` results."""
    what = "the structure of the results"
    if form is None:
        return
    if type(form) is int:
        expect(is_count(form, count), what)
        return
    expect(isinstance(form, dict) and len(form) == 1, what)
    ((kind, items),) = form.items()
    expect(kind in ("tuple", "list", "dict") and isinstance(items, list), what)
    for item in items:
        if kind == "dict":
            expect(isinstance(item, list) and len(item) == 2, what)
            expect(item[0] is None or isinstance(item[0], (str, int, float)), what)
        _check_form(item[1] if kind == "dict" else item, count)
