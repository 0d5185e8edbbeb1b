"""`CommDebugMode`: counts of collectives, by modules."""

from __future__ import annotations

import json
import re

from .... import _C, ops
from ....nn.modules.module import Module, register_module_forward_pre_hook
from ... import _watching
from ..._tools.mod_tracker import ModTracker, with_gradients
from .._api import DTensor, _agreeing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ....autograd.graph import RemovableHandle

__all__ = ["CommDebugMode"]

#: The sequences that terminals read as colors.
_COLORS = re.compile(r"\x1B\[[0-?]*[ -/]*[@-~]")


class _Counts(dict[object, int]):
    """Counts by operators. An operator that was not called counts 0."""

    def __missing__(self, key: object) -> int:
        return 0


def _directions() -> dict[str, _Counts]:
    return {"forward": _Counts(), "backward": _Counts()}


def _operator(name: str) -> Any:
    """Return the operator of a collective: of `torch.ops.c10d` if it writes into tensors."""
    return getattr(ops.c10d if name.endswith("_") else ops.c10d_functional, name)


class _CommModeModuleTracker(ModTracker):
    """Which module a collective belongs to, and what the modules are. Names are those of `ModTracker`."""

    def __init__(self) -> None:
        super().__init__()
        #: The type, the depth and the sharded parameters of each module, in the order of the first calls.
        self.module_helper_dict: dict[str, dict[str, Any]] = {}
        #: The parameters of each module that has some, by their own names.
        self.module_parameters_dict: dict[str, dict[str, Any]] = {}
        #: The modules around each module, with itself.
        self.module_parents_dict: dict[str, set[str]] = {}
        #: The modules that each module calls, in the order of the calls.
        self.parent_dict: dict[str, list[str]] = {}
        #: The placements of the sharded parameters, by their full names.
        self.sharding_dict: dict[str, Any] = {}
        self._forget()

    def _forget(self) -> None:
        for each in (self.module_helper_dict, self.module_parameters_dict, self.module_parents_dict):
            each.clear()
        self.parent_dict.clear()
        self.sharding_dict.clear()
        self.module_helper_dict["Global"] = {"depth": 0}
        self.module_parents_dict["Global"] = {"Global"}
        self.parent_list = ["Global"]
        #: A backward pass, and the module whose backward began last in it.
        self._in_backward = (-1, "Global")
        self._leaving: dict[str, list[RemovableHandle]] = {}

    @property
    def name(self) -> str:
        """The module that runs now, or `"Global"`."""
        if not self.is_bw:
            return self.parent_list[-1]
        task, name = self._in_backward
        return name if task == _C._current_graph_task_id() else "Global"

    def _enter_module(self, module: Module, inputs: Any) -> None:
        name = self._name_of(module)
        if self.is_bw:
            # Checkpointed forwards belong to the module whose backward needs them.
            return
        entry = self.module_helper_dict.setdefault(name, {})
        entry["module_type"] = str(type(module)).replace("<", "").replace(">", "")
        entry["depth"] = len(self.parent_list)
        for key, parameter in module.named_parameters(recurse=False):
            self.module_parameters_dict.setdefault(name, {})[key] = parameter.data
            if isinstance(parameter, DTensor):
                self.sharding_dict[f"{name}.{key}"] = parameter.placements
                entry.setdefault("parameters", {})[key] = str(parameter.placements)
        self.module_parents_dict.setdefault(name, {*self.parent_list, name})
        self.parent_dict.setdefault(self.parent_list[-1], []).append(name)
        self.parent_list.append(name)
        self.parents.add(name)
        # This hook comes after those of the module, which may call collectives too.
        handle = module.register_forward_hook(self._leave_module, always_call=True)
        self._leaving.setdefault(name, []).append(handle)

    def _leave_module(self, module: Module, inputs: Any, output: Any) -> None:
        name = self._name_of(module)
        if self.is_bw or name not in self.parent_list:
            return
        for handle in self._leaving.pop(name, []):
            handle.remove()
        while (left := self.parent_list.pop()) != name:
            self.parents.discard(left)
        if name not in self.parent_list:
            self.parents.discard(name)

        def begin_backward(*gradients: Any) -> None:
            self._in_backward = (_C._current_graph_task_id(), name)

        for tensor in with_gradients(output):
            tensor.register_hook(begin_backward)

    def __enter__(self) -> _CommModeModuleTracker:
        self._forget()
        self.parents = {"Global"}
        self._handles = [register_module_forward_pre_hook(self._enter_module)]
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        for handles in self._leaving.values():
            for handle in handles:
                handle.remove()
        self._leaving.clear()

    def print_paramater_info(self) -> None:
        """Print the parameters of the modules."""
        print(self.module_parameters_dict)

    def print_sharding_info(self) -> None:
        """Print the placements of the sharded parameters."""
        for name, placements in self.sharding_dict.items():
            print(f"{name}: {placements}")


