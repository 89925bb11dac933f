"""The rules of amendments: validity of proposals, and consequences of approvals."""

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
from lifecycle.fold.evolve import apply_amendment, build_amendment, plan_version_after_approval
from lifecycle.fold.rounds import find_new_point_problems
from lifecycle.payload import models as p
from lifecycle.rules import amendable
from lifecycle.rules.grounds import stage_definition
from lifecycle.rules.impact import (
    Impact,
    compute_amendment_reach,
    compute_approval_impact,
    find_reopened_loops,
)
from lifecycle.state.status import Status
from lifecycle.state.workflow import PLAN_CHANGE, Amendment, Stage, Workflow
from lifecycle.words.document import collect_changes_by_field
from lifecycle.words.mandates import MANDATES
from lifecycle.words.metrics import RESULTS, find_malformed_results
from lifecycle.words.plan_parameters import PLAN_PARAMETERS
from lifecycle.words.rounds import ROUNDS, parse_valid_loops
from lifecycle.words.values import is_placeholder, stage_number
from wording import FirstReasons

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

Decision: TypeAlias = "list[Payload]"

_POLICIES = ("terminal", "signature", "trust")
#: Types of amendments that may keep the results of earlier rounds of a loop.
_KINDS_WITH_FROM_ROUND = ("parameter_change", "stage_rerun")
#: Fields that determine which files the tasks of a sweep read and write.
_READ_OR_LEFT = frozenset({"depends_on", "inputs", "outputs"})
_KEY_TYPES = ("ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-")
#: Statuses of stages that have not run, so that no run can be repeated.
_NOTHING_TO_RERUN = frozenset({Status.PENDING, Status.READY, Status.INVALIDATED, Status.SKIPPED})


def decide_proposal(state: Workflow, command: p.AmendmentProposed) -> Decision:
    """Return the event of a proposal, completed with an id and old values.

    Raises `InvalidAmendment` if the proposal is not valid.
    """
    if command.stage is not None:
        state.stage(command.stage)
    problems = list(_find_forbidden_changes(command, bool(command.rewire)))
    problems += _find_pointless_stages(state, command)
    problems += _find_missing_stages(state, command)
    if command.reason is not None and is_placeholder(command.reason):
        problems.append(
            f"reason: expected a reason in your own words, found {command.reason!r:.80}"
        )
    if problems:
        raise InvalidAmendment(problems)
    proposal = _complete_proposal(state, command)
    problems = list(_find_new_definition_problems(state, amendment_of_proposal(proposal)))
    if problems:
        raise InvalidAmendment(problems)
    return [proposal]


def amendment_of_proposal(proposal: p.AmendmentProposed) -> Amendment:
    """Return the amendment that a completed proposal describes."""
    return build_amendment(proposal.as_json(), "")


def _find_forbidden_changes(asked: p.AmendmentProposed | Amendment, rewires: bool) -> Iterator[str]:
    """Yield a problem for each change that this type of amendment does not allow."""
    kind = asked.kind
    yield from (
        _find_plan_change_problems(asked)
        if kind == PLAN_CHANGE
        else _find_type_problems(asked, rewires)
    )
    allowed = amendable.changeable_fields(kind, asked.stage)
    both = "; use a parameter_change to change both" if kind == "criteria_change" else ""
    for field in sorted(set(asked.changes) - allowed):
        yield (
            f"{field}: an amendment of the type {kind} can change only "
            f"{', '.join(sorted(allowed)) or 'no field'}{both}"
        )
    others = amendable.changeable_fields_of_other_stages(kind)
    for id_, change in asked.rewired.items():
        for field in sorted(set(collect_changes_by_field(change)) - others):
            yield (
                f"{id_}.{field}: an amendment of the type {kind} can change only "
                f"{', '.join(sorted(others))} in other stages"
            )


def _find_plan_change_problems(asked: p.AmendmentProposed | Amendment) -> Iterator[str]:
    """Yield a problem if a plan_change names a stage or changes nothing."""
    if asked.stage is not None or asked.also:
        yield "a plan_change must not name a stage; the changes of each stage are in `rewired`"
    if not (asked.changes or asked.rewired or asked.insert is not None):
        yield "a plan_change must change at least one field"


