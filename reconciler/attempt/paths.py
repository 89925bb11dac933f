"""The paths of an attempt's files. This module computes paths and rarely reads the disk."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cached_property
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventstore.private_files import read_regular
from lifecycle.words.values import is_id
from reconciler.errors import DamagedAttempt, MissingInput, UnusableName
from service.root.atomic_files import write_whole
from service.root.folder_entries import exists, is_file

if TYPE_CHECKING:
    from lifecycle.state.workflow import Attempt as Recorded


#: Names of files in the folder of a stage.
PREPARED, WRAPPER = "submission.json", "dpdisp-run.sh"
MONITOR_LOCK = ".monitor.lock"
EXIT_CODE, DONE = "DPDISP_EXIT_CODE", "DPDISP_DONE"
ATTEMPTS = ".attempts"

#: Names of files in the folder of an attempt. `AttemptPaths` names the other files.
LAUNCH_RECORD = "launch.json"
#: File with the environment of the jobs, readable only by its owner.
#: Each entry is NAME=VALUE and ends with a NUL byte.
#: For secrets and for addresses with a password, the file contains only the NAME.
ENVIRONMENT_RECORD = "environment"
#: Folder that keeps the outputs of earlier attempts.
KEPT = "kept"

#: Folder, next to the log, with the claims of job starts.
#: If a claim is missing in the attempt's own folder, that folder was removed while its job ran.
#: wfctl submits nothing again for such an attempt.
STARTS = "starts"
#: Name and content of a file that makes git ignore its folder and the file itself.
IGNORE, IGNORE_ALL = ".gitignore", b"*\n"

#: Prefix of a job's files. DPDispatcher's hash of the job follows.
JOB = "job-"


class OfJob(StrEnum):
    """Suffixes of the files in which a job records its own status.

    The name of the job precedes them.
    """

    #: Folder that claims the start of a job, once only.
    #: Its ``record`` names the host and the shell.
    STARTED = ".started"
    #: Lock file that the command and all its child processes hold.
    LOCK = ".lock"
    #: Marks that the file system has no locks, or that the lock was not available in time.
    UNLOCKED = ".unlocked"
    #: Marks a task that is running or was killed while running. A number follows.
    TASK = ".task"
    #: The exit code of the first command that failed.
    CODE = ".code"
    #: Marks that SIGKILL ended a command.
    KILLED = ".killed"
    #: Exit code with which a task's command ended. Removed when its shell continues.
    REACHED = ".reached"
    #: Exit code of the job, with the tag of the attempt and the time.
    EXIT = ".exit"
    #: Resources that the commands used. A number follows.
    USED = ".used"
    #: Marks that the monitor saw the command running after all its shells had ended.
    ALONE = ".alone"
    #: Processes that a successful command left running. A number follows.
    AWAITED = ".awaited"
    #: Names of the software that the command found.
    ENVIRONMENT = ".environment"


#: Exit codes above this number name the signal that ended a shell, not the result of the command.
SIGNALLED = 128
#: Exit code of a command that timeout(1) ended.
TIMED_OUT = 124
#: Exit code for SIGKILL. No program sends itself SIGKILL, so something else ended the command.
KILLED = SIGNALLED + 9
#: Exit codes from which it is unknown how the command of a job ended.
UNTOLD = (None, KILLED)
#: Exit codes for the signals by which a program crashes: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
FAULTS = frozenset(SIGNALLED + signal for signal in (4, 6, 7, 8, 11))


class ScriptEnd(IntEnum):
    """Exit codes of wfctl's own scripts, taken from `sysexits.h` if a code fits."""

    #: The attempt's files were removed while its job ran (EX_NOINPUT).
    REMOVED = 66
    #: The submission differs from the recorded submission (EX_DATAERR).
    CHANGED = 65
    #: A machine or scheduler gave no answer (EX_UNAVAILABLE).
    SILENT = 69
    #: The monitor itself failed, or the machine refused something that the job needs (EX_SOFTWARE).
    BROKEN = 70
    #: The disk has no space for the files of DPDispatcher (EX_CANTCREAT).
    NO_ROOM = 73
    #: The files of the attempt cannot be written (EX_IOERR).
    UNWRITABLE = 74
    #: Another monitor is already running (EX_TEMPFAIL).
    TAKEN = 75


class Watched(IntEnum):
    """Results of watching an attempt, used as exit codes of the watching process."""

    OVER = 0
    NOTHING = 10
    COLLECTED = 11
    REMOVED = ScriptEnd.REMOVED
    SILENT = ScriptEnd.SILENT
    BROKEN = ScriptEnd.BROKEN


#: Environment variable that names the attempt for its command and for all child processes.
ATTEMPT = "WFCTL_ATTEMPT"
#: Environment variable that names one run of a command for all its child processes.
RUN = "WFCTL_RUN"
#: Number of random bytes of a mark, enough to distinguish all attempts with the same id.
_MARK = 4


def new_mark() -> str:
    """Return a random mark for a new attempt."""
    return secrets.token_hex(_MARK)


