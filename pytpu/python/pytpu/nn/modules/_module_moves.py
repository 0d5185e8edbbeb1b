"""Moves and casts of modules: the same change for all parameters and buffers."""

from __future__ import annotations

from collections.abc import Callable

import pytpu as torch
from pytpu import Tensor

from ._module_tables import _ModuleTables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, overload

    from typing_extensions import Self

    from pytpu.types import Device


class _ModuleMoves(_ModuleTables):
    """The part of `Module` that moves and casts parameters and buffers."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True, _seen: set[int] | None = None) -> Self:
        # Keep each parameter object and replace its data: a tied layer or an optimizer that refers to the object then
        # sees the change. `_seen` prevents transforming a shared parameter twice.
        seen = set() if _seen is None else _seen

        def exchange(tensor, new):
            if new is tensor:
                return
            if (tensor.device.type == "meta") == (new.device.type == "meta"):
                tensor.data = new
            else:
                # An assignment of `.data` does not cross to `meta` or back.
                torch._C._swap_tensor(tensor, new.detach())

        if recurse:
            for module in self.children():
                if type(module)._apply is _ModuleMoves._apply:
                    module._apply(fn, True, seen)
                else:
                    module._apply(fn)
        with torch.no_grad():
            for param in self._parameters.values():
                if param is None or id(param) in seen:
                    continue
                seen.add(id(param))
                # `fn` gets the parameter itself, whose class may override `to` and other methods.
                exchange(param, fn(param))
                grad = param.grad
                if grad is not None:
                    exchange(grad, fn(grad))
        for name, buffer in self._buffers.items():
            if buffer is not None:
                buffer = self._buffers[name] = fn(buffer)
                torch._C._mark_state(buffer)
        return self

    if TYPE_CHECKING:

        @overload
        def to(self, device: Device = ..., dtype: torch.dtype | None = ..., non_blocking: bool = ...) -> Self: ...

        @overload
        def to(self, dtype: torch.dtype, non_blocking: bool = ...) -> Self: ...

        @overload
        def to(self, tensor: Tensor, non_blocking: bool = ...) -> Self: ...

        @overload
        def to(self, *, memory_format: torch.memory_format) -> Self: ...

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters and buffers to a device, or cast them to a dtype, in place.

        A call is `to(device, dtype, non_blocking)`, `to(dtype, non_blocking)`, `to(tensor, non_blocking)` or
        `to(memory_format=...)`. Only floating-point and complex tensors are cast.

        Args:
            device: Device to move to.
            dtype: Floating-point or complex dtype to cast to.
            tensor: Tensor whose device and dtype to take.
            non_blocking: Whether the host need not wait for the copies.
            memory_format: Memory format of tensors with 4 and 5 dimensions.

        Returns:
            This module.

        Raises:
            TypeError: An argument is unknown, or `dtype` is neither floating point nor complex.
            NotImplementedError: A tensor is on device `meta`, and has no values to copy.

        Example:
            >>> import pytpu as torch
            >>> layer = torch.nn.Linear(2, 3).to(torch.float64)
            >>> layer.weight.dtype
            torch.float64
        """
        device, dtype, non_blocking, memory_format = _parse_to(args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            import warnings

            warnings.warn(
                "Complex modules are a new feature under active development whose design may change, and some modules "
                "might not work as expected when using complex tensors as parameters or buffers. Please file an issue "
                "at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml if a complex module does "
                "not work as expected.",
                stacklevel=2,
            )

        def convert(t):
            target = dtype if t.is_floating_point() or t.is_complex() else None
            # Call `to` even if nothing changes: the class of a parameter may override it.
            if memory_format is not None and t.dim() in (4, 5):
                return t.to(device, target, non_blocking, memory_format=memory_format)
            return t.to(device, target, non_blocking)

        def converted(t):
            try:
                return convert(t)
            except NotImplementedError as error:
                if not str(error).startswith("Cannot copy out of meta tensor; no data!"):
                    raise
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
                    "torch.nn.Module.to() when moving module from meta to a different device."
                ) from None

        return self._apply(converted)

    def to_empty(self, *, device: Device, recurse: bool = True) -> Self:
        """Move parameters and buffers to a device without their values, in place.

        Args:
            device: Device to move to.
            recurse: Whether to include the submodules.

        Returns:
            This module.

        Example:
            >>> import pytpu as torch
            >>> layer = torch.nn.Linear(2, 3, device="meta").to_empty(device="cpu")
            >>> layer.weight.device
            device(type='cpu')
        """
        return self._apply(lambda t: torch.empty_like(t, device=device), recurse=recurse)

    def cpu(self) -> Self:
        """Move parameters and buffers to the host, in place.

        Returns:
            This module.
        """
        return self._apply(lambda t: t.cpu())

    def tpu(self, device: Device = None) -> Self:
        """Move parameters and buffers to the accelerator, in place.

        Args:
            device: Device to move to. `None` means `"tpu"`.

        Returns:
            This module.
        """
        return self.to("tpu" if device is None else device)

    def cuda(self, device: int | torch.device | None = None) -> Self:
        """Move parameters and buffers to a CUDA device, in place.

        Args:
            device: Device to move to. `None` means the current one.

        Returns:
            This module.
        """
        return self._apply(lambda t: t.cuda(device))

    def type(self, dst_type: torch.dtype | str) -> Self:
        """Cast all parameters and buffers to a dtype, in place.

        Args:
            dst_type: A dtype, or the name of a tensor type.

        Returns:
            This module.
        """
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Self:
        """Cast floating-point parameters and buffers to `float32`, in place.

        Returns:
            This module.
        """
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Self:
        """Cast floating-point parameters and buffers to `float64`, in place.

        Returns:
            This module.
        """
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Self:
        """Cast floating-point parameters and buffers to `float16`, in place.

        Returns:
            This module.
        """
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self) -> Self:
        """Cast floating-point parameters and buffers to `bfloat16`, in place.

        Returns:
            This module.
        """
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def share_memory(self) -> Self:
        """Move parameters and buffers to shared memory, in place.

        Returns:
            This module.
        """
        return self._apply(lambda t: t.share_memory_())


