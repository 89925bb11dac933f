"""The conditions under which a stage can run: its dependencies and hindrances."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from lifecycle.state.requested_resources import find_ceiling_field, find_reached_ceiling
from lifecycle.state.status import FINISHED, Status, retry_limit
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import VERDICTS
from lifecycle.words.limits import shorten
from lifecycle.words.rounds import LoopDefinition
from lifecycle.words.software import is_caused_by_missing_software
from lifecycle.words.waiting import can_never_start

Graph = Mapping[str, Sequence[str]]
"""Stage id → ids of the stages on which it depends."""


def find_cycle(graph: Graph) -> list[str] | None:
    """Return a circle of dependencies as ``[a, b, …, a]``, or None without a circle.

    Dependencies on unknown stages are ignored.
    """
    from graphlib import CycleError, TopologicalSorter

    known = {id_: [need for need in needs if need in graph] for id_, needs in graph.items()}
    try:
        TopologicalSorter(known).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return None


def downstream(graph: Graph, roots: Iterable[str]) -> set[str]:
    """Return every stage that depends, directly or indirectly, on one of ``roots``."""
    dependents: dict[str, list[str]] = {}
    for stage, needs in graph.items():
        for need in needs:
            dependents.setdefault(need, []).append(stage)
    return upstream(dependents, roots)


def upstream(graph: Graph, stages: Iterable[str]) -> set[str]:
    """Return every stage on which one of ``stages`` depends, directly or indirectly."""
    found: set[str] = set()
    queue = list(stages)
    while queue:
        new = set(graph.get(queue.pop(), ())) - found
        found |= new
        queue += new
    return found


def points_added_by_rounds(state: Workflow, stage: str) -> list[dict[str, Any]]:
    """Return the points that the rounds of a loop added to the stage, in order.

    Return an empty list if the stage is not the one that gets the points of its loop.
    """
    name = state.loop_of(stage)
    if name is None or state.loop(name).points != stage:
        return []
    return state.loops[name].points_from_rounds


def find_point_source_stages(state: Workflow, stage: Stage) -> list[Stage]:
    """Return the stages whose points this sweep stage reuses (`map.like`), nearest first."""
    found: list[Stage] = []
    like = stage.work.like
    while like in state.stages and state.stages[like] not in found:
        found.append(state.stages[like])
        like = found[-1].work.like
    return found


def list_points_files(state: Workflow, stage: Stage) -> set[str]:
    """Return the files from which the points of a sweep are read.

    These are the points file of the stage and the task tables of the stages whose points it reuses.
    A change of these files alone does not make task results invalid.
    """
    tables = (partner.work.tables for partner in find_point_source_stages(state, stage))
    return {*stage.work.points_files}.union(*tables)


def list_needed_files(state: Workflow, stage: Stage) -> list[str]:
    """Return the files that a stage needs: its inputs and the outputs of its dependencies.

    Only completed dependencies are included.
    """
    done = [state.stages[id_] for id_ in stage.depends_on]
    left = [path for one in done if one.status is Status.COMPLETED for path in one.outputs]
    return list(dict.fromkeys([*stage.inputs, *left]))


def is_ready_with_earlier_results(stage: Stage) -> bool:
    """Return whether the stage is ready to run and an earlier attempt has results."""
    return stage.status is Status.READY and any(one.results for one in stage.attempts)


#: Maximum number of characters shown of a failure's reason.
_REASON = 300
#: Verdicts that no further automatic check can change. A person must find out how the attempt
#: ended.
_FOR_SOMEBODY = frozenset({"ELSEWHERE", "FORGOTTEN", "UNREADABLE", "UNSEEN", "UNTOLD"})
#: Verdict on an attempt whose next step failed. The reason of the verdict explains the remedy.
_HINDERED = "HINDERED"
#: Verdict on an attempt whose remote machine refuses the connection or the folder for its jobs.
_MACHINE_REFUSED = "MACHINE_REFUSED"
#: Number of the rule for an attempt that another user launched and that left no evidence.
_OF_SOMEBODY_ELSE = 25


class Hindrance(NamedTuple):
    """A cause that prevents a stage from continuing, with commands that remove it.

    A hindrance without a stage blocks the whole workflow. ``unblock`` is a text with one or more
    commands. ``command`` is the first of them, and ``needs`` lists its placeholders. ``advice``
    explains briefly why the command helps. If ``may_pass`` is set, the cause, such as a full disk,
    may disappear without a command, and the stage is tried again.
    """

    stage: str | None
    why: str
    unblock: str
    command: str = ""
    needs: tuple[str, ...] = ()
    may_pass: bool = False
    advice: str | None = None

    @property
    def short_reason(self) -> str:
        """The stage and the advice, or the stage and the cause if there is no advice."""
        where = f"{self.stage}: " if self.stage else ""
        return f"{where}{self.advice or self.why}"

    def to_dict(self) -> dict[str, str | None]:
        """Return the hindrance as a dictionary of JSON values."""
        return {"stage": self.stage, "why": self.why, "unblock": self.unblock}

    def __str__(self) -> str:
        where = f"{self.stage}: " if self.stage else ""
        return f"{where}{self.why}; to continue: {self.unblock.removesuffix(',')}"


def _build_hindrance(
    stage: Stage, why: str, command: str, *needs: str, advice: str | None = None
) -> Hindrance:
    """Return a hindrance of a stage that a single command removes.

    ``needs`` lists the placeholders in the command.
    """
    return Hindrance(stage.id, why, f"`{command}`", command, needs, advice=advice)


def find_hindrances(state: Workflow) -> list[Hindrance]:
    """Return all causes that only a person or an agent can remove, decisions first.

    Failed stages that an undecided amendment affects are omitted, because the decision comes first.
    """
    stages = (
        one for one in state.stages.values() if not open_amendments_of_failed_stage(state, one)
    )
    of_stages = (find_stage_hindrance(state, stage) for stage in stages)
    found = [one for one in of_stages if one is not None]
    return [*_decisions(state), *_find_waiting_loop_hindrances(state), *found]


def open_amendments_of_failed_stage(state: Workflow, stage: Stage) -> list[str]:
    """Return the ids of undecided amendments that affect a failed stage.

    These are amendments of the stage, or of a stage on which it depends. Return an empty list if
    the stage has not failed.
    """
    if stage.status is not Status.FAILED or not state.pending_amendments:
        return []
    graph = {id_: one.depends_on for id_, one in state.stages.items()}
    changed = {stage.id, *upstream(graph, [stage.id])}
    return [
        one.id
        for one in state.pending_amendments
        if changed & {one.stage, *one.targets, *state.list_parameter_users(one)}
    ]


def _find_waiting_loop_hindrances(state: Workflow) -> Iterator[Hindrance]:
    """Yield a hindrance for each loop that waits for points from a person or an agent."""
    for name, loop in state.loops.items():
        if loop.is_due and state.loop(name).has_external_proposer:
            why = f"{name} waits for the points of round {loop.round.number + 1}"
            command = f"wfctl round propose {name} FILE --reason TEXT"
            yield Hindrance(None, why, f"`{command}`", command, ("FILE", "TEXT"))


def has_run_rejected_points(state: Workflow, name: str) -> bool:
    """Return whether `run` has rejected the points that a stage of the loop wrote.

    A session that ends as blocked has tried to start every round that may start.
    """
    is_blocked = not state.session.is_open and state.session.exit_reason == "blocked"
    return is_blocked and state.loops[name].is_due and not state.loop(name).has_external_proposer


def advise_after_rejected_points(loop: LoopDefinition, why: str) -> tuple[str, str]:
    """Return a command and a message for the case that new points of a loop are rejected.

    The message is ``why`` followed by the choices of the user.
    """
    choices = (
        f"correct {loop.points_source_stage} first, change the limits in rounds.{loop.name} by an "
        f"amendment, or end the loop with `wfctl round stop {loop.name} --reason TEXT`"
    )
    return f"wfctl rerun {loop.points_source_stage} --reason TEXT", f"{why}: {choices}"


def _decisions(state: Workflow) -> Iterator[Hindrance]:
    for amendment in state.pending_amendments:
        id_, rejects = amendment.id, f" or `wfctl amend reject {amendment.id}`"
        if amendment.status == "rejected":
            why, rejects = "the plan was rejected and needs a new decision", ""
        elif amendment.is_plan:
            why = "the plan waits for a person's approval"
        else:
            why = f"{id_} ({amendment.kind}) waits for a person's decision"
        yield Hindrance(amendment.stage, why, f"`wfctl amend approve {id_}`{rejects}")


def find_stage_hindrance(state: Workflow, stage: Stage) -> Hindrance | None:
    """Return the hindrance of a stage that only a person or an agent can continue, or None."""
    match stage.status:
        case Status.FAILED:
            return _build_failure_hindrance(state, stage)
        case Status.POST_PROCESSING if not stage.parameters.get("verify"):
            return _find_judgement_hindrance(stage)
        case Status.RUNNING | Status.PREPARING:
            return _under_way(stage)
        case Status.PENDING | Status.INVALIDATED | Status.READY:
            return _find_skipped_dependency_hindrance(state, stage)
    return None


def _find_judgement_hindrance(stage: Stage) -> Hindrance | None:
    """Return the hindrance of a stage whose results a person must judge.

    Return None if the stage needs no judgement.
    """
    if stage.success_criteria:
        why = f"a person must judge its success criteria ({stage.success_criteria:.200})"
    elif not stage.outputs:
        why = (
            "the stage has no outputs, check or success criteria, so a person must decide when it "
            "is completed"
        )
    else:
        return None
    return _build_hindrance(
        stage, why, f"wfctl stage complete {stage.id} --or-fail --evidence TEXT", "TEXT"
    )


def _build_failure_hindrance(state: Workflow, stage: Stage) -> Hindrance:
    """Return the hindrance of a failed stage, with the command that makes it run again.

    Depending on the cause, this is a change of the plan, a retry after a fix, or an amendment that
    a person approves. After an amendment, the stage is computed again without counting a retry.
    """
    cause = shorten(describe_failure(stage), _REASON)
    ceiling = find_reached_ceiling(state, stage, stage.short_of)
    if ceiling is not None:
        field, is_own = find_ceiling_field(state, stage, ceiling)
        change = _amendment(stage, f"--set parameters.{field}=NUMBER", "NUMBER")
        given = change if is_own else (_APPLY, "FILE", "TEXT")
        advice = f"allow a larger {field}"
        return _build_hindrance(stage, f"failed ({cause}); {advice}", *given, advice=advice)
    if is_failure_caused_by_plan(state, stage):
        advice = "a retry of the same plan would fail in the same way"
        return _build_hindrance(
            stage, f"failed ({cause}); {advice}", _APPLY, "FILE", "TEXT", advice=advice
        )
    if is_software_missing(state, stage):
        advice = "install the missing software, or name other software in the plan"
        retry = f"wfctl stage retry {stage.id} --fix TEXT"
        unblock = f"`{_APPLY}`, or `{retry}` after the installation,"
        why = f"failed ({cause}); {advice}"
        return Hindrance(stage.id, why, unblock, _APPLY, ("FILE", "TEXT"), advice=advice)
    limit = retry_limit(state.backend_type(stage))
    if stage.retry_count >= limit:
        advice = f"all {limit} retries are used"
        why = f"failed, and {advice} ({cause})"
        return _build_hindrance(stage, why, *_amendment(stage, "--type stage_rerun"), advice=advice)
    if has_failed_result_check(stage):
        advice = f"{_REFUTED}{_suggest_changes(stage)}"
        change = _amendment(stage, "--set PATH=VALUE", "PATH=VALUE")
        return _build_hindrance(stage, f"failed ({cause}); {_REFUTED}", *change, advice=advice)
    retry = f"wfctl stage retry {stage.id} --fix TEXT"
    return _build_hindrance(
        stage, f"failed ({cause})", retry, "TEXT", advice="correct the cause first"
    )


_REFUTED = "a retry would give the same results"


def _suggest_changes(stage: Stage) -> str:
    """Return a sentence with the parameters that may correct the results of a stage.

    These are parameters of the stage and of the stages on which it depends. The sentence also
    states what to do if no values can correct the results.
    """
    # Imported here, because only this advice about a failed check needs the module.
    from lifecycle.sweeps.parameters import PARAMETERS_OF_WFCTL

    own = [name for name in stage.parameters if name not in PARAMETERS_OF_WFCTL]
    names = f" ({', '.join(own)})" if 0 < len(own) <= _NAMED else ""
    others = f", or those of {' or '.join(stage.depends_on)}" if stage.depends_on else ""
    return (
        f"; change its parameters{names}{others}. If no values can meet the criterion, record that "
        "with wfctl note: a person decides"
    )


#: Maximum number of parameter names in a suggestion.
_NAMED = 6


_APPLY = "wfctl plan apply FILE --reason TEXT"
#: Verdicts on an attempt whose requested resources were unavailable or too small.
_OF_THE_PLAN = frozenset({"REJECTED", "LIMIT_EXCEEDED"})
#: Prefix of a failure's cause if the job could not be built from the plan.
PLAN_CAUSE = "plan: "
#: Messages of a job that needed more time or memory than the plan allows.
_LIMIT_CAUSE = "ended by its time limit of|its scheduler says (TIMEOUT|OUT_OF_MEMORY|DEADLINE)"


def is_failure_caused_by_plan(state: Workflow, stage: Stage) -> bool:
    """Return whether the stage failed because of values in the current plan."""
    because = _cause_under_current_plan(state, stage)
    if because.startswith(PLAN_CAUSE) or re.search(_LIMIT_CAUSE, because):
        return True
    return bool(because) and bool(stage.attempts) and stage.attempts[-1].verdict in _OF_THE_PLAN


def is_software_missing(state: Workflow, stage: Stage) -> bool:
    """Return whether the stage failed because software named in the plan is not installed."""
    return is_caused_by_missing_software(_cause_under_current_plan(state, stage))


def _cause_under_current_plan(state: Workflow, stage: Stage) -> str:
    """Return the cause of the stage's failure, or "" if the plan was changed after the failure."""
    return (stage.because or "") if stage.failed_plan >= state.version else ""


