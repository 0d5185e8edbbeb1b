"""Type stubs: what a type checker says about a user's program, and whether the stubs agree with the package."""

import ast
import functools
import importlib.util
import inspect
import os
import pathlib
import re
import subprocess
import sys

import pytest

import pytpu as torch

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = pathlib.Path(torch.__file__).parent

STUBS = (
    "pytpu._C",
    "pytpu",
    "pytpu._size",
    "pytpu.fft",
    "pytpu.linalg",
    "pytpu.return_types",
    "pytpu.special",
)


ABSENT = sorted(name for name, value in vars(torch.Tensor).items() if type(value).__name__ == "AbsentMember")

# Differences of the stubs from the package, as patterns of what stubtest says, each with its reason.
DIFFERENCES = {
    r"pytpu\.(\w+\.)*__all__ is not present in stub": "names that nobody imports by `*`",
    r"pytpu\.(\w+\.)*TYPE_CHECKING is not present in stub": "it is false when the package runs",
    r"pytpu\.__dir__ is not present in stub": "a part of the module's machinery",
    r"pytpu\._C\.Node\.__getattr__ is not present at runtime": "the class has it as `__getattribute__`",
    r"pytpu\._C\.Tensor\.(cholesky|eig|lstsq|qr|solve|symeig) is not present in stub": "it only raises an error",
    r"pytpu\._C\.Tensor\.(coalesce|indices|is_coalesced|values) is not present in stub": "it only raises an error",
    # Methods of PyTorch that are absent. Reading one raises an error that says what to use.
    rf"pytpu\._C\.Tensor\.({'|'.join(ABSENT)}) is not present in stub": "it only raises an error",
    r"pytpu\._C\.Tensor\.__repr__ is inconsistent, stub does not have parameter .tensor_contents.": (
        "mypy forgets the names of keyword parameters of dunder methods, and would refuse subclasses that have it"
    ),
    r"pytpu\._C\.Tensor\.__pow__ is inconsistent, stub does not have parameter .mod.": "it is refused",
    r"pytpu\._C\.Tensor\.t_ is inconsistent, stub does not have \*args": "in-place views pass on what they are given",
    r"pytpu\._C\.Tensor\.\w+ is inconsistent, stub (parameter .self. differs|does not have parameter .out.)": (
        "the method is the function of `torch`, whose first parameter is `input`"
    ),
    r"pytpu\.\w*(Tensor|Storage)\.(dtype|device) is inconsistent": "one value for all objects of the class",
}


def parameters(function):
    a = function.args
    return {x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if x is not None}


def overloaded():
    """Return the functions and methods with several signatures, as stubtest names them, with all their parameters."""
    found = {}
    for file in PACKAGE.glob("*.pyi"):
        module = {"__init__": "pytpu", "_op_table": "pytpu._C._ops"}.get(file.stem, f"pytpu.{file.stem}")
        for node in ast.walk(ast.parse(file.read_text())):
            path = f"{module}.{node.name}" if isinstance(node, ast.ClassDef) else module
            for function in node.body if isinstance(node, (ast.Module, ast.ClassDef)) else ():
                marks = getattr(function, "decorator_list", ())
                if any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in marks):
                    found.setdefault(f"{path}.{function.name}", set()).update(parameters(function))
    return found


def test_overloads_have_the_parameters_of_the_signature():
    # Their signature is one for all overloads, and that of stubtest another, so that it cannot compare them.
    # The method `nonzero` is the function, and no signature can show the parameter `from`.
    others = {"pytpu._C.Tensor.nonzero", "pytpu._C.Tensor.random_", "pytpu._C._ops.random_"}
    wrong = {}
    for path, names in overloaded().items():
        value = functools.reduce(getattr, path.split(".")[1:], torch)
        if path in others or path.endswith("__"):
            continue
        if names != (shown := set(inspect.signature(value).parameters)):
            wrong[path] = names ^ shown
    assert not wrong


