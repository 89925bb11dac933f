"""The objects that functions on jobs need: the service, the job runner and the message output."""

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
from reconciler.host.program import is_held
from reconciler.host.stage_lock import hold_free_stages, hold_stage
from service.errors import RootBusy
from service.root.atomic_files import hold_lock, utc_text
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome, Service

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload


class Mode(StrEnum):
    """How a monitor is started."""

    TMUX = "tmux"
    SETSID = "setsid"
    SYNC = "sync"


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """The result of a launch.

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
    """The facts about a submission that an attempt's files contain.

    Unknown facts are None or empty. ``host`` and ``boot_id`` identify the monitor's machine,
    ``job_host`` and ``job_boot_id`` the machine of the jobs if it is another one.
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
        """Return the fields by name, sequences as lists."""
        return {**asdict(self), "job_hashes": list(self.job_hashes), "job_ids": list(self.job_ids)}


class JobRunner(Protocol):
    """Runs the jobs of attempts, one submission and one run each."""

    def check(self, attempt: AttemptPaths, submission: Mapping[str, Any]) -> str:
        """Check the submission of the attempt like ``prepare``, and write nothing.

        Returns its SHA-256.

        Raises any error of ``prepare``.
        """

    def prepare(self, attempt: AttemptPaths, submission: Mapping[str, Any]) -> str:
        """Write and check the submission of the attempt, and return its SHA-256.

        Starts no computation, and does not change files of a person or agent. Raises
        UnusableSubmission, RejectedSubmission or ProgramMissing.
        """

    def launch(self, attempt: AttemptPaths, mode: Mode) -> LaunchResult:
        """Start a monitor of a prepared attempt.

        A second call for the same attempt attaches to it. Even after a crash, a computation that
        has started is never started again, and a completed one is collected. Returns when the
        monitor has started its work. A monitor that is killed before that is started once more.
        Raises AlreadyMonitored, LaunchFailed or ProgramMissing.
        """

    def wait(self, attempt: AttemptPaths, timeout: float | None = None) -> bool:
        """Wait until the stage has no running monitor.

        Return False after ``timeout`` seconds.
        """

    def facts(self, attempt: AttemptPaths) -> SubmissionFacts:
        """Return the known facts about the submission, using only the attempt's files."""


#: Maximum time in seconds that a check may hold the loop's lock.
_LOOK = 0.5


class Say(Protocol):
    """Prints a sentence for the user, together with its subject, such as a stage or an attempt."""

    def __call__(self, text: str, *, level: str = "info", **about: Any) -> None:
        """Print the sentence. ``level`` is debug, info, warning or error."""


Tell = Callable[[Outcome], None]
"""Prints the result of a command that was just recorded."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """The collaborators of dispatch, reconcile, verify and run."""

    service: Service
    runner: JobRunner
    say: Say
    tell: Tell
    #: Called repeatedly with the state and the ids of the stages whose attempts a caller waits for.
    waits: Callable[[Workflow, Collection[str]], None] = lambda _state, _ids: None

    @property
    def root(self) -> Path:
        """The workflow root."""
        return self.service.root.path

    def acting_as(self, kind: str) -> Jobs:
        """Return these objects with the caller in another role."""
        return replace(self, service=self.service.acting_as(kind))

    def now(self) -> str:
        """Return the current time in the log's format."""
        return utc_text(self.service.clock())

    def record(self, *commands: Payload, occurred_at: str | None = None) -> Outcome:
        """Record commands of the reconciler and print their events."""
        outcome = self.service.handle(*commands, options=WriteOptions(occurred_at=occurred_at))
        self.tell(outcome)
        return outcome

    def record_each(
        self,
        *commands: tuple[Payload, str | None],
        known: Workflow | None = None,
        options: WriteOptions | None = None,
    ) -> Outcome:
        """Record commands in one append, each with its time, or None for the current time.

        ``known`` is the state for which the commands were chosen, so that it is not read again.
        """
        times = tuple(at for _, at in commands)
        options = replace(options or WriteOptions(known=known), occurred_each=times)
        outcome = self.service.handle(*(command for command, _ in commands), options=options)
        self.tell(outcome)
        return outcome

    def attempt(
        self, state: Workflow, stage: Stage, id_: str, *, diagnostic: bool = False
    ) -> AttemptPaths:
        """Return the paths of an attempt of the stage.

        A ``diagnostic`` attempt has no outputs except the stdout and stderr of its job. An attempt
        that is not recorded yet gets a new mark.
        """
        from reconciler.attempt import paths  # only needed if a job runs
        from reconciler.submission.build import ERROR_LOG, OUTPUT_LOG

        known = next((one for one in stage.attempts if one.id == id_), None)
        logs = tuple(f"{stage.id}/{name}" for name in (OUTPUT_LOG, ERROR_LOG))
        of_logs = diagnostic or (known is not None and known.diagnostic)
        outputs = logs if of_logs else tuple(stage.work.job_outputs(stage.declared_outputs))
        if known is None:
            mark = paths.new_mark()
            return paths.AttemptPaths(self.root, state.id, stage.id, id_, outputs, mark)
        return paths.of_recorded(self.root, state.id, stage.id, known, outputs)

    @contextmanager
    def sole(self, stage: str, timeout: float = 120) -> Iterator[None]:
        """Prevent other processes from launching an attempt of the stage or recording its end.

        Raises `RootBusy` if another process does so for more than ``timeout`` seconds.
        """
        with hold_stage(self._holds, stage, timeout):
            yield

    @contextmanager
    def sole_of(self, stages: Sequence[str]) -> Iterator[set[str]]:
        """Hold the stages that no other process holds, like `sole`, and yield their ids."""
        with hold_free_stages(self._holds, stages) as mine:
            yield mine

    @property
    def _holds(self) -> Path:
        # The stage's own folder is renamed before the next run, so it cannot contain the lock.
        return self.service.root.folder / "stages.lock"

    @contextmanager
    def driving(self) -> Iterator[None]:
        """Prevent a second loop from driving the workflow.

        Raises `AlreadyDriven` if one runs.
        """
        with ExitStack() as taken:
            try:
                taken.enter_context(hold_lock(self._loop, timeout=_LOOK))
            except RootBusy as busy:
                raise AlreadyDriven(self._loop) from busy
            yield

    def is_driven(self) -> bool | None:
        """Return whether a loop drives the workflow now, or None if its lock cannot be read."""
        return is_held(self._loop)

    @property
    def _loop(self) -> Path:
        return self.service.root.folder / "run.lock"
