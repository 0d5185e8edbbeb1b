"""The lazy engine: interrupts, delayed errors, reports, memory."""

import gc
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from patience import HANG_SECONDS

import pytpu as torch

INTERRUPTED = """
    import signal

    import pytpu as torch
    # A shell's background jobs ignore the signal, and so would this.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    x = torch.full((256, 256), 1 / 256, device={device!r})
    try:
        print("ready", flush=True)
        while True:
            y = x
            for _ in range(20):
                y = y @ x
            y.sum().item()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print("goes on", x.sum().item(), flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX's")
def test_ctrl_c_interrupts_a_loop_and_the_process_goes_on(device):
    program = textwrap.dedent(INTERRUPTED).format(device=device)
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        rest, _ = child.communicate(timeout=HANG_SECONDS)
    finally:
        child.kill()
    assert rest.split("\n")[:2] == ["interrupted", "goes on 256.0"], rest
    assert child.returncode == 0


def line_here():
    return sys._getframe(1).f_lineno


def test_an_index_out_of_range_raises_later_with_value_and_line():
    x = torch.ones(3, 2, device="tpu")
    at = torch.tensor([0, 7], device="tpu")
    line = line_here() + 1
    y = x[at]
    with pytest.raises(IndexError, match="index 7 is out of bounds for dimension 0 with size 3") as e:
        y.sum().item()
    assert f"{__file__}, line {line}" in str(e.value)
    assert x.sum().item() == 6.0


def test_a_target_that_is_no_class_is_an_error(device):
    x = torch.zeros(2, 3, device=device)
    with pytest.raises(IndexError, match="Target 5 is out of bounds."):
        torch.nn.functional.cross_entropy(x, torch.tensor([0, 5], device=device)).item()
    with pytest.raises(IndexError, match="Target -1 is out of bounds."):
        torch.nn.functional.nll_loss(x, torch.tensor([0, -1], device=device)).item()
    ignored = torch.nn.functional.cross_entropy(x, torch.tensor([0, -100], device=device))
    assert ignored.item() == pytest.approx(1.0986, abs=1e-3)


def test_the_engine_explains_what_it_compiled():
    x = torch.ones(5, 7, device="tpu")
    (x.tanh() * 3).sum().item()
    text = torch.tpu.explain()[-1]
    assert "tanh" in text and "cut: read by host" in text, text
    torch.ones(6, 7, device="tpu").tanh().mul(3).sum().item()
    assert any("5" in line and "6" in line for line in torch.tpu.explain()[-1:]), torch.tpu.explain()[-2:]


def test_pending_programs_can_be_seen():
    x = torch.ones(2, 3, device="tpu")
    y = (x + 1).exp()
    graph = torch.tpu.dump_graph(y)
    assert "exp" in graph and "float32[2, 3]" in graph, graph
    assert "stablehlo.exponential" in torch.tpu.dump_stablehlo(y)
    with pytest.raises(ValueError, match="expected a tensor on device tpu"):
        torch.tpu.dump_graph(torch.ones(2))


def test_memory_of_freed_results_can_be_released():
    torch.tpu.synchronize()
    torch.tpu.empty_cache()
    x = torch.ones(512, 512, device="tpu")
    for k in range(3):
        y = x + k
        torch.tpu.mark_step()
    del y
    torch.tpu.synchronize()
    assert torch.tpu.memory_reserved() >= torch.tpu.memory_allocated() + 512 * 512 * 4
    assert torch.tpu.memory_stats()["reserved_bytes.all.current"] == torch.tpu.memory_reserved()
    executables = torch.tpu.metrics()["cached_executables"]
    torch.tpu.empty_cache()
    assert torch.tpu.memory_reserved() == torch.tpu.memory_allocated()
    assert torch.tpu.metrics()["cached_executables"] == executables > 0
    assert (x + 3).mean().item() == 4


def test_the_accelerator_is_device_tpu():
    assert torch.accelerator.is_available() and torch.accelerator.device_count() == torch.tpu.device_count()
    device = torch.accelerator.current_accelerator()
    assert device == torch.device("tpu") and device.index is None
    assert torch.accelerator.current_accelerator(check_available=True).type == "tpu"
    with torch.accelerator.device_index(0):
        x = torch.ones(300, device=device)
    torch.accelerator.synchronize()
    assert torch.accelerator.current_device_index() == 0 == x.get_device() == torch.get_device(x)
    with pytest.raises(RuntimeError, match="invalid device ordinal 7"):
        torch.accelerator.set_device_index(7)
    torch.accelerator.reset_peak_memory_stats()
    assert torch.accelerator.max_memory_allocated() == torch.accelerator.memory_allocated() > 0


def resident_bytes():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_stays_flat_after_the_first_steps(device):
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(8, 16).to(device)
    y = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3]).to(device)

    def steps(n):
        for i in range(n):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            if i % 100 == 0:
                loss.item()
        return loss.item()

    steps(100)
    before = resident_bytes()
    n = int(os.environ.get("TORCHTPU_TEST_STEPS", "2000"))
    assert steps(n) < 1.4
    assert resident_bytes() - before < 4 << 20


NEVER_THE_SAME = """
import pytpu as torch
for n in range(2, 50):
    y = torch.ones(n if {changes} else 3, device="tpu")
    for _ in range(40):
        y = y * 1.01 + 1
    y.sum().item()
