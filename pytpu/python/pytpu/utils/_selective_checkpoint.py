"""Selective checkpointing: a policy decides for each operator whether its results are kept or recomputed for backward.

PyTorch calls the policy below autograd, for the operators of a function. Here a `TorchFunctionMode` sees the functions,
and `_operator` names the operator that PyTorch would run for each: `linear` with a bias is `aten.addmm`, `conv2d` is
`aten.convolution`.

The policy is called in the first run, which keeps the results of the chosen operators, in order. The second run uses
them instead of computing them. Operators in place are shown to the policy, and always run again.
The tensors that a chosen operator saves for backward do not go through the frame of the checkpoint. A saved tensor may
be an argument of the operator, which the second run makes again, or a result, which is kept. Any other saved tensor is
kept separately.
"""

import contextlib
import enum

import pytpu as torch
from pytpu.autograd.graph import saved_tensors_hooks
from pytpu.ops import OpOverload, OpOverloadPacket
from pytpu.overrides import TorchFunctionMode, _call_body

_aten = torch.ops.aten

SAC_IGNORED_OPS = {
    getattr(_aten, name).default
    for name in ("detach", "size", "stride", "numel", "dim", "storage_offset", "is_contiguous")
}


class CheckpointPolicy(enum.Enum):
    """Whether to keep the results of an operator for backward, or to compute them again.

    `MUST_*` and `PREFER_*` differ only for compilers, which do not override the former.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_SAVE = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
_OFFLOAD = (CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD)


class SelectiveCheckpointContext:
    """First argument of a policy: `is_recompute` is true in the second run."""

    def __init__(self, *, is_recompute, op_output=None):
        self.is_recompute = is_recompute
        self.op_output = op_output


# ---- the operator that PyTorch would run for a function

_OPERATORS = {
    "scaled_dot_product_attention": "_scaled_dot_product_flash_attention",
    "layer_norm": "native_layer_norm",
    "group_norm": "native_group_norm",
    "batch_norm": "native_batch_norm",
    "dropout": "native_dropout",
    "max_pool2d": "max_pool2d_with_indices",
    "softmax": "_softmax",
    "log_softmax": "_log_softmax",
    **dict.fromkeys(
        ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"], "convolution"
    ),
}


def _product(x, y):
    """Return the name of the operator that multiplies two tensors of these dimensions."""
    if x.dim() == 1 and y.dim() == 1:
        return "dot"
    if x.dim() >= 2 and y.dim() == 1:
        return "mv"
    return "mm" if y.dim() == 2 else "bmm"


def _operator(function, args, kwargs):
    """Return the operator that PyTorch would run and its arguments.

    Return `None` if the policy is not called for the function.
    """
    name = getattr(function, "__name__", "")
    if name == "__getitem__":
        packet = _indexing(args[1])
        return None if packet is None else (packet, args, kwargs)
    if name.startswith("__"):
        return None
    if name == "linear":
        x, w, *rest = (*args, *(kwargs[k] for k in ("input", "weight", "bias") if k in kwargs))
        bias = rest[0] if rest else None
        with torch.no_grad():
            args = (x, w.t()) if bias is None else (bias, x, w.t())
        return (_aten.mm if bias is None else _aten.addmm).default, args, {}
    if name == "matmul":
        x, y = (*args, *kwargs.values())[:2]
        return getattr(_aten, _product(x, y)).default, args, kwargs
    if name == "scaled_dot_product_attention" and args and args[0].is_cpu:
        return _aten._scaled_dot_product_flash_attention_for_cpu.default, args, kwargs
    packet = getattr(_aten, _OPERATORS.get(name, name), None)
    if packet is None:
        return None
    names = packet.overloads()
    if "correction" in names and "unbiased" not in kwargs and not (len(args) > 1 and isinstance(args[1], bool)):
        return packet.correction, args, kwargs
    if "dim" in names and (len(args) > 1 and isinstance(args[1], int) or "dim" in kwargs):
        return packet.dim, args, kwargs
    if len(args) > 1 and isinstance(args[1], (int, float)) and name in _BESIDE_NUMBERS:
        return getattr(packet, _BESIDE_NUMBERS[name]), args, kwargs
    return getattr(packet, "default" if "default" in names else names[0]), args, kwargs


#: Overloads of a tensor and a number. Sums and products of both are those of two tensors.
_BESIDE_NUMBERS = {
    "pow": "Tensor_Scalar",
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "remainder", "fmod", "masked_fill"), "Scalar"),
}


def _indexing(key):
    """Return the operator of the first part of a key that changes a tensor."""
    for part in key if isinstance(key, tuple) else (key,):
        if part is None:
            return _aten.unsqueeze.default
        if isinstance(part, slice) and part != slice(None):
            return _aten.slice.Tensor
        if isinstance(part, int) and not isinstance(part, bool):
            return _aten.select.int
        if isinstance(part, (torch.Tensor, list)):
            return _aten.index.Tensor
    return None


# ---- kept results of a chosen operator


def _describe(x):
    return x._storage_id(), x.storage_offset(), tuple(x.shape), tuple(x.stride()), x.dtype


def _list_tensors(value):
    """Return the tensors in nested tuples, lists and dictionaries."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in _list_tensors(v)]
    if isinstance(value, dict):
        return [t for v in value.values() for t in _list_tensors(v)]
    return []


