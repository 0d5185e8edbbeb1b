"""Methods of `Tensor` in Python. They are attached to the type at the end."""

from __future__ import annotations

import functools

from . import _C
from ._absent import AbsentMember

TYPE_CHECKING = False  # As in `typing`, without the cost of importing it.
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    import numpy as _numpy

    from pytpu import Tensor
    from pytpu.storage import TypedStorage, UntypedStorage
    from pytpu.utils.hooks import RemovableHandle


if not TYPE_CHECKING:
    Tensor = _C.Tensor
_METHODS: dict[str, Callable[..., Any]] = {}


def overridable_method(f: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
    """Return a method of `Tensor` that subclasses and modes can intercept by `__torch_function__`."""

    @functools.wraps(f)
    def overridable(self, *args, **kwargs):
        if _C._has_torch_function((self,)):
            return _C._call_torch_function(overridable, (self,), (self, *args), kwargs)
        return f(self, *args, **kwargs)

    overridable.__name__ = name or f.__name__
    overridable.__qualname__ = f"Tensor.{overridable.__name__}"
    return overridable


def method(f: Callable[..., Any]) -> Callable[..., Any]:
    """Register a function as a method of `Tensor` that subclasses and modes can intercept."""
    _METHODS[f.__name__] = overridable_method(f)
    return _METHODS[f.__name__]


def method_of_all(f: Callable[..., Any]) -> Callable[..., Any]:
    """Register a function as a method of `Tensor` that cannot be intercepted."""
    f.__qualname__ = f"Tensor.{f.__name__}"
    _METHODS[f.__name__] = f
    return f


@method
def backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Compute the gradient of this tensor with respect to the leaves of its graph, and add it to their `grad`.

    Args:
        gradient: Gradient of this tensor, with its shape. `None` is 1 for a tensor with one element.
        retain_graph: If `False`, free what the graph has saved. `None` is the value of `create_graph`.
        create_graph: If `True`, record the gradients themselves, so that they can be differentiated.
        inputs: Tensors whose `grad` is computed. `None` is all leaves.

    Raises:
        RuntimeError: If `gradient` is missing for a tensor with several elements, or the graph has been freed.
        TypeError: If `gradient` is not a tensor.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 4.])
    """
    if inputs is not None:
        inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    if gradient is not None and not isinstance(gradient, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
    _C._backward((self,), (gradient,), retain_graph, create_graph, inputs)


def _handle(owner):
    from .utils.hooks import TensorHandle

    return TensorHandle(owner)


@method
def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call `hook(grad)` when the gradient of this tensor is known.

    Args:
        hook: Function of the gradient. If it returns a tensor, that is the new gradient.

    Returns:
        A handle whose `remove()` removes the hook.

    Example:
        >>> import pytpu as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> handle = x.register_hook(lambda grad: grad * 10)
        >>> x.sum().backward()
        >>> x.grad
        tensor([10., 10.])
    """
    return _handle(_C._register_hook(self, hook))


