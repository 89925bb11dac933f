"""The conditions of a stage: what it depends on, what hinders it, and the budget it uses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from math import ceil
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from lifecycle.state.status import FINISHED, Status, retry_limit
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.sweeps.definition import MAP, VERDICTS, is_sweep, table_of, without_result
from lifecycle.words.document import default_session_config
from lifecycle.words.rounds import LoopDefinition
from lifecycle.words.values import MAX_WEIGHT, wanted

if TYPE_CHECKING:
    from lifecycle.payload import models as p


Graph = Mapping[str, Sequence[str]]
"""Stage id → the ids it depends on."""


def find_cycle(graph: Graph) -> list[str] | None:
    """Return one cycle as ``[a, b, …, a]``, or None. Unknown ids are passed over."""
    from graphlib import CycleError, TopologicalSorter

    known = {id_: [need for need in needs if need in graph] for id_, needs in graph.items()}
    try:
        TopologicalSorter(known).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return None


def downstream(graph: Graph, roots: Iterable[str]) -> set[str]:
    """Return every stage that depends, directly or not, on one of ``roots`` (roots left out)."""
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
    """Return the points that rounds added to those of a stage's map, in their order."""
    name = state.loop_of(stage)
    if name is None or state.loop(name).points != stage:
        return []
    return state.loops[name].added


def partners_of(state: Workflow, stage: Stage) -> list[Stage]:
    """Return the stages whose points a stage takes by `like`, the nearest one first."""
    found: list[Stage] = []
    like = (stage.parameters.get(MAP) or {}).get("like") if is_sweep(stage.parameters) else None
    while like in state.stages and state.stages[like] not in found:
        found.append(state.stages[like])
        parameters = found[-1].parameters
        like = parameters[MAP].get("like") if is_sweep(parameters) else None
    return found


def files_of_points(state: Workflow, stage: Stage) -> set[str]:
    """Return the files that say which tasks a sweep has: no task is computed from them.

    These are the file of its map and the tables of its partners. A task rests on the folder of its
    partner task instead.
    """
    named = {str((stage.parameters.get(MAP) or {}).get("file"))}
    return named.union(*(table_of(partner.id) for partner in partners_of(state, stage)))


#: Parameters of which a part alone is computed from, which stands beside them.
_IN_PART = frozenset({"resource_overrides", "environment"})
#: Resources by which a command finds other software.
_SOFTWARE = (
    "envs",
    "module_list",
    "module_unload_list",
    "source_list",
    "prepend_script",
    "append_script",
)


def basis_of(state: Workflow, stage: Stage) -> str:
    """Return the SHA-256 in hex of command, parameters, inputs, outputs and software of a stage."""
    profile, parameters = state.profile(stage), stage.parameters
    aside = without_result(parameters) | _IN_PART
    resources = _resources(state, stage)
    known = {
        "parameters": {name: parameters[name] for name in parameters if name not in aside},
        "inputs": stage.inputs,
        "outputs": stage.declared_outputs,
        "environment": wanted(profile, parameters) or parameters.get("environment"),
        "resources": {name: resources[name] for name in _SOFTWARE if resources.get(name)},
    }
    return sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def _resources(state: Workflow, stage: Stage) -> dict[str, Any]:
    found: dict[str, Any] = {}
    own = stage.parameters.get("resource_overrides")
    for given in (state.profile(stage).get("resource_defaults"), own):
        found |= given if isinstance(given, dict) else {}
    return found


def cores(state: Workflow, stage: Stage) -> int:
    """Return the cores that a task of a stage is given: those of its nodes."""
    found = _resources(state, stage)
    return _count(found.get("number_node")) * _count(found.get("cpu_per_node"))


def _count(given: Any) -> int:
    """Return the whole number that somebody may mean, not below it: ``2.5`` or ``"3"`` is 3."""
    try:
        return max(1, ceil(float(given)))
    except (TypeError, ValueError, OverflowError):
        return 1


def needed_by(state: Workflow, stage: Stage) -> list[str]:
    """Return the inputs of a stage, and what the completed ones that it depends on have left."""
    done = [state.stages[id_] for id_ in stage.depends_on]
    left = [path for one in done if one.status is Status.COMPLETED for path in one.outputs]
    return list(dict.fromkeys([*stage.inputs, *left]))


