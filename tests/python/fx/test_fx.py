"""Modules and functions become graphs, and graphs become code with PyTorch's text."""

import copy
import json
import math
import operator
import pathlib
import pickle
import subprocess
import sys

import pytest

import pytpu as torch
from pytpu import fx, nn
from pytpu.fx.proxy import GraphAppendingTracer, TraceError

GOLDENS = pathlib.Path(__file__).parents[1] / "goldens"
sys.path.insert(0, str(GOLDENS))
import fx_programs  # noqa: E402

RECORDED = json.loads((GOLDENS / "fx.json").read_text())


@pytest.fixture(scope="module")
def texts():
    return fx_programs.texts(torch)


@pytest.mark.parametrize("name", RECORDED)
def test_graphs_and_code_are_pytorchs(name, texts):
    assert texts[name] == RECORDED[name]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.ones(4), persistent=False)

    def forward(self, x, y=2):
        return torch.relu(self.linear(x) + self.scale) * y + self.shift


@fx.wrap
def positive(x):
    return x if bool((x > 0).all()) else -x


def uses_wrapped(x):
    return positive(x + 1) * 2 + positive(torch.tensor(-3.0))


fx.wrap("len")


def uses_len(x):
    return len(x) + 1


def test_a_traced_module_computes_the_same_and_trains():
    module = Block()
    traced = fx.symbolic_trace(module)
    x = torch.randn(3, 4)
    assert torch.equal(traced(x), module(x)) and torch.equal(traced(x, 5), module(x, 5))
    assert type(traced).__name__ == "Block" and traced.linear is module.linear
    traced(x).sum().backward()
    assert module.scale.grad is not None and set(traced.state_dict()) == set(module.state_dict())


def test_conditions_and_loops_on_traced_values_are_refused():
    said = "symbolically traced variables cannot be used as inputs to control flow"
    with pytest.raises(TraceError, match=said):
        fx.symbolic_trace(lambda x: x if x else -x)
    with pytest.raises(TraceError, match="Proxy object cannot be iterated"):
        fx.symbolic_trace(lambda x: [i for i in x])
    with pytest.raises(RuntimeError, match="'len' is not supported in symbolic tracing by default"):
        fx.symbolic_trace(lambda x: x.shape.__len__())
    with pytest.raises(TypeError, match=r"max_pool2d\(\) missing a required argument: 'kernel_size'"):
        fx.symbolic_trace(lambda x: nn.functional.max_pool2d(x))
    with pytest.raises(NotImplementedError, match="argument of type: <class 'set'>"):
        fx.symbolic_trace(lambda x: torch.add(x, {1}))


def test_a_tuple_on_the_left_says_how_many_items_there_are():
    def f(x):
        (a, b), c = x
        return a + b + c

    module = fx.symbolic_trace(f)
    assert module(((1, 2), 3)) == 6 and module.code.count("getitem") > 4


def test_wrapped_functions_are_called():
    module = fx.symbolic_trace(uses_wrapped)
    assert 'torch.fx._symbolic_trace.wrap("' in module.code
    assert [node.target for node in module.graph.nodes if node.op == "call_function"][1] is positive
    assert module(torch.tensor(-3.0)).item() == 7 and len(module.graph.nodes) == 7
    assert fx.symbolic_trace(uses_len)([1, 2]) == 3
    # After the trace, the functions are what they were.
    assert positive(torch.tensor(-1.0)).item() == 1 and len([1]) == 1
    assert fx.Transformer(module).transform()(torch.tensor(-3.0)).item() == 7


def test_functions_of_math_are_called():
    module = fx.symbolic_trace(lambda x: math.sqrt(x) + 1)
    assert module(4) == 3 and "math_sqrt(x)" in module.code


def test_marks_of_tracing():
    assert not isinstance(torch.ones(1), fx.Proxy)
    with pytest.raises(NotImplementedError, match="wrap must be called at the top level of a module"):
        fx.wrap(len)
    with pytest.raises(RuntimeError, match="Unsupported type for global function!"):
        fx.wrap(3)


