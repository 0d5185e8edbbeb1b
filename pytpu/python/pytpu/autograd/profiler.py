"""Times of named blocks, as in `torch.autograd.profiler`.

A profiler measures what the host does in a block of `record_function`. It lists collectives and messages between
processes, and no other single ops. On `tpu` the host records ops and launches programs. The numbers of programs that
are launched and compiled in a block are counted too.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import threading
import time
from contextlib import ContextDecorator

import pytpu as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal


_running = None


class Interval:
    """Time between the beginning and the end of a block.

    Args:
        start: Beginning, in microseconds.
        end: End, in microseconds.
    """

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """Return the length in microseconds."""
        return self.end - self.start


class _Times:
    """Fields that an event and the sum of several events share. Times are in microseconds."""

    count = 1
    # Times on the device are unknown, except for the waits of the host.
    cpu_time_total: float
    device_time = device_time_total = self_device_time_total = 0

    @property
    def cpu_time(self) -> float:
        """Time of one call, in microseconds."""
        return self.cpu_time_total / self.count if self.count else 0.0


class FunctionEvent(_Times):
    """One run of a named block.

    Args:
        name: Name of the block.
        thread: Identifier of the thread.
        start: Beginning, in microseconds.
        parent: Event of the block around this one, or `None`.
    """

    def __init__(self, name: str, thread: int, start: float, parent: FunctionEvent | None) -> None:
        self.name = name
        self.key = re.sub(r"^ProfilerStep#\d+$", "ProfilerStep*", name)
        self.thread = thread
        self.time_range = Interval(start, start)
        self.cpu_parent = parent
        self.cpu_children: list[FunctionEvent] = []
        self.programs = self.compilations = 0
        # Collectives between processes set both.
        self.is_async = False
        self.input_shapes: list[list[int]] = []
        if parent is not None:
            parent.cpu_children.append(self)

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]  # A sum in `FunctionEventAvg`.
        """Time from the beginning to the end, in microseconds."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:
        """Time without the blocks inside, in microseconds."""
        return self.cpu_time_total - sum(inner.cpu_time_total for inner in self.cpu_children)

    def __repr__(self) -> str:
        return f"<FunctionEvent name={self.name} cpu_time={_duration(self.cpu_time)} thread={self.thread}>"


class FunctionEventAvg(_Times):
    """Sum of all events of one name.

    Args:
        key: The name.
    """

    def __init__(self, key: str) -> None:
        self.key = self.name = key
        self.count = self.cpu_time_total = self.self_cpu_time_total = self.programs = self.compilations = 0
        self.cpu_parent = None

    def add(self, event: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add the times of an event, and return the sum."""
        for what in ("count", "cpu_time_total", "self_cpu_time_total", "programs", "compilations"):
            setattr(self, what, getattr(self, what) + getattr(event, what))
        return self

    def __repr__(self) -> str:
        return f"<FunctionEventAvg key={self.key} cpu_time={_duration(self.cpu_time)} count={self.count}>"


def _duration(us):
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if us >= size:
            return f"{us / size:.3f}{unit}"
    return f"{us:.3f}us"


class EventList(list):
    """List of events, or of sums of events."""

    @property
    def self_cpu_time_total(self) -> float:
        """Time of all events, in microseconds."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
        """Return the sums of the events of each name.

        Args:
            args: Accepted for compatibility. They are about single ops, which are not listed.
            kwargs: Accepted for compatibility.
        """
        sums: dict[str, FunctionEventAvg] = {}
        for event in self:
            sums.setdefault(event.key, FunctionEventAvg(event.key)).add(event)
        return EventList(sums.values())

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all events."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.add(event)
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """Return a table as text, with one row for each event.

        Columns with numbers of programs appear if a program was launched.

        Args:
            sort_by: Name of the attribute to sort by, largest first. `None` keeps the order.
            row_limit: Largest number of rows. A negative number is no limit.
            max_src_column_width: Accepted for compatibility.
            max_name_column_width: Largest width of the column of names.
            max_shapes_column_width: Accepted for compatibility.
            header: Text above the table.
            top_level_events_only: If `True`, leave out blocks that ran inside of another block.
        """
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

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str, metadata: dict[str, Any] | None = None) -> None:
        """Write a trace file for `chrome://tracing` and Perfetto.

        Args:
            path: Name of the file. It is compressed if the name ends with `.gz`.
            metadata: Further entries of the trace.
        """
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
    """Return the number of programs that ran, compiled or op by op."""
    return counts["segments_executed"] + counts["segments_interpreted"]