def reusable(state: Workflow, stage: Stage) -> list[Attempt]:
    """Return the good attempts that computed by the present definition, the newest first.

    Their inputs may be others. Tasks of a sweep count each for itself, and what no command
    computed may rest on anything.
    """
    if is_sweep(stage.parameters) or not stage.parameters.get("command"):
        return []
    good = [one for one in stage.attempts if one.results and not one.is_refuted]
    basis = basis_of(state, stage) if good else ""
    return [one for one in reversed(good) if one.basis == basis and not one.taken_over]


def has_results_kept(stage: Stage) -> bool:
    """Whether the stage is ready and an attempt of it left results, by whatever definition."""
    return stage.status is Status.READY and any(one.results for one in stage.attempts)


def is_judged_alone(state: Workflow, stage: Stage) -> bool:
    """Whether there is something to judge anew where no more than the verdict on it has changed.

    Tasks of a sweep are looked at each; of other stages kept outputs are, unless nobody may.
    """
    may = state.session_config.get("reuse", "offer") != "never"
    return is_sweep(stage.parameters) or (may and bool(reusable(state, stage)))


#: Characters of a failure's reason that are shown.
_REASON = 300
#: Verdicts that no further look changes: somebody finds out how the attempt ended, and says so.
_FOR_SOMEBODY = frozenset({"ELSEWHERE", "FORGOTTEN", "UNREADABLE", "UNSEEN", "UNTOLD"})
#: The verdict on an attempt whose next step was refused; its reason says what to do.
_HINDERED = "HINDERED"
#: The verdict on an attempt whose machine refuses the connection, or a folder for its jobs.
_MACHINE_REFUSED = "MACHINE_REFUSED"
#: The row of the verdict on an attempt of somebody else's launch that left nothing to look at.
_OF_SOMEBODY_ELSE = 25


@dataclass(frozen=True, slots=True)
class Hindrance:
    """What waits for somebody: the stage (None for the whole workflow), why, and what leads on.

    ``unblock`` is a text with a command in it, or some; ``command`` is the first of them, with
    the words in capitals that ``needs`` names. A cause that ``may_pass`` may end without a command,
    as a full disk does: the stage is tried again.
    """

    stage: str | None
    why: str
    unblock: str
    command: str = ""
    needs: tuple[str, ...] = ()
    may_pass: bool = False

    def to_dict(self) -> dict[str, str | None]:
        """Return plain JSON values."""
        return {"stage": self.stage, "why": self.why, "unblock": self.unblock}

    def __str__(self) -> str:
        where = f"{self.stage}: " if self.stage else ""
        return f"{where}{self.why}; {self.unblock} would unblock it"


def _by(stage: Stage, why: str, command: str, *needs: str) -> Hindrance:
    """Return the hindrance of a stage that one command ends, given what it needs."""
    return Hindrance(stage.id, why, f"`{command}`", command, needs)


def hindrances(state: Workflow) -> list[Hindrance]:
    """Return everything that waits for somebody, decisions first; empty if nothing does.

    A stage that is held back by one that is named itself is not.
    """
    of_stages = (hindrance_of(state, stage) for stage in state.stages.values())
    found = [one for one in of_stages if one is not None]
    return [*_decisions(state), *_asked(state), *found]


def _asked(state: Workflow) -> Iterator[Hindrance]:
    """Yield the loops that wait for somebody's points."""
    for name, loop in state.loops.items():
        if loop.is_due and state.loop(name).asks_somebody:
            why = f"{name} waits for the points of round {loop.round.number + 1}"
            command = f"wfctl round propose {name} FILE --reason TEXT"
            yield Hindrance(None, why, f"`{command}`", command, ("FILE", "TEXT"))


def has_refused_points(state: Workflow, name: str) -> bool:
    """Return whether `run` has refused the points that a stage of the loop wrote.

    A session that ends as blocked has tried to start each round that was due.
    """
    is_blocked = not state.session.is_open and state.session.exit_reason == "blocked"
    return is_blocked and state.loops[name].is_due and not state.loop(name).asks_somebody


def after_refused_points(loop: LoopDefinition, why: str) -> tuple[str, str]:
    """Return the command that follows a refusal of points, and ``why`` followed by the choices."""
    choices = (
        f"correct {loop.asked} first, or widen rounds.{loop.name} by an amendment, "
        f"or end the loop with `wfctl round stop {loop.name} --reason TEXT`"
    )
    return f"wfctl rerun {loop.asked} --reason TEXT", f"{why}: {choices}"


def _decisions(state: Workflow) -> Iterator[Hindrance]:
    for amendment in state.pending_amendments:
        id_, rejects = amendment.id, f" or `wfctl amend reject {amendment.id}`"
        if amendment.status == "rejected":
            why, rejects = "the plan was rejected, and it is as it was or amended", ""
        elif amendment.is_plan:
            why = "the plan waits for a person's approval"
        else:
            why = f"{id_} ({amendment.kind}) waits for a person's decision"
        yield Hindrance(amendment.stage, why, f"`wfctl amend approve {id_}`{rejects}")


def hindrance_of(state: Workflow, stage: Stage) -> Hindrance | None:
    """Return what of a stage waits for somebody, if anything does."""
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
    """A stage whose end no check can decide waits for somebody's word."""
    if stage.success_criteria:
        why = f"somebody must judge its success criteria ({stage.success_criteria:.200})"
    elif not stage.outputs:
        why = "it has no outputs, no check and no criteria: somebody must say that it is done"
    else:
        return None
    return _by(stage, why, f"wfctl stage complete {stage.id} --or-fail --evidence TEXT", "TEXT")


def _failed(state: Workflow, stage: Stage) -> Hindrance:
    """A failed stage runs again: with other parameters, after a fix, or as a person agrees.

    An amendment is one decision: with it the stage is computed again, and no retry is counted.
    """
    why = reason(stage)[:_REASON]
    if lies_in_plan(state, stage):
        why = f"failed ({why}); a retry of the same plan fails the same way"
        return _by(stage, why, "wfctl plan apply FILE --reason TEXT", "FILE", "TEXT")
    limit = retry_limit(state.backend_type(stage))
    if stage.retry_count >= limit:
        why = f"failed, and its {limit} retries are used up ({why})"
        return _by(stage, why, *_amendment(stage, "--type stage_rerun"))
    if is_refuted(stage):
        why = f"failed ({why}); computed again as it is, it gives the same"
        return _by(stage, why, *_amendment(stage, "--set PATH=VALUE", "PATH=VALUE"))
    return _by(stage, f"failed ({why})", f"wfctl stage retry {stage.id} --fix TEXT", "TEXT")


#: Verdicts on an attempt that asked for what it cannot get, or for less than it needs.
_OF_THE_PLAN = frozenset({"REJECTED", "LIMIT_EXCEEDED"})
#: What the line that shows the cause says of a command that `parameters.time_limit` ended.
_OWN_LIMIT = "ended by its time limit of"


def lies_in_plan(state: Workflow, stage: Stage) -> bool:
    """Return whether the last attempt failed because of the current plan or profile."""
    if not stage.attempts or stage.because is None:
        return False  # the failure of no attempt
    last = stage.attempts[-1]
    is_of_plan = last.verdict in _OF_THE_PLAN or _OWN_LIMIT in stage.because
    return is_of_plan and last.plan >= state.version


def is_refuted(stage: Stage) -> bool:
    """Whether a stage failed as what it computed did not pass: it, or each task that failed."""
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
    """Return why a stage failed, on one line: its exit code, its cause, what was recorded."""
    error = " ".join((stage.last_error or "no reason is known").split())
    cause = stage.because
    if not cause or cause.partition(": ")[2] in error or cause in error:
        return error
    return f"{cause}; {error}"


def _under_way(stage: Stage) -> Hindrance | None:
    attempt = stage.open_attempt
    if attempt is None or attempt.action != "unknown":
        return None
    if attempt.verdict == _MACHINE_REFUSED:
        why = f"{attempt.id} does not go on: {attempt.reason}; correct it first"
        return _by(stage, why, "wfctl run")
    if attempt.verdict == _HINDERED:
        why = f"{attempt.id} does not go on: {str(attempt.reason).removesuffix('.')}"
        return replace(_by(stage, why, "wfctl reconcile"), may_pass=True)
    why = f"nothing is known of {attempt.id} ({attempt.reason})"
    if attempt.verdict not in _FOR_SOMEBODY and attempt.row != _OF_SOMEBODY_ELSE:
        return _by(stage, why, "wfctl reconcile")
    fail = f"wfctl stage fail {stage.id} --error TEXT"
    unblock = (
        f"`{fail}` and then `wfctl stage retry {stage.id} --fix TEXT`, or `wfctl stage compute "
        f"{stage.id}` where its results are in place,"
    )
    return Hindrance(stage.id, why, unblock, fail, ("TEXT",))


