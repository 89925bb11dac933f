"""Extract the runs, rounds and plan changes that the format ``ro-crate`` describes.

Values that the log does not contain are None or empty. The crate leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from eventstore.event import Actor, RecordedEvent
from extensions.exports.formats import Steps, find_event_amendment
from lifecycle.state.loops import Round
from lifecycle.state.status import Status
from lifecycle.state.workflow import Amendment, Workflow
from projections.words.amendments import describe_amendment


class File(NamedTuple):
    """A file at a moment: its path in the workflow folder, its size, and its SHA-256."""

    path: str
    size: int
    sha256: str


def drop_end_before_start(start: str | None, end: str | None) -> tuple[str | None, str | None]:
    """Return the start time and the end time, or None for an end before the start.

    Such an end was recorded by a different clock.
    """
    if start and end and datetime.fromisoformat(end) < datetime.fromisoformat(start):
        return start, None
    return start, end


@dataclass(slots=True)
class Run:
    """One attempt of a stage.

    ``attempt`` is None if the run is known only from an imported state file. ``start`` and ``end``
    are ISO 8601 times with an offset. ``plan`` is the version of the workflow at the start.
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
    #: The optimisation loop of the stage, and the round in which the attempt ran.
    loop: str | None = None
    round: int | None = None
    #: The commit of the code with which the attempt ran, in the form of `CodeVersion`.
    code: dict[str, Any] | None = None
    #: Numbers that were read from the outputs, in the form of `MeasuredNumber`.
    metrics: list[dict[str, Any]] = field(default_factory=list)
    completed: bool | None = None
    error: str | None = None

    @property
    def id(self) -> str:
        """A name for the run that is unique in its workflow."""
        return f"{self.stage}.{self.attempt}" if self.attempt is not None else self.stage


@dataclass(slots=True)
class PlanChange:
    """An amendment (plan change) and its status: proposed, approved or rejected."""

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


class LoopRound(NamedTuple):
    """One round of an optimisation loop: the origin of its points, and its attempts.

    ``files`` are the files with the points of the round. ``asked`` is the stage that chose the
    points, if a stage did. ``proposer`` is the person or program that chose them, if no stage did.
    """

    loop: str
    told: Round
    runs: list[Run]
    files: list[File]
    asked: str | None
    proposer: Actor | None
    before: LoopRound | None

    @property
    def result_runs(self) -> list[Run]:
        """The attempts that gave the round's results: the last completed one per stage."""
        return list({run.stage: run for run in self.runs if run.completed}.values())

    @property
    def start(self) -> str | None:
        """The time when the points were chosen.

        The first round has its points from the plan, so it starts with its first attempt.
        """
        return self.told.began_at or (self.runs[0].start if self.runs else None)


class Beginning(NamedTuple):
    """The time and the actor of the workflow's first event."""

    at: str
    actor: Actor


Told = Beginning | Run | PlanChange | LoopRound


def iterate_provenance(steps: Steps) -> Iterator[Told]:
    """Yield everything that a crate describes, from the events of a workflow.

    The order is: the first event, finished runs and decided plan changes, unfinished runs and
    undecided changes, and the rounds of loops.
    """
    runs: dict[str, Run] = {}
    changes: dict[str, PlanChange] = {}
    looped: list[Run] = []
    state: Workflow | None = None
    for event, state in steps:
        if event.version == 1:
            yield Beginning(event.occurred_at, event.actor)
        if amended := find_event_amendment(event, state):
            yield from _take_in_change(changes, event, *amended)
        elif event.data.get("stage") in runs or event.type == "attempt.started":
            for run in _take_in_run_event(runs, event, state):
                yield run
                looped += [run] if run.loop else []
    yield from runs.values()
    yield from changes.values()
    if state is None:
        return
    yield from _iterate_imported_runs(state)
    yield from _iterate_rounds(state, [*looped, *(run for run in runs.values() if run.loop)])


def _iterate_imported_runs(state: Workflow) -> Iterator[Run]:
    """Yield the runs that are known only from an imported file, with their times if known."""
    for stage in state.stages.values():
        if stage.status is Status.COMPLETED and not stage.attempts:
            start, end = _parse_instant(stage.started_at), _parse_instant(stage.completed_at)
            yield Run(stage.id, stage.name, None, state.version, start, end, completed=True)


