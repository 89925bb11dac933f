"""One game: a folder with a work, the driver that runs it, and the tool's way back."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from benchmarks.faults import slurm_cluster
from benchmarks.faults import step as step_script
from benchmarks.faults.game_processes import MARK, find_processes, kill_all, wait_for_jobs
from benchmarks.faults.judge import Ending
from benchmarks.faults.truth import read_runs
from benchmarks.faults.work import SOURCES, Step, Work, compute_results, make_work

#: Maximum number of times that a game runs the way back.
ATTEMPTS = 3

#: Seconds after which the game stops a command. Tools ask Slurm for a job only every 30 to 60 s.
LIMITS = {"": 180.0, "slurm": 300.0}

#: Exit code of a command that the game stopped because it ran too long.
TOO_LONG = 124

#: Variables of the caller that no tool may see, because they change what a tool does.
_HIDDEN = ("PYTHON", "VIRTUAL_ENV", "WFCTL", "TMUX", "SNAKEMAKE")


class Adapter(Protocol):
    """The module of a contender.

    `environment`, `FILES`, `SCHEDULER` and `locate_output`, which returns where the tool writes an
    output, are optional.
    """

    NAME: str
    PACKAGES: Sequence[str]  # pip requirements; empty for the environment that runs the games
    DOCUMENTATION: Sequence[str]  # addresses of the pages that justify settings and way back
    STATE: Sequence[str]  # files and folders with the tool's state, relative to the folder

    def write(self, steps: Sequence[Step], folder: Path, python: str) -> None:
        """Write the tool's own files into the folder."""

    def command(self, folder: Path, python: str) -> list[str]:
        """Return the command that runs the work to its end, in the foreground."""

    def recover(self, folder: Path, python: str) -> list[list[str]]:
        """Return the commands of the documented way back after an interruption, in order."""


def find_scheduler(adapter: Adapter) -> str:
    """Return the scheduler that an adapter uses: `slurm`, or an empty string for none."""
    return str(getattr(adapter, "SCHEDULER", ""))


class UnplayableError(Exception):
    """A fault cannot be played on a contender; the message is the reason."""


class Contender(NamedTuple):
    """An adapter with the Python of its environment and the version of the tool."""

    adapter: Adapter
    python: str
    version: str


