"""The code of TorchScript archives, and how it runs.

The code is a small subset of Python's text. It is parsed with `ast` and becomes functions here. There is no `eval`:
a name means a variable, an operator of aten, or one of the functions of `_builtins.py`.
"""

from __future__ import annotations

import ast
import collections
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytpu as torch

from . import _builtins

_Env = dict[str, Any]
_Code = Callable[[_Env], Any]


class ScriptError(RuntimeError):
    """Code of an archive that is damaged, or that has what does not run here."""


class _Returned(Exception):  # it ends a function
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class ScriptedFunction:
    """A function or method of an archive.

    Args:
        program: the archive's code.
        tree: the definition.
        text: the code of its file, for errors.
    """

    def __init__(self, program: Program, tree: ast.FunctionDef, qualified: str) -> None:
        self.name, self.qualified, self._program, self._tree = tree.name, qualified, program, tree
        arguments = tree.args
        if arguments.vararg or arguments.kwarg or tree.decorator_list:
            raise ScriptError(f"{qualified}: its parameters have a form that TorchScript does not have")
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        self.parameters = [argument.arg for argument in named]
        self.types = [argument.annotation for argument in named]
        self.defaults: dict[str, _Code] = {}
        self._body: Callable[[_Env], None] | None = None
        compiler = _Compiler(program)
        positional = [*arguments.posonlyargs, *arguments.args]
        for argument, default in zip(reversed(positional), reversed(arguments.defaults)):
            self.defaults[argument.arg] = compiler.expression(default)
        for argument, default_or_none in zip(arguments.kwonlyargs, arguments.kw_defaults):
            if default_or_none is not None:
                self.defaults[argument.arg] = compiler.expression(default_or_none)

    @property
    def code(self) -> str:
        """The text."""
        return ast.unparse(self._tree) + "\n"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._body is None:
            self._body = _Compiler(self._program).block(self._tree.body)
        names = self.parameters
        if len(args) > len(names):
            raise RuntimeError(
                f"{self.name}() expected at most {len(names)} argument(s) but received {len(args)} argument(s). "
                f"Declaration: {self.signature()}"
            )
        env: _Env = dict(zip(names, args))
        for name, value in kwargs.items():
            if name in env or name not in names:
                raise RuntimeError(f"Unknown keyword argument '{name}' for operator '{self.name}'")
            env[name] = value
        for name in names:
            if name not in env:
                if name not in self.defaults:
                    raise RuntimeError(
                        f"{self.name}() is missing value for argument '{name}'. Declaration: {self.signature()}"
                    )
                env[name] = self.defaults[name]({})
        for name, kind in zip(names, self.types):
            # The types of an argument tell an int from a float.
            if kind is not None and isinstance(kind, ast.Name) and kind.id == "float" and type(env[name]) is int:
                env[name] = float(env[name])
        try:
            self._body(env)
        except _Returned as returned:
            return returned.value
        return None

    def signature(self) -> str:
        """Return the declaration."""
        shown = [
            f"{'' if kind is None else ast.unparse(kind) + ' '}{name}"
            for name, kind in zip(self.parameters, self.types)
        ]
        result = "" if self._tree.returns is None else f" -> {ast.unparse(self._tree.returns)}"
        return f"{self.name}({', '.join(shown)}){result}"


class ScriptedClass:
    """A class of an archive: of modules, of named tuples, of enums, or of plain objects."""

    def __init__(self, program: Program, tree: ast.ClassDef, qualified: str) -> None:
        self.name, self.qualified, self.program = tree.name, qualified, program
        self.kind = ast.unparse(tree.bases[0]) if tree.bases else "object"
        self.types: dict[str, ast.expr] = {}
        self.methods: dict[str, ScriptedFunction] = {}
        self.lists: dict[str, list[str]] = {"__parameters__": [], "__buffers__": []}
        self.values: dict[str, _Code] = {}
        for statement in tree.body:
            if isinstance(statement, ast.FunctionDef):
                self.methods[statement.name] = ScriptedFunction(program, statement, f"{qualified}.{statement.name}")
            elif isinstance(statement, ast.AnnAssign):
                self._annotate(program, statement)
            elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                name = statement.targets[0].id
                if name in ("__parameters__", "__buffers__", "__forward_pre_hooks__", "__forward_hooks__"):
                    self.lists[name] = [
                        item.value
                        for item in getattr(statement.value, "elts", [])
                        if isinstance(item, ast.Constant) and isinstance(item.value, str)
                    ]
                else:
                    self.values[name] = _Compiler(program).expression(statement.value)
            elif not isinstance(statement, (ast.Pass, ast.Expr)):
                raise ScriptError(f"the class {qualified} has a statement that TorchScript does not have")

    def _annotate(self, program: Program, statement: ast.AnnAssign) -> None:
        target = statement.target
        if isinstance(target, ast.Name):
            name = target.id
        elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
            # `__annotations__["0"] = type` is how names that are no identifiers are written.
            name = str(target.slice.value)
        else:
            raise ScriptError(f"the class {self.qualified} has an attribute of an unknown form")
        self.types[name] = statement.annotation
        if statement.value is not None:
            self.values[name] = _Compiler(program).expression(statement.value)


