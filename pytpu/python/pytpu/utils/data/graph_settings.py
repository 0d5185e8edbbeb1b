"""Settings of data pipes that are built from other ones."""

from __future__ import annotations

import pytpu as torch

from .datapipes.datapipe import IterDataPipe, MapDataPipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from pytpu import Generator

__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_settings"]


def _pipes(pipe: Any) -> Iterator[Any]:
    """Yield a data pipe, and all data pipes that are in its attributes, or in lists and dictionaries there."""
    seen: set[int] = set()
    pending = [pipe]
    while pending:
        found = pending.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, (IterDataPipe, MapDataPipe)):
            yield found
            pending.extend(found.__dict__.values())
        elif isinstance(found, (list, tuple)):
            pending.extend(found)
        elif isinstance(found, dict):
            pending.extend(found.values())


def apply_sharding(datapipe: Any, num_of_instances: int, instance_id: int, sharding_group: Any = None) -> Any:
    """Tell each data pipe with a method `apply_sharding` which part of its samples it gives. Return `datapipe`.

    Args:
        datapipe: the last data pipe.
        num_of_instances: the number of parts.
        instance_id: the number of the part.
        sharding_group: passed on to methods with three arguments, if it is given.
    """
    rest = () if sharding_group is None else (sharding_group,)
    for pipe in _pipes(datapipe):
        if hasattr(pipe, "apply_sharding"):
            pipe.apply_sharding(num_of_instances, instance_id, *rest)
    return datapipe


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Turn shuffling on or off in each data pipe with methods `set_shuffle` and `set_seed`. Return `datapipe`.

    Args:
        datapipe: the last data pipe.
        shuffle: whether samples are shuffled. `None` changes nothing.

    Raises:
        NotImplementedError: if `shuffle` is true, and no data pipe can shuffle.
    """
    if shuffle is None:
        return datapipe
    pipes = [pipe for pipe in _pipes(datapipe) if hasattr(pipe, "set_shuffle") and hasattr(pipe, "set_seed")]
    if shuffle and not pipes:
        raise NotImplementedError("shuffle=True needs a data pipe with the methods set_shuffle and set_seed")
    for pipe in pipes:
        pipe.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Generator) -> Any:
    """Give each data pipe with a method `set_seed` a seed that is drawn from `rng`. Return `datapipe`."""
    for pipe in _pipes(datapipe):
        if hasattr(pipe, "set_seed"):
            pipe.set_seed(int(torch.empty((), dtype=torch.int64).random_(generator=rng).item()))
    return datapipe
