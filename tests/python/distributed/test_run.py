"""``python -m pytpu.distributed.run``: workers, restarts, signals, logs, and several agents."""

import json
import os
import re
import signal
import socket
import subprocess
import sys

import pytest
from launching import LIMIT, until

import pytpu as torch

# A worker that keeps its environment in a file.
ENVIRONMENT = """
import json, os, sys
folder = os.environ["FOLDER"]
name = f"env_{os.environ['RANK']}"
open(f"{folder}/{name}.new", "w").write(json.dumps({"env": dict(os.environ), "argv": sys.argv}))
os.rename(f"{folder}/{name}.new", f"{folder}/{name}")
"""

# Workers that share a console write each line at once: `python -u` writes the arguments of `print` one by one.

# A worker that puts its rank into the store of the job, and waits for all others.
MEET = """
import os
import pytpu as torch
store, rank, size = next(torch.distributed.rendezvous("env://"))
store.set(f"rank{rank}", str(rank))
met = sorted(int(x) for x in store.multi_get([f"rank{i}" for i in range(size)]))
os.write(1, f"met {met}\\n".encode())
"""


def environments(launcher, n):
    return [json.loads(launcher.file(f"env_{i}")) for i in range(n)]


def free_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def test_workers_get_the_variables_of_torchrun(launcher):
    code, out, err = launcher.run(
        "--nproc-per-node=3", "--max-restarts=2", "--role=trainer", launcher.script(ENVIRONMENT), "--lr", "1"
    )
    assert code == 0, err
    found = environments(launcher, 3)
    for rank, worker in enumerate(found):
        env = worker["env"]
        assert worker["argv"][1:] == ["--lr", "1"]
        want = {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "ROLE_RANK": str(rank), "GROUP_RANK": "0",
            "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3", "ROLE_WORLD_SIZE": "3", "GROUP_WORLD_SIZE": "1",
            "ROLE_NAME": "trainer", "MASTER_ADDR": "localhost", "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "2", "TORCHELASTIC_USE_AGENT_STORE": "True", "OMP_NUM_THREADS": "1",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
            "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        }  # fmt: skip
        assert {name: env.get(name) for name in want} == want
        assert env["TORCHELASTIC_ERROR_FILE"].endswith(f"/attempt_0/{rank}/error.json")
    assert len({worker["env"]["MASTER_PORT"] for worker in found}) == 1
    assert len({worker["env"]["TORCHELASTIC_RUN_ID"] for worker in found}) == 1
    assert "OMP_NUM_THREADS" in err


def test_thread_numbers_of_the_user_and_of_single_workers_stay(launcher):
    script = launcher.script(ENVIRONMENT)
    code, _, err = launcher.run("--nproc-per-node=2", script, OMP_NUM_THREADS="3")
    assert code == 0 and "OMP_NUM_THREADS" not in err
    assert environments(launcher, 2)[1]["env"]["OMP_NUM_THREADS"] == "3"
    code, _, err = launcher.run(script)
    assert code == 0 and "OMP_NUM_THREADS" not in environments(launcher, 1)[0]["env"]


@pytest.mark.parametrize("place", [["--standalone"], [], ["--master-port"]], ids=["standalone", "alone", "static"])
def test_workers_meet_in_the_store_of_the_agent(launcher, place):
    place = ["--master-port", free_port()] if place == ["--master-port"] else place
    code, out, err = launcher.run(*place, "--nproc-per-node=2", launcher.script(MEET))
    assert code == 0, err
    assert out.splitlines() == ["met [0, 1]"] * 2


@pytest.mark.parametrize("program", [["-m", "said"], ["said.py"], ["--no-python", sys.executable, "said.py"]])
def test_workers_may_say_import_torch(launcher, program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "said.py").write_text(
        "import torch, torch.nn as nn, pytpu\n"
        "torch.distributed.init_process_group('gloo')\n"
        "x = torch.ones(2)\n"
        "torch.distributed.all_reduce(x)\n"
        "import os; os.write(1, f'{torch is pytpu} {nn.Linear.__module__} {x.tolist()}\\n'.encode())\n"
        "torch.distributed.destroy_process_group()\n"
    )
    code, out, err = launcher.run("--standalone", "--nproc-per-node=2", *program)
    assert code == 0, err
    assert out.splitlines() == ["True torch.nn.modules.linear [2.0, 2.0]"] * 2


def test_two_static_nodes_form_one_job(launcher):
    script, port = launcher.script(MEET), free_port()
    agents = [
        launcher.start("--nnodes=2", f"--node-rank={i}", f"--master-port={port}", "--nproc-per-node=2", script)
        for i in (1, 0)
    ]
    for agent in agents:
        code, out, err = launcher.end(agent)
        assert code == 0 and out.splitlines() == ["met [0, 1, 2, 3]"] * 2, err


def test_two_c10d_nodes_form_one_job(launcher):
    script = launcher.script(MEET + ENVIRONMENT)
    common = ("--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}", "--rdzv-id=job", script)
    agents = [launcher.start("--nnodes=2", f"--nproc-per-node={n}", *common) for n in (1, 2)]
    for n, agent in zip((1, 2), agents):
        code, out, err = launcher.end(agent)
        assert code == 0 and out.splitlines() == ["met [0, 1, 2]"] * n, err
    envs = [worker["env"] for worker in environments(launcher, 3)]
    assert sorted((env["GROUP_RANK"], env["LOCAL_RANK"]) for env in envs) in (
        [("0", "0"), ("0", "1"), ("1", "0")],
        [("0", "0"), ("1", "0"), ("1", "1")],
    )
    assert {env["GROUP_WORLD_SIZE"] for env in envs} == {"2"} and {env["WORLD_SIZE"] for env in envs} == {"3"}


FAILING = """
import os, time
from pytpu.distributed.elastic.multiprocessing.errors import record

@record
def main():
    if os.environ["RANK"] == "1":
        raise KeyError("broken")
    time.sleep(600)

main()
"""


def test_the_summary_of_a_failure_has_the_traceback_of_the_first_worker(launcher):
    code, out, err = launcher.run("--nproc-per-node=2", launcher.script(FAILING))
    assert code == 1
    summary = err[err.index("ChildFailedError") :]
    assert "script.py FAILED" in summary
    others, root = summary.split("Root Cause (first observed failure):")
    assert re.search(r"rank      : 0 \(local_rank: 0\)\n  exitcode  : -15 \(pid: \d+\) \(SIGTERM\)", others)
    assert re.search(
        r"rank      : 1 \(local_rank: 1\)\n  exitcode  : 1 \(pid: \d+\)\n  error_file: /\S+error.json", root
    )
    assert 'raise KeyError("broken")' in root and "KeyError: 'broken'" in root
    assert re.search(r"time      : \d{4}-\d\d-\d\d_\d\d:\d\d:\d\d\n  host      : \S+", root)


def test_a_worker_without_record_and_one_that_a_signal_ends_are_in_the_summary(launcher):
    code, _, err = launcher.run(launcher.script("raise SystemExit(7)"))
    assert code == 1 and "exitcode  : 7 (pid:" in err and "To enable traceback see" in err
    assert "<NO_OTHER_FAILURES>" in err
    code, _, err = launcher.run(launcher.script("import os; os.kill(os.getpid(), 9)"))
    assert code == 1 and re.search(r"traceback : Signal 9 \(SIGKILL\) received by PID \d+", err)


def test_the_error_of_the_first_worker_is_copied_to_the_error_file_of_the_agent(launcher):
    path = launcher.folder / "agent.json"
    code, _, _ = launcher.run("--nproc-per-node=2", launcher.script(FAILING), TORCHELASTIC_ERROR_FILE=str(path))
    assert code == 1
    message = json.loads(path.read_text())["message"]
    assert message["message"] == "KeyError: 'broken'" and message["errorCode"] == 1
    assert "py_callstack" in message["extraInfo"] and int(message["extraInfo"]["timestamp"]) > 0


RESTARTED = """
import os, sys
import pytpu as torch
store, rank, size = next(torch.distributed.rendezvous("env://"))
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
# The store of an attempt is empty.
assert store.add(f"seen{rank}", 1) == 1
store.wait([f"seen{i}" for i in range(size)])
os.write(1, f"attempt {attempt}\\n".encode())
if rank == 0 and attempt < 2:
    sys.exit(3)
if attempt < 2:
    import time
    time.sleep(600)
"""


@pytest.mark.parametrize("is_static", [False, True], ids=["c10d", "static"])
def test_all_workers_are_restarted_after_a_failure(launcher, is_static):
    place = ["--master-port", free_port()] if is_static else []
    code, out, err = launcher.run(*place, "--nproc-per-node=2", "--max-restarts=2", launcher.script(RESTARTED))
    assert code == 0, err
    assert sorted(out.splitlines()) == [f"attempt {i}" for i in (0, 0, 1, 1, 2, 2)]


def test_the_job_fails_when_no_restart_is_left(launcher):
    logs = launcher.folder / "logs"
    code, _, err = launcher.run(
        "--nproc-per-node=2", "--max-restarts=1", "-r3", f"--log-dir={logs}", launcher.script(RESTARTED)
    )
    assert code == 1 and "exitcode  : 3" in err
    (job,) = logs.iterdir()
    assert sorted(path.name for path in job.iterdir()) == ["attempt_0", "attempt_1"]
    assert (job / "attempt_1" / "1" / "stdout.log").read_text() == "attempt 1\n"


# A worker that adds its rank to those of all others. At first the last rank fails instead.
SUM = """
import os
import pytpu as torch
torch.distributed.init_process_group("gloo")
rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
marker = os.environ["FOLDER"] + "/has_failed"
if rank == size - 1 and not os.path.exists(marker):
    open(marker, "w").close()
    raise KeyError("broken")
x = torch.tensor([float(rank)])
torch.distributed.all_reduce(x)
os.write(1, f"sum {int(x.item())} of {size}\\n".encode())
torch.distributed.destroy_process_group()
"""


@pytest.mark.parametrize("place", [[], ["--master-port"], ["--run-path"]], ids=["alone", "static", "functions"])
def test_process_groups_are_made_again_after_a_restart(launcher, place):
    place = ["--master-port", free_port()] if place == ["--master-port"] else place
    code, out, err = launcher.run(*place, "--nproc-per-node=3", "--max-restarts=1", launcher.script(SUM))
    assert code == 0, err
    assert out.splitlines() == ["sum 3 of 3"] * 3 and "KeyError: 'broken'" in err


def test_a_process_group_spans_two_nodes(launcher):
    common = ("--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}", "--rdzv-id=job", "--max-restarts=5")
    script = launcher.script(SUM)
    # The failure of one worker can end workers of the other node too, and each agent counts what it sees.
    agents = [launcher.start("--nnodes=2", "--nproc-per-node=2", *common, script) for _ in range(2)]
    for agent in agents:
        code, out, err = launcher.end(agent)
        assert code == 0 and out.splitlines() == ["sum 6 of 4"] * 2, err


PRINTS = """
import os, sys
print("out of", os.environ["RANK"])
print("no end of line", end="")
print("err of", os.environ["RANK"], file=sys.stderr)
"""


def test_logs_are_written_by_rank(launcher):
    logs = launcher.folder / "logs"
    code, out, _ = launcher.run(
        "--nproc-per-node=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--rdzv-id=name",
        "--redirects=0:3,1:1", f"--log-dir={logs}", launcher.script(PRINTS), OMP_NUM_THREADS="1",
    )  # fmt: skip
    assert code == 0 and out == ""
    (job,) = logs.iterdir()
    assert job.name.startswith("name_")
    files = {path.relative_to(job).as_posix(): path.read_text() for path in job.rglob("*.log")}
    assert files == {
        "attempt_0/0/stdout.log": "out of 0\nno end of line",
        "attempt_0/0/stderr.log": "err of 0\n",
        "attempt_0/1/stdout.log": "out of 1\nno end of line",
    }


def test_tee_shows_lines_with_their_rank(launcher):
    script, logs = launcher.script(PRINTS), launcher.folder / "logs"
    code, out, err = launcher.run(
        "--nproc-per-node=2", "-t", "3", f"--log-dir={logs}", "--duplicate-stdout-filters=out of 1,x", script
    )
    assert code == 0
    # Lines of two workers may come in any order. The last one has no end.
    assert [out.count(line) for line in ("[default0]:out of 0\n", "[default1]:out of 1\n", "]:no end of line")] == [
        1,
        1,
        2,
    ]
    assert "[default0]:err of 0\n" in err and "[default1]:err of 1\n" in err
    (job,) = logs.iterdir()
    assert (job / "attempt_0" / "1" / "stderr.log").read_text() == "err of 1\n"
    assert (job / "attempt_0" / "filtered_stdout.log").read_text() == "[default1]:out of 1\n"
    code, out, err = launcher.run(
        "--nproc-per-node=2", "-t1", "--local-ranks-filter=1", "--log-line-prefix-template=${role_name}-${rank}|",
        f"--log-dir={logs}", script, OMP_NUM_THREADS="1",
    )  # fmt: skip
    assert code == 0 and out == "default-1|out of 1\ndefault-1|no end of line" and err == "err of 1\n"


def test_lines_of_tee_are_shown_while_the_worker_runs(launcher):
    text = "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists(os.environ['FOLDER'] + '/go'):"
    agent = launcher.start("-t1", launcher.script(text + " time.sleep(0.02)"))
    assert agent.stdout.readline() == "[default0]:begun\n"
    (launcher.folder / "go").touch()
    assert launcher.end(agent)[0] == 0


# A worker with a child of its own. It says when both have been started, and which signal has come.
WAITING = """
import os, signal, subprocess, sys, time
folder, rank = os.environ["FOLDER"], os.environ["RANK"]

def note(number, frame):
    open(f"{folder}/signal_{rank}", "w").write(signal.Signals(number).name)
    if "stubborn" not in sys.argv:
        sys.exit(0)

for name in ("SIGTERM", "SIGINT", "SIGUSR1"):
    signal.signal(getattr(signal, name), note)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(f"{folder}/pid_{rank}.new", "w").write(f"{os.getpid()} {child.pid}")
os.rename(f"{folder}/pid_{rank}.new", f"{folder}/pid_{rank}")
while True:
    time.sleep(0.05)
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1"])
def test_signals_are_passed_on_to_the_workers(launcher, name):
    signals = ["--signals-to-handle=SIGTERM,SIGUSR1"] if name == "SIGUSR1" else []
    agent = launcher.start("--nproc-per-node=2", *signals, launcher.script(WAITING))
    for rank in (0, 1):
        launcher.file(f"pid_{rank}")
    agent.send_signal(getattr(signal, name))
    code, _, err = launcher.end(agent)
    assert code == 1 and f"got signal: {int(getattr(signal, name))}" in err
    assert [launcher.file(f"signal_{rank}") for rank in (0, 1)] == [name] * 2


def test_a_worker_that_ignores_signals_is_killed(launcher):
    agent = launcher.start("--shutdown-timeout=1", launcher.script(WAITING), "stubborn")
    launcher.file("pid_0")
    agent.terminate()
    code, _, err = launcher.end(agent)
    assert code == 1 and launcher.file("signal_0") == "SIGTERM"
    assert "forcefully exiting via SIGKILL" in err


@pytest.mark.parametrize("options", [[], ["--run-path"]], ids=["commands", "functions"])
def test_the_end_of_a_failed_job_does_not_wait_for_stubborn_workers_and_children(launcher, options):
    text = WAITING.replace(
        "while True:", "while True:\n    if rank == '1' and os.path.exists(f'{folder}/pid_0'): os._exit(3)"
    )
    code, _, err = launcher.run(
        *options, "--nproc-per-node=2", "--shutdown-timeout=1", launcher.script(text), "stubborn"
    )
    # The children of the worker that failed end too. Otherwise the output of the agent would stay open.
    assert code == 1 and launcher.file("signal_0") == "SIGTERM"
    assert "exitcode  : 3" in err[err.index("Root Cause") :]
    assert "forcefully exiting via SIGKILL" in err


@pytest.mark.parametrize("options", [[], ["--run-path"]], ids=["commands", "functions"])
def test_no_worker_outlives_a_killed_agent(launcher, options):
    agent = launcher.start("--nproc-per-node=2", *options, launcher.script(WAITING), "stubborn")
    for rank in (0, 1):
        launcher.file(f"pid_{rank}")
    agent.kill()
    # The children of the workers end too. Otherwise the output of the agent would stay open.
    assert launcher.end(agent)[0] == -signal.SIGKILL
    until(lambda: not launcher.left(), "the end of the workers and of their children")


def test_ways_to_name_the_program(launcher):
    launcher.script(ENVIRONMENT, "program.py")
    shell = launcher.folder / "program.sh"
    shell.write_text('#!/bin/sh\necho "$RANK of $WORLD_SIZE: $1"\n')
    shell.chmod(0o755)
    code, _, err = launcher.run(
        "-m", "program", "a", PYTHONPATH=f"{launcher.folder}{os.pathsep}{os.environ['PYTHONPATH']}"
    )
    assert code == 0 and environments(launcher, 1)[0]["argv"] == [str(launcher.folder / "program.py"), "a"], err
    (launcher.folder / "env_0").unlink()
    code, out, err = launcher.run("--no-python", "--nproc-per-node=2", shell, "local ${local_rank}")
    assert code == 0 and sorted(out.splitlines()) == ["0 of 2: local 0", "1 of 2: local 1"], err
    code, _, err = launcher.run("--run-path", launcher.folder / "program.py", "b")
    assert code == 0 and environments(launcher, 1)[0]["argv"][1:] == ["b"], err
    code, _, err = launcher.run("--no-python", "-m", shell)
    assert code == 1 and "Don't use both the '--no-python' flag and the '--module' flag" in err


def test_run_path_reports_the_exception_of_the_script(launcher):
    code, _, err = launcher.run("--run-path", launcher.script("raise KeyError('broken')"))
    assert code == 1 and "Root Cause" in err and "KeyError: 'broken'" in err[err.index("Root Cause") :]


def test_launch_passes_the_local_rank_as_an_argument(launcher):
    script = launcher.script(ENVIRONMENT)
    code, _, err = launcher.run("--nproc_per_node=2", script, "x", module="pytpu.distributed.launch")
    assert code == 0 and "torch.distributed.launch is deprecated" in err
    assert [worker["argv"][1:] for worker in environments(launcher, 2)] == [
        ["--local-rank=0", "x"],
        ["--local-rank=1", "x"],
    ]
    code, _, err = launcher.run("--use-env", script, "x", module="pytpu.distributed.launch")
    assert code == 0 and environments(launcher, 1)[0]["argv"][1:] == ["x"]


def test_options_have_defaults_in_the_environment(launcher):
    variables = {"PET_NPROC_PER_NODE": "2", "PET_ROLE": "reader", "PET_MAX_RESTARTS": "4", "PET_STANDALONE": "1"}
    code, _, err = launcher.run("--role=writer", launcher.script(ENVIRONMENT), **variables)
    assert code == 0, err
    env = environments(launcher, 2)[1]["env"]
    assert (env["ROLE_NAME"], env["TORCHELASTIC_MAX_RESTARTS"]) == ("writer", "4")


def test_virtual_local_ranks_choose_a_gpu(launcher):
    options = ("--nproc-per-node=2", "--virtual-local-rank", launcher.script(ENVIRONMENT))
    code, _, err = launcher.run(*options, CUDA_VISIBLE_DEVICES="4, 7")
    assert code == 0, err
    envs = [worker["env"] for worker in environments(launcher, 2)]
    assert [(env["LOCAL_RANK"], env["CUDA_VISIBLE_DEVICES"]) for env in envs] == [("0", "4"), ("0", "7")]
    code, _, err = launcher.run(*options, CUDA_VISIBLE_DEVICES="4")
    assert code == 1 and "local_rank 1 exceeds available GPUs in CUDA_VISIBLE_DEVICES=4" in err


# A worker that says its world, and fails or ends when it is told.
ELASTIC = """
import os, sys, time
folder, me = os.environ["FOLDER"], sys.argv[1]
open(f"{folder}/{me}.new", "w").write(os.environ["WORLD_SIZE"])
os.rename(f"{folder}/{me}.new", f"{folder}/{me}")
while not os.path.exists(f"{folder}/stop"):
    if os.path.exists(f"{folder}/fail_{me}"):
        os.unlink(f"{folder}/fail_{me}")
        sys.exit(1)
    time.sleep(0.02)
"""


@pytest.mark.parametrize("way", ["killed", "terminated"])
def test_a_job_grows_and_shrinks(launcher, way):
    script = launcher.script(ELASTIC)
    conf = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=2"
    common = (
        "--nnodes=1:2", "--max-restarts=1", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}",
        "--rdzv-id=grow", f"--rdzv-conf={conf}", script,
    )  # fmt: skip
    first = launcher.start(*common, "first")
    assert launcher.file("first") == "1"
    second = launcher.start(*common, "second")
    assert launcher.file("second") == "2"
    until(lambda: launcher.file("first") == "2", "the restart of the first node with the second one")
    second.kill() if way == "killed" else second.terminate()
    launcher.end(second)
    (launcher.folder / "fail_first").touch()
    until(lambda: launcher.file("first") == "1", "the restart of the first node alone")
    (launcher.folder / "stop").touch()
    code, _, err = launcher.end(first)
    assert code == 0, err


def test_a_failure_on_one_node_restarts_the_other(launcher):
    script = launcher.script(
        ELASTIC.replace('"w").write(', '"w").write(os.environ["TORCHELASTIC_RESTART_COUNT"] + "/" + ')
    )
    common = (
        "--nnodes=2", "--max-restarts=1", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}",
        "--rdzv-id=both", script,
    )  # fmt: skip
    agents = [launcher.start(*common, name) for name in ("first", "second")]
    assert [launcher.file(name) for name in ("first", "second")] == ["0/2", "0/2"]
    (launcher.folder / "first").unlink()
    (launcher.folder / "fail_second").touch()
    # A restart because of the other node does not count.
    assert launcher.file("first") == "0/2"
    until(lambda: launcher.file("second") == "1/2", "the restart of the second node")
    (launcher.folder / "stop").touch()
    assert [launcher.end(agent)[0] for agent in agents] == [0, 0]


def test_a_node_waits_until_the_others_have_ended(launcher):
    script = launcher.script(ELASTIC.replace("while not", "while me == 'slow' and not"))
    common = (
        "--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}", "--rdzv-id=end", script,
    )  # fmt: skip
    quick = launcher.start(*common, "quick")
    slow = launcher.start(*common, "slow")
    launcher.file("slow"), launcher.file("quick")
    until(lambda: len(launcher.left()) <= 5, "the end of the quick worker")
    assert quick.poll() is None and slow.poll() is None
    (launcher.folder / "stop").touch()
    assert [launcher.end(agent)[0] for agent in (quick, slow)] == [0, 0]


def test_a_node_does_not_wait_for_one_that_failed(launcher):
    script = launcher.script(ELASTIC.replace("while not", "while me == 'slow' and not"))
    common = (
        "--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}", "--rdzv-id=fail", script,
    )  # fmt: skip
    quick = launcher.start(*common, "quick")
    slow = launcher.start(*common, "slow")
    launcher.file("slow"), launcher.file("quick")
    (launcher.folder / "fail_slow").touch()
    assert [launcher.end(agent)[0] for agent in (slow, quick)] == [1, 0]


def test_a_signal_ends_an_agent_that_waits_for_other_nodes(launcher):
    script = launcher.script(ELASTIC.replace("while not", "while me == 'slow' and not"))
    common = (
        "--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}", "--rdzv-id=end", script,
    )  # fmt: skip
    slow = launcher.start(*common, "slow")
    quick = launcher.start(*common, "quick")
    launcher.file("slow"), launcher.file("quick")
    quick.terminate()
    assert launcher.end(quick)[0] == 1
    slow.terminate()
    assert launcher.end(slow)[0] == 1


def test_a_job_without_enough_nodes_ends(launcher):
    code, _, err = launcher.run(
        "--nnodes=2",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=localhost:0",
        "--rdzv-conf=join_timeout=1",
        launcher.script(""),
    )
    assert code == 1
    assert "RendezvousTimeoutError" in err and "1 of at least 2 nodes were there" in err


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (["--nnodes=2:1"], AssertionError, "min_nodes must be > 0 and <= max_nodes, got min_nodes=2, max_nodes=1"),
        (["--nnodes=1:2:3"], RuntimeError, 'nnodes=1:2:3 is not in "MIN:MAX" format'),
        (["--max-restarts=-1"], AssertionError, "max_restarts must be >= 0"),
        (["--nproc-per-node=many"], ValueError, "Unsupported nproc_per_node value: many"),
        (["--nproc-per-node=gpu"], ValueError, "Cuda is not available."),
        (["--local-ranks-filter=a"], ValueError, "--local_ranks_filter must be a comma-separated list of integers"),
        (["--redirects=4"], ValueError, "4 does not match"),
        (["--logs-specs=absent"], ValueError, r"Could not find entrypoint under 'torchrun.logs_specs\[absent\]' key"),
        (["--numa-binding=node"], NotImplementedError, "--numa-binding: workers are not bound to processors"),
        (["--rdzv-backend=etcd", "--rdzv-endpoint=h:1"], NotImplementedError, "'etcd' is not part of this package"),
        (["--rdzv-backend=other", "--rdzv-endpoint=h:1"], ValueError, "The rendezvous backend 'other' is not reg"),
        (["--rdzv-conf=a"], ValueError, "The rendezvous configuration option 'a' must have a value specified."),
        (["--shutdown-timeout=-1"], ValueError, "shutdown_timeout must be non-negative, got -1"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused(options, error, words, monkeypatch, tmp_path):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    run = torch.distributed.run
    with pytest.raises(error, match=words):
        run.run(run.parse_args([*options, f"--log-dir={tmp_path}", "script.py"]))


def test_numbers_of_workers_by_device():
    run = torch.distributed.run
    assert run.determine_local_world_size("3") == 3
    assert run.determine_local_world_size("cpu") == torch._utils.cpu_count() >= 1
    code = (
        "import os, pytpu as torch; run = torch.distributed.run\n"
        "print(run.determine_local_world_size('auto'), run.determine_local_world_size('tpu'))\n"
        # The agent's process has no threads of a client.
        "print(len(os.listdir('/proc/self/task')))\n"
        "print(torch.accelerator.device_count())"
    )
    out = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=LIMIT).split()
    assert out == [out[3], out[3], "1", out[3]]


def test_the_shim_has_a_script_named_torchrun():
    import pathlib

    from pytpu import _as_torch

    (path,) = pathlib.Path(_as_torch.SHIM).glob("torch-*.dist-info/entry_points.txt")
    assert path.read_text() == "[console_scripts]\ntorchrun = torch.distributed.run:main\n"
