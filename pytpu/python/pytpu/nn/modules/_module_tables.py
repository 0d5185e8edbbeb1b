"""What the parts of `Module` know of each other: its tables. The class has its parts as bases."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import OrderedDict
    from collections.abc import Callable, Iterator
    from typing import Any

    from pytpu import Tensor
    from pytpu.nn.parameter import Parameter

    from .module import Module


class _ModuleTables:
    """The attributes of a module, for type checkers."""

    if TYPE_CHECKING:
        # Libraries call `typing.get_type_hints` on modules. It needs the names of the annotations that Python keeps.
        _compiled_call_impl: Callable[..., Any] | None
        forward: Callable[..., Any]
        _parameters: dict[str, Parameter | None]
        _buffers: dict[str, Tensor | None]
        _modules: dict[str, Any]
        _non_persistent_buffers_set: set[str]
        _backward_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _backward_hooks: OrderedDict[int, Callable[..., Any]]
        _is_full_backward_hook: bool | None
        _forward_hooks: OrderedDict[int, Callable[..., Any]]
        _forward_hooks_with_kwargs: OrderedDict[int, bool]
        _forward_hooks_always_called: OrderedDict[int, bool]
        _forward_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
        _state_dict_hooks: OrderedDict[int, Callable[..., Any]]
        _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
        _load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]
        _version: int

        def children(self) -> Iterator[Module]: ...

        def parameters(self, recurse: bool = True) -> Iterator[Parameter]: ...

        def buffers(self, recurse: bool = True) -> Iterator[Tensor]: ...
