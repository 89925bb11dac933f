"""The objects that all functions on jobs need: the service, the job runner and the output."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lifecycle.state.workflow import Stage, Workflow
from reconciler.attempt.paths import AttemptPaths
from reconciler.errors import AlreadyDriven
from reconciler.host.file_locks import is_lock_held
from reconciler.host.stage_lock import hold_free_stages, hold_stage
from service.errors import RootBusy
from service.root.atomic_files import hold_lock, utc_text
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome, Service

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload


class Mode(StrEnum):
    """The ways to start a monitor, the process that watches a job."""

    TMUX = "tmux"
    SETSID = "setsid"
    SYNC = "sync"


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """The result of starting a monitor, which is the process that watches a job.

    ``mode`` is the mode that was used. If it differs from the requested mode, ``note`` explains
    this in a sentence for the caller to print. ``session`` is the tmux session, ``pid`` the
    monitor's process id.
    """

    mode: Mode
    session: str | None = None
    pid: int | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class SubmissionFacts:
    """The facts about a submission that are known from the files of its attempt.

    Unknown facts are None or empty. ``host`` and ``boot_id`` identify the machine of the monitor.
    ``job_host`` and ``job_boot_id`` identify the machine of the jobs if it is another machine.
    """

    submission_hash: str | None = None
    job_hashes: tuple[str, ...] = ()
    job_ids: tuple[str, ...] = ()
    work_dir: str | None = None
    dpdispatcher_version: str | None = None
    host: str | None = None
    boot_id: str | None = None
    job_host: str | None = None
    job_boot_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict for JSON, with lists instead of tuples."""
        return {**asdict(self), "job_hashes": list(self.job_hashes), "job_ids": list(self.job_ids)}


class JobRunner(Protocol):
    """An interface for running the jobs of attempts.

    Each attempt has one submission and one run.
    """

    def check(self, attempt: AttemptPaths, submission: Mapping[str, Any]) -> str:
        """Check the submission of the attempt, write nothing, and return its SHA-256.

        Raises the same errors as ``prepare``.
        """

    def prepare(self, attempt: AttemptPaths, submission: Mapping[str, Any]) -> str:
        """Check the submission of the attempt, write it to a file, and return its SHA-256.

        Starts no computation, and does not change files of a person or agent. Raises
        UnusableSubmission, RejectedSubmission or ProgramMissing.
        """

    def launch(self, attempt: AttemptPaths, mode: Mode) -> LaunchResult:
        """Start a monitor (a process that watches the jobs) of a prepared attempt.

        Returns when the monitor has started its work. If the monitor is killed before that, it is
        started once more. A second call for the same attempt never starts a computation again, even
        after a crash: it watches a running computation and collects the results of a completed one.
        Raises AlreadyMonitored, LaunchFailed or ProgramMissing.
        """

    def wait(self, attempt: AttemptPaths, timeout: float | None = None) -> bool:
        """Wait until no monitor of the stage is running, and return True.

        Returns False if a monitor is still running after ``timeout`` seconds.
        """

    def facts(self, attempt: AttemptPaths) -> SubmissionFacts:
        """Return the facts about the attempt's submission that its files contain."""


#: Seconds to wait for the lock of the loop. A process that only checks the lock releases it sooner.
_LOOK = 0.5


class Say(Protocol):
    """A function that prints a sentence for the user.

    The keyword arguments name the subject of the sentence, such as a stage or an attempt.
    """

    def __call__(self, text: str, *, level: str = "info", **about: Any) -> None:
        """Print the sentence. ``level`` is debug, info, warning or error."""


Tell = Callable[[Outcome], None]
"""Prints the result of a command that was just recorded."""


