"""Passes of `torch.fx` analyse graphs, change them and divide them."""

import importlib
import operator
from typing import Any

import pytest

import pytpu as torch
from pytpu import fx, nn
from pytpu.fx import subgraph_rewriter
from pytpu.fx.annotate import annotate
from pytpu.fx.experimental import const_fold, merge_matmul, optimization
from pytpu.fx.experimental.normalize import NormalizeArgs, NormalizeOperators
from pytpu.fx.experimental.rewriter import RewritingTracer
from pytpu.fx.operator_schemas import (
    create_type_hint,
    get_signature_for_torch_op,
    normalize_function,
    type_matches,
)
from pytpu.fx.passes import graph_manipulation, pass_manager, split_utils
from pytpu.fx.passes.dialect.common.cse_pass import CSEPass
from pytpu.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from pytpu.fx.passes.infra.pass_base import PassBase, PassResult
from pytpu.fx.passes.infra.pass_manager import (
    PassManager,
    pass_result_wrapper,
    this_before_that_pass_constraint,
)
from pytpu.fx.passes.operator_support import OperatorSupport, OpSupports, any_chain, chain, create_op_support
from pytpu.fx.passes.shape_prop import ShapeProp
from pytpu.fx.passes.split_module import split_module, split_module_simple
from pytpu.fx.passes.tools_common import get_node_target, legalize_graph, stable_topological_sort
from pytpu.fx.passes.utils import compare_graphs
from pytpu.fx.passes.utils.fuser_utils import fuse_by_partitions
from pytpu.fx.passes.utils.matcher_utils import SubgraphMatcher
from pytpu.fx.passes.utils.matcher_with_name_node_map_utils import SubgraphMatcherWithNameNodeMap
from pytpu.fx.passes.utils.source_matcher_utils import check_subgraphs_connected, get_source_partitions
from pytpu.fx.tensor_type import Dyn, TensorType, is_consistent, is_more_precise


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.full((4,), 2.0))

    def forward(self, x, y=1):
        a = self.linear(x) + self.scale
        b = torch.relu(a) * y
        return a - b, b


def names(module):
    return [node.name for node in module.graph.nodes]


# ---- replacement


def test_patterns_are_replaced():
    def f(x, y):
        a = torch.cat([x, y]).sum()
        b = torch.cat([x, y]).sum()
        return a + b

    module = fx.symbolic_trace(f)
    matches = fx.replace_pattern(module, lambda a, b: torch.cat([a, b]), lambda a, b: torch.stack([a, b]))
    assert [match.anchor.target for match in matches] == [torch.cat] * 2
    # PyTorch 2.15 writes this text.
    assert module.code.strip().split("\n")[1:] == [
        "    stack = torch.stack([x, y])",
        "    sum_1 = stack.sum();  stack = None",
        "    stack_1 = torch.stack([x, y]);  x = y = None",
        "    sum_2 = stack_1.sum();  stack_1 = None",
        "    add = sum_1 + sum_2;  sum_1 = sum_2 = None",
        "    return add",
    ]
    x = torch.ones(2)
    assert module(x, x).item() == 8


def test_a_part_that_is_used_elsewhere_is_no_match():
    module = fx.symbolic_trace(lambda x: (lambda a: torch.neg(a) + a)(torch.relu(x)))
    assert fx.replace_pattern(module, lambda x: torch.neg(torch.relu(x)), lambda x: x.abs()) == []
    with pytest.raises(AssertionError, match="cannot be initialized with a pattern with dead code"):
        fx.replace_pattern(module, lambda x: (torch.neg(x), torch.relu(x))[1], lambda x: x)


