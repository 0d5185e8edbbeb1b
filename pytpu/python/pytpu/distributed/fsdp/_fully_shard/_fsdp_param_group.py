"""The place where programs look for groups of parameters, and for the modules that have parameters."""

from .._group import ParameterGroup as FSDPParamGroup, _Use as RegisterPostBackwardFunction
from .._managed import _get_param_module_infos as _get_param_module_infos

__all__ = ["FSDPParamGroup", "RegisterPostBackwardFunction"]
