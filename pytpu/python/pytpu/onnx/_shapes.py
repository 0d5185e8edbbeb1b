"""Rules of operators that change shapes, read indices, or make tensors."""

from __future__ import annotations

from typing import Any

import pytpu as torch

from .. import fx
from . import OnnxExporterError
from ._builder import _LAST, Builder, _Arguments, _dim, _name, _rule, _tail, _val

# ---- forms


@_rule("view reshape _unsafe_view")
def _reshape(b: Builder, node: fx.Node, a: _Arguments) -> str:
    if isinstance(a[1], torch.dtype):
        raise OnnxExporterError(f"{node.target} is not written to ONNX")
    return b.op("Reshape", b.get(a[0]), b.ints(a[1]), allowzero=1)


@_rule("view_as reshape_as")
def _reshape_as(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Reshape", b.get(a[0]), b.op("Shape", b.get(a[1])), allowzero=1)


@_rule("flatten")
def _flatten(b: Builder, node: fx.Node, a: _Arguments) -> str:
    n, x = _val(a[0]).dim(), b.get(a[0])
    start, end = _dim(a.start_dim, n), _dim(a.end_dim, n)
    parts = [b.constant([0] * start, torch.int64)] if start else []
    parts.append(b.constant([-1], torch.int64))
    if end < n - 1:
        parts.append(_tail(b, x, n - 1 - end))
    shape = b.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]
    return b.op("Reshape", x, shape)


@_rule("unflatten")
def _unflatten(b: Builder, node: fx.Node, a: _Arguments) -> str:
    n, x = _val(a[0]).dim(), b.get(a[0])
    at = _dim(a[1], n)
    parts = [b.constant([0] * at, torch.int64)] if at else []
    parts.append(b.ints(a[2]))
    if at < n - 1:
        parts.append(_tail(b, x, n - 1 - at))
    return b.op("Reshape", x, b.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0])


