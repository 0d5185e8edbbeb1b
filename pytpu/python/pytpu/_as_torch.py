"""Imports of this package under the name `torch`.

Modules are imported and kept as `pytpu.x`. If no other torch can be imported, they also take PyTorch's name:
`__name__` is `torch.x` while the module's text runs, so that the modules of all classes and functions are
PyTorch's, and `sys.modules` has the module under both names. Then `import torch`, unpickling, `inspect` and error
texts need no other code. `__spec__` and `__package__` keep the name `pytpu.x`, which relative imports follow.

If another torch can be imported, it keeps its name, and this package keeps `pytpu` until `install()` is called.
"""

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import FunctionType, ModuleType

from ._names import ABSENT, FILES, FOLDERS, NAMES, ROWS_OF, SOURCES

_ROOT = __package__
_FOLDER = os.path.dirname(os.path.abspath(__file__))
SHIM = os.path.join(_FOLDER, "_shim")

# Modules of other libraries, and the function of `_libraries` that is called when one has run.
FOLLOWERS = {
    "accelerate.state": "choose_devices",
    "accelerate.utils.imports": "refuse_float16",
    "lightning.fabric.connector": "register_in_fabric",
    "lightning.fabric.strategies.ddp": "let_ranks_use_tpu",
    "lightning.pytorch.strategies.ddp": "let_ranks_use_tpu",
    "lightning.pytorch.trainer.connectors.accelerator_connector": "register_in_trainer",
    "lightning_fabric.connector": "register_in_fabric",
    "lightning_fabric.strategies.ddp": "let_ranks_use_tpu",
    "mmengine.device.utils": "choose_device",
    "pytorch_lightning.strategies.ddp": "let_ranks_use_tpu",
    "pytorch_lightning.trainer.connectors.accelerator_connector": "register_in_trainer",
    "torchaudio._extension.utils": "leave_out_extension",
    "torchvision.extension": "give_kernels",
}

# Files with the names of a module of the extension.
_OF_EXTENSION = {"_c_names": "_C", "distributed._c_names": "_C._distributed_c10d"}

# Modules of `torch._C` that are made in Python, in `_c_names`.
_OF_C = {f"_C.{name}" for name in ("_cpu", "_distributed_rpc", "_dynamo", "_dynamo.eval_frame", "_functorch", "_onnx")}

# Whether this package has taken the name, and whether a shim was found, which lets other processes import `torch` too.
is_torch = False
_has_shim = False


def said_name(name):
    """Return the reported name of the module `pytpu.x`."""
    rest = name[len(_ROOT) + 1 :]
    rest = FILES.get(rest, rest)
    root = "torch" if is_torch else _ROOT
    return f"{root}.{rest}" if rest else root


class _Loader(SourceFileLoader):
    """A loader that runs a module's text under PyTorch's name."""

    def get_filename(self, name=None):
        """Return the file, for each of the names of the module."""
        return self.path

    def exec_module(self, module):
        """Run the module. A package then imports a submodule on the first access to it as an attribute."""
        own = self.name[len(_ROOT) + 1 :]
        module.__name__ = said_name(self.name)
        hook = None
        if hasattr(module, "__path__"):
            hook = module.__getattr__ = _submodules_of(module, self.name)
        if is_torch:
            sys.modules[f"torch.{own}"] = module
        try:
            super().exec_module(module)
        except BaseException:
            if is_torch:
                sys.modules.pop(f"torch.{own}", None)
            raise
        home = _OF_EXTENSION.get(own, own)
        add_absent(module, home)
        if hook is None:
            if "._" not in f".{own}":
                module.__getattr__ = _absent_of(module, own, vars(module).get("__getattr__"))
        elif module.__getattr__ is not hook:
            module.__getattr__ = _submodules_of(module, self.name, module.__getattr__)
        if own in FILES:
            # The other module does not have private names. They are found here.
            for name, value in vars(module).items():
                if name[0] == "_" and isinstance(value, (type, FunctionType)) and value.__module__ == module.__name__:
                    value.__module__ = ("torch." if is_torch else f"{_ROOT}.") + own
        if own in NAMES:
            _place(module, own)
        if own in FILES and SOURCES.get(FILES[own]) == own:
            _make(FILES[own], module)


