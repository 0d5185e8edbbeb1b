"""`torch.autocast` and `torch.amp.GradScaler`."""

import threading

import pytest

import pytpu as torch
from pytpu import nn
from pytpu.nn import functional as F
from pytpu.testing import assert_close
from pytpu.utils.checkpoint import checkpoint

BF16, F32 = torch.bfloat16, torch.float32


def numbers(*shape, seed=0, device="cpu"):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device)


# Each call, and PyTorch's dtypes of its result on cpu and on accelerators.
RESULTS = {
    "matmul of both": (lambda x, b: b @ x, BF16, BF16),
    "linear": (lambda x, b: F.linear(x, x, x[0]), BF16, BF16),
    "bmm": (lambda x, b: torch.bmm(x[None], x[None]), BF16, BF16),
    "einsum": (lambda x, b: torch.einsum("ij,jk->ik", x, x), BF16, BF16),
    "einsum of three": (lambda x, b: torch.einsum("ij,jk,kl->il", x, b, x), BF16, BF16),
    "interpolate": (lambda x, b: F.interpolate(b[None], scale_factor=2.0), BF16, F32),
    "tensordot": (lambda x, b: torch.tensordot(x, x, 1), BF16, BF16),
    "conv": (lambda x, b: F.conv1d(x[None], x[:, :, None]), BF16, BF16),
    "attention": (lambda x, b: F.scaled_dot_product_attention(x[None], b[None], x[None]), BF16, BF16),
    "of 64 bits": (lambda x, b: x.double() @ x.double(), torch.float64, torch.float64),
    "of integers": (lambda x, b: x.long() @ x.long(), torch.int64, torch.int64),
    "mv": (lambda x, b: torch.mv(x, x[0]), F32, BF16),
    "softmax": (lambda x, b: F.softmax(b, -1), BF16, F32),
    "layer_norm": (lambda x, b: F.layer_norm(b, (4,), x[0], x[1]), BF16, F32),
    "group_norm": (lambda x, b: F.group_norm(b, 2, x[0], x[1]), BF16, F32),
    "batch_norm": (lambda x, b: F.batch_norm(b, x[0], x[1].abs(), x[0], x[1]), BF16, BF16),
    "cross_entropy": (lambda x, b: F.cross_entropy(b, x.softmax(-1).argmax(-1)), F32, F32),
    "mse_loss": (lambda x, b: F.mse_loss(b, b), F32, F32),
    "pow": (lambda x, b: b**2, BF16, F32),
    "exp": (lambda x, b: b.exp(), BF16, F32),
    "sum": (lambda x, b: b.sum(), BF16, F32),
    "prod": (lambda x, b: b.prod(), F32, F32),
    "mean": (lambda x, b: b.mean(), BF16, BF16),
    "gelu": (lambda x, b: F.gelu(b), BF16, BF16),
    "cat": (lambda x, b: torch.cat([x, b]), F32, F32),
    "add": (lambda x, b: x + b, F32, F32),
    "addcmul": (lambda x, b: torch.addcmul(x, b, b), F32, F32),
    "cdist": (lambda x, b: torch.cdist(x, x), F32, F32),
    "in place": (lambda x, b: x.clone().addmm_(x, x), F32, F32),
    "out": (lambda x, b: torch.mm(x, x, out=torch.empty_like(x)), F32, F32),
    "lstm": (lambda x, b: nn.LSTM(4, 3, device=x.device)(x[None])[0], BF16, BF16),
    "encoder": (lambda x, b: nn.TransformerEncoderLayer(4, 2, 8, device=x.device)(x[None]), F32, F32),
}


@pytest.mark.parametrize("name", RESULTS)
def test_dtypes_of_results(name, device):
    f, on_cpu, on_tpu = RESULTS[name]
    x = numbers(4, 4, device=device)
    with torch.no_grad(), torch.autocast(device):
        y = f(x, x.bfloat16())
    assert y.dtype == (on_cpu if device == "cpu" else on_tpu)
    # Autocast of another device changes nothing.
    with torch.autocast("tpu" if device == "cpu" else "cpu"):
        assert torch.mm(x, x).dtype == F32


