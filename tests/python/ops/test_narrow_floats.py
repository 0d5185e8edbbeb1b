"""Large and tiny values in narrow dtypes: squares, products and sums neither overflow nor vanish on the way."""

import importlib.util
import json
import math
import pathlib
import warnings

import pytest

import pytpu as torch

GOLDENS = pathlib.Path(__file__).parents[1] / "goldens"
RECORDED = json.loads((GOLDENS / "narrow_floats.json").read_text())
_spec = importlib.util.spec_from_file_location("record_narrow_floats", GOLDENS / "record_narrow_floats.py")
record = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(record)

# Errors are compared with the largest element. Functions of several calls round after each of them.
TOLERANCE = {"float16": 6e-3, "bfloat16": 4e-2, "float32": 3e-6}

# First and second derivatives of functions of `[0.6, 1.7, 2.9]`, by PyTorch.
RECORDED_NUMBERS = [
    [
        0.3936355069002876,
        0.6625872909756857,
        0.865401492226464,
        0.2303576001312357,
        0.03047215919888602,
        -0.06552318300580967,
    ],
    [
        0.2618664460700869,
        -0.02656448851864637,
        -0.03860697833115632,
        -0.1499115700439702,
        -0.02127332197346569,
        -0.02433909994448635,
    ],
    [0.4521436984966689, 0.9373134568776655, 0.0, 0.2916670648322106, -0.1029413169996037, 0.0],
    [
        0.7710768252235132,
        0.5407370484488425,
        0.4423833242753221,
        -0.1519406519734214,
        -0.2421919905765722,
        -0.1667754817275727,
    ],
]


def run_all(dtype, scale, device):
    results = {}
    functions = record.cases(torch)
    for name in record.names(torch, scale):
        function = functions[name]
        values = [record.A, record.B, record.C][: record.operand_count(name, function)]
        results[name] = record.run(torch, function, values, dtype, scale, device=device)
    return results


def find_errors(results, dtype, scale):
    most, least = torch.finfo(getattr(torch, dtype)).max, torch.finfo(getattr(torch, dtype)).tiny
    wrong = []
    for name, tensors in results.items():
        for i, (got, want) in enumerate(zip(tensors, RECORDED[f"{name}/{dtype}/{scale:g}"], strict=True)):
            if got is None:
                assert not want
                continue
            # Infinite numbers, and those that the dtype does not hold, are not compared.
            pairs = [
                (a, b)
                for a, b in zip(got.detach().double().flatten().tolist(), want, strict=True)
                if b is not None and abs(b) < 0.99 * most
            ]
            largest = max((abs(b) for _, b in pairs), default=0)
            if largest < 4 * least:
                continue
            error = max(abs(a - b) / largest if math.isfinite(a) else math.inf for a, b in pairs)
            if error > TOLERANCE[dtype]:
                wrong.append(f"{name}: {'result' if i == 0 else f'gradient {i}'}: error {error:.2g}")
    return wrong


@pytest.mark.parametrize(("dtype", "scale"), [(d, s) for d, scales in record.SCALES.items() for s in scales])
def test_large_and_tiny_values_on_cpu(dtype, scale):
    assert find_errors(run_all(dtype, scale, "cpu"), dtype, scale) == []


