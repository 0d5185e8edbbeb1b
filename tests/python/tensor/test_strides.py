"""Strides and memory formats of results, copies and new tensors."""

import importlib.util
import json
import pathlib

import pytest

import pytpu as torch

F = torch.nn.functional
GOLDENS = pathlib.Path(__file__).parents[1] / "goldens"


def recorder():
    spec = importlib.util.spec_from_file_location("record_strides", GOLDENS / "record_strides.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def channels_last(device, *sizes):
    n, c, *rest = sizes
    order = [0, len(sizes) - 1, *range(1, len(sizes) - 1)]
    return torch.arange(float(n * c * torch.Size(rest).numel()), device=device).view(n, *rest, c).permute(order)


def test_strides_of_results_are_those_of_pytorch(device):
    record = recorder()
    for case in json.loads((GOLDENS / "strides.json").read_text()):
        x, y, z = (record.operand(torch, how, device) for how in case["operands"])
        got = {k: list(v.stride()) for k, v in record.calls(torch, x, y, z).items()}
        assert got == case["strides"], case["operands"]


def test_values_do_not_depend_on_the_order_of_dimensions(device):
    x = torch.arange(24.0, device=device).view(2, 3, 4)
    plain = [x.exp(), x + x[0], x.clone(), torch.where(x > 5, x, -x), F.gelu(x), x.double() * 2, x > 7]
    turned = x.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    assert turned.stride() != x.stride()
    y = [
        turned.exp(),
        turned + x[0],
        turned.clone(),
        torch.where(turned > 5, turned, -turned),
        F.gelu(turned),
        turned.double() * 2,
        turned > 7,
    ]
    for a, b in zip(plain, y):
        assert torch.allclose(a, b) if a.dtype != torch.bool else torch.equal(a, b)
        assert b.stride() == turned.stride() and torch.allclose(a.reshape(-1).float(), b.reshape(-1).float())


def test_contiguous_in_channels_last_has_its_strides(device):
    y = torch.ones(2, 3, 4, 5, device=device).contiguous(memory_format=torch.channels_last)
    assert y.stride() == (60, 1, 15, 3) and not y.is_contiguous()
    z = torch.ones(2, 3, 2, 4, 5, device=device).to(memory_format=torch.channels_last_3d)
    assert z.stride() == (120, 1, 60, 15, 3) and z.is_contiguous(memory_format=torch.channels_last_3d)


def test_is_contiguous_tells_formats_apart(device):
    y, z = channels_last(device, 2, 3, 4, 5), torch.ones(2, 3, 4, 5, device=device)
    assert y.is_contiguous(memory_format=torch.channels_last) and not y.is_contiguous()
    assert z.is_contiguous() and not z.is_contiguous(memory_format=torch.channels_last)
    assert z.is_contiguous(memory_format=torch.preserve_format) and not y.is_contiguous(
        memory_format=torch.preserve_format
    )


def test_contiguous_returns_a_contiguous_tensor_itself(device):
    x = channels_last(device, 4, 3, 8, 8)
    x.contiguous(memory_format=torch.channels_last).fill_(7)
    assert bool((x == 7).all())


def test_clone_takes_a_memory_format(device):
    x = channels_last(device, 2, 3, 4, 5)
    assert x.clone().stride() == x.stride()
    assert x.clone(memory_format=torch.contiguous_format).is_contiguous()
    assert torch.ones(2, 3, 4, 5, device=device).clone(memory_format=torch.channels_last).stride() == x.stride()
    assert torch.equal(x.clone(memory_format=torch.contiguous_format), x)


def test_clone_of_a_sliced_tensor_keeps_the_order(device):
    assert torch.randn(10, 8, device=device).t()[::2, ::2].clone().stride() == (1, 4)


def test_tensors_like_another_keep_its_order(device):
    x = channels_last(device, 2, 3, 4, 5)
    for f in (torch.empty_like, torch.zeros_like, torch.ones_like, torch.rand_like, torch.randn_like):
        assert f(x).stride() == x.stride()
        assert f(x, memory_format=torch.contiguous_format).is_contiguous()
    assert torch.full_like(x, 3).stride() == x.stride() and bool((torch.full_like(x, 3) == 3).all())
    plain = torch.ones(2, 3, 4, 5, device=device)
    assert torch.zeros_like(plain, memory_format=torch.channels_last).stride() == x.stride()


def test_empty_takes_a_memory_format(device):
    assert torch.empty(2, 3, 4, 5, memory_format=torch.channels_last, device=device).stride() == (60, 1, 15, 3)
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        torch.empty((2, 3, 4), memory_format=torch.channels_last, device=device)


def test_copies_between_devices_and_dtypes_keep_the_order():
    x = channels_last("cpu", 2, 3, 4, 5)
    there = x.to("tpu")
    assert there.stride() == x.stride() and torch.equal(there.cpu(), x)
    assert there.cpu().stride() == x.stride() and there.half().stride() == x.stride()
    assert x.to("tpu", memory_format=torch.contiguous_format).is_contiguous()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: F.conv2d(x, torch.ones(4, 3, 3, 3, device=x.device)),
        lambda x: F.conv_transpose2d(x, torch.ones(3, 4, 3, 3, device=x.device)),
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.avg_pool2d(x, 2),
        lambda x: F.adaptive_avg_pool2d(x, 2),
        lambda x: F.interpolate(x, scale_factor=2),
        lambda x: F.pad(x, (1, 1, 1, 1)),
        lambda x: F.group_norm(x, 3),
        lambda x: torch.cat([x, x], 1),
        lambda x: F.relu(x),
        lambda x: F.dropout2d(x, 0.5),
    ],
)
def test_functions_of_images_keep_channels_last(device, f):
    x = channels_last(device, 2, 3, 6, 6)
    torch.manual_seed(0)
    y = f(x)
    torch.manual_seed(0)
    want = f(x.contiguous())
    assert y.is_contiguous(memory_format=torch.channels_last) and want.is_contiguous()
    assert torch.allclose(y, want, rtol=1e-5, atol=1e-5)


