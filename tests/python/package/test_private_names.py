"""Private names of PyTorch that libraries call."""

from collections import OrderedDict

import pytest

import pytpu as torch
from pytpu._tensor_str import _tensor_str


def test_the_numbers_of_a_tensor_are_written_with_an_indent(device):
    x = torch.tensor([[1.5, 2.0], [3.0, 4e5]], device=device, requires_grad=True)
    assert _tensor_str(x, 9) == "[[1.5000e+00, 2.0000e+00],\n          [3.0000e+00, 4.0000e+05]]"
    assert _tensor_str(torch.tensor(3.5, dtype=torch.float64, device=device), 0) == "3.5000"
    assert _tensor_str(torch.zeros(0, 3, device=device), 0) == "[]"
    lines = _tensor_str(torch.arange(40.0) / 7, 0).splitlines()
    assert [len(line.split()) for line in lines] == [10, 10, 10, 10]
    assert "linewidth=80" not in repr(x) and torch._tensor_str.PRINT_OPTS.linewidth == 80


def test_a_wrapper_of_an_optimizer_that_skips_init_has_step_hooks():
    class Wrapper(torch.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner
            self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks = OrderedDict(), OrderedDict()
            self._patch_step_function()

        @property
        def param_groups(self):
            return self.inner.param_groups

        def step(self, closure=None):
            return self.inner.step(closure)

    p = torch.nn.Parameter(torch.ones(2))
    wrapper, calls = Wrapper(torch.optim.SGD([p], lr=0.5)), []
    wrapper.register_step_post_hook(lambda *args: calls.append(args[0]))
    p.sum().backward()
    wrapper.step()
    assert p.tolist() == [0.5, 0.5] and calls == [wrapper]


def test_flags_can_be_set_where_pytorch_wants_a_bracket():
    before = torch.backends.cudnn.benchmark
    with getattr(torch.backends, "__allow_nonbracketed_mutation")():
        torch.backends.cudnn.benchmark = True
        assert torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = before
    assert torch.backends.flags_frozen() is False


def test_vmap_is_imported_and_refuses_by_name():
    from pytpu.func import vmap

    with pytest.raises(NotImplementedError, match="torch.func.vmap: functions are not mapped"):
        vmap(torch.sin)
