"""Names that a file of `torch.save` may use.

They are PyTorch's functions that rebuild tensors, and classes of plain containers.
Functions that take sizes, and classes that hash, are called in a form that charges the budget of the file. See
`_weights_only.py`.
"""

import collections
import importlib
import pickle

from . import _C, _legacy, _weights_only, storage as _storages
from ._size import Size

STORAGES = {
    "FloatStorage": _C.float32,
    "DoubleStorage": _C.float64,
    "HalfStorage": _C.float16,
    "BFloat16Storage": _C.bfloat16,
    "LongStorage": _C.int64,
    "IntStorage": _C.int32,
    "ShortStorage": _C.int16,
    "CharStorage": _C.int8,
    "ByteStorage": _C.uint8,
    "BoolStorage": _C.bool,
    "ComplexFloatStorage": _C.complex64,
    "ComplexDoubleStorage": _C.complex128,
}
STORAGE_OF = {v: k for k, v in STORAGES.items()}


class StorageType:
    """A file's name for the dtype of a storage, such as `torch.FloatStorage`."""

    __slots__ = ("dtype",)

    def __init__(self, dtype):
        self.dtype = dtype

    def __repr__(self):
        return f"StorageType(dtype={self.dtype})"


def _window(storage, offset, size, stride):
    """Return a tensor on the memory of a loaded storage.

    The memory goes to its device here, not when it is read. So a tensor that has all of the memory is not a view on the
    device, which is better for programs there.
    """
    storage.dtype  # noqa: B018  (what is no storage raises AttributeError here)
    if type(offset) is not int:
        raise TypeError(f"storage_offset must be int, not {type(offset).__name__}")
    size, stride = _ints(size, "size"), _ints(stride, "stride")
    tensor, target = storage._tensor, vars(storage).pop("_target", None)
    try:
        if target is not None:
            window = _C._strided(tensor, offset, size, stride)
            if window.is_contiguous() and window.numel() == tensor.numel():
                # The usual tensor.
                storage._tensor = window.to(target)
                return storage._tensor
            storage._tensor = tensor = tensor.to(target)
        if not tensor.is_cpu and offset == 0 and list(tensor.shape) == size and tensor.is_contiguous():
            return tensor.detach()
        return _C._strided(tensor, offset, size, stride)
    except OverflowError:
        raise ValueError("Overflow when unpacking long long") from None


def _ints(values, name):
    if not isinstance(values, tuple):
        raise TypeError(f"{name} must be tuple of ints, not {type(values).__name__}")
    return list(values)


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    t = _window(storage, storage_offset, size, stride)
    if metadata:
        # State bits of views that PyTorch keeps in the file.
        t = t.conj() if metadata.get("conj") else t
        t = t._neg_view() if metadata.get("neg") else t
    return _with_grad(t, requires_grad)


def _rebuild_tensor_v3(storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None):
    typed = _storages.TypedStorage(wrap_storage=storage.untyped(), dtype=dtype, _internal=True)
    if "_target" in vars(storage):
        typed._target = storage._target
    return _rebuild_tensor_v2(typed, storage_offset, size, stride, requires_grad, backward_hooks, metadata)


def _rebuild_tensor(storage, storage_offset, size, stride):
    return _window(storage, storage_offset, size, stride)


def _with_grad(t, requires_grad):
    if not isinstance(requires_grad, bool):
        raise RuntimeError("requires_grad must be a bool")
    return t.requires_grad_() if requires_grad else t


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    t = _C._ops.empty_strided(list(size), list(stride), dtype=dtype, device="meta")
    return _with_grad(t, requires_grad)


def _rebuild_parameter(data, requires_grad, backward_hooks):
    from .nn.parameter import Parameter

    if not isinstance(requires_grad, bool):
        raise RuntimeError("requires_grad must be a bool")
    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    p = _rebuild_parameter(data, requires_grad, backward_hooks)
    _set_state(p, state)
    return p


def _rebuild_from_type_v2(func, new_type, args, state):
    return _retype(func(*args), new_type, state)


def _retype(t, new_type, state):
    if type(t) is not new_type:
        t = t.as_subclass(new_type)
    own = getattr(type(t), "__setstate__", None)
    if own is not None and own is not getattr(_C.Tensor, "__setstate__", None):
        t.__setstate__(state)
    else:
        _set_state(t, state)
    return t


def _set_state(instance, state):
    """Set attributes: of a dict, or of a pair of such a dict and one for slots."""
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if attributes:
        instance.__dict__.update(attributes)
    for name, value in (slots or {}).items():
        setattr(instance, name, value)


