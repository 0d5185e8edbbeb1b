"""``torch.tpu.plan``: device ``tpu`` as a machine that is not here."""

from .. import _C
from ._report import PlanReport


def _targets(topology, hbm, options, num_partitions):
    """The targets as the extension takes them."""
    names = topology.split(",") if isinstance(topology, str) else list(topology)
    names = [name.strip() for name in names if name.strip()]
    if not names:
        raise ValueError("torch.tpu.plan: topology: expected at least one, such as 'v5e:2x2'")
    pairs = [(str(k), str(v)) for k, v in (options or {}).items()]
    return [(name, pairs, int(num_partitions), None if hbm is None else int(hbm)) for name in names]


class plan:
    """Make device ``tpu`` a planned one in a block: ops are recorded and compiled for TPUs that are not here, and nothing runs.

    Needs libtpu (``pip install libtpu``) and no TPU. Values hold shapes and take no memory. What the host reads is zeros, except for
    small tensors that it uploaded itself. Parameters that are updated in the block hold no data after it.

    Args:
        topology (str or list of str): the machines, such as ``"v5e:2x2"``. Several are separated by commas.
        hbm (int, optional): bytes of device memory to reckon with. Default: all that a device has.
        reads (str): what a read by the host gives: ``"zeros"``, with one warning; ``"raise"`` for an error; ``"skip"`` for zeros without
            ending the program there, to see what reads cost.
        options (dict, optional): options of the compiler, such as ``{"xla_tpu_scoped_vmem_limit_kib": 65536}``.

    Example::

        with torch.tpu.plan("v5e:2x2") as plan:
            train_one_step()
        print(plan.report())
    """

    def __init__(self, topology, *, hbm=None, reads="zeros", options=None):
        if reads not in ("zeros", "raise", "skip"):
            raise ValueError(f"torch.tpu.plan: reads: expected 'zeros', 'raise' or 'skip', but got {reads!r}")
        self._given = _targets(topology, hbm, options, 1)
        self._reads = reads
        self._report = None
        self._is_active = False

    def __enter__(self):
        _C._plan_begin(self._given, self._reads)
        self._is_active, self._report = True, None
        return self

    def __exit__(self, kind, error, trace):
        # After an error, what was recorded of a step is no program of its own.
        self._finish(drop_pending=kind is not None)

    def _finish(self, drop_pending):
        self._is_active = False
        given = _C._plan_end(drop_pending)
        if given is not None:
            self._report = PlanReport(given, self._given)

    def report(self):
        """Return the `PlanReport` of what was launched so far; within the block, what is recorded is compiled first."""
        if self._is_active:
            return PlanReport(_C._plan_report(), self._given)
        if self._report is None:
            raise RuntimeError("torch.tpu.plan: there is no report before the block has begun")
        return self._report

    def save(self, path, topology=None):
        """Compile the programs once more and write them to a file. Return how many there are.

        On a machine with such TPUs, `torch.tpu.load_cache` reads the file, and the same script compiles none of them. Programs that the
        compiler refused are left out.

        Args:
            path (str or path): the file.
            topology (str, optional): one of those of the plan. Default: the only one.

        Raises:
            ValueError: the plan has several topologies, or not this one.
            RuntimeError: there is nothing to write, or the file cannot be written.
        """
        targets = {target[0]: target for target in self._given}
        if topology is None and len(targets) == 1:
            (topology,) = targets
        if topology not in targets:
            raise ValueError(
                f"torch.tpu.plan.save: topology: expected one of {', '.join(targets)}, but got {topology!r}"
            )
        programs = [(p.stablehlo, p._options) for p in self.programs]
        if not programs:
            raise RuntimeError("torch.tpu.plan.save: the plan has no programs")
        return _C._aot_save(path, programs, targets[topology])

    @property
    def topologies(self):
        """The machines, in the order in which they were given."""
        return [target[0] for target in self._given]

    @property
    def programs(self):
        """The programs: see `PlannedProgram`."""
        return self.report().programs

    @property
    def steps(self):
        """The training steps: see `PlannedStep`."""
        return self.report().steps