class Collector:
    """Collect events of all threads while it runs. Only one can run at a time."""

    def __init__(self) -> None:
        self.events = EventList()
        self._open: dict[int, list[FunctionEvent]] = {}

    def start(self) -> None:
        """Start to collect.

        Raises:
            RuntimeError: If another one is running.
        """
        global _running
        if _running is not None:
            raise RuntimeError("Profiler is already enabled")
        _running = self

    def stop(self) -> None:
        """Stop, and end all blocks that are open."""
        global _running
        _running = None
        for stack in self._open.values():
            while stack:
                self.leave(stack[-1])

    def enter(self, name: str) -> FunctionEvent:
        """Begin a block, and return its event."""
        thread = threading.get_ident()
        stack = self._open.setdefault(thread, [])
        counts = torch.tpu.metrics()
        event = FunctionEvent(name, thread, time.perf_counter_ns() / 1000, stack[-1] if stack else None)
        event.programs, event.compilations = -_programs(counts), -counts["compilations"]
        stack.append(event)
        self.events.append(event)
        return event

    def leave(self, event: FunctionEvent) -> None:
        """End a block, and the blocks inside of it."""
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
    """Context manager, or decorator, that gives a block the name under which a profiler lists it.

    Args:
        name: The name.
        args: Accepted for compatibility.

    Example:
        >>> import pytpu as torch
        >>> with torch.autograd.profiler.profile() as prof:
        ...     with torch.autograd.profiler.record_function("forward"):
        ...         y = torch.ones(3) * 2
        >>> [event.name for event in prof.function_events]
        ['forward']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self.record: Any = None

    def _recreate_cm(self):
        return record_function(self.name, self.args)

    def __enter__(self) -> record_function:
        collector = _running
        self.record = (collector, None if collector is None else collector.enter(self.name))
        return self

    def __exit__(self, *_: Any) -> None:
        if self.record is None:
            raise AssertionError("Expected record to be set")
        collector, event = self.record
        if collector is not None:
            collector.leave(event)


class profile:
    """Context manager that lists the blocks of `record_function` within.

    `torch.profiler.profile` is the newer interface.

    Args:
        enabled: If `False`, do nothing.
        options: Accepted for compatibility. They are about single ops, which are not listed.

    Example:
        >>> import pytpu as torch
        >>> with torch.autograd.profiler.profile() as prof:
        ...     with torch.autograd.profiler.record_function("step"):
        ...         y = torch.ones(3) * 2
        >>> prof.key_averages()[0].key
        'step'
    """

    def __init__(self, enabled: bool = True, **options: Any) -> None:
        self.enabled = enabled
        self.function_events: EventList | None = None

    def __enter__(self) -> profile:
        if self.enabled:
            self._collector = Collector()
            self._collector.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self.enabled:
            self._collector.stop()
            self.function_events = self._collector.events

    def _events(self):
        if self.function_events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self.function_events

    @property
    def self_cpu_time_total(self) -> float:
        """Time of all events, in microseconds."""
        return self._events().self_cpu_time_total

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
        """Return the sums of the events of each name.

        Raises:
            RuntimeError: If the block has not ended.
        """
        return self._events().key_averages()

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all events.

        Raises:
            RuntimeError: If the block has not ended.
        """
        return self._events().total_average()

    def table(self, *args: Any, **kwargs: Any) -> str:
        """Return all events as text, as `EventList.table` does with these arguments.

        Raises:
            RuntimeError: If the block has not ended.
        """
        return self._events().table(*args, **kwargs)

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace file for `chrome://tracing` and Perfetto.

        Args:
            path: Name of the file. It is compressed if the name ends with `.gz`.

        Raises:
            RuntimeError: If the block has not ended.
        """
        self._events().export_chrome_trace(path)

    def __str__(self) -> str:
        return "<unfinished profiler_profile>" if self.function_events is None else str(self.function_events)


__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "profile", "record_function"]


class emit_nvtx:
    """Context manager that would mark ops for NVIDIA's profiler.

    Args:
        enabled: If `True`, entering the block raises `RuntimeError`: there is no CUDA build.
        record_shapes: Accepted for compatibility.
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled

    def __enter__(self) -> emit_nvtx:
        if self.enabled:
            raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")
        return self

    def __exit__(self, *error: Any) -> Literal[False]:
        return False
