"""Recurrent layers and packed sequences."""

import copy

import pytest

import pytpu as torch
from pytpu import nn


def test_packed_sequences_round_trip():
    from pytpu.nn.utils.rnn import pack_sequence, pad_packed_sequence, pad_sequence

    sequences = [torch.arange(n, dtype=torch.float32) + 1 for n in (1, 3, 2)]
    packed = pack_sequence(sequences, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 2, 1]
    padded, lengths = pad_packed_sequence(packed, batch_first=True)
    assert lengths.tolist() == [1, 3, 2]
    assert torch.equal(padded, pad_sequence(sequences, batch_first=True))


RECURRENT = {
    "LSTM": (
        lambda: nn.LSTM(3, 2, num_layers=2, bidirectional=True),
        2.73527,
        [-0.066445, 0.297426, 0.015208, 0.072364, -0.078719, 0.254642, 0.04453, 0.063614],
        [-0.00274, -0.000206, -0.001099, 0.001855, -0.004341, -0.000172],
    ),
    "LSTM with projections": (
        lambda: nn.LSTM(3, 2, proj_size=1),
        -0.143924,
        [0.000141, -0.006256],
        [3.7e-05, 0.000259, 0.001734, 0.000147, 0.011094, 0.000972],
    ),
    "GRU": (
        lambda: nn.GRU(3, 2, num_layers=2),
        4.347747,
        [0.715801, -0.158193, 0.706759, 0.021328],
        [-0.002896, -0.018757, -0.006226, -0.029422, -0.009522, -0.019407],
    ),
    "RNN": (
        lambda: nn.RNN(3, 2, nonlinearity="relu"),
        7.992409,
        [1.261799, 0.53552, 0.953698, 1.130466],
        [0.866969, 0.180207, 1.504672, 0.509626],
    ),
}


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name, device, close):
    make, total, last, grad = RECURRENT[name]
    torch.manual_seed(1)
    layer = make()
    x = torch.randn(4, 2, 3)
    layer, x = layer.to(device), x.to(device)
    y, _ = layer(x)
    y.sin().sum().backward()
    close(y.sum(), total, atol=2e-5)
    close(y[-1].flatten(), last, atol=2e-6)
    close(list(layer.parameters())[1].grad.flatten()[:6], grad[:6], atol=2e-6)


@pytest.mark.parametrize(
    "make", [lambda: nn.LSTM(3, 4, 2, bidirectional=True), lambda: nn.GRU(3, 4), lambda: nn.RNN(3, 4)]
)
@pytest.mark.parametrize("lengths", [[5, 3, 1], [2, 5, 4]])
def test_packed_sequences_give_the_results_of_each_sequence_alone(make, lengths, device):
    from pytpu.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    layer = make().to(device)
    x = torch.randn(5, 3, 3).to(device).requires_grad_()
    packed = pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False)
    y, h = layer(packed)
    y, found = pad_packed_sequence(y)
    assert found.tolist() == lengths
    h = h[0] if isinstance(h, tuple) else h
    for i, n in enumerate(lengths):
        alone, last = layer(x[:n, i : i + 1])
        last = last[0] if isinstance(last, tuple) else last
        assert torch.allclose(y[:n, i], alone[:, 0], atol=1e-6) and (y[n:, i] == 0).all()
        assert torch.allclose(h[:, i], last[:, 0], atol=1e-6)
    y.sum().backward()
    assert all((x.grad[n:, i] == 0).all() for i, n in enumerate(lengths))


@pytest.mark.parametrize(
    "make", [lambda: nn.LSTM(3, 4, 2, bidirectional=True), lambda: nn.GRU(3, 4), lambda: nn.LSTM(3, 4, proj_size=2)]
)
def test_packed_sequences_agree_on_host_and_device(make):
    from pytpu.nn.utils.rnn import pack_padded_sequence

    layer, results = make(), []
    x = torch.randn(6, 4, 3)
    for device in ("cpu", "tpu"):
        there, leaf = copy.deepcopy(layer).to(device), x.clone().to(device).requires_grad_()
        y, state = there(pack_padded_sequence(leaf, torch.tensor([3, 6, 1, 3]), enforce_sorted=False))
        state = state if isinstance(state, tuple) else (state,)
        (y.data.sin().sum() + sum((k + 1) * s.square().sum() for k, s in enumerate(state))).backward()
        results.append([t.detach().cpu() for t in (y.data, *state, leaf.grad, *(p.grad for p in there.parameters()))])
    for host, tpu in zip(*results):
        assert torch.allclose(host, tpu, atol=1e-5)


