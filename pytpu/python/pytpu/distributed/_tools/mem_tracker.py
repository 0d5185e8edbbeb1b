"""`MemTracker`: the memory of parameters, gradients, activations and states of optimizers, by modules."""

from __future__ import annotations

import weakref
from enum import Enum

from ... import _C, Tensor, device as _device, tpu
from ...nn import Module
from ...optim import Optimizer
from ...optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from ...utils._pytree import tree_leaves
from .mod_tracker import ModTracker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    #: Bytes by kind, and in total, for each device.
    Snapshot = dict[_device, dict[Any, int]]

__all__ = ["MemTracker"]

_TOTAL_KEY = "Total"
_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class _MemRefType(str, Enum):
    """What memory is used for."""

    PARAM = "Parameter"
    BUFFER = "Buffer"
    GRAD = "Gradient"
    ACT = "Activation"
    TEMP = "Temp"
    OPT = "Optstate"
    OTH = "Other"


class _ModState(str, Enum):
    """When a snapshot of a module was taken."""

    PRE_FW = "Pre-Forward"
    POST_FW = "Post-Forward"
    PEAK_FW = "Peak-Forward"
    PRE_BW = "Pre-Backward"
    PRE_FW_AC = "Pre-Forward-AC"
    POST_FW_AC = "Post-Forward-AC"
    POST_BW = "Post-Backward"
    PEAK_BW = "Peak-Backward"


class _ModMemStats:
    """The memory of one module.

    Args:
        mod_fqn: its name.
    """

    def __init__(self, mod_fqn: str) -> None:
        self.mod_fqn = mod_fqn
        #: Bytes of its parameters, buffers, inputs and outputs.
        self.parameter_mem = self.buffer_mem = self.input_mem = self.output_mem = 0
        #: The largest number of bytes of each device while it ran, in forward or in backward.
        self.local_peak: dict[_device, int] = {}
        #: Snapshots by the time they were taken.
        self.snapshots: dict[_ModState, list[Snapshot]] = {}


class _Known:
    """Tensors of one kind. Each memory counts once."""

    def __init__(self) -> None:
        self._tensors: dict[int, weakref.ref[Tensor]] = {}

    def add(self, tensors: Iterable[Any]) -> None:
        for tensor in tensors:
            if isinstance(tensor, Tensor):
                self._tensors[id(tensor)] = weakref.ref(tensor)

    def __contains__(self, tensor: Tensor) -> bool:
        found = self._tensors.get(id(tensor))
        return found is not None and found() is tensor

    def tensors(self) -> list[Tensor]:
        """Return the tensors that are still there."""
        found = {key: reference() for key, reference in self._tensors.items()}
        self._tensors = {key: self._tensors[key] for key, tensor in found.items() if tensor is not None}
        return [tensor for tensor in found.values() if tensor is not None]


def _local(tensor: Tensor) -> Tensor:
    """Return the part of a sharded tensor on this rank."""
    return tensor._local_tensor if hasattr(tensor, "_local_tensor") else tensor


def _bytes(tensors: Iterable[Tensor], seen: set[int]) -> dict[_device, int]:
    """Return the bytes of tensors on each device, without those whose memory was seen."""
    total: dict[_device, int] = {}
    for tensor in map(_local, tensors):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in seen and tensor.device.type != "meta":
            seen.add(key)
            total[tensor.device] = total.get(tensor.device, 0) + storage.nbytes()
    return total


