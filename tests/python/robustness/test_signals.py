"""Handlers of signals beside libtpu, which has timers that send SIGPROF."""

import os
import subprocess
import sys
import textwrap

import pytest
from patience import HANG_SECONDS

import pytpu as torch

needs_libtpu = pytest.mark.skipif(
    not torch.tpu.aot.is_available() and os.environ.get("CI") != "true", reason="libtpu is not installed"
)

PRELUDE = """
    import os, signal, threading, time
    import pytpu as torch

    def load():
        torch.tpu.aot.compile(lambda x: x + 1, torch.zeros(8, 8))

    def work(seconds):
        end = time.process_time() + seconds
        while time.process_time() < end:
            sum(range(100_000))
"""


def run(program):
    text = textwrap.dedent(PRELUDE) + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.split()


@needs_libtpu
@pytest.mark.parametrize("thread", [False, True])
def test_restoring_all_handlers_is_harmless(thread):
    # Lightning saves and restores all handlers around `fit`.
    load = "t = threading.Thread(target=load); t.start(); t.join()" if thread else "load()"
    out = run(f"""
        {load}
        saved = {{s: signal.getsignal(s) for s in signal.valid_signals() - {{signal.SIGKILL, signal.SIGSTOP}}}}
        print(saved[signal.SIGPROF] == signal.SIG_IGN)
        for number, handler in saved.items():
            if handler is not None:
                signal.signal(number, handler)
        os.kill(os.getpid(), signal.SIGPROF)
        work(2)
        print("alive")
    """)
    assert out == ["True", "alive"]


@needs_libtpu
def test_a_handler_of_the_program_stays():
    out = run("""
        seen = []
        signal.signal(signal.SIGPROF, lambda *_: seen.append(1))
        load()
        os.kill(os.getpid(), signal.SIGPROF)
        work(0.1)
        print(len(seen) >= 1, callable(signal.getsignal(signal.SIGPROF)))
        load()
        signal.setitimer(signal.ITIMER_PROF, 0.05)
        before = len(seen)
        work(0.5)
        print(len(seen) > before)
    """)
    assert out == ["True", "True", "True"]