def test_layouts_and_states_of_recurrent_layers():
    lstm = nn.LSTM(3, 4)
    x, state = torch.randn(5, 2, 3), (torch.randn(1, 2, 4), torch.randn(1, 2, 4))
    first = nn.LSTM(3, 4, batch_first=True)
    first.load_state_dict(lstm.state_dict())
    y, (h, c) = lstm(x, state)
    assert torch.allclose(first(x.transpose(0, 1), state)[0], y.transpose(0, 1))
    assert torch.allclose(lstm(x[:, 0], (state[0][:, 0], state[1][:, 0]))[0], y[:, 0], atol=1e-6)
    cell = nn.LSTMCell(3, 4)
    cell.load_state_dict({k.removesuffix("_l0"): v for k, v in lstm.state_dict().items()})
    s = (state[0][0], state[1][0])
    for step in x:
        s = cell(step, s)
    assert torch.allclose(s[0], h[0], atol=1e-6) and torch.allclose(s[1], c[0], atol=1e-6)
    names = [n for n, _ in nn.GRU(2, 2, bidirectional=True).named_parameters()]
    assert names[4:] == ["weight_ih_l0_reverse", "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse"]


def test_mistakes_with_recurrent_layers():
    lstm, x = nn.LSTM(3, 4), torch.randn(5, 2, 3)
    with pytest.raises(RuntimeError, match=r"input.size\(-1\) must be equal to input_size. Expected 3, got 2"):
        lstm(x[..., :2])
    with pytest.raises(ValueError, match="LSTM: Expected input to be 2D or 3D, got 4D instead"):
        lstm(x[None])
    with pytest.raises(RuntimeError, match=r"Expected hidden\[0\] size \(1, 2, 4\), got \[1, 2, 3\]"):
        lstm(x, (torch.zeros(1, 2, 3), torch.zeros(1, 2, 4)))
    with pytest.raises(ValueError, match=r"RNN input dtype \(torch.float64\) does not match weight dtype"):
        lstm(x.double())
    with pytest.raises(ValueError, match="proj_size has to be smaller than hidden_size"):
        nn.LSTM(3, 4, proj_size=5)
    w = [torch.ones(20, 3), torch.ones(20, 5)]
    h = torch.zeros(2, 5)
    with pytest.raises(RuntimeError, match="lstm_cell expects two hidden states"):
        torch.lstm_cell(torch.ones(2, 3), (h,), *w)
    with pytest.raises(RuntimeError, match="input has inconsistent input_size: got 2 expected 3"):
        torch.lstm_cell(torch.ones(2, 2), (h, h), *w)
    with pytest.raises(RuntimeError, match="weight_ih first dim must be 3 \\* hidden_size = 15, but got 20"):
        torch.gru_cell(torch.ones(2, 3), h, *w)


def test_recurrent_layers_and_packing_refuse_wrong_arguments():
    rnn = nn.utils.rnn
    with pytest.raises(ValueError, match="input_size must be greater than zero"):
        nn.LSTM(0, 4)
    with pytest.raises(ValueError, match="RNN: Expected input to be 2D or 3D, got 4D tensor instead"):
        nn.RNN(2, 3)(torch.ones(1, 1, 1, 2))
    with pytest.raises(ValueError, match="GRU: Expected input to be 2D or 3D, got 4D instead"):
        nn.GRU(2, 3)(torch.ones(1, 1, 1, 2))
    with pytest.raises(RuntimeError, match="Expected padding_side to be one of left or right, but got zzz."):
        rnn.pad_sequence([torch.ones(1)], padding_side="zzz")
    with pytest.raises(
        RuntimeError, match="pad_sequence: Expected iterable for input sequences, but got arg of type: <class 'int'>"
    ):
        rnn.pad_sequence(3)
    packed = rnn.pack_sequence([torch.ones(2), torch.ones(1)])
    assert (
        packed.half().data.dtype == torch.float16 and packed.long().data.dtype == torch.int64 and not packed.is_pinned()
    )
