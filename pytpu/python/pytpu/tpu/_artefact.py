"""Exports as bytes: in the disk cache, and in the files of `torch.tpu.pallas.load`."""

import hashlib
import json
import os
import zlib

from pytpu import _C

_MAGIC = b"torchtpu custom kernel 1\n"


def written(export):
    """Return the bytes of an export."""
    return json.dumps(export).encode()


def parsed(data):
    """Return the export in these bytes, or `None`."""
    try:
        found = json.loads(data)
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
    path = os.fspath(file)
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "wb") as f:
        f.write(_MAGIC + hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
    os.replace(temporary, path)


def load(file):
    """Read a file of `save`.

    Raises:
        ValueError: it is no such file, or it is damaged.
    """
    with open(file, "rb") as f:
        data = f.read()
    if not data.startswith(_MAGIC):
        raise ValueError(f"{os.fspath(file)} is not a file of a custom kernel, or of another version")
    checksum, _, data = data[len(_MAGIC) :].partition(b"\n")
    if hashlib.sha256(data).hexdigest().encode() != checksum:
        raise ValueError(f"{os.fspath(file)} is damaged: its checksum does not fit its content")
    try:
        content = json.loads(zlib.decompress(data))
        content["name"], content["args"], content["call"], content["exports"]
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        raise ValueError(f"{os.fspath(file)} is damaged: {error}") from None
    return content
