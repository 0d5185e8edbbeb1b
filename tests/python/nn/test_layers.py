"""Layers and losses against NumPy, on every device."""

import copy
import itertools
import math

import numpy as np
import pytest

import pytpu as torch
from pytpu import nn
from pytpu.nn import functional as F


def rand(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_linear(device, close):
    layer, x = nn.Linear(3, 4).to(device), rand(2, 3)
    w, b = layer.weight.detach().cpu().numpy(), layer.bias.detach().cpu().numpy()
    close(layer(torch.tensor(x, device=device)), x @ w.T + b)


def test_conv2d_is_cross_correlation(device, close):
    layer, x = nn.Conv2d(2, 3, 3, padding=1).to(device), rand(1, 2, 4, 4)
    w, b = layer.weight.detach().cpu().numpy(), layer.bias.detach().cpu().numpy()
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    want = np.zeros((1, 3, 4, 4), np.float32)
    for i in range(4):
        for j in range(4):
            want[0, :, i, j] = (padded[0, :, i : i + 3, j : j + 3] * w).sum((1, 2, 3)) + b
    close(layer(torch.tensor(x, device=device)), want, rtol=1e-4, atol=1e-5)


def test_transposed_conv_inverts_the_shape_of_conv(device):
    x = torch.randn(1, 2, 7, 7, device=device)
    down = nn.Conv2d(2, 3, 3, stride=2).to(device)
    up = nn.ConvTranspose2d(3, 2, 3, stride=2).to(device)
    assert up(down(x)).shape == x.shape
    assert up(down(x), output_size=[8, 8]).shape == (1, 2, 8, 8)
    with pytest.raises(ValueError, match="requested an output size of"):
        up(down(x), output_size=[20, 20])


def test_batch_norm_normalises_and_tracks(device, close):
    layer, x = nn.BatchNorm1d(3).to(device), rand(8, 3)
    got = layer(torch.tensor(x, device=device))
    close(got, (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5), rtol=1e-4, atol=1e-5)
    close(layer.running_mean, 0.1 * x.mean(0), rtol=1e-4)
    close(layer.running_var, 0.9 + 0.1 * x.var(0, ddof=1), rtol=1e-4)
    assert int(layer.num_batches_tracked) == 1
    with pytest.raises(ValueError, match=r"expected 2D or 3D input \(got 4D input\)"):
        layer(torch.zeros(1, 3, 1, 1, device=device))
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
        layer(torch.zeros(1, 3, device=device))


def test_layer_and_rms_norm(device, close):
    x = rand(2, 5)
    t = torch.tensor(x, device=device)
    want = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    close(nn.LayerNorm(5).to(device)(t), want, rtol=1e-4, atol=1e-5)
    close(nn.RMSNorm(5, eps=1e-6).to(device)(t), x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6), rtol=1e-4)


def test_embedding_padding_row_is_zero_and_gets_no_gradient(device):
    layer = nn.Embedding(4, 2, padding_idx=1).to(device)
    assert float(layer.weight[1].abs().sum()) == 0
    layer(torch.tensor([0, 1, 1], device=device)).sum().backward()
    assert layer.weight.grad.cpu().tolist() == [[1, 1], [0, 0], [0, 0], [0, 0]]


def test_dropout_keeps_the_mean_and_is_off_in_eval(device):
    layer, x = nn.Dropout(0.25), torch.ones(10000, device=device)
    y = layer(x)
    assert abs(float(y.mean()) - 1) < 0.05
    assert torch.equal(y[y != 0], torch.full_like(y[y != 0], 1 / 0.75))
    assert torch.equal(layer.eval()(x), x)
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got 2"):
        nn.Dropout(2)


def test_pools(device, close):
    x = rand(1, 1, 4, 4)
    t = torch.tensor(x, device=device)
    blocks = x.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(1, 1, 2, 2, 4)
    close(nn.MaxPool2d(2)(t), blocks.max(-1))
    close(nn.AvgPool2d(2)(t), blocks.mean(-1))
    close(nn.AdaptiveAvgPool2d(1)(t), x.mean((2, 3), keepdims=True))
    values, indices = nn.MaxPool2d(2, return_indices=True)(t)
    restored = nn.MaxUnpool2d(2)(values, indices)
    assert torch.equal(restored[restored != 0].sort()[0], values.flatten().sort()[0])


