"""`torch.ops.higher_order`: operators that call graphs, as exported programs have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytpu as torch


class HigherOrderOperator:
    """An operator that takes functions or graphs.

    Args:
        name: its name in `torch.ops.higher_order`.
    """

    def __init__(self, name: str, function: Callable[..., Any] | None = None) -> None:
        self._name = self.__name__ = self.__qualname__ = name
        self.__module__ = "torch._ops.higher_order"
        self.namespace = "higher_order"
        self._function = function

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self._function is None:
            raise NotImplementedError(f"torch.ops.higher_order.{self._name} cannot run here")
        return self._function(*args, **kwargs)

    def name(self) -> str:
        """The name."""
        return self._name

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"<HigherOrderOperator(name='{self._name}')>"

    def __copy__(self) -> HigherOrderOperator:
        return self

    def __deepcopy__(self, memo: object) -> HigherOrderOperator:
        return self

    def __reduce__(self) -> Any:
        return find, (self._name,)


def _cond(pred: Any, true_fn: Any, false_fn: Any, operands: Sequence[Any] = ()) -> Any:
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


def _while_loop(cond_fn: Any, body_fn: Any, carried: Sequence[Any], additional: Sequence[Any] = ()) -> Any:
    values = tuple(carried)
    while bool(cond_fn(*values, *additional)):
        values = tuple(body_fn(*values, *additional))
    return values


def _map(f: Any, xs: Sequence[Any], others: Sequence[Any] = ()) -> Any:
    rows = [f(*(x[i] for x in xs), *others) for i in range(xs[0].shape[0])]
    return tuple(torch.stack(column) for column in zip(*rows))


def _scan(combine_fn: Any, init: Sequence[Any], xs: Sequence[Any], others: Sequence[Any] = ()) -> Any:
    carry, rows = list(init), []
    for i in range(xs[0].shape[0]):
        values = combine_fn(*carry, *(x[i] for x in xs), *others)
        carry, row = list(values[: len(carry)]), values[len(carry) :]
        rows.append(row)
    return (*carry, *(torch.stack(column) for column in zip(*rows)))


def _with_grad_mode(enabled: bool, wrapped: Any, *args: Any, **kwargs: Any) -> Any:
    with torch.set_grad_enabled(enabled):
        return wrapped(*args, **kwargs)


def _with_autocast(
    device_type: str, dtype: Any, enabled: bool, cache_enabled: bool, wrapped: Any, *args: Any, **kwargs: Any
) -> Any:
    with torch.autocast(device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled):
        return wrapped(*args, **kwargs)


def _call(wrapped: Any, *args: Any, **kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


def _invoke_subgraph(subgraph: Any, identifier: Any, *args: Any) -> Any:
    return subgraph(*args)


_OPERATORS = {
    name: HigherOrderOperator(name, function)
    for name, function in {
        "cond": _cond,
        "while_loop": _while_loop,
        "map_impl": _map,
        "scan": _scan,
        "wrap_with_set_grad_enabled": _with_grad_mode,
        "wrap_with_autocast": _with_autocast,
        "wrap": _call,
        "tag_activation_checkpoint": _call,
        "wrap_activation_checkpoint": _call,
        "strict_mode": lambda wrapped, operands: wrapped(*operands),
        "invoke_subgraph": _invoke_subgraph,
    }.items()
}


def find(name: str) -> HigherOrderOperator:
    """Return an operator.

    Raises:
        AttributeError: there is none of this name.
    """
    if name not in _OPERATORS:
        raise AttributeError(f"'_HigherOrderNamespace' object has no attribute '{name}'")
    return _OPERATORS[name]
