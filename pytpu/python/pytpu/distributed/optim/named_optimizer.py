"""An optimizer whose state has the names of parameters as keys."""

from __future__ import annotations

import copy
import warnings

from ... import Tensor, nn, no_grad, zeros_like
from ...optim import Optimizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import Any

__all__: list[str] = []


class _NamedOptimizer(Optimizer):
    """An optimizer whose `state_dict` has the names of parameters instead of their numbers.

    Args:
        named_parameters: the parameters by their names, as `model.named_parameters()` gives them.
        optimizer_class: the class of the optimizer that does the work.
        param_groups: groups for it. The default is one group of all parameters.
        module: the module of the parameters. It is kept as an attribute.
        args: further arguments of `optimizer_class`.
        kwargs: further arguments of `optimizer_class`.

    Example::

        optimizer = _NamedOptimizer(model.named_parameters(), torch.optim.Adam, lr=0.01)
        ...
        optimizer.state_dict()["state"]["layers.0.weight"]
    """

    def __init__(
        self,
        named_parameters: Mapping[str, Tensor] | Iterable[tuple[str, Tensor]],
        optimizer_class: type[Optimizer],
        param_groups: Collection[Mapping[str, Any]] | None = None,
        module: nn.Module | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        # The optimizer within has the parameters, groups and hooks.
        self.named_parameters = dict(named_parameters)
        self.module = module
        if param_groups is None:
            self._optimizer = optimizer_class(self.named_parameters.values(), *args, **kwargs)
        else:
            groups = [_check(group) for group in param_groups]
            warnings.warn(
                "Since we pass in param_groups, we will use param_groups to initialize the optimizer, not all "
                "parameters of the module.",
                stacklevel=2,
            )
            names = self._names()
            for parameter in (p for group in groups for p in group["params"]):
                if id(parameter) not in names:
                    raise ValueError(f"Expect param name {parameter} found in param group but is missing.")
            self._optimizer = optimizer_class(groups, *args, **kwargs)
        self.param_groups = self._optimizer.param_groups
        self.defaults = self._optimizer.defaults

    def _names(self) -> dict[int, str]:
        return {id(parameter): name for name, parameter in self.named_parameters.items()}

    @property
    def ordered_param_keys(self) -> list[str]:
        """The names of the parameters, in the order of their numbers."""
        names = self._names()
        return [names[id(parameter)] for group in self._optimizer.param_groups for parameter in group["params"]]

    @property
    def state(self) -> Any:
        """The state of the optimizer, by parameters."""
        return self._optimizer.state

    def step(self, closure: Callable[[], Tensor | float] | None = None) -> Tensor | float | None:
        """Step.

        Args:
            closure: computes the loss again, and returns it.
        """
        return self._optimizer.step(closure=closure)

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the groups, with names of parameters."""
        numbered, names = self._optimizer.state_dict(), self.ordered_param_keys
        state = {names[number]: each for number, each in numbered["state"].items()}
        groups = [
            {
                "params": sorted(names[number] for number in group["params"]),
                **{key: copy.deepcopy(value) for key, value in group.items() if key != "params"},
            }
            for group in numbered["param_groups"]
        ]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Copy the values of a state with names into the state of this optimizer, which must be there already.

        Args:
            state_dict: from `state_dict`. Parameters and groups that it lacks keep their state.

        Raises:
            ValueError: if this optimizer has no state yet (see `init_state`), or if state or groups do not fit.
        """
        numbered = self._optimizer.state_dict()
        if not numbered["state"]:
            raise ValueError("Expects the optim to be initialized before load but found not initialized.")
        names = self.ordered_param_keys
        for number, name in enumerate(names):
            if name in state_dict["state"]:
                self._copy_state(name, numbered["state"].get(number, {}), state_dict["state"][name])
        given = {_group_key(group["params"]): group for group in state_dict["param_groups"]}
        for group in numbered["param_groups"]:
            key = _group_key(names[number] for number in group["params"])
            if key not in given:
                continue
            source = given[key]
            if len(source) != len(group):
                raise ValueError(
                    f"Expects equal param_group size as {len(group)} for group {key} but found {len(source)}."
                )
            for each, value in source.items():
                if each not in group:
                    raise ValueError(f"Expects group key {each} to be in group {key} in `state_dict` but is missing.")
                if each != "params":
                    group[each] = copy.deepcopy(value)
        self._optimizer.load_state_dict(numbered)
        self.param_groups = self._optimizer.param_groups

    @staticmethod
    def _copy_state(name: str, own: dict[str, Any], source: Mapping[str, Any]) -> None:
        if len(source) != len(own):
            raise ValueError(f"Expects equal length as {len(own)} for parameter {name} but found: {len(source)}")
        for key, value in own.items():
            if key not in source:
                raise ValueError(f"Expects state {key} for parameter {name} but not found.")
            if isinstance(value, Tensor):
                with no_grad():
                    value.copy_(source[key])
            else:
                own[key] = copy.deepcopy(source[key])

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, which `named_parameters` must have.

        Args:
            param_group: the group.

        Raises:
            ValueError: if a parameter has no name.
        """
        group, names = _check(param_group), self._names()
        if any(id(parameter) not in names for parameter in group["params"]):
            raise ValueError("some parameters are not in the module")
        self._optimizer.add_param_group(group)
        self.param_groups = self._optimizer.param_groups

    def init_state(self) -> None:
        """Step with gradients of zero, so that the state is there and can be loaded."""
        for parameter in self.named_parameters.values():
            if parameter.requires_grad:
                parameter.grad = zeros_like(parameter)
        self.step()


def _check(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group with a list of tensors."""
    if not isinstance(group, dict):
        raise AssertionError("param group must be a dict")
    if "params" not in group:
        raise AssertionError("param group must contain key params")
    params = group["params"]
    params = [params] if isinstance(params, Tensor) else list(params)
    for parameter in params:
        if not isinstance(parameter, Tensor):
            kind = f"{type(parameter).__module__}.{type(parameter).__name__}"
            raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {kind}")
    return {**group, "params": params}


def _group_key(names: Iterable[str]) -> str:
    return "/".join(sorted(names))