def test_large_values_on_a_device():
    # All functions are one program.
    dtype, scale = "float16", 600.0
    results = run_all(dtype, scale, "tpu")
    results = {name: [None if t is None else t.cpu() for t in tensors] for name, tensors in results.items()}
    assert find_errors(results, dtype, scale) == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_long_sums_round_once(device, dtype):
    n = 70_000
    alternating = (torch.arange(n, device=device) % 2 * 6 - 3).to(dtype)
    ones, zeros = torch.ones(4000, dtype=dtype, device=device), torch.zeros(4000, dtype=torch.long, device=device)
    two = torch.zeros(2, dtype=dtype, device=device)
    rows = torch.zeros(3, 2, dtype=dtype, device=device)
    few = torch.tensor([256.0, 0.0] + [0.0] * 98, dtype=dtype, device=device)
    thousand = torch.tensor(4000.0).to(dtype).item()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = {
            "std": (alternating.std(), 3.0),
            "var": (alternating.var(), 9.0),
            "std of columns": (alternating.view(-1, 2).transpose(0, 1).reshape(-1, 2).std(0)[0], 3.0),
            "mean of std_mean": (torch.std_mean(alternating + 3)[1], 3.0),
            "logsumexp": (torch.zeros(n, dtype=dtype, device=device).logsumexp(0), math.log(n)),
            "scatter_add": (two.scatter_add(0, zeros, ones)[0], thousand),
            "scatter_add_": (two.clone().scatter_add_(0, zeros, ones)[0], thousand),
            "scatter of few": (few.scatter_add(0, zeros[:3], ones[:3])[0], torch.tensor(259.0).to(dtype).item()),
            "scatter with add": (two.scatter(0, zeros, ones, reduce="add")[0], thousand),
            "scatter with multiply": (
                (two + 1).scatter(0, zeros[:100], ones[:100] * 1.0078125, reduce="multiply")[0],
                1.0078125**100,
            ),
            "sum": (two.scatter_reduce(0, zeros, ones, "sum")[0], thousand),
            "mean": (two.scatter_reduce(0, zeros, ones, "mean", include_self=False)[0], 1.0),
            "mean with self": (two.scatter_reduce(0, zeros, ones, "mean")[0], 4000 / 4001),
            "index_add": (two.index_add(0, zeros, ones)[0], thousand),
            "index_add of rows": (rows.index_add(0, zeros, ones[:, None].expand(-1, 2))[0, 0], thousand),
            "index_add_ with alpha": (two.clone().index_add_(0, zeros, ones, alpha=0.5)[0], 2000.0),
            "index_reduce": (two.index_reduce(0, zeros, ones, "mean", include_self=False)[0], 1.0),
            "index_put": (two.index_put((zeros,), ones, accumulate=True)[0], thousand),
            "put": (two.put(zeros, ones, accumulate=True)[0], thousand),
        }
    for name, (got, want) in results.items():
        assert got.dtype is dtype and got.item() == pytest.approx(
            want, rel=1e-2 if dtype is torch.bfloat16 else 2e-3
        ), name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_of_elements_that_are_read_often_round_once(device, dtype):
    zeros = torch.zeros(4000, dtype=torch.long, device=device)
    falling = torch.arange(0, -4000, -1, device=device).to(dtype)
    functions = {
        "gather": lambda x: x.gather(0, zeros),
        "take_along_dim": lambda x: torch.take_along_dim(x, zeros, 0),
        "index_select": lambda x: x.index_select(0, zeros),
        "indexing": lambda x: x[zeros],
        "take": lambda x: x.take(zeros),
        "embedding": lambda x: torch.nn.functional.embedding(zeros, x[:, None]),
        "cummax": lambda x: torch.cat([x[:1], falling[1:]]).cummax(0)[0],
        "cummin": lambda x: torch.cat([x[:1], -falling[1:]]).cummin(0)[0],
    }
    want = torch.tensor(4000.0).to(dtype).item()
    for name, function in functions.items():
        x = torch.zeros(2, dtype=dtype, device=device, requires_grad=True)
        function(x).sum().backward()
        assert x.grad.dtype is dtype and x.grad.tolist() == [want, 0.0], name


def test_normalisations_of_16_bits_give_exact_gradients_to_float32_parameters(device):
    F = torch.nn.functional
    x = (torch.arange(2 * 4 * 37).reshape(2, 4, 37) * 0.37).sin().to(device)
    functions = {
        "group_norm": lambda x, w, b: F.group_norm(x, 2, w, b),
        "batch_norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        "batch_norm in evaluation": lambda x, w, b: F.batch_norm(x, b.detach(), w.detach(), w, b),
        "instance_norm": lambda x, w, b: F.instance_norm(x, None, None, w, b),
        "layer_norm": lambda x, w, b: F.layer_norm(x.transpose(1, 2), (4,), w, b),
    }
    weights = torch.linspace(-1, 2, x.numel(), device=device).reshape(x.shape)
    for name, function in functions.items():
        for dtype in (torch.bfloat16, torch.float16):
            results = []
            for data in (x.to(dtype), x.to(dtype).double()):
                w = torch.tensor([0.3, 1.1, 0.7, 1.9], device=device)
                w = (w if data.dtype is dtype else w.double()).requires_grad_()
                b = (w.detach() / 3).requires_grad_()
                y = function(data, w, b)
                y.backward(weights.reshape(y.shape).to(dtype).to(y.dtype))
                assert w.grad.dtype is w.dtype and y.dtype is data.dtype
                results.append((w.grad.double(), b.grad.double()))
            for got, want in zip(*results, strict=True):
                assert (got - want).abs().max() <= 2e-5 * want.abs().max(), (name, dtype)


