"""The conditions under which a stage can run: dependencies, hindrances and the budget."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from math import ceil
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from lifecycle.state.status import FINISHED, Status, retry_limit
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.sweeps.definition import VERDICTS
from lifecycle.words.document import default_session_config
from lifecycle.words.rounds import LoopDefinition
from lifecycle.words.software import is_missing
from lifecycle.words.values import MAX_WEIGHT, merge_environments
from lifecycle.words.waiting import can_never_start

if TYPE_CHECKING:
    from lifecycle.payload import models as p


Graph = Mapping[str, Sequence[str]]
"""Stage id → ids of the stages on which it depends."""


def find_cycle(graph: Graph) -> list[str] | None:
    """Return a circle of dependencies as ``[a, b, …, a]``, or None if there is none.

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


def added_points(state: Workflow, stage: str) -> list[dict[str, Any]]:
    """Return the points that the rounds of a loop added to the stage, in order.

    Return an empty list if the stage is not the one that gets the points of its loop.
    """
    name = state.loop_of(stage)
    if name is None or state.loop(name).points != stage:
        return []
    return state.loops[name].added


def partners_of(state: Workflow, stage: Stage) -> list[Stage]:
    """Return the stages whose points this sweep stage reuses (`map.like`), nearest first."""
    found: list[Stage] = []
    like = stage.work.like
    while like in state.stages and state.stages[like] not in found:
        found.append(state.stages[like])
        like = found[-1].work.like
    return found


def files_of_points(state: Workflow, stage: Stage) -> set[str]:
    """Return the files from which the points of a sweep are read.

    These are the points file of the stage and the task tables of the stages whose points it reuses.
    A change of these files alone does not make task results invalid.
    """
    tables = (partner.work.tables for partner in partners_of(state, stage))
    return {*stage.work.points_files}.union(*tables)


#: Parameters that influence the results only in part. Only the relevant part is included in the
#: digest.
_IN_PART = frozenset({"resource_overrides", "environment"})
#: Resource settings that influence which software a command finds.
_SOFTWARE = (
    "envs",
    "module_list",
    "module_unload_list",
    "source_list",
    "prepend_script",
    "append_script",
)


def basis_of(state: Workflow, stage: Stage) -> str:
    """Return the basis of a stage: a digest of everything that determines its results.

    It is the SHA-256 (in hex) of the command, parameters, inputs, outputs and software settings.
    """
    profile, parameters = state.profile(stage), stage.parameters
    aside = stage.work.ignored_parameters | _IN_PART
    resources = _resources(state, stage)
    known = {
        "parameters": {name: parameters[name] for name in parameters if name not in aside},
        "inputs": stage.inputs,
        "outputs": stage.declared_outputs,
        "environment": merge_environments(profile, parameters) or parameters.get("environment"),
        "resources": {name: resources[name] for name in _SOFTWARE if resources.get(name)},
    }
    return sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def has_outdated_tasks(state: Workflow, stage: Stage) -> bool:
    """Return whether the definition of a waiting stage has changed since its last attempt.

    If it has, the tasks of that attempt are computed again.
    """
    if stage.status in (Status.COMPLETED, Status.FAILED) or not stage.attempts:
        return False
    last = stage.attempts[-1]
    return not last.is_open and bool(last.basis) and last.basis != basis_of(state, stage)


def _resources(state: Workflow, stage: Stage) -> dict[str, Any]:
    found: dict[str, Any] = {}
    own = stage.parameters.get("resource_overrides")
    for given in (state.profile(stage).get("resource_defaults"), own):
        found |= given if isinstance(given, dict) else {}
    return found


def cores(state: Workflow, stage: Stage) -> int:
    """Return the number of cores that one task of the stage uses, on all its nodes."""
    found = _resources(state, stage)
    return _count(found.get("number_node")) * _count(found.get("cpu_per_node"))


def _count(given: Any) -> int:
    """Return a value as an integer of at least 1, rounded up.

    Return 1 for a value that is not a number.
    """
    try:
        return max(1, ceil(float(given)))
    except (TypeError, ValueError, OverflowError):
        return 1


def needed_by(state: Workflow, stage: Stage) -> list[str]:
    """Return the files that a stage needs: its inputs and the outputs of its dependencies.

    Only completed dependencies are included.
    """
    done = [state.stages[id_] for id_ in stage.depends_on]
    left = [path for one in done if one.status is Status.COMPLETED for path in one.outputs]
    return list(dict.fromkeys([*stage.inputs, *left]))