def _iterate_rounds(state: Workflow, runs: list[Run]) -> Iterator[LoopRound]:
    """Yield the started rounds of each optimisation loop."""
    made = {(one.path, one.sha256): one for run in runs for one in run.outputs}
    of_rounds: dict[tuple[str | None, int | None], list[Run]] = {}
    for run in runs:
        of_rounds.setdefault((run.loop, run.round), []).append(run)
    for name, loop in state.loops.items():
        before = None
        for one in loop.rounds:
            own = of_rounds.get((name, one.number), [])
            if not (own or one.began_at):
                continue
            files = [made[key] for key in one.data.items() if key in made]
            kind, _, who = (one.by or "").partition(":")
            asked = who if kind == "stage" else None
            proposer = Actor(kind, who) if who and not asked else None
            before = LoopRound(name, one, own, files, asked, proposer, before)
            yield before


def _take_in_run_event(
    runs: dict[str, Run], event: RecordedEvent, state: Workflow
) -> Iterator[Run]:
    """Process an event of a stage, and yield the run that the event ends, if any."""
    stage = event.data["stage"]
    run, error = runs.get(stage), None
    if event.type == "attempt.started":
        runs.pop(stage, None)  # Open runs are listed in the order in which they started.
        runs[stage] = _start_run(event, state)
        error = "it was lost"
    elif run is not None and event.type == "stage.computed":
        run.end = event.occurred_at
        return
    elif run is not None and event.type == "stage.completed":
        run.outputs = _list_files(event.data.get("outputs"))
        del runs[stage]
    elif event.type == "stage.failed":
        error = event.data["error"]
        del runs[stage]
    else:
        return
    if run is not None:
        run.metrics = event.data.get("metrics") or []
        run.end = run.end or event.occurred_at
        run.completed, run.error = error is None, error
        yield run


def _take_in_change(
    changes: dict[str, PlanChange], event: RecordedEvent, of: Amendment, is_new: bool
) -> Iterator[PlanChange]:
    at, actor = event.occurred_at, event.actor
    if is_new:
        change = PlanChange(of.id, of.kind, of.stage, describe_amendment(of), at, actor)
        changes.setdefault(of.id, change)
    elif of.id in changes:
        change = changes.pop(of.id)
        change.status, change.version = of.status, of.version
        change.decided_at, change.decider = at, actor
        if of.mandate is not None:  # The actor who recorded the event did not decide.
            change.decider = None
            change.description += f"; approved by {of.approved_by}, which was granted beforehand"
        yield change


def _start_run(event: RecordedEvent, state: Workflow) -> Run:
    data, stage = event.data, state.stages[event.data["stage"]]
    loop = state.loop_of(stage.id)
    return Run(
        stage.id,
        stage.name,
        data["attempt"],
        state.version,
        start=event.occurred_at,
        actor=event.actor,
        host=data.get("host"),
        inputs=[*_list_files(data.get("inputs")), *_find_round_points_file(state, stage.id)],
        parameters=dict(stage.parameters),
        loop=loop,
        round=state.loops[loop].round.number if loop else None,
        code=data.get("code"),
    )


def _find_round_points_file(state: Workflow, stage: str) -> list[File]:
    """Return the file with the points of the current round, if the stage computes them.

    The result is an empty list for any other stage.
    """
    name = state.loop_of(stage)
    if name is None or state.loop(name).points != stage:
        return []
    source, asked = (
        state.loops[name].round.source,
        state.stages.get(state.loop(name).points_source_stage),
    )
    return [one for one in _list_files(asked.results if asked else []) if one.path == source]


def _list_files(digests: list[dict[str, Any]] | None) -> list[File]:
    return [File(d["path"], d["size"], d["sha256"]) for d in digests or []]


def _parse_instant(moment: str | None) -> str | None:
    """Return the time in ISO 8601 form, or None if it is invalid or has no UTC offset."""
    try:
        found = datetime.fromisoformat(moment or "")
    except ValueError:
        return None
    return found.isoformat().replace("+00:00", "Z") if found.tzinfo is not None else None