def _attempt_path(name: str) -> cached_property[Path]:
    """Return a cached property with a path in the attempt's folder."""
    return cached_property(lambda attempt: attempt.folder / name)


def _stage_path(name: str) -> cached_property[Path]:
    """Return a cached property with a path in the folder of the attempt's stage."""
    return cached_property(lambda attempt: attempt.stage_folder / name)


@dataclass(frozen=True)
class AttemptPaths:
    """One submission and one run of a stage.

    ``root`` is the absolute workflow root, ``id`` looks like ``att-0001``, ``outputs`` are the
    stage's outputs relative to the root. ``mark`` distinguishes the attempt from attempts with the
    same names in an earlier log or in a copy of the root. Attempts of old logs have no mark.
    ``sha256`` is the recorded digest of the submission, or empty. ``number`` is the id in the name
    of the folder, if it differs because a lost log assigned it.
    """

    root: Path
    workflow: str
    stage: str
    id: str
    outputs: tuple[str, ...] = ()
    mark: str = ""
    sha256: str = ""
    number: str = ""

    def __post_init__(self) -> None:
        if not (is_id(self.stage) and is_id(self.id)):
            raise UnusableName(f"{self.stage}/{self.id}")

    @property
    def name(self) -> str:
        """The name of the attempt's folder: its number and its mark."""
        number = self.number or self.id
        return f"{number}-{self.mark}" if self.mark else number

    @property
    def tag(self) -> str:
        """A name that is unique among all attempts of all workflows."""
        return f"{self.workflow}/{self.stage}/{self.name}"

    @property
    def session(self) -> str:
        """The name of the tmux session, as tmux spells it."""
        marked = f"_{self.mark}" if self.mark else ""
        name = f"dpdisp_{self.stage}_{self.workflow}{marked}"
        return name.replace(".", "_").replace(":", "_")

    @cached_property
    def stage_folder(self) -> Path:
        """The job folder of the stage."""
        return self.root / self.stage

    @cached_property
    def folder(self) -> Path:
        """The folder of this attempt."""
        return self.stage_folder / ATTEMPTS / self.name

    #: The submission that is actually sent.
    submission = _attempt_path("submission.json")
    #: Folder for the scratch copies of DPDispatcher, unless the profile names another folder.
    work = _attempt_path("work")
    #: Logs with all output of DPDispatcher for this attempt, and with the actions of the wrapper.
    log, monitor_log = _attempt_path("dpdisp.log"), _attempt_path("monitor.log")
    #: Record of the first launch: its host and its submission. The file's age is the launch time.
    launch_record = _attempt_path(LAUNCH_RECORD)
    #: Machine of the attempt's jobs, without any credentials.
    machine_record = _attempt_path("machine.json")
    #: Machine on which the attempt's folder was created, if it is not this machine.
    place_record = _attempt_path("place.json")
    environment_record = _attempt_path(ENVIRONMENT_RECORD)
    #: How the scheduler reported the end of each job, by job id.
    last_words = _attempt_path("last-words.json")
    #: Prevents every job that starts late from running its command.
    barrier = _attempt_path("stopped")
    #: Files that the jobs wrote and that have no other place yet.
    kept = _attempt_path("left")
    #: Markers of other attempts that were in the way of this attempt.
    stale = _attempt_path("stale")
    #: List of all leftover files of the attempt, with their locations.
    left_list = _attempt_path("left.json")
    #: Copies of the attempt's scripts that had changed by the end of its job.
    copies_record = _attempt_path("copies.json")
    #: Files with which the attempt continues.
    carried = _attempt_path("carry")
    #: Process id of the monitor.
    monitor_record = _attempt_path("monitor.json")
    #: Exit code of the monitor, bound to its attempt.
    exit_code_record = _attempt_path("exit-code")
    #: Lock that a monitor of this stage holds while it runs.
    monitor_lock = _stage_path(MONITOR_LOCK)
    #: Script that watches the attempt.
    wrapper = _stage_path(WRAPPER)
    #: Only the exit code of the monitor, for programs that compare it with a number.
    exit_code_marker = _stage_path(EXIT_CODE)
    #: Marks that the monitor has finished, bound to its attempt.
    done_marker = _stage_path(DONE)

    #: Files in the task folder of a stage with a map.
    #: They are the definition, the tasks, a copy of the file with the points, and the results.
    tasks = _attempt_path("tasks")
    task_head, task_list = _attempt_path("tasks/head.json"), _attempt_path("tasks/list")
    task_points, task_record = _attempt_path("tasks/points"), _attempt_path("tasks/record.jsonl")

    @property
    def starts(self) -> Path:
        """The folder of additional start claims of the jobs, outside the stage's folder."""
        return self.root / ".wfctl" / STARTS / f"{self.stage}.{self.name}"

    @property
    def logs(self) -> tuple[str, str]:
        """The paths of the jobs' stdout and stderr, relative to the root."""
        return f"{self.stage}/log", f"{self.stage}/err"

    def of_job(self, job: str, what: OfJob) -> Path:
        """Return the file in which the named job records the given status."""
        return self.folder / f"{JOB}{job}{what}"


