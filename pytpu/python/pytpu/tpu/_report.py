"""Reports of programs that are compiled for a TPU that is not here: objects, text, JSON and HTML."""

from __future__ import annotations

import html
import json

from .. import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def _amount(value, unit, digits=3):
    """Return `value` with a prefix of the unit: `amount(1.5e9, "B")` is `1.5 GB`."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.{digits}g} {prefix}{unit}"
    return f"{value:.{digits}g} {unit}"


def _seconds(value):
    for factor, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def _bytes(value):
    return _amount(value, "B")


class Collective:
    """Collectives of one kind among equally many devices, in one execution of a program.

    Attributes:
        kind: Opcode of the compiler, such as `"all-gather"`.
        is_async: Whether the program does other work until they are done.
        devices: Devices of each group, or 0 if the program does not say it.
        links: Directions of links that the compiler's algorithm uses at once, or 0 if it does not say it.
        count: Number of collectives.
        bytes: Bytes of the whole arrays.
        seconds: Bytes that each device sends, over the bandwidth of its links, in seconds.
        overlapped_cycles: Cycles of the work between start and end.
    """

    kind: str
    is_async: bool
    devices: int
    links: int
    count: float
    bytes: float
    seconds: float
    overlapped_cycles: float

    def __init__(self, fields: dict[str, Any]) -> None:
        self.__dict__.update(fields)

    def __repr__(self) -> str:
        kind = f"{'asynchronous ' if self.is_async else ''}{self.kind}"
        among = f" among {self.devices}" if self.devices else ""
        return f"{self.count:g} {kind} of {_bytes(self.bytes)}{among}, {_seconds(self.seconds)}"


class KernelCost:
    """The calls of one kernel of a user, in one execution of a program.

    Attributes:
        name: Name in the optimized program.
        count: Number of calls.
        flops: Number of operations that the author stated.
        bytes: Bytes of operands and results. If the author of the kernel stated more, that number.
        seconds: The least time in seconds: the larger of operations over the peak and bytes over the bandwidth.
        is_estimated: Whether the author stated the cost.
    """

    name: str
    count: float
    flops: float
    bytes: float
    seconds: float
    is_estimated: bool

    def __init__(self, fields: dict[str, Any]) -> None:
        self.__dict__.update(fields)

    def __repr__(self) -> str:
        calls = f" ({self.count:g} calls)" if self.count != 1 else ""
        least = "" if self.is_estimated else ", by its bytes alone"
        return f"{self.name}{calls} at least {_seconds(self.seconds)}{least}"


class ProgramReport:
    """Results of the compiler for one program on one machine.

    Attributes:
        topology: The machine.
        seconds: Estimated time of one execution, in seconds: the larger of compute and memory, and the part of the
            network in which nothing is computed.
        network_seconds: Estimated time of the collectives, in seconds.
        hidden_seconds: The part of it beside which the program computes, in seconds.
        collectives: List of `Collective`.
        ranks: Number of ranks that run the program together.
        cycles: Estimated time in cycles, without `kernels`.
        kernels: List of `KernelCost`: the kernels of users, such as those of Pallas.
        unknown_loops: Number of loops of unknown length, which count as one iteration.
        flops: Number of operations.
        bytes_accessed: Bytes that are read and written.
        peak_share: Part of the peak operations per second of the device.
        argument_bytes, output_bytes, alias_bytes, temp_bytes, code_bytes: Parts of the memory, in bytes.
        total_bytes: Memory that the program needs, in bytes.
        memory_bytes: Memory of the device, in bytes.
        uncosted: Instructions without an estimate, as pairs of a name and a number.
        compile_seconds: Time of the compilation, in seconds.
    """

    topology: str
    device_kind: str
    seconds: float
    compute_seconds: float
    memory_seconds: float
    network_seconds: float
    hidden_seconds: float
    ranks: int
    collectives: list[Collective]
    cycles: float
    kernels: list[KernelCost]
    unknown_loops: int
    flops: float
    bytes_accessed: float
    peak_share: float
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temp_bytes: int
    code_bytes: int
    total_bytes: int
    memory_bytes: int
    instructions: int
    uncosted: list[tuple[str, int]]
    compile_seconds: float
    from_disk: bool

    def __init__(self, fields: dict[str, Any]) -> None:
        self.__dict__.update(fields)
        self.collectives = [Collective(c) for c in fields["collectives"]]
        self.kernels = [KernelCost(k) for k in fields["kernels"]]

    def is_lower_bound(self) -> bool:
        """Return whether parts of the time are unknown: loops of unknown length, or kernels without an estimate."""
        return self.unknown_loops > 0 or any(not k.is_estimated for k in self.kernels)

    def fits(self) -> bool:
        """Return whether the program fits in the memory of the device."""
        return self.total_bytes <= self.memory_bytes

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes as a dict."""
        lists: dict[str, list[Any]] = {"collectives": self.collectives, "kernels": self.kernels}
        return {**self.__dict__, **{name: [dict(c.__dict__) for c in made] for name, made in lists.items()}}

    def __str__(self) -> str:
        parts = [
            f"{_at_least(self)}{_seconds(self.seconds)} ({_seconds(self.compute_seconds)} compute, "
            f"{_seconds(self.memory_seconds)} memory)",
            f"{_amount(self.cycles, 'cycles')}",
            f"{_amount(self.flops, 'FLOP')}, {100 * self.peak_share:.3g} % of peak",
            f"{_bytes(self.bytes_accessed)} accessed",
            f"memory {_bytes(self.total_bytes)} of {_bytes(self.memory_bytes)}: arguments "
            f"{_bytes(self.argument_bytes)}, results "
            f"{_bytes(self.output_bytes)}, aliased {_bytes(self.alias_bytes)}, temporary {_bytes(self.temp_bytes)}, "
            "code "
            f"{_bytes(self.code_bytes)}",
            f"compiled in {self.compile_seconds:.3g} s" + (", by an earlier process" if self.from_disk else ""),
        ]
        if self.collectives:
            parts.append(_collectives(self))
        parts += _unknown(self)
        missing = sum(n for _, n in self.uncosted)
        if missing:
            names = ", ".join(f"{name} ({n})" if n > 1 else name for name, n in self.uncosted[:4])
            parts.append(f"{missing} of {self.instructions} instructions without an estimate: {names}")
        return "\n".join(parts)

    def __repr__(self) -> str:
        return f"ProgramReport({self.topology}, {_seconds(self.seconds)}, {_bytes(self.total_bytes)})"