def test_results_equal_manual_casts(device):
    x, w, b = numbers(5, 8, device=device), numbers(3, 8, seed=1, device=device), numbers(3, seed=2, device=device)
    w.requires_grad_()
    with torch.autocast(device, dtype=BF16):
        loss = F.cross_entropy(F.linear(x, w, b), torch.tensor([0, 1, 2, 1, 0], device=device))
    assert loss.dtype == F32
    loss.backward()
    v = w.detach().requires_grad_()
    by_hand = F.linear(x.bfloat16(), v.bfloat16(), b.bfloat16()).float()
    by_hand = F.cross_entropy(by_hand, torch.tensor([0, 1, 2, 1, 0], device=device))
    by_hand.backward()
    assert_close(loss, by_hand)
    assert w.grad.dtype == F32
    assert_close(w.grad, v.grad)


def test_blocks_nest_and_end(device):
    x = numbers(4, 4, device=device)

    @torch.autocast(device)
    def product():
        return x @ x

    assert not torch.is_autocast_enabled(device)
    with torch.autocast(device, dtype=torch.float16):
        assert torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.float16
        assert (x @ x).dtype == torch.float16
        with torch.autocast(device, enabled=False):
            assert (x @ x).dtype == F32
        assert (x @ x).dtype == torch.float16
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), torch.autocast(device, dtype=BF16):
            x @ x[:3]
        assert (x @ x).dtype == torch.float16
        seen = []
        thread = threading.Thread(target=lambda: seen.append((x @ x).dtype))
        thread.start()
        thread.join()
        assert seen == [F32]
    assert (x @ x).dtype == F32 and torch.get_autocast_dtype(device) == BF16
    assert product().dtype == BF16 and (x @ x).dtype == F32


def test_a_parameter_is_cast_once(device):
    x, w = numbers(4, 4, device=device), numbers(4, 4, seed=1, device=device).requires_grad_()
    node = lambda y: y.grad_fn.next_functions[1][0]
    with torch.autocast(device):
        y = x @ w
        assert node(x @ w) == node(y)
        # The cast is repeated after a write in place.
        with torch.no_grad():
            w.mul_(2)
        assert_close(x @ w, 2 * y)
        with torch.autocast(device, cache_enabled=False):
            assert node(x @ w) != node(x @ w)
        with torch.no_grad():
            assert not (x @ w).requires_grad
        kept = node(x @ w)
    with torch.autocast(device):
        assert node(x @ w) != kept


def test_backward_runs_in_the_mode_of_forward(device):
    x, w = numbers(4, 4, device=device), numbers(4, 4, seed=1, device=device).requires_grad_()
    (x @ w).sum().backward()
    want, w.grad = w.grad, None
    y = x @ w
    with torch.autocast(device):
        y.sum().backward()
    assert_close(w.grad, want, rtol=0, atol=0)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoints_cast_again(device, use_reentrant):
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4)).to(device)
    x = numbers(3, 4, device=device).requires_grad_()
    grads = []
    for run in (net, lambda x: checkpoint(net, x, use_reentrant=use_reentrant)):
        net.zero_grad()
        with torch.autocast(device):
            y = run(x)
        assert y.dtype == BF16
        y.float().square().sum().backward()
        grads.append([p.grad.clone() for p in net.parameters()])
    assert_close(*grads, rtol=0, atol=0)


def test_custom_functions(device):
    seen = []

    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type=device, cast_inputs=F32)
        def forward(ctx, a, b):
            seen.append((a.dtype, torch.is_autocast_enabled(device)))
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @torch.amp.custom_bwd(device_type=device)
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            seen.append((g.dtype, torch.is_autocast_enabled(device)))
            return g @ b.t(), a.t() @ g

    class Plain(Product):
        forward = staticmethod(torch.amp.custom_fwd(lambda ctx, a: a.clone(), device_type=device))
        backward = staticmethod(
            torch.amp.custom_bwd(lambda ctx, g: seen.append(torch.is_autocast_enabled(device)), device_type=device)
        )

    x = numbers(3, 3, device=device).requires_grad_()
    with torch.autocast(device):
        y = Product.apply(x.bfloat16(), x)
        z = Plain.apply(x)
    assert y.dtype == F32
    (y.sum() + z.sum()).backward()
    assert seen[0] == (F32, False) and (F32, False) in seen[1:] and True in seen