class ScriptedObject:
    """An instance of a class of an archive that is no module.

    Args:
        cls: the class.
    """

    def __init__(self, cls: ScriptedClass) -> None:
        self._class = cls
        self._attributes: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._attributes:
            return self._attributes[name]
        method = self._class.methods.get(name)
        if method is None:
            raise AttributeError(f"'{self._class.name}' object has no attribute or method '{name}'")
        return lambda *args, **kwargs: method(self, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self._class.qualified} object>"


class Program:
    """The code of an archive.

    Args:
        read: a function of the path of a file of code, such as `__torch__.py`, that returns its text or `None`.
        constants: the tensors that the code names.
    """

    def __init__(self, read: Callable[[str], str | None], constants: Sequence[Any]) -> None:
        self._read, self.constants = read, constants
        self._files: dict[str, dict[str, ast.stmt]] = {}
        self._found: dict[str, Any] = {}
        self._constructors: dict[str, _Constructor] = {}
        #: The files of code, as they are written.
        self.files: dict[str, bytes] = {}

    def has(self, qualified: str) -> bool:
        """Return whether there is a class or function with a qualified name."""
        path, _, name = qualified.rpartition(".")
        return name in self._definitions(path)

    def find(self, qualified: str) -> Any:
        """Return the class or function with a qualified name.

        Raises:
            ScriptError: There is none.
        """
        if qualified in self._found:
            return self._found[qualified]
        path, _, name = qualified.rpartition(".")
        tree = self._definitions(path).get(name)
        if isinstance(tree, ast.ClassDef):
            found: Any = ScriptedClass(self, tree, qualified)
        elif isinstance(tree, ast.FunctionDef):
            found = ScriptedFunction(self, tree, qualified)
        else:
            raise ScriptError(f"the archive has no code of {qualified}")
        self._found[qualified] = found
        return found

    def constructor(self, cls: ScriptedClass) -> _Constructor:
        """Return the function that makes instances of a class."""
        return self._constructors.setdefault(cls.qualified, _Constructor(cls))

    def _definitions(self, path: str) -> dict[str, ast.stmt]:
        if path in self._files:
            return self._files[path]
        text = self._read(path.replace(".", "/") + ".py")
        found: dict[str, ast.stmt] = {}
        if text is not None:
            try:
                tree = ast.parse(_python_text(text))
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                raise ScriptError(f"the code of {path} is damaged: {error}") from None
            for statement in tree.body:
                if isinstance(statement, (ast.ClassDef, ast.FunctionDef)):
                    found[statement.name] = statement
        self._files[path] = found
        return found


def _python_text(text: str) -> str:
    """Replace the words that Python's grammar does not take."""
    # Attributes whose names are no identifiers: `__annotations__["0"] = ...`.
    text = re.sub(r'^(\s+)__annotations__\["([^"\\\n]*)"\] = (.*)$', r'\1__annotations__["\2"] : \3', text, flags=re.M)
    # An argument with the name of a word of Python.
    return re.sub(r"\bfrom=", "from_=", text)


