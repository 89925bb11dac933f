"""What the use cases of the job side need: the service, the runner, and somebody to talk to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from lifecycle.payload import Payload
from lifecycle.workflow import Stage, Workflow
from reconciler.attempt import Attempt
from reconciler.errors import AlreadyDriven
from reconciler.runner import JobRunner
from service.clock import utc_text
from service.disk import locked
from service.errors import RootBusy
from service.service import Outcome, Service, WriteOptions

Say = Callable[[str], None]
"""Takes a sentence for the person who watches."""

Tell = Callable[[Outcome], None]
"""Takes what was just recorded."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """The collaborators of dispatch, reconcile, verify and run."""

    service: Service
    runner: JobRunner
    say: Say
    tell: Tell

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

    def record_each(self, *commands: tuple[Payload, str | None]) -> Outcome:
        """Record commands in one append, each with when it was so, None for now."""
        moments = tuple(at for _, at in commands)
        asked = (command for command, _ in commands)
        outcome = self.service.handle(*asked, options=WriteOptions(occurred_each=moments))
        self.tell(outcome)
        return outcome

    def attempt(self, state: Workflow, stage: Stage, id_: str) -> Attempt:
        """Return where an attempt of the stage keeps its files."""
        return Attempt(self.root, state.id, stage.id, id_, tuple(stage.outputs))

    @contextmanager
    def sole(self, stage: str, timeout: float = 120) -> Iterator[None]:
        """Let no other process launch an attempt of the stage or record its end meanwhile.

        Raises `RootBusy` where another does so for longer than ``timeout`` seconds.
        """
        # Not in the stage's folder, which is kept under another name before the stage runs again.
        with locked(self.service.root.folder / f"{stage}.lock", timeout):
            yield

    @contextmanager
    def driving(self) -> Iterator[None]:
        """Let no second loop drive the workflow; raises `AlreadyDriven` where one does."""
        lock = self.service.root.folder / "run.lock"
        with ExitStack() as held:
            try:
                held.enter_context(locked(lock, timeout=0))
            except RootBusy as busy:
                raise AlreadyDriven(lock) from busy
            yield
