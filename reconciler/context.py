"""What the use cases of the job side need: the service, the runner, and somebody to talk to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from reconciler.attempt.paths import AttemptPaths
from reconciler.errors import AlreadyDriven
from reconciler.host.program import held, held_if_free, is_held
from service.errors import RootBusy
from service.root.disk import locked, utc_text
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
    """What a launch came to.

    ``mode`` is the one that was used, which differs from the one asked for where ``note`` says
    so in a sentence for the caller to print. ``session`` is the tmux session, ``pid`` the
    monitor's.
    """

    mode: Mode
    session: str | None = None
    pid: int | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class SubmissionFacts:
    """What the files of an attempt tell about its submission; None or empty if they do not.

    ``host`` and ``boot_id`` are the monitor's machine, ``job_host`` and ``job_boot_id`` that of
    the jobs where it is another one.
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
        """Check what the attempt would submit, as ``prepare`` does; write nothing.

        Returns its SHA-256.

        Raises what ``prepare`` raises.
        """

    def prepare(self, attempt: AttemptPaths, submission: Mapping[str, Any]) -> str:
        """Write what the attempt submits, have it checked, and return its SHA-256.

        Starts no computation, and leaves what a person or agent wrote as it is. Raises
        UnusableSubmission, RejectedSubmission, ProgramMissing.
        """

    def launch(self, attempt: AttemptPaths, mode: Mode) -> LaunchResult:
        """Start a monitor of a prepared attempt.

        Called again for the same attempt it attaches: whatever was killed in between, a
        computation of this attempt that has started is never started again, and one that is
        over is collected. Returns when the monitor has taken up its work; one that is killed before
        that is started once more. Raises AlreadyMonitored, LaunchFailed, ProgramMissing.
        """

    def wait(self, attempt: AttemptPaths, timeout: float | None = None) -> bool:
        """Wait until no monitor of the stage lives; False after ``timeout`` seconds."""

    def facts(self, attempt: AttemptPaths) -> SubmissionFacts:
        """Return what is known of the submission, from the attempt's files alone."""


#: Seconds for which a look at the loop's lock may hold it.
_LOOK = 0.5


class Say(Protocol):
    """Takes a sentence for anyone who watches, and what it is about: a stage, an attempt."""

    def __call__(self, text: str, *, level: str = "info", **about: Any) -> None:
        """Say it; ``level`` is debug, info, warning or error."""


Tell = Callable[[Outcome], None]
"""Takes what was just recorded."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """The collaborators of dispatch, reconcile, verify and run."""

    service: Service
    runner: JobRunner
    say: Say
    tell: Tell
    #: Is told, again and again, in which state somebody waits for the attempts of which stages.
    waits: Callable[[Workflow, Collection[str]], None] = lambda _state, _ids: None

    @property
    def root(self) -> Path:
        """The workflow root."""
        return self.service.root.path

    def acting_as(self, kind: str) -> Jobs:
        """Return the same with the caller in another role."""
        return replace(self, service=self.service.acting_as(kind))

    def now(self) -> str:
        """Return the time now in the log's form."""
        return utc_text(self.service.clock())

    def record(self, *commands: Payload, occurred_at: str | None = None) -> Outcome:
        """Record commands of the reconciler and tell of them."""
        outcome = self.service.handle(*commands, options=WriteOptions(occurred_at=occurred_at))
        self.tell(outcome)
        return outcome

    def record_each(
        self,
        *commands: tuple[Payload, str | None],
        known: Workflow | None = None,
        options: WriteOptions | None = None,
    ) -> Outcome:
        """Record commands in one append, each with when it was so, None for now.

        ``known``: the state that they were chosen in, which is not read again then.
        """
        times = tuple(at for _, at in commands)
        options = replace(options or WriteOptions(known=known), occurred_each=times)
        outcome = self.service.handle(*(command for command, _ in commands), options=options)
        self.tell(outcome)
        return outcome

    def attempt(
        self, state: Workflow, stage: Stage, id_: str, *, diagnostic: bool = False
    ) -> AttemptPaths:
        """Return where an attempt of the stage keeps its files.

        One that is ``diagnostic``, as it is recorded or as it is to be, has no outputs but what
        the job wrote on stdout and stderr. One that is not recorded yet gets a mark of its own.
        """
        from reconciler.attempt import paths  # of no use if nothing runs
        from reconciler.submission.build import ERROR_LOG, OUTPUT_LOG

        known = next((one for one in stage.attempts if one.id == id_), None)
        logs = tuple(f"{stage.id}/{name}" for name in (OUTPUT_LOG, ERROR_LOG))
        of_logs = diagnostic or (known is not None and known.diagnostic)
        # The table of a sweep is made here, once its tasks are over; no job leaves it.
        left = [] if is_sweep(stage.parameters) else stage.declared_outputs
        outputs = logs if of_logs else tuple(left)
        if known is None:
            mark = paths.new_mark()
            return paths.AttemptPaths(self.root, state.id, stage.id, id_, outputs, mark)
        return paths.of_recorded(self.root, state.id, stage.id, known, outputs)

    @contextmanager
    def sole(self, stage: str, timeout: float = 120) -> Iterator[None]:
        """Let no other process launch an attempt of the stage or record its end meanwhile.

        Raises `RootBusy` where another does so for longer than ``timeout`` seconds.
        """
        with held(self._holds, stage, timeout):
            yield

    @contextmanager
    def sole_of(self, stages: Sequence[str]) -> Iterator[set[str]]:
        """As `sole`, for those of the stages that nobody else holds; yields which they are."""
        with held_if_free(self._holds, stages) as mine:
            yield mine

    @property
    def _holds(self) -> Path:
        # Not in the stage's folder, which is kept under another name before the stage runs again.
        return self.service.root.folder / "stages.lock"

    @contextmanager
    def driving(self) -> Iterator[None]:
        """Let no second loop drive the workflow; raises `AlreadyDriven` where one does."""
        with ExitStack() as taken:
            try:
                taken.enter_context(locked(self._loop, timeout=_LOOK))
            except RootBusy as busy:
                raise AlreadyDriven(self._loop) from busy
            yield

    def is_driven(self) -> bool | None:
        """Say whether a loop drives the workflow now; None if its lock does not tell."""
        return is_held(self._loop)

    @property
    def _loop(self) -> Path:
        return self.service.root.folder / "run.lock"