def test_cross_entropy(device, close):
    x, target = rand(4, 3), np.array([0, 2, 1, -100])
    log_p = x - np.log(np.exp(x).sum(-1, keepdims=True))
    picked = -log_p[np.arange(3), target[:3]]
    t, y = torch.tensor(x, device=device), torch.tensor(target, device=device)
    close(nn.CrossEntropyLoss()(t, y), picked.mean(), rtol=1e-4)
    close(nn.CrossEntropyLoss(reduction="none")(t, y), [*picked, 0], rtol=1e-4)
    weight = torch.tensor([1.0, 2.0, 3.0], device=device)
    w = np.array([1.0, 3.0, 2.0])
    close(nn.CrossEntropyLoss(weight)(t, y), (picked * w).sum() / w.sum(), rtol=1e-4)
    with pytest.raises(ValueError, match="other is not a valid value for reduction"):
        F.cross_entropy(t, y, reduction="other")


def spelled(path, blank):
    """The labels that classes at each step spell: runs are one, blanks are none."""
    return [c for c, before in zip(path, [None, *path]) if c != before and c != blank]


@pytest.mark.parametrize("blank", [0, 2])
def test_ctc_is_the_probability_of_all_spellings(device, close, blank):
    scores = torch.tensor(rand(4, 3, 3), device=device).log_softmax(2)
    one, two = (c for c in range(3) if c != blank)
    labels, steps = [[one, one], [two], []], [4, 3, 2]
    p = scores.exp().cpu().numpy()
    want = []
    for n, (label, length) in enumerate(zip(labels, steps)):
        paths = (path for path in itertools.product(range(3), repeat=length) if spelled(path, blank) == label)
        want.append(-math.log(sum(math.prod(p[t, n, c] for t, c in enumerate(path)) for path in paths)))
    padded = torch.tensor([[one, one], [two, -1], [-1, -1]], device=device)
    line = torch.tensor([one, one, two], device=device)
    for targets in (padded, line):
        for lengths in ((steps, [2, 1, 0]), (torch.tensor(steps), torch.tensor([2, 1, 0]))):
            close(F.ctc_loss(scores, targets, *lengths, blank, "none"), want, rtol=1e-4)
    close(nn.CTCLoss(blank, "sum")(scores, line, steps, [2, 1, 0]), sum(want), rtol=1e-4)
    # The mean is one of losses by label.
    close(nn.CTCLoss(blank)(scores, line, steps, [2, 1, 0]), (want[0] / 2 + want[1] + want[2]) / 3, rtol=1e-4)
    close(F.ctc_loss(scores[:, 0], padded[0], (4,), (2,), blank, "none"), want[0], rtol=1e-4)


def test_ctc_gradients_are_those_of_scores(device, close):
    scores, targets = rand(6, 2, 4).astype(np.float64), torch.tensor([[1, 1, 3], [2, 3, 0]], device=device)

    def loss(scores):
        return F.ctc_loss(scores.log_softmax(2), targets, (6, 4), (3, 2), reduction="sum")

    x = torch.tensor(scores, device=device, requires_grad=True)
    loss(x).backward()
    want = np.zeros_like(scores)
    for at in np.ndindex(scores.shape):
        d = np.zeros_like(scores)
        d[at] = 1e-5
        up, down = (loss(torch.tensor(s, device=device)).item() for s in (scores + d, scores - d))
        want[at] = (up - down) / 2e-5
    close(x.grad, want, rtol=1e-4, atol=1e-6)
    # PyTorch's gradient of the probabilities: they, less how probable each class is at each step. Both sum to one.
    logs = torch.tensor(scores, device=device).log_softmax(2).requires_grad_()
    F.ctc_loss(logs, targets, (6, 4), (3, 2), reduction="sum").backward()
    close(logs.grad.sum(2), np.zeros((6, 2)), atol=1e-6)
    close(logs.grad, want, rtol=1e-4, atol=1e-6)
    assert logs.grad[4:, 1].abs().max().item() == 0


def test_ctc_of_labels_that_do_not_fit(device):
    x = torch.tensor(rand(3, 2, 3), device=device).log_softmax(2).requires_grad_()
    targets = torch.tensor([[1, 1], [1, 2]], device=device)
    loss = F.ctc_loss(x, targets, (2, 3), (2, 2), reduction="none")
    assert loss[0].item() == math.inf and loss[1].item() > 0
    loss.sum().backward()
    assert x.grad[:2, 0].isnan().all() and (x.grad[2, 0] == 0).all() and x.grad[:, 1].isfinite().all()
    x.grad = None
    loss = nn.CTCLoss(reduction="none", zero_infinity=True)(x, targets, (2, 3), (2, 2))
    loss.sum().backward()
    assert loss[0].item() == 0 and (x.grad[:, 0] == 0).all() and x.grad[:, 1].abs().sum().item() > 0
    (g,) = torch.autograd.grad(F.ctc_loss(x, targets, (3, 3), (1, 2)), x, create_graph=True)
    with pytest.raises(RuntimeError, match="derivative for aten::_ctc_loss_backward is not implemented"):
        g.sum().backward()