def reusable(state: Workflow, stage: Stage) -> list[Attempt]:
    """Return the attempts whose results the stage could reuse, newest first.

    They succeeded and have the current definition, but their input files may differ. Results that
    no command computed are never reused. Tasks of a sweep are compared separately.
    """
    if not stage.work.output_command:
        return []
    good = [one for one in stage.attempts if one.results and not one.is_refuted]
    basis = basis_of(state, stage) if good else ""
    return [one for one in reversed(good) if one.basis == basis and not one.taken_over]


def has_results_kept(stage: Stage) -> bool:
    """Return whether the stage is ready to run and an earlier attempt has results."""
    return stage.status is Status.READY and any(one.results for one in stage.attempts)


def is_judged_alone(state: Workflow, stage: Stage) -> bool:
    """Return whether existing results only have to be checked again.

    For a sweep, these are the results of its tasks. For other stages, these are archived outputs,
    unless the session configuration forbids reuse.
    """
    may = state.session_config.get("reuse", "offer") != "never"
    return stage.work.keeps_tasks(stage.work) or (may and bool(reusable(state, stage)))


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


@dataclass(frozen=True, slots=True)
class Hindrance:
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


def _by(stage: Stage, why: str, command: str, *needs: str, advice: str | None = None) -> Hindrance:
    """Return a hindrance of a stage that a single command removes.

    ``needs`` lists the placeholders in the command.
    """
    return Hindrance(stage.id, why, f"`{command}`", command, needs, advice=advice)


def hindrances(state: Workflow) -> list[Hindrance]:
    """Return all causes that only a person or an agent can remove, decisions first.

    Failed stages that an undecided amendment affects are omitted, because the decision comes first.
    """
    stages = (one for one in state.stages.values() if not pending_answers(state, one))
    of_stages = (find_what_waits(state, stage) for stage in stages)
    found = [one for one in of_stages if one is not None]
    return [*_decisions(state), *_asked(state), *found]


def pending_answers(state: Workflow, stage: Stage) -> list[str]:
    """Return the ids of undecided amendments that affect a failed stage.

    These are amendments of the stage, or of a stage on which it depends. Return an empty list if
    the stage has not failed.
    """
    if stage.status is not Status.FAILED or not state.pending_amendments:
        return []
    graph = {id_: one.depends_on for id_, one in state.stages.items()}
    changed = {stage.id, *upstream(graph, [stage.id])}
    return [one.id for one in state.pending_amendments if changed & {one.stage, *one.targets}]


def _asked(state: Workflow) -> Iterator[Hindrance]:
    """Yield a hindrance for each loop that waits for points from a person or an agent."""
    for name, loop in state.loops.items():
        if loop.is_due and state.loop(name).asks_somebody:
            why = f"{name} waits for the points of round {loop.round.number + 1}"
            command = f"wfctl round propose {name} FILE --reason TEXT"
            yield Hindrance(None, why, f"`{command}`", command, ("FILE", "TEXT"))


def has_blocked_on_due_round(state: Workflow, name: str) -> bool:
    """Return whether `run` has rejected the points that a stage of the loop wrote.

    A session that ends as blocked has tried to start every round that may start.
    """
    is_blocked = not state.session.is_open and state.session.exit_reason == "blocked"
    return is_blocked and state.loops[name].is_due and not state.loop(name).asks_somebody


def after_refused_points(loop: LoopDefinition, why: str) -> tuple[str, str]:
    """Return a command and a message for the case that new points of a loop are rejected.

    The message is ``why`` followed by the choices of the user.
    """
    choices = (
        f"correct {loop.asked} first, change the limits in rounds.{loop.name} by an amendment, or "
        f"end the loop with `wfctl round stop {loop.name} --reason TEXT`"
    )
    return f"wfctl rerun {loop.asked} --reason TEXT", f"{why}: {choices}"


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


def find_what_waits(state: Workflow, stage: Stage) -> Hindrance | None:
    """Return the hindrance of a stage that only a person or an agent can continue, or None."""
    match stage.status:
        case Status.FAILED:
            return _failed(state, stage)
        case Status.POST_PROCESSING if not stage.parameters.get("verify"):
            return _judged(stage)
        case Status.RUNNING | Status.PREPARING:
            return _under_way(stage)
        case Status.PENDING | Status.INVALIDATED | Status.READY:
            return _held_back(state, stage)
    return None


def _judged(stage: Stage) -> Hindrance | None:
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
    return _by(stage, why, f"wfctl stage complete {stage.id} --or-fail --evidence TEXT", "TEXT")