@method
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call `hook(tensor)` after a gradient was added to `grad` of this leaf.

    Args:
        hook: Function of the tensor. It must return `None`.

    Returns:
        A handle whose `remove()` removes the hook.
    """

    def checked(tensor):
        if hook(tensor) is not None:
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")

    return _handle(_C._register_post_accumulate_grad_hook(self, checked))


@method
def __repr__(self: Tensor, *, tensor_contents: Any = None) -> str:
    text = self._text()
    name = type(self).__name__
    if type(self) is not Tensor and name != "Parameter":
        # A subclass prints its own name. `Parameter` prints a line before.
        indent = " " * (len(name) - len("tensor"))
        text = name + text.removeprefix("tensor").replace("\n", "\n" + indent)
    return text


@method
def __format__(self: Tensor, spec: str) -> str:
    if self.dim() == 0 and type(self) is Tensor and not self.is_meta:
        return self.item().__format__(spec)
    return object.__format__(self, spec)


@method
def float_power_(self: Tensor, exponent: Tensor | complex) -> Tensor:
    """Raise the elements to a power in place, in double precision.

    Args:
        exponent: A number or a tensor.

    Raises:
        RuntimeError: If this tensor is not `float64`, or `complex128` for complex numbers.
    """
    is_complex = (
        self.is_complex() or isinstance(exponent, complex) or isinstance(exponent, Tensor) and exponent.is_complex()
    )
    wide = _C.complex128 if is_complex else _C.float64
    if self.dtype != wide:
        names = [d._scalar_type for d in (self.dtype, wide)]
        raise RuntimeError(
            f"the base given to float_power_ has dtype {names[0]} but the operation's result requires dtype {names[1]}"
        )
    return self.pow_(exponent)


def _mapped(name, self, others, function):
    if self.requires_grad:
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
    for t in (self, *others):
        if not t.is_cpu:
            raise TypeError(f"{name} is only implemented on CPU tensors")
        if t.dtype != self.dtype:
            raise TypeError(f"{name}: expected tensors of {self.dtype}, but got one of {t.dtype}")
    rows = [t.expand(self.shape).reshape(-1).tolist() for t in (self, *others)]
    return self.copy_(_C.tensor([function(*row) for row in zip(*rows)], dtype=self.dtype).reshape(self.shape))


@method
def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace each element by `callable(element, element of tensor)`, in place. On the CPU only."""
    return _mapped("map_", self, (tensor,), callable)


