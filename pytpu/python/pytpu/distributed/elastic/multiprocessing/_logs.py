"""Where the output of workers goes: the console, files, or both."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import IntFlag

from ..utils.logging import get_logger

__all__ = ["DefaultLogsSpecs", "LogsDest", "LogsSpecs", "Std", "to_map"]

logger = get_logger(__name__)

_VALUE = r"^[0123]$"
_MAPPING = r"^(\d+:[0123],)*(\d+:[0123])$"


class Std(IntFlag):
    """A choice of output streams."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm: str) -> Std | dict[int, Std]:
        """Return the streams that a text names.

        Args:
            vm: a number, or pairs of local ranks and numbers, such as `0:3,1:1`.

        Raises:
            ValueError: for another text.
        """
        if re.match(_VALUE, vm):
            return Std(int(vm))
        if re.match(_MAPPING, vm):
            pairs = (pair.split(":") for pair in vm.split(","))
            return {int(rank): Std(int(value)) for rank, value in pairs}
        raise ValueError(f"{vm} does not match: <{_VALUE}> or <{_MAPPING}>")


def to_map(val_or_map: Std | dict[int, Std], local_world_size: int) -> dict[int, Std]:
    """Return the streams of each local rank.

    Args:
        val_or_map: the streams of all ranks, or of some. The other ranks get `Std.NONE`.
        local_world_size: number of local ranks.
    """
    streams = {} if isinstance(val_or_map, Std) else val_or_map
    rest = val_or_map if isinstance(val_or_map, Std) else Std.NONE
    return {rank: streams.get(rank, rest) for rank in range(local_world_size)}


@dataclass
class LogsDest:
    """Paths of log files by local rank. An empty text means the console.

    Args:
        stdouts: files for the output.
        stderrs: files for the errors.
        tee_stdouts: files in `stdouts` that are shown on the console too.
        tee_stderrs: files in `stderrs` that are shown on the console too.
        error_files: files for exceptions, see `record`.
        filtered_stdout: file for lines of the output that match a filter.
        filtered_stderr: file for lines of the errors that match a filter.
    """

    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)
    tee_stdouts: dict[int, str] = field(default_factory=dict)
    tee_stderrs: dict[int, str] = field(default_factory=dict)
    error_files: dict[int, str] = field(default_factory=dict)
    filtered_stdout: str = ""
    filtered_stderr: str = ""


class LogsSpecs(ABC):
    """A plan for the output of workers. `--logs-specs` names a class that inherits from this one.

    Args:
        log_dir: folder for the files.
        redirects: streams that go to files, for all local ranks or by rank.
        tee: streams that go to files and to the console.
        local_ranks_filter: local ranks that are shown on the console. `None` shows all.
    """

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Std | dict[int, Std] = Std.NONE,
        tee: Std | dict[int, Std] = Std.NONE,
        local_ranks_filter: set[int] | None = None,
    ) -> None:
        self._folder = log_dir
        self._redirects = redirects
        self._tee = tee
        self._shown_ranks = local_ranks_filter

    def _is_shown(self, rank: int) -> bool:
        return not self._shown_ranks or rank in self._shown_ranks

    @abstractmethod
    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Return the files of the workers of one attempt.

        Args:
            envs: variables of the workers by local rank. `TORCHELASTIC_ERROR_FILE` is set in each.
        """

    @property
    @abstractmethod
    def root_log_dir(self) -> str:
        """The folder for all jobs."""


class DefaultLogsSpecs(LogsSpecs):
    """Write to `<log_dir>/<run_id>_<random>/attempt_<n>/<local rank>/stdout.log`, `stderr.log` and `error.json`.

    Args:
        log_dir: folder for the files, which is made. `None` makes a folder for temporary files; `/dev/null` writes
            no files.
        redirects: streams that go to files, for all local ranks or by rank.
        tee: streams that go to files and to the console.
        local_ranks_filter: local ranks that are shown on the console. `None` shows all.

    Raises:
        NotADirectoryError: if `log_dir` is a file.
    """

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Std | dict[int, Std] = Std.NONE,
        tee: Std | dict[int, Std] = Std.NONE,
        local_ranks_filter: set[int] | None = None,
    ) -> None:
        if not log_dir:
            log_dir = tempfile.mkdtemp(prefix="torchelastic_")
        elif log_dir != os.devnull:
            if os.path.isfile(log_dir):
                raise NotADirectoryError(f"log_dir: {log_dir} is a file")
            os.makedirs(log_dir, exist_ok=True)
        super().__init__(log_dir, redirects, tee, local_ranks_filter)
        self._job_folder: str | None = None

    @property
    def root_log_dir(self) -> str:
        """The folder for all jobs."""
        return str(self._folder)

    def _attempt(self, env):
        """Make the folder of one attempt."""
        if self._job_folder is None:
            os.makedirs(self.root_log_dir, exist_ok=True)
            prefix = f"{env.get('TORCHELASTIC_RUN_ID', 'test_run_id')}_"
            self._job_folder = tempfile.mkdtemp(prefix=prefix, dir=self._folder)
            logger.info("log directory set to: %s", self._job_folder)
        folder = os.path.join(self._job_folder, f"attempt_{env.get('TORCHELASTIC_RESTART_COUNT', '0')}")
        # A restart because of a new node has the same number.
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        return folder

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """Make the folders of one attempt and return the files of its workers.

        Args:
            envs: variables of the workers by local rank. `TORCHELASTIC_ERROR_FILE` is set in each.
        """
        n = len(envs)
        if self._folder == os.devnull:
            return self._nowhere(envs)
        attempt = self._attempt(envs.get(0, {}))
        dest = LogsDest(
            filtered_stdout=os.path.join(attempt, "filtered_stdout.log"),
            filtered_stderr=os.path.join(attempt, "filtered_stderr.log"),
        )
        redirects, tee = to_map(self._redirects, n), to_map(self._tee, n)
        for rank in range(n):
            folder = os.path.join(attempt, str(rank))
            os.mkdir(folder)
            is_shown = self._is_shown(rank)
            for stream, name, files, shown in (
                (Std.OUT, "stdout.log", dest.stdouts, dest.tee_stdouts),
                (Std.ERR, "stderr.log", dest.stderrs, dest.tee_stderrs),
            ):
                # What goes to both is written to the file, and copied from there.
                if stream & (redirects[rank] | tee[rank]):
                    files[rank] = os.path.join(folder, name)
                else:
                    files[rank] = "" if is_shown else os.devnull
                if stream & tee[rank] and is_shown:
                    shown[rank] = files[rank]
            dest.error_files[rank] = os.path.join(folder, "error.json")
            envs[rank]["TORCHELASTIC_ERROR_FILE"] = dest.error_files[rank]
        return dest

    def _nowhere(self, envs):
        dest = LogsDest(filtered_stdout=os.devnull, filtered_stderr=os.devnull)
        for rank, env in envs.items():
            is_shown = self._is_shown(rank)
            dest.stdouts[rank] = dest.stderrs[rank] = "" if is_shown else os.devnull
            dest.error_files[rank] = os.devnull
            env["TORCHELASTIC_ERROR_FILE"] = ""
        return dest

    def __repr__(self) -> str:
        return (
            f"DefaultLogsSpecs(root_log_dir={self._folder}, redirects={self._redirects}, tee={self._tee}, "
            f"local_ranks_filter={self._shown_ranks})"
        )

    def __eq__(self, other: object) -> bool:
        # Two jobs with equal settings have different folders below `root_log_dir`.
        return isinstance(other, DefaultLogsSpecs) and repr(self) == repr(other)
