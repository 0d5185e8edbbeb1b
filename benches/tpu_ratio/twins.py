"""Writes the programs that ours are compared with: the same models in plain JAX.

    python benches/tpu_ratio/twins.py            # all rows, to benches/tpu_ratio/twins/ROW.mlir.gz
    python benches/tpu_ratio/twins.py gpt2_bf16

Needs jax 0.10.2 and no accelerator. The models are functions over nested dicts, unrolled, with
`jax.nn.dot_product_attention` and donated state, as a JAX user writes them first: no kernels of their own, no
rematerialisation. Sizes stand in `sizes.py`, which `models.py` reads too. The texts are a fixed yardstick: a change of
theirs makes all recorded ratios void.
"""

import gzip
import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
import sizes
from jax import lax

TEXTS = pathlib.Path(__file__).parent / "twins"


def spec(*shape, dtype):
    return jax.ShapeDtypeStruct(shape, dtype)


# Training.


def adamw(p, g, m, v, t, lr=1e-3, b1=0.9, b2=0.999, eps=1e-8, decay=0.1):
    """One step of AdamW on one array, with decoupled decay. `t` counts from one."""
    number = lambda x: jnp.asarray(x, p.dtype)
    m = number(b1) * m + number(1 - b1) * g
    v = number(b2) * v + number(1 - b2) * g * g
    rate = (lr / (1 - b1**t)).astype(p.dtype)
    scale = jnp.sqrt(1 - b2**t).astype(p.dtype)
    return p * number(1 - lr * decay) - rate * m / (jnp.sqrt(v) / scale + number(eps)), m, v


def updated(params, grads, m, v, count):
    """Parameters, both moments and the count after one more step."""
    count = count + 1
    leaves, tree = jax.tree.flatten(params)
    lists = [jax.tree.leaves(x) for x in (grads, m, v)]
    new = [adamw(p, g, a, b, count.astype(jnp.float32)) for p, g, a, b in zip(leaves, *lists)]
    return *(jax.tree.unflatten(tree, [x[i] for x in new]) for i in range(3)), count


def trained(loss):
    """The step of a training loop: parameters, both moments and the count in, the same and the loss out."""

    def step(params, m, v, count, *batch):
        value, grads = jax.value_and_grad(loss)(params, *batch)
        return *updated(params, grads, m, v, count), value

    return step


def cross_entropy(logits, classes):
    """Mean of `-log softmax(logits)[class]`, in float32."""
    scores = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    return -jnp.take_along_axis(scores, classes[..., None], axis=-1).mean()


def linear(x, p):
    return x @ p["w"].T + p["b"]


# GPT.


def layer_norm(x, p):
    y = x.astype(jnp.float32)
    y = y - y.mean(axis=-1, keepdims=True)
    y = y * lax.rsqrt((y * y).mean(axis=-1, keepdims=True) + 1e-5)
    return (y * p["w"] + p["b"]).astype(x.dtype)


