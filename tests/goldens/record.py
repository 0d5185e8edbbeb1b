"""Record results of PyTorch, which the tests of both neural network libraries compare with.

Usage: `python tests/goldens/record.py`, with PyTorch installed. It writes one file for each part beside itself. Read by
`nn/tests/nn/goldens.rs` and `tests/python/nn/test_goldens.py`.

A case has the name of a class or function in PyTorch, its settings by PyTorch's names, inputs, and the results.
"""

import json
import math
import pathlib

import torch

FOLDER = pathlib.Path(__file__).parent


def tensor(x):
    """Return the shape, dtype and values of a tensor."""
    return {
        "shape": list(x.shape),
        "dtype": str(x.dtype).removeprefix("torch."),
        "values": x.detach().flatten().tolist(),
    }


def case(name, settings=None, **rest):
    return {"name": name, "settings": settings or {}, **rest}


OPTIMIZERS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.05}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {"lr": 0.1}),
    ("Adam", {"lr": 0.1, "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.1, "amsgrad": True}),
    ("AdamW", {"lr": 0.1}),
    ("AdamW", {"lr": 0.1, "betas": [0.8, 0.95], "weight_decay": 0.1, "amsgrad": True, "maximize": True}),
    ("RMSprop", {"lr": 0.1}),
    ("RMSprop", {"lr": 0.1, "alpha": 0.9, "momentum": 0.5, "centered": True, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.01, "weight_decay": 0.1, "initial_accumulator_value": 0.2}),
]


def optimizers():
    found = []
    for name, settings in OPTIMIZERS:
        torch.manual_seed(0)
        start = [torch.randn(3), torch.randn(2, 2)]
        gradients = [[torch.randn_like(p) for p in start] for _ in range(4)]
        parameters = [torch.nn.Parameter(p.clone()) for p in start]
        options = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
        optimizer = getattr(torch.optim, name)(parameters, **options)
        steps = []
        for step in gradients:
            for p, g in zip(parameters, step):
                p.grad = g.clone()
            optimizer.step()
            steps.append([tensor(p) for p in parameters])
        found.append(
            case(
                name,
                settings,
                parameters=[tensor(p) for p in start],
                gradients=[[tensor(g) for g in step] for step in gradients],
                steps=steps,
            )
        )
    return found


SCHEDULES = [
    ("StepLR", {"step_size": 2, "gamma": 0.5}),
    ("MultiStepLR", {"milestones": [2, 5], "gamma": 0.1}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("LinearLR", {"start_factor": 0.25, "end_factor": 0.75, "total_iters": 4}),
    ("ConstantLR", {"factor": 0.5, "total_iters": 3}),
    ("PolynomialLR", {"total_iters": 4, "power": 2.0}),
    ("CosineAnnealingLR", {"T_max": 5, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 2, "T_mult": 2, "eta_min": 0.01}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 2, "step_size_down": 3, "cycle_momentum": False}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 3, "mode": "triangular2"}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 3, "mode": "exp_range", "gamma": 0.9}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 9}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 9, "anneal_strategy": "linear", "three_phase": True}),
]


def schedules():
    found = []
    for name, settings in SCHEDULES:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1, momentum=0.9)
        schedule = getattr(torch.optim.lr_scheduler, name)(optimizer, **settings)
        rates, momenta = [], []
        for step in range(9):
            if step:
                optimizer.step()
                schedule.step()
            rates.append(optimizer.param_groups[0]["lr"])
            momenta.append(optimizer.param_groups[0]["momentum"])
        found.append(case(name, settings, lr=0.1, momentum=0.9, rates=rates, momenta=momenta))
    return found


