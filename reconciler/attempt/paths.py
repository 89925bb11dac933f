"""Where an attempt keeps its files. Paths alone: nothing here looks at the disk."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.words.values import is_id
from reconciler.attempt import contract
from reconciler.attempt.contract import JOB, OfJob
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
        return self.stage_folder / contract.ATTEMPTS / self.name

    @property
    def starts(self) -> Path:
        """Where its jobs claim their start once more, away from the stage's folder."""
        return self.root / ".wfctl" / contract.STARTS / f"{self.stage}.{self.name}"

    @property
    def submission(self) -> Path:
        """The attempt's copy: what is really submitted."""
        return self.folder / contract.SUBMITTED

    @property
    def work(self) -> Path:
        """Where DPDispatcher makes the scratch copies unless the profile names a place."""
        return self.folder / contract.WORK

    @property
    def log(self) -> Path:
        """Everything that DPDispatcher printed for this attempt."""
        return self.folder / contract.LOG

    @property
    def monitor_log(self) -> Path:
        """What the wrapper itself printed."""
        return self.folder / contract.MONITOR_LOG

    @property
    def launch_record(self) -> Path:
        """Where and with what the attempt was first launched; its age is the launch's."""
        return self.folder / contract.LAUNCH_RECORD

    @property
    def machine_record(self) -> Path:
        """Where the attempt's jobs run, without anything that lets one in."""
        return self.folder / contract.MACHINE_RECORD

    @property
    def place_record(self) -> Path:
        """Which machine the attempt's folder was made on, where that is another one."""
        return self.folder / contract.PLACE_RECORD

    @property
    def environment_record(self) -> Path:
        """The environment of the attempt's jobs."""
        return self.folder / contract.ENVIRONMENT_RECORD

    @property
    def last_words(self) -> Path:
        """How the scheduler said that it ended jobs, by id."""
        return self.folder / contract.LAST_WORDS

    @property
    def barrier(self) -> Path:
        """Keeps every job that comes late from starting its command."""
        return self.folder / contract.BARRIER

    @property
    def kept(self) -> Path:
        """What the jobs wrote and has no other place yet."""
        return self.folder / contract.LEFT

    @property
    def left_list(self) -> Path:
        """Every file that the attempt left, and where it is."""
        return self.folder / contract.LEFT_LIST

    @property
    def logs(self) -> tuple[str, str]:
        """What the jobs print on stdout and stderr, relative to the root."""
        return f"{self.stage}/log", f"{self.stage}/err"

    @property
    def monitor_record(self) -> Path:
        """Which process is the monitor."""
        return self.folder / contract.MONITOR_RECORD

    @property
    def monitor_lock(self) -> Path:
        """Held for as long as a monitor of this stage lives."""
        return self.stage_folder / contract.MONITOR_LOCK

    @property
    def wrapper(self) -> Path:
        """The script that watches the attempt."""
        return self.stage_folder / contract.WRAPPER

    @property
    def exit_code_record(self) -> Path:
        """The monitor's exit code, bound to its attempt."""
        return self.folder / contract.EXIT_RECORD

    @property
    def exit_code_marker(self) -> Path:
        """The monitor's exit code alone, for those who compare it with a number."""
        return self.stage_folder / contract.EXIT_CODE

    def of_job(self, job: str, what: OfJob) -> Path:
        """Where a job of the attempt, by its name, tells this of itself."""
        return self.folder / f"{JOB}{job}{what}"

    @property
    def done_marker(self) -> Path:
        """Says that the monitor is through, bound to its attempt."""
        return self.stage_folder / contract.DONE


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
