"""Types, for annotations."""

import builtins as _builtins
from collections.abc import Sequence as _Sequence
from typing import Optional as _Optional, Union as _Union

import pytpu as _torch

Tensor = _torch.Tensor
Size = _torch.Size
Number = _Union[int, float, bool]
Device = _Optional[_Union[_torch.device, str, int]]
_TensorOrTensors = _Union[Tensor, _Sequence[Tensor]]
_int, _float, _bool, _complex = _builtins.int, _builtins.float, _builtins.bool, _builtins.complex
_dtype, _device, _layout = _torch.dtype, _torch.device, _torch.layout
_size = _Union[_torch.Size, list[int], tuple[int, ...]]