def _fill(value, tensors):
    """Return `value` with its tensors replaced by the next ones of the iterator `tensors`."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if isinstance(value, (tuple, list)):
        items = [_fill(v, tensors) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


class _Results:
    """The results of one call of an operator, and the parts of its arguments that backward needs."""

    def __init__(self, out, offload):
        tensors = _list_tensors(out)
        self.requires_grad = [t.requires_grad for t in tensors]
        self.devices = [t.device for t in tensors]
        self.offload = offload
        self.tensors = [t.detach().cpu() if offload else t.detach() for t in tensors]
        self.versions = [t._version for t in self.tensors]
        self.shape = _fill(out, iter([None] * len(tensors))) if not isinstance(out, torch.Tensor) else None
        self.is_one = isinstance(out, torch.Tensor)
        self.arguments = None
        self.needs_arguments = False
        self.random = None

    def tensor(self, i):
        """Return the result of number `i`, on its device."""
        return self.tensors[i].to(self.devices[i]) if self.offload else self.tensors[i]

    def check(self):
        """Raise an error if a result has been changed in place."""
        if any(t._version != v for t, v in zip(self.tensors, self.versions)):
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated. If you are sure that this is "
                "OK, pass `allow_cache_entry_mutation=True` to `create_selective_checkpoint_contexts`."
            )


class _Saved:
    """A tensor that a chosen operator saved for backward."""

    def __init__(self, tensor):
        self.tensor, self.version = tensor, tensor._version
        self.result = self.argument = None

    def settle(self, results, outputs, arguments):
        """Decide where backward finds the tensor: among the results or the arguments, or here."""
        what = _describe(self.tensor)
        for i, output in enumerate(outputs):
            if what == output:
                self.result, self.tensor = (results, i), None
                return
        for i, argument in enumerate(arguments):
            if what == _describe(argument):
                # A parameter lives on anyway.
                if not argument.is_leaf:
                    self.argument, self.tensor = (results, i), None
                    results.needs_arguments = True
                return

    def value(self, frame):
        """Return the tensor, which may come from the second run."""
        if self.result is not None:
            results, i = self.result
            return results.tensor(i)
        if self.argument is not None:
            results, i = self.argument
            if results.arguments is None:
                frame.recompute()
            return results.arguments[i]
        if self.tensor._version != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: it "
                "was saved by an operator that selective checkpointing keeps"
            )
        return self.tensor


class _Known(torch.autograd.Function):
    """Turn results of the first run into results of the second run. They require gradients where they did."""

    @staticmethod
    def forward(ctx, requires_grad, anchor, *tensors):
        views = tuple(t.view_as(t) for t in tensors)
        ctx.mark_non_differentiable(*[v for v, needs in zip(views, requires_grad) if not needs])
        return views

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("the second run of a checkpointed function is not for backward")


_RECOMPUTED = object()
_VIEW = object()
_CONSUMED = object()
_MISMATCH = (
    "This can happen if the operations in the checkpointed region are nondeterministic or depend on global state that "
    "changed between forward and backward."
)


class _Mode(TorchFunctionMode):
    """A mode that calls the policy for each operator. `frame` is the checkpoint that the run belongs to."""

    def __init__(self, policy, storage, is_recompute, allow_mutation=False):
        self.policy, self.storage, self.allow_mutation = policy, storage, allow_mutation
        self.context = SelectiveCheckpointContext(is_recompute=is_recompute)
        self.frame = None
        # The number of calls of each operator in the second run.
        self.calls = {}

    def __enter__(self):
        from .checkpoint import current_frame

        self.frame = current_frame()
        self.calls.clear()
        return super().__enter__()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if hasattr(func, "__wrapped__"):
            # The function is written in Python. The policy is called for the operators that it calls.
            super().__enter__()
            try:
                return _call_body(func, args, kwargs)
            finally:
                self.__exit__(None, None, None)
        found = _operator(func, args, kwargs)
        if found is None or found[0] in SAC_IGNORED_OPS:
            return func(*args, **kwargs)
        operator, its_args, its_kwargs = found
        if self.context.is_recompute:
            return self._again(operator, func, args, kwargs)
        if getattr(func, "__name__", "") == "linear":
            # PyTorch transposes the weight by an operator of its own, a view.
            self._decide(_aten.t.default, its_args[-1].t())
        policy = self._decide(operator, *its_args, **its_kwargs)
        is_in_place = operator.__name__.partition(".")[0].endswith("_")
        if is_in_place or policy not in _SAVE and policy not in _OFFLOAD:
            self.storage.setdefault(operator, []).append(_RECOMPUTED)
            return func(*args, **kwargs)
        return self._first(operator, policy in _OFFLOAD, func, args, kwargs)

    def _decide(self, operator, *args, **kwargs):
        """Return what the policy says about a call of an operator."""
        policy = self.policy(self.context, operator, *args, **kwargs)
        if isinstance(policy, bool):
            return CheckpointPolicy.MUST_SAVE if policy else CheckpointPolicy.PREFER_RECOMPUTE
        return policy

    def _first(self, operator, offload, func, args, kwargs):
        """Run the operator and keep its results."""
        frame, saved = self.frame, []

        def pack(x):
            saved.append(_Saved(x.detach()))
            return saved[-1]

        # Without a checkpoint around it, nothing is recomputed.
        hooks = contextlib.nullcontext() if frame is None else saved_tensors_hooks(pack, lambda s: s.value(frame))
        with hooks:
            out = func(*args, **kwargs)
        outputs, arguments = _list_tensors(out), _list_tensors((args, kwargs))
        memory = {t._storage_id() for t in arguments}
        if any(t._storage_id() in memory for t in outputs):
            # Views cost nothing, so the second run makes them again.
            self.storage.setdefault(operator, []).append(_VIEW)
            return out
        results = _Results(out, offload)
        for s in saved:
            s.settle(results, [_describe(t) for t in outputs], arguments)
        if frame is not None:
            if frame.random is not None:
                results.random = frame.random.now()
            frame.kept += results.needs_arguments
        self.storage.setdefault(operator, []).append(results)
        return out

    def _again(self, operator, func, args, kwargs):
        """Return the results of the first run, or compute them again."""
        kept = self.storage.get(operator)
        if kept is None:
            raise RuntimeError(f"{operator} encountered during backward but not found in storage. {_MISMATCH}")
        i = self.calls.get(operator, 0)
        self.calls[operator] = i + 1
        if i >= len(kept):
            raise RuntimeError(
                f"{operator} invocation index {i} encountered during backward but not found in storage. {_MISMATCH}"
            )
        results = kept[i]
        if results is _CONSUMED:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        if results is _RECOMPUTED:
            return func(*args, **kwargs)
        if results is _VIEW:
            with saved_tensors_hooks(lambda x: x, lambda x: x):
                return func(*args, **kwargs)
        kept[i] = _CONSUMED
        if not self.allow_mutation:
            results.check()
        if results.needs_arguments:
            results.arguments = [t.detach() for t in _list_tensors((args, kwargs))]
            self.frame.arguments_came()
        if results.random is not None:
            results.random.restore()
        tensors = [results.tensor(i) for i in range(len(results.tensors))]
        if any(results.requires_grad):
            tensors = _Known.apply(results.requires_grad, torch.empty(0, requires_grad=True), *tensors)
        return tensors[0] if results.is_one else _refill(results.shape, iter(tensors))


def _refill(shape, tensors):
    """Undo `_fill` with `None` for tensors."""
    if shape is None:
        return next(tensors)
    if isinstance(shape, (tuple, list)):
        items = [_refill(v, tensors) for v in shape]
        return type(shape)(*items) if hasattr(shape, "_fields") else type(shape)(items)
    return shape


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation=False):
    """Return the contexts for the first and for the second run of a function, with a policy for its results.

    Args:
        policy_fn_or_list: `policy(ctx, op, *args, **kwargs)`, which returns a `CheckpointPolicy` (or `True` to keep),
            or a list of overloads, such as `torch.ops.aten.mm.default`, to keep.
        allow_cache_entry_mutation: whether kept results may be changed in place before backward. By default that
            raises.

    Example::

        context_fn = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])
        y = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False, context_fn=context_fn)
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, OpOverload):
                hint = (
                    "Please update the OpOverloadPacket to a specific OpOverload.For example, if you have "
                    "`torch.ops.aten.mm`, change it to `torch.ops.aten.mm.default`."
                    if isinstance(op, OpOverloadPacket)
                    else ""
                )
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}.{hint}"
                )
        chosen = {_family(op) for op in policy_fn_or_list}

        def policy(ctx, op, *args, **kwargs):
            return CheckpointPolicy.MUST_SAVE if _family(op) in chosen else CheckpointPolicy.PREFER_RECOMPUTE

    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage = {}
    return _Mode(policy, storage, False), _Mode(policy, storage, True, allow_cache_entry_mutation)


def _family(op):
    """Return one name for all attention operators of different devices, and any other operator itself."""
    return "attention" if op.overloadpacket.__name__.startswith("_scaled_dot_product_") else op
