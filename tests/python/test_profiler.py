"""Profiles of steps and named blocks."""

import gzip
import json
import threading
import time

import pytest

import pytpu as torch
from pytpu import profiler
from pytpu.profiler import ProfilerAction, record_function


def counts(prof):
    return {event.key: event.count for event in prof.key_averages()}


def test_times_of_blocks_include_inner_blocks():
    @record_function("twice")
    def twice(n):
        return n * 2 if n else twice(n + 1)

    with record_function("before"), profiler.profile() as prof:
        with record_function("outer"):
            time.sleep(0.02)
            for _ in range(2):
                with record_function("inner"):
                    time.sleep(0.02)
        assert twice(0) == 2
        thread = threading.Thread(target=twice, args=(3,))
        thread.start()
        thread.join()
    with record_function("after"):
        pass
    assert counts(prof) == {"outer": 1, "inner": 2, "twice": 3}
    outer, inner, _ = prof.key_averages()
    assert 60e3 <= outer.cpu_time_total < 200e3 and outer.cpu_time == outer.cpu_time_total
    assert inner.cpu_time_total >= 40e3 and inner.cpu_time == inner.cpu_time_total / 2
    assert outer.self_cpu_time_total == pytest.approx(outer.cpu_time_total - inner.cpu_time_total)
    events = prof.events()
    assert [e.cpu_parent and e.cpu_parent.name for e in events] == [None, "outer", "outer", None, "twice", None]
    assert events[0].cpu_children == events[1:3] and events[-1].thread != events[0].thread
    whole = outer.cpu_time_total + sum(e.cpu_time_total for e in (events[3], events[5]))
    assert events.self_cpu_time_total == pytest.approx(whole) == events.total_average().self_cpu_time_total


def test_the_table_has_the_columns_of_pytorchs():
    with profiler.profile() as prof:
        with record_function("short"):
            pass
        with record_function("long" * 20):
            time.sleep(0.01)
    lines = prof.key_averages().table(sort_by="cpu_time_total", row_limit=1, header="Here").split("\n")
    assert lines[1] == "Here" and lines[4] == lines[2] and lines[-1] == ""
    assert lines[3].split() == "Name Self CPU % Self CPU CPU total % CPU total CPU time avg # of Calls".split()
    assert lines[5].split()[0] == ("long" * 20)[:52] + "..." and lines[5].split()[2].endswith("ms") and len(lines) == 9
    assert lines[7].startswith("Self CPU time total: 1") and {len(line) for line in lines[2:7]} == {len(lines[2])}
    by_self = prof.key_averages().table(sort_by="self_cuda_time_total").split("\n")
    assert by_self[3].split()[0] == "short"
    with pytest.raises(AttributeError, match="'FunctionEventAvg' object has no attribute 'nothing'"):
        prof.key_averages().table(sort_by="nothing")


def test_programs_are_counted_in_the_block_that_launched_them():
    x = torch.ones(3, device="tpu")
    with profiler.profile() as prof:
        with record_function("record"):
            y = x * 3.25 + 1
        with record_function("read"):
            y.tolist()
    record, read = prof.key_averages()
    assert (record.programs, record.compilations, read.programs) == (0, 0, 1) and read.compilations <= 1
    assert "# of Programs" in prof.key_averages().table()


def test_a_schedule_says_which_steps_are_recorded():
    schedule = profiler.schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)
    n, w, r, s = (ProfilerAction(i) for i in range(4))
    assert [schedule(i) for i in range(12)] == [n, n, w, r, s, n, w, r, s, n, n, n]
    ready = []
    with profiler.profile(
        schedule=schedule, on_trace_ready=lambda p: ready.append((p.step_num, [e.name for e in p.events()]))
    ) as prof:
        for i in range(10):
            with record_function(f"block {i}"):
                pass
            prof.step()
    assert ready == [
        (last + 1, [f"ProfilerStep#{last - 1}", f"block {last - 1}", f"ProfilerStep#{last}", f"block {last}"])
        for last in (4, 8)
    ]
    assert counts(prof)["ProfilerStep*"] == 2
    with profiler.profile(schedule=schedule, acc_events=True) as prof:
        for _ in range(10):
            prof.step()
    assert counts(prof) == {"ProfilerStep*": 4}
    assert [profiler.schedule(wait=2, warmup=1, active=1, skip_first_wait=1)(i) for i in range(4)] == [w, s, n, n]


def test_traces_are_files(tmp_path):
    handler = profiler.tensorboard_trace_handler(tmp_path / "runs", "worker", use_gzip=True)
    with profiler.profile(on_trace_ready=handler) as prof:
        with record_function("a"), record_function("b"):
            pass
        prof.add_metadata_json("sizes", "[1, 2]")
    prof.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    (compressed,) = (tmp_path / "runs").iterdir()
    assert compressed.name.startswith("worker.") and compressed.name.endswith(".pt.trace.json.gz")
    assert json.loads(gzip.decompress(compressed.read_bytes())) == trace
    a, b = trace["traceEvents"]
    assert (a["name"], a["ph"], b["name"], trace["sizes"]) == ("a", "X", "b", [1, 2])
    assert a["ts"] <= b["ts"] and b["ts"] + b["dur"] <= a["ts"] + a["dur"]


def test_the_older_profiler():
    with torch.autograd.profiler.profile(use_cuda=False) as prof:
        assert str(prof) == "<unfinished profiler_profile>"
        with torch.autograd.profiler.record_function("block"):
            pass
    assert counts(prof) == {"block": 1} and "block" in prof.table() and prof.self_cpu_time_total > 0
    with torch.autograd.profiler.profile(enabled=False) as prof:
        pass
    with pytest.raises(RuntimeError, match="Profiler didn't finish running"):
        prof.key_averages()


def test_mistakes_with_profilers():
    prof = profiler.profile()
    for what, words in [
        (prof.key_averages, "getting key averages"),
        (prof.events, "accessing events"),
        (prof.stop, "stopping trace"),
        (lambda: prof.export_chrome_trace("trace.json"), "exporting chrome trace"),
    ]:
        with pytest.raises(AssertionError, match=f"Profiler must be initialized before {words}"):
            what()
    with pytest.raises(AssertionError, match="Expected record to be set"):
        record_function("a").__exit__(None, None, None)
    with pytest.raises(AssertionError, match=r"Invalid profiler schedule arguments. Got wait=-1 \(need >= 0\)"):
        profiler.schedule(wait=-1, warmup=0, active=1)
    with pytest.warns(UserWarning, match="won't be using warmup"):
        profiler.schedule(wait=1, warmup=0, active=1)
    with pytest.raises(AssertionError, match="No valid profiler activities found"):
        profiler.profile(activities=[])
    with pytest.raises(TypeError, match="Expected ProfilerActivity or dict, got <class 'str'>"):
        profiler.profile(activities=["cpu"])
    with profiler.profile() as prof:
        with pytest.raises(RuntimeError, match="Profiler is already enabled"):
            profiler.profile().start()
        with record_function("a"):
            pass
    assert counts(prof) == {"a": 1}
    with pytest.warns(UserWarning, match="Incorrect schedule: RECORD followed by NONE"):
        with profiler.profile(schedule=lambda step: ProfilerAction.NONE if step else ProfilerAction.RECORD) as prof:
            prof.step()
    assert counts(prof) == {"ProfilerStep*": 1}
