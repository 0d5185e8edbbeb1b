"""`torch.__future__`: settings for the way in which `Module.to` and `load_state_dict` change parameters.

Parameters always keep their identity in conversions, so `set_overwrite_module_params_on_conversion` has no effect.
With `set_swap_module_params_on_conversion`, they keep it in `load_state_dict(assign=True)`, too.
"""

_overwrite = False
_swap = False


def set_overwrite_module_params_on_conversion(value):
    """Set whether `Module.to` makes new parameters."""
    global _overwrite
    _overwrite = value


def get_overwrite_module_params_on_conversion():
    """Return the setting, which is `False` at first."""
    return _overwrite


def set_swap_module_params_on_conversion(value):
    """Set whether conversions swap the parameter's content by `torch.utils.swap_tensors`."""
    global _swap
    _swap = value


def get_swap_module_params_on_conversion():
    """Return the setting, which is `False` at first."""
    return _swap
