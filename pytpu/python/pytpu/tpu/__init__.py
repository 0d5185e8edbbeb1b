"""`torch.tpu`: the accelerator, which is the device of a PJRT plugin."""

from __future__ import annotations

import enum
import os
import sys
import types

from .. import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pytpu import Generator, Tensor

    from .._streams import Stream


class EagerMode(enum.Enum):
    """When recorded ops are launched on the device. The results are the same in all modes.

    `DEBUG` launches after each op, waits, and checks values. `STRICT` launches after each op, and `FUSED` launches long
    segments. The other names are those of torch_tpu.
    """

    DEFER_NEVER_AND_LAUNCH_BLOCKING = 0
    DEFER_NEVER = 1
    DEFER_AND_FUSE = 2
    DEBUG = 0
    STRICT = 1
    FUSED = 2

    def __call__(self) -> EagerMode:
        """Return the mode itself, so that both `torch.tpu.eager_mode` and `torch.tpu.eager_mode()` are the mode."""
        return self


def is_available() -> bool:
    """Return whether there is a device."""
    return _C._tpu_is_available()


def device_count() -> int:
    """Return the number of devices: one for each process that a launcher has started on this host."""
    return _C._tpu_device_count()


def current_device() -> int:
    """Return the index of the device of this process. It is `LOCAL_RANK` under a launcher, and 0 otherwise."""
    return _C._tpu_current_device()


def set_device(device: _C.device | str | int) -> None:
    """Choose the device of this process, before it has tensors on a device.

    Args:
        device: Device, or its name or index. A negative index chooses nothing.

    Raises:
        ValueError: If the device is not a `tpu` device.
        RuntimeError: If there is no such device, or if this process has tensors on another one.
    """
    index: int | None
    if isinstance(device, int):
        index = device
    else:
        given = _C.device(device)
        if given.type != "tpu":
            raise ValueError(f"Expected a tpu device, but got: {given}")
        index = given.index
    if index is not None and index >= 0:
        _C._tpu_set_device(index)


def get_device_name(device: _C.device | str | int | None = None) -> str:
    """Return the name of the hardware behind device `tpu`: the platform and the kind of device.

    Args:
        device: Accepted for compatibility.

    Example:
        >>> import pytpu as torch
        >>> isinstance(torch.tpu.get_device_name(), str)
        True
    """
    return _C._tpu_device_name()


def synchronize(device: _C.device | str | int | None = None) -> None:
    """Launch the recorded ops, and wait for them.

    Args:
        device: Accepted for compatibility.

    Raises:
        IndexError: An index or a class is out of range, and no error was raised for it yet. Its values stay errors.
        RuntimeError: The same for other checks of values, or a program failed.
    """
    _C._tpu_synchronize()


def eager_mode() -> EagerMode:
    """Return the current mode. `torch.tpu.eager_mode`, without brackets, is the mode too, and can be set.

    Example:
        >>> import pytpu as torch
        >>> torch.tpu.eager_mode = torch.tpu.EagerMode.STRICT
        >>> torch.tpu.eager_mode().name
        'DEFER_NEVER'
        >>> torch.tpu.eager_mode = torch.tpu.EagerMode.FUSED
    """
    return EagerMode(_C._tpu_eager_mode())


class set_eager_mode:
    """Set when recorded ops are launched. As a context manager, restore the mode at the end of the block.

    Args:
        mode: A mode, its name in any case such as `"fused"`, or its number.

    Raises:
        ValueError: If the mode is unknown.

    Example:
        >>> import pytpu as torch
        >>> with torch.tpu.set_eager_mode("strict"):
        ...     print(torch.tpu.eager_mode().name)
        DEFER_NEVER
    """

    def __init__(self, mode: EagerMode | str | int) -> None:
        if isinstance(mode, str):
            try:
                mode = EagerMode[mode.upper()]
            except KeyError:
                raise ValueError(f"unknown eager mode {mode!r}: expected 'debug', 'strict' or 'fused'") from None
        self._before = _C._tpu_eager_mode()
        _C._tpu_set_eager_mode(EagerMode(mode).value)

    def __enter__(self) -> set_eager_mode:
        return self

    def __exit__(self, *_: Any) -> None:
        _C._tpu_set_eager_mode(self._before)