class CommDebugMode:
    """A context that counts the collectives of this thread, those of sharded tensors and of gradients too.

    Example::

        comm_mode = CommDebugMode()
        with comm_mode:
            model(x).sum().backward()
        print(comm_mode.get_comm_counts())
    """

    def __init__(self) -> None:
        #: How often each operator was called. Operators are those of `torch.ops.c10d_functional`, and of
        #: `torch.ops.c10d` for collectives that write into tensors.
        self.comm_counts: dict[Any, int] = _Counts()
        #: The same for each module, and for `"Global"`: those of its `"forward"` and of its `"backward"`.
        self.comm_module_counts: dict[str, dict[str, dict[Any, int]]] = {}
        #: Which modules there are.
        self.advanced_module_tracker = _CommModeModuleTracker()

    def __enter__(self) -> CommDebugMode:
        self.comm_counts.clear()
        self.comm_module_counts.clear()
        self.comm_module_counts["Global"] = _directions()
        self.advanced_module_tracker.__enter__()
        _watching.watch(self._count)
        return self

    def __exit__(self, *exception: object) -> None:
        _watching.unwatch(self._count)
        self.advanced_module_tracker.__exit__(*exception)

    def _count(self, name: str) -> None:
        if _agreeing.is_active:
            return
        operator, tracker = _operator(name), self.advanced_module_tracker
        self.comm_counts[operator] += 1
        direction = "backward" if tracker.is_bw else "forward"
        # A module of an earlier context may run its backward in this one.
        for module in tracker.module_parents_dict.get(tracker.name, {"Global"}):
            self.comm_module_counts.setdefault(module, _directions())[direction][operator] += 1

    def get_comm_counts(self) -> dict[Any, int]:
        """Return how often each operator was called. It is `comm_counts`."""
        return self.comm_counts

    def get_total_counts(self) -> int:
        """Return how many collectives were called."""
        return sum(self.comm_counts.values())

    def get_parameter_info(self) -> dict[str, dict[str, Any]]:
        """Return the parameters of the modules whose forward ran, by the names of modules and of parameters."""
        return self.advanced_module_tracker.module_parameters_dict

    def get_sharding_info(self) -> dict[str, Any]:
        """Return the placements of sharded parameters of the modules whose forward ran, by their names."""
        return self.advanced_module_tracker.sharding_dict

    def _of_module(self, name: str, direction: str) -> list[tuple[str, int]]:
        counts = self.comm_module_counts.get(name, {}).get(direction, {})
        return [(str(operator), count) for operator, count in counts.items()]

    def generate_comm_debug_tracing_table(self, noise_level: int = 3) -> str:
        """Return a text with the collectives of each module, of forward and of backward.

        Collectives are colored, as in PyTorch. Unlike there, other ops are not listed.

        Args:
            noise_level: 0 is for the collectives. From 1 on, the text has types and sharded parameters of modules.
        """
        return "".join(f"{line}\n" for line in self._table(noise_level))

    def _table(self, noise_level: int) -> Iterator[str]:
        for name, entry in self.advanced_module_tracker.module_helper_dict.items():
            indent = "    " * entry["depth"]
            yield f"{indent}{name}"
            if noise_level > 0:
                if "module_type" in entry:
                    yield f"{indent}*module type: {entry['module_type']}"
                if "parameters" in entry:
                    yield f"{indent}*Parameter List"
                for key, placements in entry.get("parameters", {}).items():
                    yield f"{indent} *{key}: {placements}"
            for direction in ("forward", "backward"):
                counts = self._of_module(name, direction)
                if counts:
                    yield f"{indent}  {direction.upper()} PASS"
                for operator, count in counts:
                    yield f"\033[1;33m{indent}    *{operator}: {count}\033[0m"

    def log_comm_debug_tracing_table_to_file(self, file_name: str = "comm_mode_log.txt", noise_level: int = 3) -> None:
        """Write the text of `generate_comm_debug_tracing_table` to a file, without colors.

        Args:
            file_name: the file.
            noise_level: as there.
        """
        with open(file_name, "w") as file:
            file.write(_COLORS.sub("", self.generate_comm_debug_tracing_table(noise_level)))

    def generate_json_dump(self, file_name: str = "comm_mode_log.json", noise_level: int = 3) -> None:
        """Write the tree of modules with their collectives to a file in JSON. The lists of other ops are empty.

        Args:
            file_name: the file.
            noise_level: 0 is for the collectives. From 1 on, the file has types and sharded parameters of modules.
        """
        with open(file_name, "w") as file:
            json.dump(self._tree("Global", noise_level), file, indent=4)

    def _tree(self, name: str, noise_level: int) -> dict[str, Any]:
        entry = self.advanced_module_tracker.module_helper_dict[name] if noise_level > 0 else {}
        lists: dict[str, list[Any]] = {f"operations_{kind}": [] for kind in ("forward", "backward", "checkpointing")}
        # A module may call itself.
        children = [child for child in self.advanced_module_tracker.parent_dict.get(name, []) if child != name]
        return {
            "fqn": name,
            "module_type": entry.get("module_type", ""),
            "parameters": list(entry.get("parameters", {}).items()),
            "children": [self._tree(child, noise_level) for child in children],
            "collectives_forward": self._of_module(name, "forward"),
            "collectives_backward": self._of_module(name, "backward"),
            **lists,
        }

    def __repr__(self) -> str:
        return f"CommDebugMode(get_total_counts()={self.get_total_counts()})"
