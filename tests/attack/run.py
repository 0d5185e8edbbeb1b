"""Run every attack for a while and add up the findings: ``python tests/attack/run.py --minutes 20``.

With ``--torch PYTHON``, an interpreter that has PyTorch, random programs are new ones each time (``--seed``). Without,
they are the stored ones. The attacks are programs of their own in this folder. Short forms of them run in ``make test``
(``tests/python/robustness/test_attack.py``).
"""

import argparse
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent


def commands(minutes, torch=None, seed=1):
    """Return each attack's command. Those without a limit take as long as they need, and the others share the time."""
    seconds = minutes * 60
    new = ["--torch", torch, "--seed", str(seed), "--count", "1000000"] if torch else []
    return [
        ["bit_patterns.py"],
        ["edge_gradients.py"],
        ["random_calls.py", "--seconds", str(seconds * 0.35), "--seed", str(seed)],
        ["programs.py", "--device", "cpu", "--seconds", str(seconds * 0.05), *new],
        ["programs.py", "--device", "tpu", "--seconds", str(seconds * 0.05), *new],
        ["programs.py", "--device", "tpu", "--compiled", "--seconds", str(seconds * 0.1), *new],
        ["mistakes.py"],
        ["silent_connections.py"],
        ["training_threads.py", "--seconds", str(seconds * 0.1)],
        ["shared_cache.py", "--seconds", str(seconds * 0.1)],
        ["interrupts.py", "--count", str(max(6, int(minutes * 2)))],
        ["files.py", "zip,legacy,pickle,safetensors", str(int(minutes * 200)), "1"],
        ["kill_save.py", str(max(3, int(minutes))), "0"],
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter with PyTorch")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    failed = []
    attacks = commands(args.minutes, args.torch, args.seed)
    for command in attacks:
        print("$ " + " ".join(command), flush=True)
        if subprocess.run([sys.executable, FOLDER / command[0], *command[1:]]).returncode != 0:
            failed.append(command[0])
    print(f"{len(attacks) - len(failed)} passed, {len(failed)} failed", *failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
