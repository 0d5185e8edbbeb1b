"""ONNX models run by onnxruntime, against the modules that they were made from."""

import io
import pathlib
import sys
import zipfile

import numpy as np
import pytest

import pytpu as torch
from pytpu import nn
from pytpu.nn import functional as F
from pytpu.utils import _pytree

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "goldens"))
import export_programs  # noqa: E402

PROGRAMS = "perceptron residual attention constants without_gradient sizes derived".split()


def run(made, inputs):
    session = onnxruntime.InferenceSession(made.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    assert len(names) == len(inputs)
    return session.run(None, {name: value.numpy() for name, value in zip(names, inputs)})


def check(made, module, args, kwargs=None):
    inputs = [value for value in _pytree.tree_leaves((args, kwargs or {})) if isinstance(value, torch.Tensor)]
    with torch.no_grad():
        wanted = _pytree.tree_leaves(module(*args, **kwargs or {}))
    wanted = [value.detach() for value in wanted if isinstance(value, torch.Tensor)]
    results = run(made, inputs)
    assert len(results) == len(wanted)
    for result, value in zip(results, wanted):
        assert result.shape == tuple(value.shape)
        assert result.dtype == value.numpy().dtype
        np.testing.assert_allclose(result, value.numpy(), rtol=1e-4, atol=1e-5)


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


X = torch.linspace(-3.3, 2.9, 48).reshape(2, 4, 6)
P = X.abs() + 0.5
N = (torch.arange(48).reshape(2, 4, 6) * 7) % 11 - 4
B = X > 0.3
I4 = torch.rand(2, 4, 8, 8, generator=torch.Generator().manual_seed(0)) - 0.4

OPERATORS = {
    "relu sigmoid tanh exp abs neg floor ceil erf sin cos atan sinh asinh sign round": None,
    "log": (lambda x: (x.log(), x.sqrt(), x.rsqrt(), x.log1p(), x.log2(), x.log10(), x.reciprocal()), P),
    "expm1": (lambda x: (x.expm1(), x.square(), x.isnan(), x.isinf()), X),
    "of_ints": (lambda x: (x.exp(), x.float().sqrt().isnan(), x.abs(), x.square(), x.double()), N),
    "activations": (
        lambda x: (
            F.silu(x),
            F.gelu(x),
            F.gelu(x, approximate="tanh"),
            F.elu(x, 0.7),
            F.celu(x, 1.3),
            F.selu(x),
            F.mish(x),
            F.leaky_relu(x, 0.2),
            F.softplus(x),
            F.softsign(x),
            F.hardsigmoid(x),
            F.hardswish(x),
            F.hardtanh(x),
            F.relu6(x),
            F.glu(x),
            F.logsigmoid(x),
            F.tanhshrink(x),
        ),
        X,
    ),
    "clamp": (lambda x: (x.clamp(-1, 1.5), x.clamp(min=0.5), x.clamp(max=x.mean()), x.clamp_min(0.1)), X),
    "clamp_ints": (lambda x: (x.clamp(-1, 3), x.clamp(max=2)), N),
    "add": (
        lambda x, n: (x + n, x - 2, 3 - x, torch.sub(x, n, alpha=2), torch.rsub(x, 2, alpha=3), n + 2, n + 0.5),
        X,
        N,
    ),
    "mul": (lambda x, n: (x * n, n * 2, x.maximum(n.float()), torch.minimum(x, -x), n * n, x**2, n**2, 2.0**x), X, N),
    "div": (
        lambda x, n: (
            x / 2,
            n / 3,
            n // 3,
            x // 0.7,
            torch.div(x, 0.7, rounding_mode="trunc"),
            x % 0.7,
            n % 3,
            n % -3,
            torch.div(n, -3, rounding_mode="floor"),
            torch.div(n, -3, rounding_mode="trunc"),
        ),
        X,
        N,
    ),
    "compare": (lambda x, n: (x < n, x >= 0, n == 3, n != 3, n > 1.5, x <= x.mean(), (n > 0) == (x > 0)), X, N),
    "logic": (
        lambda b, n: (
            b & (n > 0),
            b | (n > 0),
            b ^ (n > 0),
            ~b,
            torch.logical_and(b, n),
            n & 3,
            n | 1,
            ~n,
            n.logical_not(),
        ),
        B,
        N,
    ),
    "where": (lambda b, x, n: (torch.where(b, x, n), torch.where(b, x, 0.5), x.masked_fill(b, -2.0)), B, X, N),
    "casts": (lambda x, n, b: (x.int(), n.float(), b.float(), n.bool(), x.to(torch.float64), b.long() + n), X, N, B),
    "products": (
        lambda x: (
            x @ x.mT,
            x.bmm(x.transpose(1, 2)),
            x[0] @ x[0, 0],
            torch.addmm(x[0], x[0, :, :4], x[1], beta=2, alpha=0.5),
            torch.einsum("bij,bkj->bik", x, x),
            torch.baddbmm(x, x[:, :, :4], x),
            x[0].mm(x[1].t()),
            torch.outer(x[0, 0], x[0, 1]),
        ),
        X,
    ),
    "shapes": (
        lambda x: (
            x.view(8, 6),
            x.reshape(2, -1),
            x.flatten(),
            x.flatten(1),
            x.flatten(0, 1),
            x.unflatten(2, (2, 3)),
            x.unflatten(0, (1, 2)),
            x.unsqueeze(-1),
            x.unsqueeze(1).squeeze(1),
            x[:1].squeeze(),
            x.permute(2, 0, 1),
            x.movedim(0, 2),
            x.movedim((0, 1), (2, 0)),
            x.transpose(0, 2),
            x[0].t(),
            x[:, :1].expand(-1, 4, -1),
            x[0].expand(3, 2, 4, 6)[:, 0],
            x.repeat(2, 1, 1),
            x.repeat(2, 1, 1, 3),
            x.view_as(x),
            x[:1].expand_as(x),
        ),
        X,
    ),
    "parts": (
        lambda x, n: (
            torch.cat([x, n], 1),
            torch.stack([x, x * 2], -1),
            torch.stack([x, n]),
            x.split(3, 2),
            x.split([1, 3], 1),
            x.chunk(3, -1),
            x.unbind(1),
            x[:, 1:-1],
            x[..., ::2],
            x[:, -2:],
            x[:, 3],
            x[:, -1, 2],
            x.narrow(1, 1, 2),
            x.flip(1, 2),
            x.narrow(2, -3, 2),
            x.roll(1, 2),
            x.select(-1, -2),
            x[None, :, None],
        ),
        X,
        N,
    ),
    "pad": (
        lambda x: (
            F.pad(x, (1, 2)),
            F.pad(x, (1, 0, 0, 2), value=1.5),
            F.pad(x, (2, 1), mode="reflect"),
            F.pad(x, (2, 1), mode="replicate"),
            F.pad(x, (-1, 2)),
            x.tril(),
            x.triu(1),
            x.tril(-1),
        ),
        X,
    ),
    "indices": (
        lambda x, n: (
            x[:, n[0, :2, 0] % 4],
            x.index_select(2, n[0, 0].abs() % 6),
            x.gather(1, n.abs() % 4),
            x[n[0, 0] % 2, n[0, 1] % 4],
            F.embedding(n % 4, x[0]),
            F.one_hot(n % 5, 5),
            x.take_along_dim(n % 6, 2),
        ),
        X,
        N,
    ),
    "order": (
        lambda x: (x.topk(3), x.topk(2, 1, largest=False), x.sort(1), x.sort(-1, descending=True), x.sin().argsort(1)),
        X,
    ),
    "reductions": (
        lambda x: (
            x.sum(),
            x.sum(1),
            x.sum((0, 2), keepdim=True),
            x.mean(),
            x.mean(-1),
            x.amax(1),
            x.amin((0, 1)),
            x.prod(1),
            x.logsumexp(1),
            x.max(),
            x.min(),
            x.max(1),
            x.min(-1, keepdim=True),
            torch.max(x, -x),
            x.argmax(),
            x.argmin(1),
            x.argmax(-1, keepdim=True),
            x.var(),
            x.var(1),
            x.std(1, unbiased=False),
            x.var((0, 1), correction=0, keepdim=True),
            x.norm(),
            x.norm(dim=1),
            x.norm(1, dim=1),
            torch.linalg.vector_norm(x, dim=-1, keepdim=True),
            x.cumsum(1),
            x.softmax(1),
            x.log_softmax(-1),
            F.normalize(x, dim=1),
            F.cosine_similarity(x, x + 1, dim=1),
        ),
        X,
    ),
    "reductions_of_others": (
        lambda n, b: (n.sum(), n.sum(1), b.sum(), b.any(), b.any(1), b.all(0), n.amax(1), b.float().mean()),
        N,
        B,
    ),
    "attention": (
        lambda x: (
            F.scaled_dot_product_attention(x, x, x),
            F.scaled_dot_product_attention(x, x, x, is_causal=True),
            F.scaled_dot_product_attention(x, x, x, attn_mask=x[0, :, :4] < 1),
            F.scaled_dot_product_attention(x, x, x, scale=0.3),
            F.scaled_dot_product_attention(x, x, x, attn_mask=x[:, :, :4]),
        ),
        X,
    ),
    "norms": (
        lambda x, y: (
            F.layer_norm(x, (6,)),
            F.layer_norm(x, (4, 6), x[0], x[1], 1e-3),
            F.rms_norm(x, (6,)),
            F.rms_norm(x, (6,), x[0, 0], 1e-3),
            F.batch_norm(y, y[0, :, 0, 0], y[1, :, 0, 0].abs()),
            F.group_norm(y, 2),
            F.group_norm(y, 2, y[0, :, 0, 1], y[0, :, 1, 0]),
        ),
        X,
        I4,
    ),
    "images": (
        lambda y: (
            F.conv2d(y, y[:, :, :3, :3]),
            F.conv2d(y, y[:, :2, :3, :3], padding="same", groups=2),
            F.conv2d(y[0], y[:, :, :2, :3], y[0, 0, 0, :2], (2, 1), (1, 0), 2),
            F.conv2d(y, y[:, :, :2, :2], padding="same", dilation=3),
            F.conv1d(y[:, :, 0], y[:, :, :3, 0]),
            F.conv3d(y[:, None], y[:, None, :3, :3, :3]),
            F.conv_transpose2d(y, y[:, :, :2, :2].repeat(2, 1, 1, 1), stride=2, padding=1, output_padding=1),
            F.max_pool2d(y, 2),
            F.max_pool2d(y, 3, 2, 1),
            F.max_pool2d(y, 3, 2, ceil_mode=True),
            F.avg_pool2d(y, 2),
            F.avg_pool2d(y, 3, 2, 1),
            F.avg_pool2d(y, 3, 2, 1, count_include_pad=False),
            F.avg_pool1d(y[0], 2),
            F.adaptive_avg_pool2d(y, 1),
            F.adaptive_avg_pool2d(y, (4, 2)),
            F.adaptive_max_pool2d(y, 2),
            F.pixel_shuffle(y, 2),
            F.interpolate(y, scale_factor=2),
            F.interpolate(y, size=(5, 13)),
            F.interpolate(y, scale_factor=1.5),
            F.interpolate(y, scale_factor=2, mode="bilinear"),
            F.interpolate(y, size=(5, 11), mode="bilinear", align_corners=True),
            F.interpolate(y, scale_factor=2, mode="bicubic"),
            F.interpolate(y[:, :, 0], scale_factor=2, mode="linear"),
        ),
        I4,
    ),
    "new_tensors": (
        lambda x: (
            x + torch.arange(6),
            torch.arange(1, 7, 2),
            torch.arange(0, 1, 0.25),
            torch.full((2,), 3.5) + x[0, 0, 0],
            torch.zeros(3),
            torch.ones(2, dtype=torch.int32),
            x.new_zeros(2),
            x.new_full((2, 2), 7),
            torch.zeros_like(x),
            torch.full_like(x, 2, dtype=torch.int64),
            torch.eye(3) + x[0, 0, 0],
            torch.tensor([1, 2]),
            torch.linspace(0, 1, 5),
            torch.ones_like(x, dtype=torch.bool),
        ),
        X,
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    if OPERATORS[name] is None:
        names = name.split()
        function, args = (lambda x: [getattr(torch, n)(x) for n in names]), (X,)
    else:
        function, *args = OPERATORS[name]
    module = Function(function)
    results = _pytree.tree_leaves(module(*args))
    wrong = []
    for i in range(len(results)):
        one = Function(lambda *x, i=i: _pytree.tree_leaves(function(*x))[i])
        try:
            check(torch.onnx.export(one, tuple(args)), one, tuple(args))
        except Exception as error:
            wrong.append(f"{i}: {type(error).__name__}: {str(error)[:300]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    module, args, kwargs, dynamic_shapes = export_programs.programs(torch)[name]
    made = torch.onnx.export(module, args, kwargs=kwargs, dynamic_shapes=dynamic_shapes)
    check(made, module, args, kwargs)


def test_models():
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2, enable_nested_tensor=False
    ).eval()
    made = torch.onnx.export(encoder, (torch.randn(2, 5, 16),), dynamic_shapes=({0: torch.export.Dim("b")},))
    for batch in (2, 7):
        check(made, encoder, (torch.randn(batch, 5, 16),))
    image = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU(), nn.AvgPool2d(2), nn.ConvTranspose2d(8, 4, 2, 2),
        nn.BatchNorm2d(4), nn.Upsample(scale_factor=2, mode="bilinear"), nn.Hardswish(), nn.PixelShuffle(2),
    ).eval()  # fmt: skip
    sizes = ({0: torch.export.Dim.AUTO, 2: torch.export.Dim.AUTO, 3: torch.export.Dim.AUTO},)
    made = torch.onnx.export(image, (torch.randn(2, 3, 8, 12),), dynamic_shapes=sizes)
    for size in ((2, 3, 8, 12), (1, 3, 16, 4), (3, 3, 10, 10)):
        check(made, image, (torch.randn(size),))


def test_files_and_names(tmp_path):
    model = nn.Linear(3, 2)
    x = torch.randn(4, 3)
    path = tmp_path / "model.onnx"
    made = torch.onnx.export(
        model, x, path, input_names=["weight"], output_names=["linear"], dynamic_axes={"weight": {0: "n"}}
    )
    read = onnx.load(path)
    assert read == made.model_proto
    assert [value.name for value in read.graph.input] == ["weight"]
    assert [value.name for value in read.graph.output] == ["linear"]
    assert read.opset_import[0].version == 18
    assert read.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    check(made, model, (torch.randn(9, 3),))
    file = io.BytesIO()
    program = torch.export.export(model, (x,))
    torch.onnx.export(program, (), file, dynamo=True)
    assert onnx.load_from_string(file.getvalue()).graph.input[0].name == "input"
    made.save(tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == path.read_bytes()


def test_refusals():
    refused = torch.onnx.OnnxExporterError
    x = torch.randn(2, 3)
    with pytest.raises(refused, match=r"aten\.fft_fft\.default|aten\.\S*fft\S*|complex"):
        torch.onnx.export(Function(lambda x: torch.fft.fft(x).real), (x,))
    with pytest.raises(refused, match=r"call eval\(\) first"):
        torch.onnx.export(nn.Dropout(), (x,))
    with pytest.raises(refused, match=r"round.* with decimals=1"):
        torch.onnx.export(Function(lambda x: x.round(decimals=1)), (x,))
    with pytest.raises(refused, match="a write to an input"):
        torch.onnx.export(Function(lambda x: x.add_(1)), (x,))
    with pytest.raises(refused, match="version 11"):
        torch.onnx.export(nn.Linear(3, 2), (x,), opset_version=11)
    with pytest.raises(refused, match="custom_opsets"):
        torch.onnx.export(nn.Linear(3, 2), (x,), custom_opsets={"mine": 1})
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        torch.onnx.export(nn.Linear(3, 2), (x,), nothing=1)
    with pytest.raises(ValueError, match="2 names for 1 inputs"):
        torch.onnx.export(nn.Linear(3, 2), (x,), input_names=["a", "b"])
    with pytest.raises(ValueError, match="have one name"):
        torch.onnx.export(nn.Linear(3, 2), (x,), input_names=["a"], output_names=["a"])


@pytest.mark.parametrize("form", ["pt2", "core.pt2"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_pytorch(name, form):
    path = pathlib.Path(export_programs.__file__).parent / "export_programs.zip"
    with zipfile.ZipFile(path) as archive:
        if f"{name}.{form}" not in archive.namelist():
            pytest.skip("PyTorch does not take this program apart")
        program = torch.export.load(io.BytesIO(archive.read(f"{name}.{form}")))
    check(torch.onnx.export(program), program.module(), *program.example_inputs)
