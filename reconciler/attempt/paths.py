"""Where an attempt keeps its files. Paths alone: nothing here looks at the disk."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.words.values import is_id
from reconciler.attempt import contract
from reconciler.attempt.contract import ATTEMPTS, JOB, OfJob
from reconciler.errors import UnusableName

if TYPE_CHECKING:
    from lifecycle.state.workflow import Attempt as Recorded

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
    ``sha256`` is the digest of its submission as the log has it; empty where none is recorded.
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
    launch_record = _own(contract.LAUNCH_RECORD)
    #: Where the attempt's jobs run, without anything that lets one in.
    machine_record = _own("machine.json")
    #: Which machine the attempt's folder was made on, where that is another one.
    place_record = _own("place.json")
    environment_record = _own(contract.ENVIRONMENT_RECORD)
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
    monitor_lock = _of_stage(contract.MONITOR_LOCK)
    #: The script that watches the attempt.
    wrapper = _of_stage(contract.WRAPPER)
    #: The monitor's exit code alone, for those who compare it with a number.
    exit_code_marker = _of_stage(contract.EXIT_CODE)
    #: Says that the monitor is through, bound to its attempt.
    done_marker = _of_stage(contract.DONE)

    #: Of a stage with a map, what lies in the folder of its tasks: what they are computed from and
    #: which points they are; a line for each with number, folder, assignments of its values; a copy
    #: of the file that names the points; what became of each, once the attempt is over.
    tasks = _own("tasks")
    task_head, task_list = _own("tasks/head.json"), _own("tasks/list")
    task_points, task_record = _own("tasks/points"), _own("tasks/record.jsonl")

    @property
    def starts(self) -> Path:
        """Where its jobs claim their start once more, away from the stage's folder."""
        return self.root / ".wfctl" / contract.STARTS / f"{self.stage}.{self.name}"

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
