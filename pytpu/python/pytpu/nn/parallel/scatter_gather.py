"""The steps of `DataParallel`, for one accelerator.

Devices are numbers or names. More than one device raises `RuntimeError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytpu as torch
from pytpu.nn.modules.module import Module


def the_device(devices: Iterable[int | str | torch.device]) -> torch.device:
    """Return the only device of a sequence.

    Args:
        devices: Devices by number or by name. A number means device `"tpu"`.

    Returns:
        The device.

    Raises:
        RuntimeError: There is not exactly one device.
        ValueError: The device is `cpu`.
    """
    named = [torch.device("tpu", d) if isinstance(d, int) else torch.device(d) for d in devices]
    for device in named:
        if device.type == "cpu":
            raise ValueError(f"Expected a non cpu device, but got: {device}")
    if len(named) != 1:
        raise RuntimeError(f"DataParallel: {len(named)} devices were named, and there is one")
    return named[0]


def scatter(inputs: Any, target_gpus: Sequence[int | str | torch.device], dim: int = 0) -> Any:
    """Move the tensors of a structure to the only device.

    Args:
        inputs: Tensors, tuples, lists and dictionaries of them, and other objects, which stay as they are.
        target_gpus: The device, in a sequence.
        dim: Not used: tensors are not divided.

    Returns:
        A sequence of one structure.

    Raises:
        RuntimeError: There is not exactly one device.
        ValueError: The device is `cpu`.
    """
    device = the_device(target_gpus)

    def moved(x):
        if isinstance(x, torch.Tensor):
            return x.to(device)
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return type(x)(*map(moved, x))
        if isinstance(x, (tuple, list)):
            return type(x)(map(moved, x))
        if isinstance(x, dict):
            return type(x)((k, moved(v)) for k, v in x.items())
        return x

    x = moved(inputs)
    return (x,) if isinstance(inputs, torch.Tensor) else [x]


def scatter_kwargs(
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    target_gpus: Sequence[int | str | torch.device],
    dim: int = 0,
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Move the tensors of arguments and keyword arguments to the only device.

    Args:
        inputs: The arguments.
        kwargs: The keyword arguments.
        target_gpus: The device, in a sequence.
        dim: Not used.

    Returns:
        A tuple of one tuple of arguments, and a tuple of one dictionary.

    Raises:
        RuntimeError: There is not exactly one device.
        ValueError: The device is `cpu`.
    """
    return tuple(scatter(tuple(inputs), target_gpus, dim)), tuple(scatter(dict(kwargs or {}), target_gpus, dim))


def gather(outputs: Any, target_device: int | str | torch.device, dim: int = 0) -> Any:
    """Join the outputs of several calls on one device.

    Args:
        outputs: Structures of the same kind. Their tensors are not on `cpu`.
        target_device: Device of the result. -1 means the host.
        dim: Dimension to join along. Scalars become vectors.

    Returns:
        One structure.

    Raises:
        AssertionError: A tensor is on `cpu`.
        ValueError: Dictionaries have different numbers of keys.
    """
    target = torch.device("cpu" if target_device == -1 else target_device)

    def joined(outs):
        first = outs[0]
        if isinstance(first, torch.Tensor):
            if any(x.is_cpu for x in outs):
                raise AssertionError("Gather function not implemented for CPU tensors")
            return torch.cat([(x.reshape(1) if x.dim() == 0 else x).to(target) for x in outs], dim)
        if first is None:
            return None
        if isinstance(first, dict):
            if any(len(x) != len(first) for x in outs):
                raise ValueError("All dicts must have the same number of keys")
            return type(first)((k, joined([x[k] for x in outs])) for k in first)
        if isinstance(first, tuple) and hasattr(first, "_fields"):
            return type(first)(*map(joined, zip(*outs)))
        return type(first)(map(joined, zip(*outs)))

    return joined(list(outputs))


def replicate(network: Module, devices: Sequence[int | str | torch.device], detach: bool = False) -> list[Module]:
    """Return a copy of a module that has the same parameters and buffers, for the only device.

    Args:
        network: The module, on that device.
        devices: The device, in a sequence.
        detach: Whether to detach the parameters of the copy.

    Returns:
        A list of one module.

    Raises:
        AssertionError: The module is on `cpu`.
        RuntimeError: There is not exactly one device, or the module is on another one.
        ValueError: The device is `cpu`.
    """
    device = the_device(devices)
    for tensor in (*network.parameters(), *network.buffers()):
        if tensor.is_cpu:
            raise AssertionError("Broadcast function not implemented for CPU tensors")
        if tensor.device.type != device.type:
            raise RuntimeError(f"the module is on {tensor.device}, not on {device}")
    return [_replica(network, detach, {})]


def _replica(module, detach, made):
    if module not in made:
        new = made[module] = module._replicate_for_data_parallel()
        for name, child in module._modules.items():
            new._modules[name] = None if child is None else _replica(child, detach, made)
        for name, p in module._parameters.items():
            new._parameters[name] = p.detach() if detach and p is not None else p
    return made[module]


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[int | str | torch.device] | None = None,
) -> list[Any]:
    """Call each module with its own arguments, one after the other.

    Args:
        modules: The modules.
        inputs: A tuple or list of arguments for each module, or its only argument.
        kwargs_tup: Keyword arguments for each module. `None` means none.
        devices: A device for each module. Not used.

    Returns:
        The results, in order.

    Raises:
        AssertionError: The numbers differ.

    Example:
        >>> import pytpu as torch
        >>> net = torch.nn.Linear(2, 3)
        >>> [y.shape for y in torch.nn.parallel.parallel_apply([net], [torch.ones(1, 2)])]
        [torch.Size([1, 3])]
    """
    if len(modules) != len(inputs):
        raise AssertionError(f"The number of modules {len(modules)} is not equal to the number of inputs {len(inputs)}")
    kwargs_tup = ({},) * len(modules) if kwargs_tup is None else kwargs_tup
    if len(modules) != len(kwargs_tup):
        raise AssertionError(
            f"The number of modules {len(modules)} is not equal to the number of kwargs {len(kwargs_tup)}"
        )
    if devices is not None and len(modules) != len(devices):
        raise AssertionError(
            f"The number of modules {len(modules)} is not equal to the number of devices {len(devices)}"
        )
    return [
        module(*(args if isinstance(args, (tuple, list)) else (args,)), **kwargs)
        for module, args, kwargs in zip(modules, inputs, kwargs_tup)
    ]


__all__ = ["gather", "parallel_apply", "replicate", "scatter", "scatter_kwargs"]