def test_numbers_keep_their_precision_in_gradients_of_float64(device):
    def gradients(function):
        x = torch.tensor([0.6, 1.7, 2.9], dtype=torch.float64, device=device, requires_grad=True)
        (g,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        return [*g.tolist(), *h.tolist()]

    values = [0.6, 1.7, 2.9]
    for p in (1.7, 0.1, -0.3, 1 / 3, 3, -1):
        want = [p * v ** (p - 1) for v in values] + [p * (p - 1) * v ** (p - 2) for v in values]
        for function in (
            lambda x, p=p: x**p,
            lambda x, p=p: torch.pow(x, p),
            lambda x, p=p: torch.float_power(x, p),
            lambda x, p=p: (x * 1).pow_(p),
        ):
            assert gradients(function) == pytest.approx(want, rel=1e-13), p
    functions = {
        "norm": (lambda x: x.norm(1.5), RECORDED_NUMBERS[0]),
        "normalize": (lambda x: torch.nn.functional.normalize(x, 1.7, 0)[0], RECORDED_NUMBERS[1]),
        "lp_pool": (lambda x: torch.nn.functional.lp_pool1d(x[None], 1.7, 2), RECORDED_NUMBERS[2]),
        "local_response_norm": (
            lambda x: torch.nn.functional.local_response_norm(x[None, :, None], 2, alpha=0.1, beta=0.7, k=1.3),
            RECORDED_NUMBERS[3],
        ),
    }
    for name, (function, want) in functions.items():
        assert gradients(function) == pytest.approx(want, rel=1e-12, abs=1e-13), name


def test_an_exponent_beside_16_bits_keeps_its_digits_in_the_gradient(device):
    for dtype, value in ((torch.bfloat16, 1e10), (torch.bfloat16, 1e-20), (torch.float16, 2e4)):
        x = torch.tensor([value], dtype=dtype, device=device, requires_grad=True)
        (x**1.1).backward() if value < 1e5 else (x**0.7).backward()
        p = 1.1 if value < 1e5 else 0.7
        assert x.grad.item() == pytest.approx(p * x.item() ** (p - 1), rel=4e-3)


def test_deviations_of_float32_beyond_the_range_of_squares(device):
    for scale in (1e19, 3e30, 1e-21, 1e-30):
        x = torch.tensor([1.0, -2.0, 3.0, 4.0], dtype=torch.float64) * scale
        want = x.std().item()
        x = x.float().to(device).requires_grad_()
        y = x.std()
        y.backward()
        assert y.item() == pytest.approx(want, rel=1e-6)
        assert x.grad.tolist() == pytest.approx([-0.0629940788, -0.440958552, 0.188982236, 0.314970394], rel=1e-5)
        assert torch.std_mean(x.detach())[0].item() == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_means_of_many_losses_are_finite(device, dtype):
    F = torch.nn.functional
    n = 70_000
    x = torch.zeros(n, 2, dtype=dtype, device=device, requires_grad=True)
    target = torch.arange(n, device=device) % 2
    weight = torch.tensor([1.0, 3.0], dtype=dtype, device=device)
    soft = torch.full((n, 2), 0.5, dtype=dtype, device=device)
    losses = {
        "cross_entropy": F.cross_entropy(x, target),
        "cross_entropy with weights": F.cross_entropy(x, target, weight),
        "cross_entropy of probabilities": F.cross_entropy(x, soft),
        "nll_loss": F.nll_loss(x - 0.6931, target),
        "nll_loss with weights": F.nll_loss(x - 0.6931, target, weight),
    }
    for name, loss in losses.items():
        assert loss.dtype is dtype and loss.item() == pytest.approx(0.6931, rel=4e-3), name
    (g,) = torch.autograd.grad(F.cross_entropy(x[:100], target[:100]), x)
    assert g[0].tolist() == pytest.approx([-0.005, 0.005], rel=8e-3) and g[100:].count_nonzero().item() == 0
