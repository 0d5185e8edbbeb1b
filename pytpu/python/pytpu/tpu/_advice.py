"""The rules of `python -m pytpu.advise`, which make a planned step faster or smaller, with numbers of the compiler.

A rule reads the recorded ops of a step. Its proposal is compiled: either the op alone, before and after the change, or
the whole step, by running the script again with a change that needs no edit.
"""

import collections
import dataclasses
import math
import os
import subprocess

from ._costs import Attention, Convolution, Product
from ._report import _amount, _bytes, _seconds
from ._trial import Change

# Shares of a step that count as none.
_EQUAL = 5e-4
# Advice below this share of the step is shown only on request.
LEAST_SHARE = 0.01
# The matrix units of all generations hold a multiple of this number of columns.
LANES = 128
# Products of fewer rows than the vector registers have do not use the matrix unit.
SUBLANES = 8
_PRODUCTS = (
    "Linear",
    "Addmm",
    "Dot",
    "Conv",
    "ConvInputGrad",
    "ConvWeightGrad",
    "Attention",
    "AttentionBackward",
    "Grouped",
)
_PASSES = {"highest": 6, "high": 3, "medium": 1}
# Programs that the search for the largest batch compiles at most.
_MOST_BATCHES = 7
# A size counts as close to the one before it up to this ratio.
_MOST_GROWTH = 16
_MOST_INPUT_BYTES = 1 << 30
_MOST_ROWS = 1 << 20
# Some programs take very long to compile with large sizes: then the search ends.
_LEAST_SECONDS = 120
_MOST_SLOWDOWN = 10


@dataclasses.dataclass
class Advice:
    """A line of the advisor.

    Attributes:
        rule: the name of the rule.
        places: lines of the script, as pairs of file and line.
        what: what the script does now.
        change: what to do instead.
        before, after: the compiler's numbers of the changed op or of the step, in `unit`.
        share: the seconds that the change saves, as a share of the step; `None` where the compiler cannot tell.
        memory_share: the bytes that it saves, as a share of what the step takes.
        note: what else there is to know.
    """

    rule: str
    places: list
    what: str
    change: str
    before: float | None = None
    after: float | None = None
    unit: str = ""
    share: float | None = None
    memory_share: float = 0.0
    note: str = ""

    def is_large(self):
        """Return whether it is shown without being asked for."""
        return self.share is None or self.rule == "reads" or max(self.share, self.memory_share) >= LEAST_SHARE

    def to_dict(self):
        """Return the attributes as a dictionary."""
        return dataclasses.asdict(self)

    def __str__(self):
        where = f" ({_places(self.places)})" if self.places else ""
        text = f"{self.what}{where}. {self.change}"
        if self.before is not None:
            text += f": {_number(self.before, self.unit)} -> {_number(self.after, self.unit)}"
        if self.share is not None:
            text += f", step {-100 * self.share:+.1f} %" if abs(self.share) >= 5e-4 else ", step +0.0 %"
        return text + (f". {self.note}" if self.note else "")


def _number(value, unit):
    if unit == "s":
        return _seconds(value)
    return _amount(value, unit) if unit in ("B",) else f"{_amount(value, '')}".strip() + f" {unit}"


def shown_place(place):
    """Return `file:line`, with the file relative to the current folder."""
    file, line = place
    relative = os.path.relpath(file)
    return f"{file if relative.startswith('..') else relative}:{line}"


def _places(places, most=3):
    different = list(dict.fromkeys(shown_place(p) for p in places))
    return ", ".join(different[:most]) + (", ..." if len(different) > most else "")


def usual_step(report):
    """Return the `PlannedStep` that a long run would repeat: the last step with the most frequent programs."""
    counts = collections.Counter(tuple(s.programs) for s in report.steps)
    most = max(counts.values())
    return [s for s in report.steps if counts[tuple(s.programs)] == most][-1]


