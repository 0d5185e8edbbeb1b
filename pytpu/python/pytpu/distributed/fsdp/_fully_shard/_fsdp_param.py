"""The place where programs look for the description of a parameter's modules."""

from .._managed import ParamModuleInfo as ParamModuleInfo
