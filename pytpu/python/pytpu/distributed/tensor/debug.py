"""``torch.distributed.tensor.debug``: which collectives sharded tensors call, and where their parts are."""

from __future__ import annotations

import json
import threading

from ... import _C, ops
from ...nn.modules.module import Module, register_module_forward_hook, register_module_forward_pre_hook
from .. import _methods
from ._api import DTensor, _agreed
from ._utils import local_places

TYPE_CHECKING = False  # As in `typing`, without the cost of importing it.
if TYPE_CHECKING:
    from typing import Any

__all__ = ["CommDebugMode", "visualize_sharding"]

#: Operators of ``torch.ops.c10d_functional`` by the names of collectives that return new tensors. A reduction to one
#: rank is an operator of ``torch.ops.c10d``. Messages between two ranks do not count.
_FUNCTIONAL = {
    "all_reduce": "all_reduce",
    "reduce": "reduce_",
    "broadcast": "broadcast",
    "all_gather": "all_gather_into_tensor",
    "reduce_scatter": "reduce_scatter_tensor",
    "all_to_all": "all_to_all_single",
}
#: Operators of ``torch.ops.c10d`` by the methods of engines that write into tensors.
_IN_PLACE = {
    "all_reduce": "allreduce_",
    "broadcast": "broadcast_",
    "reduce": "reduce_",
    "all_gather": "allgather_",
    "gather": "gather_",
    "scatter": "scatter_",
    "reduce_scatter": "reduce_scatter_",
    "all_to_all": "alltoall_",
    "all_to_all_single": "alltoall_base_",
}
#: The same for calls with one tensor for all ranks.
_OF_ONE = {"all_gather": "_allgather_base_", "reduce_scatter": "_reduce_scatter_base_"}


class _Active(threading.local):
    """The modes of a thread, the innermost last."""

    def __init__(self) -> None:
        self.modes: list[CommDebugMode] = []


_active = _Active()
_lock = threading.Lock()
#: How many modes are active in all threads.
_watchers = 0


class _WatchedEngine:
    """An engine that tells the modes of its thread of each call.

    Args:
        engine: the engine.
        modes: the modes.
    """

    def __init__(self, engine: Any, modes: list[CommDebugMode]) -> None:
        self._engine, self._modes = engine, modes

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._engine, name)
        if name not in _IN_PLACE:
            return method

        def watched(outputs: list[Any], *arguments: Any) -> Any:
            inputs = arguments[0] if arguments and isinstance(arguments[0], list) else outputs
            is_one = len(inputs) == len(outputs) == 1
            before = _functional_calls()
            try:
                return method(outputs, *arguments)
            finally:
                # On device `tpu` the method records the collective as one that returns a new tensor.
                inner = _minus(_functional_calls(), before)
                for mode in self._modes:
                    mode._counts_in_place(_OF_ONE.get(name, _IN_PLACE[name]) if is_one else _IN_PLACE[name], inner)

        return watched


def _observed(engine: Any) -> Any:
    return _WatchedEngine(engine, list(_active.modes)) if _active.modes else engine


def _functional_calls() -> dict[str, int]:
    calls = _C._collective_calls()
    calls["broadcast"] -= _agreed.broadcasts
    return {name: count for name, count in calls.items() if name in _FUNCTIONAL}


