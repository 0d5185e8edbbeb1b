"""Record the calls below autograd that PyTorch makes for small programs: `dispatch_calls.json`.

Run it with PyTorch:

    python tests/python/goldens/record_dispatch_calls.py > tests/python/goldens/dispatch_calls.json
"""

import importlib
import json
import sys

PROGRAMS = {
    "a + a": lambda t, v: v.a + v.a,
    "a + 2": lambda t, v: v.a + 2,
    "1 - a": lambda t, v: 1 - v.a,
    "1 / a": lambda t, v: 1 / v.a,
    "a ** 2": lambda t, v: v.a**2,
    "2 ** a": lambda t, v: 2**v.a,
    "a.add_(1)": lambda t, v: v.a.clone().add_(1),
    "a.sum()": lambda t, v: v.a.sum(),
    "a.sum(0)": lambda t, v: v.a.sum(0),
    "a.mean(1, keepdim=True)": lambda t, v: v.a.mean(1, keepdim=True),
    "a.max(1)": lambda t, v: v.a.max(1),
    "a.argmax(1)": lambda t, v: v.a.argmax(1),
    "a.sort()": lambda t, v: v.a.sort(),
    "a.var()": lambda t, v: v.a.var(),
    "var_mean(a, 0)": lambda t, v: t.var_mean(v.a, 0),
    "a.norm()": lambda t, v: v.a.norm(),
    "a.clamp(min=0)": lambda t, v: v.a.clamp(min=0),
    "a == 0": lambda t, v: v.a == 0,
    "where": lambda t, v: t.where(v.a > 0, v.a, v.b),
    "masked_fill": lambda t, v: v.a.masked_fill(v.a > 0, 1),
    "a[0]": lambda t, v: v.a[0],
    "a[:, 1:]": lambda t, v: v.a[:, 1:],
    "a[None, ..., 0]": lambda t, v: v.a[None, ..., 0],
    "a[index]": lambda t, v: v.a[v.index],
    "a[mask]": lambda t, v: v.a[v.a > 0],
    "a[0] = 1": lambda t, v: v.a.clone().__setitem__(0, 1.0),
    "a[mask] = 1": lambda t, v: v.a.clone().__setitem__(v.a > 0, 1.0),
    "a[:, 1] = row": lambda t, v: v.a.clone().__setitem__((slice(None), 1), v.a[:, 0]),
    "tensor": lambda t, v: t.tensor([1.0, 2.0]),
    "ones": lambda t, v: t.ones(2),
    "randn": lambda t, v: t.randn(2),
    "arange": lambda t, v: t.arange(3),
    "zeros_like": lambda t, v: t.zeros_like(v.a),
    "new_zeros": lambda t, v: v.a.new_zeros(2),
    "item": lambda t, v: v.a.sum().item(),
    "bool": lambda t, v: bool(v.a.sum() > 0),
    "tolist": lambda t, v: v.a.tolist(),
    "repr": lambda t, v: repr(v.a),
    "linear": lambda t, v: t.nn.functional.linear(v.a, v.w, v.bias),
    "linear of 3 dimensions": lambda t, v: t.nn.functional.linear(v.x3, v.w, v.bias),
    "linear without bias": lambda t, v: t.nn.functional.linear(v.x3, v.w),
    "matmul with a matrix": lambda t, v: v.x3 @ v.w.t(),
    "matmul of batches": lambda t, v: v.x3 @ v.x3.transpose(1, 2),
    "matmul with a vector": lambda t, v: v.a @ v.w[0],
    "conv2d": lambda t, v: t.nn.functional.conv2d(v.image, v.kernel),
    "layer_norm": lambda t, v: t.nn.functional.layer_norm(v.a, (3,)),
    "gelu": lambda t, v: t.nn.functional.gelu(v.a),
    "relu": lambda t, v: t.nn.functional.relu(v.a),
    "softmax": lambda t, v: v.a.softmax(-1),
    "log_softmax": lambda t, v: t.nn.functional.log_softmax(v.a, -1),
    "cross_entropy": lambda t, v: t.nn.functional.cross_entropy(v.a, v.index),
    "mse_loss": lambda t, v: t.nn.functional.mse_loss(v.a, v.b),
    "embedding": lambda t, v: t.nn.functional.embedding(v.index, v.a),
    "attention": lambda t, v: t.nn.functional.scaled_dot_product_attention(v.q, v.q, v.q),
    "max_pool2d": lambda t, v: t.nn.functional.max_pool2d(v.image, 2),
    "adaptive_avg_pool2d": lambda t, v: t.nn.functional.adaptive_avg_pool2d(v.image, 1),
    "flatten": lambda t, v: v.image.flatten(1),
    "reshape": lambda t, v: v.image.transpose(1, 2).reshape(2, -1),
    "contiguous": lambda t, v: v.image.transpose(1, 2).contiguous(),
    "to": lambda t, v: v.a.to(t.float64),
    "double": lambda t, v: v.a.double(),
    "cpu": lambda t, v: v.a.cpu(),
    "clone": lambda t, v: v.a.clone(),
    "detach": lambda t, v: v.b.detach(),
    "expand": lambda t, v: v.a.expand(2, 2, 3),
    "view_as": lambda t, v: v.a.view_as(v.a),
    "t": lambda t, v: v.a.t(),
    "chunk": lambda t, v: v.a.chunk(2),
    "split": lambda t, v: v.a.split(1),
    "unbind": lambda t, v: v.a.unbind(),
    "stack": lambda t, v: t.stack([v.a, v.a]),
    "cat": lambda t, v: t.cat([v.a, v.a]),
    "copy_": lambda t, v: v.a.clone().copy_(v.a),
    "out": lambda t, v: t.add(v.a, v.a, out=v.out),
    "_foreach_add_": lambda t, v: t._foreach_add_([v.a.clone()], 1),
    "requires_grad_": lambda t, v: v.b.requires_grad_(),
}


class Values:
    """The tensors of the programs."""

    def __init__(self, torch):
        self.a = torch.arange(6.0).reshape(2, 3) - 2
        self.b = torch.ones(2, 3, requires_grad=True)
        self.w, self.bias, self.x3 = torch.ones(4, 3), torch.ones(4), torch.ones(2, 2, 3)
        self.image, self.kernel = torch.ones(2, 3, 8, 8), torch.ones(4, 3, 3, 3)
        self.q, self.index, self.out = torch.ones(1, 2, 4, 8), torch.tensor([0, 1]), torch.empty(2, 3)


def shown(value, torch):
    """Return a text for an argument: tensors as their sizes."""
    if isinstance(value, torch.Tensor):
        return f"Tensor{[*value.shape]}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(shown(v, torch) for v in value)}]"
    return str(value)


def calls(torch, program):
    """Return the calls that a mode gets in a program."""
    python_dispatch = importlib.import_module(f"{torch.__name__}.utils._python_dispatch")
    made = []

    class Log(python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            named = [f"{k}={shown(v, torch)}" for k, v in (kwargs or {}).items()]
            made.append(f"{func}({', '.join([*(shown(a, torch) for a in args), *named])})")
            return func(*args, **(kwargs or {}))

    values = Values(torch)
    with Log():
        program(torch, values)
    return made


if __name__ == "__main__":
    module = importlib.import_module("torch")
    json.dump({name: calls(module, program) for name, program in PROGRAMS.items()}, sys.stdout, indent=1)
    print()
