"""Programs that device "tpu" computes op by op on the host's kernels, because they are new."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from patience import HANG_SECONDS

PRELUDE = """
    import json
    import pytpu as torch

    def counts():
        m = torch.tpu.metrics()
        return [m[name] for name in ("segments_interpreted", "segments_executed", "compilations")]

    def train(steps, sizes=lambda i: 8):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1)).to("tpu")
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        losses = []
        for i in range(steps):
            x = torch.randn(sizes(i), 4, device="tpu")
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses
"""


def run(program, **environment):
    """Run a program in a new process with this environment, and return its JSON output."""
    env = {k: v for k, v in os.environ.items() if k != "TORCHTPU_INTERPRET"} | {"TORCHTPU_CACHE": "0"} | environment
    text = textwrap.dedent(PRELUDE) + textwrap.dedent(program)
    out = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=HANG_SECONDS, env=env)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


def test_a_loop_is_compiled_when_its_program_comes_again():
    program = "print(json.dumps([train(6), counts(), torch.tpu.explain()]))"
    losses, (interpreted, launched, compiled), report = run(program)
    # The first step also runs a program that makes the optimiser's state. Both programs are new, and only that of the
    # step comes again.
    assert (interpreted, launched, compiled) == (2, 5, 1)
    # A program of a few fills is never compiled, so the report omits it.
    assert [line.split(" of ")[0] for line in report] == ["first run, op by op,", "compilation"]
    again, *_ = run(program)
    assert again == losses
    compiled_losses, (interpreted, *_), _ = run(program, TORCHTPU_INTERPRET="0")
    assert interpreted == 0
    assert losses == pytest.approx(compiled_losses, rel=1e-5)


def test_steps_of_other_sizes_compile_nothing():
    losses, counts = run("print(json.dumps([train(12, lambda i: 4 + i), counts()]))")
    assert counts[1:] == [0, 0]
    want, counts = run("print(json.dumps([train(12, lambda i: 4 + i), counts()]))", TORCHTPU_INTERPRET="always")
    assert losses == want


def test_programs_of_another_process_change_no_result(tmp_path):
    program = "print(json.dumps([train(5), counts()]))"
    environment = {"TORCHTPU_CACHE": "1", "TORCHTPU_CACHE_DIR": str(tmp_path)}
    cold, warm = run(program, **environment), run(program, **environment)
    assert (cold[1][2], warm[1][2]) == (1, 0)
    assert cold[0] == warm[0]


def test_deterministic_algorithms_round_alike_within_a_process():
    assert run("""
        torch.use_deterministic_algorithms(True)
        print(json.dumps([train(5) == train(5), counts()[0]]))
    """) == [True, 0]


def test_an_index_out_of_range_raises_with_the_line_of_the_call():
    [error] = run("""
        x = torch.arange(6.0, device="tpu").reshape(3, 2)
        try:
            torch.nn.functional.embedding(torch.tensor([0, 7], device="tpu"), x).sum().item()
        except IndexError as e:
            print(json.dumps([str(e) + str(getattr(e, "__notes__", ""))]))
    """)
    assert "index out of range in self" in error


def test_strict_and_debug_mode_compile_no_single_op():
    losses = {
        mode: run(f"""
        torch.tpu.set_eager_mode("{mode}")
        print(json.dumps([train(4), counts()]))
    """)
        for mode in ("strict", "debug")
    }
    assert losses["strict"][1][1:] == losses["debug"][1][1:] == [0, 0]
    assert losses["strict"][0] == losses["debug"][0]