class MemTracker:
    """A context that tells what the memory of tensors is used for, now, at its peak, and by modules.

    The totals are those of the allocators of devices `cpu` and `tpu`: what was allocated within the context, and
    what `track_external` was told of. Parameters, buffers, gradients and states of optimizers are found by the modules
    and optimizers that run. The rest is activations: in backward, what exceeds the activations of forward is temporary.
    Device `cpu` rounds sizes up, by at most a half. On device `tpu` each snapshot waits for the device.

    Example::

        tracker = MemTracker()
        tracker.track_external(model, optimizer)
        with tracker:
            model(x).sum().backward()
            optimizer.step()
        tracker.display_snapshot("peak", units="MiB")
        tracker.display_modulewise_snapshots(depth=3, units="MiB")
    """

    def __init__(self) -> None:
        #: The memory of each module that ran.
        self.memory_tracking: weakref.WeakKeyDictionary[Module, _ModMemStats] = weakref.WeakKeyDictionary()
        self._mod_tracker = ModTracker()
        self._parameters, self._buffers, self._states, self._others = (_Known() for _ in range(4))
        #: Bytes that were there before, and are tracked.
        self._outside: dict[_device, int] = {}
        self._outside_seen: set[int] = set()
        self._before: dict[_device, int] = {}
        self._is_active = False
        self._in_step = False
        #: Activations when backward began, by devices; `None` in forward.
        self._activations: dict[_device, int] | None = None
        self._peak: dict[_device, int] = {}
        self._peak_snapshot: Snapshot = {}
        self._recomputed: weakref.ref[Module] | None = None

    def track_external(self, *external: Module | Optimizer | Tensor | None) -> None:
        """Count modules, optimizers and tensors that were made before the context. Call it before entering.

        Args:
            external: modules, optimizers, tensors, or nested structures of them.

        Raises:
            TypeError: for another object.
        """
        for each in tree_leaves(list(external)):
            if isinstance(each, Tensor):
                self._others.add([each])
                self._add_outside([each])
            elif isinstance(each, Module):
                self._add_module(each)
                self._add_outside([*each.parameters(), *each.buffers(), *_gradients(each.parameters())])
            elif isinstance(each, Optimizer):
                states = _states(each)
                self._states.add(states)
                self._add_outside(states)
            elif each is not None:
                raise TypeError(
                    f"Object of type {type(each)} is not supported for tracking. Only stateful objects like modules, "
                    "optimizers, and tensors are supported."
                )

    def _add_outside(self, tensors: Iterable[Tensor]) -> None:
        for device, count in _bytes(tensors, self._outside_seen).items():
            self._outside[device] = self._outside.get(device, 0) + count

    def _add_module(self, module: Module) -> None:
        self._parameters.add(module.parameters())
        self._buffers.add(module.buffers())

    @staticmethod
    def _allocated() -> dict[_device, tuple[int, int]]:
        """Return the bytes of each device, and the largest number since the last call of `_reset_peaks`."""
        found = {_device("cpu"): _C._cpu_memory()}
        if tpu.is_initialized():
            tpu.synchronize()
            found[_device("tpu", 0)] = tpu.memory_allocated(), tpu.max_memory_allocated()
        return found

    @staticmethod
    def _reset_peaks() -> None:
        _C._cpu_reset_peak()
        if tpu.is_initialized():
            tpu.reset_peak_memory_stats()

    def _totals(self) -> tuple[dict[_device, int], dict[_device, int]]:
        """Return the total of each device, and its largest value since the last call."""
        now, most = {}, {}
        for device, (count, peak) in self._allocated().items():
            added = self._outside.get(device, 0) - self._before.get(device, 0)
            now[device] = max(0, count + added)
            most[device] = max(now[device], peak + added)
        self._reset_peaks()
        return now, most

    def _divided(self, totals: dict[_device, int]) -> Snapshot:
        """Return what totals consist of."""
        seen: set[int] = set()
        parameters = self._parameters.tensors()
        known = {
            _MemRefType.PARAM: _bytes(parameters, seen),
            _MemRefType.BUFFER: _bytes(self._buffers.tensors(), seen),
            _MemRefType.GRAD: _bytes(_gradients(parameters), seen),
            _MemRefType.OPT: _bytes(self._states.tensors(), seen),
            _MemRefType.OTH: _bytes(self._others.tensors(), seen),
        }
        snapshot: Snapshot = {}
        for device, total in totals.items():
            row: dict[Any, int] = {kind: known.get(kind, {}).get(device, 0) for kind in _MemRefType}
            rest = max(0, total - sum(row.values()))
            if self._in_step:
                row[_MemRefType.OPT] += rest
            else:
                row[_MemRefType.ACT] = rest
                if self._activations is not None:
                    row[_MemRefType.ACT] = min(rest, self._activations.get(device, 0))
                    row[_MemRefType.TEMP] = rest - row[_MemRefType.ACT]
            snapshot[device] = row | {_TOTAL_KEY: max(total, sum(row.values()))}
        return snapshot

    def _look(self) -> Snapshot:
        """Take a snapshot, and raise the peaks of everything that runs."""
        now, most = self._totals()
        if not self._mod_tracker.is_bw:
            self._activations = None
        snapshot = self._divided(now)
        if self._mod_tracker.is_bw and self._activations is None:
            self._activations = {device: row[_MemRefType.ACT] for device, row in snapshot.items()}
        peak = _PEAKS[self._mod_tracker.is_bw]
        higher = {device: count for device, count in most.items() if count > self._peak.get(device, 0)}
        at_most = self._divided(most)
        for device, count in higher.items():
            self._peak[device], self._peak_snapshot[device] = count, at_most[device]
        for stats in list(self.memory_tracking.values()):
            if stats.mod_fqn not in self._mod_tracker.parents or peak not in stats.snapshots:
                continue
            for device, count in most.items():
                if count > stats.local_peak.get(device, 0):
                    stats.local_peak[device] = count
                    stats.snapshots[peak][-1][device] = at_most[device]
        return snapshot

    def get_tracker_snapshot(self, type: str = "current") -> Snapshot:
        """Return bytes by kind, and in total, for each device.

        Args:
            type: `"current"`, or `"peak"` for the moment with the largest total.

        Raises:
            ValueError: for another type.
        """
        if type not in ("current", "peak"):
            raise ValueError(f"Invalid type {type}")
        if not self._is_active:
            return _copy_snapshot(self._peak_snapshot) if type == "peak" else self._last
        snapshot = self._look()
        return _copy_snapshot(self._peak_snapshot) if type == "peak" else snapshot

    def reset_mod_stats(self) -> None:
        """Forget the memory of modules, such as before another step."""
        self.memory_tracking.clear()

    def display_snapshot(self, type: str = "current", units: str = "B", tabulate: bool = False) -> None:
        """Print a snapshot.

        Args:
            type: `"current"` or `"peak"`.
            units: `"B"`, `"KiB"`, `"MiB"` or `"GiB"`.
            tabulate: whether to print a row for each device.
        """
        _print(self.get_tracker_snapshot(type), units, tabulate)

    def display_modulewise_snapshots(self, depth: int = 2, units: str = "B", tabulate: bool = False) -> None:
        """Print the snapshots of modules.

        Args:
            depth: how many levels of modules.
            units: as for `display_snapshot`.
            tabulate: as for `display_snapshot`.
        """
        for stats in sorted(self.memory_tracking.values(), key=lambda stats: stats.mod_fqn):
            if stats.mod_fqn.count(".") + 1 > depth:
                continue
            print(f"Module:  {stats.mod_fqn}")
            for state, snapshots in stats.snapshots.items():
                for number, snapshot in enumerate(snapshots, 1):
                    print(f"{state.value}\n# {number}:")
                    _print(snapshot, units, tabulate)

    def _begin_forward(self, module: Module, inputs: Any) -> None:
        self._add_module(module)
        stats = self.memory_tracking.get(module)
        name = self._mod_tracker.get_known_fqn(module) or type(module).__name__
        if stats is None:
            stats = self.memory_tracking[module] = _ModMemStats(name)
            stats.parameter_mem = sum(_bytes(module.parameters(), set()).values())
            stats.buffer_mem = sum(_bytes(module.buffers(), set()).values())
        elif not self._mod_tracker.is_bw and self._mod_tracker.parents <= {"Global", name}:
            raise NotImplementedError(
                "MemTracker does not support memory tracking for multiple iterative calls. Either use "
                "``reset_mod_stats`` to clear module memory stats for the previous iteration."
            )
        stats.mod_fqn = name
        snapshot = self._look()
        if self._mod_tracker.is_bw:
            if self._recomputed is None:
                self._recomputed = weakref.ref(module)
            stats.snapshots.setdefault(_ModState.PRE_FW_AC, []).append(snapshot)
            return
        stats.input_mem = sum(_bytes(_tensors(inputs), set()).values())
        self._begin(stats, _ModState.PRE_FW, _ModState.PEAK_FW, snapshot)

    def _begin(self, stats: _ModMemStats, state: _ModState, peak: _ModState, snapshot: Snapshot) -> None:
        stats.local_peak = {device: row[_TOTAL_KEY] for device, row in snapshot.items()}
        stats.snapshots.setdefault(peak, []).append(_copy_snapshot(snapshot))
        stats.snapshots.setdefault(state, []).append(snapshot)

    def _end_forward(self, module: Module, inputs: Any, outputs: Any) -> None:
        stats = self.memory_tracking.get(module)
        if stats is None:
            return
        state = _ModState.POST_FW
        if self._mod_tracker.is_bw:
            state = _ModState.POST_FW_AC
            if self._recomputed is not None and self._recomputed() is module:
                self._recomputed = None
        else:
            stats.output_mem = sum(_bytes(_tensors(outputs), set()).values())
        stats.snapshots.setdefault(state, []).append(self._look())

    def _begin_backward(self, module: Module | None, gradients: Any) -> None:
        stats = None if module is None else self.memory_tracking.get(module)
        if stats is not None:
            self._begin(stats, _ModState.PRE_BW, _ModState.PEAK_BW, self._look())

    def _end_backward(self, module: Module | None, gradients: Any) -> None:
        stats = None if module is None else self.memory_tracking.get(module)
        if stats is not None:
            stats.snapshots.setdefault(_ModState.POST_BW, []).append(self._look())

    def _begin_step(self, optimizer: Optimizer, *arguments: Any) -> None:
        self._look()
        self._in_step = True

    def _end_step(self, optimizer: Optimizer, *arguments: Any) -> None:
        self._states.add(_states(optimizer))
        self._look()
        self._in_step = False

    def __enter__(self) -> MemTracker:
        self._before = {device: count for device, (count, _) in self._allocated().items()}
        self._reset_peaks()
        self._is_active = True
        self._peak_snapshot = self._divided(self._totals()[0])
        self._peak = {device: row[_TOTAL_KEY] for device, row in self._peak_snapshot.items()}
        self._mod_tracker.register_user_hooks(
            self._begin_forward, self._end_forward, self._begin_backward, self._end_backward
        )
        self._handles = [
            register_optimizer_step_pre_hook(self._begin_step),
            register_optimizer_step_post_hook(self._end_step),
        ]
        self._mod_tracker.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._last = self._look()
        self._is_active = False
        self._mod_tracker.clear_user_hooks()
        self._mod_tracker.__exit__(*exception)
        for handle in self._handles:
            handle.remove()

    _last: Snapshot = {}


