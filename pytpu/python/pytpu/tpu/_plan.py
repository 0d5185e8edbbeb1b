"""`torch.tpu.plan`: device `tpu` as a machine that is not here."""

from __future__ import annotations

from .. import _C
from ._report import PlanReport

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any

    from ._report import PlannedProgram, PlannedStep


def _targets(topology, hbm, options, num_partitions):
    """Return the targets in the form of the extension."""
    names = topology.split(",") if isinstance(topology, str) else list(topology)
    names = [name.strip() for name in names if name.strip()]
    if not names:
        raise ValueError("torch.tpu.plan: topology: expected at least one, such as 'v5e:2x2'")
    pairs = [(str(k), str(v)) for k, v in (options or {}).items()]
    return [(name, pairs, int(num_partitions), None if hbm is None else int(hbm)) for name in names]


class plan:
    """Context manager in which device `tpu` is planned: ops are recorded and compiled for TPUs that are not here.

    Nothing runs. It needs libtpu (`pip install libtpu`), and no TPU. Values have shapes and take no memory. Values that
    the host reads are zeros, except small tensors that it uploaded itself. Matrices that are factored are identities.
    Parameters that are updated in the block hold no data after it.

    `torch.distributed.init_process_group` makes a group in which only this rank exists, by default rank 0 of as many
    ranks as the machine has devices. Rank `r` is the `r`-th device, counted along the first dimension of the machine.
    Collectives are part of the programs.

    Args:
        topology: The machines, such as `"v5e:2x2"`: a text with commas in between, or a list.
        hbm: Device memory in bytes. `None` is the memory of the device.
        reads: Result of a read by the host. `"zeros"` gives zeros and one warning, and `"raise"` an error. `"skip"`
            gives zeros and does not end the program there, which shows the cost of reads.
        options: Options of the compiler, such as `{"xla_tpu_scoped_vmem_limit_kib": 65536}`.
        assume_share: Part of the rows that is assumed where values decide their number, as in `torch.nonzero(x)`,
            `torch.where(c)` and `x[mask]`, from 0 to 1. The report names the lines.

    Raises:
        ValueError: If `reads` is unknown, if there is no topology, or if `assume_share` is not from 0 to 1.

    Example::

        with torch.tpu.plan("v5e:2x2") as plan:
            train_one_step()
        print(plan.report())
    """

    def __init__(
        self,
        topology: str | Sequence[str],
        *,
        hbm: int | None = None,
        reads: str = "zeros",
        options: dict[str, Any] | None = None,
        assume_share: float = 1.0,
    ) -> None:
        if reads not in ("zeros", "raise", "skip"):
            raise ValueError(f"torch.tpu.plan: reads: expected 'zeros', 'raise' or 'skip', but got {reads!r}")
        self._given = _targets(topology, hbm, options, 1)
        self._reads, self._assumed_share = reads, float(assume_share)
        self._report = None
        self._is_active = False

    def __enter__(self) -> plan:
        _C._plan_begin(self._given, self._reads, self._assumed_share)
        self._is_active, self._report = True, None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error, drop the recorded part of a step.
        self._finish(drop_pending=kind is not None)

    def _finish(self, drop_pending):
        self._is_active = False
        given = _C._plan_end(drop_pending)
        if given is not None:
            self._report = PlanReport(given, self._given)

    def report(self) -> PlanReport:
        """Return the report of the programs that were launched so far.

        Within the block, recorded ops are compiled first.

        Raises:
            RuntimeError: If the block has not begun.
        """
        if self._is_active:
            return PlanReport(_C._plan_report(), self._given)
        if self._report is None:
            raise RuntimeError("torch.tpu.plan: there is no report before the block has begun")
        return self._report

    def save(self, path: str | os.PathLike[str], topology: str | None = None) -> int:
        """Compile the programs once more, and write them to a file.

        On a machine with such TPUs, `torch.tpu.load_cache` reads the file, and the same script compiles none of them.
        Programs that the compiler refused are left out.

        Args:
            path: Name of the file.
            topology: One of the topologies of the plan. `None` is the only one.

        Returns:
            The number of programs in the file.

        Raises:
            ValueError: If the plan has several topologies, or does not have this one.
            RuntimeError: If there is nothing to write, or the file cannot be written.
        """
        targets = {target[0]: target for target in self._given}
        if topology is None and len(targets) == 1:
            (topology,) = targets
        if topology not in targets:
            raise ValueError(
                f"torch.tpu.plan.save: topology: expected one of {', '.join(targets)}, but got {topology!r}"
            )
        programs = [(p.stablehlo, p._options, p.ranks) for p in self.programs]
        if not programs:
            raise RuntimeError("torch.tpu.plan.save: the plan has no programs")
        return _C._aot_save(path, programs, targets[topology])

    @property
    def topologies(self) -> list[str]:
        """The machines, in the order of the arguments."""
        return [target[0] for target in self._given]

    @property
    def programs(self) -> list[PlannedProgram]:
        """The programs."""
        return self.report().programs

    @property
    def steps(self) -> list[PlannedStep]:
        """The training steps."""
        return self.report().steps