class PlannedProgram:
    """One program of a plan.

    Attributes:
        ops: Number of ops.
        summary: Names of the ops.
        cut: Why the program ended.
        why: How it differs from earlier programs.
        launches: Number of launches.
        ranks: Number of ranks that would run it together.
        largest: The largest values that its ops compute, with lines of the script.
        stablehlo: Its text.
        reports: `ProgramReport` for each topology that compiles it.
        errors: Message of the compiler for each topology that does not.
    """

    def __init__(
        self, fields: dict[str, Any], stablehlo: str, recorded: str, topologies: Sequence[str], targets: Sequence[Any]
    ) -> None:
        self.ops, self.summary, self.cut, self.why, self.launches, self.largest = (
            fields[k] for k in ("ops", "summary", "cut", "why", "launches", "largest")
        )
        self.stablehlo = stablehlo
        self.ranks = fields["ranks"]
        self._options = fields["options"]
        self._recorded = recorded
        self.reports, self.errors = {}, {}
        for topology, found in zip(topologies, fields["reports"]):
            if "report" in found:
                self.reports[topology] = ProgramReport(found["report"])
            else:
                self.errors[topology] = found["error"]
        self._targets = dict(zip(topologies, targets))

    @property
    def recorded(self) -> dict[str, Any]:
        """The recorded ops as data.

        `"ops"` lists the ops with operands, results, attributes and line of the script. `"results"` lists the values
        that leave the program.
        """
        return json.loads(self._recorded)

    def hlo(self, topology: str | None = None) -> str:
        """Compile the program again, and return the optimized program as text, one line for each instruction.

        Args:
            topology: One of the topologies of the plan. `None` is the first.
        """
        target = self._targets[topology or next(iter(self._targets))]
        return _C._aot_optimized_text(self.stablehlo, self.ranks, target)

    def __repr__(self) -> str:
        return f"PlannedProgram({self.ops} ops, {self.launches} launches)"


