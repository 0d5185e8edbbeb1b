"""`torch.tpu.export`: a function as one portable program, with its weights and its signature."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import struct
import zipfile
import zlib

import pytpu as torch
from pytpu import _C, safetensors
from pytpu._replace_file import replacing

from . import _artefact
from ._custom import stablehlo_op

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pytpu import Tensor

    from ._report import ProgramReport


_FORMAT = "torchtpu export 1"


def _is_tensor(x):
    return isinstance(x, torch.Tensor)


def _describe(tensor):
    return [list(tensor.shape), str(tensor.dtype).removeprefix("torch.")]


def _show(described):
    return "(" + ", ".join(f"{dtype}{shape}" for shape, dtype in described) + ")"


def _structure(value, count):
    """Describe nested arguments or results in the form of JSON. The list `count` numbers the tensors in order."""
    if _is_tensor(value):
        count.append(value)
        return {"tensor": len(count) - 1}
    if type(value) in (list, tuple):
        return {type(value).__name__: [_structure(v, count) for v in value]}
    if type(value) is dict:
        if not all(isinstance(k, str) for k in value):
            raise TypeError("torch.tpu.export: keys of dictionaries must be strings")
        return {"dict": {k: _structure(v, count) for k, v in value.items()}}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    raise TypeError(f"torch.tpu.export: cannot describe a value of type {type(value).__name__}")


def _build(structure, tensors):
    ((kind, content),) = structure.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {k: _build(v, tensors) for k, v in content.items()}
    if kind == "value":
        return content
    made = [_build(v, tensors) for v in content]
    return tuple(made) if kind == "tuple" else made


class Exported:
    """A function as one program. Call it like the function, with tensors of the same shapes and dtypes.

    Attributes:
        stablehlo: Text of the program.
        inputs: Shape and dtype of each tensor among the arguments, in order.
        outputs: Shape and dtype of each tensor among the results, in order.
        constants: Tensors that the program contains, by name.
    """

    def __init__(self, manifest: dict[str, Any], stablehlo: str, constants: dict[str, Tensor]) -> None:
        self._manifest, self.stablehlo, self.constants = manifest, stablehlo, constants
        self.inputs = [tuple(i) for i in manifest["inputs"]]
        self.outputs = [tuple(o) for o in manifest["outputs"]]
        self._op: Any = None
        self._on_device: dict[torch.device, dict[str, Tensor]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors: list[Tensor] = []
        structure = _structure([args, kwargs], tensors)
        given = [_describe(t) for t in tensors]
        if given != self._manifest["inputs"]:
            raise RuntimeError(f"the exported program takes {_show(self._manifest['inputs'])}, but got {_show(given)}")
        if structure != self._manifest["call"]:
            raise RuntimeError(
                "the exported program was made for a call with other arguments that are not tensors, or in another "
                "order"
            )
        device = tensors[0].device if tensors else torch.device("tpu")
        if device not in self._on_device:
            self._on_device[device] = {name: t.to(device) for name, t in self.constants.items()}
        constants = self._on_device[device]
        if self._op is None:
            name = hashlib.sha256(self.stablehlo.encode()).hexdigest()[:16]
            self._op = stablehlo_op(f"exported::program_{name}", self.stablehlo)
        found = self._op(*(tensors[a] if isinstance(a, int) else constants[a] for a in self._manifest["arguments"]))
        found = found if isinstance(found, (tuple, list)) else (found,)
        return _build(self._manifest["results"], [found[i] for i in self._manifest["places"]])

    def __repr__(self) -> str:
        return f"Exported({_show(self.inputs)} -> {_show(self.outputs)}, {len(self.constants)} constants)"

    def compile(self, topology: str = "v5e:2x2", **options: Any) -> ProgramReport:
        """Compile the program for a TPU that is not here, and return its report.

        Args:
            topology: The machine, such as `"v5e:2x2"`.
            options: Further arguments of `torch.tpu.aot.compile_stablehlo`.
        """
        return torch.tpu.aot.compile_stablehlo(self.stablehlo, topology, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program to a file that `torch.tpu.load_export` reads.

        The file is a zip archive of `manifest.json`, `program.mlir` and `constants.safetensors`. It is written as a
        whole, or not at all.

        Args:
            path: Name of the file.
        """
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("manifest.json", json.dumps(self._manifest, indent=1))
            archive.writestr("program.mlir", self.stablehlo)
            # Constants of zeros would become smaller by a factor that `load_export` refuses.
            archive.writestr("constants.safetensors", safetensors.save(self.constants), zipfile.ZIP_STORED)
        with replacing(path) as file:
            file.write(data.getvalue())


