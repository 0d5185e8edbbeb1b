"""`replicate`: data parallel training of a module in place."""

from __future__ import annotations

from ... import device as _device
from ...nn import Module
from ._marks import KEY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ...nn.parallel import DistributedDataParallel

__all__ = ["replicate"]


class _Replicated:
    """What happens around the forward of a module that is trained data parallel.

    Args:
        module: the module.
        ignored: modules whose parameters are left alone.
        options: arguments of `DistributedDataParallel`.
    """

    def __init__(self, module: Module, ignored: set[Module], options: dict[str, Any]) -> None:
        self.module, self.ignored, self.options = module, ignored, options
        self._parallel: DistributedDataParallel | None = None
        self._steps: list[bool] = []
        module.register_forward_pre_hook(self._before, prepend=True, with_kwargs=True)
        module.register_forward_hook(self._after)

    def _made(self) -> DistributedDataParallel:
        """Return the wrapper, which copies the parameters of the first rank when it is made."""
        from ...nn.parallel import DistributedDataParallel

        if self._parallel is None:
            names = [
                f"{path}.{name}" if path else name
                for path, each in self.module.named_modules()
                if each in self.ignored
                for name, _ in [*each.named_parameters(), *each.named_buffers()]
            ]
            DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(self.module, names)
            self._parallel = DistributedDataParallel(self.module, **self.options)
        return self._parallel

    def _before(self, module: Module, args: Any, kwargs: Any) -> Any:
        args, kwargs, is_step = self._made()._begin_forward(args, kwargs)
        self._steps.append(is_step)
        return args, kwargs

    def _after(self, module: Module, args: Any, output: Any) -> Any:
        return self._made()._end_forward(output, self._steps.pop())


def replicate(module: Module, ignored_modules: Iterable[Module] | None = None, **kwargs: Any) -> Module:
    """Let backward of a module average its gradients over the ranks, and return the module.

    It does what `DistributedDataParallel` does, and the module keeps its class and the names of its parameters. The
    first forward copies the parameters of rank 0 to all ranks.

    Args:
        module: the module.
        ignored_modules: submodules whose parameters are left alone.
        kwargs: arguments of `DistributedDataParallel`, and `device_id`, the device of inputs.

    Raises:
        RuntimeError: if `device_id` and `device_ids` are given.
        AssertionError: if it was applied to the module before.
    """
    if KEY in module.__dict__:
        raise AssertionError(
            "Each distinct composable distributed API can only be applied to a module once. Trying to apply replicate "
            f"to the following module {module}"
        )
    options = dict(kwargs)
    device = options.pop("device_id", None)
    if device is not None:
        if options.get("device_ids") is not None:
            raise RuntimeError("replicate: give device_id or device_ids, not both")
        options["device_ids"] = None if _device(device).type == "cpu" else [device]
    ignored = {each for given in ignored_modules or () for each in given.modules()}
    module.__dict__[KEY] = _Replicated(module, ignored, options)
    return module


def _state(module: Module) -> object:
    """Return what `replicate` has given to a module, or `None`."""
    return module.__dict__.get(KEY)


replicate.state = _state  # type: ignore[attr-defined]  # As in PyTorch, the state of a module.
