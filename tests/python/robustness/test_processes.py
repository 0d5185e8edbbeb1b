"""Threads and forked processes give results or clear errors, and never hang."""

import os
import subprocess
import sys
import textwrap
import threading

import pytest
from patience import HANG_SECONDS

import pytpu as torch
from pytpu import nn


def run(script):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_threads_train_side_by_side(device):
    def train(seed, results):
        x = torch.arange(12, dtype=torch.float32).reshape(4, 3).to(device) * 0.1 + seed
        w = torch.full((3, 2), 0.5, device=device, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.01, momentum=0.9)
        for _ in range(20):
            optimizer.zero_grad()
            (x @ w).sin().square().sum().backward()
            optimizer.step()
        results[seed] = w.detach().cpu()

    alone, together = {}, {}
    for seed in range(4):
        train(seed, alone)
    threads = [threading.Thread(target=train, args=(seed, together)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for seed in range(4):
        assert torch.allclose(alone[seed], together[seed], atol=1e-6)


def test_gradient_mode_and_hooks_belong_to_their_thread():
    seen = []
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad(), torch.autograd.graph.saved_tensors_hooks(lambda t: 1 / 0, lambda t: t):
        t = threading.Thread(target=lambda: seen.append((x * x).requires_grad))
        t.start()
        t.join()
    assert seen == [True]


def test_one_graph_is_walked_by_several_threads():
    x = torch.ones(3, requires_grad=True)
    y = (x * 2).sum()
    grads = []

    def walk():
        for _ in range(50):
            grads.append(torch.autograd.grad(y, x, retain_graph=True)[0].tolist())

    threads = [threading.Thread(target=walk) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert grads == [[2.0] * 3] * 200


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_forked_process_computes_on_the_host_and_refuses_the_device():
    run(
        """
import os, sys, warnings
import pytpu as torch
warnings.simplefilter("ignore")  # Python warns of forks in processes with threads
n = 1 << 21
assert (torch.ones(n) + 1).sum().item() == 2 * n
before = torch.ones(3, device="tpu") + 1
assert before.sum().item() == 6
child = os.fork()
if child == 0:
    x = torch.ones(n, requires_grad=True)
    (x * 2 + 1).sum().backward()
    good = torch.equal(x.grad, torch.full((n,), 2.0))
    try:
        (before + torch.ones(3, device="tpu")).sum().item()
    except RuntimeError as e:
        good = good and "Cannot re-initialize TPU in forked subprocess" in str(e)
    else:
        good = False
    del before
    os._exit(0 if good else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert before.sum().item() == 6
"""
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_process_that_was_forked_before_the_device_was_used_may_use_it():
    run(
        """
import os
import pytpu as torch
child = os.fork()
if child == 0:
    os._exit(0 if (torch.ones(3, device="tpu") + 1).sum().item() == 6 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    )


def test_modules_go_through_a_spawned_process():
    model = nn.Linear(2, 1)
    import multiprocessing

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_apply, (model.state_dict()["weight"].tolist(),)) == model.weight.tolist()


def _apply(values):
    model = nn.Linear(2, 1)
    model.load_state_dict({"weight": torch.tensor(values), "bias": torch.zeros(1)})
    return model.weight.tolist()


def _write(i, x, part, model):
    assert part.is_shared() and model.weight.requires_grad and x.stride() == (1, 2)
    x[0, 1] = 42.0
    part.add_(1)
    with torch.no_grad():
        model.weight.fill_(7)
        model.running_mean.fill_(5)


def _start_another(i, x):
    torch.multiprocessing.spawn(_write_one, (x,))


def _write_one(i, x):
    x.fill_(1)


def _serve(requests, answers):
    shared, copied = requests.get()
    shared.fill_(3)
    copied.fill_(3)
    answers.put("done")


def test_spawned_processes_write_to_shared_memory():
    model = nn.BatchNorm1d(2).share_memory()
    x = torch.zeros(3, 2).t().share_memory_()
    torch.multiprocessing.spawn(_write, (x, x[1], model))
    assert x.tolist() == [[0, 42, 0], [1, 1, 1]]
    assert model.weight.tolist() == [7, 7] and model.running_mean.tolist() == [5, 5]
    torch.multiprocessing.spawn(_start_another, (x,))
    assert x.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_shared_memory_goes_through_queues():
    context = torch.multiprocessing.get_context("spawn")
    requests, answers = context.Queue(), context.Queue()
    process = context.Process(target=_serve, args=(requests, answers))
    process.start()
    shared, copied = torch.zeros(3).share_memory_(), torch.zeros(3)
    requests.put((shared, copied))
    assert answers.get(timeout=60) == "done"
    process.join()
    assert shared.tolist() == [3, 3, 3] and copied.tolist() == [0, 0, 0]
    queue = context.SimpleQueue()
    queue.put(shared)
    queue.get()[0] = 8
    assert shared.tolist() == [8, 3, 3]
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"):
        queue.put(torch.ones(1, requires_grad=True) * 2)


def test_shared_memory_keeps_views_and_is_given_back():
    part = torch.arange(6.0)[2:].share_memory_()
    assert part.tolist() == [2, 3, 4, 5] and part.storage_offset() == 2 and part.is_shared() and part[1:].is_shared()
    assert not part.clone().is_shared()
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    for _ in range(50):
        torch.ones(3).share_memory_()
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 2


def test_a_child_waits_for_no_lock_of_another_thread():
    """Fork while other threads record on the device. The child gets an error or does nothing, and ends."""
    run(
        textwrap.dedent("""
        import os, signal, threading, time
        import pytpu as torch
        t = torch.ones(5, device="tpu")
        t.tolist()
        stop = False
        def busy():
            w = torch.randn(8, 8, device="tpu", requires_grad=True)
            while not stop:
                y = w
                for k in range(60):
                    y = (y * w + k).tanh()
                y.sum().backward()
                w.grad = None
        threads = [threading.Thread(target=busy) for _ in range(2)]
        for thread in threads:
            thread.start()
        def drop():
            global t
            del t
        for i in range(60):
            pid = os.fork()
            if pid == 0:
                try:
                    (lambda: t + 1, lambda: t.tolist(), drop)[i % 3]()
                except RuntimeError as e:
                    os._exit(0 if "Cannot re-initialize TPU in forked subprocess" in str(e) else 1)
                os._exit(0 if i % 3 == 2 else 2)
            end = time.monotonic() + 20
            while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
                if time.monotonic() > end:
                    os.kill(pid, signal.SIGKILL)
                    stop = True
                    raise SystemExit(f"child {i} hangs")
                time.sleep(0.001)
            if ended[1]:
                stop = True
                raise SystemExit(f"child {i} ended with {ended[1]}")
        stop = True
        for thread in threads:
            thread.join()
        print("fine")
        """)
    )