def test_a_convolution_with_a_channels_last_weight_gives_channels_last(device):
    w = torch.ones(4, 3, 3, 3, device=device).to(memory_format=torch.channels_last)
    assert F.conv2d(torch.ones(2, 3, 6, 6, device=device), w).is_contiguous(memory_format=torch.channels_last)


def test_a_channels_last_network_trains_to_the_same_numbers(device):
    def losses(memory_format):
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3),
            torch.nn.BatchNorm2d(4),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(16, 5),
        ).to(device, memory_format=memory_format)
        x = torch.randn(8, 3, 6, 6).to(device, memory_format=memory_format)
        target = torch.arange(8, device=device) % 5
        optimizer, found = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), []
        for _ in range(3):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), target)
            loss.backward()
            assert net[0].weight.grad.stride() == net[0].weight.stride()
            optimizer.step()
            found.append(loss.item())
        return found

    assert losses(torch.channels_last) == pytest.approx(losses(torch.contiguous_format), rel=1e-5)


def test_gradients_lie_as_their_leaf_does(device):
    x = channels_last(device, 2, 3, 4, 5).clone().requires_grad_()
    (x * torch.arange(120.0, device=device).view(2, 3, 4, 5)).sum().backward()
    assert x.grad.stride() == x.stride()
    assert torch.equal(x.grad, torch.arange(120.0, device=device).view(2, 3, 4, 5))


def test_windows_on_permuted_results_follow_memory(device):
    y = torch.arange(6.0, device=device).view(2, 3).t() + 0
    assert y.stride() == (1, 3)
    assert y.as_strided((6,), (1,)).tolist() == [0, 1, 2, 3, 4, 5]
    y.as_strided((2,), (1,), 1).fill_(9)
    assert y.tolist() == [[0, 3], [9, 4], [9, 5]]
    assert torch.diagonal(y).tolist() == [0, 4] and y.unfold(0, 2, 1).tolist() == [[[0, 9], [3, 4]], [[9, 9], [4, 5]]]
    y.diagonal().zero_()
    assert y.tolist() == [[0, 3], [9, 0], [9, 5]]


def test_gradients_go_through_windows_on_permuted_results(device):
    x = torch.arange(6.0, device=device).view(2, 3).requires_grad_()
    y = x.t() * 2
    y.as_strided((4,), (1,), 1).sum().backward()
    assert x.grad.tolist() == [[0, 2, 2], [2, 2, 0]]
    x.grad = None
    z = x.t() * 2
    z.as_strided((2,), (1,), 1).fill_(5)
    (z * z).sum().backward()
    assert x.grad.tolist() == [[0, 0, 0], [24, 32, 40]]


