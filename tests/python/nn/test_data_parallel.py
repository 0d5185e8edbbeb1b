"""`torch.nn.parallel` with one device."""

import pytest

import pytpu as torch
from pytpu import nn


def test_wrappers_of_several_devices_are_refused():
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="2 devices were named"):
        nn.DataParallel(nn.Linear(2, 2), device_ids=[0, 1])


def test_parts_of_data_parallel_for_the_one_device():
    from pytpu.nn.parallel import gather, parallel_apply, replicate, scatter

    x = torch.arange(6.0).view(3, 2)
    (args,) = scatter((x, {"n": [x, 3]}), [0])
    assert args[0].device.type == args[1]["n"][0].device.type == "tpu" and args[1]["n"][1] == 3
    model = nn.Sequential(nn.Linear(2, 1)).to("tpu")
    (replica,) = replicate(model, [0])
    assert replica is not model and replica[0] is not model[0] and replica[0].weight is model[0].weight
    outputs = parallel_apply([replica, replica], [(args[0],), args[0]])
    y = gather(outputs, "cpu")
    assert y.shape == (6, 1) and y.device.type == "cpu" and torch.equal(y[:3], model(args[0]).cpu())
    assert gather([(outputs[0], None)], -1)[0].device.type == "cpu"
    with pytest.raises(RuntimeError, match="2 devices were named"):
        scatter(x, [0, 1])
    with pytest.raises(AssertionError, match="Gather function not implemented for CPU tensors"):
        gather([x, x], "cpu")
    with pytest.raises(AssertionError, match="Broadcast function not implemented for CPU tensors"):
        replicate(nn.Linear(2, 1), [0])
    with pytest.raises(AssertionError, match="number of modules 2 is not equal to the number of inputs 1"):
        parallel_apply([model, model], [x])
