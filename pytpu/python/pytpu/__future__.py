"""``torch.__future__``: switches of how ``Module.to`` and ``load_state_dict`` change parameters.

``set_overwrite_module_params_on_conversion`` is kept but without an effect. ``set_swap_module_params_on_conversion``
too: parameters keep their identity here in any case.
"""

_overwrite = False
_swap = False


def set_overwrite_module_params_on_conversion(value):
    """Set whether ``Module.to`` makes new parameters."""
    global _overwrite
    _overwrite = value


def get_overwrite_module_params_on_conversion():
    """Return the setting, which is ``False`` at first."""
    return _overwrite


def set_swap_module_params_on_conversion(value):
    """Set whether conversions swap the parameter's content by ``torch.utils.swap_tensors``."""
    global _swap
    _swap = value


def get_swap_module_params_on_conversion():
    """Return the setting, which is ``False`` at first."""
    return _swap
