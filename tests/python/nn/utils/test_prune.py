"""Pruned parameters. Random masks and losses of training equal PyTorch's."""

import copy
import pickle

import pytest

import pytpu as torch
from pytpu import nn
from pytpu.nn.utils import prune


@pytest.fixture
def layer(device):
    """Return a layer with weights 1 to 4, 8 to 5 and 9 to 12 in absolute value."""
    layer = nn.Linear(4, 3, device=device)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, -2, 3, -4], [8, -7, 6, -5], [9, -10, 11, -12]]))
    return layer


def only(hooks):
    (hook,) = hooks.values()
    return hook


def test_a_pruned_parameter_is_masked_trained_and_made_one_again(layer, device):
    weight = layer.weight
    assert not prune.is_pruned(layer)
    assert prune.l1_unstructured(layer, "weight", 0.25) is layer
    assert prune.is_pruned(layer) and prune.is_pruned(nn.Sequential(layer))
    assert list(layer.state_dict()) == ["bias", "weight_orig", "weight_mask"]
    assert (
        layer.weight_orig is weight and isinstance(weight, nn.Parameter) and not isinstance(layer.weight, nn.Parameter)
    )
    assert layer.weight_mask.tolist() == [[0, 0, 0, 1], [1] * 4, [1] * 4]
    assert layer.weight.tolist()[0] == [0, 0, 0, -4]
    x = torch.tensor([[1.0, 2, 3, 4]], device=device)
    layer(x).sum().backward()
    assert weight.grad.tolist() == [[0, 0, 0, 4], [1, 2, 3, 4], [1, 2, 3, 4]]
    torch.optim.SGD(layer.parameters(), 1.0).step()
    # The next forward computes the weight anew.
    assert layer.weight[0].tolist() == [0, 0, 0, -4]
    layer(x)
    assert layer.weight[0].tolist() == [0, 0, 0, -8] and weight[0].tolist() == [1, -2, 3, -8]
    assert prune.remove(layer, "weight") is layer
    assert layer.weight is weight and weight[0].tolist() == [0, 0, 0, -8]
    assert (
        list(layer.state_dict()) == ["bias", "weight"] and not layer._forward_pre_hooks and not prune.is_pruned(layer)
    )
    with pytest.raises(ValueError, match=r"Parameter 'weight' of module Linear\(.*\) has to be pruned before"):
        prune.remove(layer, "weight")


def test_pruning_methods_choose_their_elements(layer, device):
    def mask(method, *args, **kwargs):
        got = method(copy.deepcopy(layer), "weight", *args, **kwargs).weight_mask.tolist()
        return ["".join(str(int(v)) for v in row) for row in got]

    scores = torch.tensor([[5.0, 6, 7, 8], [1, 2, 3, 4], [9, 10, 11, 12]], device=device)
    assert mask(prune.identity) == ["1111", "1111", "1111"]
    assert mask(prune.l1_unstructured, 0) == ["1111", "1111", "1111"]
    assert mask(prune.l1_unstructured, 6) == ["0000", "1100", "1111"]
    assert mask(prune.l1_unstructured, 12) == mask(prune.l1_unstructured, 1.0) == ["0000", "0000", "0000"]
    assert mask(prune.l1_unstructured, 5, importance_scores=scores) == ["0111", "0000", "1111"]
    assert mask(prune.ln_structured, 1, 2, 0) == ["0000", "1111", "1111"]
    assert mask(prune.ln_structured, 0.34, 1, -2, importance_scores=scores) == ["1111", "0000", "1111"]
    # The columns' sums are 18, 19, 20, 21 and their maxima 9, 10, 11, 12. Halves are rounded to even.
    assert mask(prune.ln_structured, 0.5, 1, -1) == ["0011"] * 3
    assert mask(prune.ln_structured, 0.125, 1, 1) == ["1111"] * 3
    assert mask(prune.ln_structured, 0.375, float("inf"), 1) == ["0011"] * 3
    # The columns' minima are 1, 2, 3, 4.
    assert mask(prune.ln_structured, 3, float("-inf"), 1) == ["0001"] * 3
    assert mask(prune.custom_from_mask, (scores > 6).to(torch.int32)) == ["0011", "0000", "1111"]
    torch.manual_seed(1)
    assert mask(prune.random_structured, 1, 0) == ["1111", "0000", "1111"]
    assert mask(prune.random_structured, 0.5, -1) == ["1010"] * 3
    if device == "cpu":
        torch.manual_seed(1)
        assert mask(prune.random_unstructured, 3) == ["0111", "1010", "1111"]
    else:
        assert "".join(mask(prune.random_unstructured, 3)).count("0") == 3


