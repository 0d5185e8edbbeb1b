"""``python -m pytpu script.py``: runs a script that says ``import torch``."""

import importlib
import importlib.abc
import importlib.util
import runpy
import sys

import pytpu


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``torch.x.y`` as ``pytpu.x.y``: the very same module."""

    def find_spec(self, name, path=None, target=None):
        if name.startswith("torch."):
            return importlib.util.spec_from_loader(name, self)
        return None

    def create_module(self, spec):
        return importlib.import_module("pytpu" + spec.name.removeprefix("torch"))

    def exec_module(self, module):
        pass


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: python -m pytpu [-m module | script.py] [arguments]")
    sys.modules["torch"] = pytpu
    sys.meta_path.insert(0, _Alias())
    if sys.argv[1] == "-m":
        name = sys.argv[2]
        sys.argv[:] = sys.argv[2:]
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        return
    script = sys.argv[1]
    sys.argv[:] = sys.argv[1:]
    sys.path.insert(0, script.rpartition("/")[0])
    runpy.run_path(script, run_name="__main__")


main()
