"""``python -m pytpu.advise``: each advice names a line and has the compiler's numbers."""

import json
import os
import pathlib
import re
import subprocess
import sys
import types

import pytest
from patience import HANG_SECONDS

import pytpu as torch
from pytpu.tpu import _advice, _trial
from pytpu.tpu._costs import Attention, Convolution, Costs, Product

ROOT = pathlib.Path(__file__).resolve().parents[3]
V5E = "v5e:2x2"

if not torch.tpu.aot.is_available():
    assert os.environ.get("CI") != "true", "libtpu is missing: pip install libtpu"
    pytest.skip("libtpu is not installed", allow_module_level=True)

TUTORIAL = (ROOT / "docs" / "advisor.md").read_text()
TRANSFORMER = re.search(r"```python\n(.*?)```", TUTORIAL, re.S)[1]


def advise(folder, script, *arguments, **env):
    (folder / "train.py").write_text(script)
    env = {**os.environ, "TORCHTPU_PJRT_PLUGIN": "/nonexistent/plugin.so", **env}
    return subprocess.run(
        [sys.executable, "-m", "pytpu.advise", "train.py", "--json", "out.json", *arguments],
        capture_output=True,
        text=True,
        env=env,
        cwd=folder,
        timeout=HANG_SECONDS,
    )


def found(folder):
    """Return the step that the last run found, and its advice by rule."""
    fields = json.loads((folder / "out.json").read_text())
    by_rule = {}
    for advice in fields["advice"]:
        by_rule.setdefault(advice["rule"], []).append(advice)
    return fields["step"], by_rule


def place(folder, script, text):
    """Return the line of the script with `text` in the form that advice uses."""
    return [str(folder / "train.py"), next(n for n, line in enumerate(script.splitlines(), 1) if text in line)]


@pytest.fixture(scope="module")
def transformer(tmp_path_factory):
    """Two layers with heads of 64 and a vocabulary of 1001."""
    folder = tmp_path_factory.mktemp("transformer")
    out = advise(folder, TRANSFORMER, "--all", "--no-batch")
    assert out.returncode == 0, out.stderr
    return folder, out.stdout, *found(folder)


def test_the_first_line_says_what_a_step_costs(transformer):
    _, text, step, _ = transformer
    pattern = (
        r"v5e:2x2, 1 chip: step [\d.]+ us \(compute [\d.]+ us, HBM [\d.]+ us\), [\d.]+ % of peak; "
        r"HBM [\d.]+ MB of 16.9 GB; 2 programs, \d+ ops, [\d.e-]+ s to compile"
    )
    assert re.search(pattern, text), text
    # Reading the loss splits the step into two programs.
    assert step["programs"] == 2 and step["ops"] > 100
    assert step["seconds"] >= max(step["compute_seconds"], step["memory_seconds"]) * 0.999
    assert 0 < step["total_bytes"] < step["memory_bytes"]


def test_heads_of_64_are_compared_with_heads_of_128(transformer):
    folder, _, step, rules = transformer
    (advice,) = rules["heads"]
    assert advice["places"] == [place(folder, TRANSFORMER, "scaled_dot_product_attention")]
    assert advice["what"] == "attention, 2 times: 2 heads of 64" and advice["change"] == "1 head of 128"
    costs = Costs(V5E)
    before, after = (
        costs.of(Attention(2, 128, 128, heads, heads, d, "bfloat16", is_causal=True, has_gradient=True))
        for heads, d in ((2, 64), (1, 128))
    )
    assert (advice["before"], advice["after"]) in [(before.cycles, after.cycles), (before.seconds, after.seconds)]
    assert advice["share"] == pytest.approx(2 * (before.seconds - after.seconds) / step["seconds"])


