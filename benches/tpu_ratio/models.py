"""Our side of the comparison: the models of `twins.py` as a PyTorch user writes them, on device "tpu".

A row is a function that makes its model and runs three steps. The last step's programs are compared with the twin's.
"""

import sizes

import pytpu as torch
import pytpu.nn.functional as F
from pytpu import nn


def trained(model, batch, loss, dtype):
    """Three steps of AdamW on a batch."""
    model = model.to(dtype).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    for _ in range(3):
        x, y = (t.to("tpu") for t in batch)
        value = loss(model(x), y)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()


# GPT.


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        width = size.width
        self.heads = size.heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = (a.view(b, t, self.heads, -1).transpose(1, 2) for a in self.qkv(self.ln1(x)).split(width, dim=2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, width))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.token, self.position = nn.Embedding(size.vocabulary, size.width), nn.Embedding(size.block, size.width)
        self.blocks = nn.Sequential(*(Block(size) for _ in range(size.layers)))
        self.ln = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)
        self.head.weight = self.token.weight

    def forward(self, x):
        h = self.token(x) + self.position(torch.arange(x.shape[1], device=x.device))
        return self.head(self.ln(self.blocks(h)))


def gpt(size, dtype):
    letters = torch.zeros(size.batch, size.block, dtype=torch.int64)
    loss = lambda out, y: F.cross_entropy(out.flatten(0, 1).float(), y.flatten())
    with torch.device("meta"):
        model = GPT(size)
    trained(model.to_empty(device="cpu"), (letters, letters), loss, dtype)


# Convolutions.


def digits():
    size = sizes.DIGITS
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )
    batch = torch.zeros(size.batch, 1, 8, 8), torch.zeros(size.batch, dtype=torch.int64)
    trained(model, batch, F.cross_entropy, torch.float32)


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride, has_down):
        super().__init__()
        conv = lambda i, o, k, s=1: nn.Conv2d(i, o, k, s, k // 2, bias=False)
        self.conv1, self.bn1 = conv(channels, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = conv(width, 4 * width, 1), nn.BatchNorm2d(4 * width)
        self.down = nn.Sequential(conv(channels, 4 * width, 1, stride), nn.BatchNorm2d(4 * width)) if has_down else None

    def forward(self, x):
        z = F.relu(self.bn1(self.conv1(x)))
        z = F.relu(self.bn2(self.conv2(z)))
        z = self.bn3(self.conv3(z))
        return F.relu(z + (x if self.down is None else self.down(x)))


def resnet50():
    blocks, channels = [], 64
    for stage, (width, count) in enumerate(zip((64, 128, 256, 512), (3, 4, 6, 3))):
        for i in range(count):
            blocks.append(Bottleneck(channels, width, 2 if stage > 0 and i == 0 else 1, i == 0))
            channels = 4 * width
    model = nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, 1000),
    )
    n = sizes.RESNET50.batch
    batch = torch.zeros(n, 3, 224, 224, dtype=torch.bfloat16), torch.zeros(n, dtype=torch.int64)
    trained(model, batch, lambda out, y: F.cross_entropy(out.float(), y), torch.bfloat16)


# Attention alone, and a llama that decodes.


def attention(head_dim):
    size = sizes.ATTENTION
    shape = size.batch, size.width // head_dim, size.block, head_dim
    for _ in range(3):
        q, k, v, g = (torch.zeros(shape, dtype=torch.bfloat16).to("tpu") for _ in range(4))
        for x in (q, k, v):
            x.requires_grad_()
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        gradients = torch.autograd.grad(y, (q, k, v), g)
        torch.tpu.mark_step()
        del y, gradients


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        width, heads, kv, d = size.width, size.heads, size.kv_heads, size.head_dim
        linear = lambda i, o: nn.Linear(i, o, bias=False)
        self.ln1, self.ln2 = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.q, self.k, self.v, self.o = (
            linear(width, heads * d),
            linear(width, kv * d),
            linear(width, kv * d),
            linear(heads * d, width),
        )
        self.gate, self.up, self.down = (
            linear(width, size.hidden),
            linear(width, size.hidden),
            linear(size.hidden, width),
        )

    def forward(self, x, keys, values, place, turn, seen):
        b, head_dim = x.shape[0], keys.shape[-1]
        h = self.ln1(x)
        q, k, v = (p(h).view(b, 1, -1, head_dim).transpose(1, 2) for p in (self.q, self.k, self.v))
        keys.index_copy_(2, place, turn(k))
        values.index_copy_(2, place, v)
        a = F.scaled_dot_product_attention(turn(q), keys, values, attn_mask=seen, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, 1, -1))
        h = self.ln2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.token = nn.Embedding(size.vocabulary, size.width)
        self.layers = nn.ModuleList(Layer(size) for _ in range(size.layers))
        self.ln = nn.RMSNorm(size.width, eps=1e-6)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(self, ids, cache, place, frequencies):
        x = self.token(ids)
        angles = place.float() * frequencies
        angles = torch.cat((angles, angles))
        cos, sin, half = angles.cos().to(x.dtype), angles.sin().to(x.dtype), len(frequencies)
        turn = lambda x: x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin
        seen = (torch.arange(cache[0][0].shape[2], device=x.device) <= place)[None, None, None]
        for layer, (keys, values) in zip(self.layers, cache):
            x = layer(x, keys, values, place, turn, seen)
        return self.head(self.ln(x))[:, -1].argmax(-1)


