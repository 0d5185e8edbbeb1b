"""User-defined operators: ``torch.tpu.stablehlo_op`` and ``torch.tpu.pallas``."""

import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import zlib

import pytest
from patience import HANG_SECONDS

import pytpu as torch
from pytpu.tpu import pallas

GENERATIONS = ["v4:2x2x1", "v5e:2x2", "v5p:2x2x1", "v6e:2x2", "TPU7x:2x2x1"]

try:
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl
except ImportError:
    assert os.environ.get("CI") != "true", "jax is missing: pip install jax"
    jax = None

needs_jax = pytest.mark.skipif(jax is None, reason="jax is not installed")
needs_libtpu = pytest.mark.skipif(
    not torch.tpu.aot.is_available() and os.environ.get("CI") != "true", reason="libtpu is not installed"
)

BOTH = """
module @both attributes {mhlo.num_partitions = 1 : i32} {
  // Two results, and a function that @main calls.
  func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32> {jax.arg = "y"})
      -> (tensor<4xf32> {jax.result_info = "a, b"}, tensor<4xf32>) {
    %0 = call @add(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("a"(#loc1))
    %1 = stablehlo.multiply %x, %y : tensor<4xf32>
    return %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
  func.func private @add(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
#loc1 = loc("file.py":1:2)
"""


def both():
    return torch.tpu.stablehlo_op("test::both", BOTH)


def product(x, y, power=1):
    """Text for any shape: `x` times `y` to a power."""
    ty = "tensor<" + "".join(f"{n}x" for n in x.shape) + "f32>"
    times = "".join(f"%{i + 1} = stablehlo.multiply %{i}, %y : {ty}\n" for i in range(power))
    return (
        f"func.func @main(%x: {ty}, %y: {ty}) -> {ty} "
        f"{{ %0 = stablehlo.add %x, %x : {ty}\n{times} return %{power} : {ty} }}"
    )


# StableHLO.


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


def run(code, *args, **env):
    """Run a program in a process of its own and return what it prints."""
    path = os.pathsep.join([str(pathlib.Path(torch.__file__).parent.parent), *args])
    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **env},
        timeout=HANG_SECONDS,
    )
    assert out.returncode == 0, out.stderr
    return out.stdout


# JAX and Pallas.

