"""User-defined operators of StableHLO: ``torch.tpu.stablehlo_op``."""

import re

import pytest
from kernel_parts import BOTH, GENERATIONS, both, needs_libtpu, product, run

import pytpu as torch
from pytpu.tpu import pallas


@pytest.mark.parametrize("mode", ["fused", "strict", "debug"])
def test_a_module_is_an_operator_in_all_modes(device, mode):
    op = both()
    x, y = torch.arange(4.0, device=device), torch.full((4,), 3.0, device=device)
    with torch.tpu.set_eager_mode(mode):
        a, b = op(x.neg(), y)
        c, _ = torch.ops.test.both(a, b)
        assert torch.equal(a.cpu(), torch.tensor([3.0, 2.0, 1.0, 0.0])) and torch.equal(
            b.cpu(), torch.tensor([0.0, -3.0, -6.0, -9.0])
        )
        assert torch.equal(c.cpu(), (a + b).cpu()) and a.device.type == device


def test_the_functions_stand_in_a_program_once():
    op, x = both(), torch.ones(4, device="tpu")
    y = op(op(x, x)[0], op(x, x)[1])[0].tanh()
    text = torch._C._tpu_dump_stablehlo(y)
    assert len(re.findall(r"func\.func private @k[0-9a-f]{32}_main\(", text)) == 1
    assert len(re.findall(r"func\.func private @k[0-9a-f]{32}_add\(", text)) == 1
    assert len(re.findall(r"func\.call @k[0-9a-f]{32}_main", text)) == 3 and "loc(" not in text and "jax." not in text
    assert y.tolist() == pytest.approx(torch.full((4,), 3.0).tanh().tolist())


def test_two_texts_share_no_executable():
    twice = torch.tpu.stablehlo_op("test::twice", product)
    x, y = torch.tensor([1.0, 2.0], device="tpu"), torch.tensor([3.0, 5.0], device="tpu")
    assert twice(x, y).tolist() == [6.0, 20.0] and twice(x, y, power=2).tolist() == [18.0, 100.0]
    assert twice(x, y).tolist() == [6.0, 20.0] and twice(y, x).tolist() == [6.0, 20.0] and twice.known == 2
    assert twice(x[None], y[None]).tolist() == [[6.0, 20.0]] and twice.known == 3


def test_a_text_of_other_types_needs_other_arguments(device):
    op, x = both(), torch.ones(4, device=device)
    with pytest.raises(RuntimeError, match=r"test::both: argument 1 is float32\[3\], must be float32\[4\]"):
        op(x, x[:3])
    with pytest.raises(RuntimeError, match=r"test::both: argument 0 is float64\[4\], must be float32\[4\]"):
        op(x.double(), x)
    with pytest.raises(RuntimeError, match=r"test::both: expected 2 tensors but got 1"):
        op(x)
    with pytest.raises(RuntimeError, match="expected at least one tensor"):
        op(3)
    with pytest.raises(TypeError, match="static and must be hashable, but got a bytearray"):
        op(x, bytearray())


def test_views_and_numbers_are_arguments(device):
    op = both()
    x = torch.arange(12.0, device=device).reshape(4, 3)
    a, b = op(x[:, 1], x.t()[2])
    assert a.tolist() == [3.0, 9.0, 15.0, 21.0] and b.tolist() == [2.0, 20.0, 56.0, 110.0]


def test_static_arguments_differ_by_type_and_sign():
    seen = []
    text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
    op = torch.tpu.stablehlo_op("test::statics", lambda x, v: seen.append(repr(v)) or text)
    nan = float("nan")
    for v in (1, 1.0, True, 0.0, -0.0, "1", None, (1, 2), nan, (1, 2), -0.0, nan, 1):
        op(torch.ones(2), v)
    assert seen == ["1", "1.0", "True", "0.0", "-0.0", "'1'", "None", "(1, 2)", "nan"] and op.known == len(seen)


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "there is no function"),
        ("module {", "expected `}` but found the end"),
        ("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32>", "the function @main has no body"),
        (
            "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }",
            "has sizes that are not known",
        ),
        (
            "func.func @main(%x: tensor<2xf8E3M4>) -> tensor<2xf8E3M4> { return %x : tensor<2xf8E3M4> }",
            "has elements that tensors cannot have",
        ),
        ("func.func @main() -> tensor<2xf32> { }", "must take at least one tensor"),
        (
            "module attributes {mhlo.num_partitions = 4 : i32} { func.func @main(%x: tensor<2xf32>) { return } }",
            "for several devices",
        ),
        ("sdy.mesh @mesh = <[]>", "expected a function or the end but found `sdy.mesh`"),
        (
            "#map = affine_map<(d0) -> (d0)>\nfunc.func @main(%x: tensor<2xf32>) { return }",
            "the alias #map is not supported",
        ),
        ('func.func @main(%x: tensor<2xf32> {a = "}) { return }', "a text has no end"),
        ("func.func @a(%x: tensor<2xf32>) { return } func.func @b(%x: tensor<2xf32>) { return }", "no function @main"),
    ],
)
def test_unusable_modules_are_refused_with_the_reason(text, why):
    op = torch.tpu.stablehlo_op("test::wrong", text)
    with pytest.raises(ValueError, match=r"test::wrong: the StableHLO module cannot be used: .*" + re.escape(why)):
        op(torch.ones(2))


