"""Where an attempt keeps its files. Paths alone: nothing here looks at the disk."""

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

from eventstore.private import read_regular
from lifecycle.words.values import is_id
from reconciler.errors import DamagedAttempt, MissingInput, UnusableName
from service.root.disk import write_whole

if TYPE_CHECKING:
    from lifecycle.state.workflow import Attempt as Recorded


#: In the folder of a stage.
PREPARED, WRAPPER = "submission.json", "dpdisp-run.sh"
MONITOR_LOCK = ".monitor.lock"
EXIT_CODE, DONE = "DPDISP_EXIT_CODE", "DPDISP_DONE"
ATTEMPTS = ".attempts"

#: In the folder of an attempt; `AttemptPaths` names what else lies there.
LAUNCH_RECORD = "launch.json"
#: The environment of its jobs, for its owner alone: NAME=VALUE, each ended by
#: a NUL; of what is named as a secret the NAME alone.
ENVIRONMENT_RECORD = "environment"
#: Where outputs of earlier attempts are kept.
KEPT = "kept"

#: In the folder of the log: a claim that the attempt's own folder does not have is of one that was
#: removed while its job ran, and nothing of such an attempt is submitted again.
STARTS = "starts"
#: What git is to leave alone in a folder, this file too.
IGNORE, IGNORE_ALL = ".gitignore", b"*\n"

#: A job is named by the hash that DPDispatcher gives it.
JOB = "job-"


class OfJob(StrEnum):
    """What follows the name of a job in the names of the files in which it tells of itself."""

    #: A folder: the start was claimed, once for ever. Its ``record`` says where and by which shell.
    STARTED = ".started"
    #: Held by the command and by all that it starts.
    LOCK = ".lock"
    #: The file system knows no locks, or one was not to be had in time.
    UNLOCKED = ".unlocked"
    #: A task is at work, or was killed while it was; a number follows.
    TASK = ".task"
    #: The exit code of the first command that failed.
    CODE = ".code"
    #: A command was ended by SIGKILL.
    KILLED = ".killed"
    #: The exit code with which a task's command came to its end; removed when its shell goes on.
    REACHED = ".reached"
    #: The job's own exit code, with the tag and the time.
    EXIT = ".exit"
    #: What its commands used; a number follows.
    USED = ".used"
    #: All its shells are gone and its command is still at work, as the monitor saw.
    ALONE = ".alone"
    #: Processes that a command which ended well has left at work; a number follows.
    AWAITED = ".awaited"
    #: Which software the command found.
    ENVIRONMENT = ".environment"


#: Exit codes above this one tell the signal that ended a shell, not what its command said.
SIGNALLED = 128
#: That of a command whose time is over, as timeout(1) has it.
TIMED_OUT = 124
#: That of SIGKILL, which no program sends itself: it ended the command, or a shell.
KILLED = SIGNALLED + 9
#: So a job that has no other code has not told how its command ended.
UNTOLD = (None, KILLED)
#: Those of the signals by which a program ends itself: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
FAULTS = frozenset(SIGNALLED + signal for signal in (4, 6, 7, 8, 11))


class ScriptEnd(IntEnum):
    """Exit codes by which our own scripts say how they ended, after `sysexits.h` where one fits."""

    #: The attempt's files were removed while its job ran (EX_NOINPUT).
    REMOVED = 66
    #: The submission is not what was recorded (EX_DATAERR).
    CHANGED = 65
    #: A machine or scheduler gave no answer (EX_UNAVAILABLE).
    SILENT = 69
    #: The monitor itself failed, or its machine refused what a job needs there (EX_SOFTWARE).
    BROKEN = 70
    #: No room was left for what DPDispatcher writes (EX_CANTCREAT).
    NO_ROOM = 73
    #: The files of the attempt cannot be written (EX_IOERR).
    UNWRITABLE = 74
    #: Another one is at work (EX_TEMPFAIL).
    TAKEN = 75


class Watched(IntEnum):
    """What watching an attempt came to; exit codes of the watching process."""

    OVER = 0
    NOTHING = 10
    COLLECTED = 11
    REMOVED = ScriptEnd.REMOVED
    SILENT = ScriptEnd.SILENT
    BROKEN = ScriptEnd.BROKEN


#: The variable that names the attempt in the environment of its command and of all that it starts.
ATTEMPT = "WFCTL_ATTEMPT"
#: The variable that names one run of a command in the environment of all that it starts.
RUN = "WFCTL_RUN"
#: Bytes of a mark: enough that no two attempts of one id ever share one.
_MARK = 4


