"""Query programs of this machine and schedulers, with a time limit."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from reconciler.errors import ProgramMissing
from reconciler.host.processes import place_of


def is_held(path: Path) -> bool | None:
    """Return whether a process holds the lock, or False if there is no file, None if unreadable.

    The check takes a shared lock for an instant, so a process that takes the lock exclusively must
    be prepared to wait for a moment.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        # A file system without locks returns an error, so the state of the lock is unknown.
        return None
    finally:
        os.close(handle)
    return False


#: Prevents Python from importing modules from the current folder, which is usually a root.
SAFE = {"PYTHONSAFEPATH": "1"}


def command_of_module(module: str) -> list[str]:
    """Return the command that runs a module of wfctl in another process, whatever PYTHONPATH is."""
    application = Path(__file__).resolve().parents[2]
    package = application.parent if application.name == "app" else application / "wfctl_eventstore"
    return [sys.executable, "-P", str(package / "__main__.py"), "-m", module]


def find_dpdisp(environ: Mapping[str, str], given: Path | None = None) -> Path:
    """Return the dpdisp program: the given one, WFCTL_DPDISP, next to this Python, or on the PATH.

    Raises ProgramMissing.
    """
    named = given or environ.get("WFCTL_DPDISP")
    beside = Path(sys.executable).parent / "dpdisp"
    on_path = shutil.which("dpdisp", path=environ.get("PATH"))
    looked = [named] if named else [beside, on_path]
    for place in looked:
        if place and os.access(place, os.X_OK):
            return Path(place).absolute()
    raise ProgramMissing(
        "dpdisp",
        (str(named),) if named else (str(beside), "PATH"),
        "Install wfctl with its dependencies, or set WFCTL_DPDISP to the path of the program.",
    )


def find_neighbor_program(program: Path, name: str) -> Path:
    """Return the program with this name in the environment of another. Raises ProgramMissing."""
    found = program.with_name(name)
    if not os.access(found, os.X_OK):
        hint = (
            f"Install {name} next to {program.name}, or set WFCTL_DPDISP to another {program.name}."
        )
        raise ProgramMissing(name, (str(found),), hint)
    return found


def read_interpreter(program: Path) -> list[str]:
    """Return the Python command from the first line of a program, or an empty list."""
    with program.open("rb") as stream:
        first = stream.readline().decode(errors="replace")
    return first[2:].split() if first.startswith("#!") else []


def build_start_command(program: Path, ends: Path | None = None) -> list[str]:
    """Return the command that starts a program of DPDispatcher with only the modules that it needs.

    ``ends`` is the folder in which jobs record their end. If the command does not start with
    Python, it is returned unchanged.
    """
    python = read_interpreter(program)
    if not any("python" in Path(word).name for word in python):
        return [str(program)]
    script = Path(__file__).parents[1] / "far" / "start.py"
    flags = [] if ends is None else ["--ends", str(ends)]
    return [*python, str(script), *flags, str(program)]


def read_dpdispatcher_version(program: Path) -> str | None:
    """Return the version of DPDispatcher that a program runs. An import would write files."""
    python = read_interpreter(program)
    if not python:
        return None
    if python == [sys.executable]:
        from importlib import metadata

        with suppress(metadata.PackageNotFoundError):
            return metadata.version("dpdispatcher")
    ask = "from importlib.metadata import version; print(version('dpdispatcher'))"
    # Run in `/`, because with -c Python imports from the current folder first.
    done = subprocess.run(
        [*python, "-c", ask],
        cwd="/",
        env={**os.environ, **SAFE},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or None


#: States of Slurm for jobs that have ended.
_ENDED = frozenset({"COMPLETED", "FAILED", "REVOKED", "SPECIAL_EXIT"})
#: States of Slurm for jobs that ended through no fault of their own.
TAKEN = frozenset({"CANCELLED", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL"})
#: States of Slurm for jobs that ended because they exceeded a requested limit.
EXCEEDED = frozenset({"TIMEOUT", "OUT_OF_MEMORY", "DEADLINE"})
#: State of a job that Slurm ended → the line that Slurm printed into the output of the job.
_PRINTED = (
    ("OUT_OF_MEMORY", re.compile(r"slurmstepd.*(\boom[-_ ]kill|out of memory)", re.IGNORECASE)),
    ("OUT_OF_MEMORY", re.compile(r"slurmstepd.*exceeded .*memory limit", re.IGNORECASE)),
    ("TIMEOUT", re.compile(r"slurmstepd.*CANCELLED AT .*DUE TO TIME LIMIT")),
)


def find_printed_end(output: str) -> str | None:
    """Return the state of a job from the line that Slurm printed into its output, or None."""
    return next((state for state, words in _PRINTED if words.search(output)), None)


#: Output of DPDispatcher if it is unknown whether the scheduler accepted a submission.
#: Examples are no connection, no answer in time, and success without a job id.
UNHEARD = (
    "Unable to contact slurm controller",
    "Socket timed out on send/recv operation",
    "list index out of range",
)


@dataclass(frozen=True, slots=True)
class Listed:
    """A job in the list of the scheduler. ``folder`` is the folder of its submission.

    ``reason`` is the reason why it is pending; None if it is not, or if the reason is unknown.
    """

    id: str
    state: str
    folder: str
    reason: str | None = None

    @property
    def is_alive(self) -> bool:
        """Return whether the job waits or runs. An unknown state counts as not finished."""
        return self.state not in _ENDED | TAKEN | EXCEEDED


@dataclass(frozen=True, slots=True)
class Queue:
    """The scheduler's answer. Without an answer, ``listed`` is None and ``error`` is the reason.

    ``asked_at`` is in ns since the epoch, by the clock of the machine that asked.
    """

    asked_at: int
    listed: tuple[Listed, ...] | None
    error: str | None = None

    def split(self, places: AbstractSet[str]) -> dict[str, Queue]:
        """Return the part of the answer for each folder: the jobs that work in it or below it.

        A job with a known id that works elsewhere belongs to another user, because ids are reused.
        """
        if self.listed is None:
            return dict.fromkeys(places, self)
        own: dict[str | None, list[Listed]] = {place: [] for place in places}
        for one in self.listed:
            own.setdefault(place_of(one.folder, places), []).append(one)
        return {place: Queue(self.asked_at, tuple(own[place]), self.error) for place in places}
