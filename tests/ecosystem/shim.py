"""Checks the opt-in distribution `torch`, in a fresh environment.

    python tests/ecosystem/shim.py [--wheels dist]

Installs the wheel of pytpu and the wheel that `make torch-shim` builds, then `timm` and `transformers` with all their
dependencies, as a user does. No other torch may come with them. Then one program from the documentation of each runs
with plain `python`, in its own process and in a spawned one.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from libraries import FOLDER, requirements
from run import environment, plugin

PROGRAMS = {
    "timm": [f"torch.Size([2, {n}, {s}, {s}])" for n, s in ((64, 112), (256, 56), (512, 28), (1024, 14), (2048, 7))],
    "transformers": ["768 109482240 Embedding(30522, 768, padding_idx=0)"],
}


def install(python, *packages):
    """Install packages with their dependencies."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run([*pip, "install", "--quiet", *map(str, packages)], check=True)


def only(wheels, name):
    """Return the single wheel of a distribution in a folder."""
    found = list(wheels.glob(f"{name}-*.whl"))
    if len(found) != 1:
        sys.exit(f"{wheels} holds {len(found)} wheels of {name}, not one: run `make wheel torch-shim` first")
    return found[0]


def main():
    """Run both programs in both ways, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheels", type=pathlib.Path, default=FOLDER.parents[1] / "dist")
    wheels = parser.parse_args().wheels
    # Versions that are known to exist together. A user's command names none.
    pinned = [line for line in requirements(None) if line.split("==")[0] in ("timm", "transformers")]
    passed = failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(scratch / "venv")], check=True)
        python = scratch / "venv" / "bin" / "python"
        install(python, only(wheels, "pytpu"), only(wheels, "torch"))
        install(python, *pinned)
        pip = [sys.executable, "-m", "pip", "--python", str(python), "list", "--format", "json"]
        listed = subprocess.run(pip, check=True, stdout=subprocess.PIPE, text=True).stdout
        versions = {package["name"]: package["version"] for package in json.loads(listed)}
        heavy = sorted(name for name in versions if name.startswith(("nvidia", "triton")))
        assert versions["torch"].endswith("+pytpu") and not heavy, (versions["torch"], heavy)
        env = environment(scratch)
        env.setdefault("TORCHTPU_PJRT_PLUGIN", plugin())
        for name, wanted in PROGRAMS.items():
            program = FOLDER / "documentation" / f"use_{name}.py"
            for way, command in {"own": [program], "spawned": [FOLDER / "documentation" / "spawn.py", program]}.items():
                done = subprocess.run(
                    [str(python), *map(str, command)],
                    env=env,
                    cwd=scratch,
                    timeout=600,
                    capture_output=True,
                    text=True,
                )
                right = done.returncode == 0 and done.stdout.splitlines() == wanted
                passed, failed = passed + right, failed + (not right)
                print(f"{name} {versions[name]}, {way} process: {'as torch' if right else 'failed'}", flush=True)
                if not right:
                    print(done.stdout, done.stderr, sep="\n")
    print(f"\n{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