class _Compiler:
    """Makes functions of an environment from statements and expressions."""

    def __init__(self, program: Program) -> None:
        self.program = program

    # ---- statements

    def block(self, statements: Sequence[ast.stmt]) -> Callable[[_Env], None]:
        """Return the function of a list of statements."""
        steps = [self.statement(statement) for statement in statements]

        def run(env: _Env) -> None:
            for step in steps:
                step(env)

        return run

    def statement(self, tree: ast.stmt) -> Callable[[_Env], None]:
        """Return the function of a statement."""
        method = getattr(self, f"_{type(tree).__name__.lower()}", None)
        if method is None:
            raise ScriptError(f"TorchScript has no statement of the kind {type(tree).__name__}")
        return method(tree)

    def _pass(self, tree: ast.Pass) -> Callable[[_Env], None]:
        return lambda env: None

    def _expr(self, tree: ast.Expr) -> Callable[[_Env], None]:
        value = self.expression(tree.value)

        def run(env: _Env) -> None:
            value(env)

        return run

    def _return(self, tree: ast.Return) -> Callable[[_Env], None]:
        value = self.expression(tree.value) if tree.value is not None else lambda env: None

        def run(env: _Env) -> None:
            raise _Returned(value(env))

        return run

    def _assign(self, tree: ast.Assign) -> Callable[[_Env], None]:
        value = self.expression(tree.value)
        stores = [self._store(target) for target in tree.targets]

        def run(env: _Env) -> None:
            found = value(env)
            for store in stores:
                store(env, found)

        return run

    def _annassign(self, tree: ast.AnnAssign) -> Callable[[_Env], None]:
        if tree.value is None:
            return lambda env: None
        value, store = self.expression(tree.value), self._store(tree.target)
        return lambda env: store(env, value(env))

    def _store(self, tree: ast.expr) -> Callable[[_Env, Any], None]:
        if isinstance(tree, ast.Name):
            name = tree.id
            return lambda env, value: env.__setitem__(name, value)
        if isinstance(tree, (ast.Tuple, ast.List)):
            stores = [self._store(item) for item in tree.elts]

            def unpack(env: _Env, value: Any) -> None:
                values = list(value)
                if len(values) != len(stores):
                    raise RuntimeError(f"Expected {len(stores)} elements in a list but found {len(values)}")
                for store, item in zip(stores, values):
                    store(env, item)

            return unpack
        if isinstance(tree, ast.Attribute):
            owner, attribute = self.expression(tree.value), tree.attr
            return lambda env, value: set_attribute(owner(env), attribute, value)
        raise ScriptError(f"TorchScript does not assign to {ast.unparse(tree)}")

    def _if(self, tree: ast.If) -> Callable[[_Env], None]:
        test, body, other = self.expression(tree.test), self.block(tree.body), self.block(tree.orelse)
        return lambda env: body(env) if bool(test(env)) else other(env)

    def _for(self, tree: ast.For) -> Callable[[_Env], None]:
        items, store, body = self.expression(tree.iter), self._store(tree.target), self.block(tree.body)

        def run(env: _Env) -> None:
            for item in items(env):
                store(env, item)
                body(env)

        return run

    def _while(self, tree: ast.While) -> Callable[[_Env], None]:
        test, body = self.expression(tree.test), self.block(tree.body)

        def run(env: _Env) -> None:
            while bool(test(env)):
                body(env)

        return run

    def _with(self, tree: ast.With) -> Callable[[_Env], None]:
        if len(tree.items) != 1:
            raise ScriptError("TorchScript has one object in a with statement")
        item = tree.items[0]
        entered = self.expression(item.context_expr)
        store = self._store(item.optional_vars) if item.optional_vars is not None else None
        body = self.block(tree.body)

        def run(env: _Env) -> None:
            block = entered(env)
            value = (
                block.__enter__() if not isinstance(block, ScriptedObject) else block._class.methods["__enter__"](block)
            )
            if store is not None:
                store(env, value)
            try:
                body(env)
            finally:
                if isinstance(block, ScriptedObject):
                    block._class.methods["__exit__"](block, None, None, None)
                else:
                    block.__exit__(None, None, None)

        return run

    def _assert(self, tree: ast.Assert) -> Callable[[_Env], None]:
        test = self.expression(tree.test)
        text = self.expression(tree.msg) if tree.msg is not None else lambda env: ""

        def run(env: _Env) -> None:
            if not bool(test(env)):
                raise AssertionError(text(env))

        return run

    # ---- expressions

    def expression(self, tree: ast.expr) -> _Code:
        """Return the function of an expression."""
        method = getattr(self, f"_value_{type(tree).__name__.lower()}", None)
        if method is None:
            raise ScriptError(
                f"TorchScript has no expression of the kind {type(tree).__name__}: {ast.unparse(tree)[:80]}"
            )
        return method(tree)

    def _value_constant(self, tree: ast.Constant) -> _Code:
        value = tree.value
        if not isinstance(value, (int, float, bool, str, complex, type(None))):
            raise ScriptError(f"TorchScript has no constant {value!r}")
        return lambda env: value

    def _value_name(self, tree: ast.Name) -> _Code:
        name = tree.id
        if name in _builtins.NAMES:
            constant = _builtins.NAMES[name]
            return lambda env: env.get(name, constant)

        def read(env: _Env) -> Any:
            try:
                return env[name]
            except KeyError:
                raise ScriptError(f"the variable {name} of the code has no value") from None

        return read

    def _value_tuple(self, tree: ast.Tuple) -> _Code:
        items = [self.expression(item) for item in tree.elts]
        return lambda env: tuple(item(env) for item in items)

    def _value_list(self, tree: ast.List) -> _Code:
        items = [self.expression(item) for item in tree.elts]
        return lambda env: [item(env) for item in items]

    def _value_dict(self, tree: ast.Dict) -> _Code:
        if any(key is None for key in tree.keys):
            raise ScriptError("TorchScript has no dicts of this form")
        pairs = [(self.expression(key), self.expression(value)) for key, value in zip(tree.keys, tree.values) if key]
        return lambda env: {key(env): value(env) for key, value in pairs}

    def _value_unaryop(self, tree: ast.UnaryOp) -> _Code:
        value = self.expression(tree.operand)
        if isinstance(tree.op, ast.USub):
            return lambda env: -value(env)
        if isinstance(tree.op, ast.Not):
            return lambda env: not bool(value(env))
        raise ScriptError(f"TorchScript has no operator {ast.unparse(tree)[:20]}")

    def _value_binop(self, tree: ast.BinOp) -> _Code:
        table = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
        function = table.get(type(tree.op))
        if function is None:
            raise ScriptError(f"TorchScript has no operator {ast.unparse(tree)[:40]}")
        left, right = self.expression(tree.left), self.expression(tree.right)
        return lambda env: function(left(env), right(env))

    def _value_ifexp(self, tree: ast.IfExp) -> _Code:
        test, yes, no = (self.expression(part) for part in (tree.test, tree.body, tree.orelse))
        return lambda env: yes(env) if bool(test(env)) else no(env)

    def _value_subscript(self, tree: ast.Subscript) -> _Code:
        value, index = self.expression(tree.value), self.expression(tree.slice)
        return lambda env: _builtins.get_item(value(env), index(env))

    def _value_attribute(self, tree: ast.Attribute) -> _Code:
        dotted = _dotted(tree)
        if dotted is not None:
            if dotted.startswith("CONSTANTS.c") and dotted[11:].isdigit():
                at = int(dotted[11:])
                if at >= len(self.program.constants):
                    raise ScriptError(f"the archive has no constant {at}")
                constant = self.program.constants[at]
                return lambda env: constant
            if dotted.startswith("__torch__."):
                return self._of_archive(dotted)
        value, attribute = self.expression(tree.value), tree.attr
        return lambda env: get_attribute(value(env), attribute)

    def _of_archive(self, dotted: str) -> _Code:
        """Return the value of a name of the archive: a function, or a member of an enum."""
        path, _, member = dotted.rpartition(".")
        if self.program.has(dotted):
            found = self.program.find(dotted)
            value = found if isinstance(found, ScriptedFunction) else _constructor(found)
            return lambda env: value
        cls = self.program.find(path)
        if not isinstance(cls, ScriptedClass) or member not in cls.values:
            raise ScriptError(f"the archive has no value {dotted}")
        return cls.values[member]

    def _value_call(self, tree: ast.Call) -> _Code:
        dotted = _dotted(tree.func)
        if any(isinstance(arg, ast.Starred) for arg in tree.args) or any(k.arg is None for k in tree.keywords):
            raise ScriptError("TorchScript has no calls with *args or **kwargs")
        if dotted in ("annotate", "unchecked_cast", "uninitialized"):
            return self._typed(dotted, tree)
        args = [self.expression(arg) for arg in tree.args]
        kwargs = {"from" if k.arg == "from_" else str(k.arg): self.expression(k.value) for k in tree.keywords}

        def arguments(env: _Env) -> tuple[list[Any], dict[str, Any]]:
            return [arg(env) for arg in args], {name: value(env) for name, value in kwargs.items()}

        function: Callable[..., Any]
        if dotted is not None and dotted.startswith("__torch__."):
            found = self.program.find(dotted)
            function = found if isinstance(found, ScriptedFunction) else _constructor(found)
        elif dotted is not None and (dotted.startswith(("torch.", "ops.")) or dotted in _builtins.FUNCTIONS):
            function = _builtins.find(dotted)
        elif isinstance(tree.func, ast.Attribute):
            owner, name = self.expression(tree.func.value), tree.func.attr
            if name.startswith("__"):
                raise ScriptError(f"TorchScript has no method {name}")

            def call_method(env: _Env) -> Any:
                target = owner(env)
                positional, named = arguments(env)
                return get_method(target, name)(*positional, **named)

            return call_method
        elif isinstance(tree.func, ast.Name):
            # A variable that is a function of the archive.
            variable = self._value_name(tree.func)

            def call_variable(env: _Env) -> Any:
                target = variable(env)
                if not isinstance(target, (ScriptedFunction, _Constructor)):
                    raise ScriptError(f"a value of {type(target).__name__} is called")
                positional, named = arguments(env)
                return target(*positional, **named)

            return call_variable
        else:
            raise ScriptError(f"the function {ast.unparse(tree.func)[:80]} is not known")

        def call(env: _Env) -> Any:
            positional, named = arguments(env)
            return function(*positional, **named)

        return call

    def _typed(self, name: str, tree: ast.Call) -> _Code:
        if name == "uninitialized":
            return lambda env: None
        if len(tree.args) != 2 or tree.keywords:
            raise ScriptError(f"{name} takes a type and a value")
        kind, value = ast.unparse(tree.args[0]), self.expression(tree.args[1])
        if kind in ("number", "int", "float", "bool", "complex"):
            return lambda env: _builtins.number(value(env), kind)
        return value