def test_the_vocabulary_is_padded_with_its_gradients(transformer):
    folder, _, step, rules = transformer
    (advice,) = rules["widths"]
    assert advice["places"] == [place(folder, TRANSFORMER, "return self.head(")]
    assert advice["what"] == "vocabulary, once: 256 x 128 x 1001" and advice["change"] == "1001 -> 1024"
    costs = Costs(V5E)
    before, after = (costs.of(Product(256, 128, n, "bfloat16", gradients=(True, True))) for n in (1001, 1024))
    assert advice["share"] == pytest.approx((before.seconds - after.seconds) / step["seconds"])


def test_a_read_inside_of_a_step_divides_it(transformer):
    folder, text, step, rules = transformer
    (advice,) = rules["reads"]
    assert advice["places"] == [place(folder, TRANSFORMER, "loss.item()")]
    assert "Programs a step: 2 -> 1" in advice["note"] and advice["before"] == pytest.approx(step["seconds"])
    assert advice["after"] < advice["before"] and "1 read by the host a step" in text


def test_gradients_that_are_results_are_named_with_both_lines(transformer):
    folder, text, _, rules = transformer
    (advice,) = rules["gradients"]
    assert advice["places"] == [
        place(folder, TRANSFORMER, "optimizer.step()"),
        place(folder, TRANSFORMER, "optimizer.zero_grad()"),
    ]
    parameters = 2 * (1001 * 128) + 2 * (4 * 128 * 128 + 4 * 128)
    assert advice["what"].startswith(_advice._bytes(2 * parameters))
    assert "channels_last" not in text and "float32" not in rules


def test_small_advice_is_shown_on_request_only(transformer, tmp_path):
    _, _, _, all_rules = transformer
    assert advise(tmp_path, TRANSFORMER, "--no-batch").returncode == 0
    _, rules = found(tmp_path)
    shown = [a for advice in rules.values() for a in advice]
    assert shown and all(a["rule"] == "reads" or max(a["share"], a["memory_share"]) >= 0.01 for a in shown)
    small = [
        a
        for advice in all_rules.values()
        for a in advice
        if a["rule"] != "reads" and max(a["share"], a["memory_share"]) < 0.01
    ]
    assert small and not {(a["rule"], a["change"]) for a in small} & {(a["rule"], a["change"]) for a in shown}


CONVOLUTIONS = """
import torch

first, second = torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.Conv2d(16, 130, 3, padding=1)
net = torch.nn.Sequential(first, torch.nn.ReLU(), second).to("tpu", torch.bfloat16)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(100):
    x = torch.randn(8, 3, 16, 16, dtype=torch.bfloat16).to("tpu")
    net(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_channels_of_a_small_network(tmp_path):
    assert advise(tmp_path, CONVOLUTIONS, "--no-batch").returncode == 0
    step, rules = found(tmp_path)
    # The script frees gradients right after the step and reads nothing, so there is no other advice.
    assert set(rules) == {"channels"}
    advice = next(a for a in rules["channels"] if "16 to 130" in a["what"])
    assert advice["places"] == [place(tmp_path, CONVOLUTIONS, "net(x)")]
    assert advice["change"] == "16 to 128 channels" and advice["unit"] == "cycles"
    costs = Costs(V5E)
    before, after = (
        costs.of(
            Convolution(
                8,
                16,
                (16, 16),
                n,
                (3, 3),
                "bfloat16",
                stride=(1, 1),
                padding=(1, 1),
                dilation=(1, 1),
                gradients=(True, True),
            )
        )
        for n in (130, 128)
    )
    assert (advice["before"], advice["after"]) == (before.cycles, after.cycles) and before.cycles > after.cycles
    assert advice["share"] == pytest.approx((before.seconds - after.seconds) / step["seconds"])


LINEAR = """
import torch