class Step:
    """A step of a run, with sums over its programs."""

    def __init__(self, report, topology):
        self.planned = usual_step(report)
        programs = [report.programs[i] for i in self.planned.programs]
        self.programs, self.different = programs, list({id(p): p for p in programs}.values())
        self.errors = [p.errors[topology] for p in self.different if topology in p.errors]
        found = [p.reports[topology] for p in programs if topology in p.reports]
        self.seconds = sum(r.seconds for r in found)
        self.compute_seconds = sum(r.compute_seconds for r in found)
        self.memory_seconds = sum(r.memory_seconds for r in found)
        self.flops = sum(r.flops for r in found)
        self.peak_share = sum(r.peak_share * r.seconds for r in found) / self.seconds if self.seconds else 0.0
        self.compile_seconds = sum(p.reports[topology].compile_seconds for p in self.different if topology in p.reports)
        self.ops = sum(p.ops for p in programs)
        # Less memory may be in use beside the last step, since no inputs of a next step are there.
        alike = [s for s in report.steps if s.programs == self.planned.programs]
        self.total_bytes = max(s.total_bytes[topology] for s in alike)
        self.memory_bytes = report.memory_bytes[topology]

    def fits(self):
        """Return whether it compiles and fits into memory."""
        return not self.errors and self.total_bytes <= self.memory_bytes


@dataclasses.dataclass
class _Group:
    """Equal ops of a step."""

    op: object
    count: int = 0
    places: list = dataclasses.field(default_factory=list)
    is_vocabulary: bool = False


def _place(op):
    return (op["place"]["file"], op["place"]["line"]) if op["place"] else None


def _groups(step):
    """Return the products, convolutions and attentions of a step outside of backward passes, grouped by equality."""
    groups = {}
    times = collections.Counter(id(p) for p in step.programs)
    for program in step.different:
        ops = program.recorded["ops"]
        gradients = collections.defaultdict(list)
        classes, tables = set(), set()
        for op in ops:
            if op["is_backward"]:
                gradients[_place(op)].append((op["kind"], [tuple(o["dims"]) for o in op["outputs"]]))
            elif op["kind"] == "CrossEntropy":
                classes.add(op["inputs"][0]["dims"][-1])
            elif op["kind"] in ("IndexSelect", "Embedding"):
                tables.add(op["inputs"][0]["dims"][0])
        for op in ops:
            if op["is_backward"]:
                continue
            made = _op(op, gradients[_place(op)])
            if made is None:
                continue
            group = groups.setdefault(made, _Group(made))
            group.count += times[id(program)]
            if _place(op) and _place(op) not in group.places:
                group.places.append(_place(op))
            if isinstance(made, Product):
                group.is_vocabulary |= made.n > LANES and (made.n in classes or made.n in tables)
    return list(groups.values())


def _op(op, gradients):
    """Return the op alone, for `_costs`, or `None` if it belongs to no rule."""
    kind, dims = op["kind"], [tuple(i["dims"]) for i in op["inputs"]]
    dtype, attributes = op["inputs"][0]["dtype"] if op["inputs"] else "", op["attributes"]
    made = [shape for _, shapes in gradients for shape in shapes]
    if kind in ("Linear", "Addmm", "Dot"):
        if kind == "Linear":
            (n, k), rows, is_linear = dims[1], math.prod(dims[0][:-1]), True
        else:
            a, b = dims[1:3] if kind == "Addmm" else dims[:2]
            flags = attributes or {"ta": False, "tb": False}
            if len(a) != 2 or len(b) != 2 or flags["ta"]:
                return None
            rows, k = a
            n, is_linear = (b[0], True) if flags["tb"] else (b[1], False)
        weights = {(n, k), (k, n)}
        of_x = any(s[-1:] == (k,) and math.prod(s) == rows * k and s not in weights for s in made)
        return Product(rows, k, n, dtype, is_linear=is_linear, gradients=(of_x, any(s in weights for s in made)))
    if kind == "Conv" and attributes["groups"] == 1 and not attributes["is_transposed"]:
        if any(low != high for low, high in attributes["padding"]):
            return None
        (batch, channels, *size), (out_channels, _, *kernel) = dims[:2]
        kinds = {k for k, _ in gradients}
        return Convolution(
            batch,
            channels,
            size,
            out_channels,
            kernel,
            dtype,
            stride=attributes["stride"],
            padding=[low for low, _ in attributes["padding"]],
            dilation=attributes["dilation"],
            gradients=("ConvInputGrad" in kinds, "ConvWeightGrad" in kinds),
        )
    if kind == "Attention" and all(len(d) == 4 for d in dims[:3]):
        heads, rows = (2, 1) if attributes["rows_first"] else (1, 2)
        q, k = dims[0], dims[1]
        if dims[2][3] != q[3]:
            return None
        return Attention(
            q[0],
            q[rows],
            k[rows],
            q[heads],
            k[heads],
            q[3],
            dtype,
            is_causal=attributes["is_causal"],
            has_mask=attributes["mask"],
            has_gradient=any(k == "AttentionBackward" for k, _ in gradients),
        )
    return None