def test_pruning_again_prunes_more(layer, device):
    prune.l1_unstructured(layer, "weight", 5)
    assert layer.weight_mask.tolist() == [[0] * 4, [1, 1, 1, 0], [1] * 4]
    hook = only(layer._forward_pre_hooks)
    # One of the two unpruned rows.
    prune.ln_structured(layer, "weight", 0.5, 1, 0)
    assert layer.weight_mask.tolist() == [[0] * 4, [0] * 4, [1] * 4]
    container = only(layer._forward_pre_hooks)
    prune.l1_unstructured(layer, "weight", 0.25)
    assert layer.weight_mask.tolist() == [[0] * 4, [0] * 4, [0, 1, 1, 1]]
    prune.identity(layer, "weight")
    prune.custom_from_mask(layer, "weight", torch.tensor([1, 1, 0, 1], device=device).expand(3, 4))
    assert layer.weight_mask.tolist() == [[0] * 4, [0] * 4, [0, 1, 0, 1]]
    assert only(layer._forward_pre_hooks) is container and len(container) == 5 and container[0] is hook
    assert [type(method).__name__ for method in container] == [
        "L1Unstructured",
        "LnStructured",
        "L1Unstructured",
        "Identity",
        "CustomFromMask",
    ]
    before = layer.weight_mask.clone()
    with pytest.raises(ValueError, match="amount=3 should be smaller than the number of parameters to prune=2"):
        prune.l1_unstructured(layer, "weight", 3)
    assert len(container) == 5 and only(layer._forward_pre_hooks) is container
    assert torch.equal(layer.weight_mask, before)
    prune.remove(layer, "weight")
    assert layer.weight.tolist() == [[0] * 4, [0] * 4, [0, -10, 0, -12]]


def test_several_parameters_are_pruned_as_one(layer, device):
    other = nn.Linear(2, 2, device=device)
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([2.5, -0.5, 100]))
        other.weight.copy_(torch.tensor([[0.25, -9.5], [3.5, 20]]))
    parameters = [(layer, "weight"), (layer, "bias"), (other, "weight")]

    def masks():
        return [getattr(module, f"{name}_mask").tolist() for module, name in parameters]

    # This prunes 0.25, 0.5, 1, 2, 2.5 and 3.
    prune.global_unstructured(parameters, prune.L1Unstructured, amount=6)
    assert masks() == [[[0, 0, 0, 1], [1] * 4, [1] * 4], [0, 0, 1], [[0, 1], [1, 1]]]
    # 13 are left. This prunes 4, 5, and 20 instead of 3.5 because of its score.
    prune.global_unstructured(
        iter(parameters),
        prune.L1Unstructured,
        {(other, "weight"): torch.tensor([[1.0, 8], [8, 0]], device=device)},
        amount=3 / 13,
    )
    assert masks() == [[[0, 0, 0, 0], [1, 1, 1, 0], [1] * 4], [0, 0, 1], [[0, 1], [1, 0]]]
    with pytest.raises(TypeError, match='Only "unstructured" PRUNING_TYPE supported .* of type structured'):
        prune.global_unstructured(parameters, prune.LnStructured, amount=1, n=1)
    with pytest.raises(TypeError, match="parameters is not an Iterable"):
        prune.global_unstructured(3, prune.L1Unstructured, amount=1)
    with pytest.raises(TypeError, match="importance_scores must be of type dict"):
        prune.global_unstructured(parameters, prune.L1Unstructured, [1], amount=1)


@pytest.mark.parametrize(
    "error, text, call",
    [
        (ValueError, r"amount=-1 should either be a float in the range \[0, 1\]",
         lambda m: prune.l1_unstructured(m, "weight", -1)),
        (ValueError, "amount=1.5 should either", lambda m: prune.random_structured(m, "weight", 1.5, 0)),
        (TypeError, "Invalid type for amount: x. Must be int or float",
         lambda m: prune.random_unstructured(m, "weight", "x")),
        (ValueError, "number of parameters to prune=12", lambda m: prune.random_unstructured(m, "weight", 13)),
        (ValueError, "number of parameters to prune=3", lambda m: prune.ln_structured(m, "weight", 4, 2, 0)),
        (ValueError, r"Found tensor of shape torch.Size\(\[3\]\) with 1 dims",
         lambda m: prune.ln_structured(m, "bias", 1, 2, 0)),
        (IndexError, "Invalid index 2 for tensor of size", lambda m: prune.random_structured(m, "weight", 1, 2)),
        (AttributeError, "has no attribute 'w'", lambda m: prune.identity(m, "w")),
        (AssertionError, "scores should have the same shape as parameter weight of Linear",
         lambda m: prune.l1_unstructured(m, "weight", 1, torch.ones(4, 3))),
        (AssertionError, "default_mask shape .* must match self.mask shape",
         lambda m: prune.custom_from_mask(m, "weight", torch.ones(4, 3))),
        (TypeError, "is not a BasePruningMethod subclass", lambda m: prune.PruningContainer().add_pruning_method(3)),
    ],
)  # fmt: skip
def test_invalid_pruning_changes_nothing(error, text, call):
    layer = nn.Linear(4, 3)
    for _ in range(2):
        state, hooks = list(layer.state_dict()), dict(layer._forward_pre_hooks)
        with pytest.raises(error, match=text):
            call(layer)
        assert list(layer.state_dict()) == state and layer._forward_pre_hooks == hooks
        prune.identity(layer, "bias")
        prune.remove(layer, "bias")