def _failed(state: Workflow, stage: Stage) -> Hindrance:
    """Return the hindrance of a failed stage, with the command that makes it run again.

    Depending on the cause, this is a change of the plan, a retry after a fix, or an amendment that
    a person approves. After an amendment, the stage is computed again without counting a retry.
    """
    cause = reason(stage)[:_REASON]
    if lies_in_plan(state, stage):
        advice = "a retry of the same plan would fail in the same way"
        return _by(stage, f"failed ({cause}); {advice}", _APPLY, "FILE", "TEXT", advice=advice)
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
        return _by(stage, why, *_amendment(stage, "--type stage_rerun"), advice=advice)
    if is_refuted(stage):
        advice = f"{_REFUTED}{_suggest_changes(stage)}"
        change = _amendment(stage, "--set PATH=VALUE", "PATH=VALUE")
        return _by(stage, f"failed ({cause}); {_REFUTED}", *change, advice=advice)
    retry = f"wfctl stage retry {stage.id} --fix TEXT"
    return _by(stage, f"failed ({cause})", retry, "TEXT", advice="correct the cause first")


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
_LIMIT_CAUSE = re.compile(
    "ended by its time limit of|its scheduler says (TIMEOUT|OUT_OF_MEMORY|DEADLINE)"
)


def lies_in_plan(state: Workflow, stage: Stage) -> bool:
    """Return whether the stage failed because of values in the current plan."""
    because = _cause_by_plan(state, stage)
    if because.startswith(PLAN_CAUSE) or _LIMIT_CAUSE.search(because):
        return True
    return bool(because) and bool(stage.attempts) and stage.attempts[-1].verdict in _OF_THE_PLAN


def is_software_missing(state: Workflow, stage: Stage) -> bool:
    """Return whether the stage failed because software named in the plan is not installed."""
    return is_missing(_cause_by_plan(state, stage))


def _cause_by_plan(state: Workflow, stage: Stage) -> str:
    """Return the cause of the stage's failure, or "" if the plan was changed after the failure."""
    return (stage.because or "") if stage.failed_plan >= state.version else ""


def is_refuted(stage: Stage) -> bool:
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


def reason(stage: Stage) -> str:
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
        return _by(stage, why, _APPLY, "FILE", "TEXT")
    if attempt is None or attempt.action != "unknown":
        return None
    if attempt.verdict == _MACHINE_REFUSED:
        why = f"{attempt.id} cannot continue: {attempt.reason}; correct this first"
        return _by(stage, why, "wfctl run")
    if attempt.verdict == _HINDERED:
        why = f"{attempt.id} cannot continue: {str(attempt.reason).removesuffix('.')}"
        return replace(_by(stage, why, "wfctl reconcile"), may_pass=True)
    why = f"the state of {attempt.id} is unknown ({attempt.reason})"
    if attempt.verdict not in _FOR_SOMEBODY and attempt.row != _OF_SOMEBODY_ELSE:
        return _by(stage, why, "wfctl reconcile")
    fail = f"wfctl stage fail {stage.id} --error TEXT"
    unblock = (
        f"`{fail}` and then `wfctl stage retry {stage.id} --fix TEXT`, or `wfctl stage compute "
        f"{stage.id}` if its results exist,"
    )
    return Hindrance(stage.id, why, unblock, fail, ("TEXT",))


def _held_back(state: Workflow, stage: Stage) -> Hindrance | None:
    """Return the hindrance of a stage that depends on a skipped stage.

    Return None if no dependency was skipped.
    """
    for dependency in stage.depends_on:
        if state.stages[dependency].status is Status.SKIPPED:
            why = f"the stage depends on {dependency}, which was skipped"
            return _by(stage, why, *_amendment(stage, "--set depends_on=JSON", "JSON"))
    return None


def is_stuck(state: Workflow) -> bool:
    """Return whether unfinished stages exist and none of them is ready or running."""
    going = {Status.READY, Status.PREPARING, Status.RUNNING, Status.POST_PROCESSING}
    statuses = {stage.status for stage in state.stages.values()}
    return not statuses & going and not statuses <= FINISHED


WorkClass = Literal["sync", "async", "error_cycle", "diagnostic"]


def weight_of(state: Workflow, work_class: WorkClass) -> float:
    """Return the cost of a class of work, as configured in ``session_config.stage_weights``.

    Without a valid configured value, return the default.
    """
    usual: dict[str, float] = default_session_config()["stage_weights"]
    given = state.session_config.get("stage_weights")
    own = given.get(work_class) if isinstance(given, dict) else None
    # An imported file may contain any weight, but the log accepts only charges within limits.
    return own if _is_number(own) and 0 <= own <= MAX_WEIGHT else usual[work_class]


