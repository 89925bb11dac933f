"""Compute the paths of an attempt's files (an attempt is one run of a stage's job).

Most functions only compute paths. A few read or restore the attempt's submission.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cached_property
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventstore.regular_files import read_regular
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

#: Name of a file in the folder of an attempt. The class `AttemptPaths` names the other files.
LAUNCH_RECORD = "launch.json"
#: File with the environment of the jobs, readable only by its owner.
#: Each entry is NAME=VALUE and ends with a NUL byte.
#: For secrets and for addresses with a password, the file contains only the NAME.
ENVIRONMENT_RECORD = "environment"
#: Name of the folder in which the outputs of an earlier attempt are kept.
KEPT = "kept"

#: Name of a folder next to the log with second copies of the claims of job starts (a job creates a
#: claim to start only once). If a claim exists here but not in the attempt's own folder, that
#: folder was removed while its job ran. wfctl submits nothing again for such an attempt.
STARTS = "starts"
#: Name of a folder next to the log with copies of submissions, and the end of the names of the
#: descriptions of their machines.
SUBMISSIONS, _MACHINE = "submissions", ".machine.json"
#: Name and content of a file that makes git ignore its folder and the file itself.
IGNORE, IGNORE_ALL = ".gitignore", b"*\n"

#: Prefix of the names of a job's files. The hash that DPDispatcher gives to the job follows.
JOB = "job-"


class JobRecordSuffix(StrEnum):
    """Suffixes of the files in which a job records its own status.

    The name of each file starts with the name of the job.
    """

    #: Folder that the first start of a job creates, so that the job cannot start a second time. Its
    #: file ``record`` names the host and the shell.
    STARTED = ".started"
    #: Lock file that the job's command and all its child processes hold while they run.
    LOCK = ".lock"
    #: Marks that the job runs without its lock: the file system has no locks, or the lock was not
    #: available in time.
    UNLOCKED = ".unlocked"
    #: Marks a task that is running, or that was killed while it ran. The number of the task
    #: follows.
    TASK = ".task"
    #: Contains the exit code of the first command that failed.
    CODE = ".code"
    #: Marks that the signal SIGKILL ended a command of the job.
    KILLED = ".killed"
    #: Contains the exit code with which a task's command ended. The file is removed when the shell
    #: of the task continues.
    REACHED = ".reached"
    #: Contains the exit code of the job, the tag of the attempt, the time, the used resources and
    #: the processes that still ran.
    EXIT = ".exit"
    #: Contains the resources (such as CPU time) that the commands used. The number of the task
    #: follows.
    USED = ".used"
    #: Marks that the command was seen running after all its shells had ended.
    ALONE = ".alone"
    #: Contains the processes that a successful command left running. The number of the task
    #: follows.
    AWAITED = ".awaited"
    #: Contains the processes that still ran after a successful command and its outputs were
    #: complete. The number of the task follows.
    REMAINING = ".remaining"
    #: Contains the names of the software environment in which the command ran.
    ENVIRONMENT = ".environment"


#: A shell that a signal ended has an exit code above this number. The rest of the code is the
#: number of the signal, not a result of the command.
SIGNALLED = 128
#: Exit code of a command that timeout(1) ended.
TIMED_OUT = 124
#: Names of the files for the standard output and the standard error of a task.
OUTPUT_LOG, ERROR_LOG = "log", "err"
#: Exit code of a process that SIGKILL ended. A program does not send SIGKILL to itself, so
#: something outside the job ended it.
KILLED = SIGNALLED + 9
#: Exit codes that do not show how the command of a job ended.
UNTOLD = (None, KILLED)
#: Exit codes of a program that crashed: SIGILL, SIGABRT, SIGBUS, SIGFPE or SIGSEGV ended it.
FAULTS = frozenset(SIGNALLED + signal for signal in (4, 6, 7, 8, 11))


class ScriptEnd(IntEnum):
    """Exit codes of the scripts that wfctl writes, taken from `sysexits.h` if a code fits."""

    #: The files of the attempt were removed while its job ran (EX_NOINPUT).
    REMOVED = 66
    #: The submission file differs from the submission that the log records (EX_DATAERR).
    CHANGED = 65
    #: A machine or scheduler gave no answer (EX_UNAVAILABLE).
    SILENT = 69
    #: The monitor itself failed, or the machine refused something that the job needs (EX_SOFTWARE).
    BROKEN = 70
    #: The disk has no space for the files of DPDispatcher (EX_CANTCREAT).
    NO_ROOM = 73
    #: The files of the attempt cannot be written (EX_IOERR).
    UNWRITABLE = 74
    #: Another monitor already watches the jobs of this stage (EX_TEMPFAIL).
    TAKEN = 75


class WatchResult(IntEnum):
    """Results of watching an attempt's jobs. Their values are the watcher's exit codes."""

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
#: Matches the name of an attempt's folder.
_ATTEMPT_NAME = re.compile(r"att-[0-9]+(-[0-9a-f]+)?")
#: Number of random bytes in the mark of an attempt. The mark distinguishes attempts with the same
#: id.
_MARK = 4


def generate_attempt_mark() -> str:
    """Return a random mark, which distinguishes a new attempt from others with the same id."""
    return os.urandom(_MARK).hex()


def _attempt_path(name: str) -> cached_property[Path]:
    """Return a cached property with a path in the attempt's folder."""
    return cached_property(lambda attempt: attempt.folder / name)


