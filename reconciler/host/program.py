"""Check and take locks, find the programs of DPDispatcher, and interpret states of Slurm."""

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
from reconciler.host.processes import find_containing_folder


def is_lock_held(path: Path) -> bool | None:
    """Return whether a process holds the lock on a file.

    Returns False if the file does not exist, and None if the lock cannot be checked. The check
    itself takes a shared lock for a moment. A process that wants the exclusive lock must therefore
    wait briefly.
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
        # On a file system without locks, the check fails, so the state of the lock is unknown.
        return None
    finally:
        os.close(handle)
    return False


#: This variable prevents Python from importing modules from the current folder. That folder is
#: usually a workflow root, where anybody may have put a file with the name of a module.
SAFE = {"PYTHONSAFEPATH": "1"}


def command_of_module(module: str) -> list[str]:
    """Return the command that runs a module of wfctl as another process.

    The command works with any value of PYTHONPATH.
    """
    application = Path(__file__).resolve().parents[2]
    package = application.parent if application.name == "app" else application / "wfctl_eventstore"
    return [sys.executable, "-P", str(package / "__main__.py"), "-m", module]


def find_dpdisp(environ: Mapping[str, str], given: Path | None = None) -> Path:
    """Return the path of the dpdisp program.

    ``given`` has priority, then the variable WFCTL_DPDISP, then a program next to this Python, then
    the PATH. Raises ProgramMissing if the program does not exist.
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
    """Return the program with the given name in the folder of another program.

    Raises ProgramMissing if it does not exist.
    """
    found = program.with_name(name)
    if not os.access(found, os.X_OK):
        hint = (
            f"Install {name} next to {program.name}, or set WFCTL_DPDISP to another {program.name}."
        )
        raise ProgramMissing(name, (str(found),), hint)
    return found


def read_interpreter(program: Path) -> list[str]:
    """Return the interpreter in the first line of a script, as words of a command.

    Returns an empty list if the file has no such line.
    """
    with program.open("rb") as stream:
        first = stream.readline().decode(errors="replace")
    return first[2:].split() if first.startswith("#!") else []


def build_start_command(program: Path, ends: Path | None = None) -> list[str]:
    """Return the command that starts a program of DPDispatcher through `patched_dpdispatcher.py`.

    That script imports only the modules that are needed, which is faster. ``ends`` is the folder
    in which jobs record their end. If the program is not a Python script, it is started directly.
    """
    python = read_interpreter(program)
    if not any("python" in Path(word).name for word in python):
        return [str(program)]
    script = Path(__file__).parents[1] / "far" / "patched_dpdispatcher.py"
    flags = [] if ends is None else ["--ends", str(ends)]
    return [*python, str(script), *flags, str(program)]


def read_dpdispatcher_version(program: Path) -> str | None:
    """Return the version of DPDispatcher that a program uses, or None if it is unknown.

    DPDispatcher is not imported for this, because an import would write files.
    """
    python = read_interpreter(program)
    if not python:
        return None
    if python == [sys.executable]:
        from importlib import metadata

        with suppress(metadata.PackageNotFoundError):
            return metadata.version("dpdispatcher")
    ask = "from importlib.metadata import version; print(version('dpdispatcher'))"
    # With -c, Python would import from the current folder first, so the command runs in `/`.
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
#: States of Slurm for jobs that were ended from outside, without a fault of the job.
TAKEN = frozenset({"CANCELLED", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL"})
#: States of Slurm for jobs that ended because they exceeded a requested limit.
EXCEEDED = frozenset({"TIMEOUT", "OUT_OF_MEMORY", "DEADLINE"})
#: For each state of a job that Slurm ended, the line that Slurm prints into the output of the job.
_PRINTED = (
    ("OUT_OF_MEMORY", re.compile(r"slurmstepd.*(\boom[-_ ]kill|out of memory)", re.IGNORECASE)),
    ("OUT_OF_MEMORY", re.compile(r"slurmstepd.*exceeded .*memory limit", re.IGNORECASE)),
    ("TIMEOUT", re.compile(r"slurmstepd.*CANCELLED AT .*DUE TO TIME LIMIT")),
)


def find_printed_slurm_state(output: str) -> str | None:
    """Return the final state of a job if Slurm printed it into the job's output, or None."""
    return next((state for state, words in _PRINTED if words.search(output)), None)


#: Messages of DPDispatcher after which it is unknown whether the scheduler accepted a job. They
#: mean no connection, no answer in time, or success without a job id.
UNHEARD = (
    "Unable to contact slurm controller",
    "Socket timed out on send/recv operation",
    "list index out of range",
)


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job in the scheduler's list.

    ``folder`` is the folder from which it was submitted. ``reason`` is the reason why the job is
    pending. It is None if the job is not pending or the reason is unknown.
    """

    id: str
    state: str
    folder: str
    reason: str | None = None

    @property
    def is_alive(self) -> bool:
        """Return whether the job waits or runs.

        This is assumed for a job in an unknown state.
        """
        return self.state not in _ENDED | TAKEN | EXCEEDED


@dataclass(frozen=True, slots=True)
class Queue:
    """The answer of the scheduler to a query of its jobs.

    If the scheduler did not answer, ``listed`` is None and ``error`` is the reason. ``asked_at`` is
    the time of the query in ns since the epoch, by the clock of the machine that asked.
    """

    asked_at: int
    listed: tuple[ListedJob, ...] | None
    error: str | None = None

    def split(self, places: AbstractSet[str]) -> dict[str, Queue]:
        """Return the answer for each folder: the jobs that work in it or below it.

        Jobs that work elsewhere are omitted. If one of them has the id of an expected job, it
        belongs to another user, because ids are reused.
        """
        if self.listed is None:
            return dict.fromkeys(places, self)
        own: dict[str | None, list[ListedJob]] = {place: [] for place in places}
        for one in self.listed:
            own.setdefault(find_containing_folder(one.folder, places), []).append(one)
        return {place: Queue(self.asked_at, tuple(own[place]), self.error) for place in places}
