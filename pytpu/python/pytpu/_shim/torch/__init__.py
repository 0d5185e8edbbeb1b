"""`torch` from `pytpu`: importing this module puts `pytpu` in its place. See `docs/being-torch.md`.

This file is in two places: in the folder `_shim` of `pytpu`, which is on the path of processes that `python -m
pytpu` starts, and in the wheel `torch 2.15.0+pytpu`.
"""

import os
import sys


def _hand_over():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    meant_for = os.environ.get("PYTPU_IS_TORCH_IN")
    is_inherited = os.path.basename(here) == "_shim"
    if is_inherited and meant_for not in (None, sys.prefix):
        # Another Python inherited our PYTHONPATH. Its own torch takes precedence.
        path, sys.path[:] = list(sys.path), [p for p in sys.path if os.path.abspath(p) != here]
        shim = sys.modules.pop("torch")
        try:
            import torch

            return
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            sys.path[:] = path
            sys.modules["torch"] = shim
    try:
        import pytpu

        is_there = hasattr(pytpu, "install")  # Otherwise it is a folder of that name on the path.
    except ModuleNotFoundError as error:
        if error.name != "pytpu":
            raise
        is_there = False
    if not is_there:
        if not is_inherited:
            raise ImportError(
                "This torch (2.15.0+pytpu) only hands over to pytpu, which is not installed here. Install the wheel "
                "of pytpu, or remove this torch with `pip uninstall torch`."
            ) from None
        sys.path.append(os.path.dirname(os.path.dirname(here)))
        sys.modules.pop("pytpu", None)
        import pytpu
    pytpu._as_torch.take_the_name()


_hand_over()