@torch.no_grad()
def llama_decode():
    size = sizes.LLAMA
    with torch.device("meta"):
        model = Llama(size)
    model = model.to_empty(device="cpu").to(torch.bfloat16).to("tpu")
    shape = size.batch, size.kv_heads, size.block, size.head_dim
    cache = [tuple(torch.zeros(shape, dtype=torch.bfloat16).to("tpu") for _ in range(2)) for _ in range(size.layers)]
    frequencies = (1 / 10000 ** (torch.arange(0, size.head_dim, 2).float() / size.head_dim)).to("tpu")
    ids = torch.zeros(size.batch, 1, dtype=torch.int64).to("tpu")
    for i in range(3):
        ids = model(ids, cache, torch.tensor([i + 5]).to("tpu"), frequencies)[:, None]
        torch.tpu.mark_step()


# Single ops, and a recommender.


@torch.no_grad()
def dropout():
    size = sizes.DROPOUT
    for _ in range(3):
        x = torch.zeros(size.rows, size.width, dtype=torch.bfloat16).to("tpu")
        y = F.dropout(x, size.p)
        torch.tpu.mark_step()
        del y


class Tables(nn.Module):
    def __init__(self, size):
        super().__init__()
        bag = lambda: nn.EmbeddingBag(size.rows, size.width, mode="sum")
        self.tables = nn.ModuleList(bag() for _ in range(size.count))
        self.head = nn.Linear(size.count * size.width, 1)

    def forward(self, ids):
        found = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        return self.head(torch.cat(found, dim=1))[:, 0]


def tables():
    """Tables that SGD trains without weight decay."""
    size = sizes.TABLES
    with torch.device("meta"):
        model = Tables(size)
    model = model.to_empty(device="cpu").to("tpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        ids = torch.zeros(size.batch, size.count, size.bag, dtype=torch.int32).to("tpu")
        wanted = torch.zeros(size.batch).to("tpu")
        F.mse_loss(model(ids), wanted).backward()
        optimizer.step()
        optimizer.zero_grad()


def depthwise():
    size = sizes.DEPTHWISE
    for _ in range(3):
        x = torch.zeros(size.batch, size.channels, size.size, size.size, dtype=torch.bfloat16).to("tpu")
        w = torch.zeros(size.channels, 1, 3, 3, dtype=torch.bfloat16).to("tpu")
        x.requires_grad_()
        w.requires_grad_()
        g = torch.zeros(size.batch, size.channels, size.size, size.size, dtype=torch.bfloat16).to("tpu")
        y = F.conv2d(x, w, padding=1, groups=size.channels)
        gradients = torch.autograd.grad(y, (x, w), g)
        torch.tpu.mark_step()
        del y, gradients


@torch.no_grad()
def remainder():
    """The remainder of `int64` numbers. JAX's are `int32`."""
    size = sizes.REMAINDER
    for _ in range(3):
        y = torch.zeros(size.rows, size.columns, dtype=torch.int64).to("tpu") % size.by
        torch.tpu.mark_step()
        del y


def compiled_gpt():
    """The small GPT in `torch.compile`: it must cost what it costs without."""
    size = sizes.SMALL_GPT
    letters = torch.zeros(size.batch, size.block, dtype=torch.int64)
    loss = lambda out, y: F.cross_entropy(out.flatten(0, 1).float(), y.flatten())
    with torch.device("meta"):
        model = GPT(size)
    trained(torch.compile(model.to_empty(device="cpu")), (letters, letters), loss, torch.float32)


# Rows that are compared with the twin of another row.
TWIN_OF = {"compiled_gpt": "small_gpt"}

ROWS = {
    "gpt2_bf16": (lambda: gpt(sizes.GPT2, torch.bfloat16), "medium"),
    "gpt2_f32": (lambda: gpt(sizes.GPT2, torch.float32), "medium"),
    "resnet50": (resnet50, "medium"),
    "llama_decode": (llama_decode, "medium"),
    "attention_64": (lambda: attention(64), "medium"),
    "attention_128": (lambda: attention(128), "medium"),
    "digits": (digits, "highest"),
    "small_gpt": (lambda: gpt(sizes.SMALL_GPT, torch.float32), "highest"),
    "compiled_gpt": (compiled_gpt, "highest"),
    "dropout": (dropout, "medium"),
    "tables": (tables, "medium"),
    "depthwise": (depthwise, "medium"),
    "remainder": (remainder, "medium"),
}