class PlannedStep:
    """A training step of a plan, or the rest after the last one.

    Attributes:
        programs: Numbers of the programs, in the order of their launches.
        uploads: Number of uploads.
        upload_bytes: Bytes of all uploads.
        inputs: Dtype and size of each upload.
        reads: Number of reads by the host.
        read_lines: File and line of each read.
        assumed: Sizes that values decide and that were made up: file and line or `None`, rows, and the most rows.
        seconds: Estimated time in seconds, for each topology.
        total_bytes: Memory at the launch that needs most, with other values on the device, for each topology.
        resident_bytes: Bytes of values that stay on the device, for each topology.
    """

    def __init__(self, fields: dict[str, Any], topologies: Sequence[str], programs: Sequence[PlannedProgram]) -> None:
        self.programs = fields["programs"]
        self.uploads, self.upload_bytes, self.reads = (fields[k] for k in ("uploads", "upload_bytes", "reads"))
        self.inputs = [(i["dtype"], tuple(i["dims"])) for i in fields["inputs"]]
        self.read_lines = [(p["file"], p["line"]) for p in fields["read_lines"]]
        self.assumed = [
            ((a["place"]["file"], a["place"]["line"]) if a["place"] else None, a["rows"], a["most"])
            for a in fields["assumed"]
        ]
        self.total_bytes = dict(zip(topologies, fields["total_bytes"]))
        self.resident_bytes = dict(zip(topologies, fields["resident_bytes"]))
        self.seconds = {
            t: sum(programs[i].reports[t].seconds for i in self.programs if t in programs[i].reports)
            for t in topologies
        }

    def __repr__(self) -> str:
        return f"PlannedStep(programs={self.programs})"


