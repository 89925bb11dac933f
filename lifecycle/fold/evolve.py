"""Compute the state of a workflow from its events. Unknown event types change nothing."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from lifecycle.errors import NoWorkflow
from lifecycle.event import UNFOLDABLE, Event, apply_or_ignore_event, explain_ignored_event
from lifecycle.fold import imported, rounds, stages
from lifecycle.state.conditions import (
    downstream,
    find_point_source_stages,
    points_added_by_rounds,
    upstream,
)
from lifecycle.state.status import ACTIVE, Status
from lifecycle.state.workflow import PLAN, PLAN_CHANGE, Amendment, Drift, Session, Stage, Workflow
from lifecycle.sweeps.definition import HOW_RUN, MAP, is_only_first_changed
from lifecycle.sweeps.work import build_work
from lifecycle.words.document import (
    DEFINITIONAL,
    STAGE_FIELDS,
    WORKFLOW_FIELDS,
    collect_changes_by_field,
    restore_key_order,
)
from lifecycle.words.mandates import MANDATES
from lifecycle.words.plan_parameters import PLAN_PARAMETERS, add_plan_values, remove_plan_values
from lifecycle.words.rounds import ROUNDS

#: Fields that contain an object. A change of such a field lists the changed keys of the object,
#: each with its old and new value.
KEYED = frozenset({"parameters", "backend_profiles", "session_config", MANDATES, ROUNDS})
#: Types of amendments that change fields of a stage. If they change only the fields of the next
#: constant, results can stay valid.
_CHANGES = frozenset({"parameter_change", "criteria_change"})
_AMONG = frozenset({"parameters", "success_criteria", "name"})
#: Fields from which a submission is built. If one changes, a prepared submission is out of date.
_BUILT_FROM = frozenset({"parameters", "backend", "inputs"})
_PROFILES = frozenset({"default_backend", "backend_profiles"})
#: Fields of a workflow that only wfctl changes.
OWN_FIELDS = (*WORKFLOW_FIELDS, MANDATES, ROUNDS, PLAN_PARAMETERS)
#: Name of the policy in the proof of an approval that a mandate (permission given in advance) made.
BY_MANDATE = "mandate"


def can_take_effect(draft: Workflow, event: Event) -> bool:
    """Return whether an event may change the state.

    An event that is the consequence of an amendment takes effect only if the amendment is approved.
    """
    named = event.data.get("amendment") or event.data.get("superseded_by")
    if named is None:
        return event.type not in ("stage.invalidated", "stage.skipped")
    if event.type.startswith("amendment."):
        return True
    amendment = draft.amendments.get(named)
    # An imported amendment has no proof of consent, and its consequences must not take effect.
    if amendment is None or amendment.record is not None:
        return False
    return amendment.status == "approved" and _can_cause_event(amendment, event)


def _can_cause_event(amendment: Amendment, event: Event) -> bool:
    """Return whether the event can be a consequence of the amendment.

    The type of the amendment and its affected stages must match the event.
    """
    stage = event.data.get("stage")
    if event.type == "stage.skipped":
        return amendment.kind == "stage_skip" and amendment.stage == stage
    return stage == amendment.stage or stage in amendment.invalidated_stages


def fold_proposal(draft: Workflow, event: Event) -> None:
    """Add a proposed amendment to the state. Ignore a second proposal with the same id."""
    found = build_amendment(event.data, event.occurred_at)
    draft.amendments.setdefault(found.id, found)


def build_amendment(data: Mapping[str, Any], at: str) -> Amendment:
    """Return the amendment that the data of a proposal describes, proposed at the time ``at``."""
    optional = ("reason", "insert", "place", "rewired", "also", "from_round")
    return Amendment(
        id=data["amendment"],
        kind=data["kind"],
        stage=data.get("stage"),
        description=data["description"],
        proposed_at=at,
        changes=data.get("changes", {}),
        **{name: data[name] for name in optional if name in data},
    )


def add_plan_as_amendment(draft: Workflow, at: str) -> None:
    """Add the initial plan as an amendment that waits for a person's approval.

    It replaces an imported amendment with the same id.
    """
    of = f"the plan of {draft.id}"
    draft.amendments[PLAN] = Amendment(PLAN, PLAN, None, draft.purpose or of, at, changes={})


def find_proposed_id(event: Event) -> str | None:
    """Return the id of the amendment or initial plan that an event proposes, or None."""
    if event.type == "amendment.proposed":
        return str(event.data["amendment"])
    return PLAN if event.data.get("proposed") and event.version == 1 else None


def plan_version_after_approval(state: Workflow, amendment: Amendment) -> int:
    """Return the version that the plan has after the amendment is approved.

    The approval of the initial plan does not increase the version.
    """
    return state.version if amendment.is_plan else state.version + 1


def fold_rejection(draft: Workflow, event: Event) -> None:
    """Mark an open proposal as rejected, without any other change."""
    amendment = draft.amendments.get(event.data["amendment"])
    if amendment is not None and amendment.status == "proposed":
        amendment.status = "rejected"
        amendment.decided_at = event.occurred_at


def fold_approval(draft: Workflow, event: Event, accepted: Container[str]) -> None:
    """Apply an amendment if its approval has an accepted proof of consent.

    Otherwise change nothing. ``accepted`` has the hashes of the approvals whose proof was verified.
    """
    amendment = draft.amendments.get(event.data.get("amendment", ""))
    if amendment is None or not amendment.is_open or event.hash not in accepted:
        return
    draft.version = plan_version_after_approval(draft, amendment)
    amendment.status = "approved"
    amendment.approval = event.hash
    amendment.version = draft.version
    amendment.decided_at = event.occurred_at
    proof = event.data.get("proof") or {}
    amendment.approved_by = event.data.get("approved_by", "user")
    amendment.policy, amendment.mandate_rule = (
        proof.get("policy"),
        parse_mandate_rule_version(proof),
    )
    amendment.database_user = proof.get("database_user")
    if amendment.policy == BY_MANDATE:
        amendment.mandate = proof.get("mandate")
    else:  # a person approved the scripts
        draft.scripts = event.data.get("scripts", {})
        amendment.scripts = dict(draft.scripts)
    amendment.invalidated_stages = event.data.get("invalidated_stages", [])
    named = [*amendment.targets, *draft.list_parameter_users(amendment)]
    keeps = {id_: can_keep_finished_tasks(draft, amendment, id_) for id_ in named}
    below = {*amendment.invalidated_stages} - {*keeps}
    keeps |= {id_: True for id_ in below if can_keep_finished_tasks(draft, amendment, id_)}
    apply_amendment(draft, amendment)
    _mark_affected_stages(draft, amendment)
    for id_, kept in keeps.items():
        draft.stage(id_).keeps_tasks = kept


def parse_mandate_rule_version(proof: Mapping[str, Any]) -> int:
    """Return the version of the mandate rules under which an approval was given.

    Return 1 if the proof of consent records no version, and 0 if the value is not a version.
    """
    found: Any = proof.get("mandate_rule", 1)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def can_keep_finished_tasks(draft: Workflow, amendment: Amendment, id_: str) -> bool:
    """Return whether finished tasks of a sweep stage stay valid under an amendment.

    They stay valid if the amendment changes only the points or the check of results. If the stage
    follows another stage (each of its tasks belongs to a task of the other stage), its tasks stay
    valid if the other stage keeps its tasks.
    """
    stage = draft.stages.get(id_)
    if stage is None or (stage.keep_as and not stage.keeps_tasks):
        return False
    users = {*draft.list_parameter_users(amendment)}
    if not stage.work.keeps_tasks(stage.work) or id_ in users:
        return False
    if amendment.kind == PLAN_CHANGE and id_ in amendment.rewired:
        above = upstream(_dependency_graph(draft), [id_])
        rest = above.isdisjoint(users) and all(
            is_only_result_check_changed(draft, restrict_to_stage(amendment, one))
            for one in above & {*amendment.rewired}
        )
        rest = rest or is_affected_only_by_partner(draft, amendment, stage)
        return rest and can_keep_finished_tasks(draft, restrict_to_stage(amendment, id_), id_)
    if amendment.stage != id_:
        is_kept = is_only_recheck_needed(draft, amendment, id_)
        return is_kept or is_affected_only_by_partner(draft, amendment, stage)
    if amendment.from_round is not None:
        return bool(points_added_by_rounds(draft, id_))
    if amendment.kind not in _CHANGES or not set(amendment.changes) <= _AMONG:
        return False
    new = _compute_new_value(
        stage.parameters, "parameters", amendment.changes.get("parameters", {})
    )
    return stage.work.keeps_tasks(build_work(id_, new))


def is_affected_only_by_partner(draft: Workflow, amendment: Amendment, stage: Stage) -> bool:
    """Return whether the amendment affects the stage only through a stage that keeps its tasks.

    That stage is a partner: a sweep stage with which this stage shares its tasks.
    """
    if _PROFILES & set(amendment.changes):
        return False
    partners = [partner.id for partner in find_point_source_stages(draft, stage)]
    changed = {*amendment.targets, *amendment.rewired, *draft.list_parameter_users(amendment)}
    reached = changed | downstream(_dependency_graph(draft), changed)
    own = {*stage.depends_on} & reached
    return (
        bool(own) and own <= {*partners} and can_keep_finished_tasks(draft, amendment, partners[0])
    )


def restrict_to_stage(amendment: Amendment, id_: str) -> Amendment:
    """Return the part of the amendment that changes the given stage, as an amendment."""
    own = collect_changes_by_field(amendment.rewired[id_]) if id_ in amendment.rewired else {}
    return replace(amendment, kind="parameter_change", stage=id_, changes=own, rewired={})


def _dependency_graph(draft: Workflow) -> dict[str, list[str]]:
    """Return a dictionary with the dependencies of each stage."""
    return {stage.id: stage.depends_on for stage in draft.stages.values()}


def apply_amendment(draft: Workflow, amendment: Amendment) -> None:
    """Change the plan in ``draft`` as the amendment describes.

    The statuses of the stages do not change. The stages get the new values of the plan's
    parameters.
    """
    for stage in draft.stages.values():
        stage.parameters = remove_plan_values(stage.parameters, draft.parameters)
    _apply_changes(draft, amendment)
    for stage in draft.stages.values():
        stage.parameters = add_plan_values(stage.parameters, draft.parameters)
    for id_ in amendment.targets:
        if is_only_recheck_needed(draft, amendment, id_):
            for attempt in draft.stage(id_).attempts:
                attempt.is_refuted = False  # that verdict no longer exists


def _apply_changes(draft: Workflow, amendment: Amendment) -> None:
    """Insert the new stage of an amendment, and change the fields of stages and workflow."""
    if amendment.insert is not None:
        _insert_stage(draft, amendment.insert, amendment.place)
    for id_, change in amendment.rewired.items():
        of = draft.stages[id_]
        for field, values in collect_changes_by_field(change).items():
            setattr(of, field, _compute_new_value(getattr(of, field), field, values))
    target = draft.stages[amendment.stage] if amendment.stage else draft
    for field, change in amendment.changes.items():
        setattr(target, field, _compute_new_value(getattr(target, field), field, change))


def parameters_in_plan_version(state: Workflow, stage: Stage, plan: int) -> dict[str, Any]:
    """Return the parameters that the stage had in an earlier version of the plan."""
    found, of_plan = remove_plan_values(stage.parameters, state.parameters), state.parameters
    later = [one for one in state.amendments.values() if (one.version or 0) > plan > 0]
    for amendment in sorted(later, key=lambda one: one.version or 0, reverse=True):
        if amendment.status != "approved" or amendment.record is not None:
            continue
        changes = amendment.changes if amendment.stage == stage.id else {}
        if stage.id in amendment.rewired:
            changes = collect_changes_by_field(amendment.rewired[stage.id])
        found = _undo_changes(found, changes.get("parameters", {}))
        if amendment.stage is None:
            of_plan = _undo_changes(of_plan, amendment.changes.get(PLAN_PARAMETERS, {}))
    return add_plan_values(found, of_plan)


def _undo_changes(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values as they were before the changes."""
    kept = {name: value for name, value in values.items() if name not in changes}
    return kept | {name: leaf["old"] for name, leaf in changes.items() if "old" in leaf}


