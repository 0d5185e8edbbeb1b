"""Launches of small programs by ``python -m pytpu.distributed.run``, with limits, and without processes left behind."""

import os
import pathlib
import signal
import subprocess
import sys
import time
import uuid

# It is only reached when something is broken.
LIMIT = 60


def until(condition, what):
    """Wait until a function returns something true, and return that."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {LIMIT} s")


def process_state(pid):
    """Return the letter of a process's state, or ``None`` if there is no such process."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


class Launcher:
    """Agents of one test. All their processes have one variable, by which those that are left are found."""

    def __init__(self, folder):
        self.folder = folder
        self.mark = f"LAUNCH_TEST_{uuid.uuid4().hex}"
        self.agents = []

    def script(self, text, name="script.py"):
        """Write a program, and return its path."""
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def start(self, *arguments, module="pytpu.distributed.run", **variables):
        """Start an agent."""
        outer = {name: value for name, value in os.environ.items() if not name.startswith(("PET_", "OMP_", "TORCHELA"))}
        agent = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            env={**outer, self.mark: "1", "FOLDER": str(self.folder), "TMPDIR": str(self.folder), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.agents.append(agent)
        return agent

    def end(self, agent):
        """Wait for an agent. Return its exit code, output and errors."""
        try:
            out, err = agent.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self.kill_all()
            out, err = agent.communicate()
            raise AssertionError(f"the agent did not end within {LIMIT} s:\n{out}\n{err}") from None
        return agent.returncode, out, err

    def run(self, *arguments, **variables):
        """Run an agent. Return its exit code, output and errors."""
        return self.end(self.start(*arguments, **variables))

    def left(self):
        """Return the processes of this test that have not ended."""
        found = []
        for folder in pathlib.Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                is_ours = self.mark.encode() in (folder / "environ").read_bytes()
            except OSError:  # It has ended, or is another user's.
                continue
            if is_ours and process_state(folder.name) not in (None, "Z"):
                found.append(int(folder.name))
        return found

    def kill_all(self):
        """Kill the processes of this test."""
        for pid in self.left():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def file(self, name):
        """Return the text of a file that a worker writes. Wait until it is there."""
        path = self.folder / name
        until(path.exists, f"the file {name}")
        return path.read_text()