def _parse_to(args, kwargs):
    """Return the arguments of `to` as `(device, dtype, non_blocking, memory_format)`."""
    kwargs = dict(kwargs)
    device = kwargs.pop("device", None)
    dtype = kwargs.pop("dtype", None)
    non_blocking = kwargs.pop("non_blocking", False)
    memory_format = kwargs.pop("memory_format", None)
    if "copy" in kwargs:
        raise RuntimeError(".to() does not accept copy argument")
    tensor = kwargs.pop("tensor", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    flags = []
    for arg in args:
        if isinstance(arg, torch.Tensor):
            tensor = arg
        elif isinstance(arg, torch.dtype):
            dtype = arg
        elif isinstance(arg, bool):
            flags.append(arg)
        elif isinstance(arg, (str, int, torch.device)):
            device = arg
        elif arg is not None:
            raise TypeError(
                f"to() received an invalid combination of arguments - got ({type(arg).__name__}), but expected one "
                "of:\n"
                " * (torch.device device, torch.dtype dtype, bool non_blocking, bool copy)\n"
                " * (torch.dtype dtype, bool non_blocking, bool copy)\n"
                " * (Tensor tensor, bool non_blocking, bool copy)"
            )
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    if flags:
        non_blocking = flags[0]
    if len(flags) > 1:
        raise RuntimeError(".to() does not accept copy argument")
    if device is not None and not isinstance(device, torch.device):
        device = torch.device(device)
    return device, dtype, non_blocking, memory_format


# Libraries call `_parse_to` at this place.
vars(torch._C._nn)["_parse_to"] = lambda *args, **kwargs: _parse_to(args, kwargs)