class forbid_compilation:
    """Within the block, a program that would have to be compiled is an error: the alarm of a server that is warm.

    Programs that are in memory, in the cache on disk or in a bundle of `torch.tpu.aot` run as always. What a refused
    program would have computed raises at each read. The end of the block raises the first refusal if nothing else is
    raised there. The block applies to all threads of the process.

    Raises:
        RuntimeError: If a program would be compiled. The text names its ops, and what differs from the nearest program
            that there is, such as a size.

    Example:
        >>> import pytpu as torch
        >>> def answer():
        ...     return (torch.ones(4, device="tpu") + 1).sum().item()
        >>> warm = answer()
        >>> with torch.tpu.forbid_compilation():
        ...     answer()
        8.0
    """

    def __enter__(self) -> forbid_compilation:
        _C._tpu_forbid_compilation()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            _C._tpu_allow_compilation()
        except RuntimeError:
            if kind is None:
                raise


def metrics() -> dict[str, Any]:
    """Return the counts of the engine.

    Among them are `compilations` (programs that were compiled), `segments_executed` (launches of compiled programs) and
    `segments_interpreted` (programs whose ops ran one by one on the kernels of the host, as they were new or small).

    Example:
        >>> import pytpu as torch
        >>> torch.tpu.reset_metrics()
        >>> torch.tpu.metrics()["compilations"]
        0
    """
    return _C._tpu_metrics()


def reset_metrics() -> None:
    """Set the counts of the engine to zero."""
    _C._tpu_reset_metrics()


def compilation_count() -> int:
    """Return the number of programs that were compiled, since the start or `reset_metrics`."""
    return _C._tpu_metrics()["compilations"]


def explain() -> list[str]:
    """Return a line for each compilation, with its reason, and for each new program that ran op by op."""
    return _C._tpu_explain()


def mark_step() -> None:
    """Launch the recorded ops, without waiting for them."""
    _C._tpu_mark_step()


def save_cache(path: str | os.PathLike[str]) -> int:
    """Write the programs that this process has compiled to a file.

    `load_cache` reads the file in another process, or on another machine with the same version, plugin and kind of
    device. Programs that the plugin cannot write, such as sorts on XLA:CPU, are left out. A message on stderr says so
    once.

    Args:
        path: Name of the file.

    Returns:
        The number of programs in the file.
    """
    return _C._tpu_save_cache(path)


