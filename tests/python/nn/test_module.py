"""`nn.Module`: registration, names, state dicts, moving, hooks, printing."""

import copy
import pickle
from collections import OrderedDict

import pytest

import pytpu as torch
from pytpu import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.bn = nn.BatchNorm1d(4)
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("table", torch.zeros(2))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)

    def forward(self, x):
        return self.bn(self.fc(x)) * self.scale


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.embed(x))


def test_state_dict_keys_are_in_order_of_registration():
    assert list(Net().state_dict()) == [
        "scale",
        "table",
        "fc.weight",
        "fc.bias",
        "bn.weight",
        "bn.bias",
        "bn.running_mean",
        "bn.running_var",
        "bn.num_batches_tracked",
    ]


def test_names_of_parameters_buffers_and_modules():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["scale", "fc.weight", "fc.bias", "bn.weight", "bn.bias"]
    assert [n for n, _ in net.named_buffers()] == [
        "table",
        "scratch",
        "bn.running_mean",
        "bn.running_var",
        "bn.num_batches_tracked",
    ]
    assert [n for n, _ in net.named_modules()] == ["", "fc", "bn"]
    assert net.get_submodule("fc") is net.fc
    assert net.get_parameter("fc.weight") is net.fc.weight
    assert net.get_buffer("bn.running_mean") is net.bn.running_mean


def test_state_dict_shares_memory_and_load_copies():
    a, b = Net(), Net()
    state = a.state_dict()
    assert not state["fc.weight"].requires_grad
    result = b.load_state_dict(state)
    assert str(result) == "<All keys matched successfully>"
    assert torch.equal(a.fc.weight, b.fc.weight)
    with torch.no_grad():
        a.fc.weight.zero_()
    assert float(state["fc.weight"].abs().sum()) == 0
    assert float(b.fc.weight.abs().sum()) != 0


def test_load_state_dict_names_every_problem():
    net = nn.Sequential(nn.Linear(2, 3))
    state = OrderedDict({"0.weight": torch.zeros(4, 2), "extra": torch.zeros(1)})
    with pytest.raises(RuntimeError) as error:
        net.load_state_dict(state)
    assert str(error.value) == (
        "Error(s) in loading state_dict for Sequential:\n"
        '\tMissing key(s) in state_dict: "0.bias". \n'
        '\tUnexpected key(s) in state_dict: "extra". \n'
        "\tsize mismatch for 0.weight: copying a param with shape torch.Size([4, 2]) from checkpoint, "
        "the shape in current model is torch.Size([3, 2])."
    )


def test_load_state_dict_not_strict_reports_keys():
    net = nn.Linear(2, 3)
    result = net.load_state_dict({"weight": torch.zeros(3, 2), "other": torch.zeros(1)}, strict=False)
    assert result.missing_keys == ["bias"] and result.unexpected_keys == ["other"]


def test_load_state_dict_assign_takes_the_tensor():
    net = nn.Linear(2, 3)
    weight = torch.ones(3, 2)
    net.load_state_dict({"weight": weight, "bias": torch.zeros(3)}, assign=True)
    assert isinstance(net.weight, nn.Parameter) and net.weight.data_ptr() == weight.data_ptr()


def test_to_keeps_tied_parameters_tied(device):
    model = Tied()
    shared = model.embed.weight
    model.to(device)
    assert model.head.weight is model.embed.weight is shared
    assert model.head.weight.device.type == device
    assert len(list(model.parameters())) == 1
    model(torch.tensor([1, 2], device=device)).sum().backward()
    assert model.embed.weight.grad is model.head.weight.grad is not None


def test_to_moves_and_casts(device):
    net = Net().to(device, torch.float64)
    assert net.fc.weight.dtype == torch.float64 and net.table.dtype == torch.float64
    assert net.bn.num_batches_tracked.dtype == torch.int64
    assert all(t.device.type == device for t in (*net.parameters(), *net.buffers()))


def test_an_optimiser_made_before_to_still_trains(device):
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.to(device)
    before = model.weight.detach().cpu().clone()
    model(torch.ones(1, 2, device=device)).sum().backward()
    optimizer.step()
    assert torch.equal(model.weight.detach().cpu(), before - 1)


def test_to_rejects_integer_dtypes():
    with pytest.raises(TypeError, match="only accepts floating point or complex dtypes"):
        nn.Linear(1, 1).to(torch.int32)


def test_repr_is_torchs():
    net = nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(1, 8, 3, padding=1, bias=False),
            body=nn.Sequential(nn.ReLU(inplace=True), nn.MaxPool2d(2)),
            drop=nn.Dropout(0.1),
        )
    )
    assert repr(net) == (
        "Sequential(\n"
        "  (conv): Conv2d(1, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)\n"
        "  (body): Sequential(\n"
        "    (0): ReLU(inplace=True)\n"
        "    (1): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)\n"
        "  )\n"
        "  (drop): Dropout(p=0.1, inplace=False)\n"
        ")"
    )
    assert repr(nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()])) == (
        "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n)"
    )