def _insert_stage(draft: Workflow, definition: dict[str, Any], place: int | None) -> None:
    """Insert a stage at position ``place``, or as the last stage if ``place`` is None."""
    known = {k: v for k, v in definition.items() if k in STAGE_FIELDS and k != "status"}
    extra = {k: v for k, v in definition.items() if k not in STAGE_FIELDS}
    entries = list(draft.stages.items())
    where = len(entries) if place is None else place
    entries.insert(where, (definition["id"], Stage(**known, extra=extra)))
    draft.stages = dict(entries)


def _compute_new_value(value: Any, field: str, change: dict[str, Any]) -> Any:
    """Return the new value of a field to which the change is applied."""
    if field not in KEYED:
        return change["new"]
    new = dict(value)
    for key, leaf in change.items():
        if "new" in leaf:
            new[key] = leaf["new"]
        else:
            new.pop(key, None)
    return new


def _mark_affected_stages(draft: Workflow, amendment: Amendment) -> None:
    """Mark each stage that an approved amendment affects.

    The marks state that a mandate applies, that the current attempt is outdated, that results must
    be checked again, or that the stage must run again.
    """
    named = [*amendment.targets, *draft.list_parameter_users(amendment)]
    for id_ in {*named, *amendment.invalidated_stages} & {*draft.stages}:
        stage, name = draft.stages[id_], amendment.mandate
        older = [one for one in stage.mandates if one != name]
        stage.mandates = [] if name is None else [name, *older]
    for id_ in amendment.invalidated_stages:
        stage = draft.stages[id_]
        if (
            stage.status in ACTIVE
            and stage.attempts
            and not is_attempt_continued(draft, amendment, stage)
        ):
            stage.attempts[-1].outdated_by = amendment.id
        stage.is_rejudged = is_only_recheck_needed(draft, amendment, id_)
    for stage in _find_stages_to_regenerate(draft, amendment):
        stage.regenerate = True
    for target in map(draft.stage, named):
        if target.status is Status.FAILED and _should_failed_stage_rerun(amendment, target):
            target.rerun_by = amendment.id


