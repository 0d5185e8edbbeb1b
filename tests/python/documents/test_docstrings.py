"""Public classes and functions of `pytpu.nn` have annotations, and docstrings that describe each argument."""

import ast
import re
from pathlib import Path

import pytest

import pytpu

PACKAGE = Path(pytpu.__file__).parent
FILES = sorted((PACKAGE / "nn").rglob("*.py"))


def is_overload(function):
    return any(isinstance(d, ast.Name) and d.id == "overload" for d in function.decorator_list)


def definitions(body, owner=None):
    """Yield each class and function that is not nested in a function, with the class that it is defined in."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node, owner
            yield from definitions(node.body, node)
        elif isinstance(node, ast.FunctionDef) and not is_overload(node):
            yield node, owner


def parameters(function, owner):
    """Return the parameters of a function, without `self` and `cls`."""
    spec = function.args
    named = [*spec.posonlyargs, *spec.args]
    if owner is not None and not any(
        isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list
    ):
        named = named[1:]
    return named + spec.kwonlyargs + [p for p in (spec.vararg, spec.kwarg) if p is not None]


def is_public(node, owner):
    hidden = owner is not None and owner.name.startswith("_")
    return not node.name.startswith("_") and not hidden


def is_described(name, docstring):
    return re.search(rf"^\s*\**(\w+, )*{re.escape(name)}: ", docstring, re.MULTILINE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_public_names_are_annotated_and_documented(path):
    missing = []
    for node, owner in definitions(ast.parse(path.read_text(encoding="utf-8")).body):
        name = node.name if owner is None else f"{owner.name}.{node.name}"
        docstring = ast.get_docstring(node)
        if is_public(node, owner) and not docstring:
            missing.append(f"{name}: docstring")
        if isinstance(node, ast.ClassDef):
            continue
        if not (is_public(node, owner) or node.name in ("__init__", "__new__")):
            continue
        names = parameters(node, owner)
        missing += [f"{name}: type of {p.arg}" for p in names if p.annotation is None]
        if node.returns is None:
            missing.append(f"{name}: type of the result")
        if owner is None:
            missing += [f"{name}: description of {p.arg}" for p in names if not is_described(p.arg, docstring or "")]
        elif node.name in ("__init__", "__new__") and not owner.name.startswith("_"):
            described = ast.get_docstring(owner) or ""
            known = [p for p in names if p not in (node.args.vararg, node.args.kwarg)]
            missing += [f"{name}: description of {p.arg}" for p in known if not is_described(p.arg, described)]
    assert not missing