def has_failed_result_check(stage: Stage) -> bool:
    """Return whether a stage failed because its results did not pass the check.

    For a sweep, this must be the cause of all failed tasks.
    """
    if not stage.attempts:
        return False
    last = stage.attempts[-1]
    failed = (last.tasks or {}).get("failures", [])
    by_task = [str(one.get("because")).startswith(VERDICTS) for one in failed]
    return last.is_refuted or (bool(by_task) and all(by_task))


def _amendment(stage: Stage, change: str, *needs: str) -> tuple[str, ...]:
    command = f"wfctl amend propose --stage {stage.id} {change} --reason TEXT"
    return (command, *needs, "TEXT")


def describe_failure(stage: Stage) -> str:
    """Return the cause of a stage's failure and its error message, in one line."""
    error = " ".join((stage.last_error or "the cause is not known").split())
    cause = stage.because
    if not cause or cause.partition(": ")[2] in error or cause in error:
        return error
    return f"{cause}; {error}"


def _under_way(stage: Stage) -> Hindrance | None:
    attempt = stage.open_attempt
    if attempt is not None and attempt.waiting and can_never_start(attempt.waiting["reason"]):
        why = f"{attempt.id} cannot start: {attempt.waiting['reason']}"
        return _build_hindrance(stage, why, _APPLY, "FILE", "TEXT")
    if attempt is None or attempt.action != "unknown":
        return None
    if attempt.verdict == _MACHINE_REFUSED:
        why = f"{attempt.id} cannot continue: {attempt.reason}; correct this first"
        return _build_hindrance(stage, why, "wfctl run")
    if attempt.verdict == _HINDERED:
        why = f"{attempt.id} cannot continue: {str(attempt.reason).removesuffix('.')}"
        return _build_hindrance(stage, why, "wfctl reconcile")._replace(may_pass=True)
    why = f"the state of {attempt.id} is unknown ({attempt.reason})"
    if attempt.verdict not in _FOR_SOMEBODY and attempt.row != _OF_SOMEBODY_ELSE:
        return _build_hindrance(stage, why, "wfctl reconcile")
    fail = f"wfctl stage fail {stage.id} --error TEXT"
    unblock = (
        f"`{fail}` and then `wfctl stage retry {stage.id} --fix TEXT`, or `wfctl stage compute "
        f"{stage.id}` if its results exist,"
    )
    return Hindrance(stage.id, why, unblock, fail, ("TEXT",))


def _find_skipped_dependency_hindrance(state: Workflow, stage: Stage) -> Hindrance | None:
    """Return the hindrance of a stage that depends on a skipped stage.

    Return None if no dependency was skipped.
    """
    for dependency in stage.depends_on:
        if state.stages[dependency].status is Status.SKIPPED:
            why = f"the stage depends on {dependency}, which was skipped"
            return _build_hindrance(stage, why, *_amendment(stage, "--set depends_on=JSON", "JSON"))
    return None


def is_stuck(state: Workflow) -> bool:
    """Return whether unfinished stages exist and none of them is ready or running."""
    going = {Status.READY, Status.PREPARING, Status.RUNNING, Status.POST_PROCESSING}
    statuses = {stage.status for stage in state.stages.values()}
    return not statuses & going and not statuses <= FINISHED


WorkClass = Literal["sync", "async", "error_cycle", "diagnostic"]