model = torch.nn.Linear(256, 256).to("tpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    x, y = torch.randn(64, 256).to("tpu"), torch.zeros(64, dtype=torch.int64).to("tpu")
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_float32_products_run_again_with_fewer_passes(tmp_path):
    out = advise(tmp_path, LINEAR, "--all", "--no-batch")
    assert out.returncode == 0, out.stderr
    step, rules = found(tmp_path)
    assert {a["change"] for a in rules["float32"]} == {
        'torch.set_float32_matmul_precision("high"), 3 passes',
        'torch.set_float32_matmul_precision("medium"), 1 pass',
    }
    for advice in rules["float32"]:
        assert advice["places"] == [place(tmp_path, LINEAR, "model(x)")]
        assert advice["before"] == step["seconds"] and advice["after"] < advice["before"]
        assert advice["share"] == pytest.approx(1 - advice["after"] / advice["before"])
    set_by_script = LINEAR.replace("import torch\n", 'import torch\ntorch.set_float32_matmul_precision("medium")\n')
    assert advise(tmp_path, set_by_script, "--all", "--no-batch").returncode == 0
    assert "float32" not in found(tmp_path)[1]


def test_the_largest_batch_is_found_by_compiling(tmp_path):
    hbm = 6_000_000

    def does_fit(batch):
        with torch.tpu.plan(V5E, hbm=hbm) as plan:
            model = torch.nn.Linear(256, 256).to("tpu")
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(3):
                x, y = torch.zeros(batch, 256).to("tpu"), torch.zeros(batch, dtype=torch.int64).to("tpu")
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()
        return _advice.Step(plan.report(), V5E).fits()

    out = advise(tmp_path, LINEAR, "--hbm", str(hbm / 1e9))
    assert out.returncode == 0, out.stderr
    (advice,) = found(tmp_path)[1]["batch"]
    assert re.match(r"a batch of 64 takes \d+ % of HBM", advice["what"])
    exact = re.match(r"The largest that fits is (\d+)", advice["change"])
    low, high = (
        (int(exact[1]), int(exact[1]) + 1)
        if exact
        else map(int, re.match(r"One of (\d+) fits, one of (\d+) does not", advice["change"]).groups())
    )
    assert 64 < low < high <= 1.2 * low
    assert does_fit(low) and not does_fit(high)
    assert int(re.search(r"by compiling (\d+) programs", advice["note"])[1]) <= 7


def test_a_batch_that_the_script_fixes_is_not_guessed(tmp_path):
    fixed = LINEAR.replace("model(x)", "model(x.view(64, 256))")
    assert advise(tmp_path, fixed, "--hbm", "0.02").returncode == 0
    (advice,) = found(tmp_path)[1]["batch"]
    assert advice["change"].startswith("Other sizes were not tried: RuntimeError: ") and advice["before"] is None


def test_a_size_that_takes_long_to_compile_ends_the_search():
    with torch.tpu.plan(V5E) as plan:
        y = torch.ones(64, 256).to("tpu") * 2

    def again(change, seconds):
        assert (change.batch, change.old_batch) == (128, 64)
        raise subprocess.TimeoutExpired("trial", seconds)

    first = types.SimpleNamespace(report=plan.report(), rows=None)
    (advice,) = _advice.Advisor(first, V5E, None, again).batch()
    assert re.match(r"Other sizes were not tried: a batch of 128 took more than \d+ s to compile", advice.change)
    del y


def test_a_batch_has_at_most_the_rows_of_the_data_set(tmp_path):
    script = LINEAR.replace(
        "for step in",
        """torch.backends.cuda.matmul.allow_tf32 = True
data = torch.utils.data.TensorDataset(torch.zeros(100, 2))
loader = torch.utils.data.DataLoader(data, batch_size=64)
for step in""",
    )
    out = advise(tmp_path, script, "--all")
    # Such a script mixes PyTorch's two interfaces to precision.
    assert out.returncode == 0, out.stderr
    _, rules = found(tmp_path)
    (advice,) = rules["batch"]
    assert "100" in advice["change"] and "the data set has 100 rows" in advice["change"]
    # Three passes are the script's choice, at its line.
    assert [a["change"] for a in rules["float32"]] == ['torch.set_float32_matmul_precision("medium"), 1 pass']
    assert rules["float32"][0]["places"] == [place(tmp_path, script, "allow_tf32")]


def test_slower_steps_and_what_is_there_already_are_no_advice():
    with torch.tpu.plan(V5E) as plan:
        y = torch.ones(64, 256).to("tpu") * 2
    report = plan.report()
    first = types.SimpleNamespace(report=report, rows=None, gradient_bytes=10, zero_grad_lines=[("a.py", 3)])
    first.clears_after_step, first.step_lines = True, [("a.py", 2)]
    advisor = _advice.Advisor(first, V5E, None, None, shows_all=True)
    assert list(advisor.gradients()) == []
    slower = _advice.Step(report, V5E)
    slower.seconds *= 1.05
    slower.total_bytes -= 1
    assert list(advisor._whole_step(slower, "float32", [], "what", "change")) == []
    slower.seconds, slower.total_bytes = advisor.step.seconds * 0.9, advisor.step.total_bytes
    (advice,) = advisor._whole_step(slower, "float32", [], "what", "change")
    assert advice.share == pytest.approx(0.1)
    del y


def test_a_process_that_ends_says_why(tmp_path):
    with pytest.raises(RuntimeError, match=r"ended with code 1: .*TypeError"):
        _trial.run("x.py", [], {"topology": V5E, "hbm": None, "options": {}, "unknown": 1}, 1)


ONE_ROW = """
import torch

with torch.no_grad():
    w = torch.randn(1024, 1024, dtype=torch.bfloat16).to("tpu")
    x = torch.randn(1, 1024, dtype=torch.bfloat16).to("tpu")
    torch.tpu.mark_step()
    y = torch.nn.functional.linear(x, w)
    torch.tpu.mark_step()
"""


def test_one_row_does_not_use_the_matrix_unit(tmp_path):
    assert advise(tmp_path, ONE_ROW).returncode == 0
    (advice,) = found(tmp_path)[1]["rows"]
    assert advice["places"] == [place(tmp_path, ONE_ROW, "linear(x, w)")]
    before, after = (Costs(V5E).of(Product(rows, 1024, 1024, "bfloat16")) for rows in (1, 8))
    assert (advice["before"], advice["after"]) == (before.cycles, after.cycles) and after.cycles < before.cycles
    assert advice["share"] > 0.3


def test_the_command_reports_wrong_arguments(tmp_path):
    out = advise(tmp_path, "raise KeyError('mine')\n")
    assert out.returncode == 1 and "KeyError: 'mine'" in out.stderr
    assert advise(tmp_path, "import sys\nsys.exit(3)\n").returncode == 3
    out = advise(tmp_path, "x = 1\n")
    assert out.returncode == 1 and "ran nothing on device tpu" in out.stderr
    out = advise(tmp_path, "x = 1\n", "--topology", "v99:1")
    assert out.returncode == 1 and "is not a TPU generation" in out.stderr
    assert "expected one machine" in advise(tmp_path, "x = 1\n", "--topology", f"{V5E},v6e:2x2").stderr
    assert "expected NAME=VALUE" in advise(tmp_path, "x = 1\n", "--option", "x").stderr


def test_a_script_from_the_standard_input_runs_in_each_trial(tmp_path):
    out = subprocess.run(
        [sys.executable, "-m", "pytpu.advise", "-", "--no-batch", "--all"],
        input=LINEAR,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TORCHTPU_PJRT_PLUGIN": "/nonexistent/plugin.so"},
        timeout=HANG_SECONDS,
    )
    assert out.returncode == 0 and "float32 products run in 6 passes" in out.stdout, out.stdout + out.stderr


def test_the_tutorial_shows_the_output_of_the_command(transformer):
    _, text, _, _ = transformer
    shown = re.search(r"```\n(v5e:2x2, 1 chip: .*?)```", TUTORIAL, re.S)[1].splitlines()
    printed = [line for line in text.splitlines() if line.startswith("v5e") or re.match(r" ?\d+  ", line)]
    words = lambda line: re.sub(r"[\d.]+", "", line)
    assert len(shown) == len(printed)
    assert [words(a) for a in shown] == [words(b) for b in printed]