def is_only_result_check_changed(draft: Workflow, amendment: Amendment) -> bool:
    """Return whether the amendment changes only how the results of its stage are checked.

    Then the stage need not be computed again.
    """
    if amendment.kind not in _CHANGES or amendment.stage not in draft.stages:
        return False
    aside = draft.stages[amendment.stage].work.verdict_parameters
    changes = amendment.changes.get("parameters", {})
    changed = {n for n in changes if n != MAP or not is_only_first_changed(changes[n])}
    return set(amendment.changes) <= _AMONG and changed <= aside


def is_only_recheck_needed(draft: Workflow, amendment: Amendment, id_: str) -> bool:
    """Return whether the results of a stage need only a new check, and no new computation.

    This is the case if the amendment changes nothing but checks in the stage and in the stages
    before it.
    """
    if amendment.kind != PLAN_CHANGE:
        return is_only_result_check_changed(draft, amendment)
    reached = {id_} | upstream(_dependency_graph(draft), [id_])
    parts = [restrict_to_stage(amendment, one) for one in reached & {*amendment.rewired}]
    moved = bool(_PROFILES & set(amendment.changes))
    moved = moved or not reached.isdisjoint(draft.list_parameter_users(amendment))
    return (
        bool(parts) and not moved and all(is_only_result_check_changed(draft, one) for one in parts)
    )


