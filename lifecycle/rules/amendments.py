"""The rules of amendments: what may be proposed, and what follows from an approval."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from lifecycle.errors import (
    AmendmentDecided,
    InvalidAmendment,
    InvalidPlan,
    StaleAmendment,
    UnknownAmendment,
)
from lifecycle.fold.evolve import apply, proposed, version_after
from lifecycle.payload import models as p
from lifecycle.rules import amendable
from lifecycle.rules.impact import (
    Impact,
    going_on_again,
    impact_of,
    reach_of,
    stage_definition,
)
from lifecycle.rules.rounds import twice
from lifecycle.state.status import Status
from lifecycle.state.workflow import PLAN_CHANGE, Amendment, Stage, Workflow
from lifecycle.sweeps.definition import MAP, is_sweep, without_result
from lifecycle.words.document import rewired_fields
from lifecycle.words.mandates import MANDATES
from lifecycle.words.metrics import RESULTS, misshapen_results
from lifecycle.words.rounds import ROUNDS, loops_of
from lifecycle.words.values import is_placeholder, stage_number

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

Decision: TypeAlias = "list[Payload]"

_POLICIES = ("terminal", "signature", "trust")
#: Kinds of amendments that may leave what earlier rounds of a loop computed.
_LEAVING = ("parameter_change", "stage_rerun")
#: What each task of a sweep reads and what its stage leaves.
_READ_OR_LEFT = frozenset({"depends_on", "inputs", "outputs"})
_OF_TASKS = frozenset({MAP, "task_outputs", "forward_files"})
_KEY_TYPES = ("ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-")
#: Nothing of these has run, or will.
_NOTHING_TO_RERUN = frozenset({Status.PENDING, Status.READY, Status.INVALIDATED, Status.SKIPPED})


def propose(state: Workflow, command: p.AmendmentProposed) -> Decision:
    """Record what somebody asks for, complete and checked against the state it is made on."""
    if command.stage is not None:
        state.stage(command.stage)
    problems = list(_out_of_reach(command, bool(command.rewire)))
    problems += _pointless(state, command)
    if command.reason is not None and is_placeholder(command.reason):
        problems.append(f"reason: expected words of your own, found {command.reason!r:.80}")
    if problems:
        raise InvalidAmendment(problems)
    proposal = _completed(state, command)
    problems = list(_broken_by(state, of_proposal(proposal)))
    if problems:
        raise InvalidAmendment(problems)
    return [proposal]


def of_proposal(proposal: p.AmendmentProposed) -> Amendment:
    """Return the amendment that a completed proposal becomes once it is recorded."""
    return proposed(proposal.as_json(), "")


def _out_of_reach(asked: p.AmendmentProposed | Amendment, rewires: bool) -> Iterator[str]:
    """Say what the amendment's type does not let it touch."""
    kind = asked.kind
    yield from _misfits_of_plan(asked) if kind == PLAN_CHANGE else _misfits(asked, rewires)
    allowed = amendable.fields_of(kind, asked.stage)
    both = "; a parameter_change changes both" if kind == "criteria_change" else ""
    for field in sorted(set(asked.changes) - allowed):
        yield f"{field}: a {kind} may change {', '.join(sorted(allowed)) or 'no field'}{both}"
    others = amendable.fields_beside(kind)
    for id_, change in asked.rewired.items():
        for field in sorted(set(rewired_fields(change)) - others):
            yield f"{id_}.{field}: a {kind} may change {', '.join(sorted(others))} of other stages"


def _misfits_of_plan(asked: p.AmendmentProposed | Amendment) -> Iterator[str]:
    if asked.stage is not None or asked.also:
        yield "a plan_change names no stage: what changes of each stands in rewired"
    if not (asked.changes or asked.rewired or asked.insert is not None):
        yield "a plan_change changes at least one field"


def _misfits(asked: p.AmendmentProposed | Amendment, rewires: bool) -> Iterator[str]:
    kind = asked.kind
    inserts, whole = kind == "stage_insert", kind in ("stage_skip", "stage_rerun")
    if inserts != (asked.insert is not None):
        yield "a stage_insert, and only it, takes the definition of a stage"
    if (whole or kind == "criteria_change") and asked.stage is None:
        yield f"a {kind} names its stage"
    if inserts and asked.stage is not None:
        yield "a stage_insert names no stage: the id of the new one stands in its definition"
    if rewires and not (inserts or kind == "stage_skip"):
        yield f"a {kind} rewires nothing"
    if asked.also and (kind != "stage_rerun" or asked.changes):
        yield "several stages are named by a stage_rerun alone, and by one that changes nothing"
    if not (inserts or whole) and not asked.changes:
        yield f"a {kind} changes at least one field"