def load_cache(path: str | os.PathLike[str]) -> int:
    """Load the programs of a file of `save_cache`, of `plan.save` or of `python -m pytpu.aot --save`.

    Programs are native code: load only files that you trust.

    Args:
        path: Name of the file, or of a folder. Of a folder, all files that were made for this version and device are
            loaded.

    Returns:
        The number of programs that were loaded.

    Raises:
        RuntimeError: If the file is damaged, or was made by another version or for another device, or no file of the
            folder fits.
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


def clear_cache() -> None:
    """Drop the compiled programs in memory. Those on disk stay."""
    _C._tpu_clear_cache()


def empty_cache() -> None:
    """Return unused memory to the system. Compiled programs stay."""
    _C._tpu_empty_cache()


def set_check_numerics(on: bool) -> None:
    """Set whether mode `DEBUG` raises an error for NaN and infinities that finite inputs give.

    Args:
        on: If `True`, raise an error.
    """
    _C._tpu_set_check_numerics(on)


def set_plugin(name: str) -> None:
    """Choose the PJRT plugin. Call it before the device is used for the first time.

    Args:
        name: Path of a plugin, or `"cpu"`, `"cuda"` or `"tpu"`.
    """
    _C._tpu_set_plugin(name)


def dump_stablehlo(tensor: Tensor) -> str:
    """Return the StableHLO text of the program that would compute a tensor.

    Args:
        tensor: A pending tensor on `tpu`.

    Example:
        >>> import pytpu as torch
        >>> y = torch.ones(2, device="tpu") * 2
        >>> "stablehlo" in torch.tpu.dump_stablehlo(y)
        True
    """
    return _C._tpu_dump_stablehlo(tensor)


def dump_graph(tensor: Tensor) -> str:
    """Return the recorded ops that would compute a tensor, one line each.

    Args:
        tensor: A pending tensor on `tpu`.

    Example:
        >>> import pytpu as torch
        >>> y = torch.ones(2, device="tpu") * 2
        >>> isinstance(torch.tpu.dump_graph(y), str)
        True
    """
    return _C._tpu_dump_graph(tensor)


def set_max_pending_bytes(n: int | None) -> None:
    """Set the bytes of pending values above which they are computed.

    Args:
        n: Number of bytes. `None` is the memory of the device, or 2 GiB if the device does not report it. On XLA:CPU,
            `None` is 32 MiB if that is more than eight times the largest value.
    """
    _C._tpu_set_max_pending_bytes(n)


def set_max_segment_ops(n: int) -> None:
    """Set the largest number of ops that are compiled as one program.

    Args:
        n: Number of ops.
    """
    _C._tpu_set_max_segment_ops(n)


def _generator(device: _C.device | str | int | None = "tpu") -> Generator:
    """Return the default generator of a device: an index, a name, or `None` for the device in use."""
    if device is None:
        device = current_device()
    given = _C.device("tpu", device) if isinstance(device, int) else _C.device(device)
    if given.type != "tpu":
        raise ValueError(f"Expected a tpu device, but got: {given}")
    index = current_device() if given.index is None else given.index
    if index != current_device():
        if index < device_count():
            raise RuntimeError(f"tpu:{index} is the device of another process, and this one has tpu:{current_device()}")
        raise RuntimeError(f"invalid device ordinal {index}")
    return _C._default_generator(_C.device("tpu", index))


def get_rng_state(device: _C.device | str | int | None = "tpu") -> Tensor:
    """Return the state of the generator of a device. This waits for the device.

    Args:
        device: Device, or its name or index. `None` is the device in use.

    Returns:
        A `uint8` tensor of shape `(16,)` on the CPU.

    Raises:
        ValueError: If the device is not a `tpu` device.
        RuntimeError: If there is no such device.

    Example:
        >>> import pytpu as torch
        >>> state = torch.tpu.get_rng_state()
        >>> a = torch.rand(2, device="tpu")
        >>> torch.tpu.set_rng_state(state)
        >>> torch.equal(a, torch.rand(2, device="tpu"))
        True
    """
    return _generator(device).get_state()


def get_rng_state_all() -> list[Tensor]:
    """Return the state of the generator of this process, once for each device."""
    return [get_rng_state() for _ in range(device_count())]


def set_rng_state(new_state: Tensor, device: _C.device | str | int | None = "tpu") -> None:
    """Set the state of the generator of a device.

    Args:
        new_state: State that `get_rng_state` returned.
        device: Device, or its name or index. `None` is the device in use.

    Raises:
        ValueError: If the device is not a `tpu` device.
        RuntimeError: If there is no such device.
    """
    _generator(device).set_state(new_state)


def set_rng_state_all(new_states: list[Tensor]) -> None:
    """Set the state of the generator of this process.

    Args:
        new_states: States that `get_rng_state_all` returned. Only that of the device of this process is used.
    """
    for state in new_states[current_device() :][:1]:
        set_rng_state(state)


def manual_seed(seed: int) -> None:
    """Seed the generator of the device in use. Generators of other devices, and of the CPU, stay as they are.

    Args:
        seed: The seed. It is taken modulo `2**64`.

    Example:
        >>> import pytpu as torch
        >>> torch.tpu.manual_seed(1)
        >>> torch.tpu.initial_seed()
        1
    """
    _generator(None).manual_seed(int(seed) % 2**64)


def manual_seed_all(seed: int) -> None:
    """Seed the generator of device `tpu` of this process. Each process has one.

    Args:
        seed: The seed. It is taken modulo `2**64`.
    """
    manual_seed(seed)


def seed() -> None:
    """Seed the generator of the device in use with a random number."""
    _generator(None).seed()


def seed_all() -> None:
    """Seed the generators of all `tpu` devices with the same random number."""
    manual_seed_all(_C.Generator().seed())


def initial_seed() -> int:
    """Return the seed that the generator of the device in use was last given."""
    return _generator(None).initial_seed()


def memory_allocated(device: _C.device | str | int | None = None) -> int:
    """Return the number of bytes of values on the device.

    Args:
        device: Accepted for compatibility.

    Example:
        >>> import pytpu as torch
        >>> x = torch.ones(1024, device="tpu")
        >>> torch.tpu.synchronize()
        >>> torch.tpu.memory_allocated() >= 4096
        True
    """
    return _C._tpu_metrics()["live_bytes"]


def max_memory_allocated(device: _C.device | str | int | None = None) -> int:
    """Return the largest number of bytes since the start or `reset_peak_memory_stats`.

    Args:
        device: Accepted for compatibility.
    """
    return _C._tpu_metrics()["peak_bytes"]


def reset_peak_memory_stats(device: _C.device | str | int | None = None) -> None:
    """Set the largest number of bytes to the current number.

    Args:
        device: Accepted for compatibility.
    """
    _C._tpu_reset_peak_bytes()


def memory_reserved(device: _C.device | str | int | None = None) -> int:
    """Return the number of bytes of values, and of memory that is kept for new values.

    `empty_cache` frees the memory that is kept.

    Args:
        device: Accepted for compatibility.
    """
    m = _C._tpu_metrics()
    return m["live_bytes"] + m["pool_bytes"]


def memory_stats(device: _C.device | str | int | None = None) -> dict[str, int]:
    """Return the numbers of bytes by PyTorch's names: allocated now, allocated at most, and reserved.

    Args:
        device: Accepted for compatibility.
    """
    return {
        "allocated_bytes.all.current": memory_allocated(),
        "allocated_bytes.all.peak": max_memory_allocated(),
        "reserved_bytes.all.current": memory_reserved(),
    }


def is_initialized() -> bool:
    """Return whether the device was used, so that its plugin is loaded."""
    m = _C._tpu_metrics()
    return bool(m["segments_executed"] or m["segments_interpreted"] or m["uploads"] or m["compilations"])


def init() -> None:
    """Do nothing: the plugin is loaded when the device is used for the first time."""


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Always return `True`: every plugin computes in `bfloat16`.

    Args:
        including_emulation: Accepted for compatibility.
    """
    return True


