"""Actions of a pipeline: what one rank does at one place of its row, and how rows are written as text."""

from __future__ import annotations

import csv
import enum
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class _ComputationType(str, enum.Enum):
    """Kind of an action. The value is its spelling in tables and files."""

    FORWARD = "F"
    BACKWARD_INPUT = "I"
    BACKWARD_WEIGHT = "W"
    UNSHARD = "UNSHARD"
    RESHARD = "RESHARD"
    SEND_F = "SEND_F"
    RECV_F = "RECV_F"
    SEND_B = "SEND_B"
    RECV_B = "RECV_B"
    WAIT_SEND_F = "WAIT_SEND_F"
    WAIT_SEND_B = "WAIT_SEND_B"
    FULL_BACKWARD = "B"
    OVERLAP_F_B = "OVERLAP_F_B"
    REDUCE_GRAD = "REDUCE_GRAD"
    WAIT_REDUCE_GRAD = "WAIT_REDUCE_GRAD"

    @staticmethod
    def from_str(action: str) -> _ComputationType:
        """Return the kind that is spelled `action`. Raise `RuntimeError` if there is none."""
        try:
            return _ComputationType(action)
        except ValueError as error:
            raise RuntimeError(f"Invalid computation type {action}") from error


FORWARD = F = _ComputationType.FORWARD
BACKWARD_INPUT = I = _ComputationType.BACKWARD_INPUT  # noqa: E741, the name is PyTorch's
BACKWARD_WEIGHT = W = _ComputationType.BACKWARD_WEIGHT
FULL_BACKWARD = B = _ComputationType.FULL_BACKWARD
OVERLAP_F_B = _ComputationType.OVERLAP_F_B
UNSHARD = _ComputationType.UNSHARD
RESHARD = _ComputationType.RESHARD
REDUCE_GRAD = _ComputationType.REDUCE_GRAD
WAIT_REDUCE_GRAD = _ComputationType.WAIT_REDUCE_GRAD
SEND_F = _ComputationType.SEND_F
RECV_F = _ComputationType.RECV_F
SEND_B = _ComputationType.SEND_B
RECV_B = _ComputationType.RECV_B
WAIT_SEND_F = _ComputationType.WAIT_SEND_F
WAIT_SEND_B = _ComputationType.WAIT_SEND_B

_COMPUTE = frozenset((FORWARD, FULL_BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, OVERLAP_F_B))

# The longest spelling first, so that "WAIT_SEND_F" is not read as "W".
_SPELLINGS = "|".join(sorted((kind.value for kind in _ComputationType if kind != OVERLAP_F_B), key=len, reverse=True))
_ACTION = re.compile(rf"(\d+)({_SPELLINGS})(\d*)")


class _Action(NamedTuple):
    """What a rank does at one place of its row.

    An `OVERLAP_F_B` action has `sub_actions`, which run in their order at this place. Its other fields are -1 and
    `None`.
    """

    stage_index: int
    computation_type: _ComputationType
    microbatch_index: int | None = None
    sub_actions: tuple[_Action, ...] | None = None

    def __str__(self) -> str:
        return self.__repr__()

    def __repr__(self) -> str:
        if self.sub_actions is not None:
            return f"({';'.join(map(repr, self.sub_actions))}){self.computation_type.value}"
        microbatch = "" if self.microbatch_index is None else self.microbatch_index
        return f"{self.stage_index}{self.computation_type.value}{microbatch}"

    @property
    def is_compute_op(self) -> bool:
        """Whether the action computes, rather than moves or waits."""
        return self.computation_type in _COMPUTE

    @property
    def parts(self) -> tuple[_Action, ...]:
        """The sub-actions, or the action itself."""
        return self.sub_actions or (self,)

    @staticmethod
    def from_str(action_string: str) -> _Action | None:
        """Return the action that `action_string` spells.

        Examples are `2F0`, `1UNSHARD`, `3SEND_F1` and `(0F4;3B1)OVERLAP_F_B`. An empty string is an idle place, `None`.
        Raise `RuntimeError` if `action_string` is none of these.
        """
        text = action_string.strip()
        if not text:
            return None
        if text.startswith("(") and ")" in text:
            inner, _, kind = text[1:].partition(")")
            parts = tuple(part for part in map(_Action.from_str, inner.split(";")) if part is not None)
            return _Action(-1, _ComputationType.from_str(kind), None, parts or None)
        if found := _ACTION.match(text):
            stage, kind, microbatch = found.groups()
            return _Action(int(stage), _ComputationType(kind), int(microbatch) if microbatch else None)
        raise RuntimeError(
            f"Invalid action string: {text}, should be formatted as [stage][action type][(microbatch)] e.g. 2F0"
        )


# Places of each rank's row. `None` is an idle place.
_Table = dict[int, list[_Action | None]]
_AnyTable = Mapping[int, Sequence[_Action | None]]  # As an argument that is only read.


def _as_text(pipeline_order: _AnyTable, error_step_number: int | None = None) -> str:
    """Return a table as text, with one line for each step and one column for each rank.

    Args:
        pipeline_order: Rows of all ranks.
        error_step_number: Step whose line ends with a mark, or `None`.
    """
    ranks = sorted(pipeline_order)
    rows = [["" if action is None else str(action) for action in pipeline_order[rank]] for rank in ranks]
    steps = list(itertools.zip_longest(*rows, fillvalue=""))
    digits = len(str(len(steps) - 1))
    labels = [f"Step {step:0{digits}}: " for step in range(len(steps))]
    heads = [f"Rank {rank}" for rank in ranks]
    widths = [max(map(len, (head, *row))) for head, row in zip(heads, rows)]

    def line(label: str, cells) -> str:
        return label + " ".join(cell.ljust(width) for cell, width in zip(cells, widths))

    lines = [line(" " * len(f"Step {0:0{digits}}: "), heads)]
    for step, (label, cells) in enumerate(zip(labels, steps)):
        lines.append(line(label, cells) + (" <-- ERROR HERE" if step == error_step_number else ""))
    return "\n".join(lines) + "\n"


def _read_csv(filename: str) -> _Table:
    """Read a table from a file with one line for each rank."""
    with open(filename, newline="") as file:
        return {rank: [_Action.from_str(cell) for cell in row] for rank, row in enumerate(csv.reader(file))}


def _write_csv(filename: str, table: _AnyTable) -> None:
    """Write a table to a file, one line for each rank in the order of `table`."""
    with open(filename, "w", newline="") as file:
        csv.writer(file).writerows(table.values())
