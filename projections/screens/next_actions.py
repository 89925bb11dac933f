"""What to do next: the commands that lead on from a state.

Each, run as it stands, is accepted by the rules and changes something; or it says which argument
somebody has to give first, or that a person decides. Nothing here destroys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from lifecycle.state.conditions import (
    Hindrance,
    after_refused_points,
    budget_of,
    estimate,
    has_refused_points,
    hindrance_of,
    hindrances,
    is_beyond,
    reusable,
    upstream,
)
from lifecycle.state.status import Status, retry_limit
from lifecycle.state.workflow import Stage, Workflow
from projections.words.account import Deviation, Seen, recorded, stale, waits
from projections.words.came_about import Item
from projections.words.text import NextAction


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
    now; ``seen`` is what a look at all files found, None if nobody looked; ``now`` is the time, as
    far as it is known (UTC, ISO 8601). ``drive_again`` is the command that replaces a loop which
    was killed, None if no loop was.
    """

    driven: bool = False
    drive_again: str | None = None
    paused: bool = False
    lacking: Mapping[str, str] = field(default_factory=dict)
    edited: Mapping[str | None, Sequence[str]] | None = None
    scripts: Sequence[str] = ()
    session: str | None = None
    prepared: frozenset[str] = frozenset()
    beneath: Sequence[Deviation] = ()
    seen: Seen | None = None
    now: str = ""


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
    """Return what keeps a stage that is due from its start; None if nothing does."""
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
    if state.mandate_of(stage) is not None:
        yield from _of_mandate(state, stage, around)
    if is_beyond(state, stage) and stage.status is Status.READY:
        yield too_dear(state, stage)
    lacking = around.lacking.get(stage.id)
    if not (lacking or stage.parameters.get("command") or stage.id in around.prepared):
        lacking = f"{stage.id}/submission.json, or parameters.command by an amendment"
    if lacking is not None:
        reason = f"{stage.id} is {stage.status}"
        action = NextAction(f"wfctl dispatch {stage.id}", reason, (lacking,))
        yield Bar(f"it lacks {lacking}", action)


def _of_mandate(state: Workflow, stage: Stage, around: Surroundings) -> Iterator[Bar]:
    """Look at the mandate by which the stage is computed; which files run is seen at the start."""
    from lifecycle.rules.mandates import refusals, widening
    from lifecycle.state.effort import task_count

    name = str(state.mandate_of(stage))
    least = 1 if stage.keeps_tasks else task_count(state, stage)
    if why := "; ".join(refusals(state, stage, least, around.now)):
        why = f"its mandate {name} does not allow an attempt: {why}"
        grant = widening(name)
        needs = tuple(word for word in ("FILE", "NAME=VALUE", "TEXT") if word in grant)
        yield Bar(why, NextAction(grant, f"{stage.id}: {why}", needs, person=True))


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
    return held + [one.to_hindrance(None) for one in _waiting_loops(state)]


def _waiting_loops(state: Workflow) -> Iterator[Bar]:
    """Yield the loops whose next points a stage wrote, with the command that leads on.

    `run` takes the points. If it has ended without taking them, they were refused, and the same
    command would refuse them again: the stage that wrote them runs again after a correction.
    """
    for name, loop in state.loops.items():
        definition = state.loop(name)
        if not loop.is_due or definition.asks_somebody or state.pending_amendments:
            continue
        why = f"{name} waits for the points of round {loop.round.number + 1}"
        if not has_refused_points(state, name):
            yield Bar(why, NextAction(GO_ON, why))
            continue
        why = f"{why}; those in {definition.ask} were refused"
        yield Bar(why, NextAction(*after_refused_points(definition, why), ("TEXT",)))


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


GO_ON = "wfctl run"
#: Stales that one command computes again, and stages that are named each.
_TOGETHER, _NAMED = 8, 3
_ALONE = Surroundings()


def next_actions(state: Workflow, around: Surroundings = _ALONE) -> list[NextAction]:
    """Return what leads on, the most urgent first; nothing if there is nothing to do."""
    found = [*_decisions(state, waits(state, around.seen))]
    if state.workflow_status == "completed":
        return found or [NextAction("wfctl report -", "the workflow is completed; this is it")]
    found += _drive_again(state, around)
    found += _under_way(state)
    found += _of_loops(state, around)
    barred = around.seen.verdicts if around.seen else {}
    for stage in state.stages.values():
        found += _of_stage(state, stage, around) if stage.id not in barred else []
    return _once([*found, *_begun(state, around)])


