"""Splitting a module into stages without a graph."""

import pytest
from pipeline_ranks import run_ranks

import pytpu as torch
from pytpu import nn
from pytpu.distributed.pipelining import (
    Pipe,
    ScheduleGPipe,
    SplitPoint,
    build_stage,
    pipe_split,
    pipeline,
)


def model():
    inner = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    return nn.Sequential(inner, nn.ReLU(), nn.Linear(6, 3))


INNER = ["0.0.weight", "0.0.bias"]
OUTER = ["0.2.weight", "0.2.bias"]
LAST = ["2.weight", "2.bias"]


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ({}, [INNER + OUTER + LAST]),
        ({"1": SplitPoint.BEGINNING}, [INNER + OUTER, LAST]),
        ({"1": SplitPoint.END}, [INNER + OUTER, LAST]),
        ({"0.1": SplitPoint.END}, [INNER, OUTER + LAST]),
        ({"0.2": SplitPoint.BEGINNING, "2": SplitPoint.BEGINNING}, [INNER, OUTER, LAST]),
        # Nothing is before the first child or after the last one.
        ({"0": SplitPoint.BEGINNING, "2": SplitPoint.END}, [INNER + OUTER + LAST]),
    ],
)
def test_parameters_keep_their_names(spec, names):
    module = model()
    pipe = pipeline(module, (torch.zeros(1, 6),), split_spec=spec)
    assert pipe.num_stages == pipe.info().num_stages == len(names)
    stages = [pipe.get_stage_module(index) for index in range(pipe.num_stages)]
    assert [[name for name, _ in stage.named_parameters()] for stage in stages] == names
    for stage in stages:
        for name, parameter in stage.named_parameters():
            assert parameter is module.get_parameter(name)
    x = torch.randn(2, 6)
    assert torch.equal(pipe(x), module(x))
    with pytest.raises(ValueError, match="Invalid stage index 7!"):
        pipe.get_stage_module(7)


def test_stages_of_a_pipe_run():
    module = model()
    x, y = torch.randn(4, 6), torch.randn(4, 3)
    want = module(x)
    nn.functional.mse_loss(want, y).backward()
    grads = [parameter.grad for parameter in module.parameters()]
    module.zero_grad()
    pipe = pipeline(module, (x[:2],), split_spec={"1": SplitPoint.BEGINNING})

    def body(transport):
        if transport.rank == 0:
            stage = pipe.build_stage(0, torch.device("cpu"), transport)
        else:
            stage = build_stage(pipe.get_stage_module(1), 1, pipe.info(), torch.device("cpu"), transport)
        schedule = ScheduleGPipe(stage, 2, loss_fn=nn.functional.mse_loss)
        return schedule.step(x) if stage.is_first else schedule.step(target=y)

    torch.testing.assert_close(run_ranks(2, body)[1], want)
    for parameter, grad in zip(module.parameters(), grads):
        torch.testing.assert_close(parameter.grad, grad)


class Doubled(nn.Sequential):
    """A sequence that does more than run its children."""

    def forward(self, x):
        return super().forward(x) * 2


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Linear(6, 6)


@pytest.mark.parametrize(
    ("module", "name"),
    [(Doubled(nn.Linear(6, 6), nn.ReLU()), "1"), (nn.Sequential(nn.ReLU(), Attention()), "1.w"), (Attention(), "w")],
    ids=["own forward", "inside", "root"],
)
def test_what_needs_a_graph_is_refused_by_name(module, name):
    with pytest.raises(NotImplementedError, match=rf"split_spec: {name} is inside .* needs torch.export"):
        pipeline(module, (torch.zeros(1, 6),), split_spec={name: SplitPoint.BEGINNING})
    with pytest.raises(NotImplementedError, match="split_policy: needs a graph by torch.export"):
        pipeline(module, (torch.zeros(1, 6),), split_policy=lambda graph: graph)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="Cannot specify both `split_spec` and `split_policy`"):
        pipeline(model(), (), split_spec={}, split_policy=print)
    with pytest.raises(ValueError, match="there is no submodule 9"):
        pipeline(model(), (), split_spec={"9": SplitPoint.END})
    assert pipe_split() is None
    assert isinstance(pipeline(model(), ()), Pipe)
