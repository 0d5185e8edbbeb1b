"""The tutorial on two processes: its programs run by its commands, and print what the page shows."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "tutorials" / "two-processes.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_the_commands_of_the_page_print_what_it_shows(device, tmp_path):
    env = {name: value for name, value in os.environ.items() if name != "TORCHTPU_INTERPRET"} | {"OMP_NUM_THREADS": "1"}
    outputs, shown = [], 0
    for kind, text in BLOCK.findall(PAGE.read_text()):
        if kind == "python":
            name = re.match(r"# (\w+\.py)\n", text).group(1)
            (tmp_path / name).write_text(text.replace('device = "cpu"', f'device = "{device}"'))
        elif kind == "sh":
            if "mistake.py" in text and device == "tpu":
                break  # It is the last program, and the same on both devices.
            command = [sys.executable, *text.split()[1:]]
            done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
            assert (done.returncode != 0) == ("mistake.py" in command), done.stdout + done.stderr
            outputs.append(done.stdout + done.stderr)
        else:
            assert kind == "text"
            for line in text.replace("/home/me", str(tmp_path)).splitlines():
                assert line in outputs[-1]
                shown += 1
    assert (len(outputs), shown) == ((4, 7) if device == "cpu" else (3, 4))
    # Both ways compute the same.
    one, first, second, *_ = (re.findall(r"^epoch .*$", output, re.M) for output in outputs)
    assert len(one) == 5 and first + second == one
