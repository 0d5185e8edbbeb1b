"""Modules are exported: the operators that they call, for the sizes that may change."""

import copy
import io
import pathlib
import sys
import zipfile

import pytest

import pytpu as torch
from pytpu import nn
from pytpu._dynamo.exc import UserError
from pytpu.export import AdditionalInputs, Dim, ShapesCollection, dims, export
from pytpu.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes
from pytpu.fx.experimental.symbolic_shapes import ConstraintViolationError, GuardOnDataDependentSymNode
from pytpu.utils import _pytree as pytree

GOLDENS = pathlib.Path(__file__).resolve().parents[1] / "goldens"
sys.path.insert(0, str(GOLDENS))
import export_programs  # noqa: E402

PROGRAMS = export_programs.programs(torch)
with zipfile.ZipFile(GOLDENS / "export_programs.zip") as _zip:
    TEXTS = {name: _zip.read(f"{name}.txt").decode() for name in PROGRAMS}
#: Programs whose graph is PyTorch's. The others have other names of nodes, or another way to write the same.
SAME = ("perceptron", "residual", "residual_training", "writes_input", "trees", "dtypes")


def lines(text):
    return [line.strip() for line in text.splitlines() if line.strip() and "# " not in line]


def check(x, y):
    found, spec = pytree.tree_flatten(x)
    wanted, same = pytree.tree_flatten(y)
    assert spec == same
    for a, b in zip(found, wanted, strict=True):
        if isinstance(b, torch.Tensor):
            torch.testing.assert_close(a.cpu(), b.cpu())
        else:
            assert a == b


def graph_of(program):
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


