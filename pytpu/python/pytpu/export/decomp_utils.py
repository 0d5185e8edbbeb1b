"""``torch.export.decomp_utils``: the table of operators that are taken apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

__all__ = ["CustomDecompTable"]


class CustomDecompTable(MutableMapping[Any, Callable[..., Any]]):
    """The functions by which `ExportedProgram.run_decompositions` computes operators.

    It begins with those of `torch.export.default_decompositions`. Entries can be set and deleted.
    """

    def __init__(self) -> None:
        from ._decompositions import default_table

        self._functions: dict[Any, Callable[..., Any]] = default_table()

    def __getitem__(self, key: Any) -> Callable[..., Any]:
        return self._functions[key]

    def __setitem__(self, key: Any, value: Callable[..., Any]) -> None:
        self._functions[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._functions[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def copy(self) -> CustomDecompTable:
        """Return a copy."""
        made = CustomDecompTable()
        made._functions = dict(self._functions)
        return made

    def materialize(self) -> dict[Any, Callable[..., Any]]:
        """Return the table as a dict."""
        return dict(self._functions)
