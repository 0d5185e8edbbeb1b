"""Build what a release has, and try it: `python tests/release.py dist`, or `make release-check`.

The source distribution is built from the repository and the wheel from the source distribution, so a missing file stops
the build. Names, licences and sizes of both are checked. Then the wheel is installed with its dependencies into a new
environment, and the first program of README.md runs there on `cpu` and on `tpu`. Nothing is uploaded.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_WHEEL_BYTES = 20 << 20
# Files that the build needs, and files that a program needs at run time.
IN_SOURCES = ("Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "pyproject.toml", "pytpu/Cargo.toml")
IN_WHEEL = ("pytpu/__init__.py", "pytpu/_C.abi3.so", "pytpu/nn/functional.py", "pytpu/_shim/torch/__init__.py")


def run(*command, **options):
    """Run a command that must succeed."""
    print("$ " + " ".join(map(str, command)), flush=True)
    return subprocess.run([str(c) for c in command], check=True, **options)


def environment(folder):
    """Make an empty Python environment and return its interpreter. Debian's python3 may lack `venv`."""
    if subprocess.run([sys.executable, "-m", "venv", folder], capture_output=True).returncode:
        run(sys.executable, "-m", "virtualenv", "--quiet", folder)
    return folder / "bin" / "python"


def build(python, folder):
    """Build both files into a folder; return their paths."""
    for old in [*folder.glob("pytpu-*.whl"), *folder.glob("pytpu-*.tar.gz")]:
        old.unlink()
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "build>=1.2,<2", "twine>=6,<8")
    # Dependencies that `make wheel` has compiled are not compiled again.
    env = os.environ | {"CARGO_TARGET_DIR": str(ROOT / "target")}
    run(python, "-m", "build", "--outdir", folder, ROOT, env=env)
    (sources,), (wheel,) = folder.glob("pytpu-*.tar.gz"), folder.glob("pytpu-*.whl")
    run(python, "-m", "twine", "check", "--strict", sources, wheel)
    return sources, wheel


def expect(condition, text):
    """End with a text where a condition does not hold."""
    if not condition:
        sys.exit(f"release check: {text}")


def inspect(sources, wheel):
    """Check names, licences and sizes of both files; return the version."""
    with tarfile.open(sources) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing = [name for name in IN_SOURCES if name not in names]
    expect(not missing, f"{sources.name} lacks {', '.join(missing)}")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        fields = archive.read(metadata).decode()
    missing = [name for name in IN_WHEEL if name not in names]
    expect(not missing, f"{wheel.name} lacks {', '.join(missing)}")
    stray = sorted(name for name in names if not name.startswith("pytpu") or "__pycache__" in name)
    expect(not stray, f"{wheel.name} has {', '.join(stray)}")
    licences = {pathlib.PurePath(name).name for name in names if ".dist-info/licenses/" in name}
    expect({"LICENSE-MIT", "LICENSE-APACHE"} <= licences, f"{wheel.name} lacks its licences")
    size = wheel.stat().st_size
    expect(size <= MAX_WHEEL_BYTES, f"{wheel.name} has {size / 2**20:.1f} MiB, more than {MAX_WHEEL_BYTES >> 20}")
    version = re.search(r"^Version: (.+)$", fields, re.MULTILINE)[1]
    print(f"{sources.name}: {sources.stat().st_size / 2**20:.1f} MiB; {wheel.name}: {size / 2**20:.1f} MiB")
    return version


def try_out(python, wheel, version, scratch):
    """Install the wheel with its dependencies and run the first program of README.md on both devices."""
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    run(python, "-m", "pip", "check", "--disable-pip-version-check")
    block = re.search(r"^ *```python\n(.*?)^ *```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[1]
    program = textwrap.dedent(block)
    # The plugin must be the one that came with the wheel, not one that the environment names.
    env = {k: v for k, v in os.environ.items() if not k.startswith("TORCHTPU_") and k != "PYTHONPATH"}
    for device in ("cpu", "tpu"):
        check = f"""
import pathlib, sys
assert loss.device.type == "{device}" and model.weight.grad is not None
assert torch.__version__.endswith("+pytpu.{version}"), torch.__version__
assert pathlib.Path(torch.__file__).is_relative_to(sys.prefix), torch.__file__
print("{device}:", torch.tpu.get_device_name() if "{device}" == "tpu" else "cpu", loss.item())
"""
        run(python, "-I", "-c", program.replace('"tpu"', f'"{device}"') + check, cwd=scratch, env=env)


def main():
    """Build, inspect and try out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "folder", type=pathlib.Path, help="where the files are put; older ones of this package are removed"
    )
    args = parser.parse_args()
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="pytpu-release-"))
    try:
        sources, wheel = build(environment(scratch / "builder"), folder)
        version = inspect(sources, wheel)
        try_out(environment(scratch / "user"), wheel, version, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"release check: {sources.name} and {wheel.name} are ready in {folder}")


if __name__ == "__main__":
    main()
