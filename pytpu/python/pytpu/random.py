"""Random number generators."""

import contextlib
import copyreg

from . import _C

default_generator = _C.default_generator


def _rebuilt(device, seed, state):
    return _C.Generator(device).manual_seed(seed).set_state(state)


def _clone_state(self):
    """A generator that goes on as this one does."""
    return _rebuilt(self.device, self.initial_seed(), self.get_state())


# Copies and pickles hold the seed and the state.
copyreg.pickle(_C.Generator, lambda g: (_rebuilt, (str(g.device), g.initial_seed(), g.get_state())))
_C.Generator.clone_state = _clone_state


def manual_seed(seed):
    """Seeds the generators of all devices."""
    seed = int(seed)
    if seed < -(2**63):
        raise ValueError("Overflow when unpacking long long")
    if seed < 0:
        seed += 2**64
    return default_generator.manual_seed(seed)


def seed():
    """Seeds the generators with a number that is not deterministic, and returns it."""
    return default_generator.seed()


def initial_seed():
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state():
    """The state of the default generator, a tensor of bytes."""
    return default_generator.get_state()


def set_rng_state(new_state):
    """Sets the state of the default generator."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type="cuda"):
    """Restore the state of random generators at the end of the block, or of the decorated function.

    Args:
        devices: indices or names of the devices of `device_type` whose generators are restored, besides that of `cpu`.
            `None` means all of them.
        enabled: `False` turns the function off.
        device_type: kind of the devices, for example `"tpu"`. The default covers `cpu` only, as there are no CUDA devices.
    """
    import pytpu as torch

    kind = torch.device(device_type).type
    if kind == "cpu":
        devices = []
    else:
        module = getattr(torch, kind, None)
        if module is None:
            raise RuntimeError(
                f"torch has no module of `{kind}`, you should register a module by `torch._register_device_module`."
            )
        if devices is None:
            count = module.device_count() if enabled else 0
            if count > 1:
                import warnings

                warnings.warn(
                    f"{kind.upper()} reports that you have {count} available devices, and you have used {_caller} without "
                    "explicitly specifying which devices are being used. For safety, we initialize *every* device by "
                    "default, which can be quite slow if you have a lot of devices. If you know that you are only making use "
                    f"of a few devices, set the argument {_devices_kw} of {_caller} to their indices.",
                    stacklevel=3,
                )
            devices = range(count)
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
