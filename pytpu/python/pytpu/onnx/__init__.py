"""``torch.onnx``: ONNX models from modules and exported programs, through the package `onnx`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .._c_names import _onnx as _names

__all__ = ["ONNXProgram", "OnnxExporterError", "export", "is_in_onnx_export"]

OperatorExportTypes, TrainingMode = _names.OperatorExportTypes, _names.TrainingMode

#: The version of the operators.
_OPSET = 18


class OnnxExporterError(RuntimeError):
    """A program has what is not written to ONNX."""


def _onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise ModuleNotFoundError("torch.onnx.export needs the package onnx: pip install onnx", name="onnx") from None
    return onnx


_OPTIONS = set(
    "export_params keep_initializers_as_inputs report optimize verify profile dump_exported_program artifacts_dir "
    "fallback training operator_export_type do_constant_folding custom_opsets export_modules_as_functions "
    "autograd_inlining custom_translation_table".split()
)
_REFUSED: dict[str, tuple[Any, ...]] = {
    "export_params": (True,),
    "keep_initializers_as_inputs": (False, None),
    "custom_opsets": (None, {}),
    "export_modules_as_functions": (False, None),
    "custom_translation_table": (None, {}),
}


class ONNXProgram:
    """An ONNX model, and the program that it was made from.

    Attributes:
        model_proto: the model.
        exported_program: the program.
    """

    def __init__(self, model_proto: Any, exported_program: Any) -> None:
        self.model_proto, self.exported_program = model_proto, exported_program

    def save(self, destination: str | os.PathLike[str], **options: Any) -> None:
        """Write the model into a file."""
        with open(destination, "wb") as file:
            file.write(self.model_proto.SerializeToString())

    def __repr__(self) -> str:
        graph = self.model_proto.graph
        return f"ONNXProgram({len(graph.node)} nodes, inputs {[i.name for i in graph.input]})"


def export(
    model: Any,
    args: tuple[Any, ...] = (),
    f: Any = None,
    *,
    kwargs: dict[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: Any = None,
    dynamic_axes: Any = None,
    **options: Any,
) -> ONNXProgram:
    """Return the ONNX model of a module, through the package `onnx`.

    The module is exported as `torch.export.export` does it. Operators that are not written to ONNX are refused by name.

    Args:
        model: a module, or a program of `torch.export`.
        args: example arguments: a tuple, or one tensor.
        f: a path, or an object with `write`, that gets the model.
        kwargs: example arguments by keyword.
        input_names: names of the inputs.
        output_names: names of the results.
        opset_version: the version of the operators: 18, or later.
        dynamic_shapes: the sizes that may change. See `torch.export.export`.
        dynamic_axes: the same in an older form: dimensions by the names of `input_names`.
        options: further options of PyTorch, which have no effect.

    Raises:
        ModuleNotFoundError: If the package `onnx` is missing.
        OnnxExporterError: If the program has what is not written to ONNX.
    """
    _onnx()
    for name, value in options.items():
        if name not in _OPTIONS:
            raise TypeError(f"export() got an unexpected keyword argument '{name}'")
        if name in _REFUSED and value not in _REFUSED[name]:
            raise OnnxExporterError(f"{name}={value!r} is not there")
    opset = _OPSET if opset_version is None else opset_version
    if opset < _OPSET:
        raise OnnxExporterError(f"operators of version {opset} are not written, but those of version {_OPSET}")
    from ..export import Dim, ExportedProgram, export as capture
    from ._exporter import Builder, functional

    program = model
    if not isinstance(model, ExportedProgram):
        args = args if isinstance(args, tuple) else (args,)
        if dynamic_shapes is None and dynamic_axes:
            names = list(input_names or ())
            dynamic_shapes = tuple(
                {int(d): Dim.DYNAMIC for d in dynamic_axes.get(names[i] if i < len(names) else "", ())} or None
                for i in range(len(args))
            )
        program = capture(model, args, kwargs, dynamic_shapes=dynamic_shapes)
    proto = Builder(functional(program)).model(list(input_names or ()), list(output_names or ()), opset)
    made = ONNXProgram(proto, program)
    if isinstance(f, (str, os.PathLike)):
        made.save(f)
    elif f is not None:
        f.write(proto.SerializeToString())
    return made


def is_in_onnx_export():
    """Always return ``False``: models are recorded by `torch.export`."""
    return False


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """Do nothing: the exporter has no use for the symbol."""


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    """Do nothing: nothing was registered."""
