"""User-defined operators of JAX and Pallas: ``torch.tpu.pallas``."""

import functools
import os
import pathlib
import subprocess
import sys

import pytest
from kernel_parts import (
    BOTH,
    GENERATIONS,
    both,
    jax,
    jax_softmax,
    jnp,
    needs_jax,
    needs_libtpu,
    pl,
    product,
    run,
)
from patience import HANG_SECONDS

import pytpu as torch
from pytpu.tpu import pallas


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
