"""An amendment and its impact in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lifecycle.rules.impact import Foresight, Impact, foresee
from lifecycle.words.mandates import counted
from projections.words.amendments import changes, where
from projections.words.text import spelled, told_span
from service.writing.amendments import AmendmentQuestion

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from lifecycle.rules.loops_ahead import LoopAhead
    from lifecycle.state.workflow import Amendment, Workflow


def told(question: AmendmentQuestion) -> str:
    """Return what a person is shown before the answer: all that is signed, the change last."""
    amendment = question.amendment
    runs = [f"Runs: {path}, SHA-256 {sha256}" for path, sha256 in question.scripts.items()]
    if amendment.is_plan:
        from projections.words.amendments import plan_lines

        lines = [*plan_lines(question.state), *runs]
    else:
        lines = [
            f"Amendment proposed: {amendment.id} ({amendment.kind}, {where(amendment)})",
            f"Described by its proposer: {amendment.description}",
            f"Reason: {amendment.reason or 'none given'}",
            "Changes:",
            *(f"  {line}" for line in changes(amendment)),
            *runs,
            f"Impact: {'; '.join(consequences(question.impact))}",
            *foreseen(foresight(question.root, question.state, amendment, question.impact)),
        ]
    return "\n".join(map(spelled, lines))


def foresight(root: Path, state: Workflow, amendment: Amendment, impact: Impact) -> Foresight:
    """Return what follows from an approval, by the files too that are in the root now."""
    from reconciler.files.freshness import changed_inputs  # few commands tell of an impact

    # An attempt that goes on has read what it computes from.
    read = [id_ for id_ in impact.affected if id_ in state.stages and id_ not in impact.going_on]
    return foresee(state, amendment, impact, changed_inputs(root, state, read))


def foreseen(sight: Foresight) -> list[str]:
    """Return what an approval leaves behind, a line each; nothing if it is nothing."""
    lines = []
    if sight.blocked:
        lines.append(f"Blocked for good: {', '.join(sight.blocked)}")
    if sight.again:
        took = [
            stage if seconds is None else f"{stage} (took {told_span(seconds)})"
            for stage, seconds in sight.again
        ]
        lines.append(f"Computed again: {', '.join(took)}")
    if sight.judged:
        unless = "computed only where what is kept does not hold"
        lines.append(f"Judged again: {named(sight.judged)} ({unless})")
    if sight.results_kept:
        lines.append(f"Goes on to count: {named(sight.results_kept)}")
    for stage, paths in sight.changed_inputs.items():
        since = f"changed since the newest attempt of {stage} read it"
        lines.append(f"{', '.join(paths)}: {since}; all its tasks are computed anew")
    for one in sight.tasks:
        some = f" (some {told_span(one.seconds)})" if one.seconds else ""
        judged = f"{one.judged:,} are judged again, " if one.judged else ""
        lines.append(
            f"Tasks of {one.stage}: {one.kept:,} stay as they are, {judged}{one.computed:,} are "
            f"computed{some}, {one.aside:,} are no more and kept aside"
        )
    lines += [line for one in sight.loops for line in _of_loop(one)]
    return [*lines, *(f"Cheaper: {way}" for way in sight.cheaper)]


def _of_loop(ahead: LoopAhead) -> Iterator[str]:
    left, over = ahead.goes_on, "over " if ahead.was_over else ""
    loop = f"The loop {ahead.loop}, {over}in round {ahead.round},"
    if left is not None and left.rounds:
        of = {"round": left.rounds, "task": left.tasks, "core hour": left.core_hours}
        most = [counted(count, one) for one, count in of.items() if count is not None]
        yield f"{loop} goes on: at most {', '.join(most)} more"
    elif left is not None:
        but = "is not over any more, and" if ahead.was_over else "stays there:"
        yield f"{loop} {but} its limits leave no further round"
    if ahead.ends is not None:
        yield f"{loop} ends: {ahead.ends}"
    if ahead.stays_stopped is not None:
        yield f"{loop} stays stopped: {ahead.stays_stopped}"
    if ahead.uncounted:
        of_all = f"{len(ahead.uncounted)} of its {counted(ahead.round, 'round')}"
        yield f"The loop {ahead.loop}: the numbers of {of_all} count no longer"


def named(ids: Sequence[str]) -> str:
    """Return ids in a line; of many the first and their number."""
    return ", ".join(ids) if len(ids) <= 10 else f"{', '.join(ids[:8])} and {len(ids) - 8} more"


def consequences(impact: Impact) -> list[str]:
    """Return what an approval would bring about, a sentence each."""
    told = {*impact.invalidated, *impact.stopped, *impact.going_on}
    held = [stage for stage in impact.affected if stage not in told]
    said = [f"invalidates {', '.join(impact.invalidated)}"] if impact.invalidated else []
    said += [f"also affects {', '.join(held)}"] if held else []
    for stage, attempt in impact.stopped.items():
        said.append(f"stops {stage}" + (f" ({attempt})" if attempt else ""))
    for stage, attempt in impact.going_on.items():
        said.append(f"lets {stage} ({attempt}) go on, and judges it by the new verdict")
    said += [f"keeps {stage}/ as {folder}/" for stage, folder in impact.kept.items()]
    if impact.seconds:
        said.append(f"throws away {told_span(sum(impact.seconds.values()))} of computing")
    return said or ["no result is affected"]


def with_pins(document: Any, root: Path) -> Any:
    """Return a plan in which ``session_config.pin: scripts`` holds the files as they are now."""
    config = document.get("session_config") if isinstance(document, dict) else None
    if not isinstance(config, dict) or config.get("pin") != "scripts":
        return document
    from service.consent.scripts import scripts_of

    bare = {**document, "session_config": {**config, "pin": {}}}
    return {**bare, "session_config": {**config, "pin": scripts_of(root, begun_with(bare, root))}}


def begun_with(document: Any, root: Path) -> Workflow:
    """Return the workflow that would begin with a plan; raises `InvalidPlan`."""
    from lifecycle.plan.document import create
    from service.writing.workflow_service import planned_state

    now = "1970-01-01T00:00:00.000000Z"
    command: Payload = create(with_pins(document, root), created=now, root={})
    return planned_state(((command, now),))
