"""Transformations of the bytes of items, such as compression."""

from __future__ import annotations

import abc
import importlib
import io
from collections.abc import Sequence
from typing import Any

__all__ = ["Extension", "ExtensionRegistry", "StreamTransformExtension", "ZStandard"]


def _import_module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _require_zstd(problem: str) -> None:
    """Raise `ValueError` if no package for this compression is installed."""
    if not ZStandard.is_available():
        raise ValueError(f"{problem} because no module named 'zstandard' or 'pyzstd'")


class Extension(abc.ABC):
    """A change of the format that files name, so that readers find it."""

    @staticmethod
    @abc.abstractmethod
    def registry_name() -> str:
        """Return the name of the extension."""

    @staticmethod
    @abc.abstractmethod
    def from_descriptor(version: str) -> Extension:
        """Return the extension for a version in a file."""

    @abc.abstractmethod
    def get_descriptor(self) -> str:
        """Return the name and the version, joined by a slash."""


class StreamTransformExtension(Extension):
    """An extension that changes the bytes of each item."""

    @abc.abstractmethod
    def transform_to(self, output: Any) -> Any:
        """Return a stream that writes changed bytes to `output`."""

    @abc.abstractmethod
    def transform_from(self, input: Any) -> Any:
        """Return a stream of the bytes before the change, which reads `input`."""


class ZStandard(StreamTransformExtension):
    """Compression by the package `zstandard` or `pyzstd`."""

    def __init__(self) -> None:
        _require_zstd("ZStandard extension is unavailable")

    @staticmethod
    def is_available() -> bool:
        """Return whether one of the packages is installed."""
        return _import_module("zstandard") is not None or _import_module("pyzstd") is not None

    @staticmethod
    def from_descriptor(version: str) -> ZStandard:
        """Return the extension for version 1."""
        _require_zstd("Stream with ZStandard compression cannot be processed")
        if version.split(".")[0] != "1":
            raise ValueError(f"Unknown extension version={version!r}")
        return ZStandard()

    @staticmethod
    def registry_name() -> str:
        """Return the name of the extension."""
        return "stream.zstd"

    def get_descriptor(self) -> str:
        """Return the name and the version."""
        return f"{self.registry_name()}/1"

    def transform_to(self, output: Any) -> Any:
        """Return a stream that compresses."""
        package = _import_module("zstandard")
        if package is not None:
            return package.ZstdCompressor().stream_writer(output)
        return _Compressing(output, _import_module("pyzstd").ZstdCompressor())

    def transform_from(self, input: Any) -> Any:
        """Return a stream that decompresses."""
        package = _import_module("zstandard")
        if package is not None:
            return package.ZstdDecompressor().stream_reader(input)
        return io.BytesIO(_import_module("pyzstd").decompress(input.read(-1)))


class _Compressing(io.RawIOBase):
    """A stream that writes to another one through a compressor of `pyzstd`."""

    def __init__(self, output: Any, compressor: Any) -> None:
        self.output = output
        self.compressor = compressor

    def writable(self) -> bool:
        """Return `True`."""
        return True

    def write(self, b: Any) -> int:
        """Compress bytes, and return their number."""
        self.output.write(self.compressor.compress(b))
        return memoryview(b).nbytes

    def close(self) -> None:
        """Write the rest."""
        if not self.closed:
            self.output.write(self.compressor.flush())
            super().close()


class ExtensionRegistry:
    """The extensions that a reader knows."""

    def __init__(self) -> None:
        self.extensions: dict[str, type[Extension]] = {ZStandard.registry_name(): ZStandard}

    def register(self, cls: type[Extension]) -> None:
        """Add an extension."""
        self.extensions[cls.registry_name()] = cls

    def from_descriptor_list(self, descriptors: Sequence[str]) -> Sequence[Extension]:
        """Return the extensions that a file names.

        Raises:
            ValueError: If a name or a version is unknown.
        """
        parts = [descriptor.partition("/") for descriptor in descriptors]
        for name, _, _ in parts:
            if name not in self.extensions:
                raise ValueError(f"Unknown extension name={name!r}")
        return [self.extensions[name].from_descriptor(version) for name, _, version in parts]
