"""Write `pytpu/absent_names.txt`: the public names that PyTorch has and this package lacks.

It takes two runs: with real PyTorch, which prints its names as JSON, and with this package, which reads them.

    python record_absent_names.py > names.json
    python -m pytpu record_absent_names.py names.json
"""

import importlib
import json
import pathlib
import pkgutil
import sys
import types
import warnings

import torch

# Examples, scripts and tests, which run something when they are imported.
SKIPPED = (
    "torch.testing._internal",
    "torch.utils.benchmark.examples",
    "torch.utils.model_dump",
    "torch.distributed.launch",
)


def is_public(module):
    """Return whether no part of a module's name begins with an underscore."""
    return not any(part.startswith("_") for part in module.split("."))


def names_of(module, namespace):
    """Return the public names of a module: its `__all__`, or what it defines itself."""
    listed = getattr(namespace, "__all__", None)
    if listed is None or module == "torch":
        own = vars(namespace).items()
        listed = [
            name
            for name, value in own
            if not isinstance(value, types.ModuleType)
            and (getattr(value, "__module__", module) == module or module == "torch")
            and str(getattr(value, "__module__", None) or "torch").startswith("torch")
        ]
    return sorted({name for name in listed if not name.startswith("_") and name != "TYPE_CHECKING"})


def all_names():
    """Return the public names of PyTorch by module."""
    for found in pkgutil.walk_packages(torch.__path__, "torch.", onerror=lambda name: None):
        if is_public(found.name) and not found.name.startswith(SKIPPED):
            try:
                importlib.import_module(found.name)
            except (Exception, SystemExit):
                continue
    names = {"torch.Tensor": [name for name in dir(torch.Tensor) if not name.startswith("_")]}
    for module, namespace in sorted(sys.modules.items()):
        if module.split(".")[0] == "torch" and is_public(module) and isinstance(namespace, types.ModuleType):
            if not module.startswith(("torch.ops", "torch.classes", *SKIPPED)):
                names[module] = names_of(module, namespace)
    return names


def absent(names):
    """Return lines: an absent module alone, or a module with the names that it lacks."""
    for module, wanted in sorted(names.items()):
        try:
            namespace = torch.Tensor if module == "torch.Tensor" else importlib.import_module(module)
        except ImportError:
            yield module.removeprefix("torch.")
            continue
        lacking = [name for name in wanted if not hasattr(namespace, name)]
        if lacking:
            yield f"{module.removeprefix('torch').removeprefix('.')}: {' '.join(lacking)}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if len(sys.argv) == 1:
        json.dump(all_names(), sys.stdout)
    else:
        recorded = json.loads(pathlib.Path(sys.argv[1]).read_text())
        pathlib.Path(torch.__file__).with_name("absent_names.txt").write_text("\n".join(absent(recorded)) + "\n")