def _place(module, own):
    """Report names of a module as names of other modules."""
    root = "torch" if is_torch else _ROOT
    for home, names in NAMES[own].items():
        full = f"{root}.{home}" if home else root
        for name in names.split():
            value = vars(module).get(name)
            if isinstance(value, type):
                for member in list(vars(value).values()):
                    if getattr(member, "__module__", None) == value.__module__ and isinstance(member, FunctionType):
                        member.__module__ = full
                value.__module__ = full
            elif isinstance(value, FunctionType):
                if value.__name__ != name or value.__globals__ is not vars(module):
                    # A function of another module, or with several names, is copied for each name.
                    copy = FunctionType(value.__code__, value.__globals__, name, value.__defaults__, value.__closure__)
                    copy.__kwdefaults__, copy.__doc__, copy.__qualname__ = value.__kwdefaults__, value.__doc__, name
                    copy.__dict__.update(value.__dict__)
                    value = vars(module)[name] = copy
                value.__module__ = full
        if SOURCES.get(home) == own:
            _make(home, module)


def add_absent(module, home):
    """Add the names of the table that can only be imported, to `__all__` too."""
    for kind, why, names in ROWS_OF.get(home, ()):
        if kind != ABSENT:
            continue
        from ._absent import absent_class, absent_function

        for text in names.split():
            name = text.removesuffix("()")
            if name in vars(module):
                continue
            make = absent_class if name == text else absent_function
            setattr(module, name, make(f"torch.{home}.{name}", why))
            if name[0] != "_" and "__all__" in vars(module):
                module.__all__.append(name)


def _add_aliases(module, home):
    """Add the names of the table that other modules have."""
    from importlib import import_module

    for kind, place, names in ROWS_OF.get(home, ()):
        if kind == ABSENT:
            continue
        source = import_module(f"{_ROOT}.{place}")
        for text in names.split():
            name, _, old = text.partition("=")
            setattr(module, name, getattr(source, old or name))


def _make(home, source=None):
    """Make the module `home`, unless it has a file.

    Args:
        home: the name, without the package's.
        source: a module that has all names of `home`, or `None`.
    """
    full = f"{_ROOT}.{home}"
    if not home or full in sys.modules or not _has_no_file(home):
        return
    made = ModuleType(said_name(full), FOLDERS.get(home, f"The names that PyTorch has in `torch.{home}`."))
    made.__package__ = full.rpartition(".")[0]
    made.__spec__ = ModuleSpec(full, None)
    if source is not None:
        made.__file__ = made.__spec__.origin = source.__file__

    def of_source(name):
        if name == "__path__":
            raise AttributeError(name)
        return getattr(source, name)

    own = of_source if source is not None else None
    if _is_package(home):
        made.__package__ = full
        made.__path__ = made.__spec__.submodule_search_locations = _paths(home)
        made.__getattr__ = _submodules_of(made, full, own)
    else:
        made.__getattr__ = _absent_of(made, home, own)
    sys.modules[full] = made
    if is_torch:
        sys.modules[f"torch.{home}"] = made
    names = NAMES.get(SOURCES.get(home), {}).get(home, "").split()
    if names:
        made.__all__ = [name for name in names if name[0] != "_"]
    elif home in SOURCES:
        names = getattr(source, "__all__", None) or [name for name in vars(source) if name[0] != "_"]
    vars(made).update((name, vars(source)[name]) for name in names if name in vars(source))
    add_absent(made, home)
    _add_aliases(made, home)
    parent, _, last = home.rpartition(".")
    if f"{_ROOT}.{parent}" not in sys.modules and _has_no_file(parent):
        _make(parent, None if _is_made(parent) else source)
    parent = sys.modules.get(f"{_ROOT}.{parent}" if parent else _ROOT)
    if parent is not None and last not in vars(parent):
        setattr(parent, last, made)


