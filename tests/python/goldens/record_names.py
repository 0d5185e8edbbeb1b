"""Write ``names.json``: the qualified names of PyTorch's public classes and functions. Run it with PyTorch, from
another folder.

``{module: {name: home}}``: the full name that ``__module__`` and ``__qualname__`` give. An empty home is the name
itself.
"""

import importlib
import json
import pathlib
import sys
import types
import warnings

warnings.simplefilter("ignore")
OURS = pathlib.Path(__file__).parents[3] / "pytpu" / "python" / "pytpu"


def homes(root, modules):
    """Return the dictionary for a package, for modules given without the package's name."""
    found = {}
    for name in modules:
        try:
            module = importlib.import_module(f"{root}.{name}" if name else root)
        except ImportError:
            continue
        here = found[name] = {}
        for key in sorted(set(vars(module)) | set(dir(module))):
            value = None if key.startswith("_") else getattr(module, key, None)
            home = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
            is_named = isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) and all(
                isinstance(h, str) for h in home
            )
            if is_named and home[0].partition(".")[0] == "torch":
                here[key] = ".".join(home)
    return found


def modules():
    """Return the names of the public modules that this package has."""
    files = {path.relative_to(OURS).with_suffix("") for path in OURS.rglob("*.py")}
    found = {(*path.parent.parts, path.name) for path in files} | {
        parent.parts for path in files for parent in path.parents
    }
    return sorted({".".join(parts) for parts in found if not any(part.startswith("_") for part in parts)})


if __name__ == "__main__":
    found = homes("torch", modules())
    for module, names in found.items():
        for name, home in names.items():
            if home == f"torch.{module}.{name}".replace("..", "."):
                names[name] = ""
    pathlib.Path(__file__).with_name("names.json").write_text(
        json.dumps(found, separators=(",", ":"), sort_keys=True) + "\n"
    )
    print(sum(map(len, found.values())), file=sys.stderr)