def new_mark() -> str:
    """Return a mark that no attempt has yet."""
    return secrets.token_hex(_MARK)


def _own(name: str) -> cached_property[Path]:
    """Have a path in the attempt's folder."""
    return cached_property(lambda attempt: attempt.folder / name)


def _of_stage(name: str) -> cached_property[Path]:
    """Have a path in the folder of the attempt's stage."""
    return cached_property(lambda attempt: attempt.stage_folder / name)


@dataclass(frozen=True)
class AttemptPaths:
    """One submission and one run of a stage.

    ``root`` is the absolute workflow root, ``id`` looks like ``att-0001``, ``outputs`` are the
    stage's outputs relative to the root. ``mark`` is what no other attempt of the same names has:
    of an earlier life of the workflow, of a copy of its root. Attempts of old logs have none.
    ``sha256`` is the digest of its submission as the log has it; empty if none is recorded.
    ``number`` is the id in its folder's name where that is another: a log that was lost gave it.
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
        """What its folder is called: its number and its mark."""
        number = self.number or self.id
        return f"{number}-{self.mark}" if self.mark else number

    @property
    def tag(self) -> str:
        """The name that no other attempt of any workflow has."""
        return f"{self.workflow}/{self.stage}/{self.name}"

    @property
    def session(self) -> str:
        """The tmux session's name, spelled as tmux spells it."""
        marked = f"_{self.mark}" if self.mark else ""
        name = f"dpdisp_{self.stage}_{self.workflow}{marked}"
        return name.replace(".", "_").replace(":", "_")

    @cached_property
    def stage_folder(self) -> Path:
        """The stage's job directory."""
        return self.root / self.stage

    @cached_property
    def folder(self) -> Path:
        """What belongs to this attempt alone."""
        return self.stage_folder / ATTEMPTS / self.name

    #: What is really submitted.
    submission = _own("submission.json")
    #: Where DPDispatcher makes the scratch copies unless the profile names a place.
    work = _own("work")
    #: Everything that DPDispatcher printed for this attempt, and what the wrapper itself did.
    log, monitor_log = _own("dpdisp.log"), _own("monitor.log")
    #: Where and with what the attempt was first launched; its age is the launch's.
    launch_record = _own(LAUNCH_RECORD)
    #: Where the attempt's jobs run, without anything that lets one in.
    machine_record = _own("machine.json")
    #: Which machine the attempt's folder was made on, where that is another one.
    place_record = _own("place.json")
    environment_record = _own(ENVIRONMENT_RECORD)
    #: How the scheduler said that it ended jobs, by id.
    last_words = _own("last-words.json")
    #: Keeps every job that comes late from starting its command.
    barrier = _own("stopped")
    #: What the jobs wrote and has no other place yet.
    kept = _own("left")
    #: Markers of other attempts that lay in its way.
    stale = _own("stale")
    #: Every file that the attempt left, and where it is.
    left_list = _own("left.json")
    #: What it goes on from.
    carried = _own("carry")
    #: Which process is the monitor.
    monitor_record = _own("monitor.json")
    #: The monitor's exit code, bound to its attempt.
    exit_code_record = _own("exit-code")
    #: Held for as long as a monitor of this stage lives.
    monitor_lock = _of_stage(MONITOR_LOCK)
    #: The script that watches the attempt.
    wrapper = _of_stage(WRAPPER)
    #: The monitor's exit code alone, for those who compare it with a number.
    exit_code_marker = _of_stage(EXIT_CODE)
    #: Says that the monitor is through, bound to its attempt.
    done_marker = _of_stage(DONE)

    #: Of a stage with a map, what lies in the folder of its tasks: what they are computed from and
    #: which points they are; a line for each with number, folder, assignments of its values; a copy
    #: of the file that names the points; what became of each, once the attempt is over.
    tasks = _own("tasks")
    task_head, task_list = _own("tasks/head.json"), _own("tasks/list")
    task_points, task_record = _own("tasks/points"), _own("tasks/record.jsonl")

    @property
    def starts(self) -> Path:
        """Where its jobs claim their start once more, away from the stage's folder."""
        return self.root / ".wfctl" / STARTS / f"{self.stage}.{self.name}"

    @property
    def logs(self) -> tuple[str, str]:
        """What the jobs print on stdout and stderr, relative to the root."""
        return f"{self.stage}/log", f"{self.stage}/err"

    def of_job(self, job: str, what: OfJob) -> Path:
        """Where a job of the attempt, by its name, tells this of itself."""
        return self.folder / f"{JOB}{job}{what}"


