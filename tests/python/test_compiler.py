"""`torch.compile` and `torch.compiler`."""

import copy
import io
import subprocess
import sys
import threading

import pytest

import pytpu as torch
from pytpu import nn


def test_the_module_itself_stays_as_it_is(device):
    net = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5)).to(device)
    fast = torch.compile(net, mode="max-autotune")
    x = torch.ones(4, 3, device=device)
    assert fast is not net and isinstance(fast, nn.Module) and "forward" not in vars(net)
    fast.eval()
    assert not net.training and not fast.training and torch.equal(fast(x), net(x))
    assert list(fast.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert fast.get_submodule("_orig_mod.0") is net[0]
    fast(x).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    fast.extra = 5
    assert net.extra == 5 and fast.extra == 5
    net.train()
    assert fast.training


def test_a_method_may_be_replaced_on_the_compiled_module_alone():
    net = nn.Linear(2, 2)
    fast = torch.compile(net)
    fast.state_dict = lambda: {"own": 1}
    assert fast.state_dict() == {"own": 1} and list(net.state_dict()) == ["weight", "bias"]
    del fast.state_dict
    assert list(fast.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]


def test_a_copy_has_weights_of_its_own(device):
    fast = torch.compile(nn.Linear(2, 2).to(device))
    x = torch.ones(1, 2, device=device)
    before = fast(x)
    average = copy.deepcopy(fast)
    with torch.no_grad():
        for p in average.parameters():
            p.zero_()
    assert torch.equal(fast(x), before) and not average(x).any()
    file = io.BytesIO()
    torch.save(fast, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(x), before)


def test_hooks_of_the_module_run():
    net = nn.Linear(2, 2)
    seen = []
    net.register_forward_hook(lambda *_: seen.append(1))
    torch.compile(net)(torch.ones(1, 2))
    assert seen == [1]


def test_functions_and_decorators(device):
    @torch.compile(fullgraph=True)
    def f(x):
        """Add one."""
        return x + 1

    x = torch.ones(2, device=device)
    assert f(x).tolist() == [2, 2] and f.__doc__ == "Add one."
    assert torch.compile(f, disable=True) is f
    with pytest.raises(ZeroDivisionError):
        torch.compile(lambda: 1 / 0)()


def test_unknown_options_of_compile_are_refused():
    def f(x):
        return x

    for options, kind, text in (
        ({"mode": "zzz"}, RuntimeError, "Unrecognized mode=zzz, should be one of: default, lite, reduce-overhead"),
        ({"mode": "default", "options": {}}, RuntimeError, "Either mode or options can be specified, but both can't"),
        ({"backend": "zzz"}, RuntimeError, "Invalid backend: 'zzz'"),
        ({"dynamic": 3}, AssertionError, "Expected enable to be a bool, got <class 'int'>"),
    ):
        with pytest.raises(kind, match=text):
            torch.compile(f, **options)
    with pytest.raises(AssertionError, match="A callable function is expected, but <class 'int'> is provided."):
        torch.compile(3)
    assert torch.compile(f, backend="eager", mode="zzz")(3) == 3


def test_missing_features_of_the_compiler_raise():
    def double(x):
        return 2 * x

    assert torch.compiler.disable(double)(2) == 4 and torch.compiler.disable(recursive=False)(double) is double
    with torch.compiler.set_stance("force_eager"):
        assert not torch.compiler.is_compiling()
    with pytest.raises(RuntimeError, match="invalid torch.compile stance 'lazy'"):
        torch.compiler.set_stance("lazy")
    assert not torch.onnx.is_in_onnx_export()


def test_code_knows_that_it_runs_in_a_compiled_call():
    seen = []

    class Net(nn.Module):
        def forward(self, x):
            seen.append((torch.compiler.is_compiling(), torch.compiler.is_dynamo_compiling()))
            seen.append(torch._dynamo.is_compiling() and not torch.compiler.is_exporting())
            return x

    fast = torch.compile(Net())
    fast(torch.ones(1))
    assert seen == [(True, True), True] and not torch.compiler.is_compiling()
    # Another thread is not in the call, and an error ends it.
    other = []

    @torch.compile
    def fails():
        thread = threading.Thread(target=lambda: other.append(torch.compiler.is_compiling()))
        thread.start()
        thread.join()
        raise KeyError("x")

    with pytest.raises(KeyError):
        fails()
    assert other == [False] and not torch.compiler.is_compiling()


def test_a_compiled_call_is_a_program_only_without_gradients():
    fast = torch.compile(nn.Linear(2, 2).to("tpu"))
    x = torch.ones(3, 2, device="tpu")
    y = x + 1
    z = fast(y)
    # `y` is still pending beside the result.
    assert "stablehlo.add" in torch.tpu.dump_stablehlo(z) and "dense<1" not in torch.tpu.dump_graph(y)
    del y, z
    with torch.no_grad():
        y = x + 1
        z = fast(y)
        with pytest.raises(ValueError):
            torch.tpu.dump_stablehlo(z)
    assert z.shape == (3, 2) and y.tolist() == [[2, 2]] * 3


def test_marks_and_options_without_effect_say_so_once():
    code = """
import warnings
import pytpu as torch
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    for _ in range(2):
        torch._dynamo.mark_dynamic(torch.ones(2), 0)
        torch.compile(lambda x: x, options={"bounded_dynamism": True, "debug_callback": print, "max_autotune": True})
        torch.profiler.profile(record_shapes=True, with_stack=True)
print(*(str(w.message).split(":")[0] for w in found), sep="\\n")
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout.splitlines() == [
        "torch._dynamo.mark_dynamic has no effect",
        "torch.compile",
        "torch.compile",
        "torch.profiler.profile",
    ], out.stdout + out.stderr
