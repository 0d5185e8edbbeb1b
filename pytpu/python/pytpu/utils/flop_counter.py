"""`torch.utils.flop_counter`: floating-point operations of the products, convolutions and attentions of a block.

A formula counts them at each call and at its gradient. A multiplication and an addition are two operations. Ops that
PyTorch does not count, such as pointwise ops, products of vectors and recurrent layers, count as zero.
"""

import math
import weakref
from collections import defaultdict

import pytpu as torch

from .. import _C, ops
from ..overrides import TorchFunctionMode, _call_body

__all__ = ["FlopCounterMode"]


def _op(name):
    try:
        return getattr(ops.aten, name)
    except AttributeError:
        packet = ops.OpOverloadPacket("aten", name, None)
        setattr(ops.aten, name, packet)
        return packet


def _needs(*tensors):
    return sum(isinstance(t, torch.Tensor) and t.requires_grad for t in tensors)


# Each returns the name of the op, its number of operations, and the number of its gradient.


def _product(name, a, b, batch=1):
    """Return the counts of a product of matrices `(batch, m, k)` and `(batch, k, n)`."""
    n = 1 if b.dim() == 1 else b.shape[-1]
    flops = 2 * batch * a.shape[-2] * a.shape[-1] * n
    return name, flops, "bmm" if name in ("bmm", "baddbmm") else "mm", flops * _needs(a, b)


def _mm(input, mat2, **_):
    return _product("mm", input, mat2)


def _addmm(input, mat1, mat2, **_):
    return _product("addmm", mat1, mat2)


def _bmm(input, mat2, **_):
    return _product("bmm", input, mat2, input.shape[0])


def _baddbmm(input, batch1, batch2, **_):
    return _product("baddbmm", batch1, batch2, batch1.shape[0])


def _matmul(input, other, **_):
    if input.dim() < 2 or other.dim() < 2:
        return None
    if input.dim() > 2 and other.dim() > 2:
        return _product("bmm", input, other, math.prod(torch.broadcast_shapes(input.shape[:-2], other.shape[:-2])))
    batch = math.prod(input.shape[:-2]) * math.prod(other.shape[:-2])
    return _product("bmm" if other.dim() > 2 else "mm", input, other, batch)


def _linear(input, weight, bias=None):
    flops = 2 * input.numel() * (weight.shape[0] if weight.dim() > 1 else 1)
    return "mm" if bias is None else "addmm", flops, "mm", flops * _needs(input, weight)


def _convolution(transposed):
    def count(input, weight, bias=None, stride=1, padding=0, *rest, out, **_):
        batched = input if input.dim() == weight.dim() else input.unsqueeze(0)
        places = batched if transposed else out
        space = math.prod(places.shape[-(weight.dim() - 2) :])
        flops = 2 * space * math.prod(weight.shape[2:]) * batched.shape[0] * weight.shape[0] * weight.shape[1]
        # As in PyTorch, which ignores groups in the gradient of the weight.
        groups = 1 if transposed else batched.shape[1] // weight.shape[1]
        return "convolution", flops, "convolution_backward", flops * (_needs(input) + groups * _needs(weight))

    return count


def _attention(query, key, value, *rest, **_):
    batch = math.prod(query.shape[:-2])
    scores = 2 * batch * query.shape[-2] * key.shape[-2] * query.shape[-1]
    sums = 2 * batch * query.shape[-2] * key.shape[-2] * value.shape[-1]
    name = "_scaled_dot_product_flash_attention_for_cpu"
    # Scores are computed again.
    again = 3 * scores + 2 * sums if _needs(query, key, value) else 0
    return name, scores + sums, name + "_backward", again


def _einsum(equation, *operands):
    operands = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    if not isinstance(equation, str) or len(operands) != 2 or "." in equation:
        raise NotImplementedError("counting operations of this einsum is not supported")
    inputs, _, result = equation.replace(" ", "").partition("->")
    sizes = {c: n for term, x in zip(inputs.split(","), operands) for c, n in zip(term, x.shape)}
    if result and not set(sizes) - set(result):
        return None
    flops = 2 * math.prod(sizes.values())
    return "bmm", flops, "bmm", flops * _needs(*operands)


_COUNTED = {
    "mm": _mm,
    "addmm": _addmm,
    "addmm_": _addmm,
    "bmm": _bmm,
    "baddbmm": _baddbmm,
    "baddbmm_": _baddbmm,
    "matmul": _matmul,
    "__matmul__": _matmul,
    "__rmatmul__": lambda input, other: _matmul(other, input),
    "linear": _linear,
    "einsum": _einsum,
    "scaled_dot_product_attention": _attention,
    **{f"conv{n}d": _convolution(False) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _convolution(True) for n in (1, 2, 3)},
}


