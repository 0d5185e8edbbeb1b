"""Compare gradients with finite differences."""

from __future__ import annotations

import itertools
import warnings

import pytpu as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from pytpu import Tensor


__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


_DOUBLE = ("torch.float64", "torch.complex128")


class GradcheckError(RuntimeError):
    """A gradient differs from the finite differences."""


def _tuple(x):
    return (x,) if isinstance(x, torch.Tensor) or not isinstance(x, (tuple, list)) else tuple(x)


def _differentiable(outputs):
    return tuple(y for y in outputs if isinstance(y, torch.Tensor) and (y.is_floating_point() or y.is_complex()))


def _real_parts(x):
    """Return a complex tensor as a real tensor with one more dimension, of size 2."""
    return torch.view_as_real(x.resolve_conj().resolve_neg()) if x.is_complex() else x


def _check_inputs(inputs):
    checked = []
    for i, x in enumerate(inputs):
        if not isinstance(x, torch.Tensor) or not x.requires_grad:
            continue
        if str(x.dtype) not in _DOUBLE:
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check "
                "will "
                "likely fail if all the inputs are not of double precision floating point or complex. ",
                stacklevel=4,
            )
        if x.numel() > 1 and any(s == 0 and n > 1 for n, s in zip(x.shape, x.stride())):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping "
                "to be able to compute the numerical gradients correctly. You should call .contiguous on the input "
                "before "
                "passing it to gradcheck."
            )
        x.retain_grad()
        checked.append(x)
    if not checked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    return checked


def _numerical(run, x, eps):
    """Return the Jacobian of each output by `x`, as matrices of shape `(x.numel(), output.numel())`."""
    # Write through `x.data`, which may be a conjugated view.
    data = x.data
    steps = (eps, eps * 1j) if x.is_complex() else (eps,)
    rows = None
    for *at, step in itertools.product(*(range(n) for n in data.shape), steps):
        at = tuple(at)
        before = data[at].item()
        data[at] = before + step
        above = run()
        data[at] = before - step
        below = run()
        data[at] = before
        found = [((a - b) / (2 * eps)).reshape(-1) for a, b in zip(above, below)]
        rows = rows if rows is not None else [[] for _ in found]
        for row, f in zip(rows, found):
            row.append(f)
    return [torch.stack(r) for r in rows] if rows is not None else None


def _analytical(output, inputs, check_dtypes):
    """Return the Jacobians of one real output by each input."""
    columns = [[] for _ in inputs]
    for i in range(output.numel()):
        weight = torch.zeros_like(output).reshape(-1)
        weight[i] = 1
        grads = torch.autograd.grad(
            (output,), inputs, (weight.reshape(output.shape),), retain_graph=True, allow_unused=True
        )
        for k, (g, x) in enumerate(zip(grads, inputs)):
            if g is None:
                g = torch.zeros_like(x)
            if g.shape != x.shape:
                raise GradcheckError("Analytical gradient has incorrect size")
            if check_dtypes and g.dtype != x.dtype:
                raise GradcheckError("Gradient has dtype mismatch")
            columns[k].append(_real_parts(g.detach()).reshape(-1))
    return [
        torch.stack(c, 1) if c else _real_parts(x.detach()).new_zeros((_real_parts(x).numel(), 0))
        for c, x in zip(columns, inputs)
    ]


def _mismatch(a, n, i, j):
    return GradcheckError(
        f"Jacobian mismatch for output {i} with respect to input {j},\nnumerical:{n}\nanalytical:{a}\n"
    )


def _slow(run, outputs, inputs, eps, atol, rtol, nondet_tol, check_dtypes):
    numerical = [_numerical(run, x, eps) for x in inputs]
    for i, y in enumerate(outputs):
        if not y.requires_grad:
            for n in numerical:
                if n is not None and not torch.allclose(n[i], torch.zeros_like(n[i]), rtol, atol):
                    raise GradcheckError("Numerical gradient for function expected to be zero")
            continue
        found = _analytical(y, inputs, check_dtypes)
        again = _analytical(y, inputs, check_dtypes)
        for j, (a, b) in enumerate(zip(found, again)):
            n = numerical[j]
            if n is not None and not torch.allclose(a, n[i].to(a.dtype), rtol, atol):
                raise _mismatch(a, n[i], i, j)
            if a.numel() and (a - b).abs().max().item() > nondet_tol:
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                    "gives different values, although analytical gradient matches numerical gradient.The tolerance for "
                    f"nondeterminism was {nondet_tol}."
                )