def export(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Exported:
    """Record a call of a function, and return it as one program in portable StableHLO.

    Nothing is computed. Any later libtpu can compile the program, and it runs on device `cpu` and on XLA:CPU too. It
    has no gradient. Tensors that `fn` reads besides its arguments, such as parameters, become constants of the program.
    Modules must be on device `tpu`.

    Args:
        fn: Function or module. It must not read values of tensors on the host.
        args: Arguments like those of later calls: tensors, numbers, texts, and lists, tuples and dicts of them. Of
            tensors, only shapes and dtypes matter. Other values are fixed.
        kwargs: Arguments by name.

    Raises:
        RuntimeError: If `fn` reads a value, or ends the program.
        ValueError: If results are not computed from recorded ops.
        TypeError: If an argument or a result has another type.

    Example:
        >>> import pytpu as torch
        >>> exported = torch.tpu.export(lambda x: x * 2 + 1, torch.zeros(3))
        >>> exported.inputs
        [([3], 'float32')]
        >>> exported(torch.ones(3))
        tensor([3., 3., 3.])
    """
    given: list[Tensor] = []
    call = _structure([args, kwargs], given)
    _C._export_begin()
    try:
        # Each tensor is a value of its own, even if it is the argument twice.
        inputs = [_C._export_input(t) for t in given]
        call_args, call_kwargs = _build(call, inputs)
        with torch.no_grad():
            found: list[Tensor] = []
            results = _structure(fn(*call_args, **call_kwargs), found)
            # A result that is an input, or that occurs twice, is computed like any other.
            outputs = [t.to("tpu").clone() for t in found]
            text, arguments, places = _C._export(outputs, inputs)
    finally:
        _C._plan_end(True)
    constants: dict[str, Tensor] = {}
    names: list[int | str] = []
    for argument in arguments:
        if isinstance(argument, int):
            names.append(argument)
        else:
            names.append(f"constant{len(constants)}")
            constants[f"constant{len(constants)}"] = argument
    manifest = {
        "format": _FORMAT,
        "call": call,
        "inputs": [_describe(t) for t in given],
        "results": results,
        "outputs": [_describe(t) for t in found],
        "arguments": names,
        "places": places,
    }
    return Exported(manifest, text, constants)


def load_export(path: str | os.PathLike[str]) -> Exported:
    """Read a file that `Exported.save` wrote.

    Args:
        path: Name of the file.

    Raises:
        ValueError: If the file is not such a file, or is damaged.
    """
    shown = os.fspath(path)
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            left = _artefact.expanded_limit(os.fstat(file.fileno()).st_size)
            found = []
            for name in ("manifest.json", "program.mlir", "constants.safetensors"):
                info = archive.getinfo(name)
                left -= info.file_size
                if left < 0:
                    raise ValueError(f"{name} has {info.file_size} bytes, which is refused for a file of this size")
                found.append(archive.read(info))
        manifest = _artefact.json_of(found[0])
        _artefact.expect(isinstance(manifest, dict), "the manifest")
        text, constants = found[1].decode(), safetensors.load(found[2])
        if manifest.get("format") == _FORMAT:
            _check(manifest, text, constants)
    except (*_DAMAGE, safetensors.SafetensorError) as error:
        # A wrong position in the file gives this error of the system.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise ValueError(f"{shown} is not a file of torch.tpu.export, or it is damaged: {error}") from None
    if manifest.get("format") != _FORMAT:
        raise ValueError(f"{shown} has the format {manifest.get('format')!r}, but {_FORMAT!r} is read")
    return Exported(manifest, text, constants)


# The errors of `zipfile` for wrong directories, wrong compression and encryption.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    KeyError,
    ValueError,
    EOFError,
    OSError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
    struct.error,
)


def _check(manifest, text, constants):
    """Raise a `ValueError` if the parts of a file do not fit together."""
    expect = _artefact.expect
    _artefact.check_described(manifest.get("inputs"), "the description of the inputs")
    _artefact.check_described(manifest.get("outputs"), "the description of the outputs")
    inputs, outputs = manifest["inputs"], manifest["outputs"]
    _check_structure(manifest.get("call"), len(inputs))
    _check_structure(manifest.get("results"), len(outputs))
    arguments, places = manifest.get("arguments"), manifest.get("places")
    expect(isinstance(arguments, list), "the list of arguments")
    for a in arguments:
        expect(a in constants if isinstance(a, str) else _artefact.is_count(a, len(inputs)), "an argument")
    kernel = _C._CustomKernel("exported::program", text, None)
    given = [_describe(constants[a]) if isinstance(a, str) else inputs[a] for a in arguments]
    expect(_artefact.described(kernel.args) == given, "the description of the arguments")
    found = _artefact.described(kernel.results)
    expect(isinstance(places, list) and len(places) == len(outputs), "the list of results")
    expect(all(_artefact.is_count(p, len(found)) for p in places), "the list of results")
    expect([found[p] for p in places] == outputs, "the description of the outputs")


def _check_structure(structure, count):
    """Check a structure, as `_structure` makes it, of `count` tensors."""
    what = "the structure of the arguments or results"
    _artefact.expect(isinstance(structure, dict) and len(structure) == 1, what)
    ((kind, content),) = structure.items()
    if kind == "tensor":
        _artefact.expect(_artefact.is_count(content, count), what)
    elif kind == "value":
        _artefact.expect(content is None or isinstance(content, (bool, int, float, str)), what)
    else:
        wanted = {"list": list, "tuple": list, "dict": dict}.get(kind)
        _artefact.expect(wanted is not None and isinstance(content, wanted), what)
        for part in content.values() if isinstance(content, dict) else content:
            _check_structure(part, count)