@method
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Replace each element by `callable(element, element of x, element of y)`, in place. On the CPU only."""
    return _mapped("map2_", self, (x, y), callable)


@method
def dim_order(self: Tensor, *, ambiguity_check: bool | list[_C.memory_format] = False) -> tuple[int, ...]:
    """Return the dimensions, from the largest stride to the smallest.

    Args:
        ambiguity_check: If `True`, refuse tensors whose strides, or sizes of 1, leave the order open. A list of memory
            formats refuses them unless exactly one of these formats fits.

    Raises:
        RuntimeError: If the order is refused.
        TypeError: If `ambiguity_check` has another type.
    """
    if not isinstance(ambiguity_check, bool):
        if not isinstance(ambiguity_check, list) or not all(isinstance(f, _C.memory_format) for f in ambiguity_check):
            raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    if ambiguity_check is not False:
        strides = self.stride()
        is_open = 1 in self.shape or any(a == b for a, b in zip(strides, strides[1:]))
        formats = [] if ambiguity_check is True else ambiguity_check
        if is_open and sum(self.is_contiguous(memory_format=f) for f in formats) != 1:
            raise RuntimeError(
                "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats."
            )
        if len(set(strides)) < len(strides):
            raise RuntimeError("The tensor does not have unique dim order.")
    if self.is_contiguous():
        return tuple(range(self.dim()))
    return tuple(sorted(range(self.dim()), key=lambda d: (-self.stride(d), -self.shape[d])))


@method
def lu(self: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """Return `torch.lu` of this tensor."""
    from .functions import lu

    return lu(self, pivot, get_infos)


def _removed(name):
    def f(self, *args, **kwargs):
        from . import _removed

        return getattr(_removed, name)(self, *args, **kwargs)

    f.__name__ = name
    f.__doc__ = f"Always raise `RuntimeError`: `torch.{name}` was removed."
    return method(f)


for _name in ("cholesky", "eig", "lstsq", "qr", "solve", "symeig"):
    _removed(_name)


@method
def __reversed__(self: Tensor) -> Tensor:
    return self if self.dim() == 0 else self.flip(0)


def _show_named(self):
    fields = ",\n".join(f"{name}={value!r}" for name, value in zip(type(self).__match_args__, self))
    return f"{type(self).__module__}.{type(self).__name__}(\n{fields})"


for _kind in vars(_C._return_types).values():
    if isinstance(_kind, type):
        setattr(_kind, "__repr__", _show_named)  # noqa: B010  # A type checker takes it for a method.
# Python shows this name in messages.
Tensor.__name__ = "Tensor"
del _kind


class _HostArray:
    """Expose the memory of a tensor to NumPy, and keep it alive.

    It holds a tensor of its own: the object `tensor` may be given other memory (`resize_`, `set_`, `data =`,
    `Module.double`).
    """

    def __init__(self, tensor):
        self.__array_interface__, self._tensor = _C._array_interface(tensor)


@method
def numpy(self: Tensor, *, force: bool = False) -> _numpy.ndarray[Any, Any]:
    """Return a NumPy array on the same memory.

    Args:
        force: If `True`, detach, copy to the CPU and resolve conjugation first.

    Raises:
        RuntimeError: If the tensor requires gradients.
        TypeError: If the tensor is not on the CPU.

    Example:
        >>> import pytpu as torch
        >>> torch.ones(2).numpy()
        array([1., 1.], dtype=float32)
    """
    import numpy

    if force:
        return _resolved(self).numpy()
    if self.requires_grad and _C.is_grad_enabled():
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if not self.is_cpu:
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
            "memory first."
        )
    array = numpy.asarray(_HostArray(self))
    # NumPy drops the strides of an empty array. A 0-d array is right as it is.
    return array.reshape(tuple(self.shape)) if self.numel() == 0 else array


def _resolved(self):
    return self.detach().cpu().resolve_conj().resolve_neg()


@method
def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    array = self.numpy()
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype, copy=False)
    return array.copy() if copy else array


Tensor.__array_priority__ = 1000


@method
def __array_wrap__(self: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Tensor:
    from . import from_numpy

    return from_numpy(array)


@method
def __deepcopy__(self: Tensor, memo: dict[Any, Any]) -> Tensor:
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
            "see https://github.com/pytorch/pytorch/pull/103001"
        )
    from .storage import copied_memory

    is_all = self.numel() * self.element_size() == self._storage_bytes() and _C._is_dense(self)
    if self.is_conj() or self.is_neg():
        data = self.detach().clone()
    else:
        # Tensors of one storage stay tensors of one storage.
        n = self._storage_bytes() // self.element_size()
        whole = self.detach() if is_all else _C._strided(self.detach(), 0, [n], [1])
        copied = copied_memory(memo, self, self.dtype, whole.clone)
        if is_all and copied.shape == self.shape and copied.stride() == self.stride():
            data = copied.detach()
        else:
            data = _C._strided(copied, self.storage_offset(), list(self.shape), list(self.stride()))
    new = Tensor._make_subclass(type(self), data, self.requires_grad) if type(self) is not Tensor else data
    if type(self) is Tensor and self.requires_grad:
        new.requires_grad_()
    memo[id(self)] = new
    if self.grad is not None:
        new.grad = self.grad.__deepcopy__(memo)
    if type(self) is not Tensor or _has_attributes(self):
        import copy

        for k, v in self.__dict__.items():
            setattr(new, k, copy.deepcopy(v, memo))
    return new


def _has_attributes(self):
    return bool(self.__dict__)


@method
def __copy__(self: Tensor) -> Tensor:
    new = Tensor._make_subclass(type(self), self, self.requires_grad)
    if _has_attributes(self):
        new.__dict__.update(self.__dict__)
    return new


def _rebuild_from_type_v2(func, new_type, args, state):
    """Make a tensor of a subclass, or with attributes, from its pickle."""
    t = func(*args)
    if new_type is not Tensor and type(t) is not new_type:
        t = t.as_subclass(new_type)
    set_state = getattr(new_type, "__setstate__", None)
    if set_state is not None and set_state is not getattr(Tensor, "__setstate__", None):
        t.__setstate__(state)
        return t
    from ._utils import _set_state

    return _set_state(t, state)


@method
def __reduce_ex__(self: Tensor, protocol: Any) -> Any:
    from ._utils import reduce_tensor

    return reduce_tensor(self)


def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Return the name of the type of this tensor, or convert it.

    Args:
        dtype: Dtype, tensor type such as `torch.FloatTensor`, or the name of a type, to convert to.
        non_blocking: If `True`, do not wait for a copy.
    """
    if dtype is None:
        prefix = "torch." if self.is_cpu else f"torch.{self.device.type}."
        return f"{prefix}{self.dtype._scalar_type}Tensor"
    if isinstance(dtype, _C.dtype):
        return self.to(dtype, non_blocking)
    if dtype is Tensor:
        return self.to("cpu", _C.get_default_dtype(), non_blocking)
    from ._legacy import tensortype

    if isinstance(dtype, type) and not isinstance(dtype, tensortype):
        dtype = dtype.__name__
    if isinstance(dtype, str):
        names = {d._scalar_type + "Tensor": d for d in vars(_C).values() if isinstance(d, _C.dtype)}
        module, _, name = dtype.rpartition(".")
        package, _, device = module.partition(".")
        if package != "torch" or name not in names or device not in ("", "tpu", "cuda"):
            raise ValueError(f"invalid type: '{dtype}'")
        return self.to(device or "cpu", names[name], non_blocking)
    if not isinstance(dtype, tensortype):
        raise TypeError("dtype must be a type, str, or dtype object")
    named: Any = dtype
    return self.to(named.device, named.dtype, non_blocking)