def test_a_view_of_a_conjugate_in_another_order_is_resolved(device):
    x = (torch.arange(6.0, device=device).view(2, 3) + 1j).t()
    y = (x * 1).conj() + 0
    assert y.stride() == (1, 3) and y[2, 1].item() == 5 - 1j and torch.view_as_real(y).shape == (3, 2, 2)


def test_tensors_without_elements_are_contiguous(device):
    z = torch.empty(2, 3, 4, 5, device=device)[:, :, :, 1][:, 1:1, :]
    assert z.is_contiguous()


def test_a_tensor_without_elements_has_no_address():
    assert torch.empty(2, 2)[0:0].data_ptr() == 0


def test_views_in_place_stay_views_of_their_base(device):
    t = torch.ones(3, 5, device=device)
    v = t.view_as(t)
    v = v.t_()
    v[1, 0] = 0
    assert v._is_view() and v._base is t and t[0, 1] == 0
    u = torch.ones(3, 5, device=device)
    assert not u.t_()._is_view() and u.shape == (5, 3)


def test_gradients_go_through_views_changed_in_place(device):
    x = torch.ones(2, 3, device=device, requires_grad=True)
    y = x * 2
    v = y[:1]
    v.t_()
    v.mul_(5)
    y.sum().backward()
    assert x.grad.tolist() == [[10, 10, 10], [2, 2, 2]]


def test_copies_made_by_flatten_are_no_views(device):
    t = torch.ones(2, 3, 4, device=device).transpose(2, 1)
    f = t.flatten(1)
    assert not f._is_view() and f._base is None
    f.fill_(2)
    assert bool((t == 1).all())


def test_ravel_is_contiguous(device):
    x = torch.arange(10, device=device)[::2]
    assert x.ravel().is_contiguous() and x.ravel().tolist() == [0, 2, 4, 6, 8]


def test_resize_as_the_same_size_keeps_strides(device):
    x = torch.empty(2, 3, device=device).t()
    x.resize_as_(x)
    assert x.stride() == (1, 3)


def test_resize_takes_a_memory_format(device):
    x = torch.zeros(120, device=device).resize_(2, 3, 4, 5, memory_format=torch.channels_last)
    assert x.stride() == (60, 1, 15, 3)
    y = torch.zeros(0, device=device).resize_as_(x, memory_format=torch.preserve_format)
    assert y.stride() == x.stride()
    assert torch.zeros(0, device=device).resize_as_(x).is_contiguous()
    with pytest.raises(RuntimeError, match="required rank 4 tensor"):
        torch.zeros(6, device=device).resize_(2, 3, memory_format=torch.channels_last)


def test_sizes_of_one_keep_their_strides():
    t, u = torch.empty_strided((1, 3), (12, 2)), torch.empty(20).as_strided((1, 3), (12, 2))
    assert t.stride() == u.stride() == (12, 2)
    assert torch.ones(3).expand(1, 1, 3).stride() == (3, 3, 1)
    x = torch.ones(2, 3).t()
    assert x.unsqueeze(-1).stride() == (1, 3, 1) and x.unsqueeze(0).stride() == (3, 1, 3)


def test_dim_order_can_refuse_ambiguous_strides(device):
    assert torch.empty(2, 3, device=device).dim_order(ambiguity_check=True) == (0, 1)
    assert channels_last(device, 2, 3, 4, 5).dim_order() == (0, 2, 3, 1)
    one = torch.empty(2, 1, 4, 5, device=device)
    with pytest.raises(RuntimeError, match="does not have unique dim order"):
        one.dim_order(ambiguity_check=True)
    assert torch.empty(1, 3, device=device).dim_order(ambiguity_check=[torch.contiguous_format]) == (0, 1)
    with pytest.raises(TypeError, match="ambiguity_check argument must be a bool or a list"):
        one.dim_order(ambiguity_check="yes")


def test_stack_writes_into_the_memory_of_out():
    o = torch.empty(2, 3)
    p = o.data_ptr()
    torch.stack((torch.zeros(3), torch.ones(3)), 0, out=o)
    assert o.data_ptr() == p and o.tolist() == [[0, 0, 0], [1, 1, 1]]


def test_a_complex_diagonal_has_a_gradient(device):
    t = torch.randn(3, 3, dtype=torch.complex64, device=device, requires_grad=True)
    g = torch.autograd.grad(torch.diagonal(t).abs().sum(), t)[0]
    assert g.shape == (3, 3) and g[0, 1] == 0
