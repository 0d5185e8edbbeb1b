"""Parametrized tensors, and normalised or orthogonal weights, against numbers of PyTorch."""

import copy
import gc
import math
import pickle
import warnings

import pytest

import pytpu as torch
from pytpu import nn
from pytpu.nn.utils import parametrizations, parametrize


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)


class Exp(nn.Module):
    def forward(self, x):
        return x.exp()

    def right_inverse(self, x):
        return x.log()


class Halves(nn.Module):
    def forward(self, a, b):
        return a + b

    def right_inverse(self, x):
        return x * 0.5, x * 0.5


class Returns(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, x):
        return self.value(x)


def test_a_parametrized_weight_is_computed_from_its_original(device):
    layer = nn.Linear(3, 3, device=device)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    weight = layer.weight
    assert parametrize.register_parametrization(layer, "weight", Symmetric()) is layer
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, nn.Linear)
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    # The optimiser updates the original, from which the weight is computed.
    assert layer.parametrizations.weight.original is weight
    before = weight.detach().clone()
    layer(torch.ones(2, 3, device=device)).sum().backward()
    optimizer.step()
    assert torch.equal(layer.weight, layer.weight.T) and not torch.equal(before, weight)
    assert parametrize.is_parametrized(layer, "weight") and not parametrize.is_parametrized(layer, "bias")
    with pytest.raises(RuntimeError, match="parametrization Symmetric does not implement right_inverse"):
        layer.weight = torch.ones(3, 3, device=device)
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert type(layer) is nn.Linear and layer.weight is weight and not torch.equal(weight, weight.T)


def test_assignments_go_through_the_inverse(device):
    layer = nn.Linear(2, 2, device=device)
    parametrize.register_parametrization(layer, "weight", nn.Identity())
    layer.parametrizations.weight.original.data.abs_()
    parametrize.remove_parametrizations(layer, "weight")
    value = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Exp())
    assert torch.allclose(layer.weight, value)
    layer.weight = torch.full((2, 2), 2.0, device=device)
    assert torch.allclose(layer.parametrizations.weight.original, torch.tensor(2.0).log().to(device))
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert len(layer.parametrizations.weight) == 2
    assert torch.allclose(layer.weight, torch.full((2, 2), 2.0, device=device))


def test_several_originals_copies_and_pickles(device):
    layer = nn.Linear(2, 2, device=device)
    parametrize.register_parametrization(layer, "weight", Halves())
    assert list(layer.state_dict()) == ["bias", *(f"parametrizations.weight.original{i}" for i in range(2))]
    twin = copy.deepcopy(layer)
    assert torch.equal(twin.weight, layer.weight)
    with pytest.raises(ValueError, match="parametrized in terms of a sequence of tensors"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter) and layer.weight.requires_grad
    assert parametrize.is_parametrized(twin, "weight") and torch.equal(twin.weight, layer.weight)
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(twin)
    with parametrize.cached():
        assert twin.weight is twin.weight
    assert twin.weight is not twin.weight
    other = parametrize.transfer_parametrizations_and_params(twin, nn.Linear(2, 2, device=device))
    assert torch.equal(other.weight, twin.weight)
    # Both layers share the parametrization and its original tensor.
    mine, theirs = other.parametrizations.weight, twin.parametrizations.weight
    assert mine is not theirs and mine[0] is theirs[0] and mine.original0 is theirs.original0