@_rule("unsqueeze")
def _unsqueeze(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Unsqueeze", b.get(a[0]), b.ints([a[1] % (_val(a[0]).dim() + 1)]))


@_rule("squeeze")
def _squeeze(b: Builder, node: fx.Node, a: _Arguments) -> str:
    sizes = _val(a[0]).shape
    dims = range(len(sizes)) if a[1] is None else ([a[1]] if isinstance(a[1], int) else a[1])
    gone = [_dim(d, len(sizes)) for d in dims if sizes[d] == 1 and not isinstance(sizes[d], torch.SymInt)]
    return b.op("Squeeze", b.get(a[0]), b.ints(gone)) if gone else b.get(a[0])


@_rule("transpose swapaxes swapdims t permute movedim")
def _permute(b: Builder, node: fx.Node, a: _Arguments) -> str:
    n, name = _val(a[0]).dim(), _name(node)
    perm = list(range(n))
    if name == "permute":
        perm = [_dim(d, n) for d in a[1]]
    elif name == "movedim":
        source, goal = (([v] if isinstance(v, int) else list(v)) for v in (a[1], a[2]))
        source, goal = [_dim(d, n) for d in source], [_dim(d, n) for d in goal]
        rest = [d for d in range(n) if d not in source]
        perm = [source[goal.index(d)] if d in goal else rest.pop(0) for d in range(n)]
    elif n >= 2:
        x, y = (0, 1) if name == "t" else (_dim(a[1], n), _dim(a[2], n))
        perm[x], perm[y] = perm[y], perm[x]
    return b.op("Transpose", b.get(a[0]), perm=perm)


@_rule("expand broadcast_to")
def _expand(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Expand", b.get(a[0]), b.ints([1 if type(n) is int and n == -1 else n for n in a[1]]))


@_rule("expand_as")
def _expand_as(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Expand", b.get(a[0]), b.op("Shape", b.get(a[1])))


@_rule("repeat")
def _repeat(b: Builder, node: fx.Node, a: _Arguments) -> str:
    x, extra = b.get(a[0]), len(a[1]) - _val(a[0]).dim()
    if extra:
        x = b.op("Unsqueeze", x, b.ints(list(range(extra))))
    return b.op("Tile", x, b.ints(a[1]))


@_rule("cat concat concatenate")
def _cat(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Concat", *(b.get(x, _val(node).dtype) for x in a[0]), axis=_dim(a.dim or 0, _val(node).dim()))


@_rule("stack")
def _stack(b: Builder, node: fx.Node, a: _Arguments) -> str:
    at = _dim(a.dim or 0, _val(node).dim())
    parts = [b.op("Unsqueeze", b.get(x, _val(node).dtype), b.ints([at])) for x in a[0]]
    return b.op("Concat", *parts, axis=at)


@_rule("split split_with_sizes chunk unbind tensor_split")
def _split(b: Builder, node: fx.Node, a: _Arguments) -> Any:
    parts = _val(node)
    at = _dim(a.dim or 0, _val(a[0]).dim())
    name = _name(node)
    if name == "unbind":
        sizes = [1] * len(parts)
    else:
        sizes = [part.shape[at] for part in parts]
        if any(isinstance(n, torch.SymInt) for n in sizes):
            raise OnnxExporterError(f"{node.target} of a size that may change is not written to ONNX")
    found = b.op("Split", b.get(a[0]), b.ints([int(n) for n in sizes]), outputs=len(sizes), axis=at)
    found = [found] if isinstance(found, str) else found
    return [b.op("Squeeze", x, b.ints([at])) for x in found] if name == "unbind" else found


@_rule("slice")
def _slice(b: Builder, node: fx.Node, a: _Arguments) -> str:
    start, end, step = a.start or 0, _LAST if a.end is None else a.end, a.step or 1
    at = _dim(a.dim or 0, _val(a[0]).dim())
    return b.op("Slice", b.get(a[0]), b.ints([start]), b.ints([end]), b.ints([at]), b.ints([step]))


@_rule("narrow")
def _narrow(b: Builder, node: fx.Node, a: _Arguments) -> str:
    if type(a[2]) is not int or type(a[3]) is not int:
        raise OnnxExporterError(f"{node.target} of a size that may change is not written to ONNX")
    start = _dim(a[2], int(_val(a[0]).shape[a[1]]))
    return b.op("Slice", b.get(a[0]), b.ints([start]), b.ints([start + a[3]]), b.ints([_dim(a[1], _val(a[0]).dim())]))


@_rule("select")
def _select(b: Builder, node: fx.Node, a: _Arguments) -> str:
    index = b.constant(a[2], torch.int64) if type(a[2]) is int else b.names[a[2]]
    return b.op("Gather", b.get(a[0]), index, axis=_dim(a[1], _val(a[0]).dim()))


@_rule("flip")
def _flip(b: Builder, node: fx.Node, a: _Arguments) -> str:
    n = len(a[1])
    axes = [_dim(d, _val(a[0]).dim()) for d in a[1]]
    return b.op("Slice", b.get(a[0]), b.ints([-1] * n), b.ints([-_LAST] * n), b.ints(axes), b.ints([-1] * n))


@_rule("roll")
def _roll(b: Builder, node: fx.Node, a: _Arguments) -> str:
    x, n = b.get(a[0]), _val(a[0]).dim()
    shifts, dims = ([v] if isinstance(v, int) else list(v or ()) for v in (a[1], a[2]))
    if not dims:
        raise OnnxExporterError(f"{node.target} without dimensions is not written to ONNX")
    for shift, d in zip(shifts, dims):
        size, axes = _val(a[0]).shape[d], b.ints([_dim(d, n)])
        if isinstance(size, torch.SymInt) or type(shift) is not int:
            raise OnnxExporterError(f"{node.target} of a size that may change is not written to ONNX")
        at = int(size) - shift % int(size) if size else 0
        first = b.op("Slice", x, b.ints([0]), b.ints([at]), axes)
        second = b.op("Slice", x, b.ints([at]), b.ints([_LAST]), axes)
        x = b.op("Concat", second, first, axis=_dim(d, n))
    return x


@_rule("pad constant_pad_nd")
def _pad(b: Builder, node: fx.Node, a: _Arguments) -> str:
    n, pads = _val(a[0]).dim(), list(a[1])
    before, after = [0] * n, [0] * n
    for i in range(len(pads) // 2):
        before[n - 1 - i], after[n - 1 - i] = pads[2 * i], pads[2 * i + 1]
    mode = {"replicate": "edge", "circular": "wrap"}.get(a.mode, a.mode) or "constant"
    if mode == "wrap":
        raise OnnxExporterError("padding of mode circular is not written to ONNX")
    value = b.constant(a.value or 0, _val(node).dtype)
    return b.op("Pad", b.get(a[0]), b.ints([*before, *after]), *([value] if mode == "constant" else []), mode=mode)


@_rule("tril triu")
def _trilu(b: Builder, node: fx.Node, a: _Arguments) -> str:
    upper = int("triu" in str(node.target))
    return b.op("Trilu", b.get(a[0]), b.constant(a.diagonal or 0, torch.int64), upper=upper)


@_rule("pixel_shuffle")
def _pixel_shuffle(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("DepthToSpace", b.get(a[0]), blocksize=a[1], mode="CRD")


# ---- indices


@_rule("embedding")
def _embedding(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Gather", b.get(a[0]), b.get(a[1]))


@_rule("index_select")
def _index_select(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Gather", b.get(a[0]), b.get(a[2]), axis=_dim(a[1], _val(a[0]).dim()))


@_rule("gather")
def _gather(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("GatherElements", b.get(a[0]), b.get(a[2]), axis=_dim(a[1], _val(a[0]).dim()))


@_rule("index")
def _index(b: Builder, node: fx.Node, a: _Arguments) -> str:
    used = [i for i, index in enumerate(a[1]) if index is not None]
    if any(_val(a[1][i]).dtype in (torch.bool, torch.uint8) for i in used):
        raise OnnxExporterError("an index that is a mask is not written to ONNX")
    if len(used) == 1:
        return b.op("Gather", b.get(a[0]), b.get(a[1][used[0]]), axis=used[0])
    if used == list(range(len(used))):
        sizes = torch.broadcast_shapes(*(tuple(map(int, _val(a[1][i]).shape)) for i in used))
        parts = []
        for i in used:
            index = b.get(a[1][i], torch.int64)
            if tuple(_val(a[1][i]).shape) != tuple(sizes):
                if any(isinstance(n, torch.SymInt) for j in used for n in _val(a[1][j]).shape):
                    raise OnnxExporterError("indices of several sizes that may change are not written to ONNX")
                index = b.op("Expand", index, b.ints([int(n) for n in sizes]))
            parts.append(b.op("Unsqueeze", index, b.ints([-1])))
        return b.op("GatherND", b.get(a[0]), b.op("Concat", *parts, axis=-1))
    raise OnnxExporterError("indices of several dimensions that are not the first are not written to ONNX")


@_rule("topk")
def _topk(b: Builder, node: fx.Node, a: _Arguments) -> Any:
    at = _dim(-1 if a.dim is None else a.dim, _val(a[0]).dim())
    return b.op("TopK", b.get(a[0]), b.ints([a[1]]), outputs=2, axis=at, largest=int(a.largest), sorted=1)


@_rule("sort argsort")
def _sort(b: Builder, node: fx.Node, a: _Arguments) -> Any:
    at = _dim(-1 if a.dim is None else a.dim, _val(a[0]).dim())
    x = b.get(a[0])
    count = b.op("Gather", b.op("Shape", x), b.ints([at]))
    found = b.op("TopK", x, count, outputs=2, axis=at, largest=int(bool(a.descending)), sorted=1)
    return found[1] if "argsort" in str(node.target) else found


@_rule("one_hot")
def _one_hot(b: Builder, node: fx.Node, a: _Arguments) -> str:
    if a[1] in (None, -1):
        raise OnnxExporterError("one_hot without a number of classes is not written to ONNX")
    return b.op("OneHot", b.get(a[0]), b.ints([a[1]]), b.constant([0, 1], torch.int64), axis=-1)


# ---- new tensors


@_rule("sym_size")
def _sym_size(b: Builder, node: fx.Node, a: _Arguments) -> str:
    return b.op("Gather", b.op("Shape", b.get(a[0])), b.constant(_dim(a[1], _val(a[0]).dim()), torch.int64))


@_rule("arange")
def _arange(b: Builder, node: fx.Node, a: _Arguments) -> str:
    dtype = _val(node).dtype
    values = [v for v in a.args if not isinstance(v, torch.dtype)]
    start, end, step = (0, values[0], 1) if len(values) == 1 else (values[0], values[1], (values[2:] or [1])[0])
    return b.op("Range", b.get(start, dtype), b.get(end, dtype), b.get(step, dtype))


@_rule("full zeros ones empty new_full new_zeros new_ones")
def _full(b: Builder, node: fx.Node, a: _Arguments) -> str:
    name, dtype = _name(node), _val(node).dtype
    at = int(name.startswith("new_"))
    value = a[at + 1] if "full" in name else float("ones" in name)
    return b.op("Expand", b.get(value, dtype), b.ints(a[at])) if a[at] else b.get(value, dtype)


@_rule("eye linspace logspace tril_indices triu_indices")
def _known(b: Builder, node: fx.Node, a: _Arguments) -> str:
    if node.all_input_nodes:
        raise OnnxExporterError(f"{node.target} of a size that may change is not written to ONNX")
    kwargs = {key: value for key, value in node.kwargs.items() if key == "dtype"}
    operator: Any = node.target
    return b.tensor(operator(*node.args, **kwargs).to(_val(node).dtype), node.name)


@_rule("full_like zeros_like ones_like scalar_tensor")
def _full_like(b: Builder, node: fx.Node, a: _Arguments) -> str:
    name, dtype = _name(node), _val(node).dtype
    if name == "scalar_tensor":
        return b.get(a[0], dtype)
    value = a[1] if "full" in name else float("ones" in name)
    return b.op("Expand", b.get(value, dtype), b.op("Shape", b.get(a[0])))
