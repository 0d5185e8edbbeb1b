"""`torch.tpu.aot`: compile for a TPU that is not here."""

from __future__ import annotations

import json

from .. import _C
from ._plan import _targets, plan
from ._report import PlanReport, ProgramReport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


__all__ = ["PlanReport", "ProgramReport", "compile", "compile_stablehlo", "is_available"]


def is_available() -> bool:
    """Return whether libtpu, which has the compiler, is installed."""
    return _C._aot_is_available()


def _on_device(value):
    import pytpu as torch
    from pytpu.utils import _pytree

    def move(x):
        return x.to("tpu") if isinstance(x, torch.Tensor) else x

    return _pytree.tree_map(move, value)


def compile(
    fn: Callable[..., Any],
    *args: Any,
    topology: str | Sequence[str] = "v5e:2x2",
    hbm: int | None = None,
    options: dict[str, Any] | None = None,
    **kwargs: Any,
) -> PlanReport:
    """Call a function once on a planned device, and return the report of its programs.

    Args:
        fn: Function to compile. It must put modules on device `tpu` itself.
        args: Arguments of `fn`. Tensors are put on the planned device. Their values do not matter.
        topology: The machines, such as `"v6e:2x4"`.
        hbm: Device memory in bytes. `None` is the memory of the device.
        options: Options of the compiler.
        kwargs: Arguments of `fn` by name.

    Example::

        print(torch.tpu.aot.compile(lambda x: x @ x, torch.zeros(512, 512), topology="v5e:2x2"))
    """
    with plan(topology, hbm=hbm, options=options) as planned:
        results = fn(*_on_device(args), **_on_device(kwargs))
        # Results that are alive are results of the program.
        report = planned.report()
        del results
    return report


def compile_stablehlo(
    text: str,
    topology: str = "v5e:2x2",
    *,
    hbm: int | None = None,
    options: dict[str, Any] | None = None,
    num_partitions: int = 1,
) -> ProgramReport:
    """Compile StableHLO text, and return the report of the program.

    Args:
        text: The module, whose entry is `@main`.
        topology: The machine, such as `"v5e:2x2"`.
        hbm: Device memory in bytes. `None` is the memory of the device.
        options: Options of the compiler.
        num_partitions: Number of devices that the program is divided over, by its shardings.

    Raises:
        RuntimeError: If the compiler refuses the program.
        torch.OutOfMemoryError: If the program does not fit in the memory of a device.
    """
    (target,) = _targets([topology], hbm, options, num_partitions)
    return ProgramReport(json.loads(_C._aot_compile(text, target)))