def samplers():
    data = torch.utils.data
    recorded = [
        (case("SequentialSampler", {"count": 5}), lambda: data.SequentialSampler(range(5))),
        (case("RandomSampler", {"count": 10}), lambda: data.RandomSampler(range(10))),
        (
            case("RandomSampler", {"count": 10, "replacement": True, "num_samples": 40}),
            lambda: data.RandomSampler(range(10), replacement=True, num_samples=40),
        ),
        (
            case("RandomSampler", {"count": 5, "num_samples": 12}),
            lambda: data.RandomSampler(range(5), num_samples=12),
        ),
        (
            case("SubsetRandomSampler", {"indices": [3, 1, 4, 1, 5, 9]}),
            lambda: data.SubsetRandomSampler([3, 1, 4, 1, 5, 9]),
        ),
        (
            case("WeightedRandomSampler", {"weights": [0.1, 0.2, 0.3, 0.4], "num_samples": 8, "replacement": True}),
            lambda: data.WeightedRandomSampler([0.1, 0.2, 0.3, 0.4], 8),
        ),
        (
            case("WeightedRandomSampler", {"weights": [0.1, 0.2, 0.3, 0.4], "num_samples": 3, "replacement": False}),
            lambda: data.WeightedRandomSampler([0.1, 0.2, 0.3, 0.4], 3, replacement=False),
        ),
    ]
    found = []
    for one, make in recorded:
        torch.manual_seed(7)
        found.append(one | {"seed": 7, "indices": list(make())})
    return found


INITS = [
    ("uniform_", {"a": -1.0, "b": 2.0}),
    ("normal_", {"mean": 1.0, "std": 0.5}),
    ("trunc_normal_", {"mean": 0.5, "std": 2.0, "a": -1.0, "b": 1.5}),
    ("constant_", {"val": 0.25}),
    ("ones_", {}),
    ("zeros_", {}),
    ("xavier_uniform_", {"gain": 2.0}),
    ("xavier_normal_", {"gain": 0.5}),
    ("kaiming_uniform_", {"a": 0.1, "mode": "fan_in", "nonlinearity": "leaky_relu"}),
    ("kaiming_uniform_", {"a": 0.0, "mode": "fan_out", "nonlinearity": "relu"}),
    ("kaiming_normal_", {"a": 0.0, "mode": "fan_out", "nonlinearity": "relu"}),
]


def inits():
    found = []
    for name, settings in INITS:
        for shape in ([4, 3], [2, 3, 2, 2]):
            x = torch.empty(shape)
            torch.manual_seed(3)
            getattr(torch.nn.init, name)(x, **settings)
            found.append(case(name, settings, seed=3, result=tensor(x)))
    return found


def losses():
    torch.manual_seed(0)
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    sign = torch.tensor([1.0, -1.0, 1.0, -1.0])
    probability, target = torch.rand(4, 3) * 0.8 + 0.1, torch.rand(4, 3)
    classes = torch.tensor([0, 2, 1, 2])
    log = torch.log_softmax(x, 1)
    recorded = [
        ("L1Loss", {}, [x, y]),
        ("MSELoss", {}, [x, y]),
        ("SmoothL1Loss", {"beta": 0.5}, [x, y]),
        ("HuberLoss", {"delta": 0.5}, [x, y]),
        ("BCELoss", {}, [probability, target]),
        ("BCEWithLogitsLoss", {}, [x, target]),
        ("KLDivLoss", {"log_target": False}, [log, torch.softmax(y, 1)]),
        ("PoissonNLLLoss", {"log_input": True, "full": True}, [x, target]),
        ("GaussianNLLLoss", {"full": True}, [x, y, probability]),
        ("SoftMarginLoss", {}, [x, y.sign()]),
        ("HingeEmbeddingLoss", {"margin": 0.5}, [x, y.sign()]),
        ("CrossEntropyLoss", {"label_smoothing": 0.1}, [x, classes]),
        ("NLLLoss", {}, [log, classes]),
        ("MultiMarginLoss", {"p": 2, "margin": 0.5}, [x, classes]),
        ("MultiLabelMarginLoss", {}, [x, torch.tensor([[0, 2, -1], [1, -1, 0], [2, 1, 0], [-1, 0, 0]])]),
        ("MultiLabelSoftMarginLoss", {}, [x, (target > 0.5).float()]),
        ("CosineEmbeddingLoss", {"margin": 0.2}, [x, y, sign]),
        ("MarginRankingLoss", {"margin": 0.2}, [x[:, 0], y[:, 0], sign]),
        ("TripletMarginLoss", {"margin": 0.5, "p": 2.0, "swap": True}, [x, y, target]),
    ]
    found = []
    for name, settings, inputs in recorded:
        for reduction in ("none", "mean", "sum"):
            first = inputs[0].clone().requires_grad_()
            loss = getattr(torch.nn, name)(**settings, reduction=reduction)(first, *inputs[1:])
            loss.sum().backward()
            found.append(
                case(
                    name,
                    settings | {"reduction": reduction},
                    inputs=[tensor(t) for t in inputs],
                    result=tensor(loss),
                    gradient=tensor(first.grad),
                )
            )
    return found


