"""Whether a stage may start: one answer for all that start it, offer it, or say why they do not.

The rules say whether it is its turn; here is all else that keeps it: the files, the policies, the
budget, and decisions of a person that are due first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lifecycle.state.budget import budget_of, estimate, is_beyond
from lifecycle.state.dependencies import upstream
from lifecycle.state.hindrance import Hindrance, hindrances
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from projections.words.account import Deviation, Seen, recorded, stale
from projections.words.next_action import NextAction


class Bar(NamedTuple):
    """What keeps a stage from its start, in words, and the command that leads on."""

    why: str
    action: NextAction

    def to_hindrance(self, stage: str | None) -> Hindrance:
        """Return it as what waits for somebody."""
        command, needs = self.action.command, self.action.needs
        return Hindrance(stage, self.why, f"`{command}`", command, needs)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What no log tells: whether a loop is at work, whether it is to pause, what lies on the disk.

    ``lacking``: stage → what must be there before it can be dispatched. ``edited``: fields that
    somebody changed by hand and nobody decided on, by stage; under None those of the whole
    workflow. ``scripts`` are pinned files that are others now. ``session`` says why the last
    session could not begin. ``beneath`` are results that differ, of stages that others build on
    now; ``seen`` is what a look at all files found, None where nobody looked.
    """

    driven: bool = False
    paused: bool = False
    lacking: Mapping[str, str] = field(default_factory=dict)
    edited: Mapping[str | None, Sequence[str]] | None = None
    scripts: Sequence[str] = ()
    session: str | None = None
    prepared: frozenset[str] = frozenset()
    beneath: Sequence[Deviation] = ()
    seen: Seen | None = None


def is_due(state: Workflow, stage: Stage) -> bool:
    """Whether it is the turn of a stage, as far as the rules go; amendments aside."""
    waiting = stage.status is Status.READY or (
        stage.status is Status.PREPARING and stage.open_attempt is None
    )
    return waiting and not state.unmet(stage)


def built_on(state: Workflow) -> list[str]:
    """Return the completed stages that those build on which are due."""
    due = (stage for stage in state.stages.values() if is_due(state, stage))
    return list(dict.fromkeys(id_ for stage in due for id_ in stage.depends_on))


def bar(state: Workflow, stage: Stage, around: Surroundings) -> Bar | None:
    """Return what keeps a stage that is due from its start; None where nothing does."""
    return next(_bars(state, stage, around), None)


def _bars(state: Workflow, stage: Stage, around: Surroundings) -> Iterator[Bar]:
    fields = edited_before(state, stage.id, around)
    if fields:
        why = f"{', '.join(fields[:3])} was changed by hand, and nobody has decided on it"
        way = "it is adopted or reverted after a look at it"
        yield Bar(why, NextAction("wfctl drift show", f"{why}; {way}", person=True))
    yield from _changed(state, stage, around)
    if around.scripts:
        why = f"pinned files are others now: {', '.join(around.scripts)}"
        agree = "wfctl amend propose --set session_config.pin=scripts --reason TEXT"
        way = "bring them back, or a person agrees"
        yield Bar(why, NextAction(agree, f"{why}; {way}", ("TEXT",), person=True))
    if is_beyond(state, stage) and stage.status is Status.READY:
        yield too_dear(state, stage)
    lacking = around.lacking.get(stage.id)
    if not (lacking or stage.parameters.get("command") or stage.id in around.prepared):
        lacking = f"{stage.id}/submission.json, or parameters.command by an amendment"
    if lacking is not None:
        reason = f"{stage.id} is {stage.status}"
        action = NextAction(f"wfctl dispatch {stage.id}", reason, (lacking,))
        yield Bar(f"it lacks {lacking}", action)


def hindered(state: Workflow, around: Surroundings) -> list[Hindrance]:
    """Return everything that waits for somebody, as the log tells it and as it is around it."""
    told = hindrances(state)
    named = {one.stage for one in told}
    due = [one for one in state.stages.values() if is_due(state, one) and one.id not in named]
    barred = {stage.id: found for stage in due if (found := bar(state, stage, around))}
    held = [*told, *(one.to_hindrance(id_) for id_, one in barred.items())]
    session = session_bar(state, around)
    if session is not None and len(barred) < len(due):
        held.append(session.to_hindrance(None))
    return held


def edited_before(state: Workflow, stage: str, around: Surroundings) -> list[str]:
    """Return the undecided fields that a stage rests on: its own, those upstream and of all."""
    edited = around.edited if around.edited is not None else _told(state)
    if not edited:
        return []
    return [name for id_ in resting_on(state, stage) for name in edited.get(id_, ())]


def resting_on(state: Workflow, stage: str) -> list[str | None]:
    """Return whose fields a stage rests on: its own, of the stages upstream, the workflow's (None).

    A stage that is not in the workflow rests on the workflow's alone.
    """
    graph = {id_: one.depends_on for id_, one in state.stages.items()}
    return [None, stage, *sorted(upstream(graph, [stage]))]


def _told(state: Workflow) -> dict[str | None, list[str]]:
    """Return the fields that the log tells were changed by hand, by stage."""
    found: dict[str | None, list[str]] = {}
    for name in (name for drift in state.drifts for name in drift.touches):
        found.setdefault(name.partition(".")[0], []).append(name)
    return found


def _changed(state: Workflow, stage: Stage, around: Surroundings) -> Iterator[Bar]:
    """Look at the results that it would build on: they must be those that were verified."""
    known = recorded(state) if around.seen is None else around.seen.deviations
    found = [*known, *around.beneath]
    for one in found:
        if one.what == "result" and one.kind != "touched" and one.stage in stage.depends_on:
            why = str(one)
            way = "it is put back, adopted or computed again after a look at it"
            action = NextAction(f"wfctl verify {one.stage}", f"{why}; {way}", person=True)
            yield Bar(why, action)


def too_dear(state: Workflow, stage: Stage) -> Bar:
    """Return why no session, however new, can afford a stage, and the budget that would do."""
    least = estimate(state, stage)
    why = (
        f"{stage.id} costs {least:g}, and no session may cost more than {budget_of(state):g} "
        "(session_config.session_budget)"
    )
    change = f"--set session_config.session_budget={least:g}"
    return Bar(why, NextAction(f"wfctl amend propose {change} --reason TEXT", why, ("TEXT",)))


def session_bar(state: Workflow, around: Surroundings) -> Bar | None:
    """Return what keeps a session from its beginning, and with it `wfctl run`."""
    if around.session is not None:
        action = NextAction("wfctl run", "goes on in a new session", (around.session,))
        return Bar(f"the last session could not begin: {around.session}", action)
    policy = state.session_config.get("stale", "tell")
    if around.seen is None or policy != "stop":
        return None
    reasons = stale(state, around.seen.deviations)
    if not reasons:
        return None
    why = f"stale: {', '.join(reasons)}, and session_config.stale is stop"
    return Bar(why, NextAction(f"wfctl rerun {' '.join(reasons)}", why, person=True))
