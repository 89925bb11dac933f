"""Programs of this machine, and schedulers, asked with a time limit."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from eventstore.private import open_lock
from lifecycle.words.values import stage_number
from reconciler.errors import ProgramMissing
from reconciler.host.processes import place_of
from service.errors import RootBusy


def is_held(path: Path) -> bool | None:
    """Say whether a process holds the lock; False if there is no file, None if unreadable.

    The look takes a shared lock for an instant, so those who take the lock for good must allow
    for a moment's wait.
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
        # A file system that knows no locks answers with an error: that is no answer.
        return None
    finally:
        os.close(handle)
    return False


#: Seconds between two tries.
_PAUSE = 0.005
#: From here on lie the bytes of stages with names of their own.
_NAMED = 1 << 32


@contextmanager
def held(path: Path, stage: str, timeout: float) -> Iterator[None]:
    """Hold a stage; raises `RootBusy` where another does for longer than ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        with held_if_free(path, [stage]) as mine:
            if mine:
                yield
                return
        if time.monotonic() >= deadline:
            raise RootBusy(path, timeout)
        time.sleep(_PAUSE)


@contextmanager
def held_if_free(path: Path, stages: Iterable[str]) -> Iterator[set[str]]:
    """Hold those of the stages that nobody else holds, and yield which they are."""
    file = open_lock(path)
    try:
        yield {stage for stage in stages if _is_taken(file, _place(stage))}
    finally:
        os.close(file)


def _place(stage: str) -> int:
    """Return the byte of a stage: the N-th of ``stage-N``, for other names one far behind.

    Two names may share a byte, as rarely as two digests begin alike; then one waits for the other.
    """
    number = stage_number(stage)
    if number is not None and number < _NAMED:
        return number
    return _NAMED + int.from_bytes(sha256(stage.encode()).digest()[:6])


def _is_taken(file: int, place: int) -> bool:
    """Try to lock a byte; says whether that was possible."""
    # struct flock of fcntl(2): type, whence, start, length, and a process id that must be 0.
    wanted = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, wanted)
    except BlockingIOError:
        return False
    return True


#: Lets no Python import from the current folder, which is most often a root.
SAFE = {"PYTHONSAFEPATH": "1"}


def find(environ: Mapping[str, str], given: Path | None = None) -> Path:
    """Return the dpdisp to run: the one given, WFCTL_DPDISP, beside this Python, on the PATH.

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
        "Install wfctl with its dependencies, or set WFCTL_DPDISP to the program.",
    )


def beside(program: Path, name: str) -> Path:
    """Return the program of that name in the environment of another; raises ProgramMissing."""
    found = program.with_name(name)
    if not os.access(found, os.X_OK):
        hint = f"Install it where {program.name} is, or set WFCTL_DPDISP to another {program.name}."
        raise ProgramMissing(name, (str(found),), hint)
    return found


def interpreter(program: Path) -> list[str]:
    """Return the Python that runs a program, as its first line names it; empty if none."""
    with program.open("rb") as stream:
        first = stream.readline().decode(errors="replace")
    return first[2:].split() if first.startswith("#!") else []


def starting(program: Path, ends: Path | None = None) -> list[str]:
    """Return the words that start a program of DPDispatcher with what it needs and no more.

    ``ends`` is the folder that tells when the jobs which it submits are over. Where another program
    stands before it than Python, it is started as it is.
    """
    python = interpreter(program)
    if not any("python" in Path(word).name for word in python):
        return [str(program)]
    script = Path(__file__).parents[1] / "far" / "start.py"
    flags = [] if ends is None else ["--ends", str(ends)]
    return [*python, str(script), *flags, str(program)]


def version(program: Path) -> str | None:
    """Say which DPDispatcher a program runs; importing it would write files."""
    python = interpreter(program)
    if not python:
        return None
    if python == [sys.executable]:
        from importlib import metadata

        with suppress(metadata.PackageNotFoundError):
            return metadata.version("dpdispatcher")
    ask = "from importlib.metadata import version; print(version('dpdispatcher'))"
    # Its modules are its own: with -c Python would look into the current folder first.
    done = subprocess.run(
        [*python, "-c", ask],
        cwd="/",
        env={**os.environ, **SAFE},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or None


#: States in which Slurm has ended with a job.
_ENDED = frozenset({"COMPLETED", "FAILED", "REVOKED", "SPECIAL_EXIT"})
#: Ended through no fault of the job.
TAKEN = frozenset({"CANCELLED", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL"})
#: Ended since the job took more than it had asked for.
EXCEEDED = frozenset({"TIMEOUT", "OUT_OF_MEMORY", "DEADLINE"})
#: State of a job that Slurm ended → the line that Slurm printed into the output of the job.
_PRINTED = (
    ("OUT_OF_MEMORY", re.compile(r"slurmstepd.*(\boom[-_ ]kill|out of memory)", re.IGNORECASE)),
    ("OUT_OF_MEMORY", re.compile(r"slurmstepd.*exceeded .*memory limit", re.IGNORECASE)),
    ("TIMEOUT", re.compile(r"slurmstepd.*CANCELLED AT .*DUE TO TIME LIMIT")),
)


def end_printed(output: str) -> str | None:
    """Return the state of a job by what Slurm printed into its output; None without such a line."""
    return next((state for state, words in _PRINTED if words.search(output)), None)


#: What DPDispatcher prints of a submission that the scheduler neither took nor refused, as far as
#: anybody knows: no connection, no answer in time, success without an id.
UNHEARD = (
    "Unable to contact slurm controller",
    "Socket timed out on send/recv operation",
    "list index out of range",
)


@dataclass(frozen=True, slots=True)
class Listed:
    """A job as the scheduler lists it; ``folder`` is the one it was submitted from.

    ``reason`` is why it is pending; None if it is not, or if the scheduler does not say.
    """

    id: str
    state: str
    folder: str
    reason: str | None = None

    @property
    def is_alive(self) -> bool:
        """Whether it waits or runs; an unknown state counts as not finished."""
        return self.state not in _ENDED | TAKEN | EXCEEDED


@dataclass(frozen=True, slots=True)
class Queue:
    """The scheduler's answer; ``listed`` is None if it gave none, and ``error`` says why.

    ``asked_at`` is in ns since the epoch, by the clock of the machine that asked.
    """

    asked_at: int
    listed: tuple[Listed, ...] | None
    error: str | None = None

    def split(self, places: AbstractSet[str]) -> dict[str, Queue]:
        """Return what it says of the jobs that work in each of the folders or below it.

        One of a known id that works elsewhere is somebody else's: ids are used again.
        """
        if self.listed is None:
            return dict.fromkeys(places, self)
        own: dict[str | None, list[Listed]] = {place: [] for place in places}
        for one in self.listed:
            own.setdefault(place_of(one.folder, places), []).append(one)
        return {place: Queue(self.asked_at, tuple(own[place]), self.error) for place in places}
