"""Checkpointing: memory for time.

The values of a part of a model that backward needs are not kept. Backward runs that part again to compute them.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings

import pytpu as torch
from pytpu import _C
from pytpu.amp.autocast_mode import Settings
from pytpu.autograd.graph import saved_tensors_hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "SAC_IGNORED_OPS",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]


def __getattr__(name):
    # Selective checkpointing needs the names of operators, so import it at its first use.
    if name in (
        "CheckpointPolicy",
        "SAC_IGNORED_OPS",
        "SelectiveCheckpointContext",
        "create_selective_checkpoint_contexts",
    ):
        from . import _selective_checkpoint

        return getattr(_selective_checkpoint, name)
    raise AttributeError(f"module 'torch.utils.checkpoint' has no attribute '{name}'")


_PASS_IT = (
    "torch.utils.checkpoint{}: the use_reentrant parameter should be passed explicitly. In a future release, calling "
    "checkpoint without use_reentrant will raise an exception. use_reentrant=False is recommended, but if you need to "
    "preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for more details on the "
    "differences between the two variants."
)


class CheckpointError(RuntimeError):
    """An error for a second run of a checkpointed function that was not like the first."""


class DefaultDeviceType:
    """The type of device whose random numbers are kept, if the arguments have no tensor on a device."""

    _type = "tpu"

    @staticmethod
    def set_device_type(device="tpu"):
        """Set the type of device."""
        DefaultDeviceType._type = device

    @staticmethod
    def get_device_type():
        """The setting."""
        return DefaultDeviceType._type


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return tensors without history that require gradients as before, and other things unchanged."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    found = []
    for x in inputs:
        if isinstance(x, torch.Tensor):
            y = x.detach()
            y.requires_grad = x.requires_grad
            x = y
        found.append(x)
    return tuple(found)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn when no input requires a gradient."""
    if not any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


def _tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for v in value:
            yield from _tensors(v)
    elif isinstance(value, dict):
        for v in value.values():
            yield from _tensors(v)


def get_device_states(*args: Any) -> tuple[list[int], list[torch.Tensor]]:
    """Return the devices of the tensors in `args`, and the states of their random generators."""
    devices = sorted({t.device.index or 0 for t in _tensors(args) if t.device.type == "tpu"})
    return devices, [_C._default_generator(torch.device("tpu", i)).get_state() for i in devices]


def set_device_states(
    devices: Sequence[int], states: Sequence[torch.Tensor], *, device_type: str | None = None
) -> None:
    """Restore the states that `get_device_states` returned."""
    for i, state in zip(devices, states):
        _C._default_generator(torch.device(device_type or "tpu", i)).set_state(state)


class _Random:
    """Return the state of the random generators of the host and of the tensors' devices."""

    def __init__(self, values):
        devices = {t.device for t in _tensors(values) if t.device.type == "tpu"}
        generators = [_C._default_generator(torch.device("cpu")), *map(_C._default_generator, devices)]
        self._states = [(g, g._snapshot()) for g in generators]

    def now(self):
        """Return the present state of the same generators."""
        new = object.__new__(_Random)
        new._states = [(g, g._snapshot()) for g, _ in self._states]
        return new

    def restore(self):
        """Set the generators to this state."""
        for g, state in self._states:
            g._restore(state)

    @contextlib.contextmanager
    def again(self):
        """Context manager that sets the generators to this state, and back afterwards."""
        now = self.now()
        self.restore()
        try:
            yield
        finally:
            now.restore()


class CheckpointFunction(torch.autograd.Function):
    """Run a function with the older variant, which runs a backward of its own within backward."""

    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.random = _Random(args) if preserve_rng_state else None
        ctx.autocast = Settings()
        # Only tensors are saved as tensors. Other arguments are kept as they are, with holes for the tensors.
        ctx.inputs = [None if isinstance(x, torch.Tensor) else x for x in args]
        ctx.tensor_indices = [i for i, x in enumerate(args) if isinstance(x, torch.Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.tensor_indices))
        with torch.no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx, *grads):
        inputs = list(ctx.inputs)
        for i, t in zip(ctx.tensor_indices, ctx.saved_tensors):
            inputs[i] = t
        with ctx.random.again() if ctx.random is not None else contextlib.nullcontext():
            detached = tuple(_detach(x) for x in inputs)
            with torch.enable_grad(), ctx.autocast:
                outputs = ctx.run_function(*detached)
        if isinstance(outputs, torch.Tensor):
            outputs = (outputs,)
        wanted = [(y, g) for y, g in zip(outputs, grads) if isinstance(y, torch.Tensor) and y.requires_grad]
        if not wanted:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        torch.autograd.backward([y for y, _ in wanted], [g for _, g in wanted])
        return (None, None) + tuple(x.grad if isinstance(x, torch.Tensor) else None for x in detached)