def _rebuild_device_tensor_from_cpu_tensor(data, dtype, device, requires_grad):
    return _with_grad(data.to(device=device, dtype=dtype), requires_grad)


def _rebuild_device_tensor_from_numpy(data, dtype, device, requires_grad):
    return _with_grad(_C.from_numpy(data).to(device=device, dtype=dtype), requires_grad)


def _rebuild_sparse_tensor(layout, data):
    raise NotImplementedError("torch.load: sparse tensors are not supported")


def _rebuild_qtensor(storage, storage_offset, size, stride, quantizer_params, requires_grad, backward_hooks):
    raise NotImplementedError("torch.load: quantized tensors are not supported")


def _rebuild_wrapper_subclass(cls, dtype, size, stride, storage_offset, layout, device, requires_grad):
    raise NotImplementedError("torch.load: tensor subclasses without memory of their own are not supported")


def _device(*args):
    try:
        return _C.device(*args)
    except RuntimeError:
        # The device is not here. Its tensors are moved when they are loaded.
        return _C.device("cpu")


def _get_layout(name):
    if name != "torch.strided":
        raise NotImplementedError(f"tensors with the layout {name} are not supported: convert them with to_dense()")
    return _C.strided


REBUILD = {
    **{
        f"torch._utils.{f.__name__}": f
        for f in (
            _rebuild_tensor,
            _rebuild_tensor_v2,
            _rebuild_tensor_v3,
            _rebuild_meta_tensor_no_storage,
            _rebuild_parameter,
            _rebuild_parameter_with_state,
            _rebuild_device_tensor_from_cpu_tensor,
            _rebuild_device_tensor_from_numpy,
            _rebuild_sparse_tensor,
            _rebuild_qtensor,
            _rebuild_wrapper_subclass,
        )
    },
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type_v2,
    "torch.device": _device,
    "torch.serialization._get_layout": _get_layout,
}

# ---- names that files without trust may use


def _charge_sizes(kind, itemsize):
    """A class whose constructor takes sizes, which are charged to the file's budget."""

    def call(machine, *args, **kwargs):
        counts = args[0] if len(args) == 1 and isinstance(args[0], Size) else args
        if counts and all(isinstance(n, int) and n >= 0 for n in counts):
            n = itemsize
            for count in counts:
                n *= count
            if not machine.budget.allocate(n):
                raise _C.OutOfMemoryError(
                    f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {n} bytes, which is too much "
                    "for the size of this file."
                )
        return kind(*args, **kwargs)

    return call


def _bounded_bytearray(machine, *args):
    if len(args) == 1 and isinstance(args[0], int) and not machine.budget.allocate(args[0]):
        raise MemoryError
    if len(args) >= 2:
        return bytearray(_bounded_encode(machine, *args))
    return bytearray(*args)


_TEXT_ENCODINGS = ("latin1", "latin-1", "ascii", "utf-8", "utf8")


def _bounded_encode(machine, text, encoding="utf-8", errors="strict"):
    import codecs

    # Other codecs take quadratic time, or double the size of the text.
    if encoding not in _TEXT_ENCODINGS and len(text) > 10_000:
        raise pickle.UnpicklingError(f"encode: {len(text)} characters are too many for the encoding {encoding!r}")
    return codecs.encode(text, encoding, errors)


def _hashing(kind):
    """A class that hashes its items. Keys are charged to the file's budget."""

    def call(machine, *args):
        if args:
            items = list(args[0].items()) if isinstance(args[0], dict) else list(args[0])
            for item in items:
                is_pair = kind is collections.OrderedDict or isinstance(args[0], dict)
                machine.budget.key(items, item[0] if is_pair and isinstance(item, (tuple, list)) and item else item)
        return kind(*args)

    return call


def _from_type_by_machine(machine, func, new_type, args, state):
    return _retype(machine.call(func, args), new_type, state)


_allowed = {}
bounded_calls = {}


