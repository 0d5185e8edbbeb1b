"""The place where programs look for the modules that have parameters."""

from .._managed import _get_param_module_infos as _get_param_module_infos
