"""`ExportedProgram.run_decompositions`: programs of functional operators.

The graph runs again with fake values. Operators that PyTorch composes of others are recorded by their parts. An
operator that writes to its operand is recorded as the one that returns the new value. The values of which the operand
is a part, and other parts of these, are computed anew when they are read.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import pytpu as torch

from .. import fx
from .._ops import HigherOrderOperator, OpOverload
from .._subclasses.fake_tensor import FakeTensorMode
from ..fx.experimental._record import Recorder, recording, without_modes
from . import _sizes
from ._verifier import ATenVerifier
from .exported_program import ExportedProgram, argument_of
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)


def default_table() -> dict[Any, Any]:
    """Return the functions that take operators apart by default.

    The table is a mark only: operators that PyTorch composes of others have their parts without an entry.
    """
    return {}


class _Base:
    """A value with memory of its own.

    Attributes:
        value: the fake tensor that it is now.
        version: how often it was written.
    """

    def __init__(self, value: Any) -> None:
        self.value, self.version = value, 0


class _Ref:
    """A tensor of the program: a value, or a part of one.

    Attributes:
        base: the value.
        chain: the views that make the part: operators with the arguments behind the first.
        value: the fake tensor.
    """

    def __init__(self, base: _Base, chain: list[Any], value: Any) -> None:
        self.base, self.chain, self.value = base, chain, value
        self.version = base.version

    def read(self) -> Any:
        """Return the fake tensor, which is made anew if its value was written."""
        if self.version != self.base.version:
            value = self.base.value
            for func, args, kwargs in self.chain:
                value = func(value, *args, **kwargs)
            self.value, self.version = value, self.base.version
        return self.value

    def write(self, value: Any) -> None:
        """Store a new value of the tensor. If it is a view, store the new value of its base too."""
        sources = [self.base.value]
        for func, args, kwargs in self.chain[:-1]:
            sources.append(func(sources[-1], *args, **kwargs))
        for source, (func, args, kwargs) in zip(reversed(sources), reversed(self.chain)):
            value = _put_back(source, value, func, args, kwargs)
        self.base.value = value
        self.base.version += 1


def _put_back(source: Any, part: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Return a value with another part in the place of that which a view takes."""
    aten = torch.ops.aten
    name = func.overloadpacket.__name__
    if name in ("select", "slice", "diagonal", "as_strided"):
        return getattr(aten, f"{name}_scatter").default(source, part, *args, **kwargs)
    if name in ("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten", "unflatten", "view_as"):
        return aten.view.default(part, list(source.shape))
    if name in ("detach", "alias", "lift_fresh"):
        return part
    if name == "t":
        return aten.t.default(part)
    if name in ("transpose", "swapaxes", "swapdims"):
        return func(part, *args, **kwargs)
    if name == "permute":
        order = [d % source.dim() for d in args[0]]
        return aten.permute.default(part, [order.index(d) for d in range(source.dim())])
    raise NotImplementedError(f"run_decompositions: a write to a part that {func} takes is not made functional")


