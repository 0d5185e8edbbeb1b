"""Times of statements, as in `torch.utils.benchmark`.

On `tpu` ops are recorded, and equal ops of several runs would be computed once. So if a statement records ops, each run
ends with a launch of the ops and the value. The clock is read after the device has finished.
"""

import ast
import enum
import math
import textwrap
import timeit
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import pytpu as torch

_MOST_DIGITS = 4
_LEAST_INTERVAL = 25e-9
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}


def timer():
    """Return the time in seconds, after the device has finished."""
    torch.tpu.synchronize()
    return timeit.default_timer()


class Language(enum.Enum):
    """Languages of statements. Statements in C++ are not compiled here."""

    PYTHON = 0
    CPP = 1


@dataclass(repr=False, frozen=True)
class TaskSpec:
    """The description of a measured task."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self):
        """The label, or the statement."""
        if self.label is None and "\n" in self.stmt:
            sub_label = f" ({self.sub_label})" if self.sub_label else ""
            return f"stmt:{sub_label}\n{textwrap.indent(self.stmt, '  ')}"
        return (self.stmt if self.label is None else self.label) + (f": {self.sub_label}" if self.sub_label else "")

    def setup_str(self):
        """The setup, if there is one."""
        if not self.setup or self.setup == "pass":
            return ""
        return f"setup:\n{textwrap.indent(self.setup, '  ')}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self):
        """Title, description and setup."""
        parts = [part for part in (self.title, self.description, self.setup_str()) if part]
        return "\n".join(f"{part}\n" if "\n" in part else part for part in parts)


def _quantile(values, q):
    """Return a quantile of sorted values, with linear interpolation."""
    place = q * (len(values) - 1)
    below = values[math.floor(place)]
    return below + (values[math.ceil(place)] - below) * (place % 1)


def _deviation(values):
    mean = sum(values) / len(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))


@dataclass(repr=False)
class Measurement:
    """Times of a statement.

    Each of `raw_times` is for `number_per_run` runs. The attributes of `task_spec` are attributes of this object too.
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name):
        if name in _OF_TASKS:
            return getattr(self.task_spec, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def times(self):
        """Seconds a run."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self):
        """Seconds a run."""
        return self._quantile(0.5)

    @property
    def mean(self):
        """Seconds a run."""
        return sum(self.times) / len(self.raw_times)

    @property
    def iqr(self):
        """The range of the middle half of the times."""
        return self._quantile(0.75) - self._quantile(0.25)

    def _quantile(self, q):
        return _quantile(sorted(self.times), q)

    @property
    def significant_figures(self):
        """Return the number of significant digits of the median, from the spread of the middle half."""
        n = len(self.raw_times)
        middle = sorted(self.times)[n // 4 : math.ceil(3 * n / 4)]
        interval = max(1.645 * _deviation(middle) / math.sqrt(len(middle)), _LEAST_INTERVAL)
        return min(max(math.floor(math.log10(self.median / interval)), 1), _MOST_DIGITS)

    def meets_confidence(self, threshold=0.1):
        """Return whether the range of the middle half is less than this part of the median."""
        return self.iqr / self.median < threshold

    @property
    def _warning(self):
        if not self.raw_times or self.meets_confidence():
            return ""
        reason = (
            "This could indicate system fluctuation."
            if self.meets_confidence(0.25)
            else "This suggests significant environmental influence."
        )
        part = self.iqr / self.median * 100
        return f"  WARNING: Interquartile range is {part:.1f}% of the median measurement.\n           {reason}"

    @property
    def has_warnings(self):
        """Return whether the times differ much."""
        return bool(self._warning)

    @property
    def title(self):
        """The label, or the statement."""
        return self.task_spec.title

    @property
    def as_row_name(self):
        """Return the name of the task in a table."""
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self):
        n = len(self.raw_times)
        unit, scale = select_unit(self.median)
        low, high = (self._quantile(q) / scale for q in (0.25, 0.75))
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        lines = [
            object.__repr__(self),
            self.task_spec.summarize(),
            f"  {'Median: ' if n > 1 else ''}{self.median / scale:.2f} {unit}",
        ]
        if n >= 4:
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        if n > 1:
            lines.append(f"  {n} measurements, {self.number_per_run} runs per measurement, {threads}")
        else:
            lines.append(f"  {n} measurement, {self.number_per_run} runs , {threads}")
        return "\n".join(lines + [self._warning] * self.has_warnings)

    @staticmethod
    def merge(measurements):
        """Return one measurement for each task, with the times of all its runs."""
        times = {}
        for m in measurements:
            times.setdefault(m.task_spec, []).extend(m.times)
        return [Measurement(1, of_task, task) for task, of_task in times.items()]


_OF_TASKS = {field.name for field in fields(TaskSpec)}


def select_unit(t):
    """Return the name and the size of the unit in which `t` seconds are from 1 to 1000."""
    unit = {-3: "ns", -2: "us", -1: "ms"}.get(int(math.log10(t) // 3), "s")
    return unit, _UNITS[unit]


def unit_to_english(u):
    """The unit in full."""
    return {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}[u]


def trim_sigfig(x, n):
    """`x` rounded to `n` digits."""
    scale = 10 ** (math.ceil(math.log10(abs(x))) - n)
    return float(round(x / scale) * scale)


def ordered_unique(elements):
    """Return the elements, each once, in the order of their first occurrence."""
    return list(dict.fromkeys(elements))


@contextmanager
def set_torch_threads(n):
    """Context manager in which ops on `cpu` use `n` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _launching(stmt):
    """Return the statement with its value kept, followed by a launch of the ops that it recorded."""
    tree = ast.parse(stmt)
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        tree.body[-1] = ast.Assign([ast.Name("_value", ast.Store())], tree.body[-1].value, lineno=0)
    return f"{ast.unparse(tree)}\n_launch()"


def _text(code):
    """Return the code without the common indentation of its lines."""
    return textwrap.dedent(code).removeprefix("\n").rstrip()


class Timer:
    """Times a statement, given as text.

    `setup` runs before each measurement. `globals` are names that both may use, and `torch` is one of them. `label`,
    `sub_label`, `description` and `env` are printed.
    """

    _timer_cls = timeit.Timer

    def __init__(
        self,
        stmt="pass",
        setup="pass",
        global_setup="",
        timer=timer,
        globals=None,
        label=None,
        sub_label=None,
        description=None,
        env=None,
        num_threads=1,
        language=Language.PYTHON,
    ):
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language in (Language.CPP, "cpp", "c++"):
            raise NotImplementedError("Timer: statements in C++ are not supported")
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"Invalid language `{language}`.")
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply be moved to `setup`."
            )
        stmt, setup = _text(stmt), _text(setup)
        self._globals = {"torch": torch, **(globals or {})}
        self._timer = self._timer_cls(stmt=stmt, setup=setup, timer=timer, globals=self._globals)
        self._clock = timer
        self._is_known = False
        self._task_spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _timeit(self, number):
        if not self._is_known:
            # Whether the statement records ops. Only a run shows it.
            before = torch.tpu.metrics()["nodes_recorded"]
            self._timer.timeit(1)
            if torch.tpu.metrics()["nodes_recorded"] != before:
                spec, names = self._task_spec, {**self._globals, "_launch": torch.tpu.mark_step}
                self._timer = self._timer_cls(_launching(spec.stmt), spec.setup, self._clock, names)
            self._is_known = True
        # If the clock is too coarse for the statement, avoid a division by zero.
        return max(self._timer.timeit(number), 1e-9)

    def _measurement(self, number, times):
        return Measurement(number, times, self._task_spec)

    def timeit(self, number=1000000):
        """Measures `number` runs at once."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(int(number // 100), 2))
            return self._measurement(number, [self._timeit(number)])

    def repeat(self, repeat=-1, number=-1):
        """Not implemented, as in PyTorch."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback=None):
        """Not implemented, as in PyTorch."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block_size(self, min_run_time):
        """Return the number of runs for which the time of reading the clock is small."""
        overhead = sorted(self._timeit(0) for _ in range(5))[2]
        number = 1
        while True:
            taken = self._timeit(number)
            if overhead <= 1e-4 * taken and taken >= min_run_time / 1000 or taken > min_run_time:
                return number
            number *= 10

    def _measure(self, number, is_enough, min_run_time, max_run_time, callback):
        times = []
        while sum(times) < min_run_time or not is_enough(times):
            times.append(self._timeit(number))
            if callback is not None:
                callback(number, times[-1])
            if sum(times) > max_run_time:
                break
        return self._measurement(number, times)

    def blocked_autorange(self, callback=None, min_run_time=0.2):
        """Measure blocks of runs for at least `min_run_time`. The size of a block is found first."""
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            return self._measure(number, bool, min_run_time, math.inf, callback)

    def adaptive_autorange(self, threshold=0.1, *, min_run_time=0.01, max_run_time=10.0, callback=None):
        """Measure blocks of runs until they differ by less than `threshold`, or for `max_run_time`."""

        def is_enough(times):
            return len(times) > 3 and self._measurement(number, times).meets_confidence(threshold)

        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(0.05)
            return self._measure(number, is_enough, min_run_time, max_run_time, callback)


class Compare:
    """Measurements as tables: one for each label, with rows for each `sub_label` and columns for each `description`."""

    def __init__(self, results):
        self._results = []
        self._trims = self._highlights = False
        self._colours = None
        self.extend_results(results)

    def extend_results(self, results):
        """Add measurements."""
        results = list(results)
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(result)} instead.")
        self._results += results

    def trim_significant_figures(self):
        """Leave out digits that are not significant."""
        self._trims = True

    def highlight_warnings(self):
        """Mark times that differ by much."""
        self._highlights = True

    def colorize(self, rowwise=False):
        """Color times by comparison with the best time of their column, or row."""
        self._colours = "row" if rowwise else "column"

    def print(self):
        """Print the tables."""
        print(self)

    def __str__(self):
        labels = {}
        for result in Measurement.merge(self._results):
            labels.setdefault(result.label, []).append(result)
        return "\n".join(self._table(label, results) for label, results in labels.items())

    def _table(self, label, results):
        unit, scale = select_unit(min(r.median for r in results))
        rows = sorted(ordered_unique(_row(r) for r in results), key=lambda row: row[:2])
        heads = ordered_unique(r.description for r in results)
        cells = {(_row(r), r.description): r for r in results}
        columns = [(" ", _names(rows))]
        columns += [(head, self._texts([cells.get((row, head)) for row in rows], scale)) for head in heads]
        widths = [max(len(text) for text in (head or "", *texts)) for head, texts in columns]
        lines = ["  |  ".join((head or "").center(width) for (head, _), width in zip(columns, widths))]
        across = len(lines[0])
        for i, row in enumerate(rows):
            if i == 0 or rows[i - 1][0] != row[0]:
                lines.append(f"{row[0]} threads: ".ljust(across, "-"))
            texts = [texts[i].center(width) for (_, texts), width in zip(columns, widths)]
            for j, head in enumerate(heads):
                if self._colours is not None and (row, head) in cells:
                    rivals = [
                        r.median
                        for (other, column), r in cells.items()
                        if (other == row if self._colours == "row" else (other[0], column) == (row[0], head))
                    ]
                    texts[j + 1] = _colour(texts[j + 1], cells[row, head].median, min(rivals))
            lines.append("  |  ".join([columns[0][1][i].ljust(widths[0]), *texts[1:]]))
        lines += ["", f"Times are in {unit_to_english(unit)}s ({unit})."]
        if self._highlights and any(r.has_warnings for r in results):
            lines.append("(! XX%) Measurement has high variance, where XX is the IQR / median * 100.")
        return "\n".join([f"[{f' {label or str()} '.center(across - 2, '-')}]", *lines, ""])

    def _texts(self, column, scale):
        """Return the times of a column as texts of one width. An absent time is `None`."""
        there = [r for r in column if r is not None]
        digits = {id(r): math.ceil(math.log10(r.median / scale)) for r in there}
        places = min(max(r.significant_figures - digits[id(r)], 0) for r in there) if self._trims else 1
        marks = {id(r): f" (! {r.iqr / r.median * 100:.0f}%)" for r in there if self._highlights and r.has_warnings}
        width, beside = max(digits.values()) + places + bool(places), 7 if marks else 0
        texts = []
        for r in column:
            value = 1 if r is None else r.median / scale
            value = trim_sigfig(value, r.significant_figures) if r is not None and self._trims else value
            text = f"{value:>{width}.{places}f}{marks.get(id(r), ''):>{beside}}"
            texts.append(" " * len(text) if r is None else text)
        return texts


def _row(measurement):
    return measurement.num_threads, measurement.env, measurement.as_row_name


def _names(rows):
    """Return the names of rows. With several environments, the first row of each has its name."""
    envs = [f"({env})" for _, env, _ in rows] if len({env for _, env, _ in rows}) > 1 else [""] * len(rows)
    width = max(0, max(map(len, envs)) - 2)
    names = []
    for i, (threads, env, name) in enumerate(rows):
        is_first = i == 0 or rows[i - 1][:2] != (threads, env)
        names.append("  " + (envs[i] if is_first else "").ljust(width + 4) + name)
    return names


def _colour(text, value, best):
    if value <= max(best * 1.01, best + 100e-9):
        codes = "92", "1"
    elif value <= best * 1.1:
        codes = "34", "1"
    elif value >= best * 5:
        codes = "31", "1"
    elif value >= best * 2:
        codes = "2", "91"
    else:
        return text
    return "".join(f"\033[{code}m" for code in codes) + text + "\033[0m" * 2


__all__ = [
    "Compare",
    "Language",
    "Measurement",
    "TaskSpec",
    "Timer",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "timer",
    "trim_sigfig",
    "unit_to_english",
]