MODULES = [
    ("Linear", {"in_features": 3, "out_features": 2}, [4, 3]),
    (
        "Conv1d",
        {"in_channels": 2, "out_channels": 4, "kernel_size": 3, "stride": 2, "padding": 1, "groups": 2},
        [2, 2, 7],
    ),
    ("Conv2d", {"in_channels": 2, "out_channels": 3, "kernel_size": 2, "dilation": 2, "bias": False}, [1, 2, 4, 5]),
    ("LayerNorm", {"normalized_shape": [5]}, [2, 3, 5]),
    ("RMSNorm", {"normalized_shape": [5]}, [2, 3, 5]),
    ("GroupNorm", {"num_groups": 2, "num_channels": 4}, [2, 4, 3]),
    ("BatchNorm1d", {"num_features": 3}, [4, 3, 2]),
    ("InstanceNorm2d", {"num_features": 2}, [2, 2, 3, 3]),
    ("PReLU", {}, [2, 3]),
    ("MaxPool2d", {"kernel_size": 2}, [1, 2, 4, 5]),
    ("AvgPool2d", {"kernel_size": 2}, [1, 2, 4, 5]),
    ("LPPool2d", {"norm_type": 2.0, "kernel_size": 2}, [1, 2, 4, 4]),
    ("AdaptiveAvgPool2d", {"output_size": 3}, [1, 2, 4, 5]),
    ("PixelShuffle", {"upscale_factor": 2}, [1, 4, 2, 3]),
    ("ReflectionPad1d", {"padding": 2}, [1, 2, 4]),
]


def modules():
    found = []
    for name, settings, shape in MODULES:
        torch.manual_seed(1)
        module = getattr(torch.nn, name)(**settings)
        x = torch.randn(shape, requires_grad=True)
        y = module(x)
        y.square().sum().backward()
        found.append(
            case(
                name,
                settings,
                seed=1,
                state={k: tensor(v) for k, v in module.state_dict().items()},
                input=tensor(x),
                result=tensor(y),
                gradient=tensor(x.grad),
                parameter_gradients=[tensor(p.grad) for p in module.parameters()],
            )
        )
    return found


def finite(x):
    """Check that a record has no number that JSON cannot hold."""
    if isinstance(x, dict):
        return all(map(finite, x.values()))
    if isinstance(x, list):
        return all(map(finite, x))
    return not isinstance(x, float) or math.isfinite(x)


PARTS = {
    "optim": optimizers,
    "schedules": schedules,
    "samplers": samplers,
    "init": inits,
    "losses": losses,
    "modules": modules,
}

if __name__ == "__main__":
    for part, record in PARTS.items():
        cases = record()
        assert finite(cases), part
        lines = ",\n".join(json.dumps(c, allow_nan=False) for c in cases)
        version = torch.__version__.split("+")[0]
        (FOLDER / f"{part}.json").write_text(f'{{"torch": "{version}", "cases": [\n{lines}\n]}}\n')
        print(f"{part}: {len(cases)} cases")