def mem_get_info(device: _C.device | str | int | None = None) -> tuple[int, int]:
    """Return the free and the total memory of the device, in bytes. On XLA:CPU they are those of the host.

    Args:
        device: Accepted for compatibility.

    Raises:
        NotImplementedError: If the plugin does not report its memory.
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
    """Properties of the device.

    Attributes:
        name: Name of the device.
        total_memory: Memory in bytes, or 0 if the plugin does not report it.
        major: Generation of the TPU, or 0.
        minor: Always 0.
        multi_processor_count: Always 1.
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


def get_device_properties(device: _C.device | str | int | None = None) -> _DeviceProperties:
    """Return the properties of the device.

    Args:
        device: Accepted for compatibility.

    Example:
        >>> import pytpu as torch
        >>> isinstance(torch.tpu.get_device_properties().name, str)
        True
    """
    return _DeviceProperties()


def get_device_capability(device: _C.device | str | int | None = None) -> tuple[int, int]:
    """Return the generation of the TPU as two numbers: `(5, 0)` for a v5e, `(0, 0)` if the device is not a TPU.

    Args:
        device: Accepted for compatibility.
    """
    import re

    generation = re.match(r"TPU v?(\d+)", get_device_name())
    return (int(generation[1]) if generation else 0), 0


def get_amp_supported_dtype() -> list[_C.dtype]:
    """Return the dtypes that `torch.autocast("tpu")` takes."""
    import pytpu as torch

    return [torch.bfloat16, torch.float16]


def current_stream(device: _C.device | str | int | None = None) -> Stream:
    """Return the stream of the device that this thread has chosen.

    Args:
        device: Device, or its name or index. `None` is device `tpu`.
    """
    from .._streams import current_stream

    return current_stream("tpu" if device is None else device)


def default_stream(device: _C.device | str | int | None = None) -> Stream:
    """Return the default stream of the device.

    Args:
        device: Device, or its name or index. `None` is device `tpu`.
    """
    from .._streams import default_stream

    return default_stream("tpu" if device is None else device)


def set_stream(stream: Stream | None) -> None:
    """Choose the current stream of this thread.

    Args:
        stream: The stream. `None` changes nothing.
    """
    if stream is not None:
        from .._streams import set_stream

        set_stream(stream)


class stream:
    """Context manager in which a stream is the current one.

    Args:
        stream: The stream. `None` changes nothing.

    Example:
        >>> import pytpu as torch
        >>> with torch.tpu.stream(torch.tpu.Stream()):
        ...     y = torch.ones(2, device="tpu") * 2
        >>> y.cpu()
        tensor([2., 2.])
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> Stream | None:
        return self.stream if self.stream is None else self.stream.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self.stream is not None:
            self.stream.__exit__(*error)


class _Module(types.ModuleType):
    """The module, in which the mode is an attribute, as in torch_tpu."""

    @property
    def eager_mode(self):
        return EagerMode(_C._tpu_eager_mode())

    @eager_mode.setter
    def eager_mode(self, mode):
        set_eager_mode(mode)


sys.modules[__name__].__class__ = _Module


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
    if name == "ranks_on_torus":
        from ._torus import ranks_on_torus

        globals()[name] = ranks_on_torus
        return ranks_on_torus
    if name == "stablehlo_op":
        from ._custom import stablehlo_op

        globals()[name] = stablehlo_op
        return stablehlo_op
    if name == "aot" or name == "pallas":
        from importlib import import_module

        return import_module(f".{name}", __name__)
    if name == "default_generators":
        made = globals()[name] = (_generator(None),) * device_count()
        return made
    if name in ("Precision", "precision"):
        from . import _precision

        return getattr(_precision, name)
    raise AttributeError(f"module 'torch.tpu' has no attribute '{name}'")