def budget_of(state: Workflow) -> float:
    """Return the maximum total cost of the work in one session."""
    found = state.session_config.get("session_budget")
    return found if _is_number(found) else default_session_config()["session_budget"]


def _is_number(found: Any) -> TypeGuard[int | float]:
    return isinstance(found, int | float) and not isinstance(found, bool)


def config_problems(config: Mapping[str, Any]) -> list[str]:
    """Return the problems of those fields of ``session_config`` that control sessions."""
    weights = config.get("stage_weights", {})
    named = {"session_budget": config.get("session_budget", 0)}
    if isinstance(weights, dict):
        named |= {f"stage_weights.{name}": weight for name, weight in weights.items()}
    problems = [
        f"session_config.{place}: expected a number from 0 to {MAX_WEIGHT:g} (found {value!r:.80})"
        for place, value in named.items()
        if not _is_number(value) or not 0 <= value <= MAX_WEIGHT
    ]
    if not isinstance(weights, dict):
        problems.append(f"session_config.stage_weights: expected an object (found {weights!r:.80})")
    reuse, pin = config.get("reuse", "offer"), config.get("pin", {})
    pins = isinstance(pin, dict) and all(isinstance(one, str) for one in pin.values())
    others = {
        "reuse": (reuse in ("offer", "take", "never"), "offer, take or never"),
        "pin": (pins, "scripts, or an object of files with their SHA-256"),
        "autonomous": (isinstance(config.get("autonomous", False), bool), "true or false"),
    }
    return problems + [
        f"session_config.{name}: expected {expected} (found {config[name]!r:.80})"
        for name, (fits, expected) in others.items()
        if not fits
    ]


def class_of(state: Workflow, stage: Stage) -> WorkClass:
    """Return the cost class of the work that a stage has just ended.

    The classes are "sync" (a successful local attempt that runs in the foreground), "async" (remote
    or in the background), "error_cycle" (failed or retried) and "diagnostic" (a diagnostic run). If
    several classes apply, return the most expensive one.
    """
    attempt = None if stage.reused else stage.attempt
    remote = state.backend_type(stage) == "remote" and not stage.reused
    waited = attempt is not None and (attempt.mode != "sync" or bool(attempt.recovers))
    # Order matters: if two classes have the same weight, the first one is used.
    is_of: dict[WorkClass, bool] = {
        "diagnostic": attempt is not None and attempt.diagnostic,
        "error_cycle": stage.retry_count > 0 or stage.status is Status.FAILED,
        "async": remote or waited,
    }
    found: list[WorkClass] = [name for name, holds in is_of.items() if holds]
    return max(found or ["sync"], key=lambda name: weight_of(state, name))


def charges(state: Workflow) -> list[p.CostCharged]:
    """Return the events that charge the costs of ended work to the open session.

    Each end of a stage is charged once. Work that ended while no session was open is charged to the
    next session. Return an empty list if no session is open.
    """
    if not state.session.is_open:
        return []
    due = {s.id: class_of(state, s) for s in state.stages.values() if s.uncharged}
    if not due:
        return []  # a read-only call charges nothing and needs no model
    from lifecycle.payload import models as p

    return [
        p.CostCharged(stage=id_, weight=weight_of(state, work), work_class=work)
        for id_, work in due.items()
    ]


#: A local stage with a lower expected run time, in seconds, runs in the foreground.
_SYNC_BELOW = 120


def is_short(state: Workflow, stage: Stage) -> bool:
    """Return whether a stage runs in the foreground: a local stage of less than two minutes."""
    expected: Any = stage.parameters.get("expected_seconds")
    local = state.backend_type(stage) == "local"
    return local and _is_number(expected) and bool(expected < _SYNC_BELOW)


def estimate(state: Workflow, stage: Stage) -> float:
    """Return the expected cost of a stage if it succeeds.

    The cost depends on whether the stage runs in the foreground and whether it is a retry.
    """
    found = weight_of(state, "sync" if is_short(state, stage) else "async")
    return max(found, weight_of(state, "error_cycle")) if stage.retry_count else found


def affords(state: Workflow, stage: Stage, under_way: Iterable[Stage] = ()) -> bool:
    """Return whether the rest of the session's budget covers the stage.

    The estimated costs of the running stages (``under_way``) are subtracted first.
    """
    reserved = sum(estimate(state, other) for other in under_way)
    return state.session.cost + reserved + estimate(state, stage) <= budget_of(state)


def is_beyond(state: Workflow, stage: Stage) -> bool:
    """Return whether the estimated cost of the stage exceeds the whole budget of a session."""
    return estimate(state, stage) > budget_of(state)