def _dotted(tree: ast.expr) -> str | None:
    """Return the dotted name that an expression is, or `None`."""
    parts: list[str] = []
    while isinstance(tree, ast.Attribute):
        parts.append(tree.attr)
        tree = tree.value
    if not isinstance(tree, ast.Name):
        return None
    return ".".join(reversed([*parts, tree.id]))


class _Constructor:
    """Makes instances of a class of the archive."""

    def __init__(self, cls: ScriptedClass) -> None:
        self._class = cls
        self._tuple: Any = None
        if cls.kind == "NamedTuple":
            self._tuple = collections.namedtuple(cls.name, list(cls.types))  # type: ignore[misc]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._tuple is not None:
            return self._tuple(*args, **kwargs)
        made = ScriptedObject(self._class)
        if "__init__" in self._class.methods:
            self._class.methods["__init__"](made, *args, **kwargs)
        return made


def _constructor(cls: ScriptedClass) -> _Constructor:
    return cls.program.constructor(cls)


#: Attributes of tensors in TorchScript.
_TENSOR_ATTRIBUTES = frozenset(
    "T H mT mH data device dtype grad is_cuda is_leaf is_meta is_mps is_quantized is_sparse itemsize layout nbytes "
    "ndim requires_grad shape imag real".split()
)