def _direction(like):
    """Return a random direction of length 1. The default generator stays as it is."""
    generator = torch.Generator()
    generator.manual_seed(like.numel())
    v = torch.rand(like.shape, generator=generator, dtype=like.dtype).to(like.device)
    return v / v.norm().clamp_min(1e-30)


def _fast(run, outputs, inputs, eps, atol, rtol, check_dtypes):
    for j, x in enumerate(inputs):
        data = x.data
        u = _direction(_real_parts(data))
        step = torch.view_as_complex(u) if x.is_complex() else u
        before = data.clone()
        data.copy_(before.add(step, alpha=eps))
        above = run()
        data.copy_(before.sub(step, alpha=eps))
        below = run()
        data.copy_(before)
        for i, y in enumerate(outputs):
            difference = (above[i] - below[i]) / (2 * eps)
            v = _direction(difference)
            n = (difference * v).sum()
            if y.requires_grad:
                (g,) = torch.autograd.grad((y,), (x,), (v.to(y.dtype),), retain_graph=True, allow_unused=True)
                if g is not None and check_dtypes and g.dtype != x.dtype:
                    raise GradcheckError("Gradient has dtype mismatch")
                a = torch.zeros_like(n) if g is None else (_real_parts(g.detach()) * u).sum()
            else:
                a = torch.zeros_like(n)
            # One number replaces the whole matrix. An error of `atol` in all its elements changes it by this.
            allowed = atol * float((u[..., 0] if x.is_complex() else u).sum()) * float(v.sum())
            if not torch.allclose(a.to(n.dtype), n, rtol, allowed):
                raise GradcheckError(
                    f"Jacobian mismatch for output {i} with respect to input {j},\nnumerical:{n.item()}\n"
                    f"analytical:{a.item()}\n\nThe above quantities relating the numerical and analytical jacobians "
                    "are "
                    "computed in fast mode, along one random direction.\n"
                )


