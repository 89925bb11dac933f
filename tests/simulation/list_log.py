"""A log that is a list in memory, and the service and job context that write to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lifecycle.state.workflow import Workflow
from reconciler.context import JobContext
from service.errors import RootBusy
from service.writing.stream_writer import PLAIN, Planned, WriteOptions
from service.writing.workflow_service import Outcome, plan_writes

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

#: A function that is called before and after each append, with the events and the state before.
Observer = Callable[[str, Planned, Workflow | None], None]


class ListLog:
    """The events of one workflow, with the state after each append."""

    stream = "simulated"

    def __init__(self, observe: Observer) -> None:
        self.observe = observe
        self.appends: list[tuple[Planned, Workflow]] = []

    @property
    def store(self) -> ListLog:
        """The store of the log, which answers `head`."""
        return self

    def head(self, _stream: str) -> Any:
        """Return an object with the version of the newest event."""
        return SimpleNamespace(version=self.state().head)

    def state(self) -> Workflow:
        """Return the current state."""
        return self.appends[-1][1]

    def append(self, before: Workflow | None, outcome: Outcome) -> bool:
        """Append the planned events. Return False if the log has changed since ``before``."""
        self.observe("before", outcome.planned, before)
        if before is not None and self.state().head != before.head:
            return False
        self.appends.append((outcome.planned, outcome.state))
        self.observe("after", outcome.planned, before)
        return True


class ListService:
    """Decides commands with the real rules, and appends their events to a `ListLog`."""

    def __init__(self, root: Path, log: ListLog, clock: Callable[[], datetime]) -> None:
        self.root = SimpleNamespace(path=root, folder=root / ".wfctl")
        self.log = log
        self.clock = clock
        self.writer = SimpleNamespace(record_refusal=lambda _commands, _refusal: None)
        #: Stages that a process has locked.
        self.locked: set[str] = set()

    def acting_as(self, _kind: str) -> ListService:
        """Return this service, because authors are not simulated."""
        return self

    def state(self) -> Workflow:
        """Return the current state."""
        return self.log.state()

    def first_answer(self, _options: WriteOptions, *_commands: Payload) -> Outcome | None:
        """Return None, because no simulated command has an id."""
        return None

    def rehearse(self, *commands: Payload) -> Outcome:
        """Return the events that the commands would record now."""
        return plan_writes(self.state(), commands, PLAIN, self.clock)

    def handle(self, *commands: Payload, options: WriteOptions = PLAIN) -> Outcome:
        """Decide the commands with the real rules, and record their events."""
        before: Workflow | None = options.known
        if before is None and self.log.appends:
            before = self.state()
        while True:
            outcome = plan_writes(before, commands, options, self.clock)
            if not outcome.planned or self.log.append(before, outcome):
                return outcome
            before = self.state()

    def write_report(self, _state: Workflow, _seen: object = None) -> None:
        """Write no report."""


@dataclass(frozen=True, slots=True)
class ListJobs(JobContext):
    """A job context whose locks exist only in memory."""

    @contextmanager
    def lock_stage(self, stage: str, timeout: float = 120) -> Iterator[None]:
        """Lock a stage. Raise `RootBusy` immediately if it is locked."""
        with self.lock_free_stages([stage]) as mine:
            if not mine:
                raise RootBusy(self.root, timeout)
            yield

    @contextmanager
    def lock_free_stages(self, stages: Sequence[str]) -> Iterator[set[str]]:
        """Lock the given stages that are free, and yield their ids."""
        locked: set[str] = self.service.locked  # type: ignore[attr-defined]
        mine = set(stages) - locked
        locked |= mine
        try:
            yield mine
        finally:
            locked -= mine
