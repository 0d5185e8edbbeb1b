"""The tests of `torch.library.opcheck`."""

from __future__ import annotations

import pytpu as torch

from .registry import _tensors


def _copied(value):
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(v) for v in value)
    return value


def _test_schema(op, args, kwargs, atol, rtol):
    given = {a.name: v for a, v in zip(op.schema.arguments, op.schema.bind(op.name, args, kwargs))}
    given = {name: _copied(value) for name, value in given.items()}
    before = {name: _copied(value) for name, value in given.items()}
    positional = [given[a.name] for a in op.schema.arguments if not a.keyword_only]
    with torch.no_grad():
        result = op(*positional, **{a.name: given[a.name] for a in op.schema.arguments if a.keyword_only})
    for a in op.schema.arguments:
        if not a.mutated and not all(
            _equal(x, y) for x, y in zip(_tensors([given[a.name]]), _tensors([before[a.name]]))
        ):
            raise RuntimeError(f"Argument {a.name} is not defined as mutable but was mutated")
    storages = {t._storage_id() for a in op.schema.arguments if not a.mutated for t in _tensors([given[a.name]])}
    if op.opaque and any(t._storage_id() in storages for t in _tensors([result])):
        raise RuntimeError("A result shares memory with an argument, but the schema does not declare it")


def _equal(x, y):
    return torch.allclose(x, y, rtol=0, atol=0, equal_nan=x.is_floating_point() or x.is_complex())


def _test_autograd_registration(op, args, kwargs, atol, rtol):
    inputs = list(_tensors([*args, *kwargs.values()]))
    if not any(t.requires_grad for t in inputs):
        return
    if op.opaque and op.backward is None:
        raise RuntimeError(f"{op.name} has no gradient: register one with register_autograd")
    outputs = [
        t
        for t in _tensors([op(*_copied(tuple(args)), **{k: _copied(v) for k, v in kwargs.items()})])
        if t.is_floating_point()
    ]
    if outputs and not any(t.requires_grad for t in outputs) and not op.schema.mutates:
        raise RuntimeError(f"the results of {op.name} do not require a gradient, though its arguments do")


def _test_faketensor(op, args, kwargs, atol, rtol):
    def on_meta(value):
        if isinstance(value, torch.Tensor):
            return value.detach().to("meta")
        return type(value)(on_meta(v) for v in value) if isinstance(value, (list, tuple)) else value

    with torch.no_grad():
        real = list(_tensors([op(*_copied(tuple(args)), **{k: _copied(v) for k, v in kwargs.items()})]))
        fake = list(_tensors([op(*(on_meta(v) for v in args), **{k: on_meta(v) for k, v in kwargs.items()})]))
    if len(real) != len(fake):
        raise RuntimeError(f"the kernel for meta gives {len(fake)} tensors, the real one {len(real)}")
    for r, f in zip(real, fake):
        if (r.shape, r.dtype) != (f.shape, f.dtype):
            raise RuntimeError(
                f"the kernel for meta gives {tuple(f.shape)} {f.dtype}, the real one {tuple(r.shape)} {r.dtype}"
            )


def _test_aot_dispatch_dynamic(op, args, kwargs, atol, rtol):
    runs = []
    for _ in range(2):
        with torch.no_grad():
            runs.append(list(_tensors([op(*_copied(tuple(args)), **{k: _copied(v) for k, v in kwargs.items()})])))
    for x, y in zip(*runs):
        torch.testing.assert_close(x, y, rtol=rtol, atol=atol, equal_nan=True)


TESTS = {
    "test_schema": _test_schema,
    "test_autograd_registration": _test_autograd_registration,
    "test_faketensor": _test_faketensor,
    "test_aot_dispatch_dynamic": _test_aot_dispatch_dynamic,
}