class _Run:
    """One run of a program with fake values. It has the attributes of a capture (`_trace.Capture`)."""

    def __init__(
        self,
        module: fx.GraphModule,
        leaves: Sequence[Any],
        input_kinds: Sequence[InputKind],
        table: Mapping[Any, Any],
        keeps: bool,
    ) -> None:
        self.graph = fx.Graph()
        self.inputs: list[fx.Node] = []
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        self.recorder = Recorder(self.graph, self._constant, keeps_compositions=keeps, rules=dict(table))
        # By node. Arguments of nodes, which have a wide type, are looked up in it.
        self.env: dict[Any, Any] = {}
        self.placeholders: list[fx.Node] = []
        remaining = list(leaves)
        nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
        self.bases: list[_Base | None] = []
        for node, kind in zip(nodes, input_kinds):
            value = node.meta["val"]
            if kind == InputKind.USER_INPUT:
                value = remaining.pop(0)
            self._placeholder(node, value, kind == InputKind.USER_INPUT)
        with self.mode, recording(self.recorder):
            self._nodes(module)
            output = next(iter(reversed(module.graph.nodes)))
            results: Any = fx.node.map_arg(output.args[0], self._read)
            self.out_leaves = list(results) if isinstance(results, (list, tuple)) else [results]
        self.results = [self.recorder.node_of(v) if isinstance(v, torch.Tensor) else v for v in self.out_leaves]
        self.written = {
            i: self.recorder.node_of(base.value)
            for i, base in enumerate(self.bases)
            if base is not None and base.version
        }
        self.out_spec = None

    def _constant(self, tensor: torch.Tensor) -> fx.Node:
        raise NotImplementedError("run_decompositions: an operator computes with a tensor from outside the program")

    def _placeholder(self, node: fx.Node, value: Any, is_input: bool) -> None:
        made = self.graph.placeholder(node.name)
        made.name = node.name
        self.placeholders.append(made)
        if isinstance(value, torch.Tensor):
            with without_modes():
                fake = torch._C._fake_of(value.detach()).requires_grad_(value.requires_grad)
                if isinstance(value, torch.nn.Parameter):
                    fake = torch.nn.Parameter(fake, value.requires_grad)
            made.meta["val"] = fake
            self.recorder.track(fake, made)
            base = _Base(fake)
            self.bases.append(base)
            self.env[node] = _Ref(base, [], fake)
        else:
            made.meta["val"] = value
            self.bases.append(None)
            self.env[node] = int(value) if isinstance(value, torch.SymInt) else value
        if is_input:
            self.inputs.append(made)

    def _read(self, node: fx.Node) -> Any:
        value = self.env[node]
        if isinstance(value, _Ref):
            return value.read()
        if isinstance(value, (list, tuple)):
            return type(value)(v.read() if isinstance(v, _Ref) else v for v in value)
        return value

    def _nodes(self, module: fx.GraphModule) -> None:
        for node in module.graph.nodes:
            if node.op == "get_attr":
                self.env[node] = module.get_submodule(str(node.target))
            elif node.op == "call_function":
                last = self.graph._root._prev
                self.env[node] = self._call(node)
                while last.next is not self.graph._root:
                    last = last.next
                    for key in ("stack_trace", "nn_module_stack", "torch_fn"):
                        if key in node.meta:
                            last.meta.setdefault(key, node.meta[key])

    def _call(self, node: fx.Node) -> Any:
        import operator

        target: Any = node.target
        if target is operator.getitem and isinstance(node.args[0], fx.Node):
            return self.env[node.args[0]][node.args[1]]
        if isinstance(target, HigherOrderOperator):
            return self._higher(node)
        args = fx.node.map_arg(node.args, self._read)
        kwargs = fx.node.map_arg(node.kwargs, self._read)
        if not isinstance(target, OpOverload):
            return target(*args, **kwargs)
        try:
            schema = target._schema
        except AttributeError:
            return self._wrapped(target(*args, **kwargs))
        if target is torch.ops.aten.batch_norm.default and args[5] and args[3] is not None:
            return self._batch_norm(node, args)
        if target is torch.ops.aten.dropout.default and args[2] and not self.recorder.keeps_compositions:
            return self._wrapped(torch.ops.aten.native_dropout.default(*args)[0])
        if schema.is_mutable:
            return self._write(node, target, schema, args, kwargs)
        result = self._plain(target, args, kwargs)
        first = self.env.get(node.args[0]) if node.args and isinstance(node.args[0], fx.Node) else None
        if isinstance(first, _Ref) and _is_view(target, args, result):
            return _Ref(first.base, [*first.chain, (target, args[1:], kwargs)], result)
        return self._wrapped(result)

    def _plain(self, target: OpOverload, args: Any, kwargs: Any) -> Any:
        """Call an operator. One whose parts have no names in aten is recorded as a whole."""
        last = self.graph._root._prev
        try:
            result = target(*args, **kwargs)
        except RuntimeError:
            if target is not torch.ops.aten.view.default:
                raise
            # Parts of an operator may have other strides than the operator.
            return torch.ops.aten.reshape.default(*args, **kwargs)
        made = []
        while last.next is not self.graph._root:
            last = last.next
            made.append(last)
        if any(getattr(node.target, "namespace", "") == "prims" for node in made):
            for node in reversed(made):
                self.graph.erase_node(node)
            with without_modes():
                result = target(*args, **kwargs)
            self.recorder.record(target, args, kwargs, result)
        return result

    @staticmethod
    def _wrapped(result: Any) -> Any:
        if isinstance(result, torch.Tensor):
            return _Ref(_Base(result), [], result)
        if isinstance(result, (list, tuple)):
            return [_Ref(_Base(v), [], v) if isinstance(v, torch.Tensor) else v for v in result]
        return result

    def _batch_norm(self, node: fx.Node, args: Any) -> Any:
        """Record the operator that returns the running statistics."""
        x, weight, bias, mean, var, training, momentum, eps = args[:8]
        found = torch.ops.aten._native_batch_norm_legit_functional.default(
            x, weight, bias, mean, var, training, momentum, eps
        )
        for at, value in ((3, found[3]), (4, found[4])):
            ref = self.env[node.args[at]]
            ref.write(value)
        return self._wrapped(found[0])

    def _write(self, node: fx.Node, target: OpOverload, schema: Any, args: Any, kwargs: Any) -> Any:
        written = [i for i, argument in enumerate(schema.arguments) if argument.is_write]
        name = target.overloadpacket.__name__
        if written != [0] or kwargs.get("out") is not None or not name.endswith("_") or not node.args:
            raise NotImplementedError(f"run_decompositions: {target} is not made functional")
        ref = self.env[node.args[0]]
        value = _functional(target, name, args, kwargs)
        if name in ("squeeze_", "unsqueeze_", "transpose_", "t_", "swapaxes_", "swapdims_", "as_strided_"):
            # Only the form changes.
            view = getattr(getattr(torch.ops.aten, name[:-1]), target._overloadname)
            ref.chain, ref.value, ref.version = [*ref.chain, (view, args[1:], kwargs)], value, ref.base.version
            return ref
        if name == "detach_":
            return ref
        before = args[0]
        if value.dtype != before.dtype:
            value = torch.ops.aten._to_copy.default(value, dtype=before.dtype)
        if value.shape != before.shape:
            value = torch.ops.aten.expand.default(value, list(before.shape))
        ref.write(value)
        if not ref.chain:
            ref.value, ref.version = value, ref.base.version
        return ref

    def _higher(self, node: fx.Node) -> Any:
        higher = torch.ops.higher_order
        if node.target is higher.wrap_with_set_grad_enabled:
            _, module, *operands = node.args
            inner = self.env[module]
            for made, value in zip([n for n in inner.graph.nodes if n.op == "placeholder"], operands):
                self.env[made] = self.env[value]
            self._nodes(inner)
            output: Any = next(iter(reversed(inner.graph.nodes))).args[0]
            return [self.env[result] for result in output]
        if node.target is higher.cond:
            pred, yes, no, operands = fx.node.map_arg(node.args, self._read)
            return self._wrapped(self.recorder.record_choice(pred, yes, no, operands))
        raise NotImplementedError(f"run_decompositions: {node.target} is not taken apart")