def _find_type_problems(asked: p.AmendmentProposed | Amendment, rewires: bool) -> Iterator[str]:
    """Yield a problem for each part that is missing or not allowed for this type of amendment."""
    kind = asked.kind
    inserts, whole = kind == "stage_insert", kind in ("stage_skip", "stage_rerun")
    if inserts != (asked.insert is not None):
        yield (
            "only a stage_insert contains the definition of a stage, and each stage_insert "
            "needs one"
        )
    if (whole or kind == "criteria_change") and asked.stage is None:
        yield f"a {kind} must name a stage"
    if inserts and asked.stage is not None:
        yield (
            "a stage_insert must not name a stage, because its definition contains the id of "
            "the new stage"
        )
    if rewires and not (inserts or kind == "stage_skip"):
        yield f"a {kind} cannot rewire stages (change their dependencies)"
    if asked.also and (kind != "stage_rerun" or asked.changes):
        yield "only a stage_rerun without other changes can name several stages"
    if not (inserts or whole) and not asked.changes:
        yield f"a {kind} must change at least one field"


def _find_pointless_stages(state: Workflow, command: p.AmendmentProposed) -> Iterator[str]:
    """Yield a problem for each stage for which the proposal has no effect.

    Such a stage is named twice, is already skipped, or has no run to repeat.
    """
    if command.stage is None:
        return
    if command.stage in command.also or len(set(command.also)) < len(command.also):
        yield "also: each stage can be named only once"
    for id_ in (command.stage, *command.also):
        status = state.stage(id_).status
        if command.kind == "stage_skip" and status is Status.SKIPPED:
            yield f"{id_} is already skipped"
        if command.kind == "stage_rerun" and status in _NOTHING_TO_RERUN:
            yield f"{id_} is {status.value}: so it has no run that could be repeated"


def _find_missing_stages(state: Workflow, command: p.AmendmentProposed) -> Iterator[str]:
    """Yield a problem for each new plan parameter that is a parameter of a stage.

    The user probably forgot to name the stage.
    """
    changes = command.changes.get(PLAN_PARAMETERS)
    if command.stage is not None or command.kind == PLAN_CHANGE or not isinstance(changes, dict):
        return
    for name in changes:
        stages = [one.id for one in state.stages.values() if name in one.parameters]
        if name not in state.parameters and stages:
            yield (
                f"parameters.{name}: the plan has no parameter {name}, but {', '.join(stages)} has "
                f"one; name the stage by its own option: --stage {stages[0]} --set "
                f"parameters.{name}=VALUE"
            )


def _complete_proposal(state: Workflow, command: p.AmendmentProposed) -> p.AmendmentProposed:
    """Return the proposal with its id, all ``old`` values and the changes of dependencies."""
    target: Workflow | Stage = state.stage(command.stage) if command.stage else state
    numbers = [id_.removeprefix("amend-") for id_ in state.amendments]
    number = max((int(n) for n in numbers if n.isdecimal()), default=0) + 1
    known: dict[str, Any] = {
        "amendment": f"amend-{number}",
        "changes": amendable.fill_in_old_values(target, command.changes),
        "rewired": {},
    }
    if command.insert is not None:
        known |= _build_insertion(state, command, command.insert)
    if command.kind == PLAN_CHANGE:
        for id_, change in command.rewired.items():
            found = amendable.fill_in_old_values(state.stage(id_), collect_changes_by_field(change))
            known["rewired"][id_] = {**found.pop("depends_on", {}), **found}
    elif command.kind == "stage_skip":
        known["rewired"] = _rewire_dependents_of_skipped(state, command)
    return command.model_copy(update=known)


def _choose_inserted_stage_id(state: Workflow, definition: dict[str, Any]) -> str:
    """Return the id of an inserted stage: the given name, or the next stage number.

    Raises `InvalidAmendment` if the name is used or not allowed.
    """
    following = f"stage-{max((stage_number(id_) or 0 for id_ in state.stages), default=0) + 1}"
    id_ = definition.get("id", following)
    if id_ == following:
        return following
    if not isinstance(id_, str) or stage_number(id_) is not None:
        raise InvalidAmendment(
            [f"the id of an inserted stage must be the next number, {following}, or a name"]
        )
    taken = next((known for known in state.stages if known.lower() == id_.lower()), None)
    if taken is not None:
        raise InvalidAmendment(
            [f"id: {id_!r} cannot be used, because the workflow already has {taken}"]
        )
    return id_


