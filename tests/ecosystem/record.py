"""Records what real PyTorch computes: runs each program on cpu and writes `expected/<library>.json`.

Run it with a Python that has PyTorch and everything in `requirements.txt`:

    python tests/ecosystem/record.py [library ...]

Each program runs twice, on one thread and on two. A number that then differs in its fifth digit is chaotic, and is
refused: the program has to be made gentler (a smaller rate, fewer steps) or to say why it is less exact.
"""

import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import libraries
import torch
from run import differs, environment


def numbers(name, threads):
    """Run a program on `threads` threads. Return its last line as an object."""
    with tempfile.TemporaryDirectory() as home:
        env = environment(pathlib.Path(home)) | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        run = subprocess.run(
            [sys.executable, *libraries.command(name), "--device", "cpu"],
            env=env,
            cwd=home,
            capture_output=True,
            text=True,
        )
    if run.returncode:
        sys.exit(f"{name} fails on real torch:\n{run.stderr}")
    return libraries.last_line(run.stdout)


def main():
    """Record the libraries that are named, or all."""
    assert "pytpu" not in torch.__version__ and pathlib.Path(torch.__file__).parent.name == "torch", "needs real torch"
    for name in sys.argv[1:] or libraries.LIBRARIES:
        first, second = numbers(name, 1), numbers(name, 2)
        chaotic = [
            key
            for key, number in first["numbers"].items()
            if key not in first["less_exact"] and differs(second["numbers"][key], number, 5e-6)
        ]
        if chaotic:
            sys.exit(f"{name}: {', '.join(chaotic)} depend on the number of threads: {first} {second}")
        record = {
            "library": libraries.LIBRARIES[name],
            "version": libraries.version(name),
            "torch": torch.__version__,
            "python": platform.python_version(),
            "less_exact": first["less_exact"],
            "numbers": first["numbers"],
        }
        libraries.expected(name).write_text(json.dumps(record, indent=1) + "\n")
        print(f"{name} {record['version']}: {len(record['numbers'])} numbers", flush=True)


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    main()