class Of(nn.Module):
    """A module of one function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y=None):
        return self.function(x) if y is None else self.function(x, y)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_do_what_modules_do(name):
    module, args, kwargs, shapes = PROGRAMS[name]
    before = copy.deepcopy(module.state_dict())
    program = export(module, copy.deepcopy(args), copy.deepcopy(kwargs), dynamic_shapes=shapes)
    check(module.state_dict(), before)
    ours, others = copy.deepcopy(args), copy.deepcopy(args)
    torch.manual_seed(3)
    expected = copy.deepcopy(module)(*others, **kwargs)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    for run in (program.module(), torch.export.load(buffer).module(), torch.export.unflatten(program)):
        torch.manual_seed(3)
        values = copy.deepcopy(ours)
        # Programs change the buffers that they share with the module.
        state = copy.deepcopy(dict(run.named_buffers()))
        check(run(*values, **kwargs), expected)
        check(values, others)
        for key, value in run.named_buffers():
            value.copy_(state[key])


@pytest.mark.parametrize("name", SAME)
def test_graphs_are_those_of_pytorch(name):
    module, args, kwargs, shapes = PROGRAMS[name]
    assert lines(str(export(module, args, kwargs, dynamic_shapes=shapes))) == lines(TEXTS[name])


@pytest.mark.parametrize("name", [name for name, case in PROGRAMS.items() if case[3]])
def test_sizes_of_values_are_those_of_pytorch(name):
    module, args, kwargs, shapes = PROGRAMS[name]
    program = export(module, args, kwargs, dynamic_shapes=shapes)
    assert lines(str(program))[-1] == lines(TEXTS[name])[-1]
    if name == "sizes":
        # The same number is written as another expression.
        return
    found = {line.partition(" = ")[0].partition(": ")[2] for line in lines(str(program))}
    wanted = {line.partition(" = ")[0].partition(": ")[2] for line in lines(TEXTS[name])}
    assert found == wanted


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("perceptron", [(7, 4), (64, 4)]),
        ("residual", [(5, 3, 17, 17)]),
        ("by_hand", [(3, 9, 8), (5, 2, 8)]),
        ("sizes", [(9, 6), (3, 6)]),
    ],
)
def test_programs_take_other_sizes(name, sizes):
    module, args, kwargs, shapes = PROGRAMS[name]
    run = export(module, args, kwargs, dynamic_shapes=shapes).module()
    for size in sizes:
        x = torch.randn(size)
        check(run(x), module(x))


def test_a_network_takes_images_of_any_size():
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3, 2), nn.MaxPool2d(3, 2, 1), nn.Conv2d(4, 8, 5, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    height, width = dims("height", "width", min=16)
    program = export(net, (torch.randn(2, 3, 33, 40),), dynamic_shapes=({0: Dim("batch"), 2: height, 3: width},))
    for size in ((1, 3, 33, 40), (3, 3, 16, 71), (2, 3, 90, 17)):
        x = torch.randn(size)
        check(program.module()(x), net(x))
    sizes = [str(node.meta["val"].shape) for node in program.graph.nodes if "conv2d" in node.name]
    assert sizes[0].startswith("torch.Size([s77, 4, ((s53 - 1)//2), ((s") or "//2" in sizes[0]


def test_programs_run_on_device_tpu():
    from pytpu.export.passes import move_to_device_pass

    module, args, kwargs, shapes = PROGRAMS["attention"]
    program = export(module, args, kwargs, dynamic_shapes=shapes)
    expected = module(*args)
    check(move_to_device_pass(program, "tpu").module()(args[0].to("tpu")), expected)


def test_modules_on_device_tpu_are_exported():
    module = nn.Linear(3, 2).to("tpu")
    program = export(module, (torch.ones(4, 3, device="tpu"),))
    assert graph_of(program) == ["aten.linear.default"]
    check(program.module()(torch.ones(4, 3, device="tpu")), module(torch.ones(4, 3, device="tpu")))


# ---- what is in a program


def test_tensors_that_are_no_weights_become_constants():
    scale = torch.tensor([2.0, 3.0])

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.own = torch.tensor([1.0, 1.0])

        def forward(self, x):
            return x * scale + self.own + torch.tensor([0.5, 0.25])

    program = export(Scaled(), (torch.ones(2),))
    assert sorted(program.constants) == ["lifted_tensor_0", "lifted_tensor_2", "own"] or len(program.constants) == 3
    assert "own" in program.constants
    check(program.module()(torch.ones(2)), torch.tensor([3.5, 4.25]))


def test_values_of_numpy_and_lists_are_kept():
    numpy = pytest.importorskip("numpy")
    program = export(
        Of(lambda x: x[[2, 0]] + torch.from_numpy(numpy.array([1.0, 2.0], dtype="float32"))), (torch.zeros(3),)
    )
    check(program.module()(torch.arange(3.0)), torch.tensor([3.0, 2.0]))


def test_a_tensor_that_is_passed_twice_is_two_inputs():
    x = torch.ones(3)
    run = export(Of(lambda x, y: x - y), (x, x)).module()
    check(run(torch.ones(3), torch.zeros(3)), torch.ones(3))


def test_buffers_that_are_assigned_are_written():
    class Average(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(2))

        def forward(self, x):
            self.mean = 0.5 * self.mean + 0.5 * x.mean(0)
            return x - self.mean

    module = Average()
    run = export(module, (torch.ones(3, 2),)).module()
    assert module.mean.tolist() == [0.0, 0.0]
    run(torch.ones(3, 2))
    run(torch.ones(3, 2))
    assert run.mean.tolist() == [0.75, 0.75]


def test_blocks_without_gradient_stay():
    module = export(PROGRAMS["without_gradient"][0], (torch.ones(2, 3),)).module()
    x = torch.ones(2, 3)
    ours = torch.autograd.grad(module(x).sum(), list(module.parameters()))
    plain = PROGRAMS["without_gradient"][0]
    check(ours, torch.autograd.grad(plain(x).sum(), list(plain.parameters())))


def test_blocks_of_autocast_stay():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = self.linear(x)
            return y, self.linear(x)

    module = Mixed()
    program = export(module, (torch.ones(2, 3),))
    assert graph_of(program)[0] == "wrap_with_autocast"
    found = program.module()(torch.ones(2, 3))
    assert [y.dtype for y in found] == [torch.bfloat16, torch.float32]
    check(found, module(torch.ones(2, 3)))


def test_a_choice_is_a_value():
    program = export(PROGRAMS["chosen"][0], (torch.ones(2, 5),))
    assert "cond" in graph_of(program)
    for x in (torch.ones(2, 5), -torch.ones(2, 5)):
        check(program.module()(x), PROGRAMS["chosen"][0](x))


def test_nodes_know_their_modules_and_lines():
    program = export(PROGRAMS["residual"][0], PROGRAMS["residual"][1])
    node = next(node for node in program.graph.nodes if node.name == "batch_norm")
    assert [path for path, _ in node.meta["nn_module_stack"].values()] == ["", "blocks", "blocks.0", "blocks.0.norm1"]
    assert 'export_programs.py", line' in node.meta["stack_trace"]


# ---- sizes


def test_sizes_by_tensor_and_by_further_inputs():
    x, y = torch.ones(4, 2), torch.ones(4)
    shapes = ShapesCollection()
    shapes[x] = shapes_of_x = {0: Dim("n")}
    shapes[y] = {0: shapes_of_x[0]}
    module = Of(lambda x, y: x * y[:, None])
    assert export(module, (x, y), dynamic_shapes=shapes).module()(torch.ones(9, 2), torch.ones(9)).shape == (9, 2)
    more = AdditionalInputs()
    more.add((torch.ones(6, 2), torch.ones(6)))
    assert more.dynamic_shapes(module, (x, y)) == {"x": (Dim.DYNAMIC, None), "y": (Dim.DYNAMIC,)}
    with pytest.raises(AssertionError, match="Shapes assigned to input do not match"):
        shapes[x] = {0: Dim.AUTO}
    shapes[torch.ones(1)] = {0: Dim("m")}
    with pytest.raises(ValueError, match="Some tensors that were assigned shapes were not found in args"):
        shapes.dynamic_shapes(module, (x, y))


@pytest.mark.parametrize(
    ("make", "shown"),
    [
        (lambda: Dim("a"), "Dim('a', min=0)"),
        (lambda: Dim("a", min=2), "Dim('a')"),
        (lambda: Dim("a", max=5), "Dim('a', min=0, max=5)"),
        (lambda: Dim("a") + 1, "a + 1"),
        (lambda: 2 * Dim("a") - 1, "2*a - 1"),
        (lambda: (2 * Dim("a", min=3, max=8) + 1).max, "17"),
        (lambda: Dim.DYNAMIC(min=2, max=5), "DimHint(DYNAMIC, min=2, max=5)"),
        (lambda: Dim.AUTO, "DimHint(AUTO)"),
        (lambda: dims("a", "b"), "(Dim('a', min=0), Dim('b', min=0))"),
    ],
)
def test_names_of_sizes(make, shown):
    assert repr(make()) == shown


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: Dim("a", min=5, max=5), AssertionError, "Cannot create Dim with inconsistent min=5, max=5"),
        (lambda: Dim("1a"), AssertionError, "Dim name must be a valid identifier, got 1a"),
        (lambda: Dim("a") * -1, NotImplementedError, "Attempted to multiply -1 with a, where a positive integer was"),
        (lambda: 1 - Dim("a"), NotImplementedError, "Attempted to negate a."),
        (lambda: Dim("a") + "x", NotImplementedError, "Attempted to add x to a, where an integer was expected."),
        (lambda: (Dim("a") - 1).min, AssertionError, "Expected derived min value of a - 1 to be >= 0."),
    ],
)
def test_sizes_that_cannot_be(make, kind, text):
    with pytest.raises(kind) as caught:
        make()
    assert str(caught.value).startswith(text)


X, B = torch.ones(4, 4), Dim("b")


@pytest.mark.parametrize(
    ("shapes", "kind", "text"),
    [
        (
            {"z": {0: B}},
            UserError,
            "its top-level keys must be the arg names ['x'] of `inputs`, but here they are ['z']",
        ),
        (({0: B}, None), UserError, "`inputs` has 1 elements, but `dynamic_shapes` has 2 elements"),
        ({"x": {7: B}}, IndexError, "list assignment index out of range"),
        ({"x": [B]}, UserError, "(expected 2, but got 1 instead)"),
        ({"x": "q"}, UserError, "Unexpected input tensor shape q specified at `dynamic_shapes['x']`"),
        (
            {"x": {0: 5}},
            ConstraintViolationError,
            "Static shape constraint of 5 does not match input size of 4, for L['x']",
        ),
        ({"x": {0: Dim("b", min=6)}}, ConstraintViolationError, "4 not in range [6, int_oo]"),
        ({"x": {0: Dim("b", max=3)}}, ConstraintViolationError, "4 not in range [2, 3]"),
    ],
)
def test_specifications_that_do_not_fit(shapes, kind, text):
    with pytest.raises(kind) as caught:
        export(Of(lambda x: x + 1), (X,), dynamic_shapes=shapes)
    assert text in str(caught.value)


def test_sizes_that_the_program_fixes_are_refused():
    linear = nn.Linear(4, 3)
    with pytest.raises(
        UserError, match="You marked b as dynamic but your code specialized it to be a constant \\(4\\)"
    ):
        export(linear, (X,), dynamic_shapes=({1: B},))
    with pytest.raises(UserError, match="specialized it to be a constant \\(1\\)"):
        export(Of(lambda x: x + 1), (X[:1],), dynamic_shapes={"x": {0: B}})
    with pytest.raises(UserError, match="must always be equal"):
        export(Of(lambda x, y: x + y), (X, X[:3]), dynamic_shapes={"x": {0: B}, "y": {0: B}})
    with pytest.raises(UserError, match="specialized"):
        export(linear, (X,), dynamic_shapes=({1: Dim.DYNAMIC},))
    # `Dim.AUTO` may become a number.
    program = export(linear, (X,), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))
    assert [str(limits) for limits in program.range_constraints.values()] == ["VR[2, int_oo]"]


def test_a_course_that_depends_on_a_size_is_refused():
    module = Of(lambda x: x + 1 if x.shape[0] > 5 else x - 1)
    with pytest.raises(UserError) as caught:
        export(module, (X,), dynamic_shapes={"x": {0: B}})
    assert "calls aten.add.Tensor and not aten.sub.Tensor" in str(caught.value)
    assert "b = Dim('b', max=5)" in str(caught.value)
    shapes = refine_dynamic_shapes_from_suggested_fixes(str(caught.value), {"x": {0: B}})
    assert repr(shapes) == "{'x': {0: Dim('b', min=0, max=5)}}"
    run = export(module, (X,), dynamic_shapes=shapes).module()
    assert run(torch.ones(3, 4))[0, 0] == 0
    with pytest.raises(AssertionError, match=r"Guard failed: x.size\(\)\[0\] <= 5"):
        run(torch.ones(6, 4))


def test_a_loop_over_a_size_is_refused():
    def total(x):
        y = x[0]
        for row in x[1:]:
            y = y + row
        return y

    with pytest.raises(UserError, match="specialized it to be a constant"):
        export(Of(total), (X,), dynamic_shapes={"x": {0: B}})


def test_a_course_that_depends_on_elements_is_refused():
    for function in (lambda x: x if x.sum() > 0 else -x, lambda x: x * x.sum().item(), lambda x: x[: int(x[0, 0])]):
        with pytest.raises(GuardOnDataDependentSymNode, match="Could not guard on data-dependent expression"):
            export(Of(function), (X,))
    with pytest.raises(UserError, match=r"aten.nonzero.default depend on the elements of a tensor"):
        export(Of(lambda x: x.nonzero()), (X,))


def test_arguments_that_cannot_be_exported():
    with pytest.raises(
        ValueError, match="Expected `mod` to be an instance of `torch.nn.Module`, got <class 'function'>"
    ):
        export(lambda x: x, (X,))
    with pytest.raises(UserError, match="Expecting `args` to be a tuple of example positional inputs, got"):
        export(nn.ReLU(), X)
    with pytest.raises(ValueError, match="Unsupported input type <class 'object'>"):
        export(Of(lambda x: x), (object(),))
    with pytest.raises(TypeError, match="too many positional arguments"):
        export(nn.ReLU(), (X, 5))
    with pytest.raises(UserError, match="one of the outputs with type"):
        export(Of(lambda x: object()), (X,))


def test_the_random_generator_stays():
    torch.manual_seed(1)
    state = torch.get_rng_state()
    export(nn.Dropout(), (X,), dynamic_shapes=({0: B},))
    assert torch.equal(torch.get_rng_state(), state)


# ---- functional operators


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_functional_operators_do_the_same(name):
    module, args, kwargs, shapes = PROGRAMS[name]
    program = export(module, copy.deepcopy(args), copy.deepcopy(kwargs), dynamic_shapes=shapes).run_decompositions()
    assert program.dialect == "ATEN"
    for target in graph_of(program):
        assert not target.split(".")[1].endswith("_") if target.startswith("aten.") else True
    others, values = copy.deepcopy(args), copy.deepcopy(args)
    plain = copy.deepcopy(module)
    expected = plain(*others, **kwargs)
    run = program.module()
    state = copy.deepcopy(dict(module.named_buffers()))
    found = run(*values, **kwargs)
    if name != "residual_training":
        check(found, expected)
    check(values, others)
    check(dict(run.named_buffers()), {key: dict(plain.named_buffers()).get(key) for key, _ in run.named_buffers()} | {})
    for key, value in module.named_buffers():
        value.copy_(state[key])


@pytest.mark.parametrize("name", ["counter", "writes_input", "trees"])
def test_functional_programs_are_those_of_pytorch(name):
    module, args, kwargs, shapes = PROGRAMS[name]
    program = export(module, args, kwargs, dynamic_shapes=shapes).run_decompositions()
    with zipfile.ZipFile(GOLDENS / "export_programs.zip") as opened:
        assert lines(str(program)) == lines(opened.read(f"{name}.core.txt").decode())


def test_writes_to_parts_become_new_values():
    def function(x):
        y = x + 0
        y[:, 1] = 7
        y.view(-1)[0] = 5
        y.t()[2].mul_(2)
        z = y.unsqueeze(0)
        z += 1
        return y, z

    program = export(Of(function), (torch.zeros(2, 3),)).run_decompositions()
    assert not [t for t in graph_of(program) if t.split(".")[1].endswith("_")]
    check(program.module()(torch.ones(2, 3)), function(torch.ones(2, 3)))


def test_a_table_takes_operators_apart():
    program = export(Of(lambda x: torch.nn.functional.silu(x)), (torch.ones(2),))
    table = torch.export.default_decompositions()
    table[torch.ops.aten.silu.default] = lambda x: x * torch.sigmoid(x)
    assert graph_of(program.run_decompositions(table)) == ["aten.sigmoid.default", "aten.mul.Tensor"]
    assert graph_of(program.run_decompositions()) == ["aten.silu.default"]
    linear = export(nn.Linear(3, 2), (torch.ones(1, 3),))
    assert graph_of(linear.run_decompositions({})) == ["aten.linear.default"]
    assert graph_of(linear.run_decompositions()) == ["aten.t.default", "aten.addmm.default"]