def _build_insertion(
    state: Workflow, command: p.AmendmentProposed, definition: dict[str, Any]
) -> dict[str, Any]:
    """Return the complete new stage, its position and the changes of other stages.

    The other stages change their dependencies. Raises `InvalidAmendment`.
    """
    id_ = _choose_inserted_stage_id(state, definition)
    try:
        from lifecycle.plan.document import complete_stage_definition  # imports the plan models

        new = complete_stage_definition({**definition, "id": id_})
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
        s.id: _build_dependency_change(
            s, _add_new_stage_to_dependencies(s.depends_on, new["depends_on"], id_)
        )
        for s in dependents
    }
    return {"insert": new, "place": place, "rewired": rewired}


def _add_new_stage_to_dependencies(needs: list[str], taken_over: list[str], new: str) -> list[str]:
    """Return the dependencies ``needs`` with a new stage added.

    The new stage replaces those dependencies that it takes over (``taken_over``).
    """
    where = next((i for i, need in enumerate(needs) if need in taken_over), len(needs))
    before = [need for need in needs[:where] if need not in taken_over]
    return [*before, new, *(need for need in needs[where:] if need not in taken_over)]


def _rewire_dependents_of_skipped(state: Workflow, command: p.AmendmentProposed) -> dict[str, Any]:
    """Return the changes that remove a skipped stage from the dependencies of other stages."""
    wanted = command.rewire
    skipped = state.stage(str(command.stage))
    return {
        stage.id: {
            **_build_dependency_change(
                stage, [need for need in stage.depends_on if need != command.stage]
            ),
            **_drop_inputs_of_skipped(skipped, stage),
        }
        for stage in state.stages.values()
        if command.stage in stage.depends_on
        and (wanted is True or (isinstance(wanted, list) and stage.id in wanted))
    }


def _drop_inputs_of_skipped(skipped: Stage, stage: Stage) -> dict[str, Any]:
    """Return the change that removes outputs of the skipped stage from another stage's inputs.

    Return an empty dictionary if the other stage does not use such files.
    """
    made = [skipped.id, *skipped.outputs]
    folders = tuple(f"{one.rstrip('/')}/" for one in made)
    kept = [one for one in stage.inputs if one not in made and not one.startswith(folders)]
    return {} if kept == stage.inputs else {"inputs": {"old": stage.inputs, "new": kept}}


def _build_dependency_change(stage: Stage, needs: list[str]) -> dict[str, Any]:
    """Return the change of the dependencies of a stage."""
    return {"old": stage.depends_on, "new": needs}


def _find_new_definition_problems(state: Workflow, amendment: Amendment) -> Iterator[str]:
    """Yield the problems that the amendment would add to the plan of the workflow."""
    changed = state.draft()
    apply_amendment(changed, amendment)
    from lifecycle.plan.document import definition_problems  # imports the plan models

    then, now = (
        {**build_definition_to_approve(one), RESULTS: one.results} for one in (state, changed)
    )
    yield from _find_broken_loops(state, changed)
    yield from _find_from_round_problems(state, amendment)
    for field in (MANDATES, ROUNDS, PLAN_PARAMETERS):
        if field in amendment.changes or getattr(changed, field):
            then, now = (
                {**one, field: getattr(of, field)} for one, of in ((then, state), (now, changed))
            )
    before = definition_problems(then)
    yield from (problem for problem in definition_problems(now) if problem not in before)
    yield from find_malformed_results(
        changed.extra.get(RESULTS) if RESULTS in amendment.changes else []
    )
    if changed.consent not in _POLICIES:
        yield f"consent: expected one of {', '.join(_POLICIES)}, found {changed.consent!r}"
    if changed.consent == "signature" and not changed.signers:
        yield "consent by signature needs at least one allowed signer (signers)"
    yield from _find_unusable_signers(changed.signers)