def test_unsuitable_parametrizations_are_refused_and_change_nothing():
    layer = nn.Linear(3, 3)
    for value, text in [
        (lambda x: x[:1], r"unparametrized shape: torch.Size\(\[3, 3\]\)\nparametrized shape: torch.Size\(\[1, 3\]\)"),
        (lambda x: x.double(), "parametrized dtype: torch.float64"),
        (lambda x: 3, "A parametrization must return a tensor. Got int."),
    ]:
        with pytest.raises(ValueError, match=text):
            parametrize.register_parametrization(layer, "weight", Returns(value))
        assert type(layer) is nn.Linear and list(layer.state_dict()) == ["weight", "bias"]

    class Longer(Returns):
        def right_inverse(self, x):
            return x * 2

    before = layer.weight.detach().clone()
    with pytest.raises(ValueError, match="may not change the shape"):
        parametrize.register_parametrization(layer, "weight", Longer(lambda x: x[:1]))
    assert torch.equal(layer.weight, before)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    with pytest.raises(ValueError, match="parametrization\\(module.weight\\).shape: torch.Size\\(\\[1, 3\\]\\)"):
        parametrize.register_parametrization(layer, "weight", Returns(lambda x: x[:1]))
    with pytest.raises(
        ValueError, match="does not have a parameter, a buffer, or a parametrized element with name 'w'"
    ):
        parametrize.register_parametrization(layer, "w", Symmetric())
    with pytest.raises(ValueError, match="does not have a parametrization on bias"):
        parametrize.remove_parametrizations(layer, "bias")
    parametrize.register_parametrization(layer, "bias", Returns(lambda x: x[:1]), unsafe=True)
    assert layer.bias.shape == (1,)


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize(
    "normalise, expected",
    [
        (lambda m: parametrizations.weight_norm(m), [1.30229, 0.66018, 0.16033, 0.16400]),
        (lambda m: parametrizations.weight_norm(m, dim=None), [1.30229, 0.63464, 0.10077, -0.01126]),
        (lambda m: parametrizations.spectral_norm(m), [2.62905, 1.16283, 0.39580, 0.07223]),
        (lambda m: nn.utils.weight_norm(m), [1.30229, 0.66018, 0.16033, 0.16400]),
        (lambda m: nn.utils.weight_norm(m, dim=1), [1.30229, 0.64796, 0.11037, 0.04647]),
        (lambda m: nn.utils.spectral_norm(m), [4.14871, 0.30303, 0.11457, -0.01642]),
    ],
)
def test_training_with_normalised_weights(normalise, expected, device):
    torch.manual_seed(1)
    model = normalise(nn.Conv1d(2, 3, 2))
    x = torch.randn(1, 2, 4).to(device)
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for _ in range(3):
        loss = model(x).pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    losses.append(model(x).sum().item())
    assert losses == pytest.approx(expected, abs=2e-5)