def _is_mutable(target: Any) -> bool:
    """Return whether an operator writes to an operand."""
    if not isinstance(target, OpOverload):
        return False
    try:
        return target._schema.is_mutable
    except AttributeError:
        return False


def _is_view(target: OpOverload, args: Any, result: Any) -> bool:
    """Return whether the result of an operator is a part of its first operand."""
    if not isinstance(result, torch.Tensor) or not target.is_view:
        return False
    name = target.overloadpacket.__name__
    if result is args[0]:
        return True
    if name in ("reshape", "flatten"):
        return bool(args[0].is_contiguous())
    return name not in ("contiguous", "to", "type_as", "expand", "expand_as", "broadcast_to")


def _functional(target: OpOverload, name: str, args: Any, kwargs: Any) -> Any:
    """Return the value that an operator writes."""
    aten = torch.ops.aten
    if name == "copy_":
        source = args[1]
        if source.dtype != args[0].dtype or source.device != args[0].device:
            source = aten._to_copy.default(source, dtype=args[0].dtype, device=args[0].device)
        return aten.expand.default(source, list(args[0].shape)) if source.shape != args[0].shape else source
    if name == "zero_":
        return aten.full_like.default(args[0], 0)
    if name == "fill_":
        if isinstance(args[1], torch.Tensor):
            return aten.expand.default(args[1], list(args[0].shape))
        return aten.full_like.default(args[0], args[1])
    if name == "normal_":
        return aten.normal_functional.default(*args, **kwargs)
    packet = getattr(aten, name[:-1])
    # A default may be written out only for the operator that writes.
    for argument in target._schema.arguments[len(args) :]:
        if argument.kwarg_only or argument.name in kwargs:
            break
        args = (*args, argument.default_value)
    overload = {"bernoulli_": {"float": "p"}}.get(name, {}).get(target._overloadname, target._overloadname)
    found = getattr(packet, overload if overload in packet.overloads() else packet.overloads()[0])
    return found(*args, **kwargs)