def _fill_allowed():
    from .nn.parameter import Parameter

    named = dict(REBUILD)
    named["torch.Tensor"] = _C.Tensor
    named["torch.Size"] = Size
    named["torch.device"] = _C.device
    named["torch.nn.parameter.Parameter"] = Parameter
    named["torch.storage.TypedStorage"] = _storages.TypedStorage
    named["torch.storage.UntypedStorage"] = _storages.UntypedStorage
    named["collections.OrderedDict"] = collections.OrderedDict
    named["collections.Counter"] = collections.Counter
    named["builtins.set"] = set
    named["builtins.bytearray"] = bytearray
    named["builtins.complex"] = complex
    named["_codecs.encode"] = importlib.import_module("_codecs").encode
    named.update({f"torch.{k}": v for k, v in vars(_C).items() if isinstance(v, _C.dtype)})
    for name, dtype in STORAGES.items():
        named[f"torch.{name}"] = named[f"torch.cuda.{name}"] = StorageType(dtype)
    for device in ("cpu", "cuda"):
        prefix = "torch." if device == "cpu" else "torch.cuda."
        named.update({prefix + name: kind for name, kind in _legacy.types(device).items()})
    named.update({f"torch.{name}": getattr(_legacy, name) for name in _legacy.types("cpu")})

    calls = {
        id(_C.Tensor): _charge_sizes(_C.Tensor, 4),
        id(_storages.UntypedStorage): _charge_sizes(_storages.UntypedStorage, 1),
        id(_storages.TypedStorage): _charge_sizes(_storages.TypedStorage, 4),
        id(bytearray): _bounded_bytearray,
        id(named["_codecs.encode"]): _bounded_encode,
        id(_rebuild_from_type_v2): _from_type_by_machine,
        id(_C.device): lambda machine, *args: _device(*args),
        **{id(kind): _hashing(kind) for kind in (set, collections.OrderedDict, collections.Counter)},
        **{id(v): _charge_sizes(v, v.dtype.itemsize) for v in named.values() if isinstance(v, _legacy.tensortype)},
    }
    bounded_calls.update(calls)
    _allowed.update(named)


user_safe = {}


def find_allowed(name):
    """Return the object for a full name in a file, or `None` if the name is not allowed."""
    if not _allowed:
        _fill_allowed()
    found = user_safe.get(name)
    if found is not None:
        return found[0] if isinstance(found, tuple) else found
    return _allowed.get(name)


def build(machine, instance, state):
    """Set the state of an object as BUILD may do with weights only."""
    from .nn.parameter import Parameter

    kind = type(instance)
    if kind is _C.Tensor:
        if not (isinstance(state, tuple) and len(state) == 4 and isinstance(state[0], _storages.TypedStorage)):
            raise TypeError(f"set_() received an invalid combination of arguments - got {_types_of(state)}")
        instance.set_(*state)
    elif kind is collections.OrderedDict:
        instance.__dict__.update(state)
    elif kind is Parameter or kind is _storages.TypedStorage or machine.is_pushed(kind) or _is_allowed_by_user(kind):
        if hasattr(instance, "__setstate__"):
            instance.__setstate__(state)
        elif state is not None and not hasattr(instance, "__dict__") and not isinstance(state, tuple):
            raise AttributeError(f"{kind.__name__!r} object has no attribute '__dict__'")
        else:
            _set_state(instance, state)
    else:
        raise _weights_only.Refused(
            f"Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, but got {kind}"
        )


def _is_allowed_by_user(kind):
    """Return whether a class was added, even if the file does not name it.

    NumPy makes dtypes of classes of their own.
    """
    return any((value[0] if isinstance(value, tuple) else value) is kind for value in user_safe.values())


def _types_of(state):
    return f"({', '.join(type(x).__name__ for x in state)})" if isinstance(state, tuple) else type(state).__name__


_MAY_RUN_CODE = (
    "Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in arbitrary "
    "code execution. Do it only if you got the file from a trusted source."
)
_SINCE = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to "
    "`True`. "
)
_MORE = (
    "\n\nCheck the documentation of torch.load to learn more about types accepted by default with weights_only "
    "https://pytorch.org/docs/stable/generated/torch.load.html."
)


def refusal(error):
    """An error of the machine, as the user sees it."""
    w = _weights_only
    if isinstance(error, w.NotAllowed):
        text = (
            "Weights only load failed. This file can still be loaded, to do so you have two options, \033[1mdo those "
            f"steps only if you trust the source of the checkpoint\033[0m. \n\t(1) {_SINCE}{_MAY_RUN_CODE}\n\t(2) "
            "Alternatively, to load with `weights_only=True` please check the recommended steps in the following "
            f"error message.\n\tWeightsUnpickler error: {error}"
        )
    elif isinstance(error, w.Blocked):
        text = f"Weights only load failed. {_SINCE}{_MAY_RUN_CODE}\n\n\n{error}"
    else:
        text = (
            f"Weights only load failed. {_SINCE}{_MAY_RUN_CODE}\nPlease file an issue with the following so that we "
            f"can make `weights_only=True` compatible with your use case: WeightsUnpickler error: \n\n{error}"
        )
    return pickle.UnpicklingError(text + _MORE)
