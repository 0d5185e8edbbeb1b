"""The parts that `DataParallel` is made of in PyTorch, for the one accelerator that there is.

Devices are given by number or by name; more than one raise `RuntimeError`.
"""

import pytpu as torch


def the_device(devices):
    """The one device of several that were named."""
    devices = [torch.device("tpu", d) if isinstance(d, int) else torch.device(d) for d in devices]
    for device in devices:
        if device.type == "cpu":
            raise ValueError(f"Expected a non cpu device, but got: {device}")
    if len(devices) != 1:
        raise RuntimeError(f"DataParallel: {len(devices)} devices were named, and there is one")
    return devices[0]


def scatter(inputs, target_gpus, dim=0):
    """Structures of tensors for each device: one, with the tensors whole and on that device."""
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


def scatter_kwargs(inputs, kwargs, target_gpus, dim=0):
    """`scatter` of positional and of keyword arguments."""
    return tuple(scatter(tuple(inputs), target_gpus, dim)), tuple(scatter(dict(kwargs or {}), target_gpus, dim))


def gather(outputs, target_device, dim=0):
    """The outputs of several calls as one, on a device (-1 is the host): tensors are joined along `dim`, numbers of them made vectors."""
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


def replicate(network, devices, detach=False):
    """A copy of a module for each device: one, with the very parameters and buffers (detached, if asked)."""
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


def parallel_apply(modules, inputs, kwargs_tup=None, devices=None):
    """Calls each module with its inputs; their outputs in order."""
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
