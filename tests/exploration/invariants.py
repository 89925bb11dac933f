"""Properties that every transition and every state of a workflow must have.

Each function returns the problem of a transition, or None. The functions read only the recorded
events and the folded states, and do not call the rules.
"""

from __future__ import annotations

from collections import Counter

from lifecycle.state.status import FINISHED, Status
from lifecycle.state.workflow import Stage, Workflow
from projections.screens.next_actions import next_actions
from tests.exploration.search import Place, Step

#: Events that may change a finished workflow.
_REOPENING = frozenset({"amendment.approved"})


def check_attempts_start_once(step: Step) -> str | None:
    """Return a problem if an attempt of the same folder starts twice in a log."""
    for stage in step.after.flow.stages.values():
        for names in ([one.id for one in stage.attempts], [one.name for one in stage.attempts]):
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                return f"the attempt {twice[0]} of {stage.id} was started twice"
    return None


def check_one_attempt_runs(step: Step) -> str | None:
    """Return a problem if two attempts of a stage run at the same time."""
    for stage in step.after.flow.stages.values():
        running = [one.id for one in stage.attempts if one.is_open]
        if len(running) > 1:
            return f"{stage.id} has the running attempts {', '.join(running)}"
    for entry in step.entries:
        if entry.type == "attempt.started":
            before = step.before.flow.stages[entry.data["stage"]].open_attempt
            if before is not None and entry.data["recovers"] != before.id:
                return f"{entry.data['attempt']} started while {before.id} was running"
    return None


def check_results_were_computed(step: Step) -> str | None:
    """Return a problem if a stage is completed without an attempt that computed its results."""
    for id_, stage in step.after.flow.stages.items():
        before = step.before.flow.stages.get(id_)
        if before is None or before.status is stage.status or step.move.change is not None:
            continue
        if stage.status is Status.COMPLETED and not _has_computed(step.after, stage):
            return f"{id_} is completed, but no attempt computed its results"
        if stage.status is Status.POST_PROCESSING and not _has_report_of_success(step, stage):
            return f"the results of {id_} are checked, but no attempt reported its success"
    return None


def _has_computed(place: Place, stage: Stage) -> bool:
    """Return whether the log contains the success of the attempt with the results of a stage."""
    source = stage.source
    if source is None or source.is_open or source.diagnostic or source.results != stage.results:
        return False
    if source.outdated_by is not None and stage.reused is None:
        return False
    known = [one.data for one in place.log.read() if one.type == "stage.computed"]
    mine = [one for one in known if (one["stage"], one["attempt"]) == (stage.id, source.id)]
    return [one["exit_code"] for one in mine] == [0]


def _has_report_of_success(step: Step, stage: Stage) -> bool:
    """Return whether the events contain the success of the newest attempt, or a reuse."""
    newest = step.before.flow.stages[stage.id].attempt
    for entry in step.entries:
        if entry.type == "stage.computed" and entry.data["stage"] == stage.id:
            return newest is not None and newest.is_open and entry.data["attempt"] == newest.id
        if entry.type == "outputs.reused" and entry.data["stage"] == stage.id:
            source = stage.source
            return source is not None and bool(source.results) and not source.is_refuted
    return False


def check_something_can_be_done(step: Step) -> str | None:
    """Return a problem if wfctl suggests no next action, although the workflow is unfinished."""
    actions = next_actions(step.after.flow)
    is_finished = step.after.flow.workflow_status == "completed"
    if not actions:
        return "wfctl suggests no next action and names no decision of a person"
    if not is_finished and actions[0].command == "wfctl report -":
        return "wfctl suggests only a report, but the workflow is not finished"
    return None


def check_finish_is_final(step: Step) -> str | None:
    """Return a problem if a finished workflow changes without a decision of a person.

    A workflow is finished exactly if all its stages and loops are finished.
    """
    before, after = step.before.flow, step.after.flow
    types = [entry.type for entry in step.entries]
    if before.workflow_status == "completed" and step.move.change is None:
        if _answer(before) != _answer(after) and _REOPENING.isdisjoint(types):
            return f"the results of a finished workflow changed by {', '.join(types)}"
        if "workflow.completed" in types and "workflow.reopened" not in types:
            return "a finished workflow was completed again"
    done = all(stage.status in FINISHED for stage in after.stages.values()) and all(
        loop.over is not None for loop in after.loops.values()
    )
    if done != (after.workflow_status == "completed"):
        return f"all work is {'' if done else 'not '}done, but the status does not show this"
    return None


def _answer(flow: Workflow) -> list[object]:
    """Return the answer of a workflow: the status, results and metrics of each stage."""
    return [(one.id, one.status, one.results, one.metrics) for one in flow.stages.values()]


def check_only_valid_events_have_effect(step: Step) -> str | None:
    """Return a problem if an invalid event changes the state, or if a valid approval does not.

    The move states whether its event, such as an approval under the consent policy, is valid.
    """
    if step.move.has_effect is None:
        return None
    is_same = step.before.key == step.after.key
    if not step.move.has_effect:
        return None if is_same else "an event that is not valid changed the state"
    named = getattr(step.move.command, "amendment", None)
    found = step.after.flow.amendments.get(named or "")
    is_approved = named is None or (found is not None and found.status == "approved")
    return None if is_approved and not is_same else "a valid event had no effect"
