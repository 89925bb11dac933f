"""Who made what from what: the runs and the changes that ``prov`` and ``ro-crate`` tell of.

What the log does not say is None or empty here, and is left out there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from eventstore.event import Actor, RecordedEvent
from lifecycle.state.status import Status
from lifecycle.state.workflow import Amendment, Stage, Workflow
from projections.exports.formats import Steps, amended_by
from projections.words.amendments import told


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was: path in the root, bytes, SHA-256 in hex."""

    path: str
    size: int
    sha256: str


@dataclass(slots=True)
class Run:
    """One attempt of a stage; ``attempt`` is None where an imported state tells of the run alone.

    ``start`` and ``end`` are ISO 8601 with an offset. ``plan`` is the workflow's version then.
    """

    stage: str
    name: str
    attempt: str | None
    plan: int
    start: str | None = None
    end: str | None = None
    actor: Actor | None = None
    host: str | None = None
    inputs: list[File] = field(default_factory=list)
    outputs: list[File] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)
    completed: bool | None = None
    error: str | None = None

    @property
    def id(self) -> str:
        """Name of the run in its workflow."""
        return f"{self.stage}.{self.attempt}" if self.attempt is not None else self.stage


@dataclass(slots=True)
class PlanChange:
    """An amendment, as far as it came: proposed, approved or rejected."""

    id: str
    kind: str
    stage: str | None
    description: str
    proposed_at: str | None
    proposer: Actor | None
    status: str = "proposed"
    decided_at: str | None = None
    decider: Actor | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Beginning:
    """The workflow's first event."""

    at: str
    actor: Actor


Told = Beginning | Run | PlanChange


def provenance(steps: Steps) -> Iterator[Told]:
    """Yield the beginning, then each run and change once it is over, then those that are not."""
    fold = _Provenance()
    state: Workflow | None = None
    for event, state in steps:
        if event.version == 1:
            yield Beginning(event.occurred_at, event.actor)
        yield from fold.add(event, state)
    if state is not None:
        yield from fold.rest(state)


class _Provenance:
    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._changes: dict[str, PlanChange] = {}

    def add(self, event: RecordedEvent, state: Workflow) -> Iterator[Told]:
        match event.type:
            case "attempt.started":
                yield from self._close(event.data["stage"], event.occurred_at, "it was lost")
                self._runs[event.data["stage"]] = _begun(event, state)
            case "stage.computed" if event.data["stage"] in self._runs:
                self._runs[event.data["stage"]].end = event.occurred_at
            case "stage.completed" if event.data["stage"] in self._runs:
                self._runs[event.data["stage"]].outputs = _files(event.data.get("outputs"))
                yield from self._close(event.data["stage"], event.occurred_at, None)
            case "stage.failed":
                yield from self._close(event.data["stage"], event.occurred_at, event.data["error"])
            case _ if amended := amended_by(event, state):
                yield from self._change(event, *amended)

    def _close(self, stage: str, at: str, error: str | None) -> Iterator[Run]:
        run = self._runs.pop(stage, None)
        if run is not None:
            run.end = run.end or at
            run.completed, run.error = error is None, error
            yield run

    def _change(
        self, event: RecordedEvent, amendment: Amendment, is_new: bool
    ) -> Iterator[PlanChange]:
        at, actor, of = event.occurred_at, event.actor, amendment
        if is_new:
            change = PlanChange(of.id, of.kind, of.stage, told(of), at, actor)
            self._changes.setdefault(of.id, change)
        elif of.id in self._changes:
            change = self._changes.pop(of.id)
            change.status, change.version = of.status, of.version
            change.decided_at, change.decider = at, actor
            yield change

    def rest(self, state: Workflow) -> Iterator[Told]:
        yield from self._runs.values()
        yield from self._changes.values()
        for stage in state.stages.values():
            if stage.status is Status.COMPLETED and not stage.attempts:
                yield _imported(stage, state)


def _begun(event: RecordedEvent, state: Workflow) -> Run:
    data, stage = event.data, state.stages[event.data["stage"]]
    return Run(
        stage.id,
        stage.name,
        data["attempt"],
        state.version,
        start=event.occurred_at,
        actor=event.actor,
        host=data.get("host"),
        inputs=_files(data.get("inputs")),
        parameters=dict(stage.parameters),
    )


def _imported(stage: Stage, state: Workflow) -> Run:
    """Return the run that only a file tells of: that there was one, and perhaps when."""
    start, end = instant(stage.started_at), instant(stage.completed_at)
    return Run(stage.id, stage.name, None, state.version, start, end, completed=True)


def _files(digests: list[dict[str, Any]] | None) -> list[File]:
    return [File(d["path"], d["size"], d["sha256"]) for d in digests or []]


def instant(moment: str | None) -> str | None:
    """Return a time that has an offset, None for one that was typed without."""
    try:
        found = datetime.fromisoformat(moment or "")
    except ValueError:
        return None
    return found.isoformat().replace("+00:00", "Z") if found.tzinfo is not None else None
