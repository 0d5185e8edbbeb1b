"""Write `pipelines.json`, which `distributed/test_pipelining_tables.py` compares with. Run it with PyTorch.

Tables are recorded as the beginning of a digest of their text, and some small ones as text. Idle places are empty.
"""

import hashlib
import itertools
import json
import logging
import pathlib

from torch.distributed.pipelining.schedules import get_schedule_class
from torch.distributed.pipelining.stage import _PipelineStageBase

SINGLE = ("GPipe", "1F1B")
MULTI = ("LoopedBFS", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV")
OPTIONS = {
    "one_active": {"max_active_stages": 1},
    "auto": {"unshard_lookahead": "auto"},
    "late_reduction": {"defer_reduce_grad_wait": True},
}


class Stage(_PipelineStageBase):
    """What a schedule asks of a stage when it makes its table."""

    def __init__(self, num_stages, group_size):
        self.num_stages, self.group_size = num_stages, group_size
        self.group_rank, self.group, self.submod = 0, None, None

    def _create_grad_recv_info(self, *args):
        raise NotImplementedError

    _prepare_forward_infra = _prepare_backward_infra = _create_grad_recv_info


def text(table):
    """Return a table as text."""
    return "\n".join(
        ",".join("" if action is None else str(action) for action in table[rank]) for rank in sorted(table)
    )


def digest(table):
    """Return the beginning of the digest of a table."""
    return hashlib.sha256(text(table).encode()).hexdigest()[:12]


def record(name, ranks, local, microbatches):
    """Return what is recorded of one schedule."""
    stages = [Stage(ranks * local, ranks) for _ in range(local)]
    make = get_schedule_class(name)
    try:
        schedule = make(stages if name in MULTI else stages[0], microbatches, loss_fn=len)
    except ValueError as error:
        return {"error": str(error)}
    small = ranks == 2 and microbatches == 4
    found = {"order": text(schedule.pipeline_order) if small else digest(schedule.pipeline_order)}
    if name in MULTI:
        lowered = schedule.pipeline_order_with_comms
        found["lowered"] = text(lowered) if small else digest(lowered)
        if name != "DualPipeV":
            for option, arguments in OPTIONS.items():
                found[option] = digest(make(stages, microbatches, loss_fn=len, **arguments).pipeline_order_with_comms)
    return found


def main():
    logging.disable(logging.CRITICAL)
    cases = [(name, ranks, 1, n) for name in SINGLE for ranks in (1, 2, 3, 4, 8) for n in (1, 2, 3, 4, 6, 8, 12)]
    for name in MULTI:
        locals_ = (1, 2) if name in ("ZBVZeroBubble", "DualPipeV") else (1, 2, 3)
        cases += [
            (name, *numbers) for numbers in itertools.product((1, 2, 3, 4, 8), locals_, (1, 2, 3, 4, 6, 8, 12, 16))
        ]
    found = {" ".join(map(str, case)): record(*case) for case in cases}
    path = pathlib.Path(__file__).with_name("pipelines.json")
    lines = (f"{json.dumps(case)}: {json.dumps(recorded)}" for case, recorded in found.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
