"""A parameter that an optimizer is given twice in one group: PyTorch warns, and updates it twice a step."""

import pytest

import pytpu as torch


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_a_repeated_parameter_is_updated_twice_a_step_each_with_its_own_count(device, name, amsgrad):
    repeated = torch.nn.Parameter(torch.tensor([1.0, 2.0], device=device))
    with pytest.warns(UserWarning, match="duplicate parameters"):
        both = getattr(torch.optim, name)([repeated, repeated], lr=0.1, amsgrad=amsgrad)
    single = torch.nn.Parameter(torch.tensor([1.0, 2.0], device=device))
    once = getattr(torch.optim, name)([single], lr=0.1, amsgrad=amsgrad)
    for _ in range(3):
        both.zero_grad()
        repeated.square().sum().backward()
        both.step()
        # Both updates of a step use the same gradient.
        grad = 2 * single.detach()
        for _ in range(2):
            single.grad = grad.clone()
            once.step()
    assert both.state[repeated]["step"].item() == 6
    torch.testing.assert_close(repeated, single)