def _minus(now: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {name: count - before.get(name, 0) for name, count in now.items() if count != before.get(name, 0)}


def _plus(total: dict[str, int], more: dict[str, int]) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count


class _Counts(dict[object, int]):
    """Counts by operators. An operator that was not called counts 0."""

    def __missing__(self, key: object) -> int:
        return 0


class CommDebugMode:
    """A context that counts the collectives of this thread, those of sharded tensors and of gradients too.

    Example::

        comm_mode = CommDebugMode()
        with comm_mode:
            model(x).sum().backward()
        print(comm_mode.get_comm_counts())
    """

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._before: dict[str, int] | None = None
        #: Collectives that were counted when a module began or ended, by their names.
        self._functional: dict[str, int] = {}
        self._in_place: dict[str, int] = {}
        #: Modules in which forward is, with their names.
        self._within: list[tuple[Module, str]] = []
        self._by_module: dict[str, dict[str, int]] = {}
        self._names: dict[int, str] = {}
        self._parameters: dict[str, dict[str, Any]] = {}
        self._placements: dict[str, Any] = {}

    def __enter__(self) -> CommDebugMode:
        global _watchers
        self._forget()
        self._before = _functional_calls()
        with _lock:
            _watchers += 1
            _methods._observer = _observed
        self._hooks = [
            register_module_forward_pre_hook(self._enter_module),
            register_module_forward_hook(self._leave_module, always_call=True),
        ]
        _active.modes.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        global _watchers
        _active.modes.remove(self)
        for hook in self._hooks:
            hook.remove()
        with _lock:
            _watchers -= 1
            if _watchers == 0:
                _methods._observer = None
        self._count()
        self._before = None

    def _counts_in_place(self, name: str, inner: dict[str, int]) -> None:
        self._count()
        _plus(self._in_place, {name: 1})
        _plus(self._functional, {name: -count for name, count in inner.items()})
        for _, module in self._within:
            _plus(self._by_module[module], {name: 1})
            _plus(self._by_module[module], {_FUNCTIONAL[name]: -count for name, count in inner.items()})

    def _count(self) -> None:
        """Count the collectives since the last call of this method, for all modules in which forward is."""
        if self._before is None:
            return
        now = _functional_calls()
        new, self._before = _minus(now, self._before), now
        _plus(self._functional, new)
        for _, module in self._within:
            _plus(self._by_module[module], {_FUNCTIONAL[name]: count for name, count in new.items()})

    def _is_here(self) -> bool:
        return self in _active.modes

    def _enter_module(self, module: Module, args: Any) -> None:
        if not self._is_here():
            return
        self._count()
        if id(module) not in self._names:
            root = type(module).__name__
            for path, each in module.named_modules():
                name = self._names.setdefault(id(each), f"{root}.{path}" if path else root)
                for key, parameter in each.named_parameters(recurse=False):
                    self._parameters.setdefault(name, {})[key] = parameter.data
                    if isinstance(parameter, DTensor):
                        self._placements[f"{name}.{key}"] = parameter.placements
        name = self._names[id(module)]
        self._by_module.setdefault(name, {})
        self._within.append((module, name))

    def _leave_module(self, module: Module, args: Any, output: Any) -> None:
        if self._is_here() and any(each is module for each, _ in self._within):
            self._count()
            while self._within.pop()[0] is not module:
                continue

    def get_comm_counts(self) -> dict[Any, int]:
        """Return how often each operator was called. Operators are those of ``torch.ops.c10d_functional``, and of
        ``torch.ops.c10d`` for collectives that write into tensors."""
        self._count()
        counts = _Counts()
        for name, count in self._functional.items():
            if count:
                counts[getattr(ops.c10d if name == "reduce" else ops.c10d_functional, _FUNCTIONAL[name])] = count
        for name, count in self._in_place.items():
            counts[getattr(ops.c10d, name)] += count
        return counts

    def get_total_counts(self) -> int:
        """Return how many collectives were called."""
        return sum(self.get_comm_counts().values())

    def get_parameter_info(self) -> dict[str, dict[str, Any]]:
        """Return the parameters of the modules whose forward ran, by the names of modules and of parameters."""
        return self._parameters

    def get_sharding_info(self) -> dict[str, Any]:
        """Return the placements of sharded parameters of the modules whose forward ran, by their names."""
        return self._placements

    def generate_comm_debug_tracing_table(self, noise_level: int = 3) -> str:
        """Return a text with the collectives of the whole context, and of the forward of each module.

        Args:
            noise_level: 0 is for the collectives. From 1 on, the text lists parameters too, with their placements.
        """
        self._count()
        lines = ["Global", *_lines(self._total(), "  ")]
        for name, counts in self._by_module.items():
            indent = "  " * (name.count(".") + 1)
            lines.append(f"{indent}{name}")
            if noise_level > 0:
                for key, parameter in self._parameters.get(name, {}).items():
                    placements = self._placements.get(f"{name}.{key}")
                    place = "" if placements is None else f" {placements}"
                    lines.append(f"{indent}  parameter {key}: {tuple(parameter.shape)}{place}")
            lines.extend(_lines(counts, f"{indent}  forward: "))
        return "\n".join(lines) + "\n"

    def _total(self) -> dict[str, int]:
        return {str(op): count for op, count in self.get_comm_counts().items()}

    def log_comm_debug_tracing_table_to_file(self, file_name: str = "comm_mode_log.txt", noise_level: int = 3) -> None:
        """Write the text of `generate_comm_debug_tracing_table` to a file.

        Args:
            file_name: the file.
            noise_level: as there.
        """
        with open(file_name, "w") as file:
            file.write(self.generate_comm_debug_tracing_table(noise_level))

    def generate_json_dump(self, file_name: str = "comm_mode_log.json", noise_level: int = 3) -> None:
        """Write the collectives of the whole context, and of the forward of each module, to a file in JSON.

        Args:
            file_name: the file.
            noise_level: 0 is for the collectives. From 1 on, the file has the placements of parameters too.
        """
        self._count()
        modules = []
        for name, counts in self._by_module.items():
            module: dict[str, Any] = {"fqn": name, "forward": {op: count for op, count in counts.items() if count}}
            if noise_level > 0:
                module["parameters"] = {
                    key: str(self._placements.get(f"{name}.{key}")) for key in self._parameters.get(name, {})
                }
            modules.append(module)
        with open(file_name, "w") as file:
            json.dump({"fqn": "Global", "collectives": self._total(), "modules": modules}, file, indent=2)


def _lines(counts: dict[str, int], start: str) -> list[str]:
    return [f"{start}{name}: {count}" for name, count in counts.items() if count]


def visualize_sharding(dtensor: DTensor, header: str = "", use_rich: bool = False) -> None:
    """Print which ranks have which part of a sharded tensor of one or two dimensions, on the first rank of the mesh.

    Args:
        dtensor: the tensor.
        header: a line before the table.
        use_rich: must be ``False``: tables are plain text.

    Raises:
        RuntimeError: if the tensor has more than two dimensions, or a reduction is pending.
        NotImplementedError: for ``use_rich``.
    """
    if dtensor.numel() == 0:
        return
    if dtensor.ndim > 2:
        raise RuntimeError("visualize sharding is only implemented for 1D or 2D DTensor")
    if any(placement.is_partial() for placement in dtensor.placements):
        raise RuntimeError("visualize sharding: a pending reduction has no parts to show")
    if use_rich:
        raise NotImplementedError("visualize_sharding: use_rich is not implemented")
    mesh = dtensor.device_mesh
    coordinate = mesh.get_coordinate()
    if coordinate is None or any(coordinate):
        return
    ranks: dict[tuple[str, ...], list[str]] = {}
    for at, rank in _coordinates(list(mesh.shape), mesh.mesh.flatten().tolist()):
        places = local_places(dtensor.shape, mesh, dtensor.placements, at)
        cells = tuple(", ".join(f"{first}-{first + size - 1}" for first, size in each) for each in places)
        ranks.setdefault(cells, []).append(f"{mesh.device_type}:{rank}")
    rows = sorted({cells[0] for cells in ranks if cells[0]}, key=_first)
    columns = sorted({cells[1] for cells in ranks if len(cells) > 1 and cells[1]}, key=_first) or [""]
    table = [["", *columns]] if columns != [""] else []
    for row in rows:
        key = [(row, column) if dtensor.ndim == 2 else (row,) for column in columns]
        table.append([f"Row {row}" if dtensor.ndim == 2 else f"Row {row}", *(", ".join(ranks.get(k, [])) for k in key)])
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    if header:
        print(header)
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def _first(cell: str) -> int:
    return int(cell.split("-")[0])


def _coordinates(sizes: list[int], ranks: list[int]) -> list[tuple[list[int], int]]:
    """Return each position of a mesh with its rank."""
    found = []
    for i, rank in enumerate(ranks):
        at, rest = [0] * len(sizes), i
        for dim in reversed(range(len(sizes))):
            rest, at[dim] = divmod(rest, sizes[dim])
        found.append((at, rank))
    return found