def test_assertions_are_recorded_on_request():
    # pytest rewrites the assertions of this file.
    space = {}
    exec("def f(x):\n    assert x.sum() > 0, 'not positive'\n    return x * 2", space)
    tracer = fx.Tracer()
    tracer.trace_asserts = True
    module = fx.GraphModule({}, tracer.trace(space["f"]))
    assert module(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(AssertionError):
        module(-torch.ones(2))


def test_operators_that_write_are_refused_on_request():
    tracer = fx.Tracer()
    tracer.check_mutable_operations = True
    with pytest.raises(RuntimeError, match=r"Tried to trace mutable operation aten::sigmoid\.out\("):
        tracer.trace(lambda x, y: torch.sigmoid(x, out=y))


def test_leaves_and_paths_of_modules():
    class All(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return False

    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))
    assert [node.op for node in fx.Tracer().trace(model).nodes][1:-1] == ["call_module"] * 2
    graph = All().trace(model)
    assert not graph.find_nodes(op="call_module") and len(graph.find_nodes(op="get_attr")) == 2
    tracer = fx.Tracer()
    graph = tracer.trace(model)
    stacks = [list(node.meta["nn_module_stack"]) for node in graph.nodes if node.op == "call_module"]
    assert stacks == [["0"], ["1", "1.0"]] and tracer.node_name_to_scope["_0"][0] == "0"
    with pytest.raises(NameError, match="module is not installed as a submodule"):
        tracer.path_of_module(nn.ReLU())


