"""What to do next: the commands that lead on from a state.

Each, run as it stands, is accepted by the rules and changes something; or it says which argument
somebody has to give first, or that a person decides. Nothing here destroys.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from lifecycle.state.dependencies import reusable
from lifecycle.state.hindrance import hindrance_of
from lifecycle.state.status import Status, retry_limit
from lifecycle.state.workflow import Stage, Workflow
from projections.screens.starting import Surroundings, bar, edited_before, is_due, session_bar
from projections.words.account import waits
from projections.words.came_about import Item
from projections.words.next_action import NextAction

GO_ON = "wfctl run"
#: Stales that one command computes again, and stages that are named each.
_TOGETHER, _NAMED = 8, 3
_ALONE = Surroundings()


def next_actions(state: Workflow, around: Surroundings = _ALONE) -> list[NextAction]:
    """Return what leads on, the most urgent first; nothing where there is nothing to do."""
    found = [*_decisions(state, waits(state, around.seen))]
    if state.workflow_status == "completed":
        return found or [NextAction("wfctl report -", "the workflow is completed; this is it")]
    found += _under_way(state)
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


def _under_way(state: Workflow) -> Iterator[NextAction]:
    """Wait for all that computes in one command."""
    going = [stage for stage in state.stages.values() if stage.open_attempt is not None]
    unknown = [stage for stage in going if stage.attempts[-1].action == "unknown"]
    for found in (hindrance_of(state, stage) for stage in unknown):
        if found is not None:
            yield NextAction(found.command, f"{found.stage}: {found.why}", found.needs)
    waiting = [stage.id for stage in going if stage not in unknown]
    if waiting:
        yield NextAction(f"wfctl wait {' '.join(waiting)}", f"{_are(waiting)} running")


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
    return _unblocked(state, stage)


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
