"""Kernels in files and in other processes: caches, keys, and damaged files."""

import functools
import hashlib
import json
import os
import zlib

import pytest
from kernel_parts import (
    GENERATIONS,
    jax,
    jax_softmax,
    jnp,
    needs_jax,
    needs_libtpu,
    run,
)

import pytpu as torch
from pytpu.tpu import pallas

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