def _held_back(state: Workflow, stage: Stage) -> Hindrance | None:
    """A skipped dependency satisfies nothing, and no failure of another stage names it."""
    for dependency in stage.depends_on:
        if state.stages[dependency].status is Status.SKIPPED:
            why = f"it depends on {dependency}, which was skipped"
            return _by(stage, why, *_amendment(stage, "--set depends_on=JSON", "JSON"))
    return None


def is_stuck(state: Workflow) -> bool:
    """Whether something is unfinished and nothing of it is ready or under way."""
    going = {Status.READY, Status.PREPARING, Status.RUNNING, Status.POST_PROCESSING}
    statuses = {stage.status for stage in state.stages.values()}
    return not statuses & going and not statuses <= FINISHED


WorkClass = Literal["sync", "async", "error_cycle", "diagnostic"]


def weight_of(state: Workflow, work_class: WorkClass) -> float:
    """Return what a class costs: as ``session_config.stage_weights`` says, else as usual."""
    usual: dict[str, float] = default_session_config()["stage_weights"]
    given = state.session_config.get("stage_weights")
    own = given.get(work_class) if isinstance(given, dict) else None
    # An imported file may hold anything, and what is charged has bounds.
    return own if _is_number(own) and 0 <= own <= MAX_WEIGHT else usual[work_class]


def budget_of(state: Workflow) -> float:
    """Return what a session may cost."""
    found = state.session_config.get("session_budget")
    return found if _is_number(found) else default_session_config()["session_budget"]


def _is_number(found: Any) -> TypeGuard[int | float]:
    return isinstance(found, int | float) and not isinstance(found, bool)


def config_problems(config: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a ``session_config``, as far as it steers sessions."""
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
    """Return the class of the stage's work that has just ended; of several, the heaviest.

    sync: local, without an error, in one attempt that nobody waited for elsewhere; async: remote
    or waited for; error_cycle: it failed or was retried; diagnostic: a diagnostic run.
    """
    attempt = None if stage.reused else stage.attempt
    remote = state.backend_type(stage) == "remote" and not stage.reused
    waited = attempt is not None and (attempt.mode != "sync" or bool(attempt.recovers))
    # Of classes of the same weight the first one is named.
    is_of: dict[WorkClass, bool] = {
        "diagnostic": attempt is not None and attempt.diagnostic,
        "error_cycle": stage.retry_count > 0 or stage.status is Status.FAILED,
        "async": remote or waited,
    }
    found: list[WorkClass] = [name for name, holds in is_of.items() if holds]
    return max(found or ["sync"], key=lambda name: weight_of(state, name))


def charges(state: Workflow) -> list[p.CostCharged]:
    """Return the charges that are due: each end of a stage is charged once.

    What ended while no session was open is charged to the next one.
    """
    if not state.session.is_open:
        return []
    due = {s.id: class_of(state, s) for s in state.stages.values() if s.uncharged}
    if not due:
        return []  # a read that weighs a stage charges nothing, and needs no model
    from lifecycle.payload import models as p

    return [
        p.CostCharged(stage=id_, weight=weight_of(state, work), work_class=work)
        for id_, work in due.items()
    ]


#: Seconds below which a local stage that says how long it takes is waited for in place.
_SYNC_BELOW = 120


def is_short(state: Workflow, stage: Stage) -> bool:
    """Whether the stage is computed in place: local, and said to take less than two minutes."""
    expected: Any = stage.parameters.get("expected_seconds")
    local = state.backend_type(stage) == "local"
    return local and _is_number(expected) and bool(expected < _SYNC_BELOW)


def estimate(state: Workflow, stage: Stage) -> float:
    """Return what the end of the stage will be charged, if it goes well.

    By the class that it will be of: retried before, waited for elsewhere, or computed in place.
    """
    found = weight_of(state, "sync" if is_short(state, stage) else "async")
    return max(found, weight_of(state, "error_cycle")) if stage.retry_count else found


def affords(state: Workflow, stage: Stage, under_way: Iterable[Stage] = ()) -> bool:
    """Whether the stage may be begun in this session, beside those that are under way."""
    reserved = sum(estimate(state, other) for other in under_way)
    return state.session.cost + reserved + estimate(state, stage) <= budget_of(state)


def is_beyond(state: Workflow, stage: Stage) -> bool:
    """Whether no session, however new, can afford the stage."""
    return estimate(state, stage) > budget_of(state)
