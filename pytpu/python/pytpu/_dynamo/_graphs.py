"""Graphs of recorded calls: as a function, and as an `fx.GraphModule`."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from typing import Any

import pytpu as torch

from .. import _C as _extension
from .._subclasses import fake_tensor as _fake
from ..fx import Graph, GraphModule
from ._region import Region, _Call, _has_tensor, _Ref, _settings, _under

_C: Any = _extension
Tensor = torch.Tensor


def _map_refs(value: Any, f: Callable[[_Ref], Any]) -> Any:
    if isinstance(value, _Ref):
        return f(value)
    kind = type(value)
    if kind in (tuple, list):
        return kind([_map_refs(v, f) for v in value])
    if kind is dict:
        return {k: _map_refs(v, f) for k, v in value.items()}
    if kind is slice:
        return slice(_map_refs(value.start, f), _map_refs(value.stop, f), _map_refs(value.step, f))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*[_map_refs(v, f) for v in value])
    return value


def _interpreted(calls: list[_Call], outputs: list[_Ref]) -> Callable[..., Any]:
    """Return a function that runs calls as they were recorded."""

    def run(*inputs: Any) -> Any:
        values: list[Any] = []
        given = iter(inputs)

        def value(ref: _Ref) -> Any:
            found = values[ref.index]
            for i in ref.path:
                found = found[i]
            return found

        for call in calls:
            if call.target is None:
                values.append(next(given))
                continue
            args, kwargs = _map_refs(call.args, value), _map_refs(call.kwargs, value)
            target = getattr(args[0], call.target) if call.is_method else call.target
            values.append(target(*args[1:], **kwargs) if call.is_method else target(*args, **kwargs))
        return tuple([value(ref) for ref in outputs])

    return run


def _input_names(region: Region) -> dict[int, str]:
    """Return the names of tensors of the program, as PyTorch names inputs of graphs."""
    names: dict[int, str] = {}

    def note(value: Any, name: str, depth: int = 0) -> None:
        if isinstance(value, Tensor):
            names.setdefault(id(value), name)
        elif isinstance(value, torch.nn.Module):
            for kind, found in (("parameters", value.named_parameters()), ("buffers", value.named_buffers())):
                for path, tensor in found:
                    *modules, last = path.split(".")
                    middle = "".join(f"_modules_{m}" for m in modules)
                    names.setdefault(id(tensor), f"{name}{middle}_{kind}_{last}")
        elif depth < 4 and isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                note(item, f"{name}_{i}", depth + 1)
        elif depth < 4 and isinstance(value, dict):
            for key, item in value.items():
                note(item, f"{name}_{key}", depth + 1)

    program = region.program
    owner = getattr(program, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        note(owner, "L_self")
        program = owner.forward
    import inspect

    with contextlib.suppress(TypeError, ValueError):
        bound = inspect.signature(program).bind(*region.args, **region.kwargs)
        for name, value in bound.arguments.items():
            parameter = bound.signature.parameters[name]
            if parameter.kind is parameter.VAR_KEYWORD:
                for key, item in value.items():
                    note(item, f"L_{key}")
            else:
                note(value, f"L_{name}")
    code = getattr(program, "__code__", None)
    if code is not None:
        for name, cell in zip(code.co_freevars, getattr(program, "__closure__", None) or ()):
            with contextlib.suppress(ValueError):
                note(cell.cell_contents, f"L_{name}")
        table = getattr(program, "__globals__", {})
        for name in code.co_names:
            if name in table:
                note(table[name], f"G_{name}")
    return names


_graph_numbers = iter(range(1 << 62))


def graph_module(region: Region, outputs: list[_Ref]) -> GraphModule:
    """Return the graph of what is recorded."""
    graph = Graph()
    names = _input_names(region)
    nodes: list[Any] = []
    items: dict[tuple[int, tuple[int, ...]], Any] = {}
    given = iter(region.inputs)

    def node(ref: _Ref) -> Any:
        found = nodes[ref.index]
        for end in range(1, len(ref.path) + 1):
            place = (ref.index, ref.path[:end])
            if place not in items:
                items[place] = graph.call_function(operator.getitem, (found, ref.path[end - 1]))
            found = items[place]
        return found

    last_input = None
    for call in region.calls:
        if call.target is None:
            value = next(given)
            name = names.get(id(value)) or f"tensor_{len(nodes)}"
            name = "".join(c if c.isalnum() or c == "_" else "_" for c in name) + "_"
            kind = torch.nn.Parameter if isinstance(value, torch.nn.Parameter) else Tensor
            # Parameters stand before everything else.
            if last_input is not None:
                place: Any = graph.inserting_after(last_input)
            else:
                first = next(iter(graph.nodes), None)
                place = graph.inserting_before(first) if first is not None else contextlib.nullcontext()
            with place:
                last_input = graph.create_node("placeholder", name, name=name.lower(), type_expr=kind)
            nodes.append(last_input)
            continue
        args, kwargs = _map_refs(call.args, node), _map_refs(call.kwargs, node)
        made = graph.create_node("call_method" if call.is_method else "call_function", call.target, args, kwargs)
        if call.line:
            made.meta["stack_trace"] = call.line
        nodes.append(made)
    if region.settings[0] != region.first_settings[0]:
        graph.call_function(_C._set_grad_enabled, (region.first_settings[0],))
    graph.output(tuple(node(ref) for ref in outputs))
    made_module = GraphModule(torch.nn.Module(), graph)
    _describe(made_module, region.inputs, region.first_settings)
    return made_module


def _describe(module: GraphModule, inputs: list[Tensor], settings: tuple[Any, ...]) -> None:
    """Note a description of the value of each node, under ``example_value``."""
    from ..fx import Interpreter

    class Note(Interpreter):
        def run_node(self, n: Any) -> Any:
            result = super().run_node(n)
            if n.op != "output" and _has_tensor(result):
                n.meta["example_value"] = result
            return result

    mode = _fake.FakeTensorMode(allow_non_fake_inputs=True)
    fakes = []
    for value in inputs:
        fake = _C._fake_of(value)
        with torch.enable_grad():
            fake = fake.requires_grad_(value.requires_grad)
            fakes.append(fake.clone() if value.requires_grad and not value.is_leaf else fake)
    with mode, _under(settings), contextlib.suppress(Exception):
        Note(module).run(*fakes)
    _C._set_grad_enabled(_settings()[0])
