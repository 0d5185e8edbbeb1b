"""`torch_tpu` from `pytpu`: its names are those of `torch.tpu`. See `docs/being-torch.md`.

Modules below it, such as `torch_tpu.pallas` and `torch_tpu._internal.pallas`, are found by the finder of
`pytpu._as_torch`.
"""

import importlib
import os
import sys

import torch

if "pytpu" in torch.__version__:
    __version__ = "0.2.0+pytpu"

    def __getattr__(name):
        if name[:2] != "__":
            try:
                return getattr(torch.tpu, name)
            except AttributeError:
                pass
        raise AttributeError(f"module 'torch_tpu' has no attribute '{name}'")

    def __dir__():
        return sorted({"__version__", *dir(torch.tpu)})

else:
    # A Python with a torch of its own inherited this folder on its path. Import its own torch_tpu.
    def _hand_over():
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        path, sys.path[:] = list(sys.path), [p for p in sys.path if os.path.abspath(p) != here]
        sys.modules.pop("torch_tpu")
        try:
            importlib.import_module("torch_tpu")
        finally:
            sys.path[:] = path

    _hand_over()
