"""Times of named blocks, as in `torch.autograd.profiler`.

What is timed is what the host does in a block of `record_function`; single ops are not listed. On `tpu` that is the recording of ops,
and the launches that happen to come in the block: how many programs were launched and compiled there is counted beside it.
"""

import gzip
import json
import os
import re
import threading
import time
from contextlib import ContextDecorator

import pytpu as torch

_running = None


class Interval:
    """When a block began and ended, in microseconds."""

    def __init__(self, start, end):
        self.start = start
        self.end = end

    def elapsed_us(self):
        """How long it was."""
        return self.end - self.start


class _Times:
    """What one event has in common with the sum of several: times in microseconds."""

    count = 1
    # Of a device nothing is known but when the host waits for it.
    device_time = device_time_total = self_device_time_total = 0

    @property
    def cpu_time(self):
        """Of one call."""
        return self.cpu_time_total / self.count if self.count else 0.0


class FunctionEvent(_Times):
    """One time that a block ran, in the thread `thread`, inside of `cpu_parent`."""

    def __init__(self, name, thread, start, parent):
        self.name = name
        self.key = re.sub(r"^ProfilerStep#\d+$", "ProfilerStep*", name)
        self.thread = thread
        self.time_range = Interval(start, start)
        self.cpu_parent = parent
        self.cpu_children = []
        self.programs = self.compilations = 0
        if parent is not None:
            parent.cpu_children.append(self)

    @property
    def cpu_time_total(self):
        """From begin to end."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self):
        """Without the blocks inside."""
        return self.cpu_time_total - sum(inner.cpu_time_total for inner in self.cpu_children)

    def __repr__(self):
        return f"<FunctionEvent name={self.name} cpu_time={_duration(self.cpu_time)} thread={self.thread}>"


class FunctionEventAvg(_Times):
    """All events of one name."""

    def __init__(self, key):
        self.key = self.name = key
        self.count = self.cpu_time_total = self.self_cpu_time_total = self.programs = self.compilations = 0
        self.cpu_parent = None

    def add(self, event):
        """Counts one more."""
        for what in ("count", "cpu_time_total", "self_cpu_time_total", "programs", "compilations"):
            setattr(self, what, getattr(self, what) + getattr(event, what))
        return self

    def __repr__(self):
        return f"<FunctionEventAvg key={self.key} cpu_time={_duration(self.cpu_time)} count={self.count}>"


def _duration(us):
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= size:
            return f"{us / size:.3f}{unit}"
    return f"{us:.3f}us"


class EventList(list):
    """Events, or sums of them."""

    @property
    def self_cpu_time_total(self):
        """Microseconds of all."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(self, *args, **kwargs):
        """The sums of events of one name. Arguments are about ops, which are not listed."""
        sums = {}
        for event in self:
            sums.setdefault(event.key, FunctionEventAvg(event.key)).add(event)
        return EventList(sums.values())

    def total_average(self):
        """The sum of all."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.add(event)
        return total

    def table(
        self,
        sort_by=None,
        row_limit=100,
        max_src_column_width=75,
        max_name_column_width=55,
        max_shapes_column_width=80,
        header=None,
        top_level_events_only=False,
    ):
        """Text: a row for each, the greatest `sort_by` first. Programs are there if any were launched."""
        if not self:
            return ""
        events = list(self)
        if sort_by is not None:
            by = sort_by.replace("cuda", "device")
            events.sort(key=lambda event: getattr(event, by), reverse=True)
        if top_level_events_only:
            events = [event for event in events if event.cpu_parent is None]
        heads = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]
        has_programs = any(event.programs or event.compilations for event in self)
        heads += ["# of Programs", "# Compiled"] * has_programs
        whole = self.self_cpu_time_total or 1
        rows = []
        for event in events[: None if row_limit < 0 else row_limit]:
            name = (
                event.key if len(event.key) < max_name_column_width else event.key[: max_name_column_width - 3] + "..."
            )
            row = [name]
            for us in (event.self_cpu_time_total, event.cpu_time_total):
                row += [f"{us / whole * 100:.2f}%", _duration(us)]
            row += [_duration(event.cpu_time), str(event.count)]
            rows.append(row + [str(event.programs), str(event.compilations)] * has_programs)
        names = min(max(len(event.key) for event in self) + 4, max_name_column_width)
        widths = [max(names, len("Name"))] + [max(12, len(head)) for head in heads[1:]]
        line = "  ".join("-" * width for width in widths) + "  "

        def written(cells):
            return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths)) + "  "

        lines = [line, written(heads), line, *map(written, rows), line]
        if header is not None:
            lines = ["=" * (len(line) - 2), header, *lines]
        return "\n".join([*lines, f"Self CPU time total: {_duration(self.self_cpu_time_total)}", ""])

    def __str__(self):
        return self.table()

    def export_chrome_trace(self, path, metadata=None):
        """Writes a file for `chrome://tracing` and Perfetto; compressed if its name ends with `.gz`."""
        events = [
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": event.name,
                "pid": os.getpid(),
                "tid": event.thread,
                "ts": event.time_range.start,
                "dur": event.time_range.elapsed_us(),
                "args": {"Programs": event.programs, "Compilations": event.compilations},
            }
            for event in self
        ]
        trace = {"schemaVersion": 1, "displayTimeUnit": "ms", **(metadata or {}), "traceEvents": events}
        with (gzip.open if str(path).endswith(".gz") else open)(path, "wt") as file:
            json.dump(trace, file)


def _programs(counts):
    """Programs that ran, compiled or op by op."""
    return counts["segments_executed"] + counts["segments_interpreted"]


class Collector:
    """Events of all threads while it runs; only one runs at a time."""

    def __init__(self):
        self.events = EventList()
        self._open = {}

    def start(self):
        """Begins."""
        global _running
        if _running is not None:
            raise RuntimeError("Profiler is already enabled")
        _running = self

    def stop(self):
        """Ends, and with it all blocks that have not."""
        global _running
        _running = None
        for stack in self._open.values():
            while stack:
                self.leave(stack[-1])

    def enter(self, name):
        """Begins a block."""
        thread = threading.get_ident()
        stack = self._open.setdefault(thread, [])
        counts = torch.tpu.metrics()
        event = FunctionEvent(name, thread, time.perf_counter_ns() / 1000, stack[-1] if stack else None)
        event.programs, event.compilations = -_programs(counts), -counts["compilations"]
        stack.append(event)
        self.events.append(event)
        return event

    def leave(self, event):
        """Ends a block, and those inside of it."""
        stack = self._open[event.thread]
        if event not in stack:
            return
        end = time.perf_counter_ns() / 1000
        counts = torch.tpu.metrics()
        while True:
            last = stack.pop()
            last.time_range.end = end
            last.programs += _programs(counts)
            last.compilations += counts["compilations"]
            if last is event:
                return


class record_function(ContextDecorator):
    """Gives a block, or a function, a name under which a profiler lists it."""

    def __init__(self, name, args=None):
        self.name = name
        self.args = args
        self.record = None

    def _recreate_cm(self):
        return record_function(self.name, self.args)

    def __enter__(self):
        collector = _running
        self.record = (collector, None if collector is None else collector.enter(self.name))
        return self

    def __exit__(self, *_):
        if self.record is None:
            raise AssertionError("Expected record to be set")
        collector, event = self.record
        if collector is not None:
            collector.leave(event)


class profile:
    """Lists the blocks that run inside of it; `torch.profiler.profile` is newer. Options about ops have no effect."""

    def __init__(self, enabled=True, **options):
        self.enabled = enabled
        self.function_events = None

    def __enter__(self):
        if self.enabled:
            self._collector = Collector()
            self._collector.start()
        return self

    def __exit__(self, *_):
        if self.enabled:
            self._collector.stop()
            self.function_events = self._collector.events

    def _events(self):
        if self.function_events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self.function_events

    @property
    def self_cpu_time_total(self):
        """Microseconds of all."""
        return self._events().self_cpu_time_total

    def key_averages(self, *args, **kwargs):
        """The sums of events of one name."""
        return self._events().key_averages()

    def total_average(self):
        """The sum of all."""
        return self._events().total_average()

    def table(self, *args, **kwargs):
        """All events, as text."""
        return self._events().table(*args, **kwargs)

    def export_chrome_trace(self, path):
        """Writes a file for `chrome://tracing` and Perfetto."""
        self._events().export_chrome_trace(path)

    def __str__(self):
        return "<unfinished profiler_profile>" if self.function_events is None else str(self.function_events)


__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "profile", "record_function"]


class emit_nvtx:
    """Marks of ops for NVIDIA's profiler: entering the block raises ``RuntimeError``, unless it is not ``enabled``."""

    def __init__(self, enabled=True, record_shapes=False):
        self.enabled = enabled

    def __enter__(self):
        if self.enabled:
            raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")
        return self

    def __exit__(self, *error):
        return False
