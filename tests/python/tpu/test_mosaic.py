"""Kernels written in Mosaic's text."""

import json
import re

import pytest
from kernel_parts import GENERATIONS, jax, jnp, needs_jax, needs_libtpu, pl

import pytpu as torch
from pytpu.tpu import pallas


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
