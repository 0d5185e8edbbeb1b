"""Names of backends, `torch._dynamo`, `torch.compiler`, logs and counts."""

import logging
import subprocess
import sys

import pytest

import pytpu as torch
from pytpu import nn
from pytpu._dynamo.testing import CompileCounter, CompileCounterWithBackend


def branches(x):
    y = x.sin()
    if y.sum() > 0:
        return y + 1
    return y


def test_backends_have_names():
    assert torch._dynamo.list_backends() == ["cudagraphs", "inductor", "openxla", "tpu", "tvm"]
    assert {"eager", "aot_eager"} < set(torch.compiler.list_backends(None))
    for name in torch._dynamo.list_backends(None):
        if name != "pre_dispatch_eager":
            assert torch.compile(lambda x: x + 1, backend=name)(torch.ones(1)).tolist() == [2], name

    @torch._dynamo.register_backend(name="doubles_for_tests", tags=("debug",))
    def doubles(gm, example_inputs, **kwargs):
        assert kwargs == {"options": {"a": 1}}
        return lambda *args: [2 * y for y in gm(*args)]

    fast = torch.compile(lambda x: x + 1, backend="doubles_for_tests", options={"a": 1})
    assert fast(torch.ones(1)).tolist() == [4]
    assert "doubles_for_tests" not in torch._dynamo.list_backends()
    assert torch._dynamo.lookup_backend("doubles_for_tests") is doubles
    with pytest.raises(AssertionError, match="duplicate name: doubles_for_tests"):
        torch._dynamo.register_backend(doubles, name="doubles_for_tests")
    with pytest.raises(
        torch._dynamo.exc.InvalidBackend,
        match=r"Invalid backend: 'induktor', did you mean: 'inductor'\? See `torch._dynamo.list_backends\(\)`",
    ):
        torch.compile(branches, backend="induktor")


def test_backends_of_entry_points(tmp_path):
    (tmp_path / "other_backend.py").write_text("def make(gm, inputs):\n    return lambda *a: [7 * y for y in gm(*a)]\n")
    info = tmp_path / "other_backend-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[torch_dynamo_backends]\nsevenfold = other_backend:make\n")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import pytpu as torch
assert "sevenfold" in torch.compiler.list_backends()
print(torch.compile(lambda x: x + 1, backend="sevenfold")(torch.ones(1)).item())
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout.strip() == "14.0", out.stderr


def test_explain():
    found = torch._dynamo.explain(branches)(torch.ones(2))
    assert (found.graph_count, found.graph_break_count, found.op_count) == (2, 1, 2)
    assert [reason.reason for reason in found.break_reasons] == ["Tensor.__bool__"]
    assert found.break_reasons[0].user_stack[-1].name == "branches"
    text = str(found)
    assert text.startswith("Graph Count: 2\nGraph Break Count: 1\nOp Count: 2\nBreak Reasons:\n  Break Reason 1:\n")
    assert "Ops per Graph:\n  Ops 1:\n    <built-in function gt>\n" in text
    assert torch._dynamo.explain(nn.Linear(2, 2), torch.ones(1, 2)).graph_count == 1


def test_counts_and_reset():
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counter = CompileCounterWithBackend("aot_eager")
    fast = torch._dynamo.optimize(counter)(branches)
    fast(torch.ones(2))
    fast(torch.ones(2))
    assert counters["stats"] == {"calls_captured": 4, "unique_graphs": 2} and counters["graph_break"].total() == 2
    assert counter.frame_count == len(counter.graphs) == 2 and counter.op_count == 4
    torch._dynamo.reset()
    assert not counters
    fast(torch.ones(2))
    assert counter.frame_count == 4
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch._dynamo.optimize_assert("eager")(branches)(torch.ones(2))