def test_assigning_the_wrong_type_raises():
    net = nn.Linear(2, 2)
    with pytest.raises(TypeError, match=r"as parameter 'weight' \(torch.nn.Parameter or None expected\)"):
        net.weight = 3
    with pytest.raises(TypeError, match=r"as child module 'inner' \(torch.nn.Module or None expected\)"):
        net.inner = nn.ReLU()
        net.inner = 3
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'missing'"):
        net.missing
    with pytest.raises(KeyError, match="attribute 'forward' already exists"):
        net.register_buffer("forward", torch.zeros(1))

    class Early(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(torch.zeros(1))

    with pytest.raises(AttributeError, match=r"cannot assign parameters before Module.__init__\(\) call"):
        Early()


def test_forward_is_required():
    with pytest.raises(NotImplementedError, match='missing the required "forward" function'):
        nn.Module()()


def test_forward_hooks_see_and_replace(device):
    net = nn.Linear(2, 2, bias=False).to(device)
    calls = []
    pre = net.register_forward_pre_hook(lambda m, args: calls.append("pre") or (args[0] * 2,))
    post = net.register_forward_hook(lambda m, args, out: calls.append("post") or out + 1)
    x = torch.ones(1, 2, device=device)
    hooked = net(x)
    pre.remove(), post.remove()
    assert calls == ["pre", "post"]
    assert torch.allclose(hooked, net(x * 2) + 1)
    assert calls == ["pre", "post"]


def test_always_called_hooks_run_after_an_error():
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    seen = []
    net = Broken()
    net.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    with pytest.raises(ValueError, match="no"):
        net(1)
    assert seen == [None]


def test_full_backward_hook_sees_and_replaces_gradients(device):
    net = nn.Linear(2, 1, bias=False).to(device)
    seen = []

    def hook(module, grad_input, grad_output):
        seen.append((grad_input[0].shape, grad_output[0].shape))
        return (grad_input[0] * 10,)

    net.register_full_backward_hook(hook)
    x = torch.ones(3, 2, device=device, requires_grad=True)
    net(x).sum().backward()
    assert seen == [((3, 2), (3, 1))]
    assert torch.allclose(x.grad, (net.weight * 10).expand(3, 2))


def test_train_eval_apply_and_zero_grad():
    net = Net()
    assert net.training and not net.eval().bn.training
    seen = []
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "BatchNorm1d", "Net"]
    net.fc(torch.ones(1, 3)).sum().backward()
    assert net.fc.weight.grad is not None
    net.zero_grad()
    assert net.fc.weight.grad is None
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        net.train(1)


def test_deepcopy_and_pickle_keep_values_and_ties():
    model = Tied()
    twin = copy.deepcopy(model)
    assert twin.head.weight is twin.embed.weight is not model.embed.weight
    again = pickle.loads(pickle.dumps(nn.Linear(2, 3)))
    assert isinstance(again.weight, nn.Parameter) and again.weight.shape == (3, 2)


def test_containers():
    net = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 3))
    assert len(net[:2]) == 2 and isinstance(net[-1], nn.Linear)
    del net[1]
    assert list(net._modules) == ["0", "1"]
    with pytest.raises(IndexError, match="index 5 is out of range"):
        net[5]
    table = nn.ModuleDict({"a": nn.ReLU()})
    table["b"] = nn.Tanh()
    assert list(table.keys()) == ["a", "b"] and "a" in table
    params = nn.ParameterList([torch.zeros(2), nn.Parameter(torch.ones(1))])
    assert [n for n, _ in params.named_parameters()] == ["0", "1"]
    named = nn.ParameterDict({"w": torch.zeros(2)})
    assert list(named.state_dict()) == ["w"] and isinstance(named["w"], nn.Parameter)


def test_lazy_linear_learns_its_input_size():
    net = nn.LazyLinear(4)
    assert net(torch.ones(2, 3)).shape == (2, 4)
    assert type(net) is nn.Linear and net.in_features == 3


def test_default_initialisation_is_torchs(close):
    torch.manual_seed(0)
    close(nn.Linear(2, 2).weight, [[-0.0052939, 0.3792945], [-0.5819557, -0.5203872]], rtol=1e-4)


class Counts(nn.Linear):
    def __init__(self):
        super().__init__(1, 1)
        self.register_load_state_dict_pre_hook(Counts.count)
        self.counted = 0

    def count(self, *args):
        self.counted += 1


def test_hooks_of_loading_go_with_a_copy():
    model = Counts()
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        twin.load_state_dict(model.state_dict())
        assert (model.counted, twin.counted) == (0, 1)


def test_backward_hooks_without_inputs_that_need_gradients_are_warned_of():
    model = nn.Linear(2, 1)
    seen = []
    model.register_full_backward_hook(lambda m, grad_input, grad_output: seen.append(grad_input))
    with pytest.warns(
        UserWarning, match="Full backward hook is firing when gradients are computed with respect to module outputs"
    ):
        model(torch.ones(1, 2)).sum().backward()
    assert seen == [(None,)]


def test_moving_a_meta_module_suggests_to_empty():
    with pytest.raises(
        NotImplementedError, match=r"no data! Please use torch.nn.Module.to_empty\(\) instead of torch.nn.Module.to\(\)"
    ):
        nn.Linear(2, 2, device="meta").to("cpu")


def test_prefixes_are_taken_off_the_names_of_a_state():
    model = nn.DataParallel(nn.Sequential(nn.Linear(1, 1)))
    state = model.state_dict()
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["0.weight", "0.bias"] and set(state._metadata) == {"", "0"}
    nn.Sequential(nn.Linear(1, 1)).load_state_dict(state)


def test_numel_of_an_uninitialized_parameter_raises():
    layer = nn.LazyLinear(3)
    with pytest.raises(
        ValueError, match="Attempted to use an uninitialized parameter in .*numel.*parameter.UninitializedParameter"
    ):
        layer.weight.numel()
    layer(torch.ones(1, 2))
    assert layer.weight.numel() == 6