def test_replacements_bring_their_modules():
    class New(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear2 = nn.Linear(4, 4)

        def forward(self, x):
            return self.linear2(x)

    module = fx.symbolic_trace(lambda x: torch.relu(x))
    fx.replace_pattern(module, lambda x: torch.relu(x), New())
    assert module(torch.ones(1, 4)).shape == (1, 4) and isinstance(module.linear2, nn.Linear)


def test_matches_are_filtered_and_literals_ignored():
    module = fx.symbolic_trace(lambda x: torch.add(x, 1).relu() + torch.add(x, 2).relu())
    made = subgraph_rewriter.replace_pattern_with_filters(
        module,
        lambda x: torch.add(x, 5),
        lambda x: torch.sub(x, 7),
        [lambda match, graph, pattern: match.anchors[0].graph is pattern],
        ignore_literals=True,
    )
    assert [match.replacements[0].target for match in made] == [torch.sub] * 2 and "add(" not in module.code
    none = subgraph_rewriter.replace_pattern_with_filters(
        module, lambda x: torch.sub(x, 7), lambda x: x, [lambda *_: False]
    )
    assert none == []


def test_nodes_of_a_match_have_names():
    pattern = fx.symbolic_trace(
        lambda a: (torch.relu(a["x"]), {"relu": torch.relu(a["x"])}), concrete_args={"a": {"x": fx.PH}}
    )
    pattern.graph.output_node().args = ([pattern.graph.output_node().args[0][0]] * 2,)
    pattern.graph.eliminate_dead_code()
    matcher = SubgraphMatcherWithNameNodeMap(pattern)
    graph = fx.symbolic_trace(lambda x: torch.relu(x.neg()).sum()).graph
    [match] = matcher.match(graph)
    assert match.name_node_map["relu"].target is torch.relu and match.placeholder_nodes[0].target == "neg"


def test_graphs_are_compared():
    def graph(f):
        return fx.symbolic_trace(f).graph

    assert compare_graphs(graph(lambda x, y: x + y), graph(lambda a, b: a + b))
    assert not compare_graphs(graph(lambda x, y: x + y), graph(lambda a, b: b - a))
    assert len(SubgraphMatcher(graph(lambda x: torch.relu(x))).match(graph(lambda x: torch.relu(torch.relu(x))))) == 2


# ---- analyses


def test_sizes_and_dtypes_are_noted():
    module = fx.symbolic_trace(Model())
    module.graph.find_nodes(op="placeholder")[1].args = (torch.ones(()),)
    ShapeProp(module).propagate(torch.ones(2, 4))
    found = {node.name: node.meta["tensor_meta"] for node in module.graph.nodes if "tensor_meta" in node.meta}
    assert found["relu"].shape == (2, 4) and found["relu"].dtype is torch.float32 and found["relu"].stride == (4, 1)
    assert found["scale"].requires_grad and found["output"][1].memory_format is torch.contiguous_format
    assert 'relu: "f32[2, 4]" = torch.relu(add)' in module.print_readable(print_output=False)
    assert graph_manipulation.get_size_of_all_nodes(module) is None
    assert {n.name: n.size_bytes for n in module.graph.nodes if n.name in ("relu", "linear")} == {
        "relu": (32, 32),
        "linear": (32, 112),
    }
    with pytest.raises(RuntimeError, match="ShapeProp error for: node=%linear"):
        ShapeProp(module).propagate(torch.ones(2, 5))


def test_arguments_have_one_form():
    module = fx.symbolic_trace(lambda x: torch.nn.functional.softmax(torch.add(x, 1), -1))
    [softmax] = module.graph.find_nodes(op="call_function", target=torch.nn.functional.softmax)
    found = softmax.normalized_arguments(module, normalize_to_only_use_kwargs=True)
    assert list(found.kwargs) == ["input", "dim", "_stacklevel", "dtype"] and found.args == ()
    found = normalize_function(torch.add, (1, 2))
    assert found.args == (1, 2) and found.kwargs == {"alpha": 1}
    assert normalize_function(torch.ops.aten.relu.default, (3,), normalize_to_only_use_kwargs=True).kwargs == {
        "input": 3
    }
    assert NormalizeArgs(module).transform()(torch.zeros(2)).tolist() == [0.5, 0.5]
    linear = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    node = linear.graph.find_nodes(op="call_module")[0]
    assert list(node.normalized_arguments(linear, normalize_to_only_use_kwargs=True).kwargs) == ["input"]
    with pytest.raises(RuntimeError, match="the schema match was ambiguous! Please provide argument types"):
        normalize_function(torch.std_mean, (1,))


def test_functions_become_operators():
    module = NormalizeOperators(fx.symbolic_trace(lambda x: torch.add(torch.mul(x, 2), x, alpha=3))).transform()
    assert [node.target for node in module.graph.nodes][1:3] == [operator.mul, torch.add]
    assert module(torch.ones(1)).item() == 5


def test_types_are_compared():
    assert type_matches(int, int) and type_matches(list[int], int) and not type_matches(int, str)
    assert create_type_hint([int, bool]) == list[int] and create_type_hint((int, str)) == tuple[Any, ...]
    assert create_type_hint(3) == 3
    assert str(get_signature_for_torch_op(torch.relu)[0]).startswith("(input: ")
    assert get_signature_for_torch_op(len) is None
    t = TensorType[1, 2, Dyn]
    assert repr(t) == "TensorType[(1, 2, Dyn)]" and t == TensorType((1, 2, Dyn))
    assert is_consistent(t, TensorType((1, 2, 3))) and not is_consistent(t, TensorType((2, 2, 3)))
    assert is_more_precise(TensorType((1, 2, 3)), t) and not is_more_precise(t, TensorType((1, 2, 3)))


def test_values_are_annotated():
    graph = fx.Tracer().trace(lambda x: annotate(x + 1, int))
    assert graph.find_nodes(op="call_function", target=operator.add)[0].type is int
    with pytest.raises(RuntimeError, match="Tried to annotate a value that already had a type on it!"):
        fx.Tracer().trace(lambda x: annotate(annotate(x + 1, int), float))
    assert annotate(3, int) == 3


def test_sources_of_nodes_are_found():
    module = fx.symbolic_trace(lambda x: torch.relu(x + 1).sum())
    for node in module.graph.nodes:
        if node.op == "call_function":
            node.meta["source_fn_stack"] = [(node.name, node.target)]
    found = get_source_partitions(module.graph, [torch.relu, operator.add])
    [add], [relu] = found[operator.add], found[torch.relu]
    assert [n.name for n in add.output_nodes] == ["add"] and [n.name for n in relu.input_nodes] == ["add"]
    assert check_subgraphs_connected(add, relu) and not check_subgraphs_connected(relu, add)


# ---- division


def test_graphs_are_divided_by_a_function():
    module, counter = fx.symbolic_trace(Model()), iter(range(100))
    parts = {node: next(counter) // 2 for node in module.graph.nodes if node.op.startswith("call")}
    x, paths = torch.randn(2, 4), {}
    divided = split_module(module, module, parts.__getitem__, paths)
    assert [torch.equal(a, b) for a, b in zip(divided(x), module(x))] == [True, True]
    # PyTorch 2.15 gives the nodes these names.
    assert names(divided) == ["x", "y", "scale", "submod_0", "submod_1", "submod_2", "output"] and paths == {
        "submod_0.linear": "linear"
    }
    assert divided.meta["partition_names"] == {"submod_0", "submod_1", "submod_2"}
    simple = split_module_simple(module, parts, partition_affix="pp")
    assert torch.equal(simple(x)[1], module(x)[1]) and hasattr(simple, "submod_pp_0")
    cycle = fx.symbolic_trace(lambda x: (x + 1).relu() + 2)
    turns = iter([0, 1, 0])
    where = {node: next(turns) for node in cycle.graph.nodes if node.op.startswith("call")}
    with pytest.raises(RuntimeError, match="cycle exists between partitions!"):
        split_module(cycle, cycle, where.__getitem__)


def test_settings_hold_in_all_parts():
    graph = fx.Graph()
    x = graph.placeholder("x")
    enter = graph.call_function(torch.amp._enter_autocast, ("cpu", torch.bfloat16, True, False))
    first = graph.call_function(torch.mm, (x, x))
    second = graph.call_function(torch.mm, (x, x))
    graph.call_function(torch.amp._exit_autocast, (enter,))
    graph.output((first, second))
    module = fx.GraphModule({}, graph)
    divided = split_module(module, module, lambda node: int(node is second or "exit" in node.name))
    x = torch.ones(2, 2)
    assert [value.dtype for value in divided(x)] == [torch.bfloat16] * 2 and not torch.is_autocast_cpu_enabled()
    for part in (divided.submod_0, divided.submod_1):
        found = [node.target for node in part.graph.nodes if node.op == "call_function"]
        assert found == [torch.amp._enter_autocast, torch.mm, torch.amp._exit_autocast]


def test_graphs_are_divided_by_tags():
    module = fx.symbolic_trace(Model())
    for node in module.graph.nodes:
        node.tag = "first" if node.name in ("linear", "add") else "second"
    divided, paths = split_utils.split_by_tags(module, ["first", "second"], return_fqn_mapping=True)
    x = torch.randn(2, 4)
    assert torch.equal(divided(x, 3)[0], module(x, 3)[0]) and paths["linear"] == "first.linear"
    assert names(divided.first) == ["x", "linear", "scale", "add", "output"]


def test_parts_that_a_backend_can_run_are_proposed():
    class Adds(OperatorSupport):
        def is_node_supported(self, submodules, node):
            return node.op == "call_function" and node.target is operator.add

    def f(a, b):
        first = a + b
        second = first + b
        third = second.relu()
        return second + third + first

    module = fx.symbolic_trace(f)
    partitioner = CapabilityBasedPartitioner(module, Adds(), allows_single_node_partition=True)
    proposed = partitioner.propose_partitions()
    # PyTorch 2.15 proposes these parts.
    assert [[node.name for node in part.nodes] for part in proposed] == [["add_2", "add_3"], ["add", "add_1"]]
    fused = partitioner.fuse_partitions(proposed)
    x = torch.tensor([1.0, -4.0])
    assert fused(x, x).tolist() == f(x, x).tolist() and len(fused.graph.find_nodes(op="call_module")) == 2
    with pytest.raises(AssertionError, match="Invalid partition, found dependency cycles"):
        again = fx.symbolic_trace(f)
        nodes = {node: None for node in again.graph.nodes if node.target is operator.add}
        fuse_by_partitions(again, [nodes])


def test_questions_about_support_are_combined():
    module = fx.symbolic_trace(Model())
    ShapeProp(module).propagate(torch.ones(2, 4))
    modules = dict(module.named_modules())
    table = OperatorSupport({"torch.relu": (((torch.float32,),), {}), "torch.nn.modules.linear.Linear": None})
    by_name = OpSupports.decline_if_node_in_names({"relu"})
    nodes = {node.name: node for node in module.graph.nodes}
    assert get_node_target(modules, nodes["linear"]) == "torch.nn.modules.linear.Linear"
    assert table.is_node_supported(modules, nodes["linear"]) and table.is_node_supported(modules, nodes["relu"])
    assert not table.is_node_supported(modules, nodes["mul"])
    assert not chain(table, by_name).is_node_supported(modules, nodes["relu"])
    assert any_chain(table, by_name).is_node_supported(modules, nodes["relu"])
    assert not OpSupports.decline_if_input_dtype(torch.float32).is_node_supported(modules, nodes["relu"])
    assert create_op_support(lambda modules, node: True).is_node_supported(modules, nodes["mul"])


def test_nodes_are_sorted():
    for sort in (legalize_graph, stable_topological_sort):
        module = fx.symbolic_trace(Model())
        nodes = {node.name: node for node in module.graph.nodes}
        module.graph.output_node().prepend(nodes["linear"])
        with pytest.raises(RuntimeError, match="was used before it has been defined"):
            module.graph.lint()
        sort(module).graph.lint()
        assert module(torch.ones(1, 4))[0].shape == (1, 4)


# ---- order of passes


def test_passes_run_in_order():
    ran = []

    class First(PassBase):
        def call(self, graph_module):
            ran.append("first")
            return PassResult(graph_module, len(ran) < 3)

    def second(graph_module):
        ran.append("second")

    first, wrapped = First(), pass_result_wrapper(second)
    manager = PassManager([wrapped, first], [this_before_that_pass_constraint(first, wrapped)], steps=1)
    module = fx.symbolic_trace(lambda x: x)
    assert manager(module).modified and ran == ["first", "second"]
    with pytest.raises(RuntimeError, match="pass schedule constraint violated. Expected"):
        broken = PassManager([wrapped, first], [this_before_that_pass_constraint(first, wrapped)])
        broken.validate_constraints()
    with pytest.raises(Exception, match="An error occurred when running the 'second' pass after the following passes"):
        PassManager([second])(module)
    with pytest.raises(TypeError, match="PassManager check function should only take in one variable, a module"):
        manager.add_checks(lambda a, b: None)
    looped = pass_manager.loop_pass(lambda x: x + 1, n_iter=3)
    assert pass_manager.PassManager([looped, looped])(0) == 6


# ---- changes


def test_batch_norms_are_folded_and_dropout_is_removed():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5)).eval()
    model[1].running_mean.normal_()
    model[1].running_var.uniform_(1, 2)
    x = torch.randn(2, 3, 8, 8)
    fused = optimization.fuse(model)
    assert names(fused) == ["input_1", "_0", "_2", "_3", "output"]
    assert torch.allclose(fused(x), model(x), atol=1e-5) and isinstance(model[1], nn.BatchNorm2d)
    best = optimization.optimize_for_inference(model)
    assert "_3" not in names(best) and torch.allclose(best(x), model(x), atol=1e-5)


