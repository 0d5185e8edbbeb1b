"""Processes that wait for functions of a test, one for each rank. Run as a program, this file is one of them."""

import contextlib
import datetime
import importlib
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import time
import traceback
from multiprocessing.connection import Connection, Pipe

#: Seconds after which a rank counts as stuck. Only a broken rank needs them.
LIMIT = 60


class Raised:
    """The exception of a rank."""

    def __init__(self, error):
        self.kind, self.text = type(error), str(error)
        self.trace = "".join(traceback.format_exception(error))

    def __repr__(self):
        return f"{self.kind.__name__}: {self.text}\n{self.trace}"


class Rank:
    """A process, and the pipe to it."""

    def __init__(self, module, environment):
        self.pipe, theirs = Pipe()
        command = [sys.executable, __file__, str(theirs.fileno()), module]
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=os.environ | environment)
        theirs.close()

    def answer(self, deadline):
        """Return the value or the `Raised` of the last call."""
        if not self.pipe.poll(max(0, deadline - time.monotonic())):
            raise AssertionError(f"the rank does not answer within {LIMIT} s")
        return pickle.loads(self.pipe.recv_bytes())


class RankPool:
    """Ranks with a process group, which live until the pool is closed.

    Args:
        size: the number of ranks.
        module: the name of the test's module, whose functions the ranks call.
        environment: variables for all ranks.
    """

    def __init__(self, size, module, environment=None):
        self.size, self.folder, self.starts = size, tempfile.TemporaryDirectory(), 0
        self.ranks = [Rank(module, environment or {}) for _ in range(size)]

    def start(self, timeout=LIMIT, **arguments):
        """Make the group of all ranks, with a new store."""
        self.starts += 1
        path = pathlib.Path(self.folder.name) / f"store{self.starts}"
        self.call(lambda rank: ("_start", (str(path), rank, self.size, timeout, arguments)))
        return self

    def stop(self):
        """Leave all groups."""
        self.call(lambda rank: ("_stop", ()))

    def call(self, of_rank, ranks=None, may_raise=False):
        """Let each of ``ranks`` call a function of the module.

        Args:
            of_rank: a function from a rank to the name of the function and its arguments.
            ranks: the ranks. The default is all.
            may_raise: whether the result has a `Raised` for each rank that raised. Otherwise this fails.

        Returns:
            The list of results.
        """
        ranks = range(self.size) if ranks is None else ranks
        deadline = time.monotonic() + LIMIT
        try:
            for rank in ranks:
                self.ranks[rank].pipe.send_bytes(pickle.dumps(of_rank(rank)))
            results = [self.ranks[rank].answer(deadline) for rank in ranks]
        except BaseException:
            # Ranks that did not answer would answer the next call.
            self.close()
            raise
        failed = [result for result in results if isinstance(result, Raised)]
        assert may_raise or not failed, failed
        return results

    def run(self, function, *arguments, **options):
        """Let ranks call ``function(*arguments)``, which stands in the module. See `call`."""
        return self.call(lambda rank: (function.__name__, arguments), **options)

    def errors(self, function, *arguments, **options):
        """Let ranks call a function that raises on each, and return what they raised."""
        results = self.run(function, *arguments, may_raise=True, **options)
        assert all(isinstance(result, Raised) for result in results), results
        return results

    def close(self):
        """End the processes."""
        for rank in self.ranks:
            rank.pipe.close()
            with contextlib.suppress(ProcessLookupError):
                rank.process.kill()
            rank.process.wait()
        self.folder.cleanup()


def _start(path, rank, size, timeout, arguments):
    import pytpu.distributed as dist

    limit = datetime.timedelta(seconds=timeout)
    store = dist.FileStore(path, -1)
    arguments = {"backend": "gloo"} | arguments
    dist.init_process_group(store=store, rank=rank, world_size=size, timeout=limit, **arguments)


def _stop():
    import pytpu.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


def _serve(pipe, module):
    own = {"_start": _start, "_stop": _stop}
    while True:
        try:
            name, arguments = pickle.loads(pipe.recv_bytes())
        except (EOFError, ConnectionResetError):
            return
        try:
            answer = pickle.dumps((own.get(name) or getattr(module, name))(*arguments))
        except Exception as error:
            answer = pickle.dumps(Raised(error))
        pipe.send_bytes(answer)


if __name__ == "__main__":
    # What the ranks pickle belongs to the module that the test imports.
    import rank_pool

    rank_pool._serve(Connection(int(sys.argv[1])), importlib.import_module(sys.argv[2]))
