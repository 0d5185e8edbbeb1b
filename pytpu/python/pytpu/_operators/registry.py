"""The operators that are written in Python, by name."""

from __future__ import annotations

import pytpu as torch
from pytpu import _C

from .. import _torch_dispatch, ops as _ops
from ..autograd import Function as _Function
from .schema import _Schema

_REGISTRY: dict[str, _Operator] = {}


def _tensors(values):
    for v in values:
        if isinstance(v, torch.Tensor):
            yield v
        elif isinstance(v, (list, tuple)):
            yield from _tensors(v)


class _Operator:
    """An operator: its schema, its kernels by device, and its gradient."""

    def __init__(self, name, schema):
        self.name = name
        self.schema = _Schema(schema)
        self.kernels = {}
        self.fallback = self.fake = self.backward = self.setup_context = None
        # Autograd differentiates through kernels of a `Library`. Kernels of `custom_op` have a gradient of their own.
        self.opaque = False
        #: The dtypes that floating-point operands are cast to under autocast, by device.
        self.autocast = {}

    @property
    def dotted(self):
        return self.name.replace("::", ".") + ".default"

    def kernel(self, device):
        if device == "meta":
            found = self.fake or self.kernels.get("meta")
            if found is None:
                raise NotImplementedError(
                    f"{self.name}: attempted to run this operator with Meta tensors, but there was no fake impl or "
                    "Meta kernel registered."
                )
            return found
        found = self.kernels.get(device, self.fallback)
        if found is None:
            there = ", ".join(k.upper() for k in self.kernels)
            raise NotImplementedError(
                f"Could not run '{self.name}' with arguments from the '{device.upper()}' backend. '{self.name}' is "
                f"only available for these backends: [{there}]."
            )
        return found

    def __call__(self, *args, **kwargs):
        if _C._torch_function_modes():
            mode = _C._torch_function_modes()[-1]
            _C._pop_torch_function_mode()
            try:
                packet = getattr(getattr(_ops, self.name.partition("::")[0]), self.name.partition("::")[2])
                return mode.__torch_function__(packet, (), args, kwargs)
            finally:
                _C._push_torch_function_mode(mode)
        values = self.schema.bind(self.name, args, kwargs)
        tensors = list(_tensors(values))
        if self.autocast and tensors:
            kind = tensors[0].device.type
            if kind in self.autocast and torch.is_autocast_enabled(kind):
                cast = (t.to(self.autocast[kind]) if _is_cast(t) else t for t in tensors)
                values = [_filled(v, cast) for v in values]
                keywords = {a.name: v for v, a in zip(values, self.schema.arguments) if a.keyword_only}
                with torch.autocast(kind, enabled=False):
                    return self(*values[: len(values) - len(keywords)], **keywords)
        kernel = self.kernel(tensors[0].device.type if tensors else "cpu")
        if not self.opaque and self.backward is None:
            return self._run(kernel, values)
        if not self.schema.mutates and torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return self._differentiable(kernel, values, tensors)
        with torch.no_grad():
            return self._run(kernel, values)

    def _run(self, kernel, values):
        arguments = self.schema.arguments
        positional = [v for v, a in zip(values, arguments) if not a.keyword_only]
        keywords = {a.name: v for v, a in zip(values, arguments) if a.keyword_only}
        if _torch_dispatch.is_offered(positional, keywords):
            space, _, name = self.name.partition("::")
            return _torch_dispatch.offer(getattr(getattr(_ops, space), name).default, tuple(positional), keywords)
        result = kernel(*positional, **keywords)
        if self.opaque:
            given = {t._storage_id() for t in _tensors(values)}
            for t in _tensors([result]):
                if t._storage_id() in given:
                    raise RuntimeError(
                        f"{self.name.partition('::')[2]}: The output of this custom operator (1) must not also be an "
                        "input to "
                        "this custom operator and (2) may not alias any inputs to this custom operator or other "
                        "returns. "
                        "Please instead return a clone of the offending output tensor(s) (e.g. return x.clone())."
                    )
        return result

    def _differentiable(self, kernel, values, tensors):
        """Run the kernel as one node of the graph."""
        op, arguments, shape = self, self.schema.arguments, []

        def forward(ctx, *leaves):
            rest = iter(leaves)
            given = [_filled(v, rest) for v in values]
            result = op._run(kernel, given)
            if op.setup_context is not None:
                inputs = tuple(v for v, a in zip(given, arguments) if not a.keyword_only)
                keywords = {a.name: v for v, a in zip(given, arguments) if a.keyword_only}
                if keywords:
                    op.setup_context(ctx, inputs=inputs, keyword_only_inputs=keywords, output=result)
                else:
                    op.setup_context(ctx, inputs=inputs, output=result)
            shape.append(result)
            return tuple(_tensors([result]))

        def backward(ctx, *grads):
            if op.backward is None:
                raise RuntimeError(
                    f"Trying to backward through {op.dotted} but no autograd formula was registered. "
                    "Please use register_autograd to add one."
                )
            given = iter(grads)
            result = shape[0]
            if isinstance(result, tuple):
                found = op.backward(ctx, *(_filled(r, given) for r in result))
            else:
                found = op.backward(ctx, _filled(result, given))
            found = found if isinstance(found, tuple) else (found,)
            positional = [v for v, a in zip(values, arguments) if not a.keyword_only]
            if len(found) != len(positional):
                raise RuntimeError(
                    f"Expected the gradient function to return {len(positional)} gradients, one for each input of "
                    f"{op.dotted}, but got {len(found)}"
                )
            flat = []
            for value, grad in zip(positional, found):
                if isinstance(value, torch.Tensor):
                    flat.append(grad)
                elif isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
                    flat += [None] * len(value) if grad is None else list(grad)
            return (*flat, *(None for v, a in zip(values, arguments) if a.keyword_only for _ in _tensors([v])))

        name = f"GeneratedBackwardFor_{self.dotted.replace('.', '_')}"
        node = type(name, (_Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})
        order = [t for a, v in zip(arguments, values) if not a.keyword_only for t in _tensors([v])]
        order += [t for a, v in zip(arguments, values) if a.keyword_only for t in _tensors([v])]
        outputs = iter(node.apply(*order))
        return _filled(shape[0], outputs)