def is_attempt_continued(draft: Workflow, amendment: Amendment, stage: Stage) -> bool:
    """Return whether a running attempt may continue in spite of the amendment.

    It may continue if only the check of its results changes, or the resources of the next attempt.
    New criteria then apply to it.
    """
    if amendment.kind == PLAN_CHANGE and is_only_recheck_needed(draft, amendment, stage.id):
        amendment = restrict_to_stage(amendment, stage.id)
    if (
        stage.id != amendment.stage
        or not is_only_result_check_changed(draft, amendment)
        or not amendment.changes
    ):
        return False
    is_run_as_before = HOW_RUN.isdisjoint(amendment.changes.get("parameters", {}))
    return is_run_as_before and stage.status in ACTIVE and bool(stage.attempts)


def _should_failed_stage_rerun(amendment: Amendment, stage: Stage) -> bool:
    """Return whether a failed stage runs again after the amendment is approved.

    A change of only its name or its expected duration does not make it run again.
    """
    own = {*amendment.changes.get("parameters", {})} - {"expected_seconds"}
    changes = own | ({*amendment.changes} - {"name", "parameters"})
    return amendment.kind == "stage_rerun" or bool(changes) or stage.id in amendment.rewired


def _find_stages_to_regenerate(draft: Workflow, amendment: Amendment) -> list[Stage]:
    """Return the stages whose prepared submission is out of date after the amendment."""
    if amendment.stage is not None:
        return [draft.stages[amendment.stage]] if _BUILT_FROM & set(amendment.changes) else []
    if _PROFILES & set(amendment.changes):
        return list(draft.stages.values())
    rewired = amendment.rewired.items() if amendment.kind == PLAN_CHANGE else ()
    changed = [id_ for id_, one in rewired if _BUILT_FROM & {*one}]
    changed += draft.list_parameter_users(amendment)
    return [draft.stages[id_] for id_ in dict.fromkeys(changed)]


