"""Connections that never speak, and ranks that come late: no rank may wait for a stranger, and every wait has an end.

Three ranks start as processes. Strangers connect to the store before the ranks meet, and to each rank before its
links are made. Some say nothing, some half a hello, some something else. Then a group is made while one rank is late,
and an exchange is made whose parts do not fit.

    python tests/attack/silent_connections.py --strangers 100
"""

import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

RANKS = 3
# The timeout of the group. A hello may take five seconds, so the group would fail if 60 strangers were waited for.
TIMEOUT_SECONDS = 300
LATE_SECONDS = 1.5
LIMIT_SECONDS = 900
PROGRAM = f"""
import datetime, json, os, pathlib, sys, time
import pytpu as torch
import pytpu.distributed as dist

folder, rank = pathlib.Path(os.environ["FOLDER"]), int(os.environ["RANK"])
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds={TIMEOUT_SECONDS}))

def listening():
    sockets = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            sockets.add(os.readlink("/proc/self/fd/" + fd))
        except OSError:
            pass
    lines = [line.split() for line in open("/proc/self/net/tcp").read().splitlines()[1:]]
    return [int(f[1].split(":")[1], 16) for f in lines if f[3] == "0A" and f"socket:[{{f[9]}}]" in sockets]

def tell(name, value):
    (folder / f"{{name}}{{rank}}.part").write_text(json.dumps(value))
    (folder / f"{{name}}{{rank}}.part").rename(folder / f"{{name}}{{rank}}")

tell("ports", listening())
while not (folder / "go").exists():
    time.sleep(0.01)
x = torch.ones(1000)
for _ in range(3):
    dist.all_reduce(x)
assert x.tolist() == [27.0] * 1000
if rank == 2:
    time.sleep({LATE_SECONDS})
group = dist.new_group([0, 2])
if rank != 1:
    y = torch.full((4,), rank + 1.0)
    dist.all_reduce(y, group=group)
    assert y.tolist() == [4.0] * 4
if rank == 0:
    time.sleep({LATE_SECONDS})
dist.barrier()
try:
    mine = [[1, 2, 1], [2, 1, 1], [1, 1, 2]][rank]
    dist.all_to_all_single(torch.empty(4), torch.ones(4), [2, 1, 1], mine)
    text = "no error"
except Exception as error:
    text = f"{{type(error).__name__}}: {{error}}"
tell("end", text)
os._exit(0)
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def apart():
    """The command that gives a rank a process namespace of its own, so that it speaks TCP to the others; or nothing."""
    if shutil.which("unshare") is None:
        return []
    command = ["unshare", "-pf", "--kill-child"]
    works = subprocess.run([*command, "true"], capture_output=True, timeout=20).returncode == 0
    return command if works else []


def strangers(port, count, held):
    """Open connections that say nothing, a part of a message, or something else."""
    refused = 0
    for k in range(count):
        # The system holds up to 128 connections until a rank accepts them, which it does during collectives only.
        if refused == 3:
            return
        try:
            s = socket.create_connection(("127.0.0.1", port), 0.5)
            s.setblocking(False)
            s.send([b"", b"\x01", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64][k % 4] or b"")
            held.append(s)
        except OSError:
            refused += 1


def attack(count=80, limit=LIMIT_SECONDS):
    """Run the ranks beside `count` strangers at each port. Return what is wrong."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="strangers-"))
    port, prefix, held, ranks = free_port(), apart(), [], []
    end = time.monotonic() + limit

    def start(rank):
        place = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        log = (folder / f"log{rank}").open("w")
        env = {**os.environ, **place, "FOLDER": str(folder), "LOCAL_RANK": str(rank)}
        command = [*(prefix if rank else []), sys.executable, "-c", PROGRAM]
        ranks.append(subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def wait_for(name):
        while time.monotonic() < end:
            files = [folder / f"{name}{rank}" for rank in range(RANKS)]
            if all(file.exists() for file in files):
                return [json.loads(file.read_text()) for file in files]
            if all(process.poll() is not None for process in ranks):
                break
            time.sleep(0.05)
        logs = [(folder / f"log{rank}").read_text()[-600:] for rank in range(RANKS) if (folder / f"log{rank}").exists()]
        raise TimeoutError(f"no rank may wait for a stranger; {name} is missing: {logs}")

    try:
        start(0)
        while time.monotonic() < end and not held:
            strangers(port, 1, held)
            time.sleep(0.02)
        strangers(port, count, held)
        for rank in range(1, RANKS):
            start(rank)
        for ports in wait_for("ports"):
            for open_port in ports:
                strangers(open_port, count, held)
        (folder / "go").touch()
        wrong = []
        for rank, text in enumerate(wait_for("end")):
            if not text.startswith(("RuntimeError", "Dist", "ValueError")) or "internal error" in text:
                wrong.append(f"rank {rank}: parts that do not fit end in {text}")
        return wrong
    except TimeoutError as error:
        return [str(error)]
    finally:
        for s in held:
            s.close()
        for process in ranks:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strangers", type=int, default=100, help="connections at each port")
    args = parser.parse_args()
    begin = time.monotonic()
    wrong = attack(args.strangers)
    for text in wrong:
        print(text)
    how = "TCP between ranks" if apart() else "shared memory between ranks"
    print(f"{args.strangers} strangers at each port, {how}, {time.monotonic() - begin:.1f} s, {len(wrong)} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
