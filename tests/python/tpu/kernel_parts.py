"""Operators and kernels of several tests, and what these tests need."""

import os
import pathlib
import subprocess
import sys

import pytest
from patience import HANG_SECONDS

import pytpu as torch

GENERATIONS = ["v4:2x2x1", "v5e:2x2", "v5p:2x2x1", "v6e:2x2", "TPU7x:2x2x1"]

try:
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl
except ImportError:
    assert os.environ.get("CI") != "true", "jax is missing: pip install jax"
    jax = jnp = pl = None

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