def test_ctc_of_other_lengths_compiles_nothing():
    x = torch.tensor(rand(8, 2, 5), device="tpu").log_softmax(2).requires_grad_()
    targets = torch.tensor([[1, 2, 3], [4, 4, 1]], device="tpu")

    def step(steps, labels):
        x.grad = None
        loss = F.ctc_loss(x, targets, steps, labels)
        loss.backward()
        return loss.item() + x.grad.sum().item()

    step((8, 7), (3, 2)), step((8, 7), (3, 2))
    before = torch.tpu.compilation_count()
    step((5, 8), (1, 3)), step((2, 0), (0, 0))
    assert torch.tpu.compilation_count() == before


@pytest.mark.parametrize(
    "loss, formula",
    [
        (nn.L1Loss(), lambda x, y: np.abs(x - y).mean()),
        (nn.MSELoss(), lambda x, y: ((x - y) ** 2).mean()),
        (nn.SmoothL1Loss(), lambda x, y: np.where(abs(x - y) < 1, (x - y) ** 2 / 2, abs(x - y) - 0.5).mean()),
        (
            nn.HuberLoss(delta=0.5),
            lambda x, y: np.where(abs(x - y) < 0.5, (x - y) ** 2 / 2, 0.5 * (abs(x - y) - 0.25)).mean(),
        ),
        (nn.BCEWithLogitsLoss(), lambda x, y: (np.log1p(np.exp(-abs(x))) + np.maximum(x, 0) - x * y).mean()),
        (nn.PoissonNLLLoss(), lambda x, y: (np.exp(x) - y * x).mean()),
    ],
    ids=lambda value: getattr(value, "_get_name", lambda: "")(),
)
def test_losses_with_simple_formulas(loss, formula, device, close):
    x, y = rand(5, 2), np.abs(rand(5, 2))[::-1].copy()
    close(loss(torch.tensor(x, device=device), torch.tensor(y, device=device)), formula(x, y), rtol=1e-4)


def test_attention_weights_sum_to_one_and_mask_is_obeyed(device):
    layer = nn.MultiheadAttention(8, 2, batch_first=True).to(device)
    x = torch.randn(2, 5, 8, device=device)
    mask = nn.Transformer.generate_square_subsequent_mask(5, device=device)
    out, weights = layer(x, x, x, attn_mask=mask)
    assert out.shape == (2, 5, 8)
    assert torch.allclose(weights.sum(-1), torch.ones(2, 5, device=device), atol=1e-5)
    assert float(weights.triu(1).abs().max()) == 0
    fast, none = layer(x, x, x, attn_mask=mask, need_weights=False)
    assert none is None and torch.allclose(fast, out, atol=1e-5)


def test_attention_leaves_heads_where_the_layer_has_them(device):
    """As in PyTorch, so that the heads of the result are joined without a copy."""
    b, length, h, e = 2, 5, 3, 4
    qkv = torch.randn(b, length, 3 * h * e, device=device).requires_grad_()
    q, k, v = (z.view(b, length, h, e).transpose(1, 2) for z in qkv.split(h * e, dim=2))
    y = F.scaled_dot_product_attention(q, k, v)
    assert y.shape == (b, h, length, e) and y.transpose(1, 2).is_contiguous()
    assert F.scaled_dot_product_attention(*(z.contiguous() for z in (q, k, v))).is_contiguous()
    y.transpose(1, 2).reshape(b, length, h * e).sum().backward()
    assert qkv.grad.is_contiguous() and qkv.grad.shape == qkv.shape


def test_encoder_is_causal_under_a_causal_mask(device):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).to(device).eval()
    x = torch.randn(1, 4, 8, device=device)
    mask = nn.Transformer.generate_square_subsequent_mask(4, device=device)
    changed = x.clone()
    changed[:, 3] += 1
    a, b = model(x, mask=mask), model(changed, mask=mask)
    assert torch.allclose(a[:, :3], b[:, :3], atol=1e-5) and not torch.allclose(a[:, 3], b[:, 3])