_type.__name__ = "type"
method(_type)


@method
def new_tensor(
    self: Tensor,
    data: Any,
    *,
    dtype: _C.dtype | None = None,
    device: _C.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of the data, with the dtype and the device of this tensor unless others are given.

    Args:
        data: Numbers, a nested sequence, an array or a tensor. It is copied.
        dtype: Dtype of the result.
        device: Device of the result.
        requires_grad: Whether the result requires gradients.
    """
    if isinstance(data, Tensor):
        import warnings

        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than tensor.new_tensor(sourceTensor).",
            stacklevel=2,
        )
        new = data.detach().to(
            self.device if device is None else device, self.dtype if dtype is None else dtype, copy=True
        )
        return new.requires_grad_(requires_grad)
    return _C.tensor(
        data,
        dtype=self.dtype if dtype is None else dtype,
        device=self.device if device is None else device,
        requires_grad=requires_grad,
    )


@method
def new(self: Tensor, *args: Any, size: Sequence[int] | None = None) -> Tensor:
    """Return a tensor with the dtype and the device of this tensor, of these sizes or with this data."""
    from ._size import Size

    if size is not None:
        if args:
            raise TypeError("new() takes sizes or data as positional arguments, or the keyword 'size', not both")
        return self.new_empty(size)
    if len(args) == 1 and isinstance(args[0], Size):
        return self.new_empty(args[0])
    if args and not isinstance(args[0], int):
        return self.new_tensor(args[0])
    return self.new_empty(args or (0,))


@method
def chalf(self: Tensor, *, memory_format: _C.memory_format | None = None) -> Tensor:
    """Always raise `NotImplementedError`: there is no `torch.complex32`."""
    raise NotImplementedError("complex numbers of float16 (torch.complex32) are not supported yet; use torch.complex64")


@method
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """Always raise `AssertionError`: this build has no CUDA. The accelerator is `tpu`."""
    raise AssertionError('Torch not compiled with CUDA enabled; use .to("tpu")')


@method
def is_shared(self: Tensor) -> bool:
    """Return whether other processes can use the memory. On a device it is always `True`, as in PyTorch."""
    if self.device.type != "cpu":
        return True
    from . import _sharing

    return _sharing.is_shared(self)


@method
def share_memory_(self: Tensor) -> Tensor:
    """Move the tensor in place to memory that it shares with processes that get it. Does nothing on a device.

    All of the memory that the tensor is a view of is moved. Other tensors on the old memory stay there.
    """
    if self.numel() != 0 and not self.is_shared():
        from . import _sharing

        _sharing.share(self)
    return self


@method
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Return the tensor itself: no device copies faster from pinned memory."""
    return self


@method
def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Always return `False`: memory is never pinned."""
    return False


@method
def is_distributed(self: Tensor) -> bool:
    """Always return `False`: a tensor is on one device."""
    return False


@method
def to_dense(self: Tensor, dtype: _C.dtype | None = None, *, masked_grad: bool | None = None) -> Tensor:
    """Return the tensor itself, as all tensors are dense, or converted to `dtype`."""
    return self if dtype is None else self.to(dtype)


@method
def sparse_dim(self: Tensor) -> int:
    """Return the number of sparse dimensions, which is 0."""
    return 0


@method
def dense_dim(self: Tensor) -> int:
    """Return the number of dense dimensions, which is all."""
    return self.dim()


def _of_sparse_tensors(name):
    def f(self):
        raise RuntimeError(f"{name} expected sparse coordinate tensor layout but got Strided")

    f.__name__ = name
    f.__doc__ = "Always raise `RuntimeError`: no tensor is sparse."
    return f


for _name in ("coalesce", "indices", "is_coalesced", "values"):
    method(_of_sparse_tensors(_name))


@method
def resize(self: Tensor, *sizes: int | Sequence[int]) -> Tensor:
    """Return a tensor with other sizes and the same elements. Deprecated: use `reshape`."""
    import warnings

    warnings.warn("non-inplace resize is deprecated", stacklevel=2)
    return _resized(self, tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes)


@method
def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """Return a tensor with the sizes of `tensor` and the same elements. Deprecated: use `reshape_as`."""
    import warnings

    warnings.warn("non-inplace resize_as is deprecated", stacklevel=2)
    return _resized(self, tuple(tensor.shape))


def _resized(self, sizes):
    import math

    if math.prod(sizes) != self.numel():
        wanted, there = ("x".join(map(str, s)) for s in (sizes, self.shape))
        raise RuntimeError(
            f"requested resize to {wanted} ({math.prod(sizes)} elements in total), but the given tensor has a size of "
            f"{there} "
            f"({self.numel()} elements). autograd's resize can only change the shape of a given tensor, while "
            "preserving the number "
            "of elements. "
        )
    return self.reshape(sizes)


@method
def const_data_ptr(self: Tensor) -> int:
    """Return the address of the first element."""
    return self.data_ptr()


def _check_resizable(tensor):
    if not tensor._is_resizable():
        raise RuntimeError("Trying to resize storage that is not resizable")


@method
def resize_(self: Tensor, *size: int | Sequence[int], memory_format: _C.memory_format | None = None) -> Tensor:
    """Change the sizes in place. The tensor gets new memory if the old one is too small.

    Args:
        size: New sizes.
        memory_format: Memory format of the result. `None` is row-major, unless the sizes stay the same.

    Raises:
        RuntimeError: If the memory is too small and cannot be resized.
    """
    sizes: Any = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    if memory_format is _C.preserve_format:
        raise RuntimeError("Unsupported memory formatPreserve")
    if sizes == tuple(self.shape) and memory_format is None:
        return self
    stride = _C._format_strides(list(sizes), memory_format or _C.contiguous_format)
    n = 1
    for s in sizes:
        n *= s
    if n * self.element_size() <= self._storage_bytes():
        new = _C._strided(self.detach(), self.storage_offset(), list(sizes), stride)
    else:
        _check_resizable(self)
        new = self.detach().new_empty(sizes)
        flat = _C._strided(self.detach(), 0, [self._storage_bytes() // self.element_size()], [1])
        new.reshape(-1)[: flat.numel()].copy_(flat)
        if memory_format is not None:
            new = _C._strided(new, 0, list(sizes), stride)
    _C._swap_tensor(self, new)
    return self


@method
def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: _C.memory_format | None = None) -> Tensor:
    """Change the sizes in place to those of another tensor.

    Args:
        the_template: Tensor with the new sizes.
        memory_format: Memory format of the result. `torch.preserve_format` is that of `the_template`.
    """
    if memory_format is _C.preserve_format:
        memory_format = getattr(_C, _C._suggested_format(the_template))
    return self.resize_(the_template.size(), memory_format=memory_format)


@method
def fill_diagonal_(self: Tensor, fill_value: complex, wrap: bool = False) -> Tensor:
    """Fill the main diagonal in place.

    Args:
        fill_value: Number to fill with.
        wrap: If `True`, the diagonal of a tall matrix starts again below its end.

    Raises:
        RuntimeError: If the tensor has fewer than two dimensions, or more than two of different sizes.
    """
    if self.dim() < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.dim() > 2 and len(set(self.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    if self.numel() == 0:
        return self.fill_(fill_value)
    step = sum(self.stride())
    rows, columns = self.size(0), self.size(1)
    self.as_strided((min(self.shape),), (step,)).fill_(fill_value)
    if wrap and self.dim() == 2 and rows > columns + 1:
        tall = self[columns + 1 :]
        tall.fill_diagonal_(fill_value, wrap=True)
    return self


def _c_name(dtype):
    """Return the name of a dtype as messages of C++ show it."""
    names = {
        "uint8": "unsigned char",
        "int8": "signed char",
        "int16": "short int",
        "int32": "int",
        "int64": "long int",
        "float16": "c10::Half",
        "bfloat16": "c10::BFloat16",
        "float32": "float",
        "float64": "double",
        "complex64": "c10::complex<float>",
        "complex128": "c10::complex<double>",
        "uint16": "unsigned short",
        "uint32": "unsigned int",
        "uint64": "unsigned long",
    }
    name = str(dtype).removeprefix("torch.")
    return names.get(name, name)


@method
def set_(
    self: Tensor,
    source: Tensor | TypedStorage | UntypedStorage | None = None,
    storage_offset: int = 0,
    size: Sequence[int] | int | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Make this tensor use the memory of another tensor, or a storage.

    Args:
        source: A tensor or a storage. `None` makes the tensor empty.
        storage_offset: Position of the first element in the storage.
        size: New sizes.
        stride: New strides, in elements.

    Raises:
        RuntimeError: If the dtypes differ.
    """
    if isinstance(source, _C.Tensor):
        if source.dtype != self.dtype:
            names = [_c_name(t.dtype) for t in (source, self)]
            raise RuntimeError(f"Could not set tensor of type {names[0]} to a tensor of type {names[1]}")
    elif source is not None and getattr(source, "dtype", self.dtype) != self.dtype:
        raise RuntimeError(
            f"Expected a Storage of type {_c_name(self.dtype)} or an UntypedStorage, but got type "
            f"{source.dtype._scalar_type} for "
            "argument 1 'storage'"
        )
    if source is not None and (not isinstance(source, _C.Tensor) or size is not None):
        flat = source.detach() if isinstance(source, _C.Tensor) else source._flat()
        flat = flat if flat.dtype == self.dtype else flat.view(self.dtype)
        size = [flat.numel()] if size is None else [size] if isinstance(size, int) else list(size)
        if stride is None:
            stride = [1] * len(size)
            for i in range(len(size) - 1, 0, -1):
                stride[i - 1] = stride[i] * max(size[i], 1)
        source = _C._strided(flat, storage_offset, size, list(stride))
    _C._swap_tensor(self, self.new_empty((0,)) if source is None else source)
    return self


def _view_in_place(name):
    def f(self, *args, **kwargs):
        if self.requires_grad and _C.is_grad_enabled():
            base = self._base
            if self.is_leaf:
                raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
            if base is not None and base.is_leaf:
                raise RuntimeError(
                    "a view of a leaf Variable that requires grad is being used in an in-place operation."
                )
        _C._swap_tensor(self, getattr(self, name)(*args, **kwargs))
        return self

    f.__name__ = name + "_"
    f.__doc__ = f"Make this tensor its own `{name}`, in place."
    return f


for _name in ("as_strided", "squeeze", "unsqueeze", "t", "transpose", "swapaxes", "swapdims"):
    method(_view_in_place(_name))


@method
def where(self: Tensor, condition: Tensor, other: Tensor | complex) -> Tensor:
    """Return elements of this tensor where `condition` holds, otherwise those of `other`."""
    return _C._ops.where(condition, self, other)


@method
def is_nonzero(self: Tensor) -> bool:
    """Return whether the only element is not zero."""
    return bool(self)


@method
def sum_to_size(self: Tensor, *size: int | Sequence[int]) -> Tensor:
    """Sum over the dimensions that broadcasting from `size` would add or enlarge.

    Raises:
        RuntimeError: If `size` does not broadcast to the size of this tensor.
    """
    sizes: Any = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    lead = self.dim() - len(sizes)
    if not sizes:
        return self.sum()
    x = self.sum(tuple(range(lead))) if lead > 0 else self
    dims = tuple(i for i, n in enumerate(sizes) if n == 1 and x.size(i) != 1)
    x = x.sum(dims, keepdim=True) if dims else x
    if tuple(x.shape) != sizes:
        raise RuntimeError(f"size {{{list(sizes)}}} is not expandable to size {{{list(self.shape)}}}.")
    return x


@method
def untyped_storage(self: Tensor) -> UntypedStorage:
    """Return the memory of the tensor, as bytes."""
    from .storage import UntypedStorage

    return UntypedStorage._of(self)._watch(self)


@method
def storage(self: Tensor) -> TypedStorage:
    """Return the memory of the tensor, as elements. Deprecated: use `untyped_storage`."""
    from . import storage

    storage._warn()
    return storage.TypedStorage._of(self)


@method
def apply_(self: Tensor, f: Callable[[Any], Any]) -> Tensor:
    """Replace each element by `f(element)`, in place. It is slow, and on the CPU only."""
    flat = [f(v) for v in self.reshape(-1).tolist()]
    self.copy_(_C.tensor(flat, dtype=self.dtype).reshape(self.shape))
    return self


@method
def __dlpack__(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    from .utils.dlpack import export

    return export(self, stream, max_version, dl_device, copy)


@method
def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    from .utils.dlpack import tensor_device

    return tensor_device(self)


@method
def __rpow__(self: Tensor, other: complex) -> Tensor:
    return _C._ops.pow(other, self)


@method
def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Return whether `other` has the same size."""
    return self.shape == other.shape


@method
def is_set_to(self: Tensor, other: Tensor) -> bool:
    """Return whether `other` has the same memory, size and strides."""
    return self.data_ptr() == other.data_ptr() and self.shape == other.shape and self.stride() == other.stride()


@method_of_all
def __dir__(self):
    return sorted(set(dir(Tensor)) | set(self.__dict__))


@classmethod  # type: ignore[misc]  # It becomes a method at the end.
def __torch_function__(
    cls: Any,
    func: Callable[..., Any],
    types: Sequence[Any],
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call the function, and convert the result to this subclass."""
    if kwargs is None:
        kwargs = {}
    # Classes such as `Parameter` take no calls over, so they refuse none.
    disabled = _C._disabled_torch_function_impl
    if not all(issubclass(cls, t) or t.__torch_function__ is disabled for t in types):
        return NotImplemented
    _C._refuse_pytorch(func, tuple(args), kwargs)
    before = _C._set_torch_function_disabled(1)
    try:
        result = func(*args, **kwargs)
    finally:
        _C._set_torch_function_disabled(before)
    return result if _is_unchanged(func) else _convert(result, cls)


# Properties that return tensors as they are.
_UNCHANGED = {"grad", "_grad", "_base"}


def _is_unchanged(func):
    return getattr(func, "__name__", None) == "__get__" and getattr(func.__self__, "__name__", None) in _UNCHANGED


def _convert(result, cls):
    if cls is Tensor:
        return result
    if isinstance(result, Tensor) and not isinstance(result, cls):
        return result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        return type(result)([_convert(r, cls) for r in result])
    return result


@method
def to_sparse(
    self: Tensor,
    sparse_dim: Any = None,
    *,
    layout: Any = None,
    blocksize: Any = None,
    dense_dim: int | None = None,
) -> Tensor:
    """Return the tensor in coordinate format. Only `indices`, `values`, `to_dense`, copies and moves work on it.

    Args:
        sparse_dim: Number of leading dimensions that the indices count. `None` is all.
        layout: `torch.sparse_coo` or `None`.
        blocksize: Argument of other layouts.
        dense_dim: Argument of other layouts.

    Raises:
        RuntimeError: If `sparse_dim` is out of range.
        NotImplementedError: If another layout is asked for.

    Example:
        >>> import pytpu as torch
        >>> x = torch.tensor([[0.0, 1.0], [2.0, 0.0]]).to_sparse()
        >>> x.indices()
        tensor([[0, 1],
                [1, 0]])
        >>> x.values()
        tensor([1., 2.])
    """
    from ._sparse_coo import to_sparse

    return to_sparse(self, sparse_dim, layout=layout, blocksize=blocksize, dense_dim=dense_dim)


@method
def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """Return the tensor that `Module.load_state_dict` puts in the place of this one.

    Args:
        self: The tensor of the module.
        other: The tensor of the state.
        assign: If `True`, return `other`, without its history. If `False`, copy `other` into `self` and return that.
    """
    return other.detach() if assign else self.copy_(other).detach()


def _make_wrapper_subclass(
    cls,
    size,
    strides=None,
    storage_offset=None,
    memory_format=None,
    dtype=None,
    layout=_C.strided,
    device=None,
    pin_memory=False,
    requires_grad=False,
    dispatch_sizes_strides_policy=None,
    dispatch_device=False,
    dispatch_layout=False,
    _extra_dispatch_keys=None,
    storage_size=None,
):
    """Return an object of ``cls``, a class with ``__torch_dispatch__``, that has sizes and no elements.

    It wraps other tensors: attributes of the object, which ``__torch_dispatch__`` computes with.
    """
    from . import _torch_dispatch

    del storage_offset, layout, pin_memory, dispatch_sizes_strides_policy, dispatch_device, dispatch_layout
    del _extra_dispatch_keys, storage_size
    if cls.__torch_dispatch__ is Tensor.__torch_dispatch__:
        raise RuntimeError(f"{cls.__name__} must define __torch_dispatch__ to be a wrapper of tensors")
    if strides is None and memory_format not in (None, _C.contiguous_format, _C.preserve_format):
        strides = _C.empty(size, device="meta", memory_format=memory_format).stride()
    dtype = _C.get_default_dtype() if dtype is None else dtype
    return _torch_dispatch.wrapper(cls, size, strides, dtype, device, bool(requires_grad))


# Methods of PyTorch that are not there. Reading one says what to use.
for _name in (
    "ccol_indices col_indices crow_indices dequantize grad_dtype int_repr ipu mtia q_per_channel_axis "
    "q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point qscheme record_stream reinforce "
    "resize_as_sparse_ row_indices slice_inverse smm sparse_mask sparse_resize_ sparse_resize_and_clear_ sspaddmm "
    "storage_type to_mkldnn to_padded_tensor to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr xpu"
).split():
    if not hasattr(Tensor, _name):
        setattr(Tensor, _name, AbsentMember(_name))

# Names of older versions of Python.
_OLD_NAMES = {"nonzero": "bool", "long": "int", "div": "truediv", "idiv": "itruediv", "rdiv": "rtruediv"}
for _name, _f in ((f"__{old}__", f"__{new}__") for old, new in _OLD_NAMES.items()):
    setattr(Tensor, _name, getattr(Tensor, _f))

for _name, _method in _METHODS.items():
    setattr(Tensor, _name, _method)
Tensor.__torch_function__ = __torch_function__
Tensor.__torch_dispatch__ = staticmethod(_C._disabled_torch_dispatch_impl)
Tensor._make_wrapper_subclass = staticmethod(_make_wrapper_subclass)
del _name, _f, _method