def _stage_path(name: str) -> cached_property[Path]:
    """Return a cached property with a path in the folder of the attempt's stage."""
    return cached_property(lambda attempt: attempt.stage_folder / name)


@dataclass(frozen=True)
class AttemptPaths:
    """The paths and names of one attempt: one submission and one run of a stage.

    ``root`` is the absolute workflow root, ``id`` looks like ``att-0001``, ``outputs`` are the
    stage's outputs relative to the root. ``mark`` distinguishes the attempt from attempts with the
    same names in an earlier log or in a copy of the root. Attempts of old logs have no mark.
    ``sha256`` is the recorded digest of the submission, or empty. ``number`` is the id that the
    name of the folder contains. It is set only if it differs from ``id``, because an earlier log
    that was lost had assigned it.
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
        """The name of the attempt's folder: its id, and its random mark if it has one."""
        number = self.number or self.id
        return f"{number}-{self.mark}" if self.mark else number

    @property
    def tag(self) -> str:
        """The name that identifies this attempt among all attempts of all workflows."""
        return f"{self.workflow}/{self.stage}/{self.name}"

    @property
    def session(self) -> str:
        """The name of the attempt's tmux session.

        Characters that tmux does not allow are replaced by underscores.
        """
        marked = f"_{self.mark}" if self.mark else ""
        name = f"dpdisp_{self.stage}_{self.workflow}{marked}"
        return name.replace(".", "_").replace(":", "_")

    @cached_property
    def stage_folder(self) -> Path:
        """The folder of the attempt's stage, in which the jobs of the stage are set up."""
        return self.root / self.stage

    @cached_property
    def folder(self) -> Path:
        """The folder of this attempt."""
        return self.stage_folder / ATTEMPTS / self.name

    #: The submission of this attempt as it is sent to DPDispatcher.
    submission = _attempt_path("submission.json")
    #: Folder in which DPDispatcher creates its scratch copies, unless the backend profile names
    #: another folder.
    work = _attempt_path("work")
    #: Log of all output of DPDispatcher for this attempt, and log of the actions of the wrapper
    #: script.
    log, monitor_log = _attempt_path("dpdisp.log"), _attempt_path("monitor.log")
    #: Record of the first launch, with its host and its submission. The change time of the file is
    #: the time of the launch.
    launch_record = _attempt_path(LAUNCH_RECORD)
    #: Description of the machine on which the attempt's jobs run, without any credentials.
    machine_record = _attempt_path("machine.json")
    #: Record of the remote machine on which the attempt's folder was created. It does not exist if
    #: the folder is on this machine.
    place_record = _attempt_path("place.json")
    environment_record = _attempt_path(ENVIRONMENT_RECORD)
    #: Record of the final state that the scheduler reported for each job, by job id.
    last_words = _attempt_path("last-words.json")
    #: File that prevents every job that starts later from running its command. It is created when
    #: the attempt is stopped.
    barrier = _attempt_path("stopped")
    #: Folder for files that the jobs wrote and that have not been moved to another place yet.
    kept = _attempt_path("left")
    #: Folder for files, such as markers of other attempts, that were in the way of this attempt.
    stale = _attempt_path("stale")
    #: List of all leftover files of the attempt, with their locations.
    left_list = _attempt_path("left.json")
    #: Record of the copies of the attempt's scripts that had changed by the time its job ended.
    copies_record = _attempt_path("copies.json")
    #: Folder with the files of an earlier attempt with which this attempt continues.
    carried = _attempt_path("carry")
    #: Record of the process id of the monitor, which watches the attempt's jobs.
    monitor_record = _attempt_path("monitor.json")
    #: Record of the monitor's exit code. It names the attempt to which it belongs.
    exit_code_record = _attempt_path("exit-code")
    #: Lock that a monitor of this stage holds while it runs.
    monitor_lock = _stage_path(MONITOR_LOCK)
    #: Script that submits the attempt and watches its jobs.
    wrapper = _stage_path(WRAPPER)
    #: File that contains only the exit code of the monitor, because other programs compare it with
    #: a number.
    exit_code_marker = _stage_path(EXIT_CODE)
    #: File that marks that the monitor has finished. It names the attempt to which it belongs.
    done_marker = _stage_path(DONE)

    #: Folder and files of the tasks, if the stage is a sweep (one task per point). The files are
    #: the definition, the list of tasks, a copy of the file with the points, and the results.
    tasks = _attempt_path("tasks")
    task_head, task_list = _attempt_path("tasks/head.json"), _attempt_path("tasks/list")
    task_points, task_record = _attempt_path("tasks/points"), _attempt_path("tasks/record.jsonl")

    @property
    def start_claims_folder(self) -> Path:
        """The folder with second copies of the claims that the jobs make when they start.

        It is outside the stage's folder, so that it survives when the stage's folder is removed.
        """
        return self.root / ".wfctl" / STARTS / f"{self.stage}.{self.name}"

    @property
    def logs(self) -> tuple[str, str]:
        """The paths of the jobs' stdout and stderr, relative to the root."""
        return f"{self.stage}/log", f"{self.stage}/err"

    def job_record_path(self, job: str, what: JobRecordSuffix) -> Path:
        """Return the path of the file in which a job records one kind of status."""
        return self.folder / f"{JOB}{job}{what}"