class Game:
    """A contender that runs a work, in a new temporary folder with a home folder of its own."""

    def __init__(self, contender: Contender, work: str, middle: float = 15.0) -> None:
        self.contender = contender
        self.place = Path(tempfile.mkdtemp(prefix="game-")).resolve()
        self.folder = self.place / "folder"
        self.work: Work = make_work(work, self.place / "step.py", middle)
        self.behaviours: dict[str, str] = {}  # of steps that misbehave
        self.factors: dict[str, str] = {}  # parameters that a person edited
        self.changed_files: list[str] = []  # names of files that the fault changed
        self.sources = dict(SOURCES)  # content of the input files now
        self.prefix: list[str] = []  # put before each command
        self.driver_prefix: list[str] = []  # put before the command of the first driver
        self.own_files: list[Path] = []  # that the adapter wrote, and a person may edit
        self.driver_variables: dict[str, str] = {}  # of the first driver only
        self.variables: dict[str, str] = {}  # of all commands
        self.first_programs: Path | None = None  # folder at the front of PATH
        self.moment = 0  # number of the file event of a fault
        self.limit = LIMITS[find_scheduler(contender.adapter)]  # seconds of one command
        self.commands = 0  # commands after the fault
        self.fault_at = self.ended_at = time.monotonic()
        self.cleanups: list[Callable[[], object]] = []
        self.exit_code = 0
        self.driver: subprocess.Popen[bytes] | None = None
        self._outputs: list[Path] = []
        self._commands: list[list[str]] = []

    def write_files(self) -> None:
        """Write the step script, its settings, the input files and the tool's own files."""
        (self.place / "home").mkdir()
        if find_scheduler(self.contender.adapter) == "slurm":
            self.variables |= slurm_cluster.start_cluster()
            self.cleanups.append(self._cancel_jobs)
        self.folder.mkdir(exist_ok=True)
        shutil.copy(str(step_script.__file__), self.place / "step.py")
        settings = {
            "seconds": dict(self.work.seconds),
            "default": self.work.default,
            "behaviours": self.behaviours,
        }
        (self.place / "settings.json").write_text(json.dumps(settings))
        for name, content in self.sources.items():
            (self.folder / name).write_text(content)
        self.contender.adapter.write(self.work.steps, self.folder, self.contender.python)
        self.own_files = self._find_own_files()

    def start_driver(self) -> subprocess.Popen[bytes]:
        """Start the tool's command as the driver, and return its process."""
        command = self.contender.adapter.command(self.folder, self.contender.python)
        self.driver = self._start([*self.driver_prefix, *command], self.driver_variables)
        return self.driver

    def finish_driver(self) -> int:
        """Wait for the driver to end, kill it after the time limit, and return its exit code."""
        assert self.driver is not None
        return self._finish(self.driver)

    def run_again(self) -> int:
        """Run the tool's command once more, as a user does after an edit; return its exit code."""
        self.commands += 1
        return self._finish(
            self._start(self.contender.adapter.command(self.folder, self.contender.python), {})
        )

    def recover(self) -> None:
        """Run the tool's way back until its last command succeeds, at most three times."""
        for _ in range(ATTEMPTS):
            for command in self.contender.adapter.recover(self.folder, self.contender.python):
                self.commands += 1
                self._finish(self._start(command, {}))
            if not self.exit_code:
                return

    def note_fault(self) -> None:
        """Record the time of the fault, from which the seconds of the recovery are counted."""
        self.fault_at = time.monotonic()

    def wait_for_start(self, step: str) -> None:
        """Wait until the truth file records the start of a step.

        Raises UnplayableError if the driver and all jobs end before, or at the time limit.
        """
        deadline = time.monotonic() + self.limit
        while not any(run.name == step for run in read_runs(self.place / "truth.txt")):
            has_ended = self.driver is not None and self.driver.poll() is not None
            if (has_ended and not self._has_jobs()) or time.monotonic() > deadline:
                raise UnplayableError(f"{step} did not start")
            time.sleep(0.05)

    def read_ending(self) -> Ending:
        """Return what the game left behind, after all jobs have ended (at most 60 seconds)."""
        results = self._read_results()
        wait_for_jobs(self.place, 60)
        return Ending(
            runs=read_runs(self.place / "truth.txt"),
            expected=compute_results(self.work, self.sources, self.factors),
            results=results,
            late_results=self._read_results(),
            exit_code=self.exit_code,
            lines=self.read_lines(),
            changed_files=self.changed_files,
        )

    def read_lines(self) -> list[str]:
        """Return the lines that the tool's commands printed.

        The path of the game and the commands are removed, because a tool may print its own command,
        and an option such as `--rerun-incomplete` informs nobody.
        """
        text = "".join(path.read_text(errors="replace") for path in self._outputs)
        # A shorter command may be the start of a longer one.
        for command in sorted(map(shlex.join, self._commands), key=len, reverse=True):
            text = text.replace(command, "")
        return text.replace(str(self.place), "").splitlines()

    def close(self, *, keep: bool = False) -> None:
        """Kill all processes of the game, undo its mounts and delete its folder."""
        kill_all(self.place)
        for cleanup in reversed(self.cleanups):
            cleanup()
        if not keep:
            shutil.rmtree(self.place, ignore_errors=True)

    def _has_jobs(self) -> bool:
        """Return whether a process of the game runs, or whether its Slurm has a job to run."""
        if find_processes(self.place):
            return True
        if find_scheduler(self.contender.adapter) != "slurm":
            return False
        return bool(slurm_cluster.find_jobs(self.place, "pending,running"))

    def _cancel_jobs(self) -> None:
        for job in slurm_cluster.find_jobs(self.place):
            slurm_cluster.run_client("scancel", job)

    def _read_results(self) -> dict[str, str]:
        """Return the content of all outputs by path; an absent output is an empty string."""
        paths = [path for step in self.work.steps for path in step.outputs]
        locate = getattr(self.contender.adapter, "locate_output", str)
        files = {path: self.folder / locate(path) for path in paths}
        return {
            path: file.read_text(errors="replace") if file.is_file() else ""
            for path, file in files.items()
        }

    def _find_own_files(self) -> list[Path]:
        """Return the adapter's files that a person edits: FILES, or all except the state."""
        adapter = self.contender.adapter
        names = getattr(adapter, "FILES", None)
        if names is not None:
            return [self.folder / name for name in names]
        state = [self.folder / name for name in adapter.STATE]
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return [path for path in files if not any(path.is_relative_to(part) for part in state)]

    def _finish(self, process: subprocess.Popen[bytes]) -> int:
        """Wait for a command to end, kill it after the time limit, and return its exit code."""
        try:
            self.exit_code = process.wait(self.limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self.exit_code = TOO_LONG
        self.ended_at = time.monotonic()
        return self.exit_code

    def _start(self, command: list[str], variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
        output = self.place / f"output-{len(self._outputs) + 1}.txt"
        self._outputs.append(output)
        self._commands.append(command)
        with output.open("wb") as file:
            return subprocess.Popen(
                [*self.prefix, *command],
                cwd=self.folder,
                env=self._environment() | dict(variables),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _environment(self) -> dict[str, str]:
        """Return the environment of every process of the game."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(_HIDDEN)}
        find_special = getattr(self.contender.adapter, "environment", None)
        special: dict[str, str] = find_special(self.folder) if find_special else {}
        programs = [str(Path(self.contender.python).parent)]
        if self.first_programs is not None:
            programs.insert(0, str(self.first_programs))
        own = {
            MARK: str(self.place),
            "HOME": str(self.place / "home"),
            "PATH": ":".join([*programs, os.environ["PATH"]]),
            "TMUX_TMPDIR": str(self.place),
        }
        return inherited | own | special | self.variables
