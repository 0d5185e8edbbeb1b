"""`torch.fx.graph_module`: a module that runs the code of a graph."""

from __future__ import annotations

import contextlib
import copy
import linecache
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytpu as torch

from ..nn.modules.module import _addindent
from ._compatibility import compatibility
from .graph import (
    Graph,
    PythonCode,
    _BoxedCodeGen,
    _custom_builtins,
    _is_from_torch,
    _PyTreeCodeGen,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._symbolic_trace import Tracer
    from .node import Node

__all__ = ["GraphModule", "reduce_graph_module", "reduce_package_graph_module"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


# ---- code as text


class _SourceLoader:
    """The texts of generated code, which tracebacks and `inspect` show."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.next_id = 0

    def add(self, src: str, globals: dict[str, Any], co_fields: dict[str, Any]) -> str:
        """Keep a text, and return the name of its file."""
        key = f"<eval_with_key>.{self.next_id}"
        self.next_id += 1
        if co_fields:
            key += " from {co_filename}:{co_firstlineno} in {co_name}".format(**co_fields)
        self.texts[key] = src
        # `linecache` asks the loader of these globals for the text when it is needed.
        linecache.lazycache(key, {**globals, "__name__": key, "__loader__": self, "__spec__": ModuleSpec(key, self)})  # type: ignore[arg-type]
        return key

    def get_source(self, module_name: str) -> str | None:
        """Return a text by the name of its file."""
        return self.texts.get(module_name)


_loader = _SourceLoader()


def _method_from_src(
    method_name: str, src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None
) -> Callable[..., Any]:
    space = dict(globals)
    key = _loader.add(src, space, co_fields or {})
    # Without `dont_inherit`, annotations in the text would follow the `__future__` of this file.
    exec(compile(src, key, "exec", dont_inherit=True), space)
    return space.pop(method_name)


def _forward_from_src(src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None) -> Callable[..., Any]:
    return _method_from_src("forward", src, globals, co_fields)


def _as_own_imports(statement: str) -> str:
    """Return an import under the name that this package has in this process."""
    from .. import _as_torch

    if _as_torch.is_torch:
        return statement
    if statement == "import torch":
        return "import pytpu as torch"
    return statement.replace("import torch.", "import pytpu.").replace("from torch ", "from pytpu ")


def _format_import_statement(name: str, obj: Any) -> str:
    if name in _custom_builtins:
        return _as_own_imports(_custom_builtins[name].import_str)
    if _is_from_torch(name):
        return _as_own_imports("import torch")
    module, attribute = _place_of(obj)
    return f"from {module} import {attribute} as {name}"


def _place_of(obj: Any) -> tuple[str, str]:
    """Return the module and the name under which an object can be imported.

    Raises:
        RuntimeError: It cannot.
    """
    import importlib

    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None) or getattr(obj, "_name", None)
    module = getattr(obj, "__module__", None)
    if name is None or module is None or "<" in name:
        raise RuntimeError(f"{obj!r} cannot be imported, so a graph that calls it cannot be written to a file")
    found: Any = importlib.import_module(module)
    root, _, rest = name.partition(".")
    found = getattr(found, root, None)
    if rest or found is not obj:
        raise RuntimeError(f"Can't get attribute '{name}' of module '{module}': it is another object, or nested")
    return module, name


def _format_import_block(globals: dict[str, Any]) -> str:
    lines = {
        f"{name} = {obj!r}" if isinstance(obj, str) else _format_import_statement(name, obj)
        for name, obj in globals.items()
    }
    return "\n".join(sorted(lines))


# ---- pickles


@compatibility(is_backward_compatible=True)
def reduce_graph_module(body: dict[str, Any], import_block: str) -> torch.nn.Module:
    """Return the graph module with a pickled `__dict__`. Its graph is traced from its code."""
    code = body.get("_code") or body["code"]
    return _deserialize_graph_module(_forward_from_src(import_block + code, {}), body)


@compatibility(is_backward_compatible=True)
def reduce_package_graph_module(importer: Any, body: dict[str, Any], generated_module_name: str) -> torch.nn.Module:
    """The same, with the code in a module of `importer`."""
    return _deserialize_graph_module(importer.import_module(generated_module_name).forward, body)


class _CodeOnlyModule(torch.nn.Module):
    """A module with the attributes of a graph module. Tracing reads `forward` from its class."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def _deserialize_graph_module(
    forward: Callable[..., Any], body: dict[str, Any], graph_module_cls: type[GraphModule] | None = None
) -> torch.nn.Module:
    from ._symbolic_trace import Tracer

    _CodeOnlyModule.forward = forward  # type: ignore[method-assign,assignment]
    tracer_cls: Any = body.get("_tracer_cls") or Tracer

    class KeepModules(tracer_cls):  # type: ignore[misc]
        # No submodule was traced into, or its operations would stand in the code.
        def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
            return True

    root = _CodeOnlyModule(body)
    graph = KeepModules._graph_module_deserialization_tracer(root).trace(root, **body.get("_tracer_extras", {}))
    traces = body.pop("_graphmodule_graph_node_meta_stack_trace", None) or {}
    for node in graph.nodes:
        if traces.get(node.name) is not None:
            node.meta["stack_trace"] = traces[node.name]
    graph._tracer_cls = tracer_cls
    name = body.get("_graphmodule_cls_name", "GraphModule")
    made = (graph_module_cls or GraphModule)(root, graph, class_name=name)
    # The constructor takes only what the graph names.
    for key, value in body.items():
        if not hasattr(made, key):
            setattr(made, key, value)
    return made


# ---- attributes by path


def _install(module: torch.nn.Module, name: str, value: Any, persistent: bool = True) -> None:
    if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
        module.register_buffer(name, value, persistent=persistent)
    else:
        setattr(module, name, value)


def _copy_attr(from_module: torch.nn.Module, to_module: torch.nn.Module, target: str) -> None:
    """Give one module an attribute of another one, and empty modules on the path to it."""
    *prefix, field = target.split(".")
    for item in prefix:
        source, there = getattr(from_module, item), getattr(to_module, item, None)
        if source is there:
            return  # A module of the path has been copied, with all of its attributes.
        if there is None:
            there = torch.nn.Module()
            setattr(to_module, item, there)
        from_module, to_module = source, there
    _install(to_module, field, getattr(from_module, field), field not in from_module._non_persistent_buffers_set)


def _assign_attr(from_obj: Any, to_module: torch.nn.Module, target: str) -> None:
    """Give a module an attribute, and empty modules on the path to it."""
    *prefix, field = target.split(".")
    for item in prefix:
        there = getattr(to_module, item, None)
        if there is None:
            there = torch.nn.Module()
            setattr(to_module, item, there)
        to_module = there
    _install(to_module, field, from_obj)


def _get_attr(model: torch.nn.Module, attr_name: str) -> Any:
    return _get_attr_via_attr_list(model, attr_name.split("."))


def _get_attr_via_attr_list(model: Any, attr_list: list[str]) -> Any:
    for item in attr_list[:-1]:
        model = getattr(model, item, None)
        if model is None:
            raise AssertionError(f"Attribute '{item}' not found in model")
    return getattr(model, attr_list[-1]) if attr_list else model


def _del_attr(model: torch.nn.Module, attr_name: str) -> None:
    *prefix, field = attr_name.split(".")
    delattr(_get_attr_via_attr_list(model, prefix), field)


def _has_attr(model: Any, attr_name: str) -> bool:
    for item in attr_name.split("."):
        if not hasattr(model, item):
            return False
        model = getattr(model, item)
    return True


# ---- texts


def _print_readable(module: Any, module_name: str, print_output: bool = True, **options: Any) -> str:
    graph = module.graph
    if not isinstance(graph, Graph):
        raise AssertionError("print_readable must be used on a module with a graph")
    code = graph.python_code("self", verbose=True, **options).src.lstrip("\n")
    text = _addindent(f"class {module_name}(torch.nn.Module):\n{code}", 4)
    options.pop("expanded_def", None)
    parts = [
        _print_readable(child, name, print_output=False, **options)
        for name, child in module.named_children()
        if isinstance(child, GraphModule)
    ]
    text += _addindent("\n".join(["", *parts]), 4)
    if print_output:
        print(text)
    return text


class _WrappedCall:
    """The call of a graph module, which shows the line of generated code that raised an error."""

    def __init__(self, cls: Any, cls_call: Callable[..., Any] | None) -> None:
        self.cls, self.cls_call = cls, cls_call

    @staticmethod
    def _generate_error_message(frame_summary: traceback.FrameSummary) -> str:
        number, line = frame_summary.lineno, frame_summary.line
        if number is None:
            raise AssertionError("frame_summary.lineno is None")
        if line is None:
            raise AssertionError("frame_summary.line is None")
        lines = linecache.getlines(frame_summary.filename)
        said = f"Call using an FX-traced Module, line {number} of the traced Module's generated forward function:"
        before, after = "".join(lines[number - 2 : number]), "\n".join(lines[number : number + 2])
        return "\n".join([traceback.format_exc(), said, before, "~" * len(line) + "~~~ <--- HERE", after])

    def __call__(self, obj: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            if self.cls_call is not None:
                return self.cls_call(obj, *args, **kwargs)
            return super(self.cls, obj).__call__(*args, **kwargs)  # type: ignore[misc]
        except Exception as error:
            innermost = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__))[-1]
            if "eval_with_key" not in innermost.filename:
                raise
            print(self._generate_error_message(innermost), file=sys.stderr)
            raise error.with_traceback(None)  # noqa: B904


