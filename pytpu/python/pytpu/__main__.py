"""``python -m pytpu script.py``: runs a script that says ``import torch``."""

import importlib
import importlib.abc
import importlib.metadata
import importlib.util
import pathlib
import runpy
import sys

import pytpu


class _Metadata(importlib.metadata.Distribution):
    """What libraries that ask for the version of the installed package ``torch`` are told."""

    def read_text(self, filename):
        if filename == "METADATA":
            return f"Metadata-Version: 2.1\nName: torch\nVersion: {pytpu.__version__}\n"
        return None

    def locate_file(self, path):
        return pathlib.Path(pytpu.__file__).parent.parent / path


class _Alias(importlib.metadata.DistributionFinder, importlib.abc.Loader):
    """Finds ``torch.x.y`` as ``pytpu.x.y``: the very same module."""

    def find_spec(self, name, path=None, target=None):
        if name.startswith("torch."):
            return importlib.util.spec_from_loader(name, self)
        return None

    def create_module(self, spec):
        return importlib.import_module("pytpu" + spec.name.removeprefix("torch"))

    def exec_module(self, module):
        pass

    def find_distributions(self, context=importlib.metadata.DistributionFinder.Context()):
        return [_Metadata()] if context.name == "torch" else []


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: python -m pytpu [-m module | script.py] [arguments]")
    sys.modules["torch"] = pytpu
    sys.meta_path.insert(0, _Alias())
    from pytpu import _safetensors_package

    _safetensors_package.install()
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
