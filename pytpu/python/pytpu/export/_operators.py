"""Functions of sizes that exported graphs call beside operators, by the names that archives have."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pytpu as torch

SYMBOLIC_NAMES: dict[str, Callable[..., Any]] = {
    **{
        f"_operator.{name}": getattr(operator, name)
        for name in """eq ne le ge lt gt neg pos mul add sub floordiv mod pow truediv and_ or_ lshift rshift""".split()
    },
    "math.trunc": math.trunc,
    **{
        f"torch.{name}": getattr(torch, name)
        for name in "sym_not sym_int sym_float sym_ite sym_max sym_min sym_sqrt sym_sum".split()
    },
}
#: The functions themselves.
SYMBOLIC = set(SYMBOLIC_NAMES.values())
NAMES = {function: name for name, function in SYMBOLIC_NAMES.items()}