def leading_on(state: Workflow, id_: str, around: Surroundings) -> list[NextAction]:
    """Return what leads one stage on: what names it, and what keeps it from its start."""
    stage = state.stage(id_)
    found = [bar(state, stage, around), session_bar(state, around)] if is_due(state, stage) else []
    named = [one for one in next_actions(state, around) if id_ in one.command.split()]
    return _once([*(one.action for one in found if one is not None), *named])


def _once(actions: list[NextAction]) -> list[NextAction]:
    """Return each command once, with the first reason for it."""
    found: dict[str, NextAction] = {}
    for one in actions:
        found.setdefault(one.command, one)
    return list(found.values())


def _decisions(state: Workflow, waiting: list[Item]) -> Iterator[NextAction]:
    """Look at what a person decides; what is stale is computed again where they agree."""
    for one in waiting:
        if one.kind == "amendment":
            why = f"{one.subject} is pending; it is approved or rejected after a look at it"
            yield NextAction(f"wfctl amend show {one.subject}", why, person=True)
        elif one.kind == "drift":
            why = f"{one.subject} was changed by hand: it is adopted or reverted after a look at it"
            yield NextAction("wfctl drift show", why, person=True)
        elif one.kind == "verdict":
            agree = "wfctl amend propose --set session_config.pin=scripts --reason TEXT"
            why = f"{one.subject} failed by other scripts: bring them back, or a person agrees"
            yield NextAction(agree, why, ("TEXT",), person=True)
        elif one.is_of_files and one.kind != "stale":
            why = f"{one}; it is put back, adopted or computed again after a look at it"
            yield NextAction(f"wfctl verify {one.stage}", why, person=True)
    yield from _rerun(state, [one for one in waiting if one.kind == "stale"])


def _rerun(state: Workflow, stale: list[Item]) -> Iterator[NextAction]:
    known = {id_ for amendment in state.pending_amendments for id_ in amendment.targets}
    named = [one for one in stale if one.subject not in known][:_TOGETHER]
    if named:
        command = f"wfctl rerun {' '.join(one.subject for one in named)}"
        yield NextAction(command, "; ".join(map(str, named)), person=True)


def _drive_again(state: Workflow, around: Surroundings) -> Iterator[NextAction]:
    """Replace a loop that was killed, if there is something that a loop can do."""
    stages = state.stages.values()
    if around.drive_again is None or around.driven or around.paused:
        return
    if session_bar(state, around) is not None:
        return
    if any(stage.open_attempt is not None or is_due(state, stage) for stage in stages):
        why = "the loop that drove this workflow was killed, and nobody drives it now"
        yield NextAction(around.drive_again, why)


def _under_way(state: Workflow) -> Iterator[NextAction]:
    """Wait for all that computes in one command."""
    going = [stage for stage in state.stages.values() if stage.open_attempt is not None]
    unknown = [stage for stage in going if stage.attempts[-1].action == "unknown"]
    for found in (hindrance_of(state, stage) for stage in unknown):
        if found is not None:
            yield NextAction(found.command, f"{found.stage}: {found.why}", found.needs)
    waiting = [stage.id for stage in going if stage not in unknown]
    if waiting:
        yield NextAction(f"wfctl wait {' '.join(waiting)}", f"{_are(waiting)} under way")


def _of_loops(state: Workflow, around: Surroundings) -> Iterator[NextAction]:
    """Begin the next round of each loop that waits for points, unless a loop of ours does it."""
    yield from () if around.driven else (one.action for one in _waiting_loops(state))
    for name, loop in state.loops.items():
        if loop.is_due and not state.pending_amendments and state.loop(name).asks_somebody:
            why = f"{name} waits for the points of round {loop.round.number + 1}"
            yield NextAction(f"wfctl round propose {name} FILE", why, ("FILE",))


def _are(ids: list[str]) -> str:
    if len(ids) == 1:
        return f"{ids[0]} is"
    return f"{', '.join(ids)} are" if len(ids) <= 5 else f"{len(ids)} stages are"


