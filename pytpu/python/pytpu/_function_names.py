"""Packages with a function and a submodule of one name."""

import sys
import types


class _Package(types.ModuleType):
    """A package in which the import of a submodule does not hide the function of the same name."""

    def __setattr__(self, name, value):
        if isinstance(value, types.ModuleType) and value.__name__.rpartition(".")[2] == name:
            value = getattr(value, name, value)
        super().__setattr__(name, value)


def keep_functions(package):
    """Make `from package import name` import the function also after `import package.name`.

    The import system binds a submodule to its name in the package once the submodule has run.
    """
    sys.modules[package].__class__ = _Package