def _fold_detected_drift(draft: Workflow, event: Event) -> None:
    """Add a drift (manual edit of a generated file) that waits for a decision.

    Ignore edits that change only the format of the file.
    """
    data = event.data
    if data.get("kept_as") is None or not (data["differences"] or data["kind"] == "unreadable"):
        return
    # The edited fields that only an approved amendment may change.
    touches = [
        ".".join([one["stage"], *map(str, one["path"])])
        for one in data["differences"]
        if one.get("stage") is not None and (one.get("path") or [None])[0] in DEFINITIONAL
    ]
    known = {name: data[name] for name in ("file", "kind", "base", "kept_as")}
    draft.drifts.append(Drift(event.version, **known, touches=touches))


def _fold_adopted_drift(draft: Workflow, event: Event) -> None:
    """Adopt edits of a generated file, for fields that wfctl does not define.

    Close the drift if nothing remains undecided. Otherwise keep the undecided fields.
    """
    for change in event.data.get("unknown", []):
        _apply_unknown_field_change(draft, change)
    rest = event.data.get("rest")
    if not rest:
        close_drift(draft, event)
        return
    for drift in draft.drifts:
        if drift.version == event.data["detected"]:
            drift.rest = rest
            drift.touches = [one for one in drift.touches if _is_overlapping_field(one, rest)]


def _is_overlapping_field(name: str, rest: list[str]) -> bool:
    """Return whether a field is in the list, contains a listed field, or is part of one."""
    return any(f"{a}.".startswith(f"{b}.") for one in rest for a, b in ((one, name), (name, one)))


def close_drift(draft: Any, event: Event) -> None:
    """Record the decision about a manual edit of a generated file, and remove the open drift.

    ``draft`` is the state of a workflow or of a phase machine.
    """
    draft.edits = _extend_edit_decisions(draft.edits, event)
    draft.drifts = [drift for drift in draft.drifts if drift.version != event.data["detected"]]


def _fold_audit_agreement(draft: Workflow, event: Event) -> None:
    """Record the person who agreed to an audit entry, and the reason.

    A later agreement to the same entry replaces an earlier one.
    """
    agreed = {**stages.consent_of(event), "reason": event.data["reason"]}
    draft.agreed = {**draft.agreed, event.data["entry"]: agreed}


def _extend_edit_decisions(edits: list[dict[str, Any]], event: Event) -> list[dict[str, Any]]:
    """Return the list of decided manual edits, extended by the decision in the event.

    A decision that the list already contains is not added.
    """
    how = event.type.removeprefix("drift.")
    new = {"file": event.data["file"], "how": how, **stages.consent_of(event)}
    return edits if new in edits else [*edits, new]


def _apply_unknown_field_change(draft: Workflow, change: dict[str, Any]) -> None:
    """Store or remove a field from an edited file that wfctl does not define."""
    known = STAGE_FIELDS if change.get("stage") else OWN_FIELDS
    if change["field"] in known:
        return  # another program wrote this event, which would hide the real field
    extra = draft.stages[change["stage"]].extra if change.get("stage") else draft.extra
    if change.get("removed"):
        extra.pop(change["field"], None)
    else:
        extra[change["field"]] = restore_key_order(change.get("value"), change.get("layout", {}))


E = TypeVar("E", bound=Event)
Apply = Callable[[Workflow, Event], None]

#: Version of the fold. A cached state from another version of the fold is not used.
REDUCER = 48


def evolve(
    state: Workflow | None, events: Iterable[Event], accepted: Container[str] = frozenset()
) -> Workflow | None:
    """Return the state after ``events``, without changing ``state``.

    ``accepted`` contains the hashes of the events whose proof of consent was verified.
    """
    result = state.draft() if state is not None else None
    for _, folded in fold_events(result, events, accepted):
        result = folded
    return result


def fold_events(
    draft: Workflow | None, events: Iterable[E], accepted: Container[str] = frozenset()
) -> Iterator[tuple[E, Workflow]]:
    """Apply the events in order, and yield each event with the state after it.

    Every yielded state is the same object, which the next step changes. Copy it with
    `Workflow.draft` to keep it. Raises `NoWorkflow` if the first event does not create a workflow.
    """
    for event in events:
        if draft is None:
            draft = _create_workflow(event)
        else:
            apply_or_ignore_event(
                draft,
                event,
                explain_ignored_event(draft, event),
                partial(_apply_event, draft, event, accepted),
            )
        rounds.refresh_loops(draft, event.occurred_at)
        draft.head = event.version
        if event.type not in imported.TYPES:
            # An imported time in another format is replaced by the time of the first later event.
            is_alike = len(draft.updated) == len(event.occurred_at)
            draft.updated = max(draft.updated if is_alike else "", event.occurred_at)
        yield event, draft


