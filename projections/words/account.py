"""The one account of a workflow: what is stale, changed, undecided, failed, waits, came about how.

Made of the state and of what a look at the root found; anyone who tells of any of it reads it here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from lifecycle.state.conditions import downstream, has_refused_points, reason
from lifecycle.state.status import Status, retry_limit
from lifecycle.state.workflow import Stage, Workflow
from projections.words.came_about import Item, came_about, decided_edits
from projections.words.text import utc_seconds

_PAST = {"changed": "has changed", "missing": "is missing", "touched": "was touched"}


@dataclass(frozen=True, slots=True)
class Deviation:
    """A file that is not what the log holds of it.

    ``what``: result, input. ``kind``: changed, missing, or touched, which a quick look leaves to
    a deep one.
    """

    stage: str
    attempt: str | None
    what: str
    path: str
    kind: str
    since: str
    #: Seconds after that at which the file was last touched; None if it is not there.
    after: float | None = None

    @property
    def is_changed_input(self) -> bool:
        """Whether its stage is stale for it."""
        return self.what == "input" and self.kind != "touched"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        fields = ("stage", "attempt", "what", "path", "kind", "since", "after")
        return {name: getattr(self, name) for name in fields}

    def __str__(self) -> str:
        return f"{self.stage}: {self.said}"

    @property
    def said(self) -> str:
        """What happened, without the stage that it happened to."""
        how = f"{self.stage} left it" if self.what == "result" else f"{self.attempt} read it"
        what = f"{_PAST[self.kind]} since"
        if self.after is not None and self.kind != "missing":
            kind = self.kind if self.kind == "changed" else "was touched"
            what = f"{kind} {_span(self.after)} after"
        return f"{self.path} {what} {how} ({utc_seconds(self.since)})"


def _span(seconds: float) -> str:
    """Return how long it was, in its largest unit: ``2 h``."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


#: Characters of a failure's reason that are shown.
_REASON = 400
#: What is said of a file that somebody else changed.
EDITED = "was changed by somebody else; `wfctl drift show` says how"


class Seen(NamedTuple):
    """What a look at the root found beside the log.

    ``files``: a file that wfctl writes and that is not as the log says → what is said of it.
    ``verdicts``: a stage that would be judged by other scripts than those it failed by → why not.
    ``gone``: a stage that was taken over → outputs that are not there.
    ``times``: a result of which nothing was taken at the end of its job → when it was written.
    """

    deviations: Sequence[Deviation] = ()
    files: Mapping[str, str] = MappingProxyType({})
    verdicts: Mapping[str, str] = MappingProxyType({})
    times: Mapping[str, float] = MappingProxyType({})
    gone: Mapping[str, Sequence[str]] = MappingProxyType({})
    #: A failed sweep with finished tasks → its inputs that changed since its newest attempt.
    changed_inputs: Mapping[str, Sequence[str]] = MappingProxyType({})
    #: What speaks against the log itself.
    log: Sequence[Item] = ()

    @property
    def edited(self) -> list[str]:
        """The files that others changed, if nobody recorded it yet."""
        return [file for file, text in self.files.items() if text == EDITED]


def account(state: Workflow, seen: Seen | None = None) -> list[Item]:
    """Return all of it, decisions first; without a look, as far as the log tells it."""
    found = recorded(state) if seen is None else seen.deviations
    seen = seen or Seen()
    return [
        *seen.log,
        *_decisions(state, seen.edited),
        *(
            Item(f"{one.kind} result", one.path, one.said, one.stage, one.kind != "touched")
            for one in found
            if one.what == "result"
        ),
        *_stale(state, found),
        *(Item("verdict", id_, why, id_) for id_, why in seen.verdicts.items()),
        *_of_stages(state),
        *_of_loops(state),
        *came_about(state, seen.times, seen.gone),
        *decided_edits(state.edits),
    ]


def waits(state: Workflow, seen: Seen | None = None) -> list[Item]:
    """Return what of the account waits for a person."""
    return [one for one in account(state, seen) if one.person]


def to_dicts(items: Iterable[Item]) -> list[dict[str, Any]]:
    """Return plain JSON values."""
    return [one._asdict() for one in items]


