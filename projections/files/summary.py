"""What a report begins with: what was asked, what came out, how sure it is, what people decided.

Facts alone, from the state and the log; the report as Markdown and the one as HTML spell them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any, TypeVar

from eventstore.event import RecordedEvent
from lifecycle.state.conditions import budget_of
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from projections.words.account import Seen, account
from projections.words.amendments import summary as changes_of
from projections.words.answers import answers
from projections.words.came_about import decided, is_taken_over, missing
from projections.words.text import spelled_json


@dataclass(slots=True)
class SessionRecord:
    """One session. Times are UTC; ``end`` is its reason, ``died`` or ``open``."""

    number: int
    started_at: str
    started_by: str
    driven: bool
    budget: float
    environment: dict[str, Any] | None = None
    ended_at: str | None = None
    end: str = "open"
    next: str | None = None
    cost: float = 0
    charges: list[dict[str, Any]] = field(default_factory=list)
    completed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def sessions(steps: Iterable[tuple[RecordedEvent, Workflow]]) -> list[SessionRecord]:
    """Return every session of a history that wfctl kept, the oldest first."""
    found: list[SessionRecord] = []
    for event, state in steps:
        if event.type == "session.started":
            if found and found[-1].end == "open":
                found[-1].end = "died"
            found.append(_started(event, state))
        elif found and found[-1].end == "open":
            _take_in(found[-1], event)
    return found


def _started(event: RecordedEvent, state: Workflow) -> SessionRecord:
    return SessionRecord(
        number=event.data["number"],
        started_at=event.occurred_at,
        started_by=str(event.actor),
        driven=event.data.get("driven", False),
        budget=budget_of(state),
        environment=event.data.get("environment"),
    )


def _take_in(session: SessionRecord, event: RecordedEvent) -> None:
    data = event.data
    match event.type:
        case "session.ended":
            session.ended_at, session.end = event.occurred_at, data["reason"]
            session.next = data.get("next")
        case "cost.charged":
            session.cost += data["weight"]
            session.charges.append({k: data[k] for k in ("stage", "weight", "work_class")})
        case "stage.completed":
            session.completed.append(data["stage"])
        case "stage.failed":
            session.failed.append(data["stage"])


@dataclass(slots=True)
class StageResult:
    """What the log says of one stage's work. Each of ``troubles`` has a time, a kind and a text."""

    completed: dict[str, Any] | None = None
    completed_by: str | None = None
    #: What the newest computation saw of its software, by name.
    versions: dict[str, Any] = field(default_factory=dict)
    troubles: list[tuple[str, str, str]] = field(default_factory=list)


def results(steps: Iterable[tuple[RecordedEvent, Workflow]]) -> dict[str, StageResult]:
    """Return by stage its newest completion, and all that went wrong and was put right."""
    found: dict[str, StageResult] = {}
    for _ in gathered(steps, found):
        pass
    return found


Step = TypeVar("Step", bound=tuple[RecordedEvent, Workflow])


def gathered(steps: Iterable[Step], found: dict[str, StageResult]) -> Iterator[Step]:
    """Yield the steps on, with what they say taken into ``found``: for another reader."""
    for step in steps:
        event = step[0]
        stage = event.data.get("stage")
        if isinstance(stage, str):
            if event.type == "stage.completed":
                result = found.setdefault(stage, StageResult())
                result.completed, result.completed_by = event.data, str(event.actor)
            elif event.type == "stage.computed":
                seen = event.data.get("facts", {}).get("environment")
                versions = seen if isinstance(seen, dict) else {}
                found.setdefault(stage, StageResult()).versions = versions
            elif event.type in _TROUBLES:
                _take_in_trouble(found.setdefault(stage, StageResult()), event)
        yield step


#: Type of an event → the kind of the trouble, and what is said of it.
_TROUBLES = {
    "stage.failed": ("failed", "{error}"),
    "stage.retried": ("put right", "retry {retry}: {fix}"),
    "attempt.started": ("lost", "{recovers} was lost; {attempt} took its place"),
    "results.adopted": ("adopted", "{paths}, changed by hand: {reason}"),
    "outputs.reused": (
        "reused", "outputs of {attempt}, which computed from the same; nothing was run"
    ),
    "stage.invalidated": ("invalidated", "{why}"),
}  # fmt: skip