def test_init_bounds_and_errors():
    w = torch.empty(8, 4, 3, 3)
    bound = math.sqrt(3.0) * math.sqrt(2.0 / (1 + 5)) / math.sqrt(36)
    nn.init.kaiming_uniform_(w, a=math.sqrt(5))
    assert float(w.abs().max()) <= bound
    nn.init.trunc_normal_(w, a=-0.1, b=0.1)
    assert float(w.abs().max()) <= 0.1 + 1e-7
    nn.init.orthogonal_(q := torch.empty(3, 5))
    assert torch.allclose(q @ q.t(), torch.eye(3), atol=1e-5)
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        nn.init.xavier_uniform_(torch.empty(3))
    with pytest.raises(ValueError, match="Unsupported nonlinearity nope"):
        nn.init.calculate_gain("nope")


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


def test_packed_sequences_round_trip():
    from pytpu.nn.utils.rnn import pack_sequence, pad_packed_sequence, pad_sequence

    sequences = [torch.arange(n, dtype=torch.float32) + 1 for n in (1, 3, 2)]
    packed = pack_sequence(sequences, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 2, 1]
    padded, lengths = pad_packed_sequence(packed, batch_first=True)
    assert lengths.tolist() == [1, 3, 2]
    assert torch.equal(padded, pad_sequence(sequences, batch_first=True))


# ---- recurrent layers; the numbers are PyTorch's, from the same seeds


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
def test_packed_sequences_are_those_of_each_alone(make, lengths, device):
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
def test_packed_sequences_on_a_device_equal_those_of_the_host(make):
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


def test_an_encoder_gives_zeros_for_padding_where_nothing_is_recorded(device):
    layer = torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2).to(device).eval()
    x = torch.randn(2, 4, 8, device=device)
    padding = torch.tensor([[False, False, True, True], [False, False, False, True]], device=device)

    def zeros(**kw):
        return (encoder(x, **kw) == 0).all(-1).tolist()

    nowhere = [[False] * 4] * 2
    recorded = encoder(x, src_key_padding_mask=padding)
    assert (recorded == 0).all(-1).tolist() == nowhere
    with torch.no_grad():
        assert zeros(src_key_padding_mask=padding) == padding.tolist()
        kept = encoder(x, src_key_padding_mask=padding)[~padding]
        assert torch.allclose(kept, recorded[~padding], atol=1e-6)
        assert zeros(src_key_padding_mask=padding.flip(1)) == nowhere  # not behind the sequences
        causal = torch.ones(4, 4, dtype=torch.bool, device=device).triu(1)
        assert zeros(src_key_padding_mask=padding, mask=causal) == nowhere
        encoder.train()
        assert zeros(src_key_padding_mask=padding) == nowhere


@pytest.mark.parametrize(
    "settings, reason",
    [
        ({"norm_first": True, "batch_first": True}, "norm_first was True"),
        ({}, "batch_first was not True"),
        ({"bias": False, "batch_first": True}, "bias=False"),
        ({"activation": torch.tanh, "batch_first": True}, "activation_relu_or_gelu was not True"),
    ],
)
def test_an_encoder_says_why_it_keeps_padding(settings, reason):
    layer = torch.nn.TransformerEncoderLayer(8, 2, 8, **settings)
    with pytest.warns(
        UserWarning, match="enable_nested_tensor is True, but self.use_nested_tensor is False because.*" + reason
    ):
        torch.nn.TransformerEncoder(layer, 1)


def test_what_recurrent_layers_and_packing_refuse():
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


def test_elements_of_what_has_no_shape_yet_are_not_counted():
    layer = nn.LazyLinear(3)
    with pytest.raises(
        ValueError, match="Attempted to use an uninitialized parameter in .*numel.*parameter.UninitializedParameter"
    ):
        layer.weight.numel()
    layer(torch.ones(1, 2))
    assert layer.weight.numel() == 6


def test_words_of_warnings():
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1, enable_nested_tensor=False
    )
    padding = torch.zeros(1, 3, dtype=torch.bool)
    with pytest.warns(UserWarning, match="Support for mismatched src_key_padding_mask and mask is deprecated"):
        encoder(torch.ones(1, 3, 4), mask=torch.zeros(3, 3), src_key_padding_mask=padding)
    with pytest.warns(UserWarning, match="Support for mismatched src_key_padding_mask and src_mask is deprecated"):
        encoder.layers[0](torch.ones(1, 3, 4), src_mask=torch.zeros(3, 3), src_key_padding_mask=padding)
    with pytest.warns(UserWarning, match="mean is more than 2 std from .* in nn.init.trunc_normal_"):
        nn.init.trunc_normal_(torch.empty(2), mean=5.0)