def _is_cast(t):
    """Whether autocast casts an operand."""
    return t.is_floating_point() and t.dtype != torch.float64


def _filled(value, tensors):
    """Return the value with its tensors replaced by the next ones."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if isinstance(value, (list, tuple)):
        return type(value)(_filled(v, tensors) for v in value)
    return value


def _operator(name):
    """Return an operator by its name, its `CustomOpDef` or its packet."""
    name = getattr(name, "_qualname", None) or getattr(name, "_qualified_op_name", name)
    if name not in _REGISTRY and not declare(name):
        space, _, op = name.partition("::")
        raise AttributeError(f"'_OpNamespace' '{space}' object has no attribute '{op}'")
    return _REGISTRY[name]


# Operators of C++ extensions, which cannot be loaded. They are declared without kernels, so that kernels can be added.
_DECLARED = {
    "torchvision::_cuda_version": "() -> int",
    "torchvision::_deform_conv2d_backward": "(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask, "
    "Tensor bias, SymInt stride_h, "
    "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt "
    "offset_groups, bool use_mask) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "torchvision::_ps_roi_align_backward": "(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    "SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, SymInt batch_size, SymInt channels, SymInt height, SymInt width) -> "
    "Tensor",
    "torchvision::_ps_roi_pool_backward": "(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    "SymInt pooled_height, "
    "SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width) -> Tensor",
    "torchvision::_roi_align_backward": "(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt "
    "pooled_width, "
    "SymInt batch_size, SymInt channels, SymInt height, SymInt width, int sampling_ratio, bool aligned) -> Tensor",
    "torchvision::_roi_pool_backward": "(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, SymInt "
    "pooled_height, "
    "SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width) -> Tensor",
    "torchvision::deform_conv2d": "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt "
    "stride_h, SymInt stride_w, "
    "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool "
    "use_mask) -> Tensor",
    "torchvision::nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "torchvision::ps_roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt "
    "pooled_width, "
    "int sampling_ratio) -> (Tensor, Tensor)",
    "torchvision::ps_roi_pool": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt "
    "pooled_width) "
    "-> (Tensor, Tensor)",
    "torchvision::qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "torchvision::roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt "
    "pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "torchvision::roi_pool": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt "
    "pooled_width) -> (Tensor, Tensor)",
}


def declare(name: str) -> bool:
    """Register an operator of a known extension, and return whether there is one with this name."""
    if name not in _DECLARED or name in _REGISTRY:
        return name in _REGISTRY
    _register(name, _DECLARED[name])
    return True


def _register(name, schema):
    space, colons, op = name.partition("::")
    if not colons or not space or not op:
        raise ValueError(f"Expected `name` to be of the form `namespace::name`, got {name!r}")
    if space in ("aten", "prim", "prims"):
        raise ValueError(f"namespace {space!r} belongs to the op table. Choose another one for your operators")
    made = _REGISTRY[name] = _Operator(name, schema)
    _ops._add(space, op, made)
    return made