def _has_no_file(home):
    path = os.path.join(_FOLDER, *home.split("."))
    return not (os.path.exists(path + ".py") or os.path.exists(os.path.join(path, "__init__.py")))


def _is_made(home):
    """Return whether the table describes the module `home`, and no file does."""
    return (home in SOURCES or home in ROWS_OF or home in FOLDERS) and home != "_C" and _has_no_file(home)


def _paths(home):
    return [os.path.join(_FOLDER, *home.split("."))]


def _is_package(home):
    """Return whether a module without a file is a package: a folder, or the parent of another module without a file."""
    start = home + "."
    return home in FOLDERS or any(name.startswith(start) for name in ROWS_OF)


class _MadeLoader:
    """A loader of made modules. A module that has all their names is imported first, and makes them."""

    def __init__(self, source):
        self.source = source

    def create_module(self, spec):
        """Return the made module."""
        from importlib import import_module

        source = self.source and import_module(f"{_ROOT}.{self.source}")
        _make(spec.name[len(_ROOT) + 1 :], source)
        return sys.modules[spec.name]

    def exec_module(self, module):
        """Do nothing: the module is complete."""


class _Folder:
    """A finder of the files in a folder of the package. `pkgutil` also gets the modules without a file from it.

    Args:
        finder: the finder of another hook, or `None` if there is no such folder.
        home: the package, without the name of the whole package.
    """

    def __init__(self, finder, home):
        self._finder, self._start = finder, home and home + "."
        if finder is not None:
            self.find_spec, self.invalidate_caches = finder.find_spec, finder.invalidate_caches

    def find_spec(self, name, target=None):
        """Return `None`: there is no folder."""
        return None

    def iter_modules(self, prefix=""):
        """Yield the name of each module, with the prefix, and whether it is a package."""
        from pkgutil import iter_importer_modules

        files = dict(iter_importer_modules(self._finder, prefix)) if self._finder is not None else {}
        yield from files.items()
        homes = {*SOURCES, *ROWS_OF, *FOLDERS}
        children = {home[len(self._start) :].partition(".")[0] for home in homes if home.startswith(self._start)}
        for child in sorted(children - {"_C"}):
            if prefix + child not in files and _has_no_file(self._start + child):
                yield prefix + child, _is_package(self._start + child)


def _find_in_folder(path):
    """Return a `_Folder` for a folder of this package. This is one of `sys.path_hooks`."""
    if not path.startswith(_FOLDER) or path[len(_FOLDER) :][:1] not in ("", os.sep) or path.startswith(SHIM):
        raise ImportError(path)
    home = path[len(_FOLDER) + 1 :].replace(os.sep, ".")
    for hook in sys.path_hooks:
        if hook is not _find_in_folder:
            try:
                return _Folder(hook(path), home)
            except ImportError:
                pass
    return _Folder(None, home)


def _absent_of(module, name, own):
    """Return the function that a module calls for an attribute that it lacks. It says more if PyTorch has the name."""

    def __getattr__(attribute):
        if own is not None:
            try:
                return own(attribute)
            except AttributeError as error:
                if attribute[:1] == "_":
                    raise
                plain = error
        else:
            plain = None
        return _not_there(module, name, attribute, plain)

    return __getattr__


def _not_there(module, name, attribute, plain=None):
    """Raise the error of an absent attribute, or return what an import of it gets."""
    if attribute[:1] == "_":
        # The import system asks for such names.
        text = f"module '{module.__name__}' has no attribute '{attribute}'"
        raise plain or AttributeError(text, name=attribute, obj=module)
    from ._not_there import missing

    # The reader: this function, and the `__getattr__` that called it, are between.
    found = missing(module.__name__, name, attribute, sys._getframe(2))
    if not isinstance(found, Exception):
        return found
    if plain is not None and type(found) is AttributeError:
        raise plain
    raise found