def _pointless(state: Workflow, command: p.AmendmentProposed) -> Iterator[str]:
    if command.stage is None:
        return
    if command.stage in command.also or len(set(command.also)) < len(command.also):
        yield "also: each stage is named once"
    for id_ in (command.stage, *command.also):
        status = state.stage(id_).status
        if command.kind == "stage_skip" and status is Status.SKIPPED:
            yield f"{id_} is skipped already"
        if command.kind == "stage_rerun" and status in _NOTHING_TO_RERUN:
            yield f"{id_} is {status.value}: there is nothing to run again"


def _completed(state: Workflow, command: p.AmendmentProposed) -> p.AmendmentProposed:
    target: Workflow | Stage = state.stage(command.stage) if command.stage else state
    numbers = [id_.removeprefix("amend-") for id_ in state.amendments]
    number = max((int(n) for n in numbers if n.isdecimal()), default=0) + 1
    known: dict[str, Any] = {
        "amendment": f"amend-{number}",
        "changes": amendable.completed(target, command.changes),
        "rewired": {},
    }
    if command.insert is not None:
        known |= _inserted(state, command, command.insert)
    if command.kind == PLAN_CHANGE:
        for id_, change in command.rewired.items():
            found = amendable.completed(state.stage(id_), rewired_fields(change))
            known["rewired"][id_] = {**found.pop("depends_on", {}), **found}
    elif command.kind == "stage_skip":
        known["rewired"] = _without(state, command)
    return command.model_copy(update=known)


def _id_of_inserted(state: Workflow, definition: dict[str, Any]) -> str:
    """Return the id of a stage that is inserted: a free name of its own, else the next number."""
    following = f"stage-{max((stage_number(id_) or 0 for id_ in state.stages), default=0) + 1}"
    id_ = definition.get("id", following)
    if id_ == following:
        return following
    if not isinstance(id_, str) or stage_number(id_) is not None:
        raise InvalidAmendment(
            [f"an inserted stage gets the next number, {following}, or a name of its own"]
        )
    taken = next((known for known in state.stages if known.lower() == id_.lower()), None)
    if taken is not None:
        raise InvalidAmendment([f"id: {id_!r} is taken, there is {taken}"])
    return id_


def _inserted(
    state: Workflow, command: p.AmendmentProposed, definition: dict[str, Any]
) -> dict[str, Any]:
    id_ = _id_of_inserted(state, definition)
    try:
        from lifecycle.plan.document import defined_stage  # loads the models of a plan

        new = defined_stage({**definition, "id": id_})
    except InvalidPlan as error:
        raise InvalidAmendment(error.data["problems"]) from error
    named = command.rewire if isinstance(command.rewire, list) else []
    dependents = [state.stage(stage) for stage in named]
    order = list(state.stages)
    place = min((order.index(s.id) for s in dependents), default=len(order))
    if command.place is not None:
        place = command.place
    if not 0 <= place <= len(order):
        raise InvalidAmendment([f"place: expected 0 to {len(order)}, found {place}"])
    rewired = {
        s.id: _rewiring(s, _behind(s.depends_on, new["depends_on"], id_)) for s in dependents
    }
    return {"insert": new, "place": place, "rewired": rewired}


def _behind(needs: list[str], taken_over: list[str], new: str) -> list[str]:
    """Return ``needs`` with the new stage in place of what it depends on itself."""
    where = next((i for i, need in enumerate(needs) if need in taken_over), len(needs))
    before = [need for need in needs[:where] if need not in taken_over]
    return [*before, new, *(need for need in needs[where:] if need not in taken_over)]


def _without(state: Workflow, command: p.AmendmentProposed) -> dict[str, Any]:
    """Return the dependents of a skipped stage that drop it."""
    wanted = command.rewire
    skipped = state.stage(str(command.stage))
    return {
        stage.id: {
            **_rewiring(stage, [need for need in stage.depends_on if need != command.stage]),
            **_inputs_without(skipped, stage),
        }
        for stage in state.stages.values()
        if command.stage in stage.depends_on
        and (wanted is True or (isinstance(wanted, list) and stage.id in wanted))
    }


