"""Times of statements. Measurements and tables print as in PyTorch."""

import pickle
import re
import subprocess
import sys

import pytest

import pytpu as torch
from pytpu.utils import benchmark


def measured(times, runs=10, **task):
    return benchmark.Measurement(runs, [t * runs for t in times], benchmark.TaskSpec("x + y", "pass", **task))


def text(measurement):
    return re.sub("<.*Measurement object at 0x[0-9a-f]+>", "<M>", repr(measurement))


def test_statistics_of_a_measurement():
    m = measured([3e-6, 1e-6, 2e-6, 10e-6, 4e-6], label="Add", sub_label="small", num_threads=2)
    assert m.median == pytest.approx(3e-6) and m.mean == pytest.approx(4e-6) and m.iqr == pytest.approx(2e-6)
    assert m.label == "Add" and m.title == "Add: small" and m.as_row_name == "small" and m.has_warnings
    assert text(m) == (
        "<M>\nAdd: small\n  Median: 3.00 us\n  IQR:    2.00 us (2.00 to 4.00)\n"
        "  5 measurements, 10 runs per measurement, 2 threads\n"
        "  WARNING: Interquartile range is 66.7% of the median measurement.\n"
        "           This suggests significant environmental influence."
    )
    assert text(measured([2e-3], 100)) == "<M>\nx + y\n  2.00 ms\n  1 measurement, 100 runs , 1 thread"
    assert pickle.loads(pickle.dumps(m)).median == m.median
    (merged,) = benchmark.Measurement.merge([m, m])
    assert merged.number_per_run == 1 and len(merged.raw_times) == 10 and merged.median == pytest.approx(3e-6)
    steady = measured([1e-6 + i * 1e-12 for i in range(9)])
    assert steady.meets_confidence(1e-3) and not steady.meets_confidence(1e-6) and not steady.has_warnings
    # The smallest interval is 25 ns.
    assert steady.significant_figures == 1 and measured([1e-2] * 9).significant_figures == 4


def test_a_table_of_measurements():
    compare = benchmark.Compare([
        measured([t * 1e-6] * 4, label="Sums", sub_label=row, description=column, num_threads=n)
        for n in (4, 1) for row, column, t in (("[8]", "loop", 2), ("[8]", "sum", 1), ("[1024]", "loop", 150.26))
    ])  # fmt: skip
    # As PyTorch prints it.
    assert str(compare).split("\n") == [
        "[----------- Sums -----------]",
        "              |   loop  |  sum",
        "1 threads: -------------------",
        "      [8]     |    2.0  |  1.0",
        "      [1024]  |  150.3  |     ",
        "4 threads: -------------------",
        "      [8]     |    2.0  |  1.0",
        "      [1024]  |  150.3  |     ",
        "",
        "Times are in microseconds (us).",
        "",
    ]
    compare.colorize(rowwise=True)
    assert str(compare).count("\033[92m") == 4 and str(compare).count("\033[2m\033[91m") == 2
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`, got <class 'int'> instead"):
        benchmark.Compare([1])


def test_times_of_statements():
    timer = benchmark.Timer(
        """
        for _ in range(2):
            seen.append(y + 1)
        """,
        "y = 3",
        globals={"seen": (seen := [])},
    )
    m = timer.timeit(200)
    assert m.number_per_run == 200 and len(m.raw_times) == 1 and set(seen) == {4} and m.median > 0
    assert m.stmt == "for _ in range(2):\n    seen.append(y + 1)" and m.setup == "y = 3"
    blocks = []
    m = benchmark.Timer("sum(range(100))").blocked_autorange(lambda *block: blocks.append(block), min_run_time=0.02)
    assert sum(m.raw_times) >= 0.02 and blocks == [(m.number_per_run, t) for t in m.raw_times]
    assert len(benchmark.Timer("sum(range(100))").adaptive_autorange(max_run_time=1).raw_times) > 3
    before = torch.get_num_threads()
    m = benchmark.Timer(
        "seen.add(torch.get_num_threads())", globals={"seen": (counts := set())}, num_threads=before + 1
    ).timeit(2)
    assert counts == {before + 1} and torch.get_num_threads() == before


def test_a_longer_statement_takes_longer(device):
    x = torch.randn(400, 400, device=device)
    once, often = (benchmark.Timer("y = x\n" + "y = y @ x\n" * n, globals={"x": x}).timeit(20).median for n in (1, 8))
    assert often > 2 * once


def test_the_ops_of_all_runs_are_computed_on_a_device():
    x = torch.randn(8, 8, device="tpu")
    for stmt in ("x @ x", "y = x @ x", "z = 1; x.mm(x)"):
        timer = benchmark.Timer(stmt, globals={"x": x})
        timer.timeit(2)
        before = torch.tpu.metrics()["segments_executed"]
        # Two runs to warm up.
        timer.timeit(10)
        assert torch.tpu.metrics()["segments_executed"] - before == 12
    code = (
        "import pytpu.utils.benchmark as b; b.Timer('1').timeit(2); print('xla_cpu_pjrt' in "
        "open('/proc/self/maps').read())"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_statements_that_cannot_be_timed():
    for error, words, make in [
        (ValueError, "Currently only a `str` stmt is supported", lambda: benchmark.Timer(lambda: 1)),
        (ValueError, "Invalid language `rust`", lambda: benchmark.Timer("x", language="rust")),
        (NotImplementedError, "C\\+\\+ are not supported", lambda: benchmark.Timer("x", language="c++")),
        (ValueError, "global_setup is C\\+\\+ only, got `int a;`", lambda: benchmark.Timer("x", global_setup="int a;")),
        (NotImplementedError, "See `Timer.blocked_autorange.`", lambda: benchmark.Timer("1").repeat()),
        (SyntaxError, "invalid syntax", lambda: benchmark.Timer("x x")),
        (NameError, "name 'x' is not defined", lambda: benchmark.Timer("x").timeit(1)),
        (AttributeError, "has no attribute 'nothing'", lambda: measured([1]).nothing),
    ]:
        with pytest.raises(error, match=words):
            make()
