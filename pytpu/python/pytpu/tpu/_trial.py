"""A process of the advisor: it runs a script on a planned device with a change that needs no edit of the script.

`python -m pytpu.tpu._trial` reads its task as JSON from the file that is its argument, and writes the result to that
file.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback


@dataclasses.dataclass(frozen=True)
class Change:
    """A change of a run of a script.

    Args:
        precision: what `torch.set_float32_matmul_precision` is set to, whatever the script sets.
        drops_gradients: whether `zero_grad()` is called right after each step of an optimizer.
        skips_reads: whether reads by the host do not end a program.
        batch: the size that inputs of a step get in place of `old_batch` as their leading dimension.
        inputs: dtype and sizes of those inputs.
    """

    precision: str | None = None
    drops_gradients: bool = False
    skips_reads: bool = False
    batch: int | None = None
    old_batch: int | None = None
    inputs: list = dataclasses.field(default_factory=list)

    def __str__(self):
        if self.precision:
            return f"float32 products at {self.precision}"
        if self.drops_gradients:
            return "zero_grad() right after step()"
        if self.skips_reads:
            return "no reads by the host"
        return f"a batch of {self.batch}" if self.batch else "no change"


class Trial:
    """The result of a run.

    Attributes: `report` (a `PlanReport`), `code` (exit code), `error` (the last line of the script's error),
        `gradient_bytes` (of the gradients that were there right after a step), `step_lines`, `zero_grad_lines` and
        `precision_lines` (where the script calls `step()`, `zero_grad()` and sets the precision of products),
        `clears_after_step` (whether `zero_grad()` follows `step()` before its program is cut), `rows` (of the largest
        data set of a loader, or `None`), `precision`.
    """

    def __init__(self, found, machine):
        from ._plan import _targets
        from ._report import PlanReport

        self.report = PlanReport(found["given"], _targets(machine["topology"], machine["hbm"], machine["options"], 1))
        self.code, self.error, self.precision = found["code"], found["error"], found["precision"]
        self.gradient_bytes = found["gradient_bytes"]
        self.clears_after_step, self.rows = found["clears_after_step"], found["rows"]
        self.step_lines, self.zero_grad_lines, self.precision_lines = (
            [tuple(line) for line in found[name]] for name in ("step_lines", "zero_grad_lines", "precision_lines")
        )


def run(script, arguments, machine, steps, change=Change(), *, text=None, is_quiet=True, seconds=None):
    """Run a script in a process of its own and return the `Trial`.

    Args:
        script (str): the path; `-` for `text`.
        arguments (list of str): the script's own.
        machine (dict): the arguments `topology`, `hbm` and `options` of `torch.tpu.plan`.
        steps (int): steps after which the script is ended.
        change (Change): what is done differently.
        text (str, optional): the program, if `script` is `-`.
        is_quiet (bool): whether what the script prints is dropped.
        seconds (float, optional): time after which the process is ended.

    Raises:
        RuntimeError: the process ended without an answer.
        subprocess.TimeoutExpired: it took more than `seconds`.
    """
    with tempfile.TemporaryDirectory(prefix="torchtpu-") as folder:
        file = pathlib.Path(folder, "trial.json")
        asked = {
            "script": script,
            "arguments": arguments,
            "machine": machine,
            "steps": steps,
            "change": dataclasses.asdict(change),
            "is_quiet": is_quiet,
        }
        file.write_text(json.dumps(asked))
        command = [sys.executable, "-m", "pytpu.tpu._trial", str(file)]
        output, errors = (subprocess.DEVNULL, subprocess.PIPE) if is_quiet else (None, None)
        ended = subprocess.run(command, input=text, text=True, stdout=output, stderr=errors, timeout=seconds)
        found = json.loads(file.read_text())
        if "given" not in found:
            last = (ended.stderr or "").strip().splitlines()[-1:]
            why = f": {last[0]}" if last else ""
            raise RuntimeError(f"the process that runs {script} ended with code {ended.returncode}{why}")
    return Trial(found, machine)


def _caller():
    """Return file and line of the innermost frame outside of this package."""
    import pytpu

    package = os.path.dirname(pytpu.__file__) + os.sep
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(package):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


class _Watch:
    """Note where the script calls some functions, and make the change."""

    def __init__(self, change):
        self.change = change
        self.gradient_bytes = 0
        self.step_lines, self.zero_grad_lines, self.precision_lines = [], [], []
        # The line of the last step of an optimizer, and the number of steps of the plan that had ended before.
        self._step = None
        self.clears_after_step = False
        self.rows = None

    @contextlib.contextmanager
    def active(self):
        """While the script runs."""
        import pytpu as torch
        from pytpu.backends import _precision
        from pytpu.optim.optimizer import register_optimizer_step_post_hook
        from pytpu.utils.data import DataLoader

        hook = register_optimizer_step_post_hook(self._after_step)
        undo = []
        for owner, name, wrapped in (
            (torch.optim.Optimizer, "zero_grad", self._noting(torch.optim.Optimizer.zero_grad, self.zero_grad_lines)),
            (torch.nn.Module, "zero_grad", self._noting(torch.nn.Module.zero_grad, self.zero_grad_lines)),
            # All ways to set the precision of products end here.
            (_precision, "_say", self._noting_precision(_precision._say)),
            (DataLoader, "__init__", self._noting_rows(DataLoader.__init__)),
        ):
            undo.append((owner, name, getattr(owner, name)))
            setattr(owner, name, wrapped)
        try:
            with self._larger_batch(), self._own_precision():
                yield
        finally:
            hook.remove()
            for owner, name, old in undo:
                setattr(owner, name, old)

    def _noting(self, function, lines):
        def noted(*args, **kwargs):
            place = _caller()
            _add(lines, place)
            # The program of the step is cut when the next op is recorded, or a value is read.
            if self._step is not None and place is not None:
                (file, line), ended = self._step
                is_next = place[0] == file and 0 <= place[1] - line <= _LINES_AFTER
                self.clears_after_step |= is_next and ended == _plan_steps()
            return function(*args, **kwargs)

        return noted

    def _noting_precision(self, say):
        def noted(settings):
            if any(backend == "cuda" and op == "matmul" or backend == "generic" for backend, op in settings):
                _add(self.precision_lines, _caller())
            say(settings)

        return noted

    def _noting_rows(self, make):
        def noted(loader, dataset, *args, **kwargs):
            make(loader, dataset, *args, **kwargs)
            with contextlib.suppress(TypeError, NotImplementedError):
                self.rows = max(self.rows or 0, len(dataset))

        return noted

    def _own_precision(self):
        """Give the script's products the precision of the change, whatever the script sets."""
        from ._precision import Precision, precision

        wanted = self.change.precision
        return precision(Precision(wanted)) if wanted else contextlib.nullcontext()

    def _after_step(self, optimizer, args, kwargs):
        place = _caller()
        _add(self.step_lines, place)
        self._step = None if place is None else (place, _plan_steps())
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        self.gradient_bytes = max(self.gradient_bytes, sum(g.numel() * g.element_size() for g in gradients))
        if self.change.drops_gradients:
            optimizer.zero_grad(set_to_none=True)

    def _larger_batch(self):
        import pytpu as torch
        from pytpu.overrides import TorchFunctionMode

        change = self.change
        if not change.batch:
            return contextlib.nullcontext()
        inputs = {(dtype, tuple(dims)) for dtype, dims in change.inputs}
        modules = []

        def grown(value):
            host = value if isinstance(value, torch.Tensor) else torch.as_tensor(value)
            return host[torch.arange(change.batch) % change.old_batch]

        class Batches(TorchFunctionMode):
            """Repeat the rows of the inputs of a step, as they are copied to the device, for another batch size."""

            def __torch_function__(self, func, types, args=(), kwargs=None):
                y = func(*args, **(kwargs or {}))
                if modules or getattr(func, "__name__", "") not in (
                    "to",
                    "tpu",
                    "cuda",
                    "tensor",
                    "as_tensor",
                    "asarray",
                ):
                    return y
                x = args[0] if args else None
                is_copy = (
                    isinstance(y, torch.Tensor) and y.device.type == "tpu" and not isinstance(x, torch.nn.Parameter)
                )
                if is_copy and isinstance(x, torch.Tensor) and (x.device.type == "tpu" or x.requires_grad):
                    return y
                if is_copy and (str(y.dtype).removeprefix("torch."), tuple(y.shape)) in inputs:
                    return func(grown(x), *args[1:], **(kwargs or {}))
                return y

        @contextlib.contextmanager
        def active():
            apply = torch.nn.Module._apply

            def applied(module, *args, **kwargs):
                # Tensors of a module are not inputs, whatever their sizes.
                modules.append(module)
                try:
                    return apply(module, *args, **kwargs)
                finally:
                    modules.pop()

            torch.nn.Module._apply = applied
            try:
                with Batches():
                    yield
            finally:
                torch.nn.Module._apply = apply

        return active()


#: A call within so many lines after another one counts as right after it.
_LINES_AFTER = 3


def _plan_steps():
    from pytpu import _C

    return _C._plan_steps()


def _add(lines, place):
    if place is not None and place not in lines:
        lines.append(place)


def _main(path):
    from pytpu import _C
    from pytpu.aot import _run
    from pytpu.backends import _precision
    from pytpu.tpu._plan import plan

    file = pathlib.Path(path)
    asked = json.loads(file.read_text())
    watch = _Watch(Change(**asked["change"]))
    planned = plan(**asked["machine"], reads="skip" if watch.change.skips_reads else "zeros")
    code, error, ended = 0, None, False
    planned.__enter__()
    try:
        with watch.active():
            ended = _run(asked["script"], asked["arguments"], asked["steps"])
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
        error = f"it ended with code {code}"
    except BaseException as failed:
        code, error = 1, traceback.format_exception_only(failed)[-1].strip().splitlines()[0]
        if not asked["is_quiet"]:
            traceback.print_exc()
    given = _C._plan_end(ended or code != 0)
    found = {
        "given": given,
        "code": code,
        "error": error,
        "gradient_bytes": watch.gradient_bytes,
        "step_lines": watch.step_lines,
        "zero_grad_lines": watch.zero_grad_lines,
        "clears_after_step": watch.clears_after_step,
        "rows": watch.rows,
        "precision_lines": watch.precision_lines,
        "precision": _precision.effective(),
    }
    file.write_text(json.dumps(found))
    return code


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1]))
