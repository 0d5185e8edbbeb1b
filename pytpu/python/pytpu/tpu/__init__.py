"""The accelerator: whatever PJRT plugin is behind device ``tpu``."""

import enum
import os

from .. import _C


class EagerMode(enum.Enum):
    """When recorded ops are handed to the device. Results are the same in all modes."""

    DEFER_NEVER_AND_LAUNCH_BLOCKING = 0
    DEFER_NEVER = 1
    DEFER_AND_FUSE = 2
    DEBUG = 0
    STRICT = 1
    FUSED = 2


def is_available():
    """Whether there is a device."""
    return _C._tpu_is_available()


def device_count():
    """Number of devices."""
    return _C._tpu_device_count()


def current_device():
    """Index of the device in use."""
    return 0


def set_device(device):
    """Only the first device can be chosen."""
    index = device if isinstance(device, int) else _C.device(device).index or 0
    if index != 0:
        raise RuntimeError(f"invalid device ordinal {index}")


def get_device_name(device=None):
    """The truth about what is behind ``tpu``."""
    return _C._tpu_device_name()


def synchronize(device=None):
    """Launches what is recorded and waits for it."""
    _C._tpu_synchronize()


def eager_mode():
    """The mode now."""
    return EagerMode(_C._tpu_eager_mode())


class set_eager_mode:
    """Changes the mode; as a context manager, until the end of the block. Accepts names: ``"fused"``."""

    def __init__(self, mode):
        if isinstance(mode, str):
            try:
                mode = EagerMode[mode.upper()]
            except KeyError:
                raise ValueError(f"unknown eager mode {mode!r}: expected 'debug', 'strict' or 'fused'") from None
        self._before = _C._tpu_eager_mode()
        _C._tpu_set_eager_mode(EagerMode(mode).value)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _C._tpu_set_eager_mode(self._before)


def metrics():
    """What the engine counted, as a dictionary.

    ``compilations`` are programs given to the compiler, ``segments_executed`` launches of compiled programs, and
    ``segments_interpreted`` programs whose ops ran one by one on the host's kernels instead: new ones, and small ones.
    """
    return _C._tpu_metrics()


def reset_metrics():
    """Sets the counts to zero."""
    _C._tpu_reset_metrics()


def compilation_count():
    """Programs given to the compiler so far."""
    return _C._tpu_metrics()["compilations"]


def explain():
    """What was compiled and why, and which programs ran op by op because they were new, a line each."""
    return _C._tpu_explain()


def mark_step():
    """Launches what is recorded, without waiting."""
    _C._tpu_mark_step()


def save_cache(path):
    """Write the programs that this process has compiled to a file. Return how many there are.

    Another process, or another machine with the same version, plugin and kind of device, loads it by `load_cache` and compiles none of them.
    Programs that the plugin cannot write, such as sorts on XLA:CPU, are left out; stderr says so once.
    """
    return _C._tpu_save_cache(path)


def load_cache(path):
    """Load a file of `save_cache`, of `plan.save` or of ``python -m pytpu.aot --save``. Return how many programs it has.

    Of a folder, all files that were made for this version and device are loaded. Programs are native code: load only what you trust as
    you trust a program.

    Raises:
        RuntimeError: the file is damaged, or was made by another version or for another device; no file of the folder fits.
    """
    if not os.path.isdir(path):
        return _C._tpu_load_cache(path)
    loaded, refused = 0, None
    files = sorted(entry.path for entry in os.scandir(path) if entry.name.endswith(".bundle"))
    for file in files:
        try:
            loaded += _C._tpu_load_cache(file)
        except RuntimeError as error:
            refused = error
    if refused is not None and not loaded:
        raise refused
    if not files:
        raise RuntimeError(f"cannot load the bundle {os.fspath(path)}: the folder has no file that ends in .bundle")
    return loaded


def clear_cache():
    """Forgets the executables in memory; those on disk stay."""
    _C._tpu_clear_cache()


def empty_cache():
    """Gives memory back to the system that no tensor uses; executables stay."""
    _C._tpu_empty_cache()


def set_check_numerics(on):
    """Whether Debug mode refuses NaN and infinities made of finite inputs."""
    _C._tpu_set_check_numerics(on)


def set_plugin(name):
    """Chooses the plugin, a path or ``cpu``, ``cuda``, ``tpu``, before the device is first used."""
    _C._tpu_set_plugin(name)


def dump_stablehlo(tensor):
    """The text of the program that would compute a tensor."""
    return _C._tpu_dump_stablehlo(tensor)


def dump_graph(tensor):
    """The recorded ops that would compute a tensor, a line each."""
    return _C._tpu_dump_graph(tensor)


def set_max_pending_bytes(n):
    """Set how many bytes of pending values may be in use before they are computed. With ``None``: the memory of the device, 2 GiB where
    it does not say; on XLA:CPU 32 MiB if that is more than eight of the largest value."""
    _C._tpu_set_max_pending_bytes(n)


def set_max_segment_ops(n):
    """Sets the greatest number of ops that are compiled as one program."""
    _C._tpu_set_max_segment_ops(n)


def _generator(device="tpu"):
    """Return the default generator of a device: an index, a name, or `None` for the device in use."""
    if device is None:
        device = current_device()
    device = _C.device("tpu", device) if isinstance(device, int) else _C.device(device)
    if device.type != "tpu":
        raise ValueError(f"Expected a tpu device, but got: {device}")
    index = current_device() if device.index is None else device.index
    if index != 0 and index >= device_count():
        raise RuntimeError(f"invalid device ordinal {index}")
    return _C._default_generator(_C.device("tpu", index))


def get_rng_state(device="tpu"):
    """Return the state of the device's generator as a `uint8` tensor of 16 elements on `cpu`. Waits for the device."""
    return _generator(device).get_state()