def gpt(size, dtype):
    n, heads, width, vocabulary = size.layers, size.heads, size.width, size.vocabulary
    matrix = lambda o, i: {"w": spec(o, i, dtype=dtype), "b": spec(o, dtype=dtype)}
    norm = lambda: {"w": spec(width, dtype=dtype), "b": spec(width, dtype=dtype)}
    block = lambda: {
        "ln1": norm(),
        "qkv": matrix(3 * width, width),
        "proj": matrix(width, width),
        "ln2": norm(),
        "up": matrix(4 * width, width),
        "down": matrix(width, 4 * width),
    }
    params = {
        "token": spec(vocabulary, width, dtype=dtype),
        "position": spec(size.block, width, dtype=dtype),
        "blocks": [block() for _ in range(n)],
        "ln": norm(),
    }

    def loss(p, x, y):
        b, t = x.shape
        h = p["token"][x] + p["position"][jnp.arange(t)]
        for q in p["blocks"]:
            qkv = linear(layer_norm(h, q["ln1"]), q["qkv"])
            q_, k, v = (a.reshape(b, t, heads, width // heads) for a in jnp.split(qkv, 3, axis=-1))
            a = jax.nn.dot_product_attention(q_, k, v, is_causal=True).reshape(b, t, width)
            h = h + linear(a, q["proj"])
            h = h + linear(jax.nn.gelu(linear(layer_norm(h, q["ln2"]), q["up"]), approximate=False), q["down"])
        return cross_entropy(layer_norm(h, p["ln"]) @ p["token"].T, y)

    letters = spec(size.batch, size.block, dtype=jnp.int32)
    return trained(loss), (params, params, params, spec(dtype=jnp.int32), letters, letters), (0, 1, 2, 3)


# Convolutions.


def conv(x, w, stride=1, pad=0):
    return lax.conv_general_dilated(
        x, w, (stride, stride), [(pad, pad)] * 2, dimension_numbers=("NCHW", "OIHW", "NCHW")
    )


def max_pool(x, window, stride, pad):
    least = np.array(-np.inf, x.dtype)
    pads = [(0, 0), (0, 0), (pad, pad), (pad, pad)]
    return lax.reduce_window(x, least, lax.max, (1, 1, window, window), (1, 1, stride, stride), pads)


def digits():
    size, f32 = sizes.DIGITS, jnp.float32
    params = {
        "conv1": {"w": spec(16, 1, 3, 3, dtype=f32), "b": spec(16, dtype=f32)},
        "conv2": {"w": spec(32, 16, 3, 3, dtype=f32), "b": spec(32, dtype=f32)},
        "fc1": {"w": spec(64, 512, dtype=f32), "b": spec(64, dtype=f32)},
        "fc2": {"w": spec(10, 64, dtype=f32), "b": spec(10, dtype=f32)},
    }

    def loss(p, x, y):
        for name in ("conv1", "conv2"):
            x = jax.nn.relu(conv(x, p[name]["w"], pad=1) + p[name]["b"][:, None, None])
        x = max_pool(x, 2, 2, 0).reshape(size.batch, -1)
        return cross_entropy(linear(jax.nn.relu(linear(x, p["fc1"])), p["fc2"]), y)

    x, y = spec(size.batch, 1, 8, 8, dtype=f32), spec(size.batch, dtype=jnp.int32)
    return trained(loss), (params, params, params, spec(dtype=jnp.int32), x, y), (0, 1, 2, 3)


def resnet50():
    size, dtype = sizes.RESNET50, jnp.bfloat16
    norm = lambda c: {"w": spec(c, dtype=dtype), "b": spec(c, dtype=dtype)}
    stats = lambda c: {"mean": spec(c, dtype=dtype), "var": spec(c, dtype=dtype)}
    weight = lambda o, i, k: spec(o, i, k, k, dtype=dtype)
    params = {"conv": weight(64, 3, 7), "bn": norm(64), "blocks": []}
    running, strides, channels = [stats(64)], [], 64
    for stage, (width, count) in enumerate(zip((64, 128, 256, 512), (3, 4, 6, 3))):
        for i in range(count):
            q = {
                "conv1": weight(width, channels, 1),
                "bn1": norm(width),
                "conv2": weight(width, width, 3),
                "bn2": norm(width),
                "conv3": weight(4 * width, width, 1),
                "bn3": norm(4 * width),
            }
            running += [stats(width), stats(width), stats(4 * width)]
            if i == 0:
                q |= {"down": weight(4 * width, channels, 1), "bn": norm(4 * width)}
                running.append(stats(4 * width))
            params["blocks"].append(q)
            strides.append(2 if stage > 0 and i == 0 else 1)
            channels = 4 * width
    params["fc"] = {"w": spec(1000, channels, dtype=dtype), "b": spec(1000, dtype=dtype)}

    def batch_norm(x, p, seen):
        y = x.astype(jnp.float32)
        mean = y.mean(axis=(0, 2, 3))
        var = (y * y).mean(axis=(0, 2, 3)) - mean * mean
        seen.append({"mean": mean, "var": var})
        factor = p["w"] * lax.rsqrt(var + 1e-5)
        return (y * factor[:, None, None] + (p["b"] - mean * factor)[:, None, None]).astype(x.dtype)

    def loss(p, x, y):
        seen, relu = [], jax.nn.relu
        h = max_pool(relu(batch_norm(conv(x, p["conv"], 2, 3), p["bn"], seen)), 3, 2, 1)
        for q, stride in zip(p["blocks"], strides):
            z = relu(batch_norm(conv(h, q["conv1"]), q["bn1"], seen))
            z = relu(batch_norm(conv(z, q["conv2"], stride, 1), q["bn2"], seen))
            z = batch_norm(conv(z, q["conv3"]), q["bn3"], seen)
            if "down" in q:
                h = batch_norm(conv(h, q["down"], stride), q["bn"], seen)
            h = relu(z + h)
        return cross_entropy(linear(h.mean(axis=(2, 3)), p["fc"]), y), seen

    def step(params, m, v, count, running, x, y):
        (value, seen), grads = jax.value_and_grad(loss, has_aux=True)(params, x, y)
        running = jax.tree.map(lambda old, new: old * 0.9 + (0.1 * new).astype(old.dtype), running, seen)
        return *updated(params, grads, m, v, count), running, value

    x, y = spec(size.batch, 3, 224, 224, dtype=dtype), spec(size.batch, dtype=jnp.int32)
    return step, (params, params, params, spec(dtype=jnp.int32), running, x, y), (0, 1, 2, 3, 4)


# Attention alone, and a llama that decodes.


def attention(head_dim):
    size = sizes.ATTENTION
    x = spec(size.batch, size.block, size.width // head_dim, head_dim, dtype=jnp.bfloat16)

    def step(q, k, v, g):
        y, vjp = jax.vjp(lambda *x: jax.nn.dot_product_attention(*x, is_causal=True), q, k, v)
        return y, *vjp(g)

    return step, (x, x, x, x), ()


def llama_decode():
    size, dtype = sizes.LLAMA, jnp.bfloat16
    width, heads, kv, d = size.width, size.heads, size.kv_heads, size.head_dim
    w = lambda *shape: spec(*shape, dtype=dtype)
    layer = lambda: {
        "ln1": w(width),
        "q": w(heads * d, width),
        "k": w(kv * d, width),
        "v": w(kv * d, width),
        "o": w(width, heads * d),
        "ln2": w(width),
        "gate": w(size.hidden, width),
        "up": w(size.hidden, width),
        "down": w(width, size.hidden),
    }
    params = {
        "token": w(size.vocabulary, width),
        "layers": [layer() for _ in range(size.layers)],
        "ln": w(width),
        "head": w(size.vocabulary, width),
    }
    cache = [{"k": w(size.batch, size.block, kv, d), "v": w(size.batch, size.block, kv, d)} for _ in range(size.layers)]

    def rms_norm(x, weight):
        y = x.astype(jnp.float32)
        return (y * lax.rsqrt((y * y).mean(axis=-1, keepdims=True) + 1e-6)).astype(x.dtype) * weight

    def step(p, cache, ids, place):
        angles = place / 10000 ** (jnp.arange(0, d, 2) / d)
        angles = jnp.concatenate([angles, angles])
        cos, sin = jnp.cos(angles).astype(dtype), jnp.sin(angles).astype(dtype)
        turn = lambda x: x * cos + jnp.concatenate([-x[..., d // 2 :], x[..., : d // 2]], axis=-1) * sin
        seen = (jnp.arange(size.block) <= place)[None, None, None, :]
        x, new = p["token"][ids], []
        for q, c in zip(p["layers"], cache):
            h = rms_norm(x, q["ln1"])
            queries, keys, values = ((h @ q[n].T).reshape(size.batch, 1, -1, d) for n in "qkv")
            keys = lax.dynamic_update_slice(c["k"], turn(keys), (0, place, 0, 0))
            values = lax.dynamic_update_slice(c["v"], values, (0, place, 0, 0))
            new.append({"k": keys, "v": values})
            a = jax.nn.dot_product_attention(turn(queries), keys, values, mask=seen)
            x = x + a.reshape(size.batch, 1, heads * d) @ q["o"].T
            h = rms_norm(x, q["ln2"])
            x = x + (jax.nn.silu(h @ q["gate"].T) * (h @ q["up"].T)) @ q["down"].T
        logits = rms_norm(x, p["ln"]) @ p["head"].T
        return logits[:, -1].argmax(axis=-1).astype(jnp.int32)[:, None], new

    return step, (params, cache, spec(size.batch, 1, dtype=jnp.int32), spec(dtype=jnp.int32)), (1,)


# Single ops, and a recommender.


def dropout():
    """Dropout with the generator that JAX calls `rbg`, which is the fastest on TPUs."""
    size = sizes.DROPOUT

    def step(key, x):
        key, own = jax.random.split(jax.random.wrap_key_data(key, impl="rbg"))
        keep = jax.random.bernoulli(own, 1 - size.p, x.shape)
        return jax.random.key_data(key), jnp.where(keep, x / jnp.asarray(1 - size.p, x.dtype), 0)

    return step, (spec(4, dtype=jnp.uint32), spec(size.rows, size.width, dtype=jnp.bfloat16)), ()


def tables():
    size, f32 = sizes.TABLES, jnp.float32
    params = {
        "tables": [spec(size.rows, size.width, dtype=f32) for _ in range(size.count)],
        "head": {"w": spec(1, size.count * size.width, dtype=f32), "b": spec(1, dtype=f32)},
    }

    def loss(p, ids, wanted):
        found = [table[ids[:, i]].sum(axis=1) for i, table in enumerate(p["tables"])]
        return jnp.square(linear(jnp.concatenate(found, axis=1), p["head"])[:, 0] - wanted).mean()

    def step(params, ids, wanted):
        value, grads = jax.value_and_grad(loss)(params, ids, wanted)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    ids = spec(size.batch, size.count, size.bag, dtype=jnp.int32)
    return step, (params, ids, spec(size.batch, dtype=f32)), (0,)


def depthwise():
    size = sizes.DEPTHWISE
    x = spec(size.batch, size.channels, size.size, size.size, dtype=jnp.bfloat16)
    w = spec(size.channels, 1, 3, 3, dtype=jnp.bfloat16)

    def step(x, w, g):
        def forward(x, w):
            names = ("NCHW", "OIHW", "NCHW")
            pads = [(1, 1), (1, 1)]
            return lax.conv_general_dilated(
                x, w, (1, 1), pads, dimension_numbers=names, feature_group_count=size.channels
            )

        y, vjp = jax.vjp(forward, x, w)
        return y, *vjp(g)

    return step, (x, w, x), ()


def remainder():
    size = sizes.REMAINDER
    return lambda x: x % size.by, (spec(size.rows, size.columns, dtype=jnp.int32),), ()


# Precision of float32 products: `None` is one pass over bfloat16, which torch calls "medium".
ROWS = {
    "gpt2_bf16": (lambda: gpt(sizes.GPT2, jnp.bfloat16), None),
    "gpt2_f32": (lambda: gpt(sizes.GPT2, jnp.float32), None),
    "resnet50": (resnet50, None),
    "llama_decode": (llama_decode, None),
    "attention_64": (lambda: attention(64), None),
    "attention_128": (lambda: attention(128), None),
    "digits": (digits, "highest"),
    "small_gpt": (lambda: gpt(sizes.SMALL_GPT, jnp.float32), "highest"),
    "dropout": (dropout, None),
    "tables": (tables, None),
    "depthwise": (depthwise, None),
    "remainder": (remainder, None),
}


def text(row):
    """The StableHLO of a row's step for a TPU."""
    make, precision = ROWS[row]
    with jax.default_matmul_precision(precision):
        step, args, donated = make()
        lowered = (
            jax.jit(step, donate_argnums=donated, keep_unused=True).trace(*args).lower(lowering_platforms=("tpu",))
        )
    return lowered.as_text()


def main():
    TEXTS.mkdir(exist_ok=True)
    for row in sys.argv[1:] or ROWS:
        data = text(row).encode()
        path = TEXTS / f"{row}.mlir.gz"
        path.write_bytes(gzip.compress(data, 9, mtime=0))
        print(f"{path.name}: {len(data):,} bytes of text, {path.stat().st_size:,} stored")


if __name__ == "__main__":
    main()