def _apply_event(draft: Workflow, event: Event, accepted: Container[str]) -> None:
    """Change the draft as the event describes, unless the event has no effect."""
    if event.type == "amendment.approved":
        fold_approval(draft, event, accepted)
        return
    apply, of_stage = _APPLY.get(event.type), stages.APPLY.get(event.type)
    if (apply is None and of_stage is None) or not can_take_effect(draft, event):
        return
    if apply is not None:
        apply(draft, event)
    elif of_stage is not None:
        of_stage(draft, draft.stages[event.data["stage"]], event)


def _create_workflow(event: Event) -> Workflow:
    """Return the initial state from the first event of a log.

    Raises `NoWorkflow` if this event does not create or import a workflow.
    """
    if event.type not in ("workflow.created", "workflow.imported"):
        raise NoWorkflow(
            "the first event of a log must be workflow.created or workflow.imported, but it is "
            f"{event.type}",
            type=event.type,
        )
    data = event.data
    try:
        draft = imported.build_imported_workflow(
            restore_key_order(data["document"], data.get("layout", {}))
        )
    except UNFOLDABLE as error:
        why = f"version {event.version}: the document is no workflow ({type(error).__name__})"
        raise NoWorkflow(why, type=event.type) from error
    draft.created = draft.created or event.occurred_at
    draft.updated = draft.updated or event.occurred_at
    draft.purpose = data.get("purpose")
    draft.consent = data.get("consent", "terminal")
    draft.signers = data.get("signers", [])
    draft.root = data.get("root", {})
    draft.import_end = data.get("events", 0)
    if data.get("proposed"):
        add_plan_as_amendment(draft, event.occurred_at)
    return draft


def _fold_initial_file_digests(draft: Workflow, event: Event) -> None:
    """Store the digests of files that were recorded when the workflow was created.

    Ignore records that were made later.
    """
    if not draft.is_beginning:
        return
    draft.scripts = event.data.get("scripts", {})
    for id_, found in event.data.get("attempts", {}).items():
        attempt = draft.stages[id_].attempt
        if attempt is not None and attempt.taken_over:
            attempt.submission_sha256 = found["submission_sha256"]
            attempt.inputs, attempt.scripts = found["inputs"], found["scripts"]


def _fold_workflow_completed(draft: Workflow, event: Event) -> None:
    draft.workflow_status = "completed"
    draft.completions += 1
    draft.report = event.data.get("report")


def _fold_workflow_reopened(draft: Workflow, event: Event) -> None:
    draft.workflow_status = None


def _fold_session_started(draft: Workflow, event: Event) -> None:
    draft.session = Session(
        count=event.data["number"],
        id=event.occurred_at,
        is_open=True,
        driven=event.data.get("driven", False),
        report=event.data.get("report"),
    )


def _fold_session_ended(draft: Workflow, event: Event) -> None:
    reason = event.data["reason"]
    draft.session.is_open = False
    draft.session.exit_reason = None if reason == "waiting" else reason
    for stage in draft.stages.values():
        stage.uncharged = False  # the next session does not pay for this one


def _fold_cost(draft: Workflow, event: Event) -> None:
    draft.session.cost += event.data["weight"]
    stage = draft.stages.get(event.data["stage"])
    if stage is not None:
        stage.uncharged = False


_APPLY: dict[str, Apply] = {
    "line.imported": imported.fold_imported_line,
    "state.imported": imported.fold_imported_state,
    "files.recorded": _fold_initial_file_digests,
    "workflow.completed": _fold_workflow_completed,
    "workflow.reopened": _fold_workflow_reopened,
    "amendment.proposed": fold_proposal,
    "amendment.rejected": fold_rejection,
    "drift.detected": _fold_detected_drift,
    "drift.adopted": _fold_adopted_drift,
    "drift.reverted": close_drift,
    "audit.agreed": _fold_audit_agreement,
    "session.started": _fold_session_started,
    "session.ended": _fold_session_ended,
    "cost.charged": _fold_cost,
    "round.begun": rounds.fold_round_begun,
    "loop.stopped": rounds.fold_loop_stopped,
}