def test_hooks_are_removed_and_not_doubled():
    with pytest.warns(FutureWarning, match="is deprecated in favor of"):
        layer = nn.utils.weight_norm(nn.Linear(2, 3))
    assert list(layer.state_dict()) == ["bias", "weight_g", "weight_v"] and layer.weight_g.shape == (3, 1)
    weight = layer.weight.detach().clone()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="two weight_norm hooks on the same parameter weight"):
            nn.utils.weight_norm(layer)
    newer = parametrizations.weight_norm(nn.Linear(2, 3))
    newer.load_state_dict(layer.state_dict())
    assert torch.allclose(newer.weight, weight)
    nn.utils.remove_weight_norm(layer)
    assert isinstance(layer.weight, nn.Parameter) and torch.allclose(layer.weight, weight)
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found in Linear"):
        nn.utils.remove_weight_norm(layer)
    nn.utils.spectral_norm(layer)
    assert list(layer.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    with pytest.raises(RuntimeError, match="two spectral_norm hooks on the same parameter weight"):
        nn.utils.spectral_norm(layer)
    for _ in range(30):
        layer(torch.ones(1, 2))
    nn.utils.remove_spectral_norm(layer)
    assert list(layer.state_dict()) == ["bias", "weight"]
    # The largest eigenvalue of W^T W is the square of the largest singular value, which is one.
    (a, b), (_, d) = (layer.weight.detach().T @ layer.weight.detach()).tolist()
    assert ((a + d) / 2 + (((a - d) / 2) ** 2 + b * b) ** 0.5) == pytest.approx(1, abs=1e-4)


def test_spectral_norm_reads_checkpoints_of_older_versions(device):
    layer = nn.utils.spectral_norm(nn.Linear(3, 2)).to(device)
    layer(torch.ones(1, 3, device=device))
    layer.eval()
    want = layer(torch.ones(1, 3, device=device))
    saved = layer.state_dict()
    assert saved._metadata[""] == {"version": 1, "spectral_norm": {"weight.version": 1}}
    # Version 1 without metadata, and version 0, which has `weight` and no `v`.
    first = dict(saved)
    zeroth = {"weight": layer.weight.detach().clone(), **saved}
    del zeroth["weight_v"]
    for state in (first, zeroth):
        other = nn.utils.spectral_norm(nn.Linear(3, 2)).to(device).eval()
        other.load_state_dict(state)
        assert torch.allclose(other(torch.ones(1, 3, device=device)), want)
        assert torch.allclose(other.weight_v, layer.weight_v, atol=1e-5)
    del zeroth["weight_orig"]
    with pytest.raises(RuntimeError, match='Missing key.s. in state_dict: "weight_orig"'):
        other.load_state_dict(zeroth)


def test_a_removed_spectral_norm_leaves_nothing_behind():
    layer = nn.utils.spectral_norm(nn.utils.spectral_norm(nn.Linear(3, 2)), "bias")
    nn.utils.remove_spectral_norm(layer, "bias")
    assert layer.state_dict()._metadata[""]["spectral_norm"] == {"weight.version": 1}
    nn.utils.remove_spectral_norm(layer)
    assert list(layer.state_dict()._metadata[""]) == ["version"]
    layer.load_state_dict({"weight": torch.ones(2, 3), "bias": torch.zeros(2)})
    assert layer.weight.tolist() == torch.ones(2, 3).tolist()


def test_weight_norm_of_empty_tensors():
    with (
        pytest.warns(FutureWarning),
        pytest.raises(
            TypeError, match=r"norm_except_dim\(\): argument 'v' \(position 1\) must be Tensor, not NoneType"
        ),
    ):
        nn.utils.weight_norm(nn.Linear(2, 3, bias=False), "bias")


def test_spectral_norm_of_other_layers():
    torch.manual_seed(2)
    layer = parametrizations.spectral_norm(nn.ConvTranspose2d(2, 3, 2))
    assert layer.weight.flatten()[:5].tolist() == pytest.approx([0.1401, -0.1453, 0.1675, -0.0312, 0.2609], abs=1e-4)
    bias = parametrizations.spectral_norm(nn.Linear(2, 4), name="bias").bias
    assert bias.norm().item() == pytest.approx(1)
    with pytest.raises(ValueError, match="Expected n_power_iterations to be positive, but got n_power_iterations=0"):
        parametrizations.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)
    with pytest.raises(ValueError, match="has no parameter or buffer with name 'w'"):
        parametrizations.spectral_norm(nn.Linear(2, 2), name="w")


def unit(m):
    """Return how far the columns (or the rows, if they are fewer) are from orthonormal."""
    m = m.detach() if m.size(-2) >= m.size(-1) else m.detach().mT
    return (m.mH @ m - torch.eye(m.size(-1), device=m.device)).abs().max().item()


def original(layer, value):
    layer.parametrizations.weight.original.data.copy_(torch.tensor(value))


