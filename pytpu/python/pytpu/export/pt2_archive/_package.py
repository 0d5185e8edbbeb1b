"""Reading and writing ``.pt2`` archives: programs as JSON, weights as bytes, examples as `torch.save` writes them."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import pytpu as torch

from ... import _C, _archive
from .. import _reader
from .._reader import SerializeError
from ..exported_program import ExportedProgram
from . import constants as _names

#: Records of at least this many bytes are read into their final memory, without a copy.
_LARGE = 1 << 20


@contextlib.contextmanager
def _opened(f: Any, mode: str) -> Iterator[Any]:
    if isinstance(f, (str, os.PathLike)):
        with open(f, mode) as file:
            yield file
    else:
        yield f


class PT2ArchiveReader:
    """The files in an archive.

    Args:
        archive_path_or_buffer: a path, or an object with `read`, `seek` and `tell`.

    Raises:
        RuntimeError: If it is no archive, or damaged.
    """

    def __init__(self, archive_path_or_buffer: Any) -> None:
        path = archive_path_or_buffer
        self._owned = open(path, "rb") if isinstance(path, (str, os.PathLike)) else None
        try:
            self.archive_file = _archive.Archive(self._owned or path)
            if _names.ARCHIVE_FORMAT_PATH not in self.archive_file:
                raise RuntimeError("PytorchStreamReader failed locating file archive_format: file not found")
            kind = self.read_string(_names.ARCHIVE_FORMAT_PATH)
            if kind != _names.ARCHIVE_FORMAT_VALUE:
                raise RuntimeError(f"Invalid archive format: expected 'pt2', got {kind[:40]!r}")
            if "byteorder" in self.archive_file and self.archive_file.read("byteorder") != b"little":
                raise RuntimeError("the archive was written on a machine with another byte order")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> PT2ArchiveReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if the path was given."""
        if self._owned is not None:
            self._owned.close()

    def read_bytes(self, name: str) -> bytes:
        """Return the bytes of a file."""
        return self.archive_file.read(name)

    def read_string(self, name: str) -> str:
        """Return the text of a file."""
        try:
            return self.read_bytes(name).decode()
        except UnicodeDecodeError:
            raise RuntimeError(f"the file {name} of the archive is no text. The file might be corrupted.") from None

    def archive_version(self) -> int:
        """Return the version of the archive."""
        text = self.read_string(_names.ARCHIVE_VERSION_PATH).strip()
        return int(text) if text.isdigit() else 0

    def get_file_names(self) -> list[str]:
        """Return the names of all files."""
        return self.archive_file.names()

    def read_json(self, name: str) -> Any:
        """Return the object of a file of JSON."""
        try:
            return json.loads(self.read_string(name))
        except (ValueError, RecursionError) as error:
            raise RuntimeError(f"the file {name} of the archive is no JSON: {error}") from None

    def flat_tensor(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """Return the elements of a file as a flat tensor."""
        size = self.archive_file.size(name)
        if size % dtype.itemsize:
            raise RuntimeError(
                f"Record {name}: size {size} is not a multiple of element size {dtype.itemsize} for dtype {dtype}"
            )
        if size >= _LARGE and self.archive_file.can_read_into(name):
            flat = torch.empty([size // dtype.itemsize], dtype=dtype)
            self.archive_file.read_into(name, _archive.memory_of(flat))
            return flat
        return _C._from_bytes(self.read_bytes(name), dtype)


@dataclasses.dataclass
class PT2ArchiveContents:
    """What is in an archive.

    Attributes:
        exported_programs: programs by name.
        aoti_runners: always empty: compiled libraries of PyTorch do not run here.
        extra_files: texts by name.
    """

    exported_programs: dict[str, ExportedProgram]
    aoti_runners: dict[str, Any]
    extra_files: dict[str, Any]


def is_pt2_package(serialized_model: bytes | str) -> bool:
    """Return whether bytes, or the file at a path, are an archive."""
    source = io.BytesIO(serialized_model) if isinstance(serialized_model, bytes) else serialized_model
    try:
        with PT2ArchiveReader(source):
            return True
    except (RuntimeError, OSError):
        return False


# ---- reading


def _weights(reader: PT2ArchiveReader, config_name: str, folder: str) -> dict[str, Any]:
    """Return the tensors of a table. Tensors that share a file share memory."""
    table = reader.read_json(config_name)["config"]
    flat: dict[str, torch.Tensor] = {}
    found: dict[str, Any] = {}
    for name, about in table.items():
        path = about["path_name"]
        if path.startswith((_names.CUSTOM_OBJ_FILENAME_PREFIX, _names.OPAQUE_OBJ_FILENAME_PREFIX)):
            raise SerializeError(f"the constant {name!r} is an object of a C++ or Python class, which is not read")
        if about["use_pickle"]:
            data = io.BytesIO(reader.read_bytes(folder + path))
            try:
                found[name] = torch.load(data, weights_only=True)
            except pickle.UnpicklingError as error:
                raise SerializeError(f"the tensor {name!r} cannot be read: {error}") from None
            continue
        meta = about["tensor_meta"]
        dtype = _reader.dtype_of(meta["dtype"])
        sizes = [_reader.plain_size(s) for s in meta["sizes"]]
        strides = [_reader.plain_size(s) for s in meta["strides"]]
        offset = _reader.plain_size(meta["storage_offset"])
        if path not in flat:
            flat[path] = reader.flat_tensor(folder + path, dtype)
        base = flat[path] if flat[path].dtype == dtype else flat[path].view(dtype)
        tensor = _strided(base, sizes, strides, offset, name)
        device = _reader.device_of(meta["device"])
        if device.type != "cpu":
            tensor = tensor.to(device)
        if about["is_param"]:
            tensor = torch.nn.Parameter(tensor, requires_grad=meta["requires_grad"])
        elif meta["requires_grad"]:
            tensor.requires_grad_()
        found[name] = tensor
    return _shared(found, table)


def _strided(base: torch.Tensor, sizes: list[int], strides: list[int], offset: int, name: str) -> torch.Tensor:
    if len(sizes) != len(strides) or min([*sizes, *strides, offset, 0]) < 0:
        raise SerializeError(f"the sizes of the tensor {name!r} are damaged")
    if 0 in sizes:
        return torch.empty_strided(sizes, strides, dtype=base.dtype)
    last = offset + sum((n - 1) * s for n, s in zip(sizes, strides))
    if last >= base.numel():
        raise SerializeError(f"the tensor {name!r} needs {last + 1} elements, and its file has {base.numel()}")
    return torch.as_strided(base, sizes, strides, offset)


def _shared(found: dict[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Let names with the same description of the same file have one tensor."""
    by_place: dict[str, Any] = {}
    for name, about in table.items():
        if not about["use_pickle"]:
            key = json.dumps([about["path_name"], about["is_param"], about["tensor_meta"]])
            found[name] = by_place.setdefault(key, found[name])
    return found


def _old_weights(data: bytes, what: str) -> dict[str, Any]:
    if not data:
        return {}
    try:
        found = torch.load(io.BytesIO(data), weights_only=True)
    except pickle.UnpicklingError as error:
        raise SerializeError(f"the {what} of the program cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise SerializeError(f"the {what} of the program are no dict")
    return found


def _examples(data: bytes) -> Any:
    """Return the example inputs, or `None` if they have what `torch.load` does not read."""
    if not data:
        return None
    try:
        found = torch.load(io.BytesIO(data), weights_only=True)
    except (pickle.UnpicklingError, RuntimeError):
        return None
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], tuple) and isinstance(found[1], dict):
        return found
    return None


def _program(reader: PT2ArchiveReader, name: str) -> ExportedProgram:
    files = set(reader.get_file_names())
    old = f"{_names.WEIGHTS_DIR}{name}.pt", f"{_names.CONSTANTS_DIR}{name}.pt"
    if old[0] in files:
        state = _old_weights(reader.read_bytes(old[0]), "weights")
    else:
        state = _weights(reader, _names.WEIGHTS_CONFIG_FILENAME_FORMAT.format(name), _names.WEIGHTS_DIR)
    if old[1] in files:
        constants = _old_weights(reader.read_bytes(old[1]), "constants")
    else:
        constants = _weights(reader, _names.CONSTANTS_CONFIG_FILENAME_FORMAT.format(name), _names.CONSTANTS_DIR)
    samples = _names.SAMPLE_INPUTS_FILENAME_FORMAT.format(name)
    examples = _examples(reader.read_bytes(samples)) if samples in files else None
    written = reader.read_json(_names.MODELS_FILENAME_FORMAT.format(name))
    return _guarded(written, state, constants, examples)


def _guarded(written: Any, state: dict[str, Any], constants: dict[str, Any], examples: Any) -> ExportedProgram:
    """Make the program, and report what is damaged in one class of errors."""
    from .._verifier import SpecViolationError

    try:
        return _reader.program_of(written, state, constants, examples)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        raise SerializeError(f"the program is damaged: {type(error).__name__}: {error}") from error
    except SpecViolationError as error:
        raise SerializeError(f"the program is damaged: {error}") from error
    except (RecursionError, SyntaxError) as error:
        raise SerializeError(f"the program is damaged: {error}") from None


def load_pt2(
    f: Any,
    *,
    expected_opset_version: dict[str, int] | None = None,
    run_single_threaded: bool = False,
    num_runners: int = 1,
    device_index: int = -1,
    load_weights_from_disk: bool = False,
) -> PT2ArchiveContents:
    """Return what is in an archive.

    Args:
        f: a path, or an object with `read`, `seek` and `tell`.
        expected_opset_version: Accepted for compatibility.
        run_single_threaded: Accepted for compatibility.
        num_runners: Accepted for compatibility.
        device_index: Accepted for compatibility.
        load_weights_from_disk: Accepted for compatibility.

    Raises:
        RuntimeError: If the archive is damaged, or has what is not supported.
    """
    with PT2ArchiveReader(f) as reader:
        files = reader.get_file_names()
        head, tail = _names.MODELS_FILENAME_FORMAT.split("{}")
        names = [file[len(head) : -len(tail)] for file in files if file.startswith(head) and file.endswith(tail)]
        extra = {
            file[len(_names.EXTRA_DIR) :]: reader.read_string(file)
            for file in files
            if file.startswith(_names.EXTRA_DIR) and file != _names.MODULE_INFO_PATH
        }
        return PT2ArchiveContents({name: _program(reader, name) for name in names}, {}, extra)


# ---- writing


class PT2ArchiveWriter:
    """Writes the files of an archive.

    Args:
        archive_path_or_buffer: a path, or an object with `write`.
    """

    def __init__(self, archive_path_or_buffer: Any) -> None:
        path, root = archive_path_or_buffer, _names.ARCHIVE_ROOT_NAME
        self._owned = None
        if isinstance(path, (str, os.PathLike)):
            self._owned = open(path, "wb")
            root = os.path.basename(os.fspath(path)).rpartition(".")[0] or root
        self._root = root
        self._writer = _archive.ZipWriter(self._owned or path)
        self._files: dict[str, None] = {}
        self._digest = hashlib.sha256()

    def __enter__(self) -> PT2ArchiveWriter:
        return self

    def __exit__(self, kind: Any, *error: object) -> None:
        if kind is None:
            self.close()
        elif self._owned is not None:
            self._owned.close()

    def has_record(self, name: str) -> bool:
        """Return whether a file was written."""
        return name in self._files

    def count_prefix(self, prefix: str) -> int:
        """Return how many files were written whose names begin with a text."""
        return sum(name.startswith(prefix) for name in self._files)

    def write_bytes(self, name: str, data: Any) -> None:
        """Write a file."""
        self._files[name] = None
        self._digest.update(name.encode())
        self._writer.add(f"{self._root}/{name}", data)

    def write_string(self, name: str, data: str) -> None:
        """Write a file with a text."""
        if not isinstance(data, str):
            raise AssertionError(f"Expected string passed in to be string, but got {type(data)}")
        self.write_bytes(name, data.encode())

    def write_file(self, name: str, file_path: str) -> None:
        """Write a file with the bytes of another."""
        with open(file_path, "rb") as file:
            self.write_bytes(name, file.read())

    def close(self) -> None:
        """Write the end of the archive."""
        self.write_string(_names.ARCHIVE_FORMAT_PATH, _names.ARCHIVE_FORMAT_VALUE)
        self.write_string(_names.ARCHIVE_VERSION_PATH, _names.ARCHIVE_VERSION_VALUE)
        self.write_bytes(".data/version", b"6\n")
        self.write_bytes("byteorder", b"little")
        self.write_bytes(".data/serialization_id", str(int(self._digest.hexdigest(), 16))[:40].encode())
        self._writer.close()
        if self._owned is not None:
            self._owned.close()


def _write_weights(writer: PT2ArchiveWriter, tensors: Mapping[str, Any], folder: str, prefix: str) -> dict[str, Any]:
    from .._writer import tensor_meta

    table: dict[str, Any] = {}
    files: dict[int, str] = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise RuntimeError(f"Unsupported constant type: {type(tensor)}")
        storage = tensor.detach().untyped_storage()
        # Tensors of one storage share a file, and an element of it is as large for all.
        host = tensor.detach() if tensor.device.type == "cpu" else tensor.detach().cpu()
        key = storage.data_ptr() if tensor.device.type == "cpu" and storage.nbytes() else id(tensor)
        meta = tensor_meta(tensor)
        if key not in files:
            files[key] = path = f"{prefix}{len(files)}"
            if tensor.device.type == "cpu":
                data = _storage_bytes(host)
            else:
                contiguous = host.contiguous()
                data = _storage_bytes(contiguous)
                meta = {
                    **meta,
                    "strides": [{"as_int": s} for s in contiguous.stride()],
                    "storage_offset": {"as_int": 0},
                }
            writer.write_bytes(folder + path, data)
        table[name] = {
            "path_name": files[key],
            "is_param": isinstance(tensor, torch.nn.Parameter),
            "use_pickle": False,
            "tensor_meta": meta,
        }
    return {"config": table}


def _storage_bytes(tensor: torch.Tensor) -> Any:
    """Return the bytes of a whole storage."""
    storage = tensor.untyped_storage()
    if not storage.nbytes():
        return b""
    flat = torch.empty(0, dtype=torch.uint8).set_(storage)
    return _archive.memory_of(flat)


def package_pt2(
    f: Any,
    *,
    exported_programs: ExportedProgram | Mapping[str, ExportedProgram] | None = None,
    aoti_files: Any = None,
    extra_files: Mapping[str, Any] | None = None,
    opset_version: Mapping[str, int] | None = None,
    pickle_protocol: int = 2,
    executorch_files: Any = None,
) -> Any:
    """Write programs and texts into an archive, and return `f`.

    Args:
        f: a path, or an object with `write`.
        exported_programs: a program, or programs by name.
        aoti_files: must be ``None``: there are no compiled libraries.
        extra_files: texts by name.
        opset_version: the version of each namespace of operators. ``aten`` has 10.
        pickle_protocol: the version of the pickle of the example inputs.
        executorch_files: must be ``None``.
    """
    from .._writer import written_program

    if aoti_files is not None or executorch_files is not None:
        raise NotImplementedError("package_pt2: compiled libraries are not written here")
    programs = {"model": exported_programs} if isinstance(exported_programs, ExportedProgram) else exported_programs
    # Everything that can fail is done before the file is opened.
    texts = {
        name: json.dumps(written_program(program, opset_version), allow_nan=True)
        for name, program in (programs or {}).items()
    }
    with PT2ArchiveWriter(f) as writer:
        for name, program in (programs or {}).items():
            table = _write_weights(writer, program.state_dict, _names.WEIGHTS_DIR, _names.WEIGHT_FILENAME_PREFIX)
            writer.write_string(_names.WEIGHTS_CONFIG_FILENAME_FORMAT.format(name), json.dumps(table))
            table = _write_weights(
                writer, program.constants, _names.CONSTANTS_DIR, _names.TENSOR_CONSTANT_FILENAME_PREFIX
            )
            writer.write_string(_names.CONSTANTS_CONFIG_FILENAME_FORMAT.format(name), json.dumps(table))
            writer.write_string(_names.MODELS_FILENAME_FORMAT.format(name), texts[name])
            examples = b""
            if program.example_inputs is not None:
                buffer = io.BytesIO()
                torch.save(program.example_inputs, buffer, pickle_protocol=pickle_protocol)
                examples = buffer.getvalue()
            writer.write_bytes(_names.SAMPLE_INPUTS_FILENAME_FORMAT.format(name), examples)
        for name, text in (extra_files or {}).items():
            writer.write_string(f"{_names.EXTRA_DIR}{name}", text)
    return f
