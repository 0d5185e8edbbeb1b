"""``pytpu.install()``, ``python -m pytpu`` and the shim: programs that say ``import torch``, and the processes that
they start.
"""

import email
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import zipfile

import pytest

import pytpu

PACKAGE = pathlib.Path(pytpu.__file__).parent

SHOWN = """
import json, os, sys
spec = __spec__
print(json.dumps({
    "argv": sys.argv, "path0": sys.path[0], "name": __name__, "file": globals().get("__file__"), "package": __package__,
    "spec": spec and spec.name, "doc": __doc__, "main": sys.modules["__main__"].__dict__ is globals(),
    "loader": str(__loader__)[:12],
    "names": sorted(k for k in globals() if k not in ("json", "os", "sys", "spec")), "annotations": __annotations__,
}))
"""


def run(*command, cwd=None, stdin="", path=None, check=True, **env):
    """Run Python with the package on its path."""
    environment = {**os.environ, **env}
    environment.pop("PYTHONPATH", None)
    environment["PYTHONPATH"] = os.pathsep.join(map(str, [*(path or []), PACKAGE.parent]))
    out = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        cwd=cwd,
        input=stdin,
        env=environment,
        timeout=120,
    )
    if check:
        assert out.returncode == 0, out.stderr
    return out


def both(*command, **options):
    """Run a command line with ``python`` and with ``python -m pytpu``."""
    return run(*command, **options), run("-m", "pytpu", *command, **options)


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a script, a package with ``__main__``, a module and an archive."""
    (tmp_path / "script.py").write_text(SHOWN)
    (tmp_path / "fails.py").write_text("def f():\n    raise ValueError('no')\n\nf()\n")
    (tmp_path / "wrong.py").write_text("x = (\n")
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(SHOWN)
    (package / "module.py").write_text(SHOWN)
    (package / "fails.py").write_text("raise KeyError(1)\n")
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", SHOWN)
    os.symlink(tmp_path / "script.py", package / "link.py")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ("script.py", "-x", "--y", "z"),
        ("./script.py",),
        ("package/link.py", "1"),
        ("package",),
        ("archive.zip", "1"),
        ("-m", "package", "1", "-m"),
        ("-m", "package.module"),
        ("-mpackage.module", "1"),
        ("-c", SHOWN, "1", "-c"),
        ("-", "1"),
        (),
    ],
    ids=lambda command: " ".join(command)[:20] or "nothing",
)
def test_a_program_sees_the_same_state_as_under_python(folder, command):
    plain, ours = both(*command, cwd=folder, stdin=SHOWN)
    assert json.loads(ours.stdout) == json.loads(plain.stdout)


@pytest.mark.parametrize(
    "command",
    [
        ("fails.py",),
        ("wrong.py",),
        ("missing.py",),
        ("-m", "missing"),
        ("-m", "package.fails"),
        ("-c", "import sys; sys.exit(3)"),
        ("-c", "import sys; sys.exit('words')"),
        ("-c", "raise SystemExit"),
        ("-c", "def f():\n 1 / 0\nf()"),
        ("-c", "x = ("),
        ("-c",),
        ("-c", "import sys; sys.excepthook = lambda *e: print('hook', e[0].__name__, e[2].tb_lineno); 1 / 0"),
        ("-c", "import atexit; atexit.register(print, 'bye'); 1 / 0"),
    ],
    ids=str,
)
def test_failures_end_as_under_python(folder, command):
    plain, ours = both(*command, cwd=folder, check=False)
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)
    # Python appends its usage text if the argument is missing.
    assert plain.stderr.startswith(ours.stderr) if command == ("-c",) else ours.stderr == plain.stderr


def test_an_interrupt_ends_the_process_by_its_signal(folder):
    plain, ours = both("-c", "raise KeyboardInterrupt", check=False)
    assert ours.returncode == plain.returncode == -signal.SIGINT and ours.stderr == plain.stderr


def test_options_of_python_may_stand_before_the_program(folder):
    code = "import sys, warnings; print(sys.flags.optimize, sys.flags.dev_mode, sys.warnoptions, sys.argv)"
    plain, ours = both("-O", "-W", "error", "-X", "dev", "-c", code, "1", cwd=folder)
    assert ours.stdout == plain.stdout
    assert run("-O", "-m", "pytpu", "-c", "import sys; print(sys.flags.optimize)").stdout == "1\n"


def test_modules_of_torch_can_be_run_by_name():
    out = run("-m", "pytpu", "-m", "torch.utils.collect_env")
    assert "PyTorch version: 2.15.0" in out.stdout


def test_children_of_all_kinds_have_torch(tmp_path):
    (tmp_path / "work.py").write_text(
        "def work(x):\n    import torch, sys\n    assert torch.__file__.endswith('pytpu/__init__.py')\n    return (x "
        "+ 1).tolist()\n"
    )
    (tmp_path / "main.py").write_text(
        "import multiprocessing, subprocess, sys, torch, work\n"
        "if __name__ == '__main__':\n"
        "    for how in ('spawn', 'forkserver', 'fork'):\n"
        "        with multiprocessing.get_context(how).Pool(1) as pool:\n"
        "            print(how, pool.map(work.work, [torch.ones(2)]))\n"
        "    code = 'import torch, importlib.metadata as m; print(torch.__name__, m.version(\"torch\"))'\n"
        "    print(subprocess.check_output([sys.executable, '-c', code], text=True), end='')\n"
        "    loader = torch.utils.data.DataLoader(torch.arange(4.), 2, num_workers=1, "
        "multiprocessing_context='spawn')\n"
        "    print([x.tolist() for x in loader])\n"
    )
    out = run("-m", "pytpu", "main.py", cwd=tmp_path)
    assert out.stdout.splitlines() == [
        "spawn [[2.0, 2.0]]", "forkserver [[2.0, 2.0]]", "fork [[2.0, 2.0]]", "torch 2.15.0+pytpu",
        "[[0.0, 1.0], [2.0, 3.0]]",
    ]  # fmt: skip


def test_install_in_a_script(tmp_path):
    code = (
        "import pytpu; pytpu.install(); pytpu.install()\n"
        "import torch, subprocess, sys, os\n"
        "from torch.nn.modules.linear import Linear\n"
        "assert torch is pytpu and Linear is pytpu.nn.Linear\n"
        "assert os.environ['PYTHONPATH'].count('_shim') == 1 == sum('_shim' in p for p in sys.path)\n"
        "print(subprocess.check_output([sys.executable, '-c', 'import torch.nn; print(torch.nn.__name__)'], "
        "text=True))\n"
    )
    assert run("-c", code).stdout.strip() == "torch.nn"


@pytest.fixture
def other_torch(tmp_path):
    """Return a folder with another package named torch."""
    package = tmp_path / "other" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("__version__ = 'other'\n")
    (package / "nn.py").write_text("other = True\n")
    return package.parent


def test_install_refuses_when_another_torch_was_imported(other_torch):
    code = (
        "import torch, pytpu\n"
        "try:\n    pytpu.install()\nexcept RuntimeError as error:\n    print(error)\n"
        "print(torch.__version__, pytpu.ones(2).sum().item())"
    )
    out = run("-c", code, path=[other_torch]).stdout
    assert out.startswith("pytpu.install(): another torch has been imported already, from ") and out.endswith(
        "other 2.0\n"
    )


def test_another_torch_keeps_its_name(other_torch):
    code = (
        "import pytpu, pickle, inspect, sys\n"
        "assert pytpu.__name__ == 'pytpu' and pytpu.nn.Linear.__module__ == 'pytpu.nn.modules.linear'\n"
        "assert 'torch' not in sys.modules\n"
        "import torch, torch.nn\n"
        "assert torch.__version__ == 'other' and torch.nn.other\n"
        "from pytpu.nn import modules, utils\n"
        "model = pickle.loads(pickle.dumps(pytpu.nn.Sequential(pytpu.nn.Linear(2, 3), pytpu.nn.Flatten())))\n"
        "assert type(model[0]) is pytpu.nn.Linear and 'class Linear' in inspect.getsource(type(model[0]))\n"
        "for x in (pytpu.float32, pytpu.relu, pytpu.strided, pytpu.Size([2]), pytpu.device('cpu'), "
        "pytpu.nn.functional.gelu):\n"
        "    assert pickle.loads(pickle.dumps(x)) == x\n"
        "try:\n    from pytpu.nn import missing\nexcept ImportError as error:\n    print(error.name)\n"
    )
    assert run("-c", code, path=[other_torch]).stdout == "pytpu.nn\n"


def test_install_goes_before_another_torch_that_could_be_imported(other_torch):
    code = (
        "import pytpu; pytpu.install()\n"
        "import torch, pickle, torch.nn\n"
        "assert torch is pytpu and torch.__name__ == 'torch' and torch.nn.__name__ == 'torch.nn'\n"
        "assert torch.nn.Linear.__module__ == 'torch.nn.modules.linear', torch.nn.Linear.__module__\n"
        "assert torch.no_grad.__module__ == torch.no_grad.__enter__.__module__ == 'torch.autograd.grad_mode'\n"
        "assert b'pytpu' not in pickle.dumps([torch.nn.Linear(2, 2), torch.float32, torch.optim.SGD])\n"
        "import subprocess, sys\n"
        "print(subprocess.check_output([sys.executable, '-c', 'import torch; print(torch.__version__)'], text=True), "
        "end='')\n"
    )
    assert run("-c", code, path=[other_torch]).stdout.startswith("2.15.0+pytpu")


def test_a_python_of_another_environment_keeps_its_torch(other_torch):
    shim = PACKAGE / "_shim"
    out = run("-c", "import torch; print(torch.__version__)", path=[shim, other_torch], PYTPU_IS_TORCH_IN="/elsewhere")
    assert out.stdout == "other\n"
    out = run("-c", "import torch; print(torch.__version__)", path=[shim], PYTPU_IS_TORCH_IN="/elsewhere")
    assert out.stdout.startswith("2.15.0+pytpu")


def test_the_shim_wheel_makes_torch(tmp_path):
    assert run("-m", "pytpu.shim", tmp_path).stdout.strip() == str(next(tmp_path.glob("*.whl")))
    (wheel,) = tmp_path.glob("*.whl")
    # `make torch-shim` runs the file from a clone, without the package.
    alone = subprocess.run([sys.executable, "-I", PACKAGE / "shim.py", tmp_path / "alone"], capture_output=True)
    assert alone.returncode == 0 and (tmp_path / "alone" / wheel.name).read_bytes() == wheel.read_bytes()
    assert wheel.name == "torch-2.15.0+pytpu-py3-none-any.whl"
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        record = archive.read("torch-2.15.0+pytpu.dist-info/RECORD").decode()
        assert all(name in record for name in names)
        metadata = email.message_from_bytes(archive.read("torch-2.15.0+pytpu.dist-info/METADATA"))
        assert (metadata["Name"], metadata["Version"]) == ("torch", "2.15.0+pytpu")
        # What PyTorch declares, without CUDA and triton. Libraries use these packages and do not declare them.
        assert metadata.get_all("Requires-Dist") == [
            "filelock", "typing-extensions>=4.13.0", "setuptools>=77.0.3", "sympy>=1.13.3", "networkx>=2.5.1",
            "jinja2", "fsspec>=0.8.5",
        ]  # fmt: skip
        archive.extractall(site)
    code = (
        "import torch.nn.functional as F, torch, sys, importlib.metadata as m, multiprocessing\n"
        "assert torch.__file__.endswith('pytpu/__init__.py') and torch is sys.modules['pytpu'] and torch.__name__ == "
        "'torch'\n"
        "assert F is torch.nn.functional and F.relu.__module__ == 'torch.nn.functional'\n"
        "print(m.version('torch'), m.packages_distributions()['torch'])"
    )
    assert run("-c", code, path=[site]).stdout == "2.15.0+pytpu ['torch']\n"
    # The names are the same if `pytpu` is imported first, or alone.
    assert run("-c", "import pytpu, torch; print(torch is pytpu, pytpu.__name__)", path=[site]).stdout == "True torch\n"


def test_help_of_the_shim_writes_nothing(tmp_path):
    out = run("-m", "pytpu.shim", "--help", cwd=tmp_path)
    assert out.stdout.startswith("usage: python -m pytpu.shim [-h] [folder]") and list(tmp_path.iterdir()) == []


def test_the_shim_says_when_pytpu_is_missing(tmp_path):
    run("-m", "pytpu.shim", tmp_path)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        archive.extractall(tmp_path)
    # With -S, Python finds no installed package.
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    out = subprocess.run([sys.executable, "-S", "-c", "import torch"], capture_output=True, text=True, env=environment)
    assert "only hands over to pytpu, which is not installed here" in out.stderr


def test_a_forked_process_leaves_the_workers_of_its_parent_alone():
    code = (
        "import gc, os, pytpu as torch\n"
        "loader = iter(torch.utils.data.DataLoader(torch.arange(8.), 2, num_workers=1))\n"
        "first = next(loader).tolist()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    del loader\n    gc.collect()\n    os._exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n"
        "print(first, [x.tolist() for x in loader])\n"
    )
    out = run("-c", code)
    assert (out.stdout, out.stderr) == ("[0.0, 1.0] [[2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]\n", "")


def test_workers_of_joblib_unpickle_by_torchs_names():
    # loky starts new processes, and sends functions and modules to them by cloudpickle.
    code = (
        "import pytpu as torch\n"
        "from joblib import Parallel, delayed\n"
        "class Doubled(torch.nn.Module):\n    def forward(self, x):\n        return torch.relu(x) * 2\n"
        "def work(model, x):\n    return model(x).tolist(), torch.nn.functional.gelu(x).shape, torch.__name__\n"
        "if __name__ == '__main__':\n    print(Parallel(2)(delayed(work)(torch.nn.Sequential(Doubled()), "
        "torch.ones(1)) for _ in range(2)))\n"
    )
    assert run("-c", code).stdout == "[([2.0], torch.Size([1]), 'torch'), ([2.0], torch.Size([1]), 'torch')]\n"


def test_help_and_version_are_of_this_package():
    def said(option):
        out = subprocess.run([sys.executable, "-m", "pytpu", option], capture_output=True, text=True, check=True)
        return out.stdout

    for option in ("-h", "--help"):
        text = said(option)
        assert text.startswith("usage: python -m pytpu") and "pytpu.distributed.run" in text
        for module in ("aot", "advise", "distributed.run"):
            assert f"python -m pytpu.{module} " in text and importlib.util.find_spec(f"pytpu.{module}") is not None
    for option in ("-V", "--version"):
        assert said(option).startswith(f"pytpu {pytpu.__version__} on Python 3.")
