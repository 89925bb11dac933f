"""Describe a change of the plan, and its impact on stages and results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lifecycle.rules.impact import (
    ApprovalForecast,
    Impact,
    find_partly_recomputed_sweeps,
    forecast_approval,
)
from lifecycle.words.mandates import format_count
from lifecycle.words.scripts import is_digest, omit_missing_init_script
from projections.words.amendments import format_changes, format_targets
from projections.words.text import format_two_unit_duration, spell_unseen
from service.writing.amendments import AmendmentQuestion

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from lifecycle.rules.loops_ahead import LoopForecast
    from lifecycle.state.workflow import Amendment, Workflow


def format_question(question: AmendmentQuestion) -> str:
    """Return the text that a person reads before approving a change of the plan.

    The text contains everything that a signature would cover.
    """
    amendment = question.amendment
    runs = [
        f"Script: {path}, {f'SHA-256 {one}' if is_digest(one) else one}"
        for path, one in omit_missing_init_script(question.scripts).items()
    ]
    if amendment.is_plan:
        from projections.words.plan_summary import plan_lines

        lines = [*plan_lines(question.state), *runs]
    else:
        lines = [
            f"Amendment proposed: {amendment.id} ({amendment.kind}, {format_targets(amendment)})",
            f"Described by its proposer: {amendment.description}",
            f"Reason: {amendment.reason or 'none given'}",
            "Changes:",
            *(f"  {line}" for line in format_changes(amendment)),
            *runs,
            f"Impact: {'; '.join(list_consequences(question.impact))}",
            *format_forecast(
                forecast_effects(question.root, question.state, amendment, question.impact)
            ),
        ]
    return "\n".join(map(spell_unseen, lines))


def forecast_effects(
    root: Path, state: Workflow, amendment: Amendment, impact: Impact
) -> ApprovalForecast:
    """Return the expected effects of approving a change of the plan.

    The forecast also depends on the current input files and task folders in ``root``.
    """
    from reconciler.files.freshness import find_changed_inputs  # needed only to show an impact
    from reconciler.sweep.deviations import find_tasks_with_results

    # Check the inputs only of stages that will start again. A running attempt that continues has
    # already read its inputs.
    read = [id_ for id_ in impact.affected if id_ in state.stages and id_ not in impact.going_on]
    in_place = find_tasks_with_results(
        root, state, find_partly_recomputed_sweeps(state, amendment, impact)
    )
    return forecast_approval(
        state, amendment, impact, find_changed_inputs(root, state, read), in_place
    )


def format_forecast(sight: ApprovalForecast) -> list[str]:
    """Return the expected effects of an approval, with one line for each kind of effect."""
    lines = []
    if sight.blocked:
        lines.append(f"Can no longer start: {', '.join(sight.blocked)}")
    if sight.again:
        took = [
            stage
            if seconds is None
            else f"{stage} (the last run took {format_two_unit_duration(seconds)})"
            for stage, seconds in sight.again
        ]
        lines.append(f"Runs again from the start: {', '.join(took)}")
    if sight.judged:
        unless = "computed again only if the kept results fail"
        lines.append(f"Checked again: {join_ids(sight.judged)} ({unless})")
    if sight.results_kept:
        lines.append(f"Results that stay valid: {join_ids(sight.results_kept)}")
    for stage, paths in sight.changed_inputs.items():
        since = f"changed since the last attempt of {stage} read it"
        lines.append(f"{', '.join(paths)}: {since}, so all its tasks run again")
    for one in sight.tasks:
        time = f" (about {format_two_unit_duration(one.seconds)})" if one.seconds else ""
        judged = f"{one.judged:,} checked again, " if one.judged else ""
        aside = f", {one.aside:,} removed (their folders are kept)" if one.aside else ""
        lines.append(
            f"Tasks of {one.stage}: {one.kept:,} kept, {judged}{one.computed:,} computed"
            f"{time}{aside}"
        )
    lines += [f"Start of {stage}: {start}" for stage, start in sight.first_tasks.items()]
    lines += [line for one in sight.loops for line in _format_loop_forecast(one)]
    return [*lines, *(f"Less work: {way}" for way in sight.cheaper)]


def _format_loop_forecast(ahead: LoopForecast) -> Iterator[str]:
    left, over = ahead.goes_on, "ended " if ahead.was_over else ""
    loop = f"The loop {ahead.loop} ({over}in round {ahead.round})"
    if left is not None and left.rounds:
        of = {"round": left.rounds, "task": left.tasks, "core hour": left.core_hours}
        most = [format_count(count, one) for one, count in of.items() if count is not None]
        yield f"{loop} continues: at most {', '.join(most)} more"
    elif left is not None:
        yield f"{loop} is open, but its limits allow no further round"
    if ahead.ends is not None:
        yield f"{loop} ends: {ahead.ends}"
    if ahead.stays_stopped is not None:
        yield f"{loop} stays stopped: {ahead.stays_stopped}"
    if ahead.uncounted:
        of_all = f"{len(ahead.uncounted)} of its {format_count(ahead.round, 'round')}"
        yield f"The loop {ahead.loop}: the numbers of {of_all} are no longer valid"


def join_ids(ids: Sequence[str]) -> str:
    """Return the ids as one line of text.

    If there are more than ten ids, name the first eight and add the number of remaining ids.
    """
    return ", ".join(ids) if len(ids) <= 10 else f"{', '.join(ids[:8])} and {len(ids) - 8} more"


def list_consequences(impact: Impact) -> list[str]:
    """Return the immediate effects of approving a change of the plan, as one phrase each."""
    named_already = {*impact.invalidated, *impact.stopped, *impact.going_on}
    others = [stage for stage in impact.affected if stage not in named_already]
    phrases = [f"invalidates {', '.join(impact.invalidated)}"] if impact.invalidated else []
    phrases += [f"{'also ' if phrases else ''}affects {', '.join(others)}"] if others else []
    for stage, attempt in impact.stopped.items():
        phrases.append(f"stops {stage}" + (f" ({attempt})" if attempt else ""))
    for stage, attempt in impact.going_on.items():
        checked = " and checks it by the new criteria" if stage in impact.newly_checked else ""
        phrases.append(f"lets {stage} ({attempt}) continue{checked}")
    phrases += [f"moves {stage}/ to {folder}/" for stage, folder in impact.kept.items()]
    if impact.seconds:
        span = format_two_unit_duration(sum(impact.seconds.values()))
        phrases.append(f"repeats computations that took {span}")
    return phrases or ["no result is affected"]


def pin_scripts_of_plan(document: Any, root: Path) -> Any:
    """Return a plan with the script digests that ``session_config.pin: scripts`` asks for.

    The word ``scripts`` is replaced by the digest of each current script. Any other plan is
    returned unchanged.
    """
    config = document.get("session_config") if isinstance(document, dict) else None
    if not isinstance(config, dict) or config.get("pin") != "scripts":
        return document
    from service.consent.scripts import find_script_digests

    bare = {**document, "session_config": {**config, "pin": {}}}
    return {
        **bare,
        "session_config": {
            **config,
            "pin": find_script_digests(root, build_initial_state(bare, root)),
        },
    }


def build_initial_state(document: Any, root: Path) -> Workflow:
    """Return the state that a workflow with this plan would have at its start.

    Raises `InvalidPlan` if the plan is invalid.
    """
    from lifecycle.plan.document import build_creation_payload
    from service.writing.workflow_service import planned_state

    now = "1970-01-01T00:00:00.000000Z"
    command: Payload = build_creation_payload(
        pin_scripts_of_plan(document, root), created=now, root={}
    )
    return planned_state(((command, now),))