def decomposed(program: ExportedProgram, table: Mapping[Any, Any]) -> ExportedProgram:
    """Return a program of functional operators. See `ExportedProgram.run_decompositions`."""
    from .decomp_utils import CustomDecompTable

    # Without entries, every operator of the program stays whole.
    keeps = getattr(table, "keeps_compositions", not isinstance(table, CustomDecompTable) and not table)
    signature = program.graph_signature
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    inputs = [n for n, spec in zip(nodes, signature.input_specs) if spec.kind == InputKind.USER_INPUT]
    plan = _sizes.plan_of(program, inputs)
    leaves = [node.meta["val"] for node in inputs]

    kinds_of_inputs = [spec.kind for spec in signature.input_specs]

    def run(values: Sequence[Any]) -> Any:
        found = _Run(program.graph_module, values, kinds_of_inputs, table, keeps)
        if not any(_is_mutable(node.target) for node in found.graph.nodes):
            return found
        # Parts of operators write to values of their own.
        written = list(found.written)
        found.graph.output((*found.results, *(found.written[i] for i in written)))
        root = torch.nn.Module()
        for name, inner in found.recorder.graphs.items():
            root.add_module(name, inner)
        again = _Run(fx.GraphModule(root, found.graph), values, kinds_of_inputs, table, keeps)
        count = len(found.results)
        again.written = dict(zip(written, again.results[count:]))
        again.results = again.results[:count]
        return again

    made: Any = plan.run(leaves, run)
    graph = made.graph
    mutations: list[tuple[fx.Node, OutputSpec]] = []
    kinds = {
        InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
        InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
        InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
    }
    for i, node in made.written.items():
        spec = signature.input_specs[i]
        if spec.kind not in kinds:
            raise NotImplementedError("run_decompositions: the program writes to a constant")
        target = spec.arg.name if spec.kind == InputKind.USER_INPUT else spec.target
        mutations.append((node, OutputSpec(kinds[spec.kind], TensorArgument(node.name), target)))
    order = list(kinds.values())
    mutations.sort(key=lambda pair: order.index(pair[1].kind))
    # Programs that are functional already have their results first.
    old = [(node, spec) for node, spec in zip(made.results, signature.output_specs)]
    before = [(n, copy.deepcopy(s)) for n, s in old if s.kind != OutputKind.USER_OUTPUT]
    user = [n for n, s in old if s.kind == OutputKind.USER_OUTPUT]
    results = [n for n, _ in before] + [n for n, _ in mutations] + user
    output = graph.output(tuple(results))
    output.meta["val"] = tuple(r.meta["val"] if isinstance(r, fx.Node) else r for r in results)
    plan.write_sizes(graph, made.inputs)
    graph.eliminate_dead_code()
    for node in graph.nodes:
        node.meta.pop("_modes", None)
    outputs = []
    for node, spec in before:
        outputs.append(OutputSpec(spec.kind, TensorArgument(node.name), spec.target))
    outputs += [OutputSpec(s.kind, TensorArgument(n.name), s.target) for n, s in mutations]
    outputs += [OutputSpec(OutputKind.USER_OUTPUT, argument_of(n), None) for n in user]
    input_specs = [
        InputSpec(
            s.kind,
            s.arg if isinstance(s.arg, ConstantArgument) else type(s.arg)(node.name),  # type: ignore[call-arg]
            s.target,
            s.persistent,
        )
        for s, node in zip(signature.input_specs, made.placeholders)
    ]
    root = torch.nn.Module()
    for name, inner in made.recorder.graphs.items():
        root.add_module(name, inner)
    decomposed_program = ExportedProgram(
        root,
        graph,
        ExportGraphSignature(input_specs, outputs),
        dict(program.state_dict),
        dict(program.range_constraints),
        copy.deepcopy(program.module_call_graph),
        program.example_inputs,
        dict(program.constants),
        verifiers=[ATenVerifier],
    )
    decomposed_program._guards_code = list(program._guards_code)
    return decomposed_program