def _take_in_trouble(result: StageResult, event: RecordedEvent) -> None:
    data = event.data
    if event.type == "attempt.started" and not data.get("recovers"):
        return
    kind, text = _TROUBLES[event.type]
    paths = ", ".join(one["path"] for one in data.get("outputs") or [])
    more = {"paths": paths, "why": data.get("reason") or data.get("amendment")}
    said = text.format_map({**data, **more})
    result.troubles.append((event.occurred_at, kind, said))


@dataclass(frozen=True, slots=True)
class MethodStep:
    """How a stage was computed, whole: anyone who reads it can do it again.

    ``files`` are what it read and ran, with their SHA-256; ``versions`` what was seen of the
    software, ``variables`` what its jobs were given and may be told.
    """

    stage: Stage
    command: str
    parameters: dict[str, Any]
    files: dict[str, str]
    ran_on: str
    versions: dict[str, Any]
    variables: dict[str, str]

    @property
    def parameters_as_json(self) -> str:
        """The parameters as an object with one on each line, in letters that can all be seen."""
        lines = (
            f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
            for name, value in self.parameters.items()
        )
        return spelled_json("{\n " + ",\n ".join(lines) + "\n}")


def method_of(state: Workflow, results: Mapping[str, StageResult]) -> list[MethodStep]:
    """Return how each stage that was computed, or is to be, is computed."""
    return [
        _step(state, stage, results.get(stage.id, StageResult()))
        for stage in state.stages.values()
        if stage.status is not Status.SKIPPED
    ]


def _step(state: Workflow, stage: Stage, result: StageResult) -> MethodStep:
    given = {str(name): value for name, value in stage.parameters.items()}
    command, source = given.pop("command", ""), stage.source
    files = dict.fromkeys(stage.inputs, "")
    if source is not None:
        files = {str(one["path"]): str(one.get("sha256") or "") for one in source.inputs}
        files |= source.scripts
    environment = source.environment if source is not None else None
    values = (environment or {}).get("values", {})
    return MethodStep(
        stage=stage,
        command=command if isinstance(command, str) else json.dumps(command),
        parameters=given,
        files=files,
        ran_on=_ran_on(state, stage),
        versions=result.versions,
        variables={name: values[name] for name in sorted(values) if name not in _OF_LOGIN},
    )


#: Variables that say nothing of a computation.
_OF_LOGIN = frozenset(
    {"HOME", "HISTCONTROL", "LS_COLORS", "OLDPWD", "PWD", "SHLVL", "TERM", "USER"}
)


def _ran_on(state: Workflow, stage: Stage) -> str:
    """Return profile, scheduler and partition, host, way and version of the launch, if known."""
    profile = _object(state.profile(stage))
    batch = profile.get("batch_type") or _object(profile.get("config")).get("batch_type")
    defaults = _object(profile.get("resource_defaults"))
    queue = (defaults | _object(stage.parameters.get("resource_overrides"))).get("queue_name")
    parts = [stage.backend or state.default_backend, batch, f"partition {queue}" if queue else None]
    newest = stage.source
    if newest is not None:
        version = newest.dpdispatcher_version
        parts += [newest.host, newest.mode, f"DPDispatcher {version}" if version else None]
    return ", ".join(str(part) for part in parts if part)


def _object(value: Any) -> dict[str, Any]:
    """Return an object; nothing of what somebody imported in another form."""
    return value if isinstance(value, dict) else {}


def environment_of(sessions: Sequence[SessionRecord]) -> list[tuple[str, str]]:
    """Return what the newest session that looked at its surroundings found of them."""
    for one in reversed(sessions):
        if one.environment:
            return [(str(name), _text(value)) for name, value in one.environment.items()]
    return []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


#: Suffix → type of a figure that browsers draw.
FIGURES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".svg": "image/svg+xml",
}


def is_figure(path: str) -> bool:
    """Whether a path is that of a figure, by its suffix."""
    return PurePosixPath(path).suffix.lower() in FIGURES


def figures_of(state: Workflow) -> list[str]:
    """Return the paths of the results that are figures on record."""
    known = {str(one["path"]) for stage in state.stages.values() for one in stage.results}
    paths = (one.path for one in answers(state) if one.number is None)
    return [path for path in paths if path in known and is_figure(path)]