def of_recorded(
    root: Path, workflow: str, stage: str, known: Recorded, outputs: tuple[str, ...] = ()
) -> AttemptPaths:
    """Return the paths of an attempt that the log contains."""
    sha256, number = known.submission_sha256, known.number
    return AttemptPaths(root, workflow, stage, known.id, outputs, known.mark, sha256, number)


def parse_attempt_name(
    root: Path, workflow: str, stage: str, name: str, outputs: tuple[str, ...] = ()
) -> AttemptPaths:
    """Return the attempt with the folder ``name``, with or without a mark."""
    number, _, mark = name.removeprefix("att-").partition("-")
    return AttemptPaths(root, workflow, stage, f"att-{number}", outputs, mark)


def submission_of(attempt: AttemptPaths) -> dict[str, Any] | None:
    """Return the submission of the attempt, or None if no file matches its digest."""
    return next((found for _, _, found in _genuine(attempt)), None)


def digest_of(submission: str) -> str:
    """Return the digest that identifies a submission in the log."""
    return hashlib.sha256(submission.encode()).hexdigest()


def keep(attempt: AttemptPaths, submission: str, machine: str) -> str:
    """Copy the submission and the machine next to the log, and return the submission's digest."""
    digest = digest_of(submission)
    for place, text in zip(_kept(attempt, digest), (submission, machine), strict=True):
        place.parent.mkdir(parents=True, exist_ok=True)
        # This copy is needed only without the attempt's own file, so it is not synced.
        place.write_text(text, encoding="utf-8")
    return digest


def kept_submission(attempt: AttemptPaths) -> Path:
    """Return the path of the kept copy of the submission."""
    return _kept(attempt, attempt.sha256)[0]


def machine_text(attempt: AttemptPaths) -> Iterator[str]:
    """Yield the recorded descriptions of the attempt's machine, the attempt's own record first."""
    places = [attempt.machine_record]
    places += [_kept(attempt, attempt.sha256)[1]] if attempt.sha256 else []
    for place in places:
        content = _read(place)
        if content is not None:
            yield content.decode(errors="replace")


def put_back(attempt: AttemptPaths) -> None:
    """Restore the attempt's submission so that it matches its digest.

    A different file in its place is moved aside. Raises `DamagedAttempt` if no copy exists.
    """
    place, content, _ = next(_genuine(attempt), (None, b"", None))
    if place == attempt.submission:
        return
    if place is None:
        raise DamagedAttempt(
            attempt.stage,
            attempt.submission,
            f"the file differs from the submitted file (SHA-256 {attempt.sha256[:12]}…), and no "
            "copy of the submitted file exists",
        )
    if os.path.lexists(attempt.submission):
        keep_aside(attempt, attempt.submission)
    attempt.folder.mkdir(parents=True, exist_ok=True)
    write_whole(attempt.submission, content)


def keep_aside(attempt: AttemptPaths, path: Path) -> None:
    """Move a file that is in the way of an attempt's file into the attempt's folder ``stale``."""
    aside = attempt.stale
    aside.mkdir(parents=True, exist_ok=True)
    path.rename(aside / f"{path.name}.{len(list(aside.iterdir()))}")


def _genuine(attempt: AttemptPaths) -> Iterator[tuple[Path, bytes, dict[str, Any]]]:
    """Yield each copy of the submission that matches the log, with its path, bytes and content.

    The log has no digest for an attempt that is being prepared.
    """
    for place in [attempt.submission, *([kept_submission(attempt)] if attempt.sha256 else [])]:
        content = _read(place)
        if content is None or attempt.sha256 not in ("", hashlib.sha256(content).hexdigest()):
            continue
        found = None
        with suppress(ValueError, RecursionError):
            found = json.loads(content.decode(errors="replace"))
        if isinstance(found, dict):
            yield place, content, found


def _read(path: Path) -> bytes | None:
    try:
        return read_regular(path) if is_file(path) else None
    except OSError:
        return None


def _kept(attempt: AttemptPaths, digest: str) -> tuple[Path, Path]:
    folder = attempt.root / ".wfctl" / "submissions"
    return folder / f"{digest}.json", folder / f"{digest}.machine.json"


#: A character of a name that was escaped in a pattern.
_ESCAPED = re.compile(r"\[([*?[])\]")


def forwarded(own: Mapping[str, Any]) -> Iterator[Path]:
    """Yield each file or folder that an attempt's own submission sends, with resolved patterns.

    Raises MissingInput for a missing file, because DPDispatcher would notice only during the
    upload.
    """
    base = Path(own["machine"]["local_root"]) / str(own.get("work_base", "."))
    patterns = [*own.get("forward_common_files", [])]
    for task in own.get("task_list", []):
        patterns += (f"{task['task_work_path']}/{path}" for path in task.get("forward_files", []))
    for pattern in dict.fromkeys(patterns):
        found = sorted(base.glob(pattern)) if has_magic(pattern) else [base / pattern]
        if not found or not exists(found[0]):
            raise MissingInput(_ESCAPED.sub(r"\1", pattern))
        yield from found
