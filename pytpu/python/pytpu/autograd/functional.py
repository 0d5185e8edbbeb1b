"""Jacobians, Hessians, and products with them, by backward passes."""

from __future__ import annotations

import pytpu as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal

    from pytpu import Tensor


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _as_tuple(x, what, function):
    if isinstance(x, torch.Tensor):
        return False, (x,)
    if not isinstance(x, tuple):
        raise TypeError(
            f"The {what} given to {function} must be either a Tensor or a tuple of Tensors but the given {what} has "
            "type "
            f"{type(x)}."
        )
    for i, t in enumerate(x):
        if not isinstance(t, torch.Tensor):
            raise TypeError(
                f"The {what} given to {function} must be either a Tensor or a tuple of Tensors but the value at index "
                f"{i} "
                f"has type {type(t)}."
            )
    return True, x


def _prepare(inputs, create_graph):
    """Return tensors to differentiate by: new ones, tied to the given ones only if a graph is asked for."""
    return tuple(x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in inputs)


def _finish(tensors, create_graph):
    return tensors if create_graph else tuple(t.detach() for t in tensors)


def _outputs(func, inputs, function, strict, what="outputs of the user-provided function"):
    outputs = func(*inputs)
    is_tuple, outputs = _as_tuple(outputs, what, function)
    if strict:
        for i, y in enumerate(outputs):
            if not y.requires_grad:
                raise RuntimeError(
                    f"Output {i} of the user-provided function does not require gradients. The outputs must be "
                    "computed in "
                    "a differentiable manner from the input when running in strict mode."
                )
    return is_tuple, outputs


def _checked_vector(v, like, is_tuple, function):
    _, v = _as_tuple(v, "v", function)
    if len(v) != len(like):
        if is_tuple:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(v)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (a, b) in enumerate(zip(v, like)):
        if a.size() != b.size():
            where = f"Entry {i} in " if is_tuple else ""
            raise RuntimeError(f"{where}v has invalid size: should be {b.size()} but got {a.size()}.")
    return v


def _grads(outputs, inputs, weights, create_graph):
    """Return gradients, or `None` for an input that the outputs do not depend on."""
    weights = weights or (None,) * len(outputs)
    pairs = [(y, w) for y, w in zip(outputs, weights) if y is not None and y.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    y, w = zip(*pairs)
    return torch.autograd.grad(y, inputs, w, create_graph=create_graph, retain_graph=True, allow_unused=True)


_INDEPENDENT = {
    "back": "The output of the user-provided function is independent of input {}. This is not allowed in strict mode.",
    "back_trick": "The gradient with respect to the input is independent of entry {} in the grad_outputs when using "
    "the "
    "double backward trick to compute forward mode gradients. This is not allowed in strict mode.",
    "double_back": "The jacobian of the user-provided function is independent of input {}. This is not allowed in "
    "strict "
    "mode.",
    "double_back_trick": "The hessian of the user-provided function is independent of entry {} in the grad_jacobian. "
    "This "
    "is not allowed in strict mode as it prevents from using the double backward trick to replace forward mode AD.",
}


def _fill(grads, like, strict, create_graph, stage):
    """Replace missing gradients by zeros, or raise in strict mode."""
    found = []
    for i, (g, x) in enumerate(zip(grads, like)):
        if g is None:
            if strict:
                raise RuntimeError(_INDEPENDENT[stage].format(i))
            g = torch.zeros_like(x)
        elif strict and create_graph and not g.requires_grad:
            what = "jacobian" if "double" not in stage else "hessian"
            raise RuntimeError(
                f"The {what} of the user-provided function is independent of input {i}. This is not allowed in strict "
                "mode when create_graph=True."
            )
        found.append(g)
    return tuple(found)


def _same_form(is_tuple, tensors):
    return tensors if is_tuple else tensors[0]


def vjp(
    func: Callable[..., Any],
    inputs: Tensor | tuple[Tensor, ...],
    v: Tensor | tuple[Tensor, ...] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensor | tuple[Tensor, ...], Tensor | tuple[Tensor, ...]]:
    """Return the outputs of `func`, and the product `v^T J` with its Jacobian.

    Args:
        func: Function of the inputs. It returns a tensor or a tuple of tensors.
        inputs: A tensor or a tuple of tensors.
        v: Vector with the shapes of the outputs. It may be `None` if the output has one element.
        create_graph: If `True`, the result can be differentiated.
        strict: If `True`, raise an error if an output does not depend on an input. If `False`, the product is zero.

    Returns:
        A pair `(outputs, product)`. The product has the shapes of the inputs.

    Raises:
        RuntimeError: If `v` has the wrong shape, or in strict mode.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor([1.0, 2.0])
        >>> torch.autograd.functional.vjp(lambda x: x**2, x, torch.ones(2))
        (tensor([1., 4.]), tensor([2., 4.]))
    """
    with torch.enable_grad():
        many_in, inputs = _as_tuple(inputs, "inputs", "vjp")
        inputs = _prepare(inputs, create_graph)
        many_out, outputs = _outputs(func, inputs, "vjp", strict)
        if v is not None:
            v = _checked_vector(v, outputs, many_out, "vjp")
        elif len(outputs) != 1 or outputs[0].numel() != 1:
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns a single Tensor with a single "
                "element."
            )
    with torch.set_grad_enabled(create_graph or torch.is_grad_enabled()):
        grads = _fill(_grads(outputs, inputs, v, create_graph), inputs, strict, create_graph, "back")
    return (
        _same_form(many_out, _finish(outputs, create_graph)),
        _same_form(many_in, _finish(grads, create_graph)),
    )