def _find_from_round_problems(state: Workflow, amendment: Amendment) -> Iterator[str]:
    """Yield the reasons why an amendment cannot keep the results of earlier rounds of a loop."""
    if amendment.from_round is None:
        return
    name = state.loop_of(amendment.stage or "")
    if name is None or amendment.also or amendment.kind not in _KINDS_WITH_FROM_ROUND:
        allowed = " or ".join(_KINDS_WITH_FROM_ROUND)
        yield f"from_round can be used only with a {allowed} of one stage in a loop"
        return
    stage = state.stage(str(amendment.stage))
    if stage.work.grows_by_rounds and state.loop(name).points != stage.id:
        yield f"from_round: the rounds of {name} add no points to the map of {stage.id}"
    yield from _find_changes_against_earlier_rounds(stage, amendment)
    last = state.loops[name].round.number
    if not 2 <= amendment.from_round <= last:
        expected = (
            f"2 to {last}" if last > 1 else "no from_round, because the loop has only one round"
        )
        yield f"from_round: expected {expected}, found {amendment.from_round}"


def _find_changes_against_earlier_rounds(stage: Stage, amendment: Amendment) -> Iterator[str]:
    """Yield a problem for each change that would make results of earlier rounds invalid."""
    for field in sorted({*amendment.changes} & _READ_OR_LEFT):
        yield f"{field}: cannot change together with from_round: earlier results would not fit"
    changed = {*amendment.changes.get("parameters", {})}
    for name in sorted(changed & stage.work.fixed_in_rounds):
        yield (
            f"parameters.{name}: cannot change together with from_round; propose a separate "
            "amendment"
        )
    is_anew = amendment.kind == "stage_rerun" or "backend" in amendment.changes
    if not is_anew and changed <= stage.work.ignored_parameters:
        yield (
            "from_round cannot be used here: the change only checks results, and a check "
            "applies to all rounds"
        )


def _find_broken_loops(state: Workflow, changed: Workflow) -> Iterator[str]:
    """Yield a problem for each started loop whose stages or points the amendment would change."""
    for name in (name for name, loop in state.loops.items() if loop.round.number > 1):
        before = state.loop(name)
        after = (
            parse_valid_loops(changed.rounds).get(name, before) if name in changed.rounds else None
        )
        if after is None:
            yield f"rounds.{name}: the loop has started; `wfctl round stop {name}` ends it"
        elif (after.stages, after.points) != (before.stages, before.points):
            yield (
                f"rounds.{name}: the stages of the loop and their points cannot change after the "
                "loop has started"
            )
        elif changed.stages[after.points].work.grows_by_rounds:
            found = find_new_point_problems(changed, after, state.loops[name], [])
            yield from (f"rounds.{name}: {why}" for why in found)


def _find_unusable_signers(signers: Any) -> Iterator[str]:
    """Yield a problem for each line that is not valid in an allowed-signers file."""
    if not isinstance(signers, list):
        yield f"signers: expected a list of lines, found {signers!r:.60}"
        return
    for line in signers:
        words = line.split() if isinstance(line, str) else []
        if "\n" in str(line) or not any(word.startswith(_KEY_TYPES) for word in words[1:]):
            yield f"signers: expected `who key-type key` (ssh-keygen(1)), found {line!r:.80}"


def signer_problems(consent: str, signers: list[str]) -> list[str]:
    """Return the problems of a consent policy and its allowed signers."""
    missing = ["signature needs --signers"] if consent == "signature" and not signers else []
    return [*missing, *_find_unusable_signers(signers)]


def build_definition_to_approve(state: Workflow) -> dict[str, Any]:
    """Return the parts of a workflow that a person approves, in the form of a plan."""
    return {
        "workflow_id": state.id,
        "experiment_design": state.experiment_design,
        "workflow_plan": state.workflow_plan,
        "default_backend": state.default_backend,
        "backend_profiles": state.backend_profiles,
        "session_config": state.session_config,
        "stages": [stage_definition(stage) for stage in state.stages.values()],
    }