def noop_context_fn() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Return contexts that do nothing, for the first run and for the second."""
    return contextlib.nullcontext(), contextlib.nullcontext()


_settings = threading.local()
_debug = None


@contextlib.contextmanager
def set_checkpoint_early_stop(enable):
    """Set within a block whether the second run stops within the function when no more of its values are needed.

    This overrides the argument.
    """
    before = getattr(_settings, "early_stop", None)
    _settings.early_stop = bool(enable)
    try:
        yield
    finally:
        _settings.early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled):
    """Set within a block whether errors name the position and kind of every tensor, whatever `debug` is."""
    global _debug
    before, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = before


class _Enough(Exception):
    """Raised when the second run has made all values that are needed."""


def _describe(t):
    return {"shape": t.shape, "dtype": t.dtype, "device": t.device}


class _SavedArguments:
    """Arguments of a call. Tensors among them are saved as backward saves them: a later change in place is an error."""

    def __init__(self, args):
        self._args = tuple(_C._save(a, None) if isinstance(a, torch.Tensor) else a for a in args)
        self._is_tensor = tuple(isinstance(a, torch.Tensor) for a in args)
        # An object of a subclass may have attributes, so the saved tensor must find it again.
        self._alive = [a for a in args if isinstance(a, torch.Tensor) and type(a) is not torch.Tensor]

    def restored(self):
        """Return the arguments.

        Raises:
            RuntimeError: If a tensor has been changed in place.
        """
        return tuple(_C._unsave(a) if is_tensor else a for a, is_tensor in zip(self._args, self._is_tensor))


class _Frame:
    """One call of a checkpointed function."""

    def __init__(self, function, args, kwargs, random, recompute_context, check, early_stop):
        self.function, self.kwargs = function, kwargs
        self.args = _SavedArguments(args)
        self.random = random
        self.autocast = Settings()
        self.recompute_context = recompute_context
        self.check = check
        self.early_stop = early_stop
        self.expected = []
        self.again = {}
        # Calls whose arguments selective checkpointing needs from the second run, and the number of those that are
        # missing.
        self.kept = 0
        self.awaited = 0
        self.found = {}

    def pack(self, x):
        """The first run keeps only a number."""
        self.expected.append(_describe(x) if self.check else None)
        return len(self.expected) - 1

    def unpack(self, i):
        """Return the tensor from the second run, which this call starts if needed."""
        if i not in self.again:
            self.recompute()
        if i not in self.again:
            self._wrong_number(len(self.again))
        # If there is a second backward, it runs the function once more.
        return self.again.pop(i)

    def _wrong_number(self, got):
        raise CheckpointError(
            "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
            f"recomputation.\nNumber of tensors saved during forward: {len(self.expected)}\nNumber of tensors saved "
            f"during recomputation: {got}.\n\nTip: To see a more detailed error message, either pass `debug=True` to\n"
            "`torch.utils.checkpoint.checkpoint(...)` or wrap the code block\n"
            "with `with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):` to\nenable checkpoint\u2011debug "
            "mode globally.\n"
        )

    def arguments_came(self):
        """Record that the second run has come to a call whose arguments are needed.

        Stop it if they were the last needed values.
        """
        self.awaited -= 1
        if self.early_stop and self.awaited == 0 and len(self.found) == len(self.expected):
            raise _Enough

    def recompute(self):
        """Run the function again, and collect the values that it saves for backward."""
        found = self.found = {}
        self.awaited = self.kept

        def collect(x):
            i = len(found)
            found[i] = x.detach()
            if i >= len(self.expected):
                return i
            if self.check and _describe(x) != self.expected[i]:
                raise CheckpointError(
                    "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata "
                    f"than during the forward pass.\ntensor at position {i}:\nsaved metadata: "
                    f"{self.expected[i]}\nrecomputed metadata: {_describe(x)}.\n"
                )
            if self.early_stop and i + 1 == len(self.expected) and self.awaited == 0:
                raise _Enough
            return i

        args = tuple(_detach(a) for a in self.args.restored())
        kwargs = {k: _detach(v) for k, v in self.kwargs.items()}
        again = self.random.again() if self.random is not None else contextlib.nullcontext()
        try:
            with (
                self,
                again,
                self.autocast,
                self.recompute_context,
                torch.enable_grad(),
                saved_tensors_hooks(collect, found.__getitem__),
            ):
                self.function(*args, **kwargs)
        except _Enough:
            pass
        if len(found) != len(self.expected):
            self._wrong_number(len(found))
        self.again = found

    def __enter__(self):
        self._outer = current_frame()
        _settings.frame = self

    def __exit__(self, *_):
        _settings.frame = self.__dict__.pop("_outer")


def current_frame():
    """The innermost call of a checkpointed function that runs on this thread, or `None`."""
    return getattr(_settings, "frame", None)


def _detach(value):
    """Return a tensor without history for the second run of a function, or any other object itself."""
    if not isinstance(value, torch.Tensor):
        return value
    y = value.detach()
    if y.device.type == "tpu":
        # Otherwise the compiler would see that both runs compute the same, and keep the values of the first.
        y = torch._optimization_barrier(y)
    y.requires_grad = value.requires_grad
    return y


_CHECKS = ("default", "none")


def _without_reentry(function, preserve, context_fn, determinism_check, debug, early_stop, args, kwargs):
    forward_context, recompute_context = context_fn()
    if determinism_check not in _CHECKS:
        raise ValueError(f"determinism_check should be one of {list(_CHECKS)}, but got {determinism_check}")
    if not torch.is_grad_enabled():
        with forward_context:
            return function(*args, **kwargs)
    override = getattr(_settings, "early_stop", None)
    frame = _Frame(
        function,
        args,
        kwargs,
        _Random((args, kwargs)) if preserve else None,
        recompute_context,
        determinism_check == "default" or debug or bool(_debug),
        early_stop if override is None else override,
    )
    with frame, forward_context, saved_tensors_hooks(frame.pack, frame.unpack):
        return function(*args, **kwargs)


def checkpoint(
    function: Callable[..., Any] | None = None,
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    respect_saved_tensors_hooks: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Run `function(*args, **kwargs)` without keeping the values that backward needs. Backward runs it again.

    Without a function: a decorator.
    """
    if function is None:
        return functools.partial(
            _decorate,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve_rng_state,
            context_fn=context_fn,
            determinism_check=determinism_check,
            debug=debug,
            early_stop=early_stop,
        )
    if use_reentrant is None:
        warnings.warn(_PASS_IT.format(""), stacklevel=2)
        use_reentrant = True
    if not use_reentrant:
        return _without_reentry(
            function, preserve_rng_state, context_fn, determinism_check, debug, early_stop, args, kwargs
        )
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug:
        raise ValueError(
            "Passing `context_fn`, `debug`, or `respect_saved_tensors_hooks` is only supported when "
            "use_reentrant=False."
        )
    return CheckpointFunction.apply(function, preserve_rng_state, *args)


def _decorate(function, **settings):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return checkpoint(function, *args, **settings, **kwargs)

    return wrapper


def checkpoint_sequential(
    functions: torch.nn.Sequential | Sequence[Callable[..., Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Run functions one after the other in `segments` pieces. Each piece except the last is checkpointed."""
    if use_reentrant is None:
        warnings.warn(_PASS_IT.format(".checkpoint_sequential"), stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if isinstance(functions, torch.nn.Sequential):
        functions = list(functions.children())

    def piece(start, end):
        def run(x):
            for f in functions[start:end]:
                x = f(x)
            return x

        return run

    size = len(functions) // segments
    start = 0
    for _ in range(segments - 1):
        input = checkpoint(piece(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
        start += size
    return piece(start, len(functions))(input)
