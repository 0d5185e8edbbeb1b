"""Kills processes while they save, and lets the disk be full; the file that was there before must stay whole.

`python kill_save.py [TRIES] [SEED]` does that with every format. With `--mount`, as root, it also fills a file system
of 2 MB and one that is read-only. Ends in "N saves, N files lost", and with status 1 if there are any.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time

FORMATS = ("zip", "legacy", "safetensors")
ELEMENTS = 1_000_000

SAVE = """
import resource, signal, sys
import pytpu as torch
from pytpu import safetensors

how, path, value, elements, limit = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
state = {f"w{i}": torch.full((elements,), value) for i in range(8)}
torch.save(torch.ones(1), path + ".first")
if limit:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
print("go", flush=True)
try:
    if how == "safetensors":
        safetensors.save_file(state, path)
    else:
        torch.save(state, path, _use_new_zipfile_serialization=how == "zip")
    print("saved", flush=True)
except Exception as error:
    print("refused", type(error).__name__, error)
"""


def save(how, path, value, elements=ELEMENTS, limit=0, kill_after=None):
    """Saves in a process of its own; returns what it printed after it began, or "killed"."""
    command = [sys.executable, "-c", SAVE, how, path, str(value), str(elements), str(limit)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "go\n"
    if kill_after is not None:
        time.sleep(kill_after)
        child.send_signal(signal.SIGKILL)
    output = child.communicate()[0].strip()
    return output or "killed"


def values(how, path):
    """The numbers in a file, which are equal in one that is whole."""
    import pytpu as torch
    from pytpu import safetensors

    state = safetensors.load_file(path) if how == "safetensors" else torch.load(path)
    assert len(state) == 8
    return {x for t in state.values() for x in (t.min().item(), t.max().item())}


def _is_whole(how, path, allowed):
    try:
        found = values(how, path)
    except Exception as error:
        print(f"{how}: {type(error).__name__}: {error}")
        return False
    return len(found) == 1 and found <= allowed


def kills(how, folder, tries, r):
    """Number of files lost, and of kills that came in time."""
    path, lost, killed, slowest = os.path.join(folder, how), 0, 0, 0.05
    start = time.monotonic()
    save(how, path, 1)
    slowest = max(slowest, (time.monotonic() - start) / 4)
    for _ in range(tries):
        output = save(how, path, 2, kill_after=r.uniform(0, slowest))
        killed += output == "killed"
        lost += not _is_whole(how, path, {1.0} if output != "saved" and output != "killed" else {1.0, 2.0})
        if output != "killed":
            save(how, path, 1)
    return lost, killed


def full_disk(how, folder):
    """1 if a file is lost when the disk, or the limit of a file's size, is reached in the middle."""
    path = os.path.join(folder, how + ".full")
    save(how, path, 1, 1000)
    lost = 0
    for limit in (1000, 8 * 4 * 100_000 - 10):
        output = save(how, path, 2, 100_000, limit)
        assert output.startswith("refused"), output
        lost += not _is_whole(how, path, {1.0})
    assert not [name for name in os.listdir(folder) if name.startswith(f".{how}.full.")], (
        "a save that failed leaves nothing behind"
    )
    return int(lost > 0)


def small_file_systems(folder):
    """Number of files lost on a file system that is full, and on one that is read-only; needs root."""
    lost = 0
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=True)
    try:
        for how in FORMATS:
            path = os.path.join(folder, how)
            assert save(how, path, 1, 10_000) == "saved"
            assert save(how, path, 2, 200_000).startswith("refused")
            lost += not _is_whole(how, path, {1.0})
            subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
            output = subprocess.run(
                [sys.executable, "-c", f"import pytpu as t; t.save({{}}, {path!r})"], capture_output=True, text=True
            ).stderr
            assert "Read-only file system" in output, output
            lost += not _is_whole(how, path, {1.0})
            subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
            os.unlink(path)
    finally:
        subprocess.run(["umount", folder], check=True)
    return lost


def main(arguments):
    has_mount = "--mount" in arguments
    rest = [int(a) for a in arguments if a != "--mount"]
    tries, seed = rest[0] if rest else 5, rest[1] if rest[1:] else 0
    r, lost, saves = random.Random(seed), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for how in FORMATS:
            of_kills, killed = kills(how, folder, tries, r)
            lost += of_kills + full_disk(how, folder)
            saves += tries + 2
            print(f"{how}: {killed} of {tries} saves were killed before the end")
        if has_mount:
            os.mkdir(os.path.join(folder, "small"))
            lost += small_file_systems(os.path.join(folder, "small"))
            saves += 6
    print(f"{saves} saves, {lost} files lost")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