class PlanReport:
    """Results of a plan. `str(report)` is a text.

    Attributes:
        topologies: The machines.
        memory_bytes: Memory of a device in bytes, for each topology.
        programs: List of `PlannedProgram`.
        steps: List of `PlannedStep`.
    """

    def __init__(self, given: Sequence[Any], targets: Sequence[Any]) -> None:
        fields, texts, recorded = json.loads(given[0]), given[1], given[2]
        self.topologies = fields["topologies"]
        self.memory_bytes = dict(zip(self.topologies, fields["memory_bytes"]))
        self.programs = [
            PlannedProgram(p, text, ops, self.topologies, targets)
            for p, text, ops in zip(fields["programs"], texts, recorded)
        ]
        self.steps = [PlannedStep(s, self.topologies, self.programs) for s in fields["steps"]]
        self._fields = fields

    def to_json(self) -> str:
        """Return the report as JSON."""
        return json.dumps(self._fields, indent=1)

    def _runs_of_steps(self):
        """Return runs of equal steps, as pairs of the first and the last number, from 1."""
        runs = []
        for number, step in enumerate(self.steps, 1):
            if runs and self.steps[runs[-1][1] - 1].programs == step.programs:
                runs[-1][1] = number
            else:
                runs.append([number, number])
        return runs

    def __str__(self) -> str:
        lines: list[str] = []
        for topology in self.topologies:
            kinds = [p.reports[topology].device_kind for p in self.programs if topology in p.reports]
            lines.append(
                f"{topology}{f' ({kinds[0]})' if kinds else ''}, {_bytes(self.memory_bytes[topology])} a device"
            )
            rows: list[tuple[str, ...]] = [
                (
                    "program",
                    "ops",
                    "launches",
                    "time",
                    "cycles",
                    "of peak",
                    "FLOP",
                    "accessed",
                    "arguments",
                    "results",
                    "aliased",
                    "temporary",
                    "code",
                    "compiled in",
                )
            ]
            for i, p in enumerate(self.programs):
                if topology in p.errors:
                    rows.append((str(i), str(p.ops), str(p.launches), "refused"))
                    continue
                r = p.reports[topology]
                rows.append(
                    (
                        str(i),
                        str(p.ops),
                        str(p.launches),
                        _at_least(r) + _seconds(r.seconds),
                        _amount(r.cycles, "").strip(),
                        f"{100 * r.peak_share:.3g} %",
                        _amount(r.flops, "").strip(),
                        _bytes(r.bytes_accessed),
                        _bytes(r.argument_bytes),
                        _bytes(r.output_bytes),
                        _bytes(r.alias_bytes),
                        _bytes(r.temp_bytes),
                        _bytes(r.code_bytes),
                        f"{r.compile_seconds:.3g} s",
                    )
                )
            widths = [max(len(row[k]) for row in rows if k < len(row)) for k in range(len(rows[0]))]
            lines += ["  " + "  ".join(c.rjust(w) for c, w in zip(row, widths)).rstrip() for row in rows]
            for first, last in self._runs_of_steps():
                step = self.steps[last - 1]
                total, memory = step.total_bytes[topology], self.memory_bytes[topology]
                which = f"step {first}" if first == last else f"steps {first} to {last}"
                parts = [
                    f"{which}: {_program_names(step.programs)}",
                    f"{_seconds(step.seconds[topology])} estimated",
                    f"{_bytes(total)} of {_bytes(memory)}" + ("" if total <= memory else ", which does not fit"),
                ]
                if any(
                    _at_least(self.programs[i].reports[topology])
                    for i in step.programs
                    if topology in self.programs[i].reports
                ):
                    parts[1] = f">= {parts[1]}"
                if step.uploads:
                    parts.append(f"{step.uploads} uploads of {_bytes(step.upload_bytes)}")
                if step.reads:
                    parts.append(f"{step.reads} reads by the host{_lines(step.read_lines)}")
                lines.append("  " + ", ".join(parts))
                lines += [f"    {text}" for text in _assumptions(step.assumed)]
                if total > memory:
                    lines += [
                        f"    the largest values of program {i}: {self.programs[i].largest}"
                        for i in dict.fromkeys(step.programs)
                    ]
            for i, p in enumerate(self.programs[1:], 1):
                lines.append(f"  program {i} is new: {p.why}")
            for i, p in enumerate(self.programs):
                if topology in p.reports and p.reports[topology].collectives:
                    lines.append(f"  program {i}, {p.ranks} ranks: {_collectives(p.reports[topology])}")
            for i, p in enumerate(self.programs):
                if topology in p.reports:
                    lines += [f"  program {i}: {text}" for text in _unknown(p.reports[topology])]
            uncosted: dict[str, int] = {}
            for p in self.programs:
                for name, n in p.reports[topology].uncosted if topology in p.reports else ():
                    uncosted[name] = uncosted.get(name, 0) + n
            if uncosted:
                lines.append(
                    "  without an estimate: " + ", ".join(f"{name} ({n})" for name, n in sorted(uncosted.items()))
                )
            for i, p in enumerate(self.programs):
                if topology in p.errors:
                    lines.append(f"  program {i}: {p.errors[topology]}")
            lines.append("")
        return "\n".join(lines)

    def to_markdown(self) -> str:
        """Return a table of the last training step, with one row for each topology."""
        rows = [("topology", "time of a step", "cycles", "of peak", "memory", "of", "compiled in")]
        for topology in self.topologies:
            step = self.steps[-1]
            found = [self.programs[i].reports[topology] for i in step.programs if topology in self.programs[i].reports]
            if len(found) < len(step.programs):
                rows.append((topology, "refused", "", "", "", _bytes(self.memory_bytes[topology]), ""))
                continue
            seconds = step.seconds[topology]
            share = sum(r.peak_share * r.seconds for r in found) / seconds if seconds else 0
            rows.append(
                (
                    topology,
                    _seconds(seconds),
                    _amount(sum(r.cycles for r in found), "").strip(),
                    f"{100 * share:.3g} %",
                    _bytes(step.total_bytes[topology]),
                    _bytes(self.memory_bytes[topology]),
                    f"{sum(self.programs[i].reports[topology].compile_seconds for i in set(step.programs)):.3g} s",
                )
            )
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])

    def to_html(self) -> str:
        """Return the report as an HTML page: a bar for each group of instructions, and the memory over each program.

        The page needs no network.
        """
        return _page(self)

    def _repr_html_(self):
        return _page(self)


def _collectives(r):
    """Return the collectives of a program, and the time of the network."""
    network = f"network {_seconds(r.network_seconds)}, of which {_seconds(r.hidden_seconds)} beside work"
    return "; ".join([*map(repr, r.collectives), network])


