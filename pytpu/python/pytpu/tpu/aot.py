"""``torch.tpu.aot``: compile for a TPU that is not here."""

import json

from .. import _C
from ._plan import _targets, plan
from ._report import PlanReport, ProgramReport

__all__ = ["PlanReport", "ProgramReport", "compile", "compile_stablehlo", "is_available"]


def is_available():
    """Return whether libtpu, which has the compiler, is installed."""
    return _C._aot_is_available()


def _on_device(value):
    import pytpu as torch
    from pytpu.utils import _pytree

    move = lambda x: x.to("tpu") if isinstance(x, torch.Tensor) else x
    return _pytree.tree_map(move, value)


def compile(fn, *args, topology="v5e:2x2", hbm=None, options=None, **kwargs):
    """Call `fn` once on a planned device and return the `PlanReport` of what it recorded.

    Args:
        fn (callable): what to compile; modules are moved to device ``tpu`` by the caller, within `fn`.
        *args, **kwargs: its arguments. Tensors among them are put on the planned device; their values are of no meaning.
        topology (str or list of str): the machines, such as ``"v6e:2x4"``.
        hbm (int, optional): bytes of device memory to reckon with.
        options (dict, optional): options of the compiler.
    """
    with plan(topology, hbm=hbm, options=options) as planned:
        results = fn(*_on_device(args), **_on_device(kwargs))
        # Results that are alive are results of the program.
        report = planned.report()
        del results
    return report


def compile_stablehlo(text, topology="v5e:2x2", *, hbm=None, options=None, num_partitions=1):
    """Compile StableHLO text and return its `ProgramReport`.

    Args:
        text (str): the module, with its entry ``@main``.
        topology (str): the machine, such as ``"v5e:2x2"``.
        hbm (int, optional): bytes of device memory to reckon with.
        options (dict, optional): options of the compiler.
        num_partitions (int): devices that the program is divided over, as its shardings say.

    Raises:
        RuntimeError: the compiler refuses the program.
        torch.OutOfMemoryError: it does not fit in the memory of a device.
    """
    (target,) = _targets([topology], hbm, options, num_partitions)
    return ProgramReport(json.loads(_C._aot_compile(text, target)))