def test_sizes_of_parameters_can_be_numbers():
    class Branch(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return x + 1 if self.w.shape[0] < 10 and self.w.dim() == 1 else x

    assert fx.Tracer(param_shapes_constant=True).trace(Branch()).find_nodes(op="call_function", target=operator.add)
    with pytest.raises(TraceError):
        fx.Tracer().trace(Branch())


def test_values_of_parameters_are_checked():
    module = fx.symbolic_trace(lambda x, flag: x + 1 if flag else x, concrete_args={"flag": True})
    assert module(1, True) == 2
    with pytest.raises(AssertionError, match="flag has been specialized to have value True but got another value"):
        module(1, False)
    nothing = fx.symbolic_trace(lambda x, m=None: x if m is None else m, concrete_args={"m": None})
    with pytest.raises(AssertionError, match="m has been specialized to have value None"):
        nothing(1, 2)


def test_trees_are_taken_apart():
    def f(x):
        return {"sum": x["a"] + x["b"][0]}

    module = fx.symbolic_trace(f, concrete_args={"x": {"a": fx.PH, "b": [fx.PH]}})
    assert module({"a": 1, "b": [2]}) == {"sum": 3}
    assert len(module.graph.find_nodes(op="placeholder")) == 2
    assert pickle.loads(pickle.dumps(module))({"a": 1, "b": [2]}) == {"sum": 3}
    assert fx.Interpreter(module).run({"a": 1, "b": [2]}) == {"sum": 3}


def test_stack_traces_end_with_the_line_of_the_program():
    tracer = fx.Tracer()
    tracer.record_stack_traces = True
    graph = tracer.trace(Block())
    [relu] = graph.find_nodes(op="call_function", target=torch.relu)
    assert relu.stack_trace.endswith("return torch.relu(self.linear(x) + self.scale) * y + self.shift")
    text = fx.GraphModule(tracer.root, graph).print_readable(print_output=False)
    assert f"# File: {__file__}:" in text and text.startswith("class GraphModule(torch.nn.Module):\n")


class Pair(metaclass=fx.ProxyableClassMeta):
    def __init__(self, left, right):
        self.left, self.right = left, right

    def add(self, other):
        return Pair(self.left + other.left, self.right + other.right)


def test_making_objects_of_marked_classes_is_recorded():
    module = fx.symbolic_trace(lambda x, y: x.add(Pair(y, y)))
    assert [node.target for node in module.graph.nodes][2:4] == [Pair, "add"]
    assert module(Pair(1, 2), 3).right == 5


# ---- graphs and nodes


def made():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.placeholder("y", default_value=3)
    total = graph.call_function(torch.add, (x, y), {"alpha": 2})
    relu = graph.call_method("relu", (total,))
    graph.output((relu, [x]))
    return graph, x, y, total, relu


def test_arguments_and_users_follow_each_other():
    graph, x, y, total, relu = made()
    assert list(x.users) == [total, graph.output_node()] and total.all_input_nodes == [x, y]
    total.args = (x, x)
    assert not y.users and total.all_input_nodes == [x]
    relu.replace_all_uses_with(total)
    assert graph.output_node().args == ((total, [x]),) and not relu.users
    total.update_kwarg("alpha", y)
    total.insert_arg(1, y)
    assert total.args == (x, y, x) and list(y.users) == [total]
    total.update_arg(2, 5)
    assert total.args == (x, y, 5)
    with pytest.raises(TypeError, match="'immutable_list' object does not support mutation"):
        graph.output_node().args[0][1].append(x)
    with pytest.raises(TypeError, match="'immutable_dict' object does not support mutation"):
        total.kwargs["alpha"] = 3
    with pytest.raises(RuntimeError, match=r"Tried to erase Node x but it still had 2 users in the graph: "):
        graph.erase_node(x)


def test_nodes_are_inserted_at_a_place():
    graph, x, y, total, relu = made()
    with graph.inserting_before(relu):
        neg = graph.call_function(torch.neg, (total,))
    with graph.inserting_after(x):
        abs_x = graph.call_function(torch.abs, (x,))
    names = [node.name for node in graph.nodes]
    assert names == ["x", "abs_1", "y", "add", "neg", "relu", "output"]
    assert x < abs_x < y < total < neg < relu and sorted([relu, x, neg]) == [x, neg, relu]
    assert [node.name for node in reversed(graph.nodes)] == names[::-1] and len(graph.nodes) == 7
    relu.append(neg)
    assert relu.next is neg and neg.prev is relu
    # A loop goes on where a node is erased or inserted.
    for node in graph.nodes:
        if not node.users and node.op == "call_function":
            graph.erase_node(node)
    assert [node.name for node in graph.nodes] == ["x", "y", "add", "relu", "output"]
    graph.lint()


def test_names_are_unique_and_hide_no_builtin():
    graph = fx.Graph()
    names = ["x", "x", "x_1", "max", "a.b", "3d", "lambda", "getHTTPResponse"]
    assert [graph.placeholder(name).name for name in names] == [
        "x", "x_1", "x_2", "max_1", "a_b", "_3d", "lambda_1", "get_httpresponse",
    ]  # fmt: skip


def test_lint_finds_what_is_wrong():
    graph, x, y, total, relu = made()
    relu.append(total)
    with pytest.raises(RuntimeError, match="Argument 'add' of Node 'relu' was used before it has been defined!"):
        graph.lint()
    other = fx.Graph()
    other.call_function(torch.relu, (x,))
    with pytest.raises(RuntimeError, match="Argument 'x' of Node 'relu' does not belong to this Graph"):
        other.lint()
    module = fx.GraphModule({}, made()[0])
    module.graph._insert = module.graph.output_node().prepend
    with pytest.raises(AttributeError, match="nothing"):
        module.graph.call_module("nothing")
    module.graph.create_node("call_module", "nothing")
    with pytest.raises(RuntimeError, match="target nothing references nonexistent attribute nothing of"):
        module.graph.lint()
    with pytest.raises(ValueError, match="target relu has type str but a Callable is expected"):
        fx.Graph().create_node("call_function", "relu")
    with pytest.raises(AssertionError, match="op 'call' is not in _legal_ops"):
        fx.Graph().create_node("call", "relu")


def test_dead_code_is_eliminated():
    def f(x):
        y = x + 1
        torch._assert(y, "kept")
        torch.rand(2)
        x.relu()
        return x * 2

    module = fx.symbolic_trace(f)
    assert module.graph.eliminate_dead_code()
    assert [node.name for node in module.graph.nodes] == ["x", "add", "_assert", "mul", "output"]
    assert not module.graph.eliminate_dead_code()
    assert module.graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output"))
    assert len(module.graph.nodes) == 3


def test_graphs_are_copied_into_graphs():
    graph, x, y, total, relu = made()
    copied, values = fx.Graph(), {}
    result = copied.graph_copy(graph, values)
    assert result == (values[relu], [values[x]]) and values[total].kwargs == {"alpha": 2}
    copied.output(result)
    assert str(copied) == str(graph) and str(copy.deepcopy(graph)) == str(graph)
    more = fx.Proxy(values[relu]) + 1
    assert more.node.target is operator.add and isinstance(more.tracer, GraphAppendingTracer)


def test_other_code_is_generated():
    class List(fx.CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation):
            return f"def forward(self, args: items){maybe_return_annotation}:\n    {', '.join(free_vars)}, = args"

        def additional_globals(self):
            return [("items", list)]

        def process_inputs(self, *args):
            return args[0]

    module = fx.symbolic_trace(lambda x, y: x * y)
    module.graph.set_codegen(List())
    module.recompile()
    assert module([2, 3]) == 6 and fx.Interpreter(module).run([2, 3]) == 6
    with module.graph.on_generate_code(lambda before: lambda body: ["x = x + 1\n", *body]):
        module.recompile()
    assert module([2, 3]) == 9
    module.recompile()
    assert module([2, 3]) == 6


def test_values_are_named_by_their_types():
    graph = fx.Graph()
    x = graph.placeholder("x", type_expr=dict[str, list[torch.Tensor]])
    graph.output(graph.call_function(operator.iadd, (x, 1), type_expr=int | None), type_expr=torch.Tensor)
    assert fx.GraphModule({}, graph).code.strip() == (
        "def forward(self, x : dict[str,list[torch.Tensor]]) -> torch.Tensor:\n"
        "    x += 1;  iadd : typing_Union[int,NoneType] = x;  x = None\n"
        "    return iadd"
    )


# ---- graph modules


def test_graph_modules_are_copied_and_pickled(tmp_path):
    traced = fx.symbolic_trace(Block()).eval()
    x = torch.randn(2, 4)
    for other in (pickle.loads(pickle.dumps(traced)), copy.deepcopy(traced), copy.copy(traced)):
        assert torch.equal(other(x), traced(x)) and other.code == traced.code and not other.training
        assert str(other.graph) == str(traced.graph) and set(other.state_dict()) == set(traced.state_dict())
    assert copy.deepcopy(traced).linear is not traced.linear
    torch.save(traced, tmp_path / "module.pt")
    assert torch.equal(torch.load(tmp_path / "module.pt", weights_only=False)(x), traced(x))
    with pytest.raises(RuntimeError, match="cannot be imported, so a graph that calls it cannot be written"):
        graph = fx.Graph()
        graph.output(graph.call_function(lambda: 1))
        pickle.dumps(fx.GraphModule({}, graph))


def test_graph_modules_are_written_as_packages(tmp_path, monkeypatch):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.act = nn.Linear(4, 4), nn.GELU()
            self.register_buffer("shift", torch.ones(4))

        def forward(self, x):
            return self.act(self.linear(x)) + self.shift

    traced = fx.symbolic_trace(Model())
    with pytest.warns(UserWarning, match=r"saved as pickled files instead: \['act'\]"):
        traced.to_folder(tmp_path / "written", "Written")
    monkeypatch.syspath_prepend(tmp_path)
    from written import Written

    x = torch.randn(2, 4)
    assert torch.equal(Written()(x), traced(x))


def test_submodules_are_added_and_deleted():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    assert traced.add_submodule("a.b.c", nn.ReLU()) and isinstance(traced.a.b.c, nn.ReLU)
    assert not traced.add_submodule("0.weight.c", nn.ReLU())
    traced.delete_all_unused_submodules()
    assert not hasattr(traced, "a") and hasattr(traced, "0")
    assert traced.delete_submodule("1") and not traced.delete_submodule("1")
    with pytest.raises(RuntimeError, match="referenced target _0 but that target was not provided in ``root``!"):
        graph = fx.Graph()
        graph.call_module("_0")
        fx.GraphModule({}, graph)


def test_errors_show_the_line_of_the_generated_code(capsys):
    traced = fx.symbolic_trace(lambda x, y: (x @ y).relu())
    traced.graph.output_node()
    with pytest.raises(RuntimeError):
        traced(torch.ones(2, 3), torch.ones(2, 3))
    assert "Call using an FX-traced Module, line 5 of the traced Module's generated" in capsys.readouterr().err


# ---- runs of graphs


def test_interpreters_run_nodes():
    class Doubled(fx.Interpreter):
        def call_method(self, target, args, kwargs):
            return 2 * super().call_method(target, args, kwargs)

    traced = fx.symbolic_trace(lambda x, y=1: x.relu() + y)
    assert Doubled(traced).run(torch.ones(1)).item() == 3
    kept = fx.Interpreter(traced, garbage_collect_values=False)
    arguments = [torch.ones(1), 5]
    assert kept.boxed_run(arguments).item() == 6 and not arguments and len(kept.env) == 5
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x, but one was not passed in!"):
        fx.Interpreter(traced).run()
    with pytest.raises(TypeError, match="While executing %add : "):
        fx.Interpreter(traced).run(torch.ones(1), "text")


def test_transformers_make_other_graphs():
    class Swap(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(torch.sigmoid if target is torch.neg else target, args, kwargs)

    traced = fx.symbolic_trace(lambda x: torch.neg(x).relu())
    x = torch.randn(3)
    assert torch.equal(Swap(traced).transform()(x), torch.sigmoid(x).relu())
    block = fx.symbolic_trace(Block())
    assert torch.equal(fx.Transformer(block).transform()(torch.ones(1, 4)), block(torch.ones(1, 4)))


def test_graphs_run_on_a_device(device):
    module = Block().to(device)
    traced = fx.symbolic_trace(module)
    x = torch.randn(3, 4, device=device)
    assert torch.equal(traced(x), module(x)) and traced(x).device.type == device
    assert torch.equal(fx.Interpreter(traced).run(x), module(x))


def test_blocks_of_the_profiler_stay_in_a_graph():
    ops = torch.ops.profiler
    graph = fx.Graph()
    x = graph.placeholder("x")
    block = graph.call_function(ops._record_function_enter, ("block",))
    result = graph.call_function(torch.neg, (x,))
    graph.call_function(ops._record_function_exit, (block,))
    graph.output(result)
    module = fx.GraphModule({}, graph)
    assert not module.graph.eliminate_dead_code()
    with torch.profiler.profile() as profile:
        assert module(torch.ones(1)).item() == -1
    assert [event.key for event in profile.key_averages()] == ["block"]


def test_calls_of_operators_without_proxies_are_not_recorded():
    assert torch.ops.aten.relu(torch.tensor(-1.0)).item() == 0
    assert torch.ops.aten.sym_size.int(torch.ones(2, 3), 1) == 3
    graph = fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.ones(2, 3)
    size = graph.create_size_node(x, 1)
    assert size.meta["val"] == 3 and graph.create_stride_node(x, 0).meta["val"] == 3
    graph.output(size)
    assert fx.GraphModule({}, graph)(torch.ones(4, 5)) == 5


def test_the_package_is_imported_without_fx():
    code = "import sys, pytpu; pytpu.nn.Linear(1, 1)(pytpu.ones(1)); assert 'pytpu.fx' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