def _at_least(r):
    """Return the sign before a time that leaves something out."""
    return ">= " if r.is_lower_bound() else ""


def _unknown(r):
    """Return a text for each thing in a program that the compiler cannot see."""
    texts = []
    if r.kernels:
        texts.append(f"kernels: {'; '.join(map(repr, r.kernels))}")
    if r.unknown_loops:
        loops = "a loop" if r.unknown_loops == 1 else f"{r.unknown_loops} loops"
        texts.append(f"{loops} of unknown length, counted as one iteration")
    return texts


def _assumptions(assumed):
    """Return a text for each line that made a size up."""
    different = dict.fromkeys((place, rows, most) for place, rows, most in assumed)
    return [
        f"made up: {rows} of {most} rows, since values decide their number"
        + (f" ({place[0]}:{place[1]})" if place else "")
        for place, rows, most in different
    ]


_MOST_LINES = 3


def _lines(places):
    """Return the first few of some lines of the script, in brackets."""
    different = list(dict.fromkeys(f"{file}:{line}" for file, line in places))
    if not different:
        return ""
    return f" ({', '.join(different[:_MOST_LINES])}{', ...' if len(different) > _MOST_LINES else ''})"


def _program_names(programs):
    if len(programs) == 1:
        return f"program {programs[0]}"
    shown = ", ".join(map(str, programs[:8]))
    return f"programs {shown}" + (f" and {len(programs) - 8} more" if len(programs) > 8 else "")


_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222; }
pre { overflow-x: auto; background: #f5f5f5; padding: 1em; }
table { border-collapse: collapse; } td, th { padding: 2px 8px; text-align: left; } td.n { text-align: right; }
.bar { background: #4878a8; height: 12px; display: inline-block; } svg { background: #f5f5f5; }
"""
_MOST_GROUPS = 25


def _page(report):
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Plan</title>",
        f"<style>{_STYLE}</style></head><body><h1>Plan for {html.escape(', '.join(report.topologies))}</h1>",
        f"<pre>{html.escape(str(report))}</pre>",
    ]
    for topology in report.topologies:
        for i, program in enumerate(report.programs):
            found = program.reports.get(topology)
            if found is not None:
                parts.append(f"<h2>Program {i} on {html.escape(topology)}</h2><p>{html.escape(program.summary)}</p>")
                parts += [_bars(found), _timeline(found)]
    return "".join(parts) + "</body></html>"


def _bars(r):
    """Return a table with a bar for each group of instructions, as long as its share of the cycles."""
    rows = []
    for name, count, cycles in r.groups[:_MOST_GROUPS]:
        share = cycles / r.cycles if r.cycles else 0
        rows.append(
            f"<tr><td>{html.escape(name)}</td><td class='n'>{count}</td><td class='n'>{cycles:,.0f}</td>"
            f"<td class='n'>{100 * share:.1f} %</td><td><span class='bar' "
            f"style='width:{400 * share:.1f}px'></span></td></tr>"
        )
    return (
        "<table><tr><th>instructions</th><th>count</th><th>cycles</th><th>share</th><th></th></tr>"
        + "".join(rows)
        + "</table>"
    )


def _timeline(r):
    """Return the bytes in use over the schedule as a curve, with the largest arrays at its peak."""
    if not r.live_bytes:
        return ""
    width, height, top = 800, 160, max(r.live_bytes)
    step = width / max(1, len(r.live_bytes) - 1)
    points = " ".join(f"{k * step:.1f},{height - 150 * b / max(1, top):.1f}" for k, b in enumerate(r.live_bytes))
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(shape)}</td><td class='n'>{_bytes(n)}</td></tr>"
        for name, shape, n in r.largest_at_peak[:10]
    )
    return (
        f"<p>Arrays in memory along the schedule, {_bytes(top)} at most</p><svg width='{width}' height='{height}'>"
        f"<polygon fill='#a8c4dc' stroke='#4878a8' points='0,{height} {points} {width},{height}'/></svg>"
        f"<table><tr><th>largest where they are most</th><th>type</th><th>bytes</th></tr>{rows}</table>"
    )