def get_rng_state_all():
    """Return the states of the generators of all devices as a list."""
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state(new_state, device="tpu"):
    """Set the state of the device's generator to `new_state`, which `get_rng_state` returned."""
    _generator(device).set_state(new_state)


def set_rng_state_all(new_states):
    """Set the states of the generators of all devices, in the order of their indices."""
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def manual_seed(seed):
    """Seed the generator of the device in use. Generators of other devices, `cpu` among them, stay as they are."""
    _generator(None).manual_seed(int(seed) % 2**64)


def manual_seed_all(seed):
    """Seed the generators of all devices but `cpu`."""
    for i in range(max(1, device_count())):
        _generator(i).manual_seed(int(seed) % 2**64)


def seed():
    """Seed the generator of the device in use with a random number."""
    _generator(None).seed()


def seed_all():
    """Seed the generators of all devices but `cpu` with one random number."""
    manual_seed_all(_C.Generator().seed())


def initial_seed():
    """Return the seed that the generator of the device in use was last given."""
    return _generator(None).initial_seed()


def memory_allocated(device=None):
    """Bytes of values on the device."""
    return _C._tpu_metrics()["live_bytes"]


def max_memory_allocated(device=None):
    """The most bytes at once since the start or ``reset_peak_memory_stats``."""
    return _C._tpu_metrics()["peak_bytes"]


def reset_peak_memory_stats(device=None):
    """Makes the bytes of now the most that there were."""
    _C._tpu_reset_peak_bytes()


def memory_reserved(device=None):
    """Bytes of values on the device and of memory kept for values to come, which ``empty_cache`` gives back."""
    m = _C._tpu_metrics()
    return m["live_bytes"] + m["pool_bytes"]


def memory_stats(device=None):
    """Bytes now and at most."""
    return {
        "allocated_bytes.all.current": memory_allocated(),
        "allocated_bytes.all.peak": max_memory_allocated(),
        "reserved_bytes.all.current": memory_reserved(),
    }


def is_initialized():
    """Return whether the device was used, so that its plugin is loaded."""
    m = _C._tpu_metrics()
    return bool(m["segments_executed"] or m["segments_interpreted"] or m["uploads"] or m["compilations"])


def init():
    """Do nothing: the plugin is loaded when the device is first used."""


def is_bf16_supported(including_emulation=True):
    """Return ``True``: every plugin computes in ``bfloat16``."""
    return True


def mem_get_info(device=None):
    """Return the free and the whole memory of the device in bytes.

    They are those of the host where the device is the host (XLA:CPU).

    Raises:
        NotImplementedError: the plugin does not say how much memory it has.
    """
    info = _C._tpu_memory_info()
    if info is not None:
        return info
    if not get_device_name().startswith("XLA:CPU"):
        raise NotImplementedError(
            "torch.tpu.mem_get_info: the plugin of this device does not say how much memory it has"
        )
    page = os.sysconf("SC_PAGE_SIZE")
    return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page


class _DeviceProperties:
    """What is known of the device.

    ``name``, ``total_memory`` in bytes (0 where the plugin does not say), and the generation of the TPU as ``major`` and ``minor``.
    """

    def __init__(self):
        self.name = get_device_name()
        try:
            self.total_memory = mem_get_info()[1]
        except NotImplementedError:
            self.total_memory = 0
        self.major, self.minor = get_device_capability()
        self.multi_processor_count = 1

    def __repr__(self):
        return f"_TpuDeviceProperties(name='{self.name}', total_memory={self.total_memory // 2**20}MB)"


def get_device_properties(device=None):
    """Return what is known of the device."""
    return _DeviceProperties()


def get_device_capability(device=None):
    """Return the generation of the TPU as two numbers: ``(5, 0)`` for a v5e, ``(0, 0)`` where the device is no TPU."""
    import re

    generation = re.match(r"TPU v?(\d+)", get_device_name())
    return (int(generation[1]) if generation else 0), 0


def get_amp_supported_dtype():
    """Return the dtypes that ``torch.autocast("tpu")`` takes."""
    import pytpu as torch

    return [torch.bfloat16, torch.float16]


def current_stream(device=None):
    """Return the stream of the device that this thread has chosen."""
    from .._streams import current_stream

    return current_stream("tpu" if device is None else device)


def default_stream(device=None):
    """Return the stream of the device that is the current one unless another was chosen."""
    from .._streams import default_stream

    return default_stream("tpu" if device is None else device)


def set_stream(stream):
    """Choose the current stream of this thread; ``None`` changes nothing."""
    if stream is not None:
        from .._streams import set_stream

        set_stream(stream)


class stream:
    """A block in which a stream is the current one; ``None`` changes nothing."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        return self.stream if self.stream is None else self.stream.__enter__()

    def __exit__(self, *error):
        if self.stream is not None:
            self.stream.__exit__(*error)


def __getattr__(name):
    if name in ("Event", "Stream"):
        from . import _streams

        return getattr(_streams, name)
    if name == "plan":
        from ._plan import plan

        globals()[name] = plan
        return plan
    if name in ("Exported", "export", "load_export"):
        from . import _export

        return getattr(_export, name)
    if name == "stablehlo_op":
        from ._custom import stablehlo_op

        globals()[name] = stablehlo_op
        return stablehlo_op
    if name == "aot" or name == "pallas":
        from importlib import import_module

        return import_module(f".{name}", __name__)
    if name == "default_generators":
        made = globals()[name] = tuple(_generator(i) for i in range(device_count()))
        return made
    if name in ("Precision", "precision"):
        from . import _precision

        return getattr(_precision, name)
    raise AttributeError(f"module 'torch.tpu' has no attribute '{name}'")
