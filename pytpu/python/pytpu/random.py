"""The default random number generators."""

from __future__ import annotations

import contextlib
import copyreg

from . import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator as _Iterator, Iterable
    from typing import Any

    from pytpu import Generator, Tensor


default_generator = _C.default_generator

#: Runs random functions that a compiled function has recorded. `torch.compile` sets it.
_before_state: Any = None


def _generator() -> Any:
    """Return the default generator, after all random functions that the program called before."""
    if _before_state is not None:
        _before_state()
    return default_generator


def _rebuilt(device, seed, state):
    return _C.Generator(device).manual_seed(seed).set_state(state)


def _clone_state(self):
    """Return a generator with the same seed and state."""
    return _rebuilt(self.device, self.initial_seed(), self.get_state())


# Copies and pickles have the seed and the state.
copyreg.pickle(_C.Generator, lambda g: (_rebuilt, (str(g.device), g.initial_seed(), g.get_state())))
_C.Generator.clone_state = _clone_state


def manual_seed(seed: int) -> Generator:
    """Seed the default generators of all devices.

    Args:
        seed: The seed, in `[-2**63, 2**64)`. Negative numbers are taken modulo `2**64`.

    Returns:
        The default generator of the CPU.

    Raises:
        ValueError: If `seed` is less than `-2**63`.

    Example:
        >>> import pytpu as torch
        >>> _ = torch.manual_seed(1)
        >>> a = torch.rand(2)
        >>> _ = torch.manual_seed(1)
        >>> torch.equal(a, torch.rand(2))
        True
    """
    seed = int(seed)
    if seed < -(2**63):
        raise ValueError("Overflow when unpacking long long")
    if seed < 0:
        seed += 2**64
    return _generator().manual_seed(seed)


def seed() -> int:
    """Seed the default generators of all devices with a random number, and return it."""
    return _generator().seed()


def initial_seed() -> int:
    """Return the seed that the default generator of the CPU was last given."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Return the state of the default generator of the CPU, as a `uint8` tensor.

    Example:
        >>> import pytpu as torch
        >>> state = torch.get_rng_state()
        >>> a = torch.rand(2)
        >>> torch.set_rng_state(state)
        >>> torch.equal(a, torch.rand(2))
        True
    """
    return _generator().get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Set the state of the default generator of the CPU.

    Args:
        new_state: State that `get_rng_state` returned.
    """
    _generator().set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices: Iterable[_C.device | str | int] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> _Iterator[None, None, None]:
    """Return a context manager, or decorator, that restores the state of random generators at its end.

    Args:
        devices: Indices or names of the devices of `device_type` whose generators are restored, besides that of the
            CPU. `None` is all of them.
        enabled: If `False`, do nothing.
        device_type: Type of the devices, for example `"tpu"`. The default covers only the CPU, as there are no CUDA
            devices.

    Raises:
        RuntimeError: If `device_type` is unknown.

    Example:
        >>> import pytpu as torch
        >>> _ = torch.manual_seed(1)
        >>> with torch.random.fork_rng():
        ...     a = torch.rand(2)
        >>> torch.equal(a, torch.rand(2))
        True
    """
    import pytpu as torch

    kind = torch.device(device_type).type
    if kind == "cpu":
        devices = []
    else:
        module: Any = getattr(torch, kind, None)
        if module is None:
            raise RuntimeError(
                f"torch has no module of `{kind}`, you should register a module by `torch._register_device_module`."
            )
        if devices is None:
            # Other devices of the host belong to other processes.
            devices = [module.current_device()] if enabled and module.is_available() else []
        devices = list(devices)
    if not enabled:
        yield
        return
    state = get_rng_state()
    states = [(module, d, module.get_rng_state(d)) for d in devices]
    try:
        yield
    finally:
        set_rng_state(state)
        for module, device, then in states:
            module.set_rng_state(then, device)