"""


@pytest.mark.parametrize("changes", [True, False])
def test_programs_that_never_repeat_warn_once(changes):
    run = subprocess.run(
        [sys.executable, "-c", NEVER_THE_SAME.format(changes=changes)],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_SECONDS,
        env={**os.environ, "TORCHTPU_CACHE": "0"},
    )
    assert run.stderr.count("torchtpu: warning") == changes
    assert ("torch.tpu.explain()" in run.stderr) == changes


def _forgotten_graphs():
    """Return programs that record a graph and never call backward."""
    w = torch.nn.Parameter(torch.ones(6, 6, device="tpu"))
    x = torch.ones(4, 6, device="tpu")
    lstm = torch.nn.LSTM(6, 3, device="tpu")
    state = [x]

    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            y = a.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    def chain(cut):
        state[0] = cut(state[0] @ w + x)

    def retained():
        (w.exp() * x.sum()).sum().backward(retain_graph=True)
        w.grad = None

    def buffer():
        rows = torch.zeros(3, 6, device="tpu")
        state.append(rows[0].detach())
        rows[1] = w[0] * 2
        state.pop(1) if len(state) > 2 else None

    return {
        **{name: getattr(w, name) for name in ("exp", "tanh", "sigmoid", "relu", "max", "norm", "sqrt")},
        "softmax": lambda: w.softmax(-1),
        "cross_entropy": lambda: torch.nn.functional.cross_entropy(
            x @ w, torch.zeros(4, dtype=torch.long, device="tpu")
        ),
        "detach": lambda: chain(torch.Tensor.detach),
        "data": lambda: chain(lambda y: y.data),
        "view": lambda: chain(lambda y: y.view(2, 12).detach().view(4, 6)),
        "retain_graph": retained,
        "create_graph": lambda: torch.autograd.grad(w.exp().sum(), w, create_graph=True),
        "Function": lambda: Exp.apply(w),
        "LSTM": lambda: lstm(x[None])[0].sum(),
        "buffer": buffer,
    }


@pytest.mark.parametrize("name", _forgotten_graphs())
def test_a_graph_without_backward_is_freed(name):
    step = _forgotten_graphs()[name]

    def live():
        gc.collect()
        # Finish delayed checks, such as those of class numbers.
        torch.tpu.synchronize()
        return torch.tpu.metrics()["live_values"]

    for _ in range(3):
        step()
    before = live()
    for _ in range(20):
        step()
        torch.tpu.mark_step()
    assert live() <= before + 4


def test_results_of_whole_ops_are_no_views(device):
    table = torch.nn.Embedding(10, 4).to(device)
    at = torch.tensor([[1, 2]], device=device)
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            rows = table(at)
        assert not rows._is_view() and rows._base is None
        rows *= 2.0
    rows = table(at)
    rows *= 3.0
    rows.sum().backward()
    assert table.weight.grad.sum().item() == 24.0
