"""`torch.distributed.fsdp.wrap`: which submodules are wrapped.

A policy is a function of a module, `recurse` and `nonwrapped_numel`, the number of elements of its parameters that
are not wrapped. With `recurse=True` it says whether to look at the submodules, and else whether to wrap the module.
"""

from __future__ import annotations

import contextlib
import copy

from ...nn import MultiheadAttention
from ...nn.modules.container import ModuleDict, ModuleList
from ...nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Return `True`: wrap each module."""
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Wrap the modules for which `lambda_fn` returns `True`.

    Args:
        module: a module.
        recurse: whether the submodules are asked for.
        nonwrapped_numel: not used.
        lambda_fn: a function of a module.
    """
    return True if recurse else lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: set[type[Module]]
) -> bool:
    """Wrap the modules of some classes.

    Args:
        module: a module.
        recurse: whether the submodules are asked for.
        nonwrapped_numel: not used.
        transformer_layer_cls: the classes.
    """
    return True if recurse else isinstance(module, tuple(transformer_layer_cls))


_EXCLUDED: frozenset[type[Module]] = frozenset({ModuleList, ModuleDict})
_LEAVES: frozenset[type[Module]] = frozenset({MultiheadAttention})


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Wrap modules whose parameters have many elements that are not wrapped below them.

    Args:
        module: a module.
        recurse: whether the submodules are asked for.
        nonwrapped_numel: the number of elements.
        min_num_params: the least number of elements that is wrapped.
        force_leaf_modules: classes whose submodules are not looked at. The default is `MultiheadAttention`.
        exclude_wrap_modules: classes that are not wrapped. The default is `ModuleList` and `ModuleDict`.
    """
    leaves = _LEAVES if force_leaf_modules is None else force_leaf_modules
    excluded = _EXCLUDED if exclude_wrap_modules is None else exclude_wrap_modules
    is_large = nonwrapped_numel >= min_num_params
    return is_large and not isinstance(module, tuple(leaves if recurse else excluded))


# These are attributes, as in PyTorch, whose users change them.
size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = set(_EXCLUDED)  # type: ignore[attr-defined]
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = set(_LEAVES)  # type: ignore[attr-defined]


class _Policy:
    """A choice of submodules, with settings for each."""

    def _chosen(self, root: Module, ignored: set[int], settings: dict[str, Any]) -> dict[int, dict[str, Any]]:
        """Return the settings of the submodules to wrap, by their ids."""
        raise NotImplementedError


class ModuleWrapPolicy(_Policy):
    """Wrap the modules of some classes.

    Args:
        module_classes: the classes.
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)
        self._module_classes_str = str(self._module_classes)

    def _chosen(self, root: Module, ignored: set[int], settings: dict[str, Any]) -> dict[int, dict[str, Any]]:
        classes = tuple(self._module_classes)
        return {id(m): settings for m in root.modules() if isinstance(m, classes) and id(m) not in ignored}

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        """Return whether to look at the submodules of a module, or to wrap it."""
        return True if recurse else isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._module_classes_str})"


class CustomPolicy(_Policy):
    """Wrap the modules that a function chooses.

    Args:
        lambda_fn: a function of a module. It returns whether to wrap it, or a dict of settings for it.
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn

    def _chosen(self, root: Module, ignored: set[int], settings: dict[str, Any]) -> dict[int, dict[str, Any]]:
        chosen: dict[int, dict[str, Any]] = {}
        for module in root.modules():
            if id(module) in ignored:
                continue
            answer = self._lambda_fn(module)
            if not isinstance(answer, (bool, dict)):
                raise ValueError(
                    "The lambda_fn passed to CustomPolicy should return False/True or a kwarg dict, but it returned "
                    f"{answer}"
                )
            if answer:
                chosen[id(module)] = {**settings, **answer} if isinstance(answer, dict) else copy.copy(settings)
        return chosen


#: The class and the settings of `wrap`, within `enable_wrap`.
_context: list[tuple[Any, dict[str, Any]]] = []


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """Return a module, wrapped if the call is within `enable_wrap`.

    Args:
        module: the module.
        wrap_overrides: settings that replace those of `enable_wrap`.
    """
    if not _context:
        return module
    wrapper, settings = _context[-1]
    wrapped: Module = wrapper(module, **{**settings, **wrap_overrides})
    return wrapped


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Return a context in which `wrap` wraps modules.

    Args:
        wrapper_cls: the class, such as `FullyShardedDataParallel`.
        wrapper_kwargs: its settings.

    Example:
        >>> from torch.distributed.fsdp import FullyShardedDataParallel
        >>> with enable_wrap(wrapper_cls=FullyShardedDataParallel):  # doctest: +SKIP
        ...     layer = wrap(torch.nn.Linear(5, 5))
    """
    if _context:
        raise NotImplementedError(
            "You are already within an autowrap context and we currently do not supported nested autowrap."
        )
    _context.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _context.pop()