def test_stubs_agree_with_the_package(tmp_path):
    script = """
import sys
from mypy import options, stubtest

given = options.Options()
given.python_version = sys.version_info[:2]
given.mypy_path = [sys.argv[1]]
given.cache_dir = sys.argv[2]
given.follow_imports = "silent"
given.process_error_codes(error_callback=print)
stubtest.build_stubs(sys.argv[3:], given, find_submodules=False)
for module in sys.argv[3:]:
    for error in stubtest.test_module(module):
        print(error.get_description(concise=True))
"""
    out = subprocess.run(
        [sys.executable, "-c", script, PACKAGE.parent, tmp_path / "cache", *STUBS], capture_output=True, text=True
    )
    assert out.returncode == 0, out.stdout + out.stderr
    several = overloaded()
    # Functions of the op table are functions of `torch` too.
    several = several.keys() | {name.replace("._C._ops.", ".") for name in several}
    used, unexpected = set(), []
    for line in out.stdout.splitlines():
        if " is inconsistent, " in line and line.split(" ")[0] in several:
            continue
        known = [pattern for pattern in DIFFERENCES if re.match(pattern, line)]
        used.update(known)
        if not known:
            unexpected.append(line)
    assert not unexpected, "\n".join(unexpected)
    assert used == DIFFERENCES.keys(), "a known difference is gone"


def program():
    spec = importlib.util.spec_from_file_location("typed_program", HERE / "typed_program.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["typed_program"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def check(tmp_path_factory):
    """Run mypy on a file. What it says about the package itself is not shown."""
    folder = tmp_path_factory.mktemp("mypy")

    def run(file, text=None):
        if text is not None:
            file = folder / file
            file.write_text(text)
        options = ["--strict", "--config-file=", "--follow-imports=silent", "--cache-dir", folder / "cache"]
        env = os.environ | {"MYPYPATH": str(PACKAGE.parent)}
        command = [sys.executable, "-m", "mypy", *options, file]
        return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env)

    return run


def test_a_program_runs_and_has_no_type_errors(check):
    results = program().main()
    assert results["accuracy"] > 0.9
    out = check(HERE / "typed_program.py")
    assert out.returncode == 0, out.stdout + out.stderr


REVEALED = {
    "torch.float32": "pytpu._C.dtype",
    "torch.softmax(x, 0)": "pytpu._C.Tensor",
    "x.sum(dim=0)": "pytpu._C.Tensor",
    "x.shape": "pytpu._size.Size",
    "x.shape[0]": "int",
    "x.item()": "int | float",
    "x.max(0).indices": "pytpu._C.Tensor",
    "x == 1": "pytpu._C.Tensor",
    "torch.zeros(2, 3)": "pytpu._C.Tensor",
    "torch.zeros((2, 3), dtype=torch.int64)": "pytpu._C.Tensor",
    "torch.linalg.svd(x).S": "pytpu._C.Tensor",
    "torch.fft.rfft(x)": "pytpu._C.Tensor",
    "torch.special.entr(x)": "pytpu._C.Tensor",
    "torch.nn.functional.relu(x)": "pytpu._C.Tensor",
    "torch.nn.functional.gelu(x)": "pytpu._C.Tensor",
    "torch.nn.Linear(3, 4)": "pytpu.nn.modules.linear.Linear",
    "torch.nn.Linear(3, 4).weight": "pytpu.nn.parameter.Parameter",
    "torch.optim.AdamW([x])": "pytpu.optim.adam.AdamW",
    "torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x)).batch_size": "int | None",
    "torch.no_grad()": "pytpu.autograd.grad_mode.no_grad",
    "torch.device('cpu').type": "str",
    "torch.Generator().manual_seed(1)": "pytpu._C.Generator",
    "torch.nonzero(x, as_tuple=True)": "tuple[pytpu._C.Tensor, ...]",
}