def test_stances():
    counter = CompileCounter()
    fast = torch.compile(lambda x: x + 1, backend=counter)
    with torch.compiler.set_stance("force_eager"):
        fast(torch.ones(1))
        assert torch.compile(torch.compiler.is_compiling)() is False
    with torch.compiler.set_stance("eager_on_recompile"):
        assert fast(torch.ones(1)).item() == 2
    with (
        torch.compiler.set_stance("fail_on_recompile"),
        pytest.raises(
            RuntimeError, match=r"Detected recompile when torch.compile stance is 'fail_on_recompile'. filen"
        ),
    ):
        fast(torch.ones(1))
    assert counter.frame_count == 0
    with torch.compiler.set_stance("eager_then_compile"):
        other = torch.compile(lambda x: x + 1, backend=counter)
        other(torch.ones(1))
        assert counter.frame_count == 0
        other(torch.ones(1))
        assert counter.frame_count == 1
    with torch.compiler.set_stance(force_backend=counter):
        torch.compile(lambda x: x + 1)(torch.ones(1))
    assert counter.frame_count == 2

    @torch.compiler.set_stance("force_eager")
    def call():
        return fast(torch.ones(1))

    call()
    fast(torch.ones(1))
    assert counter.frame_count == 3
    with pytest.raises(RuntimeError, match="non-default stance cannot have force_backend set"):
        torch.compiler.set_stance("force_eager", force_backend="eager")
    # As a function it is for good.
    torch.compiler.set_stance("force_eager")
    fast(torch.ones(5))
    torch.compiler.set_stance("default")
    assert counter.frame_count == 3


def test_default_backend():
    counter = CompileCounter()
    torch.compiler.set_default_backend(counter)
    try:
        assert torch.compiler.get_default_backend() is counter
        torch.compile(lambda x: x + 1)(torch.ones(1))
    finally:
        torch.compiler.set_default_backend(None)
    assert counter.frame_count == 1 and torch.compiler.get_default_backend() == "inductor"
    with pytest.raises(TypeError, match="backend must be a string or callable, got <class 'int'>"):
        torch.compiler.set_default_backend(3)


def test_names_of_the_compiler_module():
    assert all(hasattr(torch.compiler, name) for name in torch.compiler.__all__)
    assert torch.compiler.nested_compile_region(len) is len and torch.compiler.assume_constant_result(len) is len
    assert torch.compiler.save_cache_artifacts() is None and torch.compiler.load_cache_artifacts(b"") is None
    assert torch.compiler.skip_all_guards_unsafe([1, 2]) == [False, False]
    for name in ("load_compiled_function", "precompile"):
        with pytest.raises(NotImplementedError, match=f"torch.compiler.{name}"):
            getattr(torch.compiler, name)(None)

    @torch.compiler.substitute_in_graph(abs)
    def other(x, /):
        return x

    assert other(3) == 3
    with pytest.raises(TypeError, match="Signature mismatch between"):
        torch.compiler.substitute_in_graph(abs)(lambda a, b: a)
    with pytest.raises(TypeError, match="substitute_in_graph expects a function but got <class 'int'>"):
        torch.compiler.substitute_in_graph(3)
    numbers = torch.compiler.wrap_numpy(lambda a: a * 2)
    assert torch.compile(numbers, backend="eager")(torch.ones(1)).tolist() == [2]
    with torch.compiler.config.patch(recompile_limit=3):
        assert torch._dynamo.config.recompile_limit == 3


def test_logs_of_graphs(capsys):
    try:
        torch._logging.set_logs(graph_code=True, recompiles=True, graph_breaks=True, aot_graphs=True, graph=True)
        fast = torch.compile(branches, backend="aot_eager")
        fast(torch.ones(2, requires_grad=True))
        fast(torch.ones(3))
    finally:
        torch._logging.set_logs()
    text = capsys.readouterr().err
    for part in (
        "[__graph_code]",
        "===== __compiled_fn_",
        "Graph break in user code: Tensor.__bool__",
        "Recompiling function branches in",
        "size mismatch. expected torch.Size([2]), actual torch.Size([3])",
        "===== Backward graph =====",
        "[__graph] placeholder",
    ):
        assert part in text, part
    torch.compile(branches, backend="eager")(torch.ones(2))
    assert not capsys.readouterr().err and not logging.getLogger("torch._dynamo").handlers


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ("graph_code", "[__graph_code]"),
        ("zzz", "Invalid log settings: zzz, must be a comma separated list of fully\n"),
        ("help", "Visible registered names (use TORCH_LOGS='+help' for full list)"),
    ],
)
def test_logs_of_the_environment(settings, text, monkeypatch):
    monkeypatch.setenv("TORCH_LOGS", settings)
    code = "import pytpu as torch; torch.compile(lambda x: x + 1, backend='eager')(torch.ones(1))"
    assert text in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr
