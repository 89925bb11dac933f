"""The conditions of a stage: its dependencies, its hindrances and its session budget."""

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
    """Return one cycle as ``[a, b, …, a]``, or None. Ignores unknown ids."""
    from graphlib import CycleError, TopologicalSorter

    known = {id_: [need for need in needs if need in graph] for id_, needs in graph.items()}
    try:
        TopologicalSorter(known).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return None


def downstream(graph: Graph, roots: Iterable[str]) -> set[str]:
    """Return every stage that depends, directly or not, on one of ``roots``, without the roots."""
    dependents: dict[str, list[str]] = {}
    for stage, needs in graph.items():
        for need in needs:
            dependents.setdefault(need, []).append(stage)
    return upstream(dependents, roots)


def upstream(graph: Graph, stages: Iterable[str]) -> set[str]:
    """Return every stage on which one of ``stages`` depends, directly or not."""
    found: set[str] = set()
    queue = list(stages)
    while queue:
        new = set(graph.get(queue.pop(), ())) - found
        found |= new
        queue += new
    return found


def added_points(state: Workflow, stage: str) -> list[dict[str, Any]]:
    """Return the points that rounds added to a stage's map, in their order."""
    name = state.loop_of(stage)
    if name is None or state.loop(name).points != stage:
        return []
    return state.loops[name].added


def partners_of(state: Workflow, stage: Stage) -> list[Stage]:
    """Return the stages from which a stage takes its points by `like`, nearest first."""
    found: list[Stage] = []
    like = stage.work.like
    while like in state.stages and state.stages[like] not in found:
        found.append(state.stages[like])
        like = found[-1].work.like
    return found


def files_of_points(state: Workflow, stage: Stage) -> set[str]:
    """Return the files that define the points of a sweep. No task result depends on them.

    These are the file of its map and the tables of its partner stages. A task depends on the folder
    of its partner task instead.
    """
    tables = (partner.work.tables for partner in partners_of(state, stage))
    return {*stage.work.points_files}.union(*tables)


#: Parameters of which only a part affects the results. The digest uses that part alone.
_IN_PART = frozenset({"resource_overrides", "environment"})
#: Resources that change which software a command finds.
_SOFTWARE = (
    "envs",
    "module_list",
    "module_unload_list",
    "source_list",
    "prepend_script",
    "append_script",
)


def basis_of(state: Workflow, stage: Stage) -> str:
    """Return the SHA-256 in hex of a stage's command, parameters, inputs, outputs and software."""
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
    """Return whether a stage waits to run with a new definition since its last attempt.

    The tasks of that attempt are then computed again.
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
    """Return the number of cores of a task of a stage, on all its nodes."""
    found = _resources(state, stage)
    return _count(found.get("number_node")) * _count(found.get("cpu_per_node"))


def _count(given: Any) -> int:
    """Return a value as a whole number, at least the minimum: ``2.5`` or ``"3"`` gives 3."""
    try:
        return max(1, ceil(float(given)))
    except (TypeError, ValueError, OverflowError):
        return 1


def needed_by(state: Workflow, stage: Stage) -> list[str]:
    """Return the inputs of a stage, and the outputs of its completed dependencies."""
    done = [state.stages[id_] for id_ in stage.depends_on]
    left = [path for one in done if one.status is Status.COMPLETED for path in one.outputs]
    return list(dict.fromkeys([*stage.inputs, *left]))


def reusable(state: Workflow, stage: Stage) -> list[Attempt]:
    """Return the successful attempts with the current definition, newest first.

    Their inputs may differ. Tasks of a sweep are compared one by one, and results that no command
    computed are never reused.
    """
    if not stage.work.output_command:
        return []
    good = [one for one in stage.attempts if one.results and not one.is_refuted]
    basis = basis_of(state, stage) if good else ""
    return [one for one in reversed(good) if one.basis == basis and not one.taken_over]


def has_results_kept(stage: Stage) -> bool:
    """Return whether the stage is ready and an earlier attempt left results."""
    return stage.status is Status.READY and any(one.results for one in stage.attempts)


def is_judged_alone(state: Workflow, stage: Stage) -> bool:
    """Return whether results exist that need only a new check, because only the check has changed.

    For a sweep, these are its tasks. For other stages, these are kept outputs, unless reuse is off.
    """
    may = state.session_config.get("reuse", "offer") != "never"
    return stage.work.keeps_tasks(stage.work) or (may and bool(reusable(state, stage)))


#: Maximum number of characters of a failure's reason.
_REASON = 300
#: Verdicts that no further check changes. A person must find out how the attempt ended.
_FOR_SOMEBODY = frozenset({"ELSEWHERE", "FORGOTTEN", "UNREADABLE", "UNSEEN", "UNTOLD"})
#: The verdict on an attempt whose next step was refused. Its reason states what to do.
_HINDERED = "HINDERED"
#: The verdict on an attempt whose machine refuses the connection or a folder for its jobs.
_MACHINE_REFUSED = "MACHINE_REFUSED"
#: Row of the verdict on an attempt that another user launched and that left no evidence.
_OF_SOMEBODY_ELSE = 25


@dataclass(frozen=True, slots=True)
class Hindrance:
    """A cause that blocks a stage (None: the whole workflow), with the command that removes it.

    ``unblock`` is a string with one command or several; ``command`` is the first of them, with the
    placeholders that ``needs`` lists. ``advice`` says in a few words why this command helps. A
    cause that ``may_pass``, such as a full disk, may end without a command: the stage is tried
    again.
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
        """The stage with the advice, or with the whole cause if there is no advice."""
        where = f"{self.stage}: " if self.stage else ""
        return f"{where}{self.advice or self.why}"

    def to_dict(self) -> dict[str, str | None]:
        """Return plain JSON values."""
        return {"stage": self.stage, "why": self.why, "unblock": self.unblock}

    def __str__(self) -> str:
        where = f"{self.stage}: " if self.stage else ""
        return f"{where}{self.why}; to continue: {self.unblock.removesuffix(',')}"


def _by(stage: Stage, why: str, command: str, *needs: str, advice: str | None = None) -> Hindrance:
    """Return the hindrance of a stage that one command removes. ``needs`` are placeholders."""
    return Hindrance(stage.id, why, f"`{command}`", command, needs, advice=advice)


def hindrances(state: Workflow) -> list[Hindrance]:
    """Return everything that waits for a person or an agent, decisions first.

    Omits stages that wait for another stage of the list, and failed stages for which an amendment
    waits for its decision.
    """
    stages = (one for one in state.stages.values() if not pending_answers(state, one))
    of_stages = (find_what_waits(state, stage) for stage in stages)
    found = [one for one in of_stages if one is not None]
    return [*_decisions(state), *_asked(state), *found]


def pending_answers(state: Workflow, stage: Stage) -> list[str]:
    """Return the pending amendments of a failed stage, or of a stage upstream of it, by id."""
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
    """Return whether `run` has refused the points that a stage of the loop wrote.

    A session that ends as blocked has tried to start each round that was due.
    """
    is_blocked = not state.session.is_open and state.session.exit_reason == "blocked"
    return is_blocked and state.loops[name].is_due and not state.loop(name).asks_somebody


def after_refused_points(loop: LoopDefinition, why: str) -> tuple[str, str]:
    """Return the command that follows a refusal of points, and ``why`` followed by the choices."""
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
    """Return the hindrance of a stage that needs a person or an agent, or None."""
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
    """Return the hindrance of a stage whose end only a person can decide, or None."""
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
    """Return the hindrance of a failed stage, with the way to run it again.

    The stage runs again with other parameters, after a fix, or after a person's approval. An
    amendment is one decision: the stage is then computed again, and no retry is counted.
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
    """Return what can correct the results of a stage, and what to do if nothing can.

    Parameters of the stage, and of the stages that it depends on, can correct the results.
    """
    # Only a failed check names parameters, so other commands do not load this module.
    from lifecycle.sweeps.parameters import PARAMETERS_OF_WFCTL

    own = [name for name in stage.parameters if name not in PARAMETERS_OF_WFCTL]
    names = f" ({', '.join(own)})" if 0 < len(own) <= _NAMED else ""
    others = f", or those of {' or '.join(stage.depends_on)}" if stage.depends_on else ""
    return (
        f"; change its parameters{names}{others}. If no values can meet the criterion, record that "
        "with wfctl note: a person decides"
    )


#: Maximum number of parameters that an advice names.
_NAMED = 6


_APPLY = "wfctl plan apply FILE --reason TEXT"
#: Verdicts on an attempt that requested resources which are unavailable or too small.
_OF_THE_PLAN = frozenset({"REJECTED", "LIMIT_EXCEEDED"})
#: Prefix of the cause of a stage whose submission could not be built from the plan.
PLAN_CAUSE = "plan: "
#: Causes of a job that took more time or memory than the plan asked for.
_LIMIT_CAUSE = re.compile(
    "ended by its time limit of|its scheduler says (TIMEOUT|OUT_OF_MEMORY|DEADLINE)"
)


def lies_in_plan(state: Workflow, stage: Stage) -> bool:
    """Return whether the stage failed because of the current plan or profile."""
    because = _cause_by_plan(state, stage)
    if because.startswith(PLAN_CAUSE) or _LIMIT_CAUSE.search(because):
        return True
    return bool(because) and bool(stage.attempts) and stage.attempts[-1].verdict in _OF_THE_PLAN


def is_software_missing(state: Workflow, stage: Stage) -> bool:
    """Return whether software that the current plan names is missing on the machine."""
    return is_missing(_cause_by_plan(state, stage))


def _cause_by_plan(state: Workflow, stage: Stage) -> str:
    """Return the cause of a failure of the current plan, or "" if the plan has changed since."""
    return (stage.because or "") if stage.failed_plan >= state.version else ""


def is_refuted(stage: Stage) -> bool:
    """Return whether a stage failed because the check rejected its results, or all failed tasks."""
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
    """Return one line with the reason of a failure: exit code, cause and recorded error."""
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
    """Return the hindrance of a stage that depends on a skipped stage, or None."""
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
    """Return the cost of a class of work, from ``session_config.stage_weights`` or the default."""
    usual: dict[str, float] = default_session_config()["stage_weights"]
    given = state.session_config.get("stage_weights")
    own = given.get(work_class) if isinstance(given, dict) else None
    # An imported file may contain any weight, but a charge has limits.
    return own if _is_number(own) and 0 <= own <= MAX_WEIGHT else usual[work_class]


def budget_of(state: Workflow) -> float:
    """Return the maximum cost of a session."""
    found = state.session_config.get("session_budget")
    return found if _is_number(found) else default_session_config()["session_budget"]


def _is_number(found: Any) -> TypeGuard[int | float]:
    return isinstance(found, int | float) and not isinstance(found, bool)


def config_problems(config: Mapping[str, Any]) -> list[str]:
    """Return the problems of the fields of a ``session_config`` that control sessions."""
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
    """Return the class of the stage's work that has just ended, or the most expensive of several.

    sync: local, successful, one attempt, not waited for elsewhere. async: remote or waited for.
    error_cycle: failed or retried. diagnostic: a diagnostic run.
    """
    attempt = None if stage.reused else stage.attempt
    remote = state.backend_type(stage) == "remote" and not stage.reused
    waited = attempt is not None and (attempt.mode != "sync" or bool(attempt.recovers))
    # If classes have the same weight, the first one is used.
    is_of: dict[WorkClass, bool] = {
        "diagnostic": attempt is not None and attempt.diagnostic,
        "error_cycle": stage.retry_count > 0 or stage.status is Status.FAILED,
        "async": remote or waited,
    }
    found: list[WorkClass] = [name for name, holds in is_of.items() if holds]
    return max(found or ["sync"], key=lambda name: weight_of(state, name))


def charges(state: Workflow) -> list[p.CostCharged]:
    """Return the charges that are due. Each end of a stage is charged once.

    An end while no session was open is charged to the next session.
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


#: Maximum expected seconds for which a local stage is computed in place.
_SYNC_BELOW = 120


def is_short(state: Workflow, stage: Stage) -> bool:
    """Return whether a stage is computed in place: it is local and takes under two minutes."""
    expected: Any = stage.parameters.get("expected_seconds")
    local = state.backend_type(stage) == "local"
    return local and _is_number(expected) and bool(expected < _SYNC_BELOW)


def estimate(state: Workflow, stage: Stage) -> float:
    """Return the expected charge for the stage if it succeeds.

    The charge depends on the expected class: retried, waited for elsewhere, or computed in place.
    """
    found = weight_of(state, "sync" if is_short(state, stage) else "async")
    return max(found, weight_of(state, "error_cycle")) if stage.retry_count else found


def affords(state: Workflow, stage: Stage, under_way: Iterable[Stage] = ()) -> bool:
    """Return whether the session can afford the stage in addition to the running stages."""
    reserved = sum(estimate(state, other) for other in under_way)
    return state.session.cost + reserved + estimate(state, stage) <= budget_of(state)


def is_beyond(state: Workflow, stage: Stage) -> bool:
    """Return whether no session, even a new one, can afford the stage."""
    return estimate(state, stage) > budget_of(state)