# ---- the module

# Modules whose text can be evaluated to a module of the same kind.
_READABLE = ("Linear", "Conv1d", "Conv2d", "Conv3d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d")


@compatibility(is_backward_compatible=True)
class GraphModule(torch.nn.Module):
    """A module whose `forward` is the code of a graph.

    Assigning `graph` generates the code again. After a change of the graph itself, call `recompile`.

    Args:
        root: A module whose attributes the graph names, which are shared, or a dictionary of them by path.
        graph: The graph.
        class_name: The name of the class.

    Example:
        >>> import pytpu as torch
        >>> module = torch.fx.symbolic_trace(lambda x: x.relu() + 1)
        >>> for node in module.graph.find_nodes(op="call_method", target="relu"):
        ...     node.target = "sigmoid"
        >>> code = module.recompile()
        >>> module(torch.zeros(2))
        tensor([1.5000, 1.5000])
    """

    _graph: Graph
    meta: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        # `forward` belongs to a class, so each object has its own, directly below the class of the user.
        for base in cls.__mro__:
            if base.__qualname__.split(".")[-1] != "GraphModuleImpl":
                cls = base
                break

        class GraphModuleImpl(cls):  # type: ignore[misc,valid-type]
            pass

        return super().__new__(GraphModuleImpl)

    @compatibility(is_backward_compatible=True)
    def __init__(self, root: torch.nn.Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        self.__class__.__name__ = class_name
        targets = [str(node.target) for node in graph.nodes if node.op in ("get_attr", "call_module")]
        if isinstance(root, torch.nn.Module):
            if hasattr(root, "training"):
                self.training = root.training
            if isinstance(root, _CodeOnlyModule):
                # A copy or a pickle also keeps what the graph does not name.
                for members in (root.named_children(), root.named_buffers(), root.named_parameters()):
                    for name, _ in members:
                        _copy_attr(root, self, name)
            for target in targets:
                _copy_attr(root, self, target)
        elif isinstance(root, dict):
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module") and node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                    )
            # A module before its members, which it would replace.
            for target in sorted(targets, key=lambda path: path.count(".")):
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError("Unsupported type " + str(root) + " passed for root!")
        self.graph = graph
        # Pickles name the class of the tracer, which must be importable then.
        tracer_cls = graph._tracer_cls
        self._tracer_cls: type[Tracer] | None = None
        if tracer_cls and "<locals>" not in tracer_cls.__qualname__:
            self._tracer_cls = tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        self.meta = {}
        self._replace_hooks: list[Callable[..., Any]] = []
        self._create_node_hooks: list[Callable[[Node], Any]] = []
        self._erase_node_hooks: list[Callable[[Node], Any]] = []
        self._deepcopy_hooks: list[Callable[[GraphModule], Any]] = []
        self.shape_env: Any = None

    __jit_unused_properties__ = ["graph", "_boxed_call"]

    @property
    def _boxed_call(self) -> bool:
        return isinstance(self._graph._codegen, _BoxedCodeGen)

    @property
    def graph(self) -> Graph:
        """The graph. Assigning another one generates its code."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The generated code."""
        if not hasattr(self, "_code"):
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return self._code

    @compatibility(is_backward_compatible=True)
    def recompile(self) -> PythonCode:
        """Generate the code of the graph again, and return it."""
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec, self._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec
        from .experimental import _config

        made = self._graph.python_code("self", record_func=_config.enrich_profiler_metadata)
        self._code, self._lineno_map, self._prologue_start = made.src, made._lineno_map, made._prologue_start
        cls: Any = type(self)
        cls.forward = _forward_from_src(made.src, made.globals, self._graph._co_fields)
        # A class of the user may have a call of its own. Else `Module.__call__` is looked up at each call, because
        # tracing replaces it.
        own = vars(cls).get("__call__")
        if "_wrapped_call" not in vars(cls):
            cls._wrapped_call = _WrappedCall(cls, own)
        for child in self.children():
            if isinstance(child, GraphModule):
                child.recompile()

        def call_wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
            return self._wrapped_call(self, *args, **kwargs)

        cls.__call__ = call_wrapped
        return made

    # Members

    @compatibility(is_backward_compatible=True)
    def add_submodule(self, target: str, m: torch.nn.Module) -> bool:
        """Insert a module at a path, and empty modules on the way.

        Returns:
            Whether the path leads through modules only.
        """
        *prefix, field = target.split(".")
        owner: torch.nn.Module = self
        for item in prefix:
            there = getattr(owner, item, None)
            if there is None:
                there = torch.nn.Module()
                setattr(owner, item, there)
            if not isinstance(there, torch.nn.Module):
                return False
            owner = there
        owner.add_module(field, m)
        return True

    @compatibility(is_backward_compatible=True)
    def delete_submodule(self, target: str) -> bool:
        """Delete the module at a path.

        Returns:
            Whether there was one.
        """
        *prefix, field = target.split(".")
        owner: Any = self
        for item in prefix:
            owner = getattr(owner, item, None)
            if not isinstance(owner, torch.nn.Module):
                return False
        if not isinstance(getattr(owner, field, None), torch.nn.Module):
            return False
        delattr(owner, field)
        return True

    @compatibility(is_backward_compatible=True)
    def delete_all_unused_submodules(self) -> None:
        """Delete the modules that the graph does not call, and that have no member which it names."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            atoms = str(node.target).split(".")
            used.update(".".join(atoms[: i + 1]) for i in range(len(atoms)))
            if node.op == "call_module":
                with contextlib.suppress(AttributeError):
                    inner = self.get_submodule(str(node.target)).named_modules()
                    used.update(f"{node.target}.{name}" for name, _ in inner if name)
        for name in [name for name, _ in self.named_modules() if name not in used]:
            self.delete_submodule(name)

    # Files and copies

    @compatibility(is_backward_compatible=False)
    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write the module as a package of Python, from which `from folder import FxModule` imports it.

        Args:
            folder: The folder, which is made.
            module_name: The name of the class.
        """
        folder = Path(folder)
        folder.mkdir(exist_ok=True)
        torch.save(self.state_dict(), folder / "state_dict.pt")
        imports = "\n".join(_as_own_imports(builtin.import_str) for builtin in _custom_builtins.values())
        star = (
            "from torch.nn import *" if _as_own_imports("import torch") == "import torch" else "from pytpu.nn import *"
        )
        lines = []
        pickled: list[str] = []
        for name, child in self.named_children():
            if any(type(child) is getattr(torch.nn, kind) for kind in _READABLE):
                lines.append(f"setattr(self, '{name}', {child!r})")
                continue
            file = folder / f"{name}.pt"
            torch.save(child, file)
            pickled.append(name)
            shown = repr(child).replace("\r", " ").replace("\n", " ")
            lines.append(f"setattr(self, '{name}', torch.load(r'{file}', weights_only=False)) # {shown}")
        for name, buffer in self._buffers.items():
            if buffer is not None:
                value = f"torch.empty({list(buffer.shape)}, dtype={buffer.dtype})"
                lines.append(f"self.register_buffer('{name}', {value})")
        for name, param in self._parameters.items():
            if param is not None:
                value = f"torch.nn.Parameter(torch.empty({list(param.shape)}, dtype={param.dtype}))"
                lines.append(f"setattr(self, '{name}', {value})")
        lines.append(f"self.load_state_dict(torch.load(r'{folder}/state_dict.pt'))")
        body = "".join(f"        {line}\n" for line in lines)
        (folder / "module.py").write_text(
            f"\n{_as_own_imports('import torch')}\n{imports}\n\n{star}\nclass {module_name}(torch.nn.Module):\n"
            f"    def __init__(self):\n        super().__init__()\n{body}{_addindent(self.code, 4)}\n"
        )
        (folder / "__init__.py").write_text("from .module import *")
        if pickled:
            warnings.warn(
                "Was not able to save the following children modules as reprs -saved as pickled files instead: "
                f"{pickled}",
                stacklevel=2,
            )

    def __reduce__(self) -> Any:
        # The code is pickled, not the graph: it is traced again when it is loaded.
        made = self.recompile()
        state = {key: value for key, value in self.__dict__.items() if key != "_graph"}
        return reduce_graph_module, (state, _format_import_block(made.globals))

    def __reduce_package__(self, exporter: Any) -> Any:
        state = {key: value for key, value in self.__dict__.items() if key != "_graph"}
        state["_graphmodule_cls_name"] = type(self).__name__
        state["_graphmodule_graph_node_meta_stack_trace"] = {
            node.name: node.meta["stack_trace"] for node in self.graph.nodes if "stack_trace" in node.meta
        }
        name = f"fx-generated._{exporter.get_unique_id()}"
        exporter.save_source_string(name, _format_import_block(self.recompile().globals) + self.code)
        return reduce_package_graph_module, (state, name)

    def _deepcopy_init(self) -> Callable[..., None]:
        return GraphModule.__init__

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        root = _CodeOnlyModule(copy.deepcopy(self.__dict__, memo))
        self._deepcopy_init()(made, root, root.__dict__["_graph"])
        for name in (
            "_state_dict_hooks",
            "_load_state_dict_pre_hooks",
            "_load_state_dict_post_hooks",
            "_replace_hooks",
            "_create_node_hooks",
            "_erase_node_hooks",
            "_deepcopy_hooks",
        ):
            if name in self.__dict__:
                setattr(made, name, copy.deepcopy(self.__dict__[name], memo))
        made.meta = copy.deepcopy(getattr(self, "meta", {}), memo)
        for name, value in made.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(made, name, value)
        for hook in self.__dict__.get("_deepcopy_hooks", ()):
            hook(made)
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, self.graph)
        made.meta = getattr(self, "meta", {})
        return made

    def _replicate_for_data_parallel(self) -> GraphModule:
        made = self.__copy__()
        object.__setattr__(made, "_is_replica", True)
        return made

    # Texts

    @compatibility(is_backward_compatible=False)
    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> str:
        """Return the code with dtypes, sizes and lines of the program, also that of inner graph modules.

        Args:
            print_output: Print it too.
            include_stride: Write strides too.
            include_device: Write devices too.
            colored: Color the text for terminals.
            fast_sympy_print: There are no symbols here, so it changes nothing.
            expanded_def: Write each parameter on its own line.
            additional_meta: Keys of `Node.meta` to write.
        """
        return _print_readable(
            self,
            self._get_name(),
            print_output,
            include_stride=include_stride,
            include_device=include_device,
            colored=colored,
            expanded_def=expanded_def,
            additional_meta=additional_meta,
        )

    def __str__(self) -> str:
        reminder = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, reminder])

    # Hooks, which are called when the graph changes

    @contextlib.contextmanager
    def _set_replace_hook(self, f: Callable[..., Any]) -> Iterator[None]:
        if not callable(f):
            raise AssertionError("Replace hook must be a callable.")
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    def _register_replace_node_hook(self, f: Callable[..., Any]) -> None:
        _check_hook(f, "create_node")
        self._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f: Callable[..., Any]) -> None:
        _check_hook(f, "create_node")
        self._replace_hooks.remove(f)

    def _register_create_node_hook(self, f: Callable[[Node], Any]) -> None:
        _check_hook(f, "create_node")
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f: Callable[[Node], Any]) -> None:
        _check_hook(f, "create_node")
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f: Callable[[Node], Any]) -> None:
        _check_hook(f, "erase_node")
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f: Callable[[Node], Any]) -> None:
        _check_hook(f, "erase_node")
        self._erase_node_hooks.remove(f)

    def _register_deepcopy_hook(self, f: Callable[[GraphModule], Any]) -> None:
        _check_hook(f, "deepcopy")
        self._deepcopy_hooks.append(f)

    def _unregister_deepcopy_hook(self, f: Callable[[GraphModule], Any]) -> None:
        _check_hook(f, "deepcopy")
        self._deepcopy_hooks.remove(f)


def _check_hook(f: Any, kind: str) -> None:
    if not callable(f):
        raise AssertionError(f"{kind} hook must be a callable.")