def _decisions(state: Workflow, edited: Iterable[str]) -> Iterator[Item]:
    for amendment in state.pending_amendments:
        from projections.words.amendments import summary

        text = f"{amendment.kind}: {summary(amendment)}"
        if amendment.is_plan:
            waits = "was rejected" if amendment.status == "rejected" else "waits for a person"
            text = f"the plan {waits}; nothing starts before it is approved"
        yield Item("amendment", amendment.id, text, amendment.stage)
    for drift in state.drifts:
        yield Item("drift", drift.file, f"{drift.kind}; adopt or revert it")
    for file in edited:
        yield Item("drift", file, "changed; adopt or revert it")


def _stale(state: Workflow, found: Iterable[Deviation]) -> Iterator[Item]:
    for id_, why in stale(state, found).items():
        yield Item("stale", id_, ", ".join(why), id_)
    for stage in state.stages.values():
        loop = state.loops.get(state.loop_of(stage.id) or "")
        # In a round it is computed again as the loop has it.
        if stage.status is Status.INVALIDATED and (loop is None or loop.round.number == 1):
            yield Item("stale", stage.id, "what it computed counts no longer", stage.id, False)


def _of_stages(state: Workflow) -> Iterator[Item]:
    stages = state.stages.values()
    for stage in stages:
        # Only somebody's word can end it: its criteria are prose, and nothing checks them.
        prose = bool(stage.success_criteria) and not stage.parameters.get("verify")
        if stage.status is Status.POST_PROCESSING and prose:
            yield Item("judgement", stage.id, stage.success_criteria, stage.id)
    for stage in stages:
        if stage.attempts and stage.attempts[-1].is_to_stop:
            text = f"{stage.attempts[-1].id} is over and not seen to be stopped"
            yield Item("stop", stage.id, text, stage.id)
    for stage in (one for one in stages if one.status is Status.FAILED):
        used = f"{stage.retry_count} of {retry_limit(state.backend_type(stage))} retries used"
        yield Item("failure", stage.id, f"{reason(stage)[:_REASON]} ({used})", stage.id)


def _of_loops(state: Workflow) -> Iterator[Item]:
    """Yield the loops that continue only after somebody acts."""
    for name, loop in state.loops.items():
        definition = state.loop(name)
        if not loop.is_due or state.pending_amendments:
            continue
        text = f"waits for the points of round {loop.round.number + 1}"
        if definition.asks_somebody:
            yield Item("round", name, text)
        elif has_refused_points(state, name):
            yield Item("round", name, f"{text}; those in {definition.ask} were refused")


def stale(state: Workflow, found: Iterable[Deviation]) -> dict[str, list[str]]:
    """Return the completed stages that a fresh computation would compute from something else.

    Stage → the reasons, by name: an input that changed, or a stage upstream that is stale itself.
    """
    reasons: dict[str, list[str]] = {}
    for one in found:
        if one.is_changed_input:
            reasons.setdefault(one.stage, []).append(one.said)
    graph = {id_: stage.depends_on for id_, stage in state.stages.items()} if reasons else {}
    for source in list(reasons):
        for id_ in downstream(graph, [source]):
            if state.stages[id_].status is Status.COMPLETED:
                reasons.setdefault(id_, []).append(f"{source}, which it rests on, is stale")
    return {id_: reasons[id_] for id_ in state.stages if id_ in reasons}


def recorded(state: Workflow) -> list[Deviation]:
    """Return the deviations that the log tells of: changed results, and who had read them."""
    gone = {one["path"]: one["kind"] for stage in state.stages.values() for one in stage.changed}
    if not gone:
        return []
    return [one for stage in state.stages.values() for one in _recorded(stage, gone)]


def _recorded(stage: Stage, gone: dict[str, str]) -> Iterator[Deviation]:
    attempt = stage.source
    id_ = attempt.id if attempt is not None else None
    for one in stage.changed:
        yield Deviation(stage.id, id_, "result", one["path"], one["kind"], stage.completed_at or "")
    if stage.status is not Status.COMPLETED or attempt is None or attempt.taken_over:
        return
    for one in attempt.inputs:
        if one["path"] in gone:
            kind, since = gone[one["path"]], attempt.started_at
            yield Deviation(stage.id, attempt.id, "input", one["path"], kind, since)
