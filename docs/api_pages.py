"""Writes the pages of the Python reference: one for each public module, with every public name of that module.

Sphinx's autodoc fills them from the docstrings. The pages are written at each build and are not committed.
"""

import importlib
import inspect
import pathlib

MODULES = {
    "pytpu": "Tensors and functions",
    "pytpu.nn": "Modules",
    "pytpu.nn.functional": "Functions of neural networks",
    "pytpu.nn.init": "Initialisation",
    "pytpu.nn.utils": "Utilities for modules",
    "pytpu.optim": "Optimizers",
    "pytpu.optim.lr_scheduler": "Schedules",
    "pytpu.utils.data": "Data",
    "pytpu.autograd": "Autograd",
    "pytpu.amp": "Mixed precision",
    "pytpu.distributions": "Distributions",
    "pytpu.linalg": "Linear algebra",
    "pytpu.fft": "Fourier transforms",
    "pytpu.special": "Special functions",
    "pytpu.random": "Random numbers",
    "pytpu.func": "Function transforms",
    "pytpu.library": "Operators of your own",
    "pytpu.serialization": "Files",
    "pytpu.safetensors": "Safetensors",
    "pytpu.accelerator": "The accelerator",
    "pytpu.tpu": "Device tpu",
    "pytpu.tpu.aot": "Compile for TPUs that are not here",
    "pytpu.tpu.pallas": "JAX and Pallas kernels",
}


def public_names(module) -> list[str]:
    """Return the public names of a module: `__all__`, or all names without an underscore that are no modules."""
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    return sorted(name for name in set(names) if not inspect.ismodule(getattr(module, name, None)))


def is_ours(value) -> bool:
    """Return whether a class or function belongs to this package, and not to the standard library."""
    home = getattr(value, "__module__", None) or ""
    return home.split(".")[0] in ("", "pytpu", "torch", "builtins", "_C")


def directive(module: str, name: str, value) -> list[str]:
    """Return the lines that document a name, or none for constants."""
    if inspect.isclass(value):
        members = ["   :members:"] if value.__module__.split(".")[0] in ("pytpu", "torch") else []
        return [f".. autoclass:: {module}.{name}", *members, ""]
    if callable(value):
        return [f".. autofunction:: {module}.{name}", ""]
    return []


def page(module: str, title: str, seen: dict[int, str]) -> str:
    """Return a page. A name that an earlier page has is left out."""
    loaded = importlib.import_module(module)
    heading = f"{title}: ``{module.replace('pytpu', 'torch', 1)}``"
    lines = [heading, "=" * len(heading), ""]
    for name in public_names(loaded):
        value = getattr(loaded, name, None)
        if value is None or not is_ours(value) or id(value) in seen:
            continue
        described = directive(module, name, value)
        if described:
            seen[id(value)] = name
            lines += described
    return "\n".join(lines)


def write(folder: pathlib.Path) -> None:
    """Write all pages into `folder`. An equal page is not written again, so that Sphinx does not read it again."""
    seen = {}
    # Modules come before the package, so that `torch.nn.functional.relu` is documented where it belongs.
    for module in sorted(MODULES, key=lambda m: -m.count(".")):
        file = folder / f"{module.replace('pytpu', 'torch', 1)}.rst"
        text = page(module, MODULES[module], seen)
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