def test_maps_of_small_matrices(device):
    layer = nn.Linear(2, 2, bias=False, device=device)
    for name, angle in (("matrix_exp", 0.6), ("cayley", 2 * math.atan(0.3))):
        turned = parametrizations.orthogonal(copy.deepcopy(layer), orthogonal_map=name, use_trivialization=False)
        # Only elements below the diagonal are used for real matrices.
        original(turned, [[3.0, 5], [0.6, -2]])
        cos, sin = math.cos(angle), math.sin(angle)
        assert turned.weight.flatten().tolist() == pytest.approx([cos, -sin, sin, cos], abs=1e-6)
    layer = nn.Linear(1, 3, bias=False, device=device)
    parametrizations.orthogonal(layer, use_trivialization=False)
    # The Householder reflection at (1, 2, -2) maps the first axis to (7, -4, 4) / 9.
    original(layer, [[-1.0], [2], [-2]])
    assert layer.weight.flatten().tolist() == pytest.approx([-7 / 9, 4 / 9, -4 / 9], abs=1e-6)


@pytest.mark.parametrize("name", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 9), (2, 4, 3), (1, 1)])
def test_weights_stay_orthogonal(name, shape, device):
    module = nn.Module()
    module.weight = nn.Parameter(torch.randn(*shape, device=device))
    before = module.weight.detach().clone()
    assert parametrizations.orthogonal(module, orthogonal_map=name) is module
    assert list(module.state_dict()) == ["parametrizations.weight.original", "parametrizations.weight.0.base"]
    start, n = module.weight.detach(), max(shape[-2:])
    assert module.parametrizations.weight[0].base.shape == (*shape[:-2], n, n) and unit(start) < 1e-5
    # The start is Q of the old weight's QR decomposition: R is triangular with a positive diagonal.
    r = start.mT @ before if shape[-2] >= shape[-1] else start @ before.mT
    assert (r.diagonal(dim1=-2, dim2=-1) > 0).all() and r.tril(-1).abs().max().item() < 1e-5
    # Householder reflections need the diagonal unchanged.
    apart = 1 - torch.eye(*shape[-2:], device=device)
    module.parametrizations.weight.original.data.add_(torch.randn(*shape, device=device) * apart)
    assert unit(module.weight) < 1e-5
    moved = module.weight.detach()
    assert shape == (1, 1) or (moved - start).abs().max().item() > 0.1
    module.weight = moved * 3
    assert torch.allclose(module.weight, moved, atol=1e-5)
    twin = copy.deepcopy(module)
    module.weight = start
    twin.load_state_dict(module.state_dict())
    assert torch.allclose(twin.weight, start, atol=1e-5)
    parametrize.remove_parametrizations(module, "weight")
    assert list(module.state_dict()) == ["weight"] and torch.equal(module.weight, twin.weight)


@pytest.mark.parametrize("name", ["matrix_exp", "cayley", "householder"])
def test_gradients_of_orthogonal_weights(name, device):
    module = nn.Module()
    module.weight = nn.Parameter(torch.randn(4, 3, dtype=torch.float64, device=device))
    parametrizations.orthogonal(module, orthogonal_map=name)
    map = module.parametrizations.weight[0]
    on_diagonal = module.parametrizations.weight.original.detach()
    x = torch.randn(4, 3, dtype=torch.float64, device=device, requires_grad=True)

    def weight(x):
        return map(on_diagonal + x.tril(-1))

    assert torch.autograd.gradcheck(weight, (x,))
    if device == "cpu":
        assert torch.autograd.gradgradcheck(weight, (x,))


@pytest.mark.parametrize(
    "name, shape, expected",
    [
        ("matrix_exp", (3, 3), [18.00929, 2.52209, 2.59974, 2.67297]),
        ("matrix_exp", (4, 2), [7.45647, 3.6195, 3.59368, 3.59274]),
        ("cayley", (3, 3), [5.69447, 2.75607, 1.63436, 1.5946]),
        ("cayley", (4, 2), [7.45647, 3.70337, 3.60527, 3.59486]),
        ("householder", (3, 3), [5.69447, 10.78496, 8.70368, 8.94568]),
        ("householder", (4, 2), [7.45647, 9.349, 6.17617, 4.57347]),
    ],
)
def test_training_with_orthogonal_weights(name, shape, expected, device):
    layers = {}
    torch.manual_seed(3)
    # Draw in the order of the script that recorded PyTorch's numbers.
    for other in ("matrix_exp", "cayley", "householder"):
        for sizes in ((3, 3), (4, 2)):
            layer = layers[other, sizes] = nn.Linear(sizes[1], sizes[0], bias=False)
            torch.manual_seed(5)
            parametrizations.orthogonal(layer, orthogonal_map=other, use_trivialization=other != "householder")
    layer = layers[name, shape].to(device)
    x = (torch.arange(shape[1] * 2.0).reshape(2, -1) / 3).to(device)
    optimizer = torch.optim.SGD(layer.parameters(), 0.2)
    losses = []
    for _ in range(4):
        loss = (layer(x) - 1).pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", ["matrix_exp", "cayley"])