def get_attribute(owner: Any, name: str) -> Any:
    """Return an attribute of a value of the code.

    Raises:
        ScriptError: It has none that TorchScript knows.
    """
    if isinstance(owner, torch.Tensor):
        if name in _TENSOR_ATTRIBUTES:
            value = getattr(owner, name)
            return list(value) if name == "shape" else value
    elif isinstance(owner, torch.nn.Module):
        return owner._scripted_attribute(name)
    elif isinstance(owner, ScriptedObject):
        if not name.startswith("_"):
            return getattr(owner, name)
    elif isinstance(owner, tuple) and name in getattr(owner, "_fields", ()):
        return getattr(owner, name)
    elif isinstance(owner, torch.device) and name in ("type", "index"):
        return getattr(owner, name)
    raise ScriptError(f"a value of {type(owner).__name__} has no attribute {name}")


def get_method(owner: Any, name: str) -> Callable[..., Any]:
    """Return a method of a value of the code."""
    from ._modules import RecursiveScriptModule

    if isinstance(owner, RecursiveScriptModule):
        return owner._scripted_method(name)
    if isinstance(owner, ScriptedObject):
        return getattr(owner, name)
    return _builtins.method(owner, name)


def set_attribute(owner: Any, name: str, value: Any) -> None:
    """Set an attribute of a module or an object of the archive."""
    if isinstance(owner, ScriptedObject):
        owner._attributes[name] = value
    elif isinstance(owner, torch.nn.Module) and not name.startswith("_"):
        owner._scripted_attribute(name)
        setattr(owner, name, value)
    else:
        raise ScriptError(f"a value of {type(owner).__name__} has no attribute {name}")