class Below(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def __init__(self, limit):
        self.limit = limit

    def compute_mask(self, t, default_mask):
        mask = default_mask.clone()
        mask[t.abs() < self.limit] = 0
        return mask


def test_a_user_defined_pruning_method(layer, device):
    Below.apply(layer, "weight", 6.5)
    prune.ln_structured(layer, "weight", 1, 1, 1)
    # The column sums are 17, 17, 11 and 12.
    assert layer.weight.tolist() == [[0, 0, 0, 0], [8, -7, 0, 0], [9, -10, 0, -12]]
    t = torch.tensor([1.0, 2, 3], device=device)
    assert Below(2).prune(t).tolist() == [0, 2, 3]
    assert Below(2).prune(t, importance_scores=-t + 4).tolist() == [1, 2, 0]
    assert Below(2).prune(t, default_mask=torch.tensor([1, 1, 0], device=device)).tolist() == [0, 2, 0]

    class Other(Below):
        PRUNING_TYPE = "other"

    class Structured(Below):
        PRUNING_TYPE = "structured"

    with pytest.raises(ValueError, match="Unrecognized PRUNING_TYPE other"):
        Other.apply(layer, "weight", 1)
    with pytest.raises(AttributeError, match="need to have the attribute `dim` defined"):
        Structured.apply(layer, "weight", 1)
    one, two = Below(1), Below(2)
    one._tensor_name, two._tensor_name = "a", "b"
    with pytest.raises(ValueError, match="acting on the parameter named 'a' to PruningContainer .*Found 'b'"):
        prune.PruningContainer(one).add_pruning_method(two)


def test_states_copies_and_pickles(layer, device):
    prune.l1_unstructured(layer, "weight", 6)
    twin = nn.Linear(4, 3, device=device)
    with pytest.raises(RuntimeError, match='Unexpected key.* "weight_orig", "weight_mask"'):
        twin.load_state_dict(layer.state_dict())
    prune.identity(twin, "weight").load_state_dict(layer.state_dict())
    twin(torch.ones(1, 4, device=device))
    assert torch.equal(twin.weight, layer.weight)
    # The weight is no leaf. As in PyTorch, it can be pickled without its history, but not copied.
    again = pickle.loads(pickle.dumps(layer))
    again.weight_orig.data[0].fill_(3)
    again(torch.ones(1, 4, device=device)).sum().backward()
    assert torch.equal(again.weight, layer.weight) and again.weight_orig.grad.tolist() == layer.weight_mask.tolist()
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(layer)
    with torch.no_grad():
        prune.identity(layer, "weight")
        other = copy.deepcopy(layer)
    other.weight_orig.data.fill_(1)
    other(torch.ones(1, 4, device=device))
    assert torch.equal(other.weight, other.weight_mask) and layer.weight[2, 3].item() == -12
    layer.double()(torch.ones(1, 4, device=device, dtype=torch.float64))
    assert layer.weight.dtype == layer.weight_mask.dtype == torch.float64


def test_training_with_pruned_layers(device):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
    x = torch.randn(6, 4).to(device)
    net.to(device)
    prune.l1_unstructured(net[0], "weight", 0.4)
    prune.l1_unstructured(net[0], "bias", 2)
    prune.ln_structured(net[2], "weight", 2, 1, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    losses = []
    for _ in range(4):
        loss = net(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == pytest.approx([0.0291, 0.0194, 0.0110, 0.0112], abs=1e-4)
    for i, name in ((0, "weight"), (0, "bias"), (2, "weight")):
        prune.remove(net[i], name)
    assert list(net.state_dict()) == ["0.weight", "0.bias", "2.bias", "2.weight"]
    assert net(x).sum().item() == pytest.approx(0.5598, abs=1e-4)


def test_weights_of_a_recurrent_layer(device):
    layer = prune.l1_unstructured(nn.LSTM(2, 2), "weight_ih_l0", 4).to(device)
    x = torch.ones(2, 1, 2, device=device)
    # Forward uses the pruned weight, and masked elements get no gradient.
    out = layer(x)[0]
    out.sum().backward()
    assert ((layer.weight_ih_l0_orig.grad != 0) == (layer.weight_ih_l0_mask != 0)).all()
    whole = nn.LSTM(2, 2, device=device)
    prune.remove(layer, "weight_ih_l0")
    whole.load_state_dict(layer.state_dict())
    assert torch.allclose(whole(x)[0], out)