def get_open_amendment(state: Workflow, id_: str) -> Amendment:
    """Return an amendment that waits for a decision.

    Raises `UnknownAmendment`, or `AmendmentDecided` if the decision was already made.
    """
    found = state.amendments.get(id_)
    if found is None:
        raise UnknownAmendment(id_, list(state.amendments))
    if not found.is_open:
        raise AmendmentDecided(id_, found.status)
    return found


def check_amendment_still_applies(state: Workflow, amendment: Amendment) -> None:
    """Raise `StaleAmendment` if the workflow has changed since the amendment was proposed.

    Raises `InvalidAmendment` if the amendment breaks the rules of proposals. Only another program
    can have recorded such an amendment.
    """
    if amendment.is_plan:
        return
    problems = [*_find_forbidden_changes(amendment, bool(amendment.rewired))]
    problems += amendable.find_malformed_changes(amendment.changes)
    for change in amendment.rewired.values():
        problems += amendable.find_malformed_changes(collect_changes_by_field(change))
    if problems:
        raise InvalidAmendment(problems)
    for id_ in amendment.also:
        state.stage(id_)
    amendable.check_old_values(
        state.stage(amendment.stage) if amendment.stage else state, amendment.changes
    )
    for id_, change in amendment.rewired.items():
        amendable.check_old_values(state.stage(id_), collect_changes_by_field(change))
    inserted = (amendment.insert or {}).get("id")
    if inserted in state.stages:
        raise StaleAmendment(str(inserted), "not there", "another stage")
    problems = list(_find_new_definition_problems(state, amendment))
    if problems:
        raise StaleAmendment("the workflow", "one that it fits", "; ".join(FirstReasons(problems)))


def decide_approval(state: Workflow, command: p.AmendmentApproved) -> Decision:
    """Return the event of an approval and all events that follow from it.

    They are recorded together in one append.
    """
    amendment = get_open_amendment(state, command.amendment)
    check_amendment_still_applies(state, amendment)
    impact = compute_approval_impact(state, amendment, command.kept)
    known = {
        "version": plan_version_after_approval(state, amendment),
        "invalidated_stages": list(impact.affected),
    }
    return [command.model_copy(update=known), *_list_consequences(state, amendment, impact)]


def _list_consequences(state: Workflow, amendment: Amendment, impact: Impact) -> Iterator[Payload]:
    """Yield the events that follow from the approval of an amendment."""
    id_ = amendment.id
    changed = compute_amendment_reach(state, amendment).after
    reopens = bool(amendment.insert or impact.invalidated or find_reopened_loops(state, changed))
    if state.workflow_status == "completed" and reopens:
        yield p.WorkflowReopened(reason=f"{id_} was approved")
    for stage, attempt in impact.stopped.items():
        what = f"{amendment.kind} of {amendment.stage or 'the workflow'}"
        error = f"stopped, because the amendment {id_} ({what}) was approved"
        yield p.StageFailed(stage=stage, error=error, attempt=attempt, superseded_by=id_)
    for stage in impact.invalidated:
        if not (amendment.kind == "stage_skip" and stage == amendment.stage):
            yield p.StageInvalidated(stage=stage, amendment=id_)
    # Another amendment may have skipped the stage since the proposal.
    if amendment.kind == "stage_skip" and not _is_skipped(state, amendment):
        reason = amendment.reason or amendment.description
        yield p.StageSkipped(stage=str(amendment.stage), amendment=id_, reason=reason)
    for stage, kept_as in impact.kept.items():
        yield p.OutputsArchived(stage=stage, kept_as=kept_as, amendment=id_)


def _is_skipped(state: Workflow, amendment: Amendment) -> bool:
    """Return whether the stage of an amendment is skipped already."""
    return state.stage(str(amendment.stage)).status is Status.SKIPPED


def decide_rejection(state: Workflow, command: p.AmendmentRejected) -> Decision:
    """Return the event of a rejection. Raises `AmendmentDecided` if a decision was already made."""
    amendment = get_open_amendment(state, command.amendment)
    if amendment.status != "proposed":
        raise AmendmentDecided(amendment.id, amendment.status)
    return [command]