flop_registry = {}


def register_flop_formula(targets, get_raw=False):
    """Register a function that counts the operations of an operator, or of several. A decorator.

    Args:
        targets: an operator of `torch.ops`, or a list of them.
        get_raw: whether the function takes tensors. Otherwise it takes their shapes.

    `formula(*args, out_val=None, out_shape=None, **kwargs)` returns the number of operations of a call.
    """

    def register(formula):
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if not hasattr(target, "_qualified_op_name") and not hasattr(target, "overloadpacket"):
                raise ValueError(
                    "register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. "
                    f"torch.ops.mylib.foo), got {target} which is of type {type(target)}"
                )
            flop_registry[getattr(target, "overloadpacket", target)] = formula, get_raw
        return formula

    return register


class FlopCounterMode(TorchFunctionMode):
    """A counter of the operations of a block, in all and by module.

    Args:
        depth: how deep the table that `display` prints at the end goes into modules.
    """

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        if custom_mapping:
            raise NotImplementedError("formulas of yours are not supported: ops are seen as functions of torch")
        self.depth = 999999 if depth is None else depth
        self.display = display
        self.flop_counts = defaultdict(lambda: defaultdict(int))
        self._names = weakref.WeakKeyDictionary()
        self._path = ["Global"]
        self._hooks = []
        self._active = False

    def get_total_flops(self):
        """All operations."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self):
        """Return the operations by op, by module. "Global" has the sums."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth=None):
        """Return a table of modules, their operations and share."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        rows = []
        for name in sorted(self.flop_counts, key=lambda n: (n != "Global", n)):
            level = 0 if name == "Global" else name.count(".") + 1
            if level <= depth:
                counts = self.flop_counts[name]
                rows.append((" " * level + name, sum(counts.values()), total))
                rows += [(" " * level + f" - {op}", n, total) for op, n in counts.items()]
        width = max(len(r[0]) for r in rows) if rows else 6
        lines = [f"{'Module':{width}}  {'FLOP':>16}  % Total", f"{'-' * width}  {'-' * 16}  -------"]
        lines += [f"{name:{width}}  {n:16,}  {100 * n / max(total, 1):6.2f}%" for name, n, total in rows]
        return "\n".join(lines)

    def __enter__(self):
        from ..nn.modules import module

        self.flop_counts.clear()
        self.flop_counts["Global"]
        self._active = True
        self._hooks = [
            module.register_module_forward_pre_hook(self._go_in),
            module.register_module_forward_hook(self._go_out, always_call=True),
        ]
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self._active = False
        for hook in self._hooks:
            hook.remove()
        if self.display:
            print(self.get_table())

    def _go_in(self, module, args):
        if module not in self._names:
            root = type(module).__name__
            for name, inner in module.named_modules():
                self._names[inner] = f"{root}.{name}" if name else root
        self._path.append(self._names[module])

    def _go_out(self, module, args, out):
        self._path.pop()

    def _count_by(self, packet, formula, get_raw, func, args, kwargs):
        out = func(*args, **kwargs)

        def shown(value):
            if isinstance(value, torch.Tensor):
                return value if get_raw else value.shape
            return type(value)(map(shown, value)) if isinstance(value, (list, tuple)) else value

        told = {"out_val": out} if get_raw else {"out_shape": shown(out)}
        flops = formula(*map(shown, args), **{k: shown(v) for k, v in kwargs.items()}, **told)
        self._add(dict.fromkeys(self._path), packet, flops)
        return out

    def _add(self, names, op, flops):
        if self._active:
            for name in names:
                self.flop_counts[name][op] += flops

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        count = _COUNTED.get(getattr(func, "__name__", ""))
        for packet, (formula, get_raw) in flop_registry.items():
            if (
                packet is func
                or packet._op is func
                or (packet.__name__ == getattr(func, "__name__", "") and count is None)
            ):
                return self._count_by(packet, formula, get_raw, func, args, kwargs)
        if count is None:
            if not hasattr(func, "__wrapped__"):
                return func(*args, **kwargs)
            # The function is written in Python, so the ops that it calls are counted.
            _C._push_torch_function_mode(self)
            try:
                return _call_body(func, args, kwargs)
            finally:
                _C._pop_torch_function_mode()
        out = func(*args, **kwargs)
        given = {"out": out} if "conv" in func.__name__ else {}
        found = count(*args, **{**kwargs, **given})
        if found is not None:
            op, flops, gradient, its = found
            names = dict.fromkeys(self._path)
            self._add(names, _op(op), flops)
            if its and isinstance(out, torch.Tensor) and out.grad_fn is not None:
                out.grad_fn.register_prehook(lambda _: self._add(names, _op(gradient), its))
        return out