def recorded_attempt_paths(
    root: Path, workflow: str, stage: str, known: Recorded, outputs: tuple[str, ...] = ()
) -> AttemptPaths:
    """Return the paths of an attempt that is recorded in the log."""
    sha256, number = known.submission_sha256, known.number
    return AttemptPaths(root, workflow, stage, known.id, outputs, known.mark, sha256, number)


def list_prepared_attempt_names(root: Path, stage: str) -> list[str]:
    """Return the names of the attempts of a stage that have a folder for claims, sorted.

    This folder survives the removal of the attempt's own folder.
    """
    folders = (root / ".wfctl" / STARTS).glob(f"{stage}.att-*")
    names = (one.name.removeprefix(f"{stage}.") for one in folders)
    # The id of another stage may start with the id of this stage and a dot.
    return sorted(name for name in names if _ATTEMPT_NAME.fullmatch(name))


def parse_attempt_name(
    root: Path, workflow: str, stage: str, name: str, outputs: tuple[str, ...] = ()
) -> AttemptPaths:
    """Return the paths of the attempt whose folder has the given name.

    The name contains the number of the attempt, and usually a random mark.
    """
    number, _, mark = name.removeprefix("att-").partition("-")
    return AttemptPaths(root, workflow, stage, f"att-{number}", outputs, mark)


def read_attempt_submission(attempt: AttemptPaths) -> dict[str, Any] | None:
    """Return the submission of the attempt, or None if no file matches its recorded digest."""
    return next((found for _, _, found in _iterate_genuine_submissions(attempt)), None)