def _batch(outputs, inputs):
    for i, y in enumerate(outputs):
        if not y.requires_grad:
            continue
        weights = torch.randn((2,) + tuple(y.shape), dtype=y.dtype, device=y.device)
        single = [
            torch.autograd.grad((y,), inputs, (w,), retain_graph=True, allow_unused=True) for w in weights.unbind(0)
        ]
        many = torch.autograd.grad(
            (y,), inputs, (weights,), retain_graph=True, allow_unused=True, is_grads_batched=True
        )
        for j, g in enumerate(many):
            if g is not None and not torch.allclose(g, torch.stack([s[j] for s in single])):
                raise GradcheckError(f"For output {i} and input {j}: batched gradients differ from single ones")


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of `func` with central differences.

    The inputs should be `float64` or `complex128`: with less precision, differences are too coarse.

    Args:
        func: Function of the inputs. It returns a tensor or a tuple of tensors.
        inputs: A tensor, or a sequence of arguments. Gradients are checked for tensors that require them.
        eps: Distance of the differences.
        atol: Absolute tolerance.
        rtol: Relative tolerance.
        raise_exception: If `False`, return `False` instead of raising `GradcheckError`.
        nondet_tol: Largest difference between two backward passes.
        check_undefined_grad: If `True`, check that zero gradients of the outputs give zero gradients.
        check_grad_dtypes: If `True`, check that a gradient has the dtype of its input.
        check_batched_grad: If `True`, check `torch.autograd.grad` with `is_grads_batched`.
        check_batched_forward_grad: Not available.
        check_forward_ad: Not available.
        check_backward_ad: Must be `True`, as there is no forward mode.
        fast_mode: If `True`, compare along one random direction, which is faster and finds fewer errors.
        masked: Accepted for compatibility.

    Returns:
        `True` if all gradients agree.

    Raises:
        GradcheckError: If a gradient differs.
        ValueError: If no input requires gradients.
        NotImplementedError: If forward mode is asked for.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
        >>> torch.autograd.gradcheck(torch.sin, x)
        True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_forward_ad or check_batched_forward_grad:
        raise NotImplementedError("gradcheck: forward-mode differentiation is not available")
    inputs = _tuple(inputs)
    try:
        checked = _check_inputs(inputs)
        outputs = _differentiable(_tuple(func(*inputs)))
        parts = tuple(_real_parts(y) for y in outputs)

        def run():
            # Enable gradients, as the function may have hooks or depend on the mode.
            return [_real_parts(y.detach()).clone() for y in _differentiable(_tuple(func(*inputs)))]

        if not any(y.requires_grad for y in outputs):
            for x in checked:
                for n in _numerical(run, x, eps) or ():
                    if not torch.allclose(n, torch.zeros_like(n), rtol, atol):
                        raise GradcheckError("Numerical gradient for function expected to be zero")
            return True
        if fast_mode:
            _fast(run, parts, checked, eps, atol, rtol, check_grad_dtypes)
        else:
            _slow(run, parts, checked, eps, atol, rtol, nondet_tol, check_grad_dtypes)
        if check_batched_grad:
            _batch(outputs, checked)
        if check_undefined_grad:
            _undefined(func, inputs, checked)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _undefined(func, inputs, checked):
    """Check that zero gradients of the outputs give zero gradients, or none."""
    outputs = [y for y in _differentiable(_tuple(func(*inputs))) if y.requires_grad]
    weights = [torch.zeros_like(y) for y in outputs]
    grads = torch.autograd.grad(outputs, checked, weights, allow_unused=True)
    for g in grads:
        if g is not None and not (g == 0).all().item():
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero. Please "
                "look "
                "at 'Notes about undefined output gradients' in tools/autograd/derivatives.yaml"
            )


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool | None = False,
) -> bool:
    """Compare the second derivatives of `func` with central differences of its gradients.

    Args:
        func: Function of the inputs. It returns a tensor or a tuple of tensors.
        inputs: A tensor, or a sequence of arguments. Gradients are checked for tensors that require them.
        grad_outputs: Gradients of the outputs. `None` draws them at random.
        eps: Distance of the differences.
        atol: Absolute tolerance.
        rtol: Relative tolerance.
        gen_non_contig_grad_outputs: If `True`, the random gradients are not contiguous.
        raise_exception: If `False`, return `False` instead of raising `GradcheckError`.
        nondet_tol: Largest difference between two backward passes.
        check_undefined_grad: If `True`, check that zero gradients give zero gradients.
        check_grad_dtypes: If `True`, check that a gradient has the dtype of its input.
        check_batched_grad: If `True`, check `torch.autograd.grad` with `is_grads_batched`.
        check_fwd_over_rev: Not available.
        check_rev_over_rev: Must be `True`, as there is no forward mode.
        fast_mode: If `True`, compare along one random direction, which is faster and finds fewer errors.
        masked: Accepted for compatibility.

    Returns:
        `True` if all derivatives agree.

    Raises:
        GradcheckError: If a derivative differs.
        ValueError: If no input requires gradients.
        NotImplementedError: If forward mode is asked for.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
        >>> torch.autograd.gradgradcheck(torch.sin, x)
        True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    inputs = _tuple(inputs)
    if grad_outputs is None:
        outputs = [y for y in _differentiable(_tuple(func(*inputs))) if y.requires_grad]

        def random_like(y):
            dtype = y.dtype if str(y.dtype) in _DOUBLE else torch.float64
            g = torch.rand(y.shape, dtype=dtype, device=y.device) * 2 - 1
            if gen_non_contig_grad_outputs and g.dim():
                g = torch.stack([g, g], -1)[..., 0]
            return g.detach().requires_grad_()

        weights = tuple(random_like(y) for y in outputs)
    else:
        weights = _tuple(grad_outputs)
    count = len(weights)
    indices = [i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor) and x.requires_grad]

    def gradient(*args):
        args, given = args[: len(args) - count], args[len(args) - count :]
        args = tuple(x.requires_grad_() if i in indices and not x.requires_grad else x for i, x in enumerate(args))
        with torch.enable_grad():
            y = [t for t in _differentiable(_tuple(func(*args))) if t.requires_grad]
            found = torch.autograd.grad(y, [args[i] for i in indices], given, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradient,
        (*inputs, *weights),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )
