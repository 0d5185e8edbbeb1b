"""The examples in the docstrings of the package run and print the stated output.

Docstrings are read from the source, so that examples of wrapped objects are found too.
"""

import ast
import doctest
from pathlib import Path

import pytest

import pytpu

PACKAGE = Path(pytpu.__file__).parent
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def examples_in(path):
    """Return a `DocTest` for each docstring of a file that has examples."""
    text = path.read_text(encoding="utf-8")
    if ">>> " not in text:
        return []
    tests = []
    parser = doctest.DocTestParser()

    def visit(node, name):
        docstring = ast.get_docstring(node, clean=False)
        if docstring is not None:
            line = node.body[0].lineno - 1
            test = parser.get_doctest(docstring, {}, name, str(path), line)
            if test.examples:
                tests.append(test)
        for child in ast.walk(node):
            if child is not node and isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                if id(child) not in seen:
                    seen.add(id(child))
                    visit(child, f"{name}.{child.name}")

    seen = set()
    visit(ast.parse(text), path.relative_to(PACKAGE.parent).as_posix())
    return tests


MODULES = {
    str(path.relative_to(PACKAGE)): tests for path in sorted(PACKAGE.rglob("*.py")) if (tests := examples_in(path))
}


@pytest.mark.usefixtures("default_precision")
@pytest.mark.parametrize("module", MODULES)
def test_examples_of(module):
    report = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    for test in MODULES[module]:
        pytpu.manual_seed(0)
        runner.run(test, out=report.append)
    assert not runner.summarize(verbose=False).failed, "".join(report)


def test_examples_are_found():
    assert "nn/modules/linear.py" in MODULES
