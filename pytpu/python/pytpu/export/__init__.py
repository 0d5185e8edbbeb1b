"""``torch.export``: programs as graphs of operators, in files that PyTorch reads and writes.

`load` reads a ``.pt2`` file that `torch.export.save` of PyTorch or of this package wrote. `ExportedProgram.module`
gives a module that runs it.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..utils import _pytree as pytree
from .decomp_utils import CustomDecompTable
from .dynamic_shapes import AdditionalInputs, Constraint, Dim, ShapesCollection, dims
from .exported_program import (
    ExportedProgram,
    ModuleCallEntry,
    ModuleCallSignature,
    default_decompositions,
)
from .graph_signature import ExportBackwardSignature, ExportGraphSignature
from .unflatten import FlatArgsAdapter, UnflattenedModule, unflatten

if TYPE_CHECKING:
    from ..nn import Module

__all__ = [
    "AdditionalInputs",
    "Constraint",
    "CustomDecompTable",
    "Dim",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "ExportedProgram",
    "FlatArgsAdapter",
    "ModuleCallEntry",
    "ModuleCallSignature",
    "ShapesCollection",
    "UnflattenedModule",
    "default_decompositions",
    "dims",
    "export",
    "load",
    "register_dataclass",
    "save",
    "unflatten",
]


def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """Return the program of a module: the operators of aten that it calls, for all inputs of given sizes.

    The module runs with descriptions of its inputs, so that its course cannot depend on their elements. It runs several
    times if sizes may change. The module and the random generator stay as they are.

    Args:
        mod: the module.
        args: example arguments.
        kwargs: example arguments by keyword.
        dynamic_shapes: the sizes that may change: a dict by names of parameters, or a list or tuple in their order. For
            a tensor it is a dict from dimensions to `Dim`, or a list of `Dim` and ``None``. `ShapesCollection` and
            `AdditionalInputs` make one.
        strict: Accepted for compatibility: modules run as Python in both modes.
        preserve_module_call_signature: Accepted for compatibility.
        prefer_deferred_runtime_asserts_over_guards: Accepted for compatibility.

    Raises:
        ValueError: If `mod` is no module, or an argument is no tensor or plain value.
        torch._dynamo.exc.UserError: If a size that may change is one that the program asks for.
        torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode: If the program reads an element.

    Example:
        >>> import pytpu as torch
        >>> batch = torch.export.Dim("batch")
        >>> program = torch.export.export(torch.nn.ReLU(), (torch.zeros(2, 3),), dynamic_shapes={"input": {0: batch}})
        >>> program.module()(torch.ones(4, 3)).shape
        torch.Size([4, 3])
    """
    from ..jit import ScriptModule
    from ..nn import Module
    from ._trace import export as captured

    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if isinstance(mod, ScriptModule):
        raise ValueError("Exporting a ScriptModule is not supported.")
    return captured(mod, args, kwargs, dynamic_shapes, preserve_module_call_signature)


def save(
    ep: ExportedProgram,
    f: Any,
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = 2,
) -> None:
    """Write a program into a ``.pt2`` file, which PyTorch 2.8 and later reads too.

    Args:
        ep: the program.
        f: a path, or an object with `write`.
        extra_files: texts by name, which the file holds too.
        opset_version: the version of each namespace of operators.
        pickle_protocol: the version of the pickle of the example inputs.

    Raises:
        TypeError: If `ep` is no program.
        SerializeError: If the program has what cannot be written.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    from .pt2_archive._package import package_pt2

    package_pt2(
        f,
        exported_programs={"model": ep},
        extra_files=extra_files,
        opset_version=opset_version,
        pickle_protocol=pickle_protocol,
    )


def load(
    f: Any, *, extra_files: dict[str, Any] | None = None, expected_opset_version: dict[str, int] | None = None
) -> ExportedProgram:
    """Read a program that `save` wrote, here or in PyTorch.

    No code of the file runs: the graph names operators, and the weights are bytes.

    Args:
        f: a path, or an object with `read`, `seek` and `tell`.
        extra_files: a dict that gets the texts of the file by name.
        expected_opset_version: Accepted for compatibility.

    Raises:
        RuntimeError: If the file is damaged, or has what is not supported.
    """
    from .pt2_archive._package import load_pt2

    if isinstance(f, (str, os.PathLike)) and not zipfile.is_zipfile(f):
        with open(f, "rb"):
            pass
        raise zipfile.BadZipFile("File is not a zip file")
    contents = load_pt2(f, expected_opset_version=expected_opset_version)
    if extra_files is not None:
        extra_files.update(contents.extra_files)
    if "model" not in contents.exported_programs:
        raise RuntimeError("the archive has no program with the name 'model'")
    return contents.exported_programs["model"]


def register_dataclass(cls: type[Any], *, serialized_type_name: str | None = None) -> None:
    """Let instances of a dataclass be arguments and results of exported programs.

    Args:
        cls: the dataclass.
        serialized_type_name: the name of the class in files.
    """
    pytree.register_dataclass(cls, serialized_type_name=serialized_type_name)