def _of_stage(state: Workflow, stage: Stage, around: Surroundings) -> list[NextAction]:
    match stage.status:
        case Status.PENDING | Status.INVALIDATED if not state.unmet(stage):
            return [NextAction(f"wfctl stage ready {stage.id}", "nothing holds it back")]
        case Status.POST_PROCESSING:
            return [_verified(state, stage)]
        case Status.FAILED:
            return _failed(state, stage, around)
    return _unblocked(state, stage)


def _unblocked(state: Workflow, stage: Stage) -> list[NextAction]:
    """Return what ends the hindrance of a stage, unless it is proposed already."""
    found = hindrance_of(state, stage)
    under_way = found is None or stage.open_attempt is not None
    if (
        found is None
        or under_way
        or any(amendment.stage == stage.id for amendment in state.pending_amendments)
    ):
        return []
    return [NextAction(found.command, f"{stage.id}: {found.why}", found.needs)]


def _verified(state: Workflow, stage: Stage) -> NextAction:
    attempt = stage.attempt
    if attempt is not None and attempt.outdated_by is not None:
        why = f"computed before {attempt.outdated_by}"
        return NextAction(
            f'wfctl stage fail {stage.id} --error "{why}"', f"{stage.id} was {why}, and runs again"
        )
    found = hindrance_of(state, stage)
    if found is None:
        # Its checks are not known yet: recorded is how they end, and a failed check is no refusal.
        command = f"wfctl stage complete {stage.id} --or-fail"
        return NextAction(command, f"the outputs of {stage.id} wait for a check")
    reason = f"{stage.id}: {found.why}; or `wfctl stage fail`"
    return NextAction(found.command, reason, found.needs)


def _failed(state: Workflow, stage: Stage, around: Surroundings) -> list[NextAction]:
    """Return how a failed stage runs again, where it does not by itself."""
    decided = stage.rerun_by is not None or edited_before(state, stage.id, around)
    used_up = stage.retry_count >= retry_limit(state.backend_type(stage))
    if decided or (state.unmet(stage) and not used_up):
        return []
    found = _unblocked(state, stage)
    return [*found, *(new for one in found for new in _keeping_tasks(stage, around, one))]


def _keeping_tasks(stage: Stage, around: Surroundings, retry: NextAction) -> Iterator[NextAction]:
    """Yield the retry that keeps the finished tasks of a sweep whose inputs changed."""
    files = around.seen.changed_inputs.get(stage.id) if around.seen is not None else None
    tasks = stage.attempts[-1].tasks if stage.attempts else None
    if files and tasks and tasks["done"] and retry.command.startswith("wfctl stage retry "):
        command = f"{retry.command} --failed-only"
        why = f"{stage.id}: {', '.join(files)} changed; this keeps its finished tasks as they are"
        yield NextAction(command, why, ("TEXT",), person=True)


def _begun(state: Workflow, around: Surroundings) -> Iterator[NextAction]:
    """Begin what may begin: in one command, unless a loop does it, or somebody has it paused."""
    ready = [stage for stage in state.stages.values() if is_due(state, stage)]
    if not ready or state.pending_amendments or around.driven:
        return
    if around.paused:
        why = f"{len(ready)} stages may begin, and PAUSE holds the runner back"
        yield NextAction("wfctl runner resume", why, person=True)
        return
    barred = {stage.id: found for stage in ready if (found := bar(state, stage, around))}
    able = [stage for stage in ready if stage.id not in barred]
    session = session_bar(state, around)
    if able and session is not None:
        yield session.action
    elif len(able) == 1:
        why = f"{able[0].id} is {able[0].status}{_or_reused(state, able[0])}"
        yield NextAction(f"wfctl dispatch {able[0].id}", why)
    elif able:
        names = ", ".join(stage.id for stage in able[:_NAMED]) + (
            " …" if len(able) > _NAMED else ""
        )
        yield NextAction(GO_ON, f"{len(able)} stages may begin: {names}")
    yield from (
        found.action
        for found in islice(
            {found.action.command: found for found in barred.values()}.values(), _NAMED
        )
    )


def _or_reused(state: Workflow, stage: Stage) -> str:
    """Say that outputs are kept which the stage may take in place of computing them again."""
    if state.session_config.get("reuse") == "never" or stage.status is not Status.READY:
        return ""
    one = next(iter(reusable(state, stage)), None)
    if one is None:
        return ""
    return (
        f"; {one.id} computed by the same definition, and `wfctl stage reuse {stage.id}` takes its "
        "outputs where its inputs are the same"
    )
