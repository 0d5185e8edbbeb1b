"""The key of an exported function in the disk cache.

The key of a function has its code and everything that the code refers to, with other functions. If a part cannot be
described, such as an array in a closure, the export is not kept on disk. This module imports nothing to find out.
"""

import ast
import functools
import hashlib
import importlib.machinery
import importlib.metadata
import os
import sys
import types

import pytpu as torch

from . import _artefact

# Packages that their version identifies.
_VERSIONED = ("jax", "jaxlib", "numpy", "ml_dtypes", "pytpu", "torch")
_SIMPLE = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis))


class _Unknown(Exception):
    """An error for a part that cannot be described."""


@functools.lru_cache
def _environment():
    """Describe the versions of the exporting packages."""
    versions = [sys.version, torch.__version__]
    for name in ("jax", "jaxlib"):
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"no {name}")
    with open(os.path.join(os.path.dirname(__file__), "_jax_export.py"), "rb") as f:
        versions.append(hashlib.sha256(f.read()).hexdigest())
    return versions


def _is_versioned(module):
    top = module.partition(".")[0]
    return top in _VERSIONED or top in sys.stdlib_module_names


def of_call(name, fn, mapped, args, kwargs, tensors, platform, donated, grad):
    """Return a text that identifies the export of a call, or `None` if there is none."""
    try:
        described = [(tuple(t.shape), str(t.dtype)) for t in tensors]
        call = _artefact.call(args, kwargs)
        _check_statics(call)
        source = f"{fn} {_of_file(fn.partition(':')[0], {})}" if isinstance(fn, str) else _of(fn, {})
        parts = [
            *_environment(),
            name,
            source,
            repr(mapped),
            repr(call),
            repr(described),
            platform,
            repr(donated),
            repr(grad),
        ]
    except (_Unknown, OSError, SyntaxError, RecursionError):
        return None
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _check_statics(value):
    """Raise an error for static arguments that their text does not identify, such as an object with its address."""
    if isinstance(value, list):
        if (
            len(value) == 3
            and value[0] == "static"
            and value[1] not in ("int", "float", "bool", "str", "NoneType", "dtype", "complex")
        ):
            raise _Unknown
        for v in value:
            _check_statics(v)


def _of(x, seen):
    """Describe an object that a function refers to."""
    if isinstance(x, _SIMPLE):
        return repr(x)
    if id(x) in seen:
        return f"seen {seen[id(x)][0]}"
    # Keep the object, so that no other one gets its address.
    seen[id(x)] = len(seen), x
    if isinstance(x, (tuple, list, set, frozenset)):
        ordered = sorted(x, key=repr) if isinstance(x, (set, frozenset)) else x
        return f"{type(x).__name__}({[_of(v, seen) for v in ordered]})"
    if isinstance(x, dict):
        return f"dict({[(_of(k, seen), _of(v, seen)) for k, v in x.items()]})"
    if isinstance(x, types.CodeType):
        return _of_code(x, seen)
    if isinstance(x, types.ModuleType):
        return f"module {x.__name__}"
    module = getattr(x, "__module__", None) or ""
    if isinstance(x, types.FunctionType):
        return f"{module} {x.__qualname__}" if _is_versioned(module) else _of_function(x, seen)
    if isinstance(x, types.BuiltinFunctionType):
        return f"{module} {x.__qualname__}"
    if isinstance(x, type):
        if _is_versioned(x.__module__) or x.__module__ == "builtins":
            return f"class {x.__module__}.{x.__qualname__}"
        members = {k: v for k, v in vars(x).items() if k not in ("__dict__", "__weakref__", "__doc__")}
        return f"class {x.__qualname__} {[_of(b, seen) for b in x.__bases__]} {_of(members, seen)}"
    if isinstance(x, functools.partial):
        return f"partial {_of([x.func, x.args, x.keywords], seen)}"
    if isinstance(x, (staticmethod, classmethod)):
        return f"{type(x).__name__} {_of(x.__func__, seen)}"
    if isinstance(x, types.MethodType):
        return f"method {_of([x.__func__, x.__self__], seen)}"
    wrapped = getattr(x, "__wrapped__", None)
    if callable(x) and callable(wrapped) and _is_versioned(type(x).__module__):
        # Wrappers that JAX makes of a function: `jax.jit`, `jax.custom_vjp`.
        parts = [getattr(x, name, None) for name in ("fwd", "bwd", "jvp", "nondiff_argnums")]
        return f"{type(x).__qualname__} {_of([wrapped, *parts], seen)}"
    if (
        type(x).__module__ in ("numpy.dtypes", "ml_dtypes")
        or type(x).__module__ == "numpy"
        and getattr(x, "shape", None) == ()
    ):
        # A dtype or a number.
        return f"{type(x).__qualname__} {x!r}"
    raise _Unknown


def _of_function(f, seen):
    cells = [c.cell_contents for c in f.__closure__ or ()]
    names = _names(f.__code__)
    used = {n: f.__globals__[n] for n in sorted(names) if n in f.__globals__}
    parts = [_of_code(f.__code__, seen), _of(cells, seen), _of(f.__defaults__, seen), _of(f.__kwdefaults__, seen)]
    for name, value in used.items():
        if isinstance(value, types.ModuleType) and not _is_versioned(value.__name__):
            # For a module of the user, the attributes that the function may read.
            found = {n: getattr(value, n) for n in sorted(names) if hasattr(value, n)}
            parts.append(f"{name}: {_of(found, seen)}")
        else:
            parts.append(f"{name}: {_of(value, seen)}")
    for module in sorted(_imports(f.__code__)):
        if not _is_versioned(module):
            parts.append(_of_file(module, {}))
    return f"function {parts}"


def _names(code):
    names = set(code.co_names)
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            names |= _names(c)
    return names


def _imports(code):
    """Return the modules that a function imports when it runs."""
    import dis

    found = {i.argval for i in dis.get_instructions(code) if i.opname == "IMPORT_NAME"}
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            found |= _imports(c)
    return found


def _of_code(code, seen):
    consts = [_of_code(c, seen) if isinstance(c, types.CodeType) else _of(c, seen) for c in code.co_consts]
    return f"code {code.co_code.hex()} {consts} {code.co_names} {code.co_varnames} {code.co_freevars}"


def _spec(module):
    """Find a module without importing its parents."""
    path, name = None, ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            raise _Unknown
        path = spec.submodule_search_locations
    return spec


def _of_file(module, seen):
    """Describe a module's file, and the files of the modules that it imports."""
    if module in seen:
        return ""
    seen[module] = True
    spec = _spec(module)
    with open(spec.origin, "rb") as f:
        source = f.read()
    parts = [module, hashlib.sha256(source).hexdigest()]
    package = module if spec.submodule_search_locations else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        wanted = []
        if isinstance(node, ast.Import):
            wanted = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            wanted = [base]
            if not _is_versioned(base):
                wanted += [f"{base}.{a.name}" for a in node.names if _is_module(f"{base}.{a.name}")]
        parts += [_of_file(name, seen) for name in wanted if not _is_versioned(name)]
    return f"file {parts}"


def _is_module(name):
    try:
        _spec(name)
    except _Unknown:
        return False
    return True
