"""`clip_grad_norm_` and `parameters_to_vector`."""

import pytpu as torch
from pytpu import nn


def test_clip_grad_norm(device, close):
    p = nn.Parameter(torch.zeros(2, device=device))
    p.grad = torch.tensor([3.0, 4.0], device=device)
    close(nn.utils.clip_grad_norm_([p], 1.0), 5.0)
    close(p.grad, [0.6, 0.8], rtol=1e-4)
    nn.utils.clip_grad_value_([p], 0.7)
    close(p.grad, [0.6, 0.7], rtol=1e-4)


def test_parameter_vector_round_trip():
    net = nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(net.parameters())
    assert vector.shape == (9,)
    nn.utils.vector_to_parameters(torch.arange(9.0), net.parameters())
    assert net.bias.tolist() == [6, 7, 8]