def test_constants_are_computed_once():
    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.full((2,), 3.0))

        def forward(self, x):
            return x * (self.a + self.b) - torch.relu(self.b)

    module = const_fold.split_const_subgraphs(Constant())
    assert module(torch.ones(2)).tolist() == [1, 1] and module.has_folding_been_run
    # PyTorch 2.15 gives the nodes these names.
    assert names(module) == ["x", "_fx_const_folded_attrs", "getitem", "getitem_1", "mul", "sub", "output"]


def test_products_with_one_operand_are_merged():
    class Products(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(3, 2))

        def forward(self, x, y):
            return torch.matmul(x, self.w), torch.matmul(y, self.w)

    model = Products()
    merged = merge_matmul.merge_matmul(model)
    x, y = torch.randn(4, 3), torch.randn(5, 3)
    assert len(merged.graph.find_nodes(op="call_function", target=torch.matmul)) == 1
    assert all(torch.allclose(a, b) for a, b in zip(merged(x, y), model(x, y)))


def test_equal_values_are_computed_once():
    def f(x):
        return torch.ops.aten.cos(x) + torch.ops.aten.cos(x) + torch.ops.aten.rand_like(x)

    module = fx.symbolic_trace(f)
    result = CSEPass(banned_ops={torch.ops.aten.rand_like})(module)
    assert result.modified and result.graph_module.code.count("aten.cos(") == 1


def test_assertions_become_calls():
    def f(x):
        assert x == 1, "one"
        return x + 1

    # pytest rewrites the assertions of this file, but not its text.
    module = fx.GraphModule({}, RewritingTracer().trace(f))
    assert module(1) == 2
    with pytest.raises(AssertionError, match="one"):
        module(2)


def test_targets_are_replaced():
    module = fx.symbolic_trace(lambda x: torch.sigmoid(x))
    graph_manipulation.replace_target_nodes_with(module, "call_function", torch.sigmoid, "call_method", "neg")
    assert module(torch.ones(1)).item() == -1


def test_graph_tools_that_are_not_there_say_so():
    for name in ("fx.passes.reinplace", "fx.experimental.meta_tracer", "fx.passes.fake_tensor_prop"):
        with pytest.raises(ModuleNotFoundError, match=r"needs sizes that are symbols, or type checkers"):
            importlib.import_module(f"torch.{name}")