def _up(n, to=LANES):
    return -(-n // to) * to


def _times(group):
    return f"{group.count} times" if group.count > 1 else "once"


class Advisor:
    """A finder of advice for a run of a script.

    Args:
        first: the `Trial` of the script as it is.
        topology (str): the machine.
        costs: `Costs` of the same machine.
        again: runs the script with a `Change` and returns the `Trial`.
        shows_all (bool): whether ops of less than `LEAST_SHARE` of the step are compiled, too.

    Attributes: `step` (the `Step`).
    """

    def __init__(self, first, topology, costs, again, *, shows_all=False):
        self.first, self.topology, self.costs, self.again, self.shows_all = first, topology, costs, again, shows_all
        self.step = Step(first.report, topology)

    def advice(self, *, finds_batch=True):
        """Yield every `Advice`, rule by rule."""
        if not self.step.errors:
            groups = _groups(self.step)
            for rule in (self.heads, self.widths, self.rows, self.channels):
                for group in groups:
                    yield from rule(group)
            yield from self.float32()
            yield from self.reads()
            yield from self.gradients()
        if finds_batch:
            yield from self.batch()

    def _cost(self, group):
        """Return the cost of an op as it is, or `None` if it takes too little of the step."""
        cost = self.costs.of(group.op)
        if cost is None or not self.shows_all and cost.seconds * group.count < LEAST_SHARE * self.step.seconds:
            return None
        return cost

    def _compare(self, group, op, rule, what, change, note="", work=1.0):
        """Return the advice to replace the op of a group by `op`.

        `work` is the part of the changed op that does the work of the old one.
        """
        before = self._cost(group)
        after = None if before is None else self.costs.of(op)
        if after is None:
            return
        saved = before.seconds - after.seconds * work
        share = saved * group.count / self.step.seconds if self.step.seconds else 0.0
        if share <= (-_EQUAL if self.shows_all else 0):
            return
        if before.temp_bytes > after.temp_bytes and not note:
            note = f"Temporary memory {_bytes(before.temp_bytes)} -> {_bytes(after.temp_bytes)}"
        numbers = (before.cycles, after.cycles, "cycles")
        if (before.cycles > after.cycles * work) != (saved > 0):
            # Memory decides, not the arithmetic.
            numbers = (before.seconds, after.seconds, "s")
        yield Advice(rule, group.places, what, change, *numbers, share, note=note)

    def heads(self, group):
        """Heads of fewer columns than the matrix unit has."""
        op = group.op
        if not isinstance(op, Attention) or op.head_dim >= 2 * LANES:
            return
        for head_dim in (LANES, 2 * LANES):
            changed = op.with_head_dim(head_dim) if head_dim > op.head_dim else None
            if changed is not None:
                yield from self._compare(
                    group,
                    changed,
                    "heads",
                    f"attention, {_times(group)}: {_count(op.heads, 'head', 'heads')} of {op.head_dim}",
                    f"{_count(changed.heads, 'head', 'heads')} of {head_dim}",
                )

    def widths(self, group):
        """Products with sizes that are no multiple of the matrix unit's columns."""
        op = group.op
        if not isinstance(op, Product):
            return
        k, n = (_up(size) if size > LANES else size for size in (op.k, op.n))
        name = "vocabulary" if group.is_vocabulary else "product"
        what = f"{name}, {_times(group)}: {op.rows} x {op.k} x {op.n}"
        if (k, n) != (op.k, op.n):
            yield from self._compare(group, op.with_sizes(k=k, n=n), "widths", what, _resize(op, k, n))
        # A vocabulary has a fixed size, but a width may be rounded down.
        down_k, down_n = (
            size - size % LANES if size > LANES and size % LANES <= size // 50 else size for size in (op.k, op.n)
        )
        if group.is_vocabulary:
            down_n = op.n
        if (down_k, down_n) != (op.k, op.n):
            yield from self._compare(
                group, op.with_sizes(k=down_k, n=down_n), "widths", what, _resize(op, down_k, down_n)
            )

    def rows(self, group):
        """Products with too few rows to use the matrix unit, or that read the weight for little work."""
        op = group.op
        if not isinstance(op, Product) or op.rows >= SUBLANES or min(op.k, op.n) < LANES:
            return
        yield from self._compare(
            group,
            op.with_sizes(rows=SUBLANES),
            "rows",
            f"product, {_times(group)}: {op.rows} x {op.k} x {op.n}",
            f"{SUBLANES} rows at once, such as a batch of {SUBLANES}",
            note="The gain is for each row",
            work=op.rows / SUBLANES,
        )

    def channels(self, group):
        """Channel counts that fill the matrix unit badly."""
        op = group.op
        if not isinstance(op, Convolution):
            return
        what = f"convolution, {_times(group)}: {op.channels} to {op.out_channels} channels"
        changes = set()
        for to in (LANES // 2, LANES):
            # Do not round the channels of colors, and the few channels that follow.
            up = [_up(c, to) if SUBLANES < c else c for c in (op.channels, op.out_channels)]
            down = [c - c % to if c > to and c % to <= c // 10 else c for c in (op.channels, op.out_channels)]
            changes |= {tuple(down), tuple(up)}
        found = []
        for channels, out_channels in sorted(changes):
            if (channels, out_channels) == (op.channels, op.out_channels):
                continue
            changed = op.with_channels(channels, out_channels)
            growth = changed.operations() / op.operations()
            # A network with many more channels is a different one. The gain is that of fewer such layers.
            is_same = growth <= 1.7
            found += [
                (is_same, a)
                for a in self._compare(
                    group,
                    changed,
                    "channels",
                    what,
                    f"{channels} to {out_channels} channels",
                    note=""
                    if is_same
                    else f"{growth:.3g} times the operations; the gain is for the same number of them",
                    work=1.0 if is_same else 1 / growth,
                )
            ]
        # Give the best advice only, and prefer one that keeps the network as it is.
        found.sort(key=lambda pair: (pair[0] and pair[1].share >= LEAST_SHARE, pair[1].share), reverse=True)
        yield from (advice for _, advice in (found if self.shows_all else found[:1]))

    def float32(self):
        """Products of `float32` that take several passes."""
        passes = _PASSES[self.first.precision]
        if passes == 1:
            return
        places = collections.Counter()
        for program in self.step.different:
            for op in program.recorded["ops"]:
                if (
                    op["kind"] in _PRODUCTS
                    and not op["is_backward"]
                    and op["inputs"][0]["dtype"] == "float32"
                    and op["place"]
                ):
                    places[_place(op)] += math.prod(op["outputs"][0]["dims"])
        if not places:
            return
        where = self.first.precision_lines or [place for place, _ in places.most_common(2)]
        for precision in ("high", "medium"):
            if _PASSES[precision] < passes:
                step = self._again(Change(precision=precision))
                yield from self._whole_step(
                    step,
                    "float32",
                    where,
                    f"float32 products run in {passes} passes of bfloat16",
                    f'torch.set_float32_matmul_precision("{precision}"), '
                    + _count(_PASSES[precision], "pass", "passes"),
                )

    def reads(self):
        """Values that the host reads within a step."""
        lines = self.first.report.steps and self.step.planned.read_lines
        if not lines:
            return
        step = self._again(Change(skips_reads=True))
        if step is None or step.errors:
            return
        programs = (len(self.step.planned.programs), len(step.planned.programs))
        reads = _count(self.step.planned.reads, "read", "reads")
        # A read after the step does not divide it.
        numbers = ()
        if programs[0] != programs[1]:
            numbers = (self.step.seconds, step.seconds, "s", 1 - step.seconds / self.step.seconds)
        yield Advice(
            "reads",
            list(dict.fromkeys(lines)),
            f"{reads} by the host a step, where the device waits",
            "Read every 100 steps, or after the loop",
            *numbers,
            note=f"Programs a step: {programs[0]} -> {programs[1]}. The compiler cannot tell how long the device waits",
        )

    def gradients(self):
        """Gradients that are results of the step's program."""
        first = self.first
        kept = sum(r["bytes"] for p in self.step.different for r in p.recorded["results"] if not r["is_aliased"])
        if not first.gradient_bytes or not first.zero_grad_lines or kept < first.gradient_bytes / 2:
            return
        if first.clears_after_step:
            return
        step = self._again(Change(drops_gradients=True))
        yield from self._whole_step(
            step,
            "gradients",
            first.step_lines[:1] + first.zero_grad_lines[:1],
            f"{_bytes(first.gradient_bytes)} of gradients are results of the program",
            "zero_grad() right after step()",
        )

    def _again(self, change):
        """Return the step of a run with a change, or `None` if the script fails."""
        trial = self.again(change)
        return None if trial.code or not trial.report.steps else Step(trial.report, self.topology)

    def _whole_step(self, step, rule, places, what, change):
        if step is None or step.errors:
            return
        share = 1 - step.seconds / self.step.seconds if self.step.seconds else 0.0
        memory_share = 1 - step.total_bytes / self.step.total_bytes
        note = (
            f"HBM {_bytes(self.step.total_bytes)} -> {_bytes(step.total_bytes)}"
            if abs(memory_share) >= LEAST_SHARE
            else ""
        )
        # A slower step is no advice, unless it fits where the step of the script does not.
        gains_fit = step.fits() and not self.step.fits()
        if share <= -_EQUAL and not gains_fit:
            return
        if max(share, memory_share) > 0 or self.shows_all:
            yield Advice(rule, places, what, change, self.step.seconds, step.seconds, "s", share, memory_share, note)

    def batch(self):
        """The largest batch that fits in the memory of a device."""
        inputs = [(dtype, dims) for dtype, dims in self.step.planned.inputs if dims]
        sizes = sorted({dims[0] for _, dims in inputs})
        if len(sizes) != 1:
            why = (
                f"have the first dimensions {', '.join(map(str, sizes))}"
                if sizes
                else "are not copied to the device in it"
            )
            if sizes or self.shows_all:
                share = 100 * self.step.total_bytes / self.step.memory_bytes
                yield Advice(
                    "batch", [], f"a step takes {share:.0f} % of HBM", f"Other batches were not tried: its inputs {why}"
                )
            return
        (batch,) = sizes
        search = _Search(self, batch, inputs)
        yield from search.advice()


class _Search:
    """Search for the largest batch that fits, by runs of the script with inputs of other sizes."""

    def __init__(self, advisor, batch, inputs):
        self.advisor, self.batch, self.inputs = advisor, batch, inputs
        self.known = {batch: advisor.step}
        self.failure = None

    def _try(self, n):
        """Return whether a batch of `n` fits, or `None` if the script fails with it."""
        change = Change(batch=n, old_batch=self.batch, inputs=self.inputs)
        seconds = max(_LEAST_SECONDS, _MOST_SLOWDOWN * self.advisor.step.compile_seconds)
        try:
            trial = self.advisor.again(change, seconds=seconds)
        except subprocess.TimeoutExpired:
            self.failure = f"a batch of {n} took more than {seconds:.0f} s to compile"
            return None
        if trial.code or not trial.report.steps:
            self.failure = trial.error
            return None
        step = Step(trial.report, self.advisor.topology)
        if {dims[0] for _, dims in step.planned.inputs if dims} - {n, self.batch} or not any(
            dims and dims[0] == n for _, dims in step.planned.inputs
        ):
            self.failure = "the inputs of a step did not change with it"
            return None
        self.known[n] = step
        return step.fits()

    def _predict(self):
        """Estimate the batch at which memory ends, from two known sizes."""
        sized = sorted(n for n, step in self.known.items() if not step.errors)
        if len(sized) < 2:
            return None
        (a, b), memory = sized[-2:], self.advisor.step.memory_bytes
        slope = (self.known[b].total_bytes - self.known[a].total_bytes) / (b - a)
        return int(b + (memory - self.known[b].total_bytes) / slope) if slope > 0 else None

    def _limit(self):
        """Return the largest batch to try, limited by the memory of this machine for inputs."""
        import pytpu as torch

        row = sum(math.prod(dims[1:]) * getattr(torch, dtype).itemsize for dtype, dims in self.inputs)
        limit = max(2 * self.batch, min(_MOST_ROWS, _MOST_INPUT_BYTES // max(1, row)))
        # A batch has at most the rows of the data set.
        rows = self.advisor.first.rows
        return limit if rows is None else max(self.batch, min(limit, rows))

    def _bounds(self):
        """Return the largest batch that is known to fit, and the smallest that does not, or `None`."""
        fitting = [n for n, step in self.known.items() if step.fits()]
        return max(fitting, default=0), min((n for n, step in self.known.items() if not step.fits()), default=None)

    def _search(self):
        limit = self._limit()
        if self.advisor.step.fits() and limit <= self.batch:
            self.failure = f"the data set has {self.advisor.first.rows} rows"
            return
        next_size = min(2 * self.batch, limit) if self.advisor.step.fits() else self.batch // 2
        # Whether the last prediction was too high, so that memory grows faster than the earlier sizes suggest.
        is_misled = False
        while next_size >= 1 and len(self.known) <= _MOST_BATCHES:
            does_fit = self._try(next_size)
            if does_fit is None:
                return
            low, high = self._bounds()
            grain = _grain(low)
            if low >= limit and limit == self.advisor.first.rows:
                self.failure = f"the data set has {limit} rows"
            if low >= limit or high is not None and high - low <= grain:
                return
            is_misled = not does_fit and next_size > 2 * self.batch
            predicted = None if is_misled and self.known[next_size].errors else self._predict()
            if high is None:
                # Small sizes do not show how memory grows at large ones.
                next_size = min(predicted or 2 * low, _MOST_GROWTH * low, limit)
            elif predicted is None or not low < predicted < high:
                next_size = math.isqrt(max(1, low) * high)
            else:
                next_size = predicted
            next_size = max(next_size // grain * grain, low + 1 if grain == 1 else low // grain * grain + grain)
            next_size = min(next_size, limit)
            if high is not None and next_size >= high:
                next_size = high - 1

    def advice(self):
        """Yield the advice, after the search."""
        batch, first = self.batch, self.advisor.step
        self._search()
        low, high = self._bounds()
        compiled = _count(len(self.known) - 1, "program", "programs")
        what = f"a batch of {batch} " + (
            f"takes {100 * first.total_bytes / first.memory_bytes:.0f} % of HBM" if first.fits() else "does not fit"
        )
        if len(self.known) == 1:
            yield Advice(
                "batch",
                [],
                what,
                f"Other sizes were not tried: {self.failure}",
                note="The inputs of a step were given more or fewer rows",
            )
            return
        if low == 0:
            yield Advice("batch", [], what, f"None of {compiled} with smaller ones fits")
            return
        found = self.known[low]
        if high is None:
            best = f"One of {low} fits, and no larger one was tried" + (
                f", since {self.failure}" if self.failure else ""
            )
        elif high == low + 1:
            best = f"The largest that fits is {low}"
        else:
            best = f"One of {low} fits, one of {high} does not"
        used, whole = _bytes(found.total_bytes), _bytes(found.memory_bytes)
        note = f"{used} of {whole}, found by compiling {compiled} with inputs of more or fewer rows"
        if first.fits():
            if found.seconds / low >= first.seconds / batch:
                note = f"A larger batch gains nothing here. {note}"
            yield Advice(
                "batch",
                [],
                what,
                f"{best}, time of a row",
                first.seconds / batch,
                found.seconds / low,
                "s",
                note=f"{note}. A step takes {_seconds(found.seconds)}",
            )
        else:
            yield Advice("batch", [], what, best, note=note)


def _grain(n):
    """Return the precision of the search: an eighth of the batch or less, and 1 for small batches."""
    return 1 << max(0, n.bit_length() - 4)


def _count(n, one, several):
    return f"{n} {one if n == 1 else several}"


def _resize(op, k, n):
    parts = [f"{old} -> {new}" for old, new in ((op.k, k), (op.n, n)) if old != new]
    return " and ".join(parts)