def test_a_body_that_does_not_compile_names_the_operator_and_its_place(device):
    def body(x):
        return (
            "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { %0 = stablehlo.nothing %x : tensor<2xf32> return "
            "%0 : tensor<2xf32> }"
        )

    op = torch.tpu.stablehlo_op("test::bad_body", body)
    with pytest.raises(RuntimeError, match="test::bad_body") as error:
        op(torch.ones(2, device=device)).cpu()
    assert f"{__file__}, line {body.__code__.co_firstlineno}" in str(error.value)


@pytest.mark.parametrize("name", ["double", "a::b::c", "a.b::c", "::c", "a::", "a::1b", "aten::add", 3])
def test_wrong_names_are_refused(name):
    for make in (lambda: torch.tpu.stablehlo_op(name, BOTH), lambda: pallas.jax_op(name, lambda x: x)):
        with pytest.raises(ValueError, match="form `namespace::name`|are those of the op table"):
            make()


def test_a_shape_rule_is_compared_with_the_module():
    rule = lambda x, y, power=1: torch.empty(*x.shape, 2, device="meta")
    op = torch.tpu.stablehlo_op("test::rule", product, infer=rule)
    x = torch.ones(3)
    with pytest.raises(
        RuntimeError, match=r"test::rule: `infer` says float32\[3, 2\], but the module returns float32\[3\]"
    ):
        op(x, x)
    assert op(x.to("meta"), x.to("meta")).shape == (3, 2)
    right = torch.tpu.stablehlo_op("test::rule", product, infer=lambda x, y, power=1: [torch.empty_like(x)])
    assert [y.tolist() for y in right(x, x)] == [[2.0, 2.0, 2.0]]
    with pytest.raises(TypeError, match="expected `infer` to return tensors on device meta, but got int"):
        torch.tpu.stablehlo_op("test::rule", product, infer=lambda x, y: 3)(x, x)
    with pytest.raises(TypeError, match="expected `body` to return a str, but got int"):
        torch.tpu.stablehlo_op("test::rule", lambda x: 3)(x)
    with pytest.raises(TypeError, match="expected `body` to be a str or a callable, but got int"):
        torch.tpu.stablehlo_op("test::rule", 3)


def test_shapes_on_meta_come_from_the_module_without_a_shape_rule():
    a, b = both()(torch.empty(4, device="meta"), torch.empty(4, device="meta"))
    assert a.device.type == "meta" and a.shape == b.shape == (4,)


def test_an_operator_without_a_gradient_raises_in_backward(device):
    x = torch.ones(4, device=device, requires_grad=True)
    y = both()(x, x)[0]
    assert y.requires_grad and "GeneratedBackwardFor_test_both_default" in str(y.grad_fn)
    with pytest.raises(
        RuntimeError, match="Trying to backward through test.both.default but no autograd formula was registered"
    ):
        y.sum().backward()
    with torch.no_grad():
        assert not both()(x, x)[0].requires_grad


def test_a_registered_gradient_is_used(device):
    op = torch.tpu.stablehlo_op(
        "test::square",
        lambda x, k: product(x, x).replace("multiply %0, %y", "multiply %x, %x").replace(", %y: tensor<3xf32>", ""),
    )
    op.register_autograd(
        lambda ctx, g: (2 * g * ctx.saved_tensors[0], None),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    x = torch.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    y = op(x, 5)
    y.sum().backward()
    assert y.tolist() == [1.0, 4.0, 9.0] and x.grad.tolist() == [2.0, 4.0, 6.0]
    assert torch.equal(op(x.detach(), 5).cpu(), y.detach().cpu())


def test_a_cpu_function_replaces_the_module(device):
    calls = []
    op = torch.tpu.stablehlo_op(
        "test::stand_in",
        "no module",
        infer=lambda x: torch.empty_like(x),
        cpu=lambda x: calls.append(x.device.type) or x + 1,
    )
    assert op(torch.ones(2, device=device)).tolist() == [2.0, 2.0] and calls == [device]


@pytest.mark.parametrize("setting", ["1", "0", "always"])
def test_the_interpreter_of_new_programs_hands_them_to_the_compiler(setting):
    code = f"""
import pytpu as torch
op = torch.tpu.stablehlo_op("test::both", {BOTH!r})
x = torch.arange(4.0, device="tpu")
for i in range(4):
    assert op(x + i, x)[0].tolist() == [i + 2.0 * k for k in range(4)]
print(torch.tpu.metrics()["segments_executed"])
"""
    out = run(code, TORCHTPU_INTERPRET=setting)
    assert int(out) >= 4


@needs_libtpu
def test_a_module_is_compiled_for_a_planned_device():
    op = both()
    with torch.tpu.plan(GENERATIONS) as plan:
        x = torch.ones(4, device="tpu")
        y = op(x.tanh(), x)[0].sum()
        report = plan.report()
    del y
    (program,) = report.programs
    assert len(program.reports) == 5 and all(not getattr(r, "error", None) for r in program.reports.values())
    assert "func.call @k" in program.stablehlo
