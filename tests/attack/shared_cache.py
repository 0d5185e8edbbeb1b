"""8 processes share one disk cache and are killed at random. No number may be wrong, and every entry must be whole.

The cache is small, so that processes also evict each other's entries. Then entries are damaged: the same program must
give the same numbers, without a crash or a hang.

    python tests/attack/shared_cache.py --seconds 60
"""

import argparse
import hashlib
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

PROGRAM = """
import random, sys
import pytpu as torch

rng = random.Random(int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    n = rng.randrange(1, 9)
    f = rng.choice([lambda x: (x * 2 + n).sum() * x, lambda x: (x - n).abs().cumsum(0), lambda x: x.flip(0) * n + x])
    got, want = f(torch.arange(float(n), device="tpu")).cpu(), f(torch.arange(float(n)))
    if not torch.allclose(got, want):
        sys.exit(f"{n}: {got} instead of {want}")
print("right")
"""
TIMEOUT_SECONDS = 120


def environment(folder, limit_bytes):
    env = {**os.environ, "TORCHTPU_CACHE_DIR": str(folder), "TORCHTPU_CACHE_BYTES": str(limit_bytes)}
    env.pop("TORCHTPU_CACHE", None)
    # Small programs are not compiled at first, so they would leave no entries.
    env["TORCHTPU_INTERPRET"] = "0"
    return env


def start(folder, seed, count=8, limit_bytes=2 << 30):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(seed), str(count)],
        env=environment(folder, limit_bytes),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process):
    """Wait for a process. Return what is wrong with how it ended, or None."""
    try:
        output, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return "hangs"
    return None if process.returncode == 0 and output == "right\n" else f"{process.returncode}: {output}{errors[-300:]}"


def is_whole(path):
    data = path.read_bytes()
    return hashlib.sha256(data[:-32]).digest() == data[-32:]


def kill_at_random(folder, seconds, rng):
    """Run 8 processes at a time and kill half of them. Return the number of processes and what went wrong."""
    end, started, running, wrong = time.time() + seconds, 0, [], []
    while running or time.time() < end:
        while len(running) < 8 and time.time() < end:
            kill_after = rng.choice([None, rng.uniform(0.05, 3.0)])
            # Programs for some twenty entries do not fit, so the oldest are evicted.
            process = start(folder, rng.randrange(40), limit_bytes=200_000)
            running.append((process, kill_after and time.time() + kill_after))
            started += 1
        for item in list(running):
            process, kill_at = item
            if kill_at and time.time() > kill_at:
                process.kill()
                process.communicate()
                running.remove(item)
            elif process.poll() is not None:
                problem = finish(process)
                wrong += [problem] if problem else []
                running.remove(item)
        time.sleep(0.05)
    damaged = [path.name for path in folder.glob("*.executable") if not is_whole(path)]
    return started, wrong + [f"{name} is damaged" for name in damaged]


def damage(path, kind, rng):
    """Spoil an entry of the cache."""
    data = bytearray(path.read_bytes())
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path, 0o600)
    elif kind == "endless file":
        path.symlink_to("/dev/zero")
    elif kind == "link to itself":
        path.symlink_to(path)
    else:
        if kind == "flipped bit":
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif kind == "cut":
            del data[rng.randrange(len(data)) :]
        elif kind == "zeros":
            data[8:4096] = bytes(len(data[8:4096]))
        elif kind == "empty":
            data.clear()
        path.write_bytes(data)
        path.chmod(0o666 if kind == "writable by others" else 0o600)


DAMAGES = [
    "flipped bit",
    "cut",
    "zeros",
    "empty",
    "folder",
    "pipe",
    "endless file",
    "link to itself",
    "writable by others",
]


def run_with_damage(folder, rng):
    """Damage the entries of a cache in every way and run its program again. Return what went wrong."""
    wrong = []
    for kind in DAMAGES:
        problem = finish(start(folder, 1, count=3))
        for path in list(folder.glob("*.executable")):
            if path.is_file() and not path.is_symlink():
                damage(path, kind, rng)
        problem = problem or finish(start(folder, 1, count=3))
        if problem:
            wrong.append(f"{kind}: {problem}")
        for path in folder.iterdir():
            path.rmdir() if path.is_dir() else path.unlink()
    return wrong


def attack(seconds, seed=0):
    """Attack a cache. Return the number of processes and what went wrong."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as base:
        shared, damaged = pathlib.Path(base, "shared"), pathlib.Path(base, "damaged")
        started, wrong = kill_at_random(shared, seconds, rng)
        return started + 2 * len(DAMAGES), wrong + run_with_damage(damaged, rng)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    started, wrong = attack(args.seconds, args.seed)
    print("\n".join(wrong))
    print(f"{started} processes, {len(wrong)} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