def _input_vector(v, inputs, many_in, function):
    if v is not None:
        return _checked_vector(v, inputs, many_in, function)
    if len(inputs) != 1 or inputs[0].numel() != 1:
        raise RuntimeError(
            "The vector v can only be None if the input to the user-provided function is a single Tensor with a single "
            "element."
        )
    return (torch.ones_like(inputs[0]),)


def jvp(
    func: Callable[..., Any],
    inputs: Tensor | tuple[Tensor, ...],
    v: Tensor | tuple[Tensor, ...] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensor | tuple[Tensor, ...], Tensor | tuple[Tensor, ...]]:
    """Return the outputs of `func`, and the product `J v` with its Jacobian.

    The product is computed by two backward passes: the derivative of `u^T J` with respect to `u`.

    Args:
        func: Function of the inputs. It returns a tensor or a tuple of tensors.
        inputs: A tensor or a tuple of tensors.
        v: Vector with the shapes of the inputs. It may be `None` if the input has one element.
        create_graph: If `True`, the result can be differentiated.
        strict: If `True`, raise an error if an output does not depend on an input. If `False`, the product is zero.

    Returns:
        A pair `(outputs, product)`. The product has the shapes of the outputs.

    Raises:
        RuntimeError: If `v` has the wrong shape, or in strict mode.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor([1.0, 2.0])
        >>> torch.autograd.functional.jvp(lambda x: x**2, x, torch.tensor([1.0, 0.5]))
        (tensor([1., 4.]), tensor([2., 2.]))
    """
    with torch.enable_grad():
        many_in, inputs = _as_tuple(inputs, "inputs", "jvp")
        inputs = _prepare(inputs, create_graph)
        v = _input_vector(v, inputs, many_in, "jvp")
        many_out, outputs = _outputs(func, inputs, "jvp", strict)
        u = tuple(torch.zeros_like(y, requires_grad=True) for y in outputs)
        back = _fill(_grads(outputs, inputs, u, True), inputs, strict, True, "back")
    with torch.set_grad_enabled(create_graph or torch.is_grad_enabled()):
        found = _fill(_grads(back, u, v, create_graph), outputs, strict, create_graph, "back_trick")
    return (
        _same_form(many_out, _finish(outputs, create_graph)),
        _same_form(many_out, _finish(found, create_graph)),
    )


