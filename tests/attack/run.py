"""Run every attack for a while and add up the findings: ``python tests/attack/run.py --minutes 20``.

The attacks are programs of their own in this folder. Short forms of them run in ``make test``
(``tests/python/robustness/test_attack.py``).
"""

import argparse
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent


def commands(minutes):
    """Each attack's command, which share the time."""
    seconds = minutes * 60
    return [
        ["random_calls.py", "--seconds", str(seconds * 0.5)],
        ["training_threads.py", "--seconds", str(seconds * 0.1)],
        ["shared_cache.py", "--seconds", str(seconds * 0.1)],
        ["interrupts.py", "--count", str(max(6, int(minutes * 2)))],
        ["files.py", "zip,legacy,pickle,safetensors", str(int(minutes * 200)), "1"],
        ["kill_save.py", str(max(3, int(minutes))), "0"],
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    args = parser.parse_args()
    failed = []
    for command in commands(args.minutes):
        print("$ " + " ".join(command), flush=True)
        if subprocess.run([sys.executable, FOLDER / command[0], *command[1:]]).returncode != 0:
            failed.append(command[0])
    print(f"{len(commands(args.minutes)) - len(failed)} passed, {len(failed)} failed", *failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