def test_unitary_and_far_weights(name, device):
    module = nn.Module()
    module.weight = nn.Parameter(torch.randn(4, 3, dtype=torch.complex64, device=device))
    parametrizations.orthogonal(module, orthogonal_map=name)
    module.parametrizations.weight.original.data.mul_(0.5 + 1j)
    assert module.weight.is_complex() and unit(module.weight) < 1e-5
    real = parametrizations.orthogonal(nn.Linear(6, 6, device=device), orthogonal_map=name)
    original(real, (torch.randn(6, 6) * 1000).tolist())
    # Angles in the thousands lose their last digits.
    assert unit(real.weight) < 2e-2
    original(real, [[math.nan] * 6] * 6)
    assert real.weight.isnan().all()


def test_weights_without_an_orthogonal_map_are_refused():
    for layer, options, text in [
        (nn.Linear(2, 3), {"name": "w"}, "has no parameter or buffer with name 'w'"),
        (nn.Linear(2, 3), {"name": "bias"}, "Expected a matrix or batch of matrices. Got a tensor of 1 dimensions."),
        (
            nn.Linear(2, 3),
            {"orthogonal_map": "exp"},
            'has to be one of "matrix_exp", "cayley", "householder". Got: exp',
        ),
        (nn.Linear(2, 2, dtype=torch.complex64), {"orthogonal_map": "householder"}, "does not support complex tensors"),
    ]:
        with pytest.raises(ValueError, match=text):
            parametrizations.orthogonal(layer, **options)
        assert not parametrize.is_parametrized(layer)
    layer = parametrizations.orthogonal(nn.Linear(2, 2), use_trivialization=False)
    with pytest.raises(NotImplementedError, match="not possible to assign to the matrix exponential or the Cayley"):
        layer.weight = torch.eye(2)
    layer = parametrizations.orthogonal(nn.Linear(2, 2))
    with pytest.raises(
        ValueError, match=r"matrices of shape torch.Size\(\[2, 2\]\). Got a tensor of shape torch.Size\(\[3\]\)"
    ):
        layer.weight = torch.ones(3)


def test_the_dimension_of_a_weight_norm_may_be_counted_from_the_end(device):
    kinds = (parametrizations.weight_norm, "parametrizations.weight.original0"), (nn.utils.weight_norm, "weight_g")
    for make, size in kinds:
        m = make(nn.Conv2d(2, 3, 2).to(device), dim=-2)
        assert m.state_dict()[size].shape == (1, 1, 2, 1)
        with pytest.raises(
            IndexError, match=r"Dimension out of range \(expected to be in range of \[-4, 3\], but got 4\)"
        ):
            make(nn.Conv2d(2, 3, 2), dim=4)


def test_cached_weights_are_not_used_for_another_module():
    class Double(nn.Module):
        def forward(self, x):
            return x * 2

    with nn.utils.parametrize.cached():
        for k in range(50):
            m = nn.Linear(3, 3)
            with torch.no_grad():
                m.weight.fill_(float(k))
            nn.utils.parametrize.register_parametrization(m, "weight", Double())
            assert m.weight[0, 0].item() == 2 * k
            del m
            gc.collect()