if jax is not None:

    def softmax_kernel(x_ref, o_ref):
        x = x_ref[...]
        e = jnp.exp(x - x.max(-1, keepdims=True))
        o_ref[...] = e / e.sum(-1, keepdims=True)

    def jax_softmax(x, rows=8):
        block = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(
            softmax_kernel, grid=(x.shape[0] // rows,), in_specs=[block], out_specs=block, out_shape=shape
        )(x)


@needs_jax
@pytest.mark.parametrize("mode", ["fused", "strict", "debug"])
def test_a_pallas_kernel_is_an_operator_in_all_modes(device, mode):
    op = pallas.custom_jax_kernel(jax_softmax)
    x = torch.randn(16, 128)
    with torch.tpu.set_eager_mode(mode):
        y = op(x.to(device).mul(2)).add(1)
        assert torch.allclose(y.cpu(), torch.softmax(x * 2, -1) + 1, atol=1e-6)
        assert torch.equal(torch.ops.custom_jax.jax_softmax(x.to(device), rows=16).argmax(-1).cpu(), x.argmax(-1))


@needs_jax
@needs_libtpu
def test_a_pallas_kernel_compiles_for_five_generations_beside_our_ops():
    op = pallas.custom_jax_kernel(jax_softmax)
    with torch.tpu.plan(GENERATIONS) as plan:
        y = op(torch.ones(16, 128, device="tpu").tanh()).sum()
        report = plan.report()
    del y
    (program,) = report.programs
    assert list(program.reports) == GENERATIONS and not program.errors
    assert program.stablehlo.count("@tpu_custom_call") == 1 and "stablehlo.while" not in program.stablehlo


@needs_jax
@needs_jax
@needs_libtpu
def test_kernels_cost_their_bytes_and_what_their_author_states():
    def product(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32).astype(o_ref.dtype)

    def of(cost):
        def stated_product(x: jax.Array, y: jax.Array) -> jax.Array:
            blocks = [pl.BlockSpec((128, 512), lambda i: (i, 0)), pl.BlockSpec((512, 512), lambda i: (0, 0))]
            return pl.pallas_call(
                product, grid=(4,), in_specs=blocks, out_specs=blocks[0], out_shape=x, cost_estimate=cost
            )(x, y)

        op = pallas.custom_jax_kernel(stated_product)
        with torch.tpu.plan("v5e:2x2") as plan:
            x = torch.zeros(512, 512, dtype=torch.bfloat16).to("tpu")
            y = op(x, x)
            report = plan.report().programs[-1].reports["v5e:2x2"]
            del y
        return report

    size = 512 * 512 * 2
    report = of(None)
    (kernel,) = report.kernels
    assert (kernel.count, kernel.flops, kernel.bytes, kernel.is_estimated) == (1, 0, 3 * size, False)
    assert kernel.seconds == pytest.approx(3 * size / 0.819e12) and report.seconds >= kernel.seconds
    assert report.bytes_accessed >= 3 * size and report.is_lower_bound()
    assert "by its bytes alone" in str(report) and kernel.name in str(report)
    flops = 10**12
    report = of(pl.CostEstimate(flops=flops, bytes_accessed=10, transcendentals=0))
    (kernel,) = report.kernels
    assert (kernel.flops, kernel.bytes, kernel.is_estimated) == (flops, 3 * size, True)
    assert report.seconds >= flops / 197e12 and 0.9 < report.peak_share <= 1 and not report.is_lower_bound()


@needs_libtpu
def test_flash_attention_and_its_gradient_compile_for_a_planned_device():
    from jax.experimental.pallas.ops.tpu import flash_attention

    op = pallas.custom_jax_kernel(
        functools.partial(flash_attention.flash_attention, causal=True, sm_scale=0.088), "test::flash"
    )
    with torch.tpu.plan("v5e:2x2") as plan:
        q, k, v = (torch.ones(1, 2, 256, 128, device="tpu", dtype=torch.bfloat16).requires_grad_() for _ in range(3))
        op(q, k, v).float().sum().backward()
        grads = [q.grad, k.grad, v.grad]
        report = plan.report()
    assert [g.shape for g in grads] == [q.shape] * 3 and not report.programs[-1].errors
    # One kernel forward and two backward: forward is not computed again.
    assert report.programs[-1].stablehlo.count("@tpu_custom_call") == 3


@needs_jax
@needs_libtpu
def test_kernels_get_the_tpu_generation_of_the_plan():
    from jax.experimental.pallas import tpu as pltpu

    @jax.jit
    def width():
        return jnp.float32(pltpu.get_tpu_info().mxu_column_size * 1000)

    op = pallas.custom_jax_kernel(lambda x: x * width(), "test::asks")
    texts = []
    for topology in ("v5e:2x2", "v6e:2x2", "v5e:2x2"):
        with torch.tpu.plan(topology) as plan:
            y = op(torch.ones(8, device="tpu"))
            texts.append(plan.report().programs[0].stablehlo)
        del y
    assert "1.280000e+05" in texts[0] and "2.560000e+05" in texts[1] and "1.280000e+05" in texts[2]
    assert op(torch.ones(2)).tolist() == [128000.0] * 2


@needs_jax
def test_scratch_memory_and_prefetched_indices_are_interpreted(device):
    from jax.experimental.pallas import tpu as pltpu

    def add_up(x_ref, o_ref, sum_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            sum_ref[...] = jnp.zeros_like(sum_ref)

        sum_ref[...] += x_ref[...]
        o_ref[...] = sum_ref[...]

    def running(x):
        block = pl.BlockSpec((8, 128), lambda i: (i, 0))
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        scratch = [pltpu.VMEM((8, 128), jnp.float32)]
        return pl.pallas_call(
            add_up, grid=(x.shape[0] // 8,), in_specs=[block], out_specs=block, out_shape=out, scratch_shapes=scratch
        )(x)

    def take(i_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    def gather(i, x):
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(i.shape[0],),
            in_specs=[pl.BlockSpec((8, 128), lambda n, i: (i[n], 0))],
            out_specs=pl.BlockSpec((8, 128), lambda n, i: (n, 0)),
        )
        return pl.pallas_call(take, grid_spec=spec, out_shape=jax.ShapeDtypeStruct((8 * i.shape[0], 128), x.dtype))(
            i, x
        )

    x = torch.randn(32, 128, device=device)
    got = pallas.custom_jax_kernel(running, "test::running")(x)
    assert torch.allclose(got, x.view(4, 8, 128).cumsum(0).view(32, 128), atol=1e-5)
    i = torch.tensor([3, 0, 3], dtype=torch.int32, device=device)
    assert torch.equal(
        pallas.custom_jax_kernel(gather, "test::gather")(i, x), x.view(4, 8, 128)[i.long()].view(24, 128)
    )


@needs_jax
def test_dtypes_are_static_arguments_of_jax(device):
    op = pallas.custom_jax_kernel(lambda x, dtype: x.astype(dtype), "test::dtype")
    assert [op(torch.ones(2, device=device), d).dtype for d in (torch.bfloat16, torch.int32)] == [
        torch.bfloat16,
        torch.int32,
    ]


@needs_jax
def test_a_number_on_cpu_goes_along_with_a_tensor_on_the_device(device):
    op = pallas.custom_jax_kernel(lambda x, k: x * k, "test::number")
    assert op(torch.ones(2, device=device), torch.tensor(3.0)).tolist() == [3.0, 3.0]
    if device == "tpu":
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            op(torch.ones(2, device=device), torch.ones(2))


@needs_jax
def test_trees_go_in_and_out(device):
    @pallas.jax_op("test::tree")
    def tree(p: dict, xs: list, pair: tuple, *, scale: float = 1.0):
        y = p["a"] @ p["b"]["c"] * scale + sum(xs)
        return {"y": y, "rest": [pair[1] - pair[0], None, {"n": jnp.argmax(y, -1)}], "number": 3}

    x = torch.arange(4.0, device=device).reshape(2, 2)
    r = tree({"b": {"c": x}, "a": x + 1}, [x, x, 1.0], (x, 2 * x), scale=0.5)
    want = (x + 1) @ x * 0.5 + 2 * x + 1
    assert torch.equal(r["y"].cpu(), want.cpu()) and list(r) == ["y", "rest", "number"] and r["rest"][1] is None
    assert (
        torch.equal(r["rest"][0].cpu(), x.cpu())
        and torch.equal(r["rest"][2]["n"].cpu(), want.argmax(-1).cpu().int())
        and r["number"].item() == 3
    )
    meta = tree({"b": {"c": x.to("meta")}, "a": x.to("meta")}, [x.to("meta")], (x.to("meta"), x.to("meta")))
    assert meta["y"].device.type == "meta" and meta["rest"][2]["n"].dtype == torch.int32 and meta["number"].shape == ()


@needs_jax
def test_results_keep_their_form(device):
    x = torch.ones(2, device=device)
    kernel = pallas.custom_jax_kernel
    assert type(kernel(lambda x: x + 1)(x)) is torch.Tensor
    assert (
        type(kernel(lambda x: (x, x))(x)) is tuple
        and type(kernel(lambda x: (x,))(x)) is tuple
        and type(kernel(lambda x: [x])(x)) is list
    )
    with pytest.raises(TypeError, match="results must be arrays in tuples, lists and dicts, but got a set"):
        kernel(lambda x: {1, 2})(x)
    with pytest.raises(TypeError, match="must return at least one array"):
        kernel(lambda x: None)(x)


@needs_jax
def test_64_bit_types_are_kept(device):
    op = pallas.custom_jax_kernel(lambda x, i: (jnp.sin(x), i + 2**40), "test::wide")
    x, i = torch.rand(3, dtype=torch.float64), torch.tensor([1, 2, 3])
    s, j = op(x.to(device), i.to(device))
    assert (
        s.dtype == torch.float64
        and torch.allclose(s.cpu(), x.sin(), atol=1e-15, rtol=0)
        and j.tolist() == [2**40 + k for k in (1, 2, 3)]
    )
    narrow = pallas.custom_jax_kernel(lambda x: jnp.arange(3) + x, "test::narrow")(x.float().to(device))
    assert narrow.dtype == torch.float32


@needs_jax
def test_arguments_that_a_function_ignores_may_be_given(device):
    op = pallas.custom_jax_kernel(lambda x, unused, *, k=1: x + k)
    x = torch.ones(2, device=device)
    assert op(x, torch.zeros(5, device=device), k=3).tolist() == [4.0, 4.0]


@needs_jax
@pytest.mark.parametrize("grad", ["vjp", "recompute"])
def test_gradients_are_those_of_the_function(device, grad):
    @pallas.jax_op("test::gradient", grad=grad)
    def op(w: jax.Array, x: jax.Array, i: jax.Array, *, k: float):
        h = jnp.tanh(x @ w) * k
        return h, jnp.take(h, i, 0).sum(0), jnp.argmax(h, -1)

    w, x = (torch.randn(*s, dtype=torch.float64, device=device, requires_grad=True) for s in ((3, 4), (5, 3)))
    i = torch.tensor([0, 2, 2], device=device)
    assert torch.autograd.gradcheck(lambda w, x: op(w, x, i, k=0.5)[:2], (w, x))
    assert torch.autograd.gradcheck(lambda w, x: op(w, x, i, k=0.5)[1], (w, x))
    h, taken, largest = op(w, x, i, k=0.5)
    assert h.requires_grad and taken.requires_grad and not largest.requires_grad
    with pytest.raises(RuntimeError, match="Trying to backward through test.gradient"):
        (g,) = torch.autograd.grad(h.sum(), w, create_graph=True)
        g.sum().backward()


@needs_jax
def test_backward_reuses_tensors_that_forward_keeps():
    from pytpu.tpu import _jax_export

    op = pallas.custom_jax_kernel(lambda x, w: jnp.exp(x) * jnp.sin(w), "test::residuals")
    x, w = torch.rand(3, requires_grad=True), torch.rand(3, requires_grad=True)
    taken = pallas._Taken()
    taken(x, w)
    export = _jax_export.exported(lambda x, w: jnp.exp(x), *taken.call, "cpu", grad="vjp")
    # The gradient of `exp` reads its result.
    assert (
        ["output", 0] in export["inputs"]
        and export["visible"] == 1
        and export["text"].count("tensor<3xf32> {jax.result_info") == 1
    )
    export = _jax_export.exported(lambda x, w: x * w, *taken.call, "cpu", grad="vjp")
    assert sorted(i for i in export["inputs"] if i[0] == "input") == [["input", 0], ["input", 1]] and export[
        "results"
    ] == [0, 1]
    op(x, w).sum().backward()
    assert torch.allclose(x.grad, (x.exp() * w.sin()).detach()) and torch.allclose(w.grad, (x.exp() * w.cos()).detach())


@needs_jax
def test_gradients_of_complex_numbers_are_those_of_pytorch(device):
    op = pallas.custom_jax_kernel(lambda z, x: (z * z * jnp.exp(1j * x), jnp.abs(z)), "test::complex")
    z = torch.randn(3, dtype=torch.complex128, device=device, requires_grad=True)
    x = torch.randn(3, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(op, (z, x))


@needs_jax
def test_a_function_with_its_own_gradient_is_differentiated_by_it(device):
    @jax.custom_vjp
    def double(x):
        return jax_softmax(x)

    double.defvjp(lambda x: (jax_softmax(x), x), lambda x, g: (7 * g,))
    op = pallas.custom_jax_kernel(double, "test::own")
    x = torch.randn(8, 128, device=device, requires_grad=True)
    op(x).sum().backward()
    assert torch.equal(x.grad.cpu(), torch.full((8, 128), 7.0))


@needs_jax
def test_a_pallas_kernel_without_a_gradient_runs_and_raises_in_backward(device):
    op = pallas.custom_jax_kernel(jax_softmax, "test::no_gradient")
    x = torch.randn(8, 128, device=device, requires_grad=True)
    y = op(x)
    assert torch.allclose(y.detach(), torch.softmax(x.detach(), -1), atol=1e-6)
    with pytest.raises(
        RuntimeError, match="Trying to backward through test.no_gradient.default(.|\n)*note: JAX does not differentiate"
    ):
        y.sum().backward()


@needs_jax
def test_donated_tensors_give_their_memory_away():
    op = pallas.jax_op("test::donate", donate_argnums=0)(donating)
    cache, row = torch.zeros(300, 300, device="tpu"), torch.ones(300, device="tpu")
    torch.tpu.synchronize()
    before = torch.tpu.metrics()["donations"]
    new = op(cache, row)
    torch.tpu.synchronize()
    assert torch.tpu.metrics()["donations"] == before + 1
    with pytest.raises(RuntimeError, match="this tensor was donated to test::donate and has no data"):
        cache.sum().item()
    assert new.sum().item() == 300 and row.sum().item() == 300
    # Nothing is donated if backward may read the tensor, or on cpu.
    leaf = torch.zeros(300, 300, device="tpu", requires_grad=True)
    op(leaf, row).sum().backward()
    assert leaf.sum().item() == 0 and leaf.grad[0].sum().item() == 0 and leaf.grad[1].sum().item() == 300
    host = torch.zeros(3, 3)
    assert op(host, torch.ones(3)).sum() == 3 and host.sum() == 0


def donating(cache: "jax.Array", row: "jax.Array"):
    return cache.at[0].set(row)


@needs_jax
@needs_libtpu
def test_a_planned_device_updates_donated_memory_in_place():
    def increment(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1

    def update(x):
        return pl.pallas_call(increment, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), input_output_aliases={0: 0})(
            x
        )

    op = pallas.custom_jax_kernel(update, "test::in_place", donate_argnums=0)
    with torch.tpu.plan("v5e:2x2") as plan:
        x = torch.zeros(256, 128).to("tpu")
        x = op(x)
        report = plan.report().programs[0].reports["v5e:2x2"]
    assert x.shape == (256, 128) and report.alias_bytes == 4 * 256 * 128 and report.temp_bytes == 0


@needs_jax
def test_values_that_no_program_returns_are_computed_again(device):
    def noisy(x):
        key = jax.random.key(3)
        return jnp.sum(jax.checkpoint(lambda x, key: x * jax.random.normal(key, x.shape))(x, key))

    x = torch.ones(4, device=device, requires_grad=True)
    pallas.custom_jax_kernel(noisy, "test::noisy")(x).backward()
    want = torch.tensor(jax.random.normal(jax.random.key(3), (4,)).tolist())
    assert torch.allclose(x.grad.cpu(), want, atol=1e-6)


@needs_jax
def test_input_output_aliases_donate():
    op = pallas.custom_jax_kernel(lambda row, cache: cache.at[0].set(row), "test::aliased", input_output_aliases={1: 0})
    cache = torch.zeros(300, 300, device="tpu")
    torch.tpu.synchronize()
    new = op(torch.ones(300, device="tpu"), cache)
    assert new.sum().item() == 300
    with pytest.raises(RuntimeError, match="donated to test::aliased"):
        cache.tolist()


@needs_jax
def test_a_function_is_mapped_over_a_dimension(device):
    op = pallas.custom_jax_kernel(jax_softmax, "test::mapped")
    x = torch.randn(3, 16, 128, device=device)
    assert torch.allclose(op.vmap()(x), torch.softmax(x, -1), atol=1e-6) and op.vmap() is op.vmap()
    assert torch.allclose(op.vmap(1, 1)(x.transpose(0, 1)), torch.softmax(x, -1).transpose(0, 1), atol=1e-6)

    @pallas.jax_op("test::product", vmap=False)
    def product(x: jax.Array, w: jax.Array):
        return x @ w

    with pytest.raises(NotImplementedError, match="made with vmap=False"):
        product.vmap()
    op = pallas.custom_jax_kernel(lambda x, w: jnp.sin(x @ w), "test::twice_mapped").vmap((0, None)).vmap((0, None))
    x, w = (
        torch.randn(2, 3, 4, dtype=torch.float64, device=device),
        torch.randn(4, dtype=torch.float64, device=device, requires_grad=True),
    )
    assert torch.allclose(op(x, w), torch.sin(x @ w)) and torch.autograd.gradcheck(lambda w: op(x, w), (w,))


@needs_jax
def test_the_form_for_the_processor_may_be_jax_or_a_function(device):
    fn = lambda x: jnp.tanh(x) * 2
    x = torch.randn(3, 4, device=device)
    by_jax = pallas.jax_op("test::by_jax", cpu="jax")(annotated(fn))
    assert torch.allclose(by_jax(x.t()), x.t().tanh() * 2, atol=1e-6)
    x.requires_grad_()
    by_jax(x).sum().backward()
    assert torch.allclose(x.grad, 2 - 2 * x.detach().tanh() ** 2, atol=1e-6)
    calls = []
    by_function = pallas.jax_op("test::by_function", cpu=lambda x: calls.append(1) or torch.tanh(x) * 2)(annotated(fn))
    x.grad = None
    by_function(x).sum().backward()
    assert torch.allclose(x.grad, 2 - 2 * x.detach().tanh() ** 2, atol=1e-6) and calls == [1]
    for wrong in ("numpy", None):
        with pytest.raises(ValueError, match="expected `cpu` to be 'interpret', 'jax' or a callable"):
            pallas.jax_op("test::wrong", cpu=wrong)(annotated(fn))


def annotated(fn):
    def function(x: "jax.Array"):
        return fn(x)

    return function


@needs_jax
def test_wrong_declarations_are_refused():
    with pytest.raises(ValueError, match="Parameter x must have a type annotation"):
        pallas.jax_op("test::wrong", lambda x: x)
    with pytest.raises(ValueError, match="positional-only args, varargs, or varkwargs"):
        pallas.jax_op("test::wrong")(lambda *x: x)
    with pytest.raises(ValueError, match="static_argnames names .'k'., which are not parameters of the function"):
        pallas.jax_op("test::wrong", annotated(abs), static_argnames="k")
    with pytest.raises(ValueError, match="expected `grad` to be 'vjp', 'recompute' or None, but got 'jvp'"):
        pallas.jax_op("test::wrong", annotated(abs), grad="jvp")
    with pytest.raises(NotImplementedError, match="meshes and partition specs are not supported"):
        pallas.jax_op("test::wrong", annotated(abs), mesh=object())


@needs_jax
def test_an_error_of_jax_names_the_operator(device):
    op = pallas.custom_jax_kernel(lambda x: jnp.dot(x, jnp.ones(3)), "test::jax_error")
    with pytest.raises(TypeError) as error:
        op(torch.ones(2, device=device))
    assert any(
        "while exporting the operator test::jax_error, defined at " + __file__ in n for n in error.value.__notes__
    )


def test_without_jax_the_error_says_what_to_install(tmp_path):
    (tmp_path / "jax.py").write_text("raise ImportError('no jax')")
    (tmp_path / "kernels.py").write_text("def op(x: object): return x")
    code = """
import pytpu as torch
op = torch.tpu.pallas.jax_op("a::b", "kernels:op")
try:
    op(torch.ones(2))
except ImportError as error:
    print(error)
"""
    assert (
        run(code, str(tmp_path), PYTHONSAFEPATH="1").strip()
        == "torch.tpu.pallas exports JAX functions and needs JAX: pip install jax"
    )


KERNELS = """
import jax.numpy as jnp
from helpers import factor


def op(x: object, *, k: int = 1):
    return jnp.sin(x) * factor * k
"""

CACHED = """
import sys
import zlib
import pytpu as torch
op = torch.tpu.pallas.jax_op("a::b", "kernels:op")
for device in ("cpu", "tpu"):
    x = torch.tensor([0.5, 1.0], dtype=torch.float64).to(device).requires_grad_()
    y = op(x, k=2)
    y.sum().backward()
    print([round(v, 6) for v in y.tolist() + x.grad.tolist()])
print("jax" in sys.modules)
"""


@needs_jax
def test_the_second_process_imports_no_jax(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "helpers.py").write_text("factor = 3.0")
    cache = str(tmp_path / "cache")
    first = run(CACHED, str(tmp_path), TORCHTPU_CACHE_DIR=cache).splitlines()
    second = run(CACHED, str(tmp_path), TORCHTPU_CACHE_DIR=cache).splitlines()
    assert (
        first[-1] == "True"
        and second[-1] == "False"
        and first[:-1] == second[:-1] == [str([2.876553, 5.048826, 5.265495, 3.241814])] * 2
    )
    # The key includes the functions that the function calls.
    (tmp_path / "helpers.py").write_text("factor = 5.0")
    third = run(CACHED, str(tmp_path), TORCHTPU_CACHE_DIR=cache).splitlines()
    assert third[-1] == "True" and third[0] == str([4.794255, 8.41471, 8.775826, 5.403023])
    # A damaged file is not used.
    for file in (tmp_path / "cache").iterdir():
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 255
        file.write_bytes(data)
    assert run(CACHED, str(tmp_path), TORCHTPU_CACHE_DIR=cache).splitlines()[:2] == [third[0]] * 2


@needs_jax
def test_the_key_of_a_function_holds_what_it_refers_to():
    from pytpu.tpu import _identity

    def make(scale, helper=lambda x: x):
        def op(x, k=1):
            return helper(x) * scale + OFFSET[0]

        return op

    describe = lambda f: _identity._of(f, {})
    OFFSET[0] = 1
    same = describe(make(2.0))
    assert describe(make(2.0)) == same and describe(make(3.0)) != same and describe(make(2.0, lambda x: x + 1)) != same
    OFFSET[0] = 2
    assert describe(make(2.0)) != same
    assert describe(jax.jit(make(2.0))) != describe(jax.jit(make(3.0)))
    assert describe(functools.partial(make(2.0), k=1)) != describe(functools.partial(make(2.0), k=2))
    with pytest.raises(_identity._Unknown):
        describe(make(object()))


OFFSET = [1]


@needs_jax
def test_a_file_holds_the_operator(tmp_path, device):
    @pallas.jax_op("test::saved")
    def op(p: dict, x: jax.Array, *, k: float):
        return {"y": jnp.sin(x @ p["w"]) * k, "n": x.shape[0] * jnp.ones(())}

    p, x = {"w": torch.randn(3, 2)}, torch.randn(4, 3)
    file = tmp_path / "op.kernel"
    op.save(file, p, x, k=0.5)
    assert os.listdir(tmp_path) == ["op.kernel"]
    loaded = pallas.load(file)
    moved = {"w": p["w"].clone().to(device).requires_grad_()}
    found = loaded(moved, x.to(device), k=0.5)
    assert torch.allclose(found["y"].cpu(), torch.sin(x @ p["w"]) * 0.5, atol=1e-6) and found["n"].item() == 4
    found["y"].sum().backward()
    want = p["w"].clone().requires_grad_()
    (torch.sin(x @ want) * 0.5).sum().backward()
    assert torch.allclose(moved["w"].grad.cpu(), want.grad, atol=1e-6)
    with pytest.raises(
        RuntimeError,
        match=r"has no kernel for the arguments \(float32\[3, 2\], float32\[2, 3\]\), "
        r"but for \(float32\[3, 2\], float32\[4, 3\]\)",
    ):
        loaded(p, x[:2], k=0.5)
    with pytest.raises(RuntimeError, match="other static arguments"):
        loaded(p, x, k=0.25)
    code = f"""
import sys
import zlib
import pytpu as torch
loaded = torch.tpu.pallas.load({str(file)!r})
print(loaded({{"w": torch.ones(3, 2)}}, torch.zeros(4, 3), k=0.5)["y"].sum().item(), "jax" in sys.modules)
"""
    assert run(code).split() == ["0.0", "False"]


@needs_jax
def test_files_of_an_operator_serve_several_shapes(tmp_path):
    op = pallas.custom_jax_kernel(lambda x, k=1: x + k, "test::shapes")
    for n in (2, 3):
        op.save(tmp_path / f"{n}.kernel", torch.empty(n), k=n)
    loaded = pallas.load(tmp_path / "2.kernel", tmp_path / "3.kernel")
    assert [loaded(torch.zeros(n), k=n).tolist() for n in (2, 3)] == [[2.0, 2.0], [3.0, 3.0, 3.0]]
    with pytest.raises(RuntimeError, match=r"\(float32\[4\]\), but for \(float32\[2\]\), \(float32\[3\]\)$"):
        loaded(torch.zeros(4), k=4)
    with pytest.raises(RuntimeError, match="called in another way or with other static arguments"):
        loaded(torch.zeros(2), k=3)
    pallas.custom_jax_kernel(lambda x: x, "test::other").save(tmp_path / "other.kernel", torch.empty(2))
    with pytest.raises(ValueError, match="the files are of different operators: test::other, test::shapes"):
        pallas.load(tmp_path / "2.kernel", tmp_path / "other.kernel")


@needs_jax
@needs_libtpu
def test_a_file_is_compiled_for_a_planned_device(tmp_path):
    pallas.custom_jax_kernel(jax_softmax, "test::planned").save(tmp_path / "op.kernel", torch.empty(16, 128), rows=16)
    loaded = pallas.load(tmp_path / "op.kernel")
    with torch.tpu.plan(GENERATIONS) as plan:
        y = loaded(torch.ones(16, 128, device="tpu"), rows=16)
        report = plan.report()
    assert y.shape == (16, 128) and list(report.programs[0].reports) == GENERATIONS


@needs_jax
def test_damaged_files_are_refused(tmp_path):
    file = tmp_path / "op.kernel"
    pallas.custom_jax_kernel(lambda x: x + 1, "test::damaged").save(file, torch.ones(2))
    good = file.read_bytes()
    for bad, why in (
        (good[:-1], "is damaged"),
        (good[:200], "is damaged"),
        (b"", "is not a file"),
        (b"x" + good, "is not a file"),
    ):
        file.write_bytes(bad)
        with pytest.raises(ValueError, match=why):
            pallas.load(file)
    for at in range(30, len(good), 97):
        file.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(ValueError, match="is damaged"):
            pallas.load(file)
    with pytest.raises(FileNotFoundError):
        pallas.load(tmp_path / "none")


def kernel_file(content):
    """Return the bytes of a file with this content and a right checksum."""
    data = zlib.compress(content if isinstance(content, bytes) else json.dumps(content).encode())
    return b"torchtpu custom kernel 1\n" + hashlib.sha256(data).hexdigest().encode() + b"\n" + data


TWICE = """func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = stablehlo.add %x, %x : tensor<2xf32>
  return %y : tensor<2xf32>
}"""
KERNEL = {
    "name": "test::twice",
    "args": [[[2], "float32"]],
    "call": [["tuple", [["tensor", 0]]], ["dict", []]],
    "exports": {"cpu": {"plain": {"text": TWICE, "form": 0}}},
}


def exports(**changes):
    return {"cpu": {"plain": {"text": TWICE, "form": 0} | changes}}


@pytest.mark.parametrize(
    "content",
    [
        [],
        {},
        KERNEL | {"name": 5},
        KERNEL | {"name": "\ud800"},
        KERNEL | {"args": None},
        KERNEL | {"args": [[[3], "float32"]]},
        KERNEL | {"args": [[[2.5], "float32"]]},
        KERNEL | {"exports": []},
        KERNEL | {"exports": {"cpu": {}}},
        KERNEL | {"exports": exports(text=None)},
        KERNEL | {"exports": exports(text="nonsense")},
        KERNEL | {"exports": exports(form=1)},
        KERNEL | {"exports": exports(form={"set": [0]})},
        KERNEL | {"exports": exports(form={"dict": [0]})},
        KERNEL | {"exports": exports(why=3)},
        KERNEL | {"exports": exports(backward=TWICE)},
        KERNEL | {"exports": exports(backward=TWICE, visible=-1, inputs=[["input", 0]], results=[0])},
        KERNEL | {"exports": exports(backward=TWICE, visible=1, inputs=[["none", 0]], results=[0])},
        KERNEL | {"exports": exports(backward=TWICE, visible=1, inputs=[["input", 9]], results=[0])},
        KERNEL | {"exports": exports(backward=TWICE, visible=1, inputs=[["cotangent", 0]], results=["x"])},
        b"[" * 100_000,
        b"{",
        b"\xff",
    ],
)
def test_kernel_files_of_another_structure_are_refused(tmp_path, content):
    file = tmp_path / "op.kernel"
    file.write_bytes(kernel_file(KERNEL))
    assert pallas.load(file)(torch.ones(2)).tolist() == [2, 2]
    file.write_bytes(kernel_file(content))
    with pytest.raises(ValueError, match="is damaged"):
        pallas.load(file)


def test_a_small_kernel_file_cannot_fill_the_memory(tmp_path):
    file = tmp_path / "op.kernel"
    file.write_bytes(kernel_file(b" " * (300 << 20)))
    with pytest.raises(ValueError, match="which is refused"):
        pallas.load(file)


@needs_jax
def test_kernels_serve_several_threads(device):
    import threading

    op = pallas.custom_jax_kernel(lambda x: x * 2 + 1, "test::threads")
    found = [None] * 8

    def work(i):
        found[i] = [op(torch.full((j + 1,), float(i), device=device)).tolist() for j in range(4)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert found == [[[2.0 * i + 1] * (j + 1) for j in range(4)] for i in range(8)]


def test_static_arguments_compared_in_python_block_no_thread():
    import threading
    import time

    class Setting:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            time.sleep(0.001)  # releases the GIL
            return True

    op, x = (
        torch.tpu.stablehlo_op(
            "test::slow_equality", lambda x, k: product(x, x).replace(", %y: tensor<2xf32>", "").replace("%y", "%x")
        ),
        torch.ones(2),
    )
    threads = [threading.Thread(target=lambda: [op(x, Setting()) for _ in range(20)], daemon=True) for _ in range(4)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert not any(t.is_alive() for t in threads) and op.known <= 4


def test_copies_of_an_operator_are_the_operator():
    import copy
    import pickle

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.op = both()

        def forward(self, x):
            return self.op(x, x)[0]

    model = copy.deepcopy(Model())
    assert model(torch.ones(4)).tolist() == [2.0] * 4 and copy.copy(model.op) is model.op
    assert pickle.loads(pickle.dumps(model.op)) is model.op is torch.ops.test.both._op


def test_an_operator_that_was_replaced_is_freed():
    import gc
    import weakref

    op = torch.tpu.stablehlo_op(
        "test::freed", "no module", infer=lambda x, k: torch.empty_like(x), cpu=lambda x, k: x + 1
    )
    op.register_autograd(lambda ctx, g: (g, None))
    op(torch.ones(2, requires_grad=True), "k"), op(torch.ones(2), "k"), op(torch.ones(2, device="meta"), "k")
    gone = weakref.ref(op)
    del op
    torch.tpu.stablehlo_op("test::freed", BOTH)
    gc.collect()
    assert gone() is None


def test_modes_and_subclasses_see_the_calls():
    op, seen = both(), []

    class Seen(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = torch.ones(4)
    with Seen():
        op(x, x)
    assert op in seen

    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "mine", func is op

    assert op(x.as_subclass(Mine), x) == ("mine", True)
    assert op(torch.nn.Parameter(x), x)[0].tolist() == [2.0] * 4


@needs_jax
def test_a_script_for_torch_tpu_runs_unchanged():
    code = """
import jax
import torch
import torch_tpu
import torch_tpu._internal.pallas
from jax.experimental import pallas as pl

def add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]

@torch_tpu.pallas.custom_jax_kernel
def add(x, y):
    return pl.pallas_call(add_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)

@torch_tpu._internal.pallas.jax_op("script::scale")
def scale(x: jax.Array, factor: float) -> jax.Array:
    return x * factor

x = torch.arange(8.0, device="tpu")
is_same = torch_tpu._internal.pallas.custom_jax_kernel is torch.tpu.pallas.custom_jax_kernel
print(add(x, x).tolist(), scale(x, 3.0).tolist(), is_same)
"""
    path = str(pathlib.Path(torch.__file__).parent.parent)
    out = subprocess.run(
        [sys.executable, "-m", "pytpu", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        timeout=HANG_SECONDS,
    )
    assert out.returncode == 0, out.stderr
    assert out.stdout.strip() == f"{[2.0 * i for i in range(8)]} {[3.0 * i for i in range(8)]} True"


# Mosaic.


@needs_jax
@needs_libtpu
def test_the_tutorial_runs_and_its_mosaic_text_is_that_of_its_pallas_kernel(capsys, run_tutorial):
    names = run_tutorial("custom-kernels.md", at_least=8)
    capsys.readouterr()
    report = names["mosaic_report"].programs[0].reports["v5e:2x2"]
    assert report.cycles > 0
    text, softmax, fast = names["softmax_text"], names["softmax"], names["fast_softmax"]
    # The text compiles for all generations, and the compiler reports the stated cost.
    with torch.tpu.plan(GENERATIONS) as plan:
        y = fast(torch.ones(64, 256, device="tpu"), 16)
        program = plan.report().programs[-1]
    assert y.shape == (64, 256) and list(program.reports) == GENERATIONS and not program.errors
    assert all(r.flops >= 5 * 64 * 256 for r in program.reports.values())
    # The text has the same operations as the text that Pallas makes of the tutorial's kernel. In Pallas's
    # interpreter, that kernel gives the same numbers as the form for the processor.
    for shape, rows in (((16, 128), 8), ((64, 256), 16)):
        assert operations(text(torch.empty(*shape), rows)) == operations(
            text_of_pallas(names["softmax_kernel"], shape, rows)
        )
        x = torch.randn(shape)
        assert torch.allclose(fast(x, rows), softmax(x, rows=rows), atol=1e-6)
        assert torch.allclose(fast(x.to("tpu"), rows).cpu(), softmax(x.to("tpu"), rows=rows).cpu(), atol=1e-6)


def text_of_pallas(kernel, shape, rows):
    """Return the Mosaic text that Pallas makes of a kernel."""
    import base64

    from jax._src.interpreters import mlir
    from jax._src.lib import tpu
    from jaxlib.mlir import ir

    block = pl.BlockSpec((rows, shape[1]), lambda i: (i, 0))
    out = jax.ShapeDtypeStruct(shape, jnp.float32)
    call = pl.pallas_call(
        kernel, grid=(shape[0] // rows,), in_specs=[block], out_specs=block, out_shape=out, name="softmax"
    )
    module = jax.jit(call).trace(out).lower(lowering_platforms=("tpu",)).as_text()
    config = re.sub(
        r"\\([0-9A-F]{2})", lambda m: chr(int(m[1], 16)), re.search(r'backend_config = "([^"]*)"', module)[1]
    )
    body = base64.b64decode(json.loads(config)["custom_call_config"]["body"])
    context = mlir.JaxIrContext()
    context.allow_unregistered_dialects = True
    with context:
        tpu.register_dialect(context)
        return ir.Module.parse(body).operation.get_asm(print_generic_op_form=True)


def operations(text):
    """Return the operations of a text in order, with their wiring, attributes and types, and the set of windows.

    Values are numbered anew. Zero constants and unused values are left out, because Pallas makes more of both.
    """
    found, windows, names = [], set(), {}
    for line in map(str.strip, text.splitlines()):
        if line.startswith("^bb0"):
            names = {name: f"%{i}" for i, name in enumerate(re.findall(r"%\w+", line))}
            continue
        result = re.match(r"(%\w+) = ", line)
        is_used = result is None or len(re.findall(re.escape(result[1]) + r"\b", text)) > 1
        if "value = 0 :" in line:
            names[result[1]] = "zero"
        if "value = 0 :" in line or not is_used or line.startswith(("}) {function_type", '"stable_mosaic.func.func"')):
            continue
        if result is not None:
            names[result[1]] = f"%{len(names)}"
        line = re.sub(r"%\w+", lambda m: names[m[0]], line)
        if "(i32, i32)" in line:
            windows.add(line)
            continue
        found.append(re.sub(r"@\w+", "@", line))
    # The numbers of values also count values that were left out.
    order = {}
    return [re.sub(r"%\d+", lambda m: order.setdefault(m[0], f"v{len(order)}"), line) for line in found], windows


def test_texts_with_other_wiring_differ():
    text = '^bb0(%a: f32, %b: f32):\n%0 = "stable_mosaic.arith.subf"(%a, %b)\n"stable_mosaic.tpu.store"(%0, %b)'
    assert operations(text) == operations(text.replace("%0", "%x").replace("%b", "%y"))
    assert operations(text) != operations(text.replace("(%a, %b)\n", "(%b, %a)\n"))


def test_a_mosaic_kernel_needs_a_shape_rule_and_a_form_for_the_processor():
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'cpu'"):
        pallas.mosaic_op("test::mosaic", "text", lambda x: x)
    with pytest.raises(TypeError, match="expected `cpu` to be a callable, but got NoneType"):
        pallas.mosaic_op("test::mosaic", "text", lambda x: x, cpu=None)
    with pytest.raises(TypeError, match="expected `infer` to be a callable, but got NoneType"):
        pallas.mosaic_op("test::mosaic", "text", None, cpu=abs)


@needs_libtpu
def test_an_error_of_mosaic_names_the_operator_and_its_place():
    def text(x):
        return '"builtin.module"() ({}) {stable_mosaic.version = 11 : i64} : () -> ()'

    op = pallas.mosaic_op("test::broken", text, lambda x: torch.empty_like(x), cpu=abs, cost={"flops": 3})
    with torch.tpu.plan("v5e:2x2") as plan:
        y = op(torch.ones(8, 128, device="tpu"))
        report = plan.report()
    del y
    (error,) = report.programs[0].errors.values()
    assert (
        f"the program calls the custom kernel test::broken, defined at {__file__}, line {text.__code__.co_firstlineno}"
        in error
    )
    with torch.tpu.plan("v5e:2x2"), pytest.raises(TypeError, match="expected `cost` to be a dict"):
        pallas.mosaic_op("test::broken", text, lambda x: torch.empty_like(x), cpu=abs, cost=3)(
            torch.ones(8, 128, device="tpu")
        )