@dataclass(frozen=True, slots=True)
class JobContext:
    """The objects that functions on jobs need: service, job runner and output."""

    service: Service
    runner: JobRunner
    say: Say
    tell: Tell
    #: Function that is called repeatedly while a caller waits for attempts. It gets the state and
    #: the ids of their stages.
    waits: Callable[[Workflow, Collection[str]], None] = lambda _state, _ids: None

    @property
    def root(self) -> Path:
        """The workflow root."""
        return self.service.root.path

    def acting_as(self, kind: str) -> JobContext:
        """Return a copy of this object whose commands are recorded under another role."""
        return replace(self, service=self.service.acting_as(kind))

    def now(self) -> str:
        """Return the current time as text in the format of the log."""
        return utc_text(self.service.clock())

    def record(self, *commands: Payload, occurred_at: str | None = None) -> Outcome:
        """Record commands in the log, print the resulting events, and return the outcome."""
        outcome = self.service.handle(*commands, options=WriteOptions(occurred_at=occurred_at))
        self.tell(outcome)
        return outcome

    def record_each(
        self,
        *commands: tuple[Payload, str | None],
        known: Workflow | None = None,
        options: WriteOptions | None = None,
    ) -> Outcome:
        """Record commands in one append to the log, each with its own time.

        A time of None means the current time. ``known`` is the state that the caller used to choose
        the commands. It saves reading the state again.
        """
        times = tuple(at for _, at in commands)
        options = (options or WriteOptions(known=known))._replace(occurred_each=times)
        outcome = self.service.handle(*(command for command, _ in commands), options=options)
        self.tell(outcome)
        return outcome

    def attempt(
        self, state: Workflow, stage: Stage, id_: str, *, diagnostic: bool = False
    ) -> AttemptPaths:
        """Return the paths of the attempt ``id_`` of the stage.

        A ``diagnostic`` attempt has no outputs except the stdout and stderr of its job. An attempt
        that is not recorded yet gets a new random mark.
        """
        from reconciler.attempt import paths  # only needed if a job runs
        from reconciler.attempt.paths import ERROR_LOG, OUTPUT_LOG

        known = next((one for one in stage.attempts if one.id == id_), None)
        logs = tuple(f"{stage.id}/{name}" for name in (OUTPUT_LOG, ERROR_LOG))
        of_logs = diagnostic or (known is not None and known.diagnostic)
        outputs = logs if of_logs else tuple(stage.work.job_outputs(stage.declared_outputs))
        if known is None:
            mark = paths.generate_attempt_mark()
            return paths.AttemptPaths(self.root, state.id, stage.id, id_, outputs, mark)
        return paths.recorded_attempt_paths(self.root, state.id, stage.id, known, outputs)

    @contextmanager
    def lock_stage(self, stage: str, timeout: float = 120) -> Iterator[None]:
        """Lock a stage against launches and recorded ends by other processes.

        Raises `RootBusy` if another process holds the lock for more than ``timeout`` seconds.
        """
        with hold_stage(self._holds, stage, timeout):
            yield

    @contextmanager
    def lock_free_stages(self, stages: Sequence[str]) -> Iterator[set[str]]:
        """Lock the given stages as `lock_stage` does, and yield their ids.

        Stages that another process has locked are skipped.
        """
        with hold_free_stages(self._holds, stages) as mine:
            yield mine

    @property
    def _holds(self) -> Path:
        # The stage's own folder is renamed before the next run, so it cannot contain the lock.
        return self.service.root.folder / "stages.lock"

    @contextmanager
    def lock_workflow_loop(self) -> Iterator[None]:
        """Prevent other processes from running the loop that drives the workflow.

        Raises `AlreadyDriven` if such a loop is already running.
        """
        with ExitStack() as taken:
            try:
                taken.enter_context(hold_lock(self._loop, timeout=_LOOK))
            except RootBusy as busy:
                raise AlreadyDriven(self._loop) from busy
            yield

    def is_driven(self) -> bool | None:
        """Return whether a `wfctl run` loop drives the workflow now.

        Returns None if the lock of the loop cannot be read.
        """
        return is_lock_held(self._loop)

    @property
    def _loop(self) -> Path:
        return self.service.root.folder / "run.lock"