def jacobian(
    func: Callable[..., Any],
    inputs: Tensor | tuple[Tensor, ...],
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: Literal["forward-mode", "reverse-mode"] = "reverse-mode",
) -> Tensor | tuple[Tensor, ...] | tuple[tuple[Tensor, ...], ...]:
    """Return the Jacobian of `func`: the derivative of each output element by each input element.

    Args:
        func: Function of the inputs. It returns a tensor or a tuple of tensors.
        inputs: A tensor or a tuple of tensors.
        create_graph: If `True`, the result can be differentiated.
        strict: If `True`, raise an error if an output does not depend on an input.
        vectorize: Accepted for compatibility. The passes run one after the other.
        strategy: `"reverse-mode"`, or `"forward-mode"`, which needs `vectorize`. The result is the same.

    Returns:
        For one output of shape `s` and one input of shape `t`, a tensor of shape `s + t`. A tuple of inputs or outputs
        gives a tuple. Both give a tuple of tuples, where `result[i][j]` is that of output `i` and input `j`.

    Raises:
        RuntimeError: In strict mode, or if `strict` is combined with `vectorize`.
        NotImplementedError: If forward mode is asked for without `vectorize` or with `create_graph`.

    Example:
        >>> import pytpu as torch
        >>> torch.autograd.functional.jacobian(lambda x: x**2, torch.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            "than "
            'inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` are not '
                "supported "
                'together (yet). Please either set `create_graph=False` or `strategy="reverse-mode"`.'
            )
        if strict:
            raise RuntimeError(
                'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not supported '
                'together (yet). Please either set `strict=False` or `strategy="reverse-mode"`.'
            )
        if not vectorize:
            raise NotImplementedError(
                "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for "
                "`vectorize=True`."
            )
    if strict and vectorize:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. "
            "Please "
            "either set `strict=False` or `vectorize=False`."
        )
    with torch.enable_grad():
        many_in, inputs = _as_tuple(inputs, "inputs", "jacobian")
        inputs = _prepare(inputs, create_graph)
        many_out, outputs = _outputs(func, inputs, "jacobian", strict)
        table = []
        for i, y in enumerate(outputs):
            rows: list[list[Tensor]] = [[] for _ in inputs]
            flat = y.reshape(-1)
            for j in range(y.numel()):
                grads = _grads((flat[j],), inputs, None, create_graph)
                for k, (g, x) in enumerate(zip(grads, inputs)):
                    if strict and create_graph and g is not None and not g.requires_grad:
                        raise RuntimeError(
                            "The jacobian of the user-provided function is independent of input "
                            f"{k}. This is not allowed in strict mode when create_graph=True."
                        )
                    if g is None:
                        if strict:
                            raise RuntimeError(
                                f"Output {i} of the user-provided function is independent of input {k}. This is not "
                                "allowed in strict mode."
                            )
                        g = torch.zeros_like(x)
                    rows[k].append(g)
            table.append(
                tuple(
                    torch.stack(r).reshape(tuple(y.shape) + tuple(x.shape)) if r else y.new_zeros(y.shape + x.shape)
                    for r, x in zip(rows, inputs)
                )
            )
        finished = tuple(_finish(row, create_graph) for row in table)
    return _same_form(many_out, tuple(_same_form(many_in, row) for row in finished))


def _scalar_output(outputs, many_out, function):
    if many_out:
        raise RuntimeError(f"The function given to {function} should return a single Tensor")
    y = outputs if isinstance(outputs, torch.Tensor) else outputs[0]
    if y.numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {function} should contain a single element")
    return y


def hessian(
    func: Callable[..., Any],
    inputs: Tensor | tuple[Tensor, ...],
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: Literal["forward-mode", "reverse-mode"] = "reverse-mode",
) -> Tensor | tuple[tuple[Tensor, ...], ...]:
    """Return the Hessian of `func`: the second derivatives of a function with one number as its result.

    Args:
        func: Function of the inputs. It returns a tensor with one element.
        inputs: A tensor or a tuple of tensors.
        create_graph: If `True`, the result can be differentiated.
        strict: If `True`, raise an error if the Jacobian does not depend on an input.
        vectorize: Accepted for compatibility. The passes run one after the other.
        outer_jacobian_strategy: Strategy of the second `jacobian`.

    Returns:
        For one input of shape `s`, a tensor of shape `s + s`. For a tuple of inputs, a tuple of tuples.

    Raises:
        RuntimeError: If `func` returns several tensors or elements, or in strict mode.

    Example:
        >>> import pytpu as torch
        >>> torch.autograd.functional.hessian(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    many_in, inputs = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def single(*x):
        y = func(*x)
        many_out, outputs = _as_tuple(y, "outputs of the user-provided function", "hessian")
        _scalar_output(outputs, many_out, "hessian")
        return outputs[0].reshape(())

    def gradient(*x):
        if outer_jacobian_strategy == "forward-mode":
            x = tuple(t.requires_grad_() for t in x)
        found = jacobian(single, x, create_graph=True)
        if strict:
            for i, g in enumerate(found):
                if not g.requires_grad:
                    raise RuntimeError(
                        "While computing the hessian, found that the jacobian of the user-provided function with "
                        "respect "
                        f"to input {i} is independent of the input. This is not allowed in strict mode. You should "
                        "ensure "
                        "that your function is twice differentiable and that the jacobian depends on the inputs (this "
                        "would be violated by a linear function for example)."
                    )
        return found

    found = jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return _same_form(many_in, tuple(_same_form(many_in, row) for row in found))


def _second(func, inputs, v, create_graph, strict, function):
    many_in, inputs = _as_tuple(inputs, "inputs", function)
    inputs = _prepare(inputs, create_graph)
    v = _input_vector(v, inputs, many_in, function)
    many_out, outputs = _outputs(func, inputs, function, strict)
    _scalar_output(outputs, many_out, function)
    gradient = _fill(_grads(outputs, inputs, None, True), inputs, strict, True, "back")
    return many_in, inputs, v, outputs, gradient


def vhp(
    func: Callable[..., Any],
    inputs: Tensor | tuple[Tensor, ...],
    v: Tensor | tuple[Tensor, ...] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensor, Tensor | tuple[Tensor, ...]]:
    """Return the output of `func`, and the product `v^T H` with its Hessian.

    Args:
        func: Function of the inputs. It returns a tensor with one element.
        inputs: A tensor or a tuple of tensors.
        v: Vector with the shapes of the inputs. It may be `None` if the input has one element.
        create_graph: If `True`, the result can be differentiated.
        strict: If `True`, raise an error if the output does not depend on an input.

    Returns:
        A pair `(output, product)`. The product has the shapes of the inputs.

    Raises:
        RuntimeError: If `v` has the wrong shape, `func` returns several elements, or in strict mode.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor([1.0, 2.0])
        >>> torch.autograd.functional.vhp(lambda x: (x**3).sum(), x, torch.ones(2))
        (tensor(9.), tensor([ 6., 12.]))
    """
    with torch.enable_grad():
        many_in, inputs, v, outputs, gradient = _second(func, inputs, v, create_graph, strict, "vhp")
    with torch.set_grad_enabled(create_graph or torch.is_grad_enabled()):
        found = _fill(_grads(gradient, inputs, v, create_graph), inputs, strict, create_graph, "double_back")
    return _finish(outputs, create_graph)[0], _same_form(many_in, _finish(found, create_graph))


def hvp(
    func: Callable[..., Any],
    inputs: Tensor | tuple[Tensor, ...],
    v: Tensor | tuple[Tensor, ...] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensor, Tensor | tuple[Tensor, ...]]:
    """Return the output of `func`, and the product `H v` with its Hessian.

    The product is the derivative of `u^T H` with respect to `u`. `vhp` needs one pass less, and gives the same for a
    function with continuous second derivatives.

    Args:
        func: Function of the inputs. It returns a tensor with one element.
        inputs: A tensor or a tuple of tensors.
        v: Vector with the shapes of the inputs. It may be `None` if the input has one element.
        create_graph: If `True`, the result can be differentiated.
        strict: If `True`, raise an error if the output does not depend on an input.

    Returns:
        A pair `(output, product)`. The product has the shapes of the inputs.

    Raises:
        RuntimeError: If `v` has the wrong shape, `func` returns several elements, or in strict mode.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor([1.0, 2.0])
        >>> torch.autograd.functional.hvp(lambda x: (x**3).sum(), x, torch.ones(2))
        (tensor(9.), tensor([ 6., 12.]))
    """
    with torch.enable_grad():
        many_in, inputs, v, outputs, gradient = _second(func, inputs, v, create_graph, strict, "hvp")
        u = tuple(torch.zeros_like(x, requires_grad=True) for x in inputs)
        back = _fill(_grads(gradient, inputs, u, True), inputs, strict, True, "double_back")
    with torch.set_grad_enabled(create_graph or torch.is_grad_enabled()):
        found = _fill(_grads(back, u, v, create_graph), inputs, strict, create_graph, "double_back_trick")
    return _finish(outputs, create_graph)[0], _same_form(many_in, _finish(found, create_graph))