def test_expressions_have_precise_types(check):
    lines = ["import pytpu as torch", "x = torch.ones(3)", *(f"reveal_type({text})" for text in REVEALED)]
    out = check("expressions.py", "\n".join(lines) + "\n")
    found = [line.split('Revealed type is "')[1].rstrip('"') for line in out.stdout.splitlines() if "Revealed" in line]
    assert dict(zip(REVEALED, found)) == REVEALED, out.stdout


WRONG = (
    "torch.softmax('x', 0)",
    "x.sum(dim='a')",
    "torch.zeros(2, dtype=3)",
    "x.no_such_method()",
    "torch.no_such_function(x)",
    "torch.nn.functional.no_such_function(x)",
    "torch.linalg.no_such_function(x)",
    "torch.nn.Linear('a', 2)",
)


def test_wrong_calls_are_errors(check):
    out = check("wrong.py", "\n".join(["import pytpu as torch", "x = torch.ones(3)", *WRONG]) + "\n")
    lines = {int(line) for line in re.findall(r"^wrong\.py:(\d+): error", out.stdout, re.M)}
    assert lines == {i + 3 for i in range(len(WRONG))}, out.stdout


def public_annotations():
    """Yield `module.name.parameter` and the annotation, for each public parameter and result of the stubs."""

    def functions(body, path):
        for node in body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield from functions(node.body, f"{path}.{node.name}")
            elif isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name.endswith("__")):
                yield f"{path}.{node.name}", node

    for file in sorted(PACKAGE.glob("*.pyi")):
        for path, node in functions(ast.parse(file.read_text()).body, file.stem):
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            for argument in every:
                if argument.annotation is not None:
                    yield f"{path}({argument.arg})", ast.unparse(argument.annotation)
            for star, argument in (("*", arguments.vararg), ("**", arguments.kwarg)):
                if argument is not None:
                    yield f"{path}({star}{argument.arg})", ast.unparse(argument.annotation)
            yield f"{path}()", ast.unparse(node.returns)


# PyTorch's stubs have no narrower types for these, or none at all.
LOOSE = {
    "_C.HookOwner.__exit__(*_error)",
    "_C.Node.__eq__(other)",
    "_C.Node.__getattr__()",
    "_C.Node.__ne__(other)",
    "_C.Store.__new__(**_kwargs)",
    "_C.Store.__new__(*_args)",
    "_C.Tensor.__array__(dtype)",
    "_C.Tensor.__array_wrap__(array)",
    "_C.Tensor.__array_wrap__(context)",
    "_C.Tensor.__contains__(item)",
    "_C.Tensor.__dlpack__()",
    "_C.Tensor.__dlpack__(stream)",
    "_C.Tensor.__eq__(other)",
    "_C.Tensor.__ne__(other)",
    "_C.Tensor.__new__(*args)",
    "_C.Tensor.__reduce_ex__()",
    "_C.Tensor.__reduce_ex__(protocol)",
    "_C.Tensor.__torch_dispatch__()",
    "_C.Tensor.__torch_function__()",
    "_C.Tensor.new(*args)",
    "_C.Tensor.new_tensor(data)",
    "_C.Tensor.unique()",
    "_C.Tensor.unique_consecutive()",
    "_C.Work.__new__(**_kwargs)",
    "_C.Work.__new__(*_args)",
    "_C.as_tensor(data)",
    "_C.device.__deepcopy__(_memo)",
    "_C.device.__eq__(other)",
    "_C.device.__exit__(*_args)",
    "_C.device.__ne__(other)",
    "_C.dtype.__deepcopy__(_memo)",
    "_C.dtype.__eq__(other)",
    "_C.dtype.__ne__(other)",
    "_C.is_tensor(obj)",
    "_C.tensor(data)",
    "__init__.unique()",
    "__init__.unique_consecutive()",
}


def test_public_stubs_are_loose_only_where_those_of_pytorch_are():
    found = {path for path, annotation in public_annotations() if {"Any", "object"} & set(annotation.split(" | "))}
    assert found == LOOSE