def _inputs_without(skipped: Stage, stage: Stage) -> dict[str, Any]:
    """Return the change of inputs by which a stage no longer reads what another would make."""
    made = [skipped.id, *skipped.outputs]
    folders = tuple(f"{one.rstrip('/')}/" for one in made)
    kept = [one for one in stage.inputs if one not in made and not one.startswith(folders)]
    return {} if kept == stage.inputs else {"inputs": {"old": stage.inputs, "new": kept}}


def _rewiring(stage: Stage, needs: list[str]) -> dict[str, Any]:
    return {"old": stage.depends_on, "new": needs}


def _broken_by(state: Workflow, amendment: Amendment) -> Iterator[str]:
    """Say what would be wrong with the workflow's definition that is not wrong now."""
    changed = state.draft()
    apply(changed, amendment)
    from lifecycle.plan.document import definition_problems  # loads the models of a plan

    then, now = ({**definition_of(one), RESULTS: one.results} for one in (state, changed))
    yield from _begun_loops(state, changed)
    yield from _misfits_of_round(state, amendment)
    for field in (MANDATES, ROUNDS):
        if field in amendment.changes or getattr(changed, field):
            then, now = (
                {**one, field: getattr(of, field)} for one, of in ((then, state), (now, changed))
            )
    before = definition_problems(then)
    yield from (problem for problem in definition_problems(now) if problem not in before)
    yield from misshapen_results(changed.extra.get(RESULTS) if RESULTS in amendment.changes else [])
    if changed.consent not in _POLICIES:
        yield f"consent: expected one of {', '.join(_POLICIES)}, found {changed.consent!r}"
    if changed.consent == "signature" and not changed.signers:
        yield "consent by signature needs at least one allowed signer (signers)"
    yield from _unusable_signers(changed.signers)


def _misfits_of_round(state: Workflow, amendment: Amendment) -> Iterator[str]:
    """Say why an amendment cannot leave what earlier rounds computed."""
    if amendment.from_round is None:
        return
    name = state.loop_of(amendment.stage or "")
    if name is None or amendment.also or amendment.kind not in _LEAVING:
        allowed = " or ".join(_LEAVING)
        yield f"from_round: it belongs to a {allowed} of one stage, which is in a loop"
        return
    stage = state.stage(str(amendment.stage))
    if is_sweep(stage.parameters) and state.loop(name).points != stage.id:
        yield f"from_round: the rounds of {name} add no points to the map of {stage.id}"
    yield from _unlike_before(stage, amendment)
    last = state.loops[name].round.number
    if not 2 <= amendment.from_round <= last:
        expected = f"2 to {last}" if last > 1 else "none, as the first round is the only one"
        yield f"from_round: expected {expected}, found {amendment.from_round}"


def _unlike_before(stage: Stage, amendment: Amendment) -> Iterator[str]:
    """Say why tasks of earlier rounds could not stay, or those of later ones would."""
    for field in sorted({*amendment.changes} & _READ_OR_LEFT):
        yield f"{field}: with from_round it stays: what earlier rounds computed would not fit it"
    changed = {*amendment.changes.get("parameters", {})}
    for name in sorted(changed & _OF_TASKS if is_sweep(stage.parameters) else ()):
        yield f"parameters.{name}: with from_round it stays; change it by an amendment of its own"
    is_anew = amendment.kind == "stage_rerun" or "backend" in amendment.changes
    if not is_anew and changed <= without_result(stage.parameters):
        yield "from_round: nothing that is computed from changes; a verdict holds for all rounds"


def _begun_loops(state: Workflow, changed: Workflow) -> Iterator[str]:
    """Say which loops lose what their rounds rest on."""
    for name in (name for name, loop in state.loops.items() if loop.round.number > 1):
        before = state.loop(name)
        after = loops_of(changed.rounds).get(name, before) if name in changed.rounds else None
        if after is None:
            yield f"rounds.{name}: it has begun; `wfctl round stop {name}` ends it"
        elif (after.stages, after.points) != (before.stages, before.points):
            yield f"rounds.{name}: its stages and their points stay, as it has begun"
        elif is_sweep(changed.stages[after.points].parameters):
            found = twice(changed, after, state.loops[name], [])
            yield from (f"rounds.{name}: {why}" for why in found)


def _unusable_signers(signers: Any) -> Iterator[str]:
    if not isinstance(signers, list):
        yield f"signers: expected a list of lines, found {signers!r:.60}"
        return
    for line in signers:
        words = line.split() if isinstance(line, str) else []
        if "\n" in str(line) or not any(word.startswith(_KEY_TYPES) for word in words[1:]):
            yield f"signers: expected `who key-type key` (ssh-keygen(1)), found {line!r:.80}"


def signer_problems(consent: str, signers: list[str]) -> list[str]:
    """Return what is wrong with a policy and its signers."""
    missing = ["signature needs --signers"] if consent == "signature" and not signers else []
    return [*missing, *_unusable_signers(signers)]


def definition_of(state: Workflow) -> dict[str, Any]:
    """Return what is computed and how, as a plan has it: all that a person agrees to."""
    return {
        "workflow_id": state.id,
        "experiment_design": state.experiment_design,
        "workflow_plan": state.workflow_plan,
        "default_backend": state.default_backend,
        "backend_profiles": state.backend_profiles,
        "session_config": state.session_config,
        "stages": [stage_definition(stage) for stage in state.stages.values()],
    }


def pending(state: Workflow, id_: str) -> Amendment:
    """Return a proposed amendment; raises `UnknownAmendment`, `AmendmentDecided`."""
    found = state.amendments.get(id_)
    if found is None:
        raise UnknownAmendment(id_, list(state.amendments))
    if not found.is_open:
        raise AmendmentDecided(id_, found.status)
    return found


def check_fits(state: Workflow, amendment: Amendment) -> None:
    """Raise `StaleAmendment` where the state is not what the proposal was made on.

    `InvalidAmendment` for one that no proposal could have been: written past the rules.
    """
    if amendment.is_plan:
        return
    problems = [*_out_of_reach(amendment, bool(amendment.rewired))]
    problems += amendable.misshapen(amendment.changes)
    for change in amendment.rewired.values():
        problems += amendable.misshapen(rewired_fields(change))
    if problems:
        raise InvalidAmendment(problems)
    for id_ in amendment.also:
        state.stage(id_)
    amendable.check_fits(
        state.stage(amendment.stage) if amendment.stage else state, amendment.changes
    )
    for id_, change in amendment.rewired.items():
        amendable.check_fits(state.stage(id_), rewired_fields(change))
    inserted = (amendment.insert or {}).get("id")
    if inserted in state.stages:
        raise StaleAmendment(str(inserted), "not there", "another stage")
    problems = list(_broken_by(state, amendment))
    if problems:
        raise StaleAmendment("the workflow", "one that it fits", "; ".join(problems))


def approve(state: Workflow, command: p.AmendmentApproved) -> Decision:
    """The approval and all that follows from it: one append."""
    amendment = pending(state, command.amendment)
    check_fits(state, amendment)
    impact = impact_of(state, amendment, command.kept)
    known = {
        "version": version_after(state, amendment),
        "invalidated_stages": list(impact.affected),
    }
    return [command.model_copy(update=known), *_cascade(state, amendment, impact)]


def _cascade(state: Workflow, amendment: Amendment, impact: Impact) -> Iterator[Payload]:
    id_ = amendment.id
    changed = reach_of(state, amendment).after
    reopens = bool(amendment.insert or impact.invalidated or going_on_again(state, changed))
    if state.workflow_status == "completed" and reopens:
        yield p.WorkflowReopened(reason=f"{id_} was approved")
    for stage, attempt in impact.stopped.items():
        error = f"superseded by {id_}, a {amendment.kind} of {amendment.stage or 'the workflow'}"
        yield p.StageFailed(stage=stage, error=error, attempt=attempt, superseded_by=id_)
    for stage in impact.invalidated:
        if not (amendment.kind == "stage_skip" and stage == amendment.stage):
            yield p.StageInvalidated(stage=stage, amendment=id_)
    if amendment.kind == "stage_skip":
        reason = amendment.reason or amendment.description
        yield p.StageSkipped(stage=str(amendment.stage), amendment=id_, reason=reason)
    for stage, kept_as in impact.kept.items():
        yield p.OutputsArchived(stage=stage, kept_as=kept_as, amendment=id_)


def reject(state: Workflow, command: p.AmendmentRejected) -> Decision:
    """Close a proposal; nothing changes."""
    amendment = pending(state, command.amendment)
    if amendment.status != "proposed":
        raise AmendmentDecided(amendment.id, amendment.status)
    return [command]