def test_custom_functions_run_under_autocast(device):
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g @ b.t(), a.t() @ g

    a, b = (numbers(3, 3, seed=k, device=device).requires_grad_() for k in (0, 1))
    with torch.autocast(device):
        Product.apply(a, b).sum().backward()
        assert (a @ b).dtype == BF16
    assert a.grad.dtype == F32
    assert_close(a.grad, b.detach().sum(1).expand(3, 3), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_accept_the_dtype_of_products(layer, device):
    net = nn.Sequential(nn.Linear(4, 3), layer(3, 2)).to(device)
    with torch.autocast(device):
        y, _ = net(numbers(5, 2, 4, device=device))
    assert y.dtype == BF16
    y.float().sum().backward()
    assert all(p.grad.dtype == F32 for p in net.parameters())


LOSSES = {
    "binary_cross_entropy_with_logits": lambda b: (b, b.sigmoid()),
    "cosine_embedding_loss": lambda b: (b, b, b[:, 0].sign()),
    "hinge_embedding_loss": lambda b: (b, b.sign()),
    "huber_loss": lambda b: (b, b),
    "kl_div": lambda b: (b, b.sigmoid()),
    "l1_loss": lambda b: (b, b),
    "margin_ranking_loss": lambda b: (b, b, b.sign()),
    "poisson_nll_loss": lambda b: (b, b.abs()),
    "smooth_l1_loss": lambda b: (b, b),
    "soft_margin_loss": lambda b: (b, b.sign()),
    "triplet_margin_loss": lambda b: (b, b, b),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_computed_in_float32(name, device):
    with torch.autocast(device):
        assert getattr(F, name)(*LOSSES[name](numbers(4, 4, device=device).bfloat16())).dtype == F32


def test_unavailable_devices_and_deprecated_names_warn():
    for name, text in (
        ("cuda", "^CUDA is not available .* Disabling autocast.$"),
        ("mps", "device_type of 'mps'.*Disabling"),
    ):
        with pytest.warns(UserWarning, match=text):
            block = torch.autocast(name, dtype=torch.float16)
        x = torch.ones(2, 2)
        with block:
            assert (x @ x).dtype == F32
    for name in ("autocast", "GradScaler"):
        for kind in ("cpu", "cuda"):
            old, new = rf"torch.{kind}.amp.{name}\(args...\)", rf"torch.amp.{name}\('{kind}', args...\)"
            text = f"`{old}` is deprecated. Please use `{new}`"
            with pytest.warns(FutureWarning, match=text):
                getattr(getattr(torch, kind).amp, name)(enabled=False)
    with pytest.warns(FutureWarning), pytest.warns(UserWarning, match="is not available"):
        assert torch.cuda.amp.GradScaler().scale(2) == 2
    with pytest.warns(UserWarning, match="target dtype is not supported"):
        assert not torch.autocast("cpu", dtype=torch.float64)._enabled
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'gpu'"):
        torch.autocast("gpu")
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        torch.autocast(torch.device("cpu"))
    assert torch.amp.is_autocast_available("tpu") and not torch.amp.is_autocast_available("cuda")


def test_a_training_step_compiles_once():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 4)).to("tpu")
    opt = torch.optim.AdamW(net.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("tpu", init_scale=256.0, growth_interval=4)
    x, t = numbers(32, 8, device="tpu"), torch.arange(32, device="tpu") % 4
    losses = []
    for i in range(12):
        if i == 3:
            assert scaler.get_scale() == 256
        if i == 5:
            before = torch.tpu.compilation_count()
        opt.zero_grad()
        with torch.autocast("tpu", dtype=torch.float16):
            loss = F.cross_entropy(net(x), t)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert scaler.get_scale() == 256 * 2**3
    assert torch.tpu.compilation_count() == before


@pytest.mark.parametrize("spelled", ["tpu", "tpu:0", "cpu", "cpu:0"])
def test_a_scaler_takes_each_spelling_of_a_device(spelled):
    for device in (spelled, torch.device(spelled)):
        scaler = torch.amp.GradScaler(device, init_scale=8.0)
        assert scaler.is_enabled() and scaler.scale(torch.ones((), device=device)).item() == 8
        p = torch.ones(2, device=device, requires_grad=True)
        optimizer = torch.optim.SGD([p], lr=1.0)
        scaler.scale(p.sum()).backward()
        scaler.step(optimizer)
        scaler.update(torch.tensor(4.0, device=device))
        assert p.tolist() == [0, 0] and scaler.get_scale() == 4


def test_steps_with_infinities_are_left_out(device):
    p = torch.ones(3, device=device).requires_grad_()
    opt = torch.optim.SGD([p], lr=1.0)
    scaler = torch.amp.GradScaler(device, init_scale=8.0, growth_interval=2)
    scales, values = [], []
    for factor in (1.0, float("inf"), 1.0, 1.0, float("nan"), 1.0):
        opt.zero_grad()
        scaler.scale((p * factor).sum() * 0.125).backward()
        scaler.step(opt)
        scaler.update()
        scales.append(scaler.get_scale())
        values.append(p[0].item())
    assert scales == [8, 4, 4, 8, 4, 4]
    assert values == [0.875, 0.875, 0.75, 0.625, 0.625, 0.5]
    state = scaler.state_dict()
    assert state == {
        "scale": 4.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 2,
        "_growth_tracker": 1,
    }
    other = torch.amp.GradScaler(device)
    other.load_state_dict(state)
    assert other.state_dict() == state


def test_a_scaler_is_used_in_order():
    p = torch.ones(3).requires_grad_()
    opt = torch.optim.SGD([p], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with pytest.raises(AssertionError, match="Attempted step but _scale is None"):
        scaler.step(opt)
    scaler.scale(p.sum()).backward()
    scaler.unscale_(opt)
    assert p.grad.tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called"):
        scaler.unscale_(opt)
    scaler.step(opt)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called since the last update"):
        scaler.step(opt)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) is being called after step"):
        scaler.unscale_(opt)
    scaler.update(2.0)
    assert scaler.get_scale() == 2
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
        scaler.step(opt, closure=lambda: None)
    half = torch.ones(2, dtype=torch.float16).requires_grad_()
    half.grad = torch.ones_like(half)
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.unscale_(torch.optim.SGD([half], lr=1.0))
    off = torch.amp.GradScaler("cpu", enabled=False)
    assert off.scale(p) is p and off.get_scale() == 1 and off.state_dict() == {}


DECOMPOSITIONS = {
    "svdvals": torch.linalg.svdvals,
    "svd": torch.linalg.svd,
    "torch.svd": torch.svd,
    "eigvalsh": torch.linalg.eigvalsh,
    "eigh": torch.linalg.eigh,
    "qr": torch.linalg.qr,
    "inv": torch.linalg.inv,
    "inv_ex": lambda x: torch.linalg.inv_ex(x)[0],
    "inverse": torch.inverse,
    "pinverse": torch.pinverse,
    "cond": torch.linalg.cond,
    "solve": lambda x: torch.linalg.solve(x, x),
    "lstsq": lambda x: torch.linalg.lstsq(x, x)[0],
    "cholesky": torch.linalg.cholesky,
    "cholesky_ex": lambda x: torch.linalg.cholesky_ex(x)[0],
    "cholesky_solve": lambda x: torch.cholesky_solve(x, x),
    "cholesky_inverse": torch.cholesky_inverse,
    "householder_product": lambda x: torch.linalg.householder_product(x, x[0]),
    "geqrf": torch.geqrf,
    "tensorinv": lambda x: torch.linalg.tensorinv(x, 1),
    "tensorsolve": lambda x: torch.linalg.tensorsolve(x, x[0]),
    "triangular_solve": lambda x: torch.triangular_solve(x, x)[0],
}


@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_decompositions_are_computed_in_float32_on_cpu(name):
    x = torch.eye(3, dtype=BF16) * 2
    with torch.autocast("cpu", dtype=BF16):
        y = DECOMPOSITIONS[name](x)
    assert all(t.dtype is F32 for t in (y if isinstance(y, tuple) else [y]))
    with pytest.raises((NotImplementedError, RuntimeError)):
        DECOMPOSITIONS[name](x)


def test_decompositions_that_autocast_does_not_know_refuse_16_bits():
    x = torch.eye(3, dtype=BF16)
    with torch.autocast("cpu", dtype=BF16):
        assert torch.linalg.eigvals(x).dtype is torch.complex64 and torch.linalg.matrix_rank(x).item() == 3
        for f in (torch.linalg.det, torch.linalg.lu, torch.linalg.lu_factor, torch.linalg.slogdet):
            with pytest.raises(NotImplementedError, match="BFloat16"):
                f(x)