def of_recorded(
    root: Path, workflow: str, stage: str, known: Recorded, outputs: tuple[str, ...] = ()
) -> AttemptPaths:
    """Return where an attempt that the log holds keeps its files."""
    sha256, number = known.submission_sha256, known.number
    return AttemptPaths(root, workflow, stage, known.id, outputs, known.mark, sha256, number)


def named(
    root: Path, workflow: str, stage: str, name: str, outputs: tuple[str, ...] = ()
) -> AttemptPaths:
    """Return the attempt whose folder is called ``name``, with a mark or without one."""
    number, _, mark = name.removeprefix("att-").partition("-")
    return AttemptPaths(root, workflow, stage, f"att-{number}", outputs, mark)


def submission_of(attempt: AttemptPaths) -> dict[str, Any] | None:
    """Return what the attempt submits; None if nothing that its digest names is left."""
    return next((found for _, _, found in _genuine(attempt)), None)


def digest_of(submission: str) -> str:
    """Return the digest by which the log names a submission."""
    return hashlib.sha256(submission.encode()).hexdigest()


def keep(attempt: AttemptPaths, submission: str, machine: str) -> str:
    """Keep a copy of both beside the log; return the digest of the submission."""
    digest = digest_of(submission)
    for place, text in zip(_kept(attempt, digest), (submission, machine), strict=True):
        place.parent.mkdir(parents=True, exist_ok=True)
        # Not synced to the disk: it is needed only where the attempt's own file is not.
        place.write_text(text, encoding="utf-8")
    return digest


def kept_submission(attempt: AttemptPaths) -> Path:
    """Return where the copy of its submission lies."""
    return _kept(attempt, attempt.sha256)[0]


def machine_text(attempt: AttemptPaths) -> Iterator[str]:
    """Yield what is kept of the attempt's machine, the attempt's own record first."""
    places = [attempt.machine_record]
    places += [_kept(attempt, attempt.sha256)[1]] if attempt.sha256 else []
    for place in places:
        content = _read(place)
        if content is not None:
            yield content.decode(errors="replace")


def put_back(attempt: AttemptPaths) -> None:
    """Have the attempt's submission be what its digest names.

    What lies there instead is kept aside. Raises `DamagedAttempt` where no copy is left.
    """
    place, content, _ = next(_genuine(attempt), (None, b"", None))
    if place == attempt.submission:
        return
    if place is None:
        raise DamagedAttempt(
            attempt.stage,
            attempt.submission,
            f"it is not what was submitted (SHA-256 {attempt.sha256[:12]}…), and no copy is left",
        )
    if os.path.lexists(attempt.submission):
        keep_aside(attempt, attempt.submission)
    attempt.folder.mkdir(parents=True, exist_ok=True)
    write_whole(attempt.submission, content)


def keep_aside(attempt: AttemptPaths, path: Path) -> None:
    """Move what is in the way of a file of the attempt below its folder ``stale``."""
    aside = attempt.stale
    aside.mkdir(parents=True, exist_ok=True)
    path.rename(aside / f"{path.name}.{len(list(aside.iterdir()))}")


def _genuine(attempt: AttemptPaths) -> Iterator[tuple[Path, bytes, dict[str, Any]]]:
    """Yield each copy that is what the log names: where it lies, its bytes, what they say.

    The log says nothing of one that is being prepared.
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
        return read_regular(path) if path.is_file() else None
    except OSError:
        return None


def _kept(attempt: AttemptPaths, digest: str) -> tuple[Path, Path]:
    folder = attempt.root / ".wfctl" / "submissions"
    return folder / f"{digest}.json", folder / f"{digest}.machine.json"


#: A character of a name that was escaped for a pattern.
_ESCAPED = re.compile(r"\[([*?[])\]")


def forwarded(own: Mapping[str, Any]) -> Iterator[Path]:
    """Yield each file or folder that an attempt's own submission sends, patterns resolved.

    Raises MissingInput for what is not there: DPDispatcher would find out only when it uploads.
    """
    base = Path(own["machine"]["local_root"]) / str(own.get("work_base", "."))
    patterns = [*own.get("forward_common_files", [])]
    for task in own.get("task_list", []):
        patterns += (f"{task['task_work_path']}/{path}" for path in task.get("forward_files", []))
    for pattern in dict.fromkeys(patterns):
        found = sorted(base.glob(pattern)) if has_magic(pattern) else [base / pattern]
        if not found or not found[0].exists():
            raise MissingInput(_ESCAPED.sub(r"\1", pattern))
        yield from found