_PEAKS = {False: _ModState.PEAK_FW, True: _ModState.PEAK_BW}


def _tensors(values: object) -> list[Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, Tensor)]


def _gradients(parameters: Iterable[Tensor]) -> list[Tensor]:
    return [p.grad for p in parameters if p.is_leaf and p.grad is not None]


def _states(optimizer: Optimizer) -> list[Tensor]:
    return [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]


def _copy_snapshot(snapshot: Snapshot) -> Snapshot:
    return {device: dict(row) for device, row in snapshot.items()}


def _print(snapshot: Snapshot, units: str, tabulate: bool) -> None:
    if units not in _UNITS:
        raise ValueError(f"Unsupported unit: {units}. Supported units are: {', '.join(_UNITS)}")

    def text(count: int) -> str:
        return f"{count if units == 'B' else round(count / _UNITS[units], 2)} {units}"

    rows = {device: row for device, row in snapshot.items() if row[_TOTAL_KEY] > 0}
    if not rows:
        print("No memory tracked.")
    for device, row in rows.items():
        named = {getattr(kind, "value", kind): text(count) for kind, count in row.items()}
        if tabulate:
            print(f"{device!s:8}", *(f"{name} {count:>12}" for name, count in named.items()), sep="  ")
        else:
            print(f"Device: {device}", *(f"\t{name}: {count}" for name, count in named.items()), sep="\n")