@dataclass(frozen=True, slots=True)
class StageSummary:
    """What came out of a completed stage, in whose words, by which checks."""

    stage: Stage
    said: str
    judged_by: str | None
    checks: int
    outputs: list[dict[str, Any]]
    gone: Sequence[str] = ()

    @property
    def trust(self) -> str:
        """On what it is called verified."""
        if self.gone:
            return f"taken over from an imported record, {missing(self.gone)}"
        if is_taken_over(self.stage):
            return "taken over from an imported record, and verified by nothing"
        if self.checks:
            return f"{self.checks} checks passed" if self.checks > 1 else "1 check passed"
        return f"on the word of {self.judged_by or 'anyone who completed it'}"


@dataclass(frozen=True, slots=True)
class Summary:
    """The beginning of a report; ``outcomes`` has those first on which no other stage rests."""

    asked: str
    answers: list[str]
    figures: list[str]
    standing: str
    outcomes: list[StageSummary]
    doubts: list[str]
    decisions: list[str]
    waits: bool = False

    @property
    def undecided(self) -> str:
        """What is said where no decision is told."""
        if self.waits:
            return "Nothing was decided yet; what waits for a person stands above."
        return "Nothing was for a person to decide."


def summarised(
    state: Workflow, results: Mapping[str, StageResult], seen: Seen | None = None
) -> Summary:
    """Return what the state, the results by stage and a look at the files say."""
    needed = {id_ for stage in state.stages.values() for id_ in stage.depends_on}
    done = [stage for stage in state.stages.values() if stage.status is Status.COMPLETED]
    last = [stage for stage in done if stage.id not in needed]
    rest = [stage for stage in done if stage.id in needed]
    gone = (seen or Seen()).gone
    found = account(state, seen)
    return Summary(
        asked=state.purpose or "not said",
        answers=[str(one) for one in answers(state) if one.number or one.lacking],
        figures=figures_of(state),
        standing=_standing(state, len(done), gone),
        outcomes=[
            _outcome(stage, results.get(stage.id, StageResult()), gone.get(stage.id, ()))
            for stage in [*last, *rest]
        ],
        doubts=[*map(str, found), *_doubts(state, results)],
        decisions=[*_decisions(state), *_judged(state, results)],
        waits=any(one.person for one in found),
    )


def _standing(state: Workflow, done: int, gone: Mapping[str, Sequence[str]]) -> str:
    every = len(state.stages)
    if gone:
        lacking = "; ".join(f"{id_}: {missing(paths)}" for id_, paths in gone.items())
        return f"{done - len(gone)} of {every} stages are completed; taken over, {lacking}."
    if state.is_finished:
        skipped = every - done
        left_out = f", {skipped} skipped" if skipped else ""
        taken = sum(is_taken_over(stage) for stage in state.stages.values())
        verified = f", {taken} of them taken over and not verified" if taken else " and verified"
        return f"All {done} stages are completed{verified}{left_out}."
    failed = [stage.id for stage in state.stages.values() if stage.status is Status.FAILED]
    told = f"; failed: {', '.join(failed)}" if failed else ""
    return f"Not finished: {done} of {every} stages are completed{told}."


def _outcome(stage: Stage, result: StageResult, gone: Sequence[str]) -> StageSummary:
    found = result.completed or {}
    return StageSummary(
        stage,
        found.get("evidence") or found.get("detail") or "",
        found.get("judged_by") or result.completed_by,
        len([check for check in found.get("checks", []) if check.get("passed", True)]),
        stage.results or found.get("outputs", []),
        gone,
    )


def _doubts(state: Workflow, results: Mapping[str, StageResult]) -> Iterator[str]:
    """Yield why a reader should look twice, beside the account of where the workflow stands."""
    for id_, result in results.items():
        for _, kind, text in result.troubles:
            if kind == "adopted":
                yield f"{id_}: results taken over as they are: {text}"
    for aside in state.set_aside:
        yield f"version {aside['version']} of the log is ignored: {aside['why']}"


def _decisions(state: Workflow) -> Iterator[str]:
    if state.consent == "trust" and not state.is_plan_agreed:
        yield "nobody agreed to the plan: consent is by trust"
    for amendment in state.amendments.values():
        if amendment.status != "proposed":
            yield f"{amendment.id} {decided(amendment)}: {changes_of(amendment)}"


def _judged(state: Workflow, results: Mapping[str, StageResult]) -> Iterator[str]:
    """Yield which stages are completed on somebody's word, and which word it was."""
    for stage in state.stages.values():
        found = results.get(stage.id, StageResult()).completed or {}
        if stage.status is Status.COMPLETED and found.get("judged_by"):
            yield f"{stage.id} judged by {found['judged_by']}: {found.get('evidence')}"