def _submodules_of(module, package, own=None):
    # `from . import x` asks for the attribute first. Importing here keeps the import system from trying `torch.x`,
    # whose lock another thread may hold while it waits for ours.
    def __getattr__(name):
        if own is not None:
            try:
                return own(name)
            except AttributeError as error:
                missing = error
        else:
            missing = AttributeError(f"module '{module.__name__}' has no attribute '{name}'", name=name, obj=module)
        if name[:2] != "__":
            full = f"{package}.{name}"
            if (
                full in sys.modules
                or _is_made(full[len(_ROOT) + 1 :])
                or PathFinder.find_spec(full, module.__path__) is not None
            ):
                from importlib import import_module

                return import_module(full)
        return _not_there(module, package[len(_ROOT) + 1 :], name, missing)

    return __getattr__


class _AliasLoader(SourceFileLoader):
    """A loader that returns the module `pytpu.x` for `torch.x`.

    As a `SourceFileLoader` it has the code, which `-m torch.x` needs.
    """

    def __init__(self, name, path, own):
        super().__init__(name, path)
        self.own = own

    def create_module(self, spec):
        """Import `pytpu.x`."""
        from importlib import import_module

        module = import_module(self.own)
        self.spec = module.__spec__
        return module

    def exec_module(self, module):
        """Restore the module's own attributes, which the import system has just replaced."""
        module.__spec__ = self.spec


def _of_torch_tpu(rest):
    """Return the module for `torch_tpu.rest`, a module of `torch.tpu`. Its internal modules have no aliases."""
    if rest == "_internal":
        return "torch_tpu"
    return f"{_ROOT}.tpu.{rest.removeprefix('_internal.')}"


class _FollowedLoader(SourceFileLoader):
    """A loader that runs a module of another library, and then registers device `tpu` with it."""

    def exec_module(self, module):
        """Run the module, and then the function of `_libraries`."""
        super().exec_module(module)
        from . import _libraries

        getattr(_libraries, FOLLOWERS[self.name])(module)


def _follow(spec):
    if spec is not None and type(spec.loader) is SourceFileLoader:
        spec.loader = _FollowedLoader(spec.loader.name, spec.loader.path)
    return spec


def _no_module(name, frame):
    """Raise the error of importing an absent module of PyTorch. Return `None` for others, and to `find_spec`."""
    # Only an import, not a question such as `importlib.util.find_spec("torch.export")`, gets the error.
    if frame.f_code.co_name == "_find_and_load_unlocked":
        from ._not_there import missing_module

        error = missing_module(name)
        if error is not None:
            raise error
    return None