def digest_submission(submission: str) -> str:
    """Return the digest that identifies a submission in the log."""
    return hashlib.sha256(submission.encode()).hexdigest()


def save_submission_copies(attempt: AttemptPaths, submission: str, machine: str) -> str:
    """Write copies of a submission and of its machine next to the log.

    Returns the digest that identifies the submission.
    """
    digest = digest_submission(submission)
    for place, text in zip(
        _submission_copy_paths(attempt, digest), (submission, machine), strict=True
    ):
        place.parent.mkdir(parents=True, exist_ok=True)
        # This copy is a fallback for the attempt's own file, so a slow sync to disk is not
        # necessary.
        place.write_text(text, encoding="utf-8")
    return digest


def kept_submission(attempt: AttemptPaths) -> Path:
    """Return the path of the copy of the attempt's submission next to the log."""
    return _submission_copy_paths(attempt, attempt.sha256)[0]


def iterate_machine_records(attempt: AttemptPaths) -> Iterator[str]:
    """Yield each recorded description of the machine of the attempt's jobs as text.

    The record in the attempt's own folder comes first, then the copy next to the log.
    """
    places = [attempt.machine_record]
    places += [_submission_copy_paths(attempt, attempt.sha256)[1]] if attempt.sha256 else []
    for place in places:
        content = _read(place)
        if content is not None:
            yield content.decode(errors="replace")


def iterate_machine_copies(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each description of a machine next to the log, after the digest of its submission."""
    for place in sorted((root / ".wfctl" / SUBMISSIONS).glob(f"*{_MACHINE}")):
        content = _read(place)
        if content is not None:
            yield place.name.removesuffix(_MACHINE), content.decode(errors="replace")


def restore_submission_file(attempt: AttemptPaths) -> None:
    """Restore the attempt's submission file from its copy if it was changed or removed.

    A file with other content is moved aside. Raises `DamagedAttempt` if neither the file nor its
    copy matches the recorded digest.
    """
    place, content, _ = next(_iterate_genuine_submissions(attempt), (None, b"", None))
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
        move_to_stale_folder(attempt, attempt.submission)
    attempt.folder.mkdir(parents=True, exist_ok=True)
    write_whole(attempt.submission, content)


def move_to_stale_folder(attempt: AttemptPaths, path: Path) -> None:
    """Move a file that occupies a path the attempt needs to the folder ``stale``."""
    aside = attempt.stale
    aside.mkdir(parents=True, exist_ok=True)
    path.rename(aside / f"{path.name}.{len(list(aside.iterdir()))}")


def _iterate_genuine_submissions(
    attempt: AttemptPaths,
) -> Iterator[tuple[Path, bytes, dict[str, Any]]]:
    """Yield path, bytes and content of each file with the attempt's own submission.

    A file is accepted if its digest equals the digest in the log. If the log has no digest yet,
    because the attempt is being prepared, the attempt's own file is accepted.
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


def _submission_copy_paths(attempt: AttemptPaths, digest: str) -> tuple[Path, Path]:
    folder = attempt.root / ".wfctl" / SUBMISSIONS
    return folder / f"{digest}.json", folder / f"{digest}{_MACHINE}"


#: Matches a special character that was escaped in a glob pattern.
_ESCAPED = r"\[([*?[])\]"


def iterate_forwarded_paths(own: Mapping[str, Any]) -> Iterator[Path]:
    """Yield each file or folder that an attempt's submission sends to its jobs.

    Glob patterns are resolved. Raises MissingInput if a pattern matches nothing. Without this
    check, DPDispatcher would report the missing file only during the upload.
    """
    base = Path(own["machine"]["local_root"]) / str(own.get("work_base", "."))
    patterns = [*own.get("forward_common_files", [])]
    for task in own.get("task_list", []):
        patterns += (f"{task['task_work_path']}/{path}" for path in task.get("forward_files", []))
    for pattern in dict.fromkeys(patterns):
        found = sorted(base.glob(pattern)) if has_magic(pattern) else [base / pattern]
        if not found or not exists(found[0]):
            raise MissingInput(re.sub(_ESCAPED, r"\1", pattern))
        yield from found
