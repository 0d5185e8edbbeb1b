"""Kill workers whose agent has ended without ending them, for example by `kill -9`.

The agent runs this file as a process, and writes a line with the identifier of each worker to its standard input. A
negative identifier says that this worker has ended, and the line `done` that all have ended. The end of the input
without this line says that the agent has ended.
"""

import os
import signal
import sys


def main():
    """Read lines, and kill the workers if the agent has ended."""
    targets = set()
    for line in sys.stdin:
        if line == "done\n":
            return
        number = int(line)
        targets.add(number) if number > 0 else targets.discard(-number)
    for target in targets:
        for kill in (os.killpg, os.kill):
            # A worker that has just been started has no group yet.
            try:
                kill(target, signal.SIGKILL)
            except ProcessLookupError:
                pass


if __name__ == "__main__":
    main()