class _Finder:
    """A finder of `torch.x` as `pytpu.x`, which also lets `pytpu.x` run under PyTorch's name."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        """Return the spec of a module of this package, or `None` for any other."""
        head = name[:6]
        if head == _ROOT + ".":
            home = name[6:]
            if home in _OF_C:
                return ModuleSpec(name, _MadeLoader("_c_names"))
            if _is_made(home):
                spec = ModuleSpec(name, _MadeLoader(SOURCES.get(home)))
                spec.submodule_search_locations = _paths(home) if _is_package(home) else None
                return spec
            spec = PathFinder.find_spec(name, path, target)
            if spec is not None and type(spec.loader) is SourceFileLoader:
                spec.loader = _Loader(name, spec.loader.path)
            return spec or _no_module(name[6:], sys._getframe(2))
        if not is_torch:
            return None
        if head == "torch." or name == "torch":
            own = _ROOT + name[5:]
        elif head == "torch_" and name[:10] == "torch_tpu.":
            from importlib import import_module

            own = _of_torch_tpu(name[10:])
            path = import_module(own.rpartition(".")[0]).__path__ if "." in own else None
        elif name in FOLLOWERS:
            return _follow(PathFinder.find_spec(name, path, target))
        else:
            return None
        there = sys.modules.get(own)
        spec = _Finder.find_spec(own, path) if there is None else getattr(there, "__spec__", None)
        if spec is None and there is None:
            return _no_module(own[6:], sys._getframe(2))
        origin = getattr(spec, "origin", None)
        alias = ModuleSpec(name, _AliasLoader(name, origin, own), origin=origin)
        alias.submodule_search_locations = getattr(spec, "submodule_search_locations", None)
        alias.has_location = origin is not None
        return alias


def _is_shim(origin):
    return origin is not None and os.path.isfile(os.path.join(os.path.dirname(origin), "pytpu-shim.txt"))


def _other_torch():
    """Return the file from which another torch is, or would be, imported, or `None` if there is none."""
    global _has_shim
    there = sys.modules.get("torch")
    if there is not None:
        if there is sys.modules.get(_ROOT):
            return None
        origin = getattr(there, "__file__", None)
        _has_shim = _is_shim(origin)
        return None if _has_shim else origin or repr(there)
    for finder in sys.meta_path:
        spec = None if finder is _Finder or not hasattr(finder, "find_spec") else finder.find_spec("torch", None)
        if spec is not None and spec.origin is not None:
            _has_shim = _is_shim(spec.origin)
            return None if _has_shim else spec.origin
    return None


def begin():
    """Decide the name under which the modules are run. Call this before the first of them is imported."""
    global is_torch
    is_torch = _other_torch() is None
    sys.meta_path.insert(0, _Finder)
    sys.path_hooks.insert(0, _find_in_folder)
    sys.path_importer_cache.pop(_FOLDER, None)


def finish():
    """Give both names to the loaded modules. Call this when the package is complete."""
    if not is_torch:
        return
    for name, module in list(sys.modules.items()):
        if name == _ROOT or name.startswith(_ROOT + "."):
            sys.modules["torch" + name[len(_ROOT) :]] = module
            module.__name__ = said_name(name)
    if not _has_shim and SHIM not in sys.path:
        # New processes of `multiprocessing` have this path, and need `torch` to unpickle.
        sys.path.append(SHIM)
    from . import _safetensors_package

    _safetensors_package.install()


def take_the_name():
    """Make this package `torch` in this process, even if another torch could be imported."""
    global is_torch
    if not is_torch:
        is_torch = True
        for name, module in list(sys.modules.items()):
            if name == _ROOT or name.startswith(_ROOT + "."):
                _rename(module)
    finish()


def _rename(module):
    for value in list(vars(module).values()):
        _rename_one(value)


def _rename_one(value):
    own = getattr(value, "__module__", None)
    if not isinstance(own, str) or not (own == _ROOT or own.startswith(_ROOT + ".")):
        return
    if isinstance(value, type):
        value.__module__ = "torch" + own[len(_ROOT) :]
        for member in list(vars(value).values()):
            for part in (member, getattr(member, "__func__", None), getattr(member, "fget", None)):
                _rename_one(part)
    elif callable(value) and hasattr(value, "__qualname__"):
        try:
            value.__module__ = "torch" + own[len(_ROOT) :]
        except AttributeError:
            pass


def install():
    """Make `import torch` import this package, in this process and in the processes that it starts.

    Call it before the first `import torch`, in a script or in the first cell of a notebook. A second call changes
    nothing. Other processes inherit the name through the environment variable `PYTHONPATH`.

    Raises:
        RuntimeError: another torch has been imported already.
    """
    there = sys.modules.get("torch")
    if there is not None and there is not sys.modules[_ROOT] and not _is_shim(getattr(there, "__file__", None)):
        raise RuntimeError(
            f"pytpu.install(): another torch has been imported already, from {getattr(there, '__file__', there)}. "
            "Call install() before the first `import torch`, or start the program with `python -m pytpu`."
        )
    take_the_name()
    if SHIM in sys.path:
        sys.path.remove(SHIM)
    # After the folder of the script, where PYTHONPATH is in other processes.
    sys.path.insert(1, SHIM)
    inherited = os.environ.get("PYTHONPATH", "")
    if SHIM not in inherited.split(os.pathsep):
        os.environ["PYTHONPATH"] = SHIM + os.pathsep + inherited if inherited else SHIM
    os.environ["PYTPU_IS_TORCH_IN"] = sys.prefix
    from ._libraries import prefer_tpu

    prefer_tpu()
