"""Writes the pages of the Python reference: one for each public module, with every public name of that module.

The classes that users meet first have pages of their own. Sphinx's autodoc fills the pages from the docstrings. They
are written at each build and are not committed.
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
# Classes with a page of their own, by the module of the page before.
CLASSES = {
    "pytpu": ("Tensor", "Size"),
    "pytpu.nn": ("Module",),
    "pytpu.optim": ("Optimizer",),
}


def public_names(module) -> list[str]:
    """Return the public names of a module: `__all__`, or the names without an underscore that it defines."""
    stated = getattr(module, "__all__", None)
    names = stated or [
        name for name, value in vars(module).items() if name[0] != "_" and is_defined_in(module.__name__, value)
    ]
    return sorted(name for name in set(names) if not inspect.ismodule(getattr(module, name, None)))


def is_defined_in(module: str, value) -> bool:
    """Return whether a class or function is defined in a module or below it, as its `__module__` says.

    The functions of the op table are defined in `_C`, for all modules.
    """
    home = (getattr(value, "__module__", None) or "").replace("torch", "pytpu", 1)
    here = module.replace("torch", "pytpu", 1)
    return home == here or home.startswith((f"{here}.", "pytpu._C._"))


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


def titled(title: str, name: str) -> list[str]:
    """Return the heading of a page about `name`."""
    heading = f"{title}: ``{name.replace('pytpu', 'torch', 1)}``"
    return [heading, "=" * len(heading), ""]


def class_page(module: str, name: str, seen: dict[int, str]) -> str:
    """Return the page of a class."""
    value = getattr(importlib.import_module(module), name)
    seen[id(value)] = name
    return "\n".join(titled("Class", f"{module}.{name}") + directive(module, name, value))


def page(module: str, title: str, seen: dict[int, str]) -> str:
    """Return a page. A name that an earlier page has is left out."""
    loaded = importlib.import_module(module)
    lines = titled(title, module)
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
    seen: dict[int, str] = {}
    pages = {f"{module}.{name}": class_page(module, name, seen) for module in CLASSES for name in CLASSES[module]}
    # Modules come before the package, so that `torch.nn.functional.relu` is documented where it belongs.
    for module in sorted(MODULES, key=lambda m: -m.count(".")):
        pages[module] = page(module, MODULES[module], seen)
    for name, text in pages.items():
        file = folder / f"{name.replace('pytpu', 'torch', 1)}.rst"
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
