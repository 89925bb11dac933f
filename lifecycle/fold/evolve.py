"""The fold: (state, event) → state. Pure; an event of a type it need not know changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from lifecycle.errors import NoWorkflow
from lifecycle.event import UNFOLDABLE, Event, fold_in, why_not
from lifecycle.fold import rounds, stages
from lifecycle.state.conditions import added_points, downstream, partners_of, upstream
from lifecycle.state.status import ACTIVE, Status
from lifecycle.state.workflow import PLAN, PLAN_CHANGE, Amendment, Drift, Session, Stage, Workflow
from lifecycle.sweeps.definition import HOW_RUN, basis_of, is_sweep, without_result
from lifecycle.words.document import (
    DEFINITIONAL,
    STAGE_FIELDS,
    WORKFLOW_FIELDS,
    restore,
    rewired_fields,
)
from lifecycle.words.mandates import MANDATES
from lifecycle.words.metrics import METRICS
from lifecycle.words.rounds import ROUNDS

#: Fields whose values are objects; a change names the key inside: field → key → old and new.
KEYED = frozenset({"parameters", "backend_profiles", "session_config", MANDATES, ROUNDS})
#: Kinds of amendments that change fields of a stage, and fields that alone may leave results.
_CHANGES = frozenset({"parameter_change", "criteria_change"})
_AMONG = frozenset({"parameters", "success_criteria", "name"})
#: What a submission is built from; where one changes, a prepared submission says something else.
_BUILT_FROM = frozenset({"parameters", "backend", "inputs"})
_PROFILES = frozenset({"default_backend", "backend_profiles"})
#: The policy that the proof of an approval by a mandate names.
BY_MANDATE = "mandate"


def takes_effect(draft: Workflow, event: Event) -> bool:
    """Whether an event may change the state: what follows from an amendment needs it approved."""
    named = event.data.get("amendment") or event.data.get("superseded_by")
    if named is None:
        return event.type not in ("stage.invalidated", "stage.skipped")
    if event.type.startswith("amendment."):
        return True
    amendment = draft.amendments.get(named)
    # The record of another's keeping came with no proof of consent: nothing follows from it.
    if amendment is None or amendment.record is not None:
        return False
    return amendment.status == "approved" and _covers(amendment, event)


def _covers(amendment: Amendment, event: Event) -> bool:
    """Whether the amendment is of a kind from which the event follows, and for this stage."""
    stage = event.data.get("stage")
    if event.type == "stage.skipped":
        return amendment.kind == "stage_skip" and amendment.stage == stage
    return stage == amendment.stage or stage in amendment.invalidated_stages


def propose(draft: Workflow, event: Event) -> None:
    """Keep a proposal; nothing else changes. An id is given once."""
    found = proposed(event.data, event.occurred_at)
    draft.amendments.setdefault(found.id, found)


def proposed(data: Mapping[str, Any], at: str) -> Amendment:
    """Return the amendment that a completed proposal becomes once it is recorded."""
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


def propose_plan(draft: Workflow, at: str) -> None:
    """Let the plan as it was begun wait for a person's approval, like an amendment.

    An imported record of this id gives way: it was kept by another.
    """
    of = f"the plan of {draft.id}"
    draft.amendments[PLAN] = Amendment(PLAN, PLAN, None, draft.purpose or of, at, changes={})


def proposed_in(event: Event) -> str | None:
    """Return the id of what an event proposes: an amendment, or the plan that it begins with."""
    if event.type == "amendment.proposed":
        return str(event.data["amendment"])
    return PLAN if event.data.get("proposed") and event.version == 1 else None


def version_after(state: Workflow, amendment: Amendment) -> int:
    """Return the workflow's version once the amendment is approved; a plan changes nothing."""
    return state.version if amendment.is_plan else state.version + 1


def reject(draft: Workflow, event: Event) -> None:
    """Close a proposal; nothing else changes."""
    amendment = draft.amendments.get(event.data["amendment"])
    if amendment is not None and amendment.status == "proposed":
        amendment.status = "rejected"
        amendment.decided_at = event.occurred_at


def approve(draft: Workflow, event: Event, accepted: Container[str]) -> None:
    """Apply a proposal, where its proof of consent was accepted; else change nothing."""
    amendment = draft.amendments.get(event.data.get("amendment", ""))
    if amendment is None or not amendment.is_open or event.hash not in accepted:
        return
    draft.version = version_after(draft, amendment)
    amendment.status = "approved"
    amendment.approval = event.hash
    amendment.version = draft.version
    amendment.decided_at = event.occurred_at
    proof = event.data.get("proof") or {}
    amendment.approved_by = event.data.get("approved_by", "user")
    amendment.policy = proof.get("policy")
    if amendment.policy == BY_MANDATE:
        amendment.mandate = proof.get("mandate")
    else:  # a person saw the files that the definition runs
        draft.scripts = event.data.get("scripts", {})
        amendment.scripts = dict(draft.scripts)
    amendment.invalidated_stages = event.data.get("invalidated_stages", [])
    keeps = {id_: keeps_tasks(draft, amendment, id_) for id_ in amendment.targets}
    below = {*amendment.invalidated_stages} - {*keeps}
    keeps |= {id_: True for id_ in below if keeps_tasks(draft, amendment, id_)}
    apply(draft, amendment)
    _mark(draft, amendment)
    for id_, kept in keeps.items():
        draft.stage(id_).keeps_tasks = kept


def keeps_tasks(draft: Workflow, amendment: Amendment, id_: str) -> bool:
    """Say whether tasks of a stage that are done go on to count: points or the verdict change.

    Each task of a stage that follows another one by `like` counts if its partner task does.
    """
    stage = draft.stages.get(id_)
    if stage is None or not is_sweep(stage.parameters) or (stage.keep_as and not stage.keeps_tasks):
        return False
    if amendment.kind == PLAN_CHANGE and id_ in amendment.rewired:
        above = upstream(_needs(draft), [id_]) & {*amendment.rewired}
        rest = all(only_judges(draft, part_of(amendment, one)) for one in above)
        rest = rest or follows_kept_tasks(draft, amendment, stage)
        return rest and keeps_tasks(draft, part_of(amendment, id_), id_)
    if amendment.stage != id_:
        is_kept = is_rejudged(draft, amendment, id_)
        return is_kept or follows_kept_tasks(draft, amendment, stage)
    if amendment.from_round is not None:
        return bool(added_points(draft, id_))
    if amendment.kind not in _CHANGES or not set(amendment.changes) <= _AMONG:
        return False
    new = _changed(stage.parameters, "parameters", amendment.changes.get("parameters", {}))
    return is_sweep(new) and basis_of(stage.parameters) == basis_of(new)


def follows_kept_tasks(draft: Workflow, amendment: Amendment, stage: Stage) -> bool:
    """Say whether an amendment reaches a stage by its partners alone, which keep their tasks."""
    if _PROFILES & set(amendment.changes):
        return False
    partners = [partner.id for partner in partners_of(draft, stage)]
    changed = {*amendment.targets, *amendment.rewired}
    reached = changed | downstream(_needs(draft), changed)
    own = {*stage.depends_on} & reached
    return bool(own) and own <= {*partners} and keeps_tasks(draft, amendment, partners[0])


def part_of(amendment: Amendment, id_: str) -> Amendment:
    """Return what a change of several stages is of one: the rules of one stage hold for it."""
    own = rewired_fields(amendment.rewired[id_]) if id_ in amendment.rewired else {}
    return replace(amendment, kind="parameter_change", stage=id_, changes=own, rewired={})


def _needs(draft: Workflow) -> dict[str, list[str]]:
    return {stage.id: stage.depends_on for stage in draft.stages.values()}


def apply(draft: Workflow, amendment: Amendment) -> None:
    """Change what the amendment defines anew; no status changes."""
    if amendment.insert is not None:
        _insert(draft, amendment.insert, amendment.place)
    for stage, change in amendment.rewired.items():
        of = draft.stages[stage]
        for field, values in rewired_fields(change).items():
            setattr(of, field, _changed(getattr(of, field), field, values))
    target = draft.stages[amendment.stage] if amendment.stage else draft
    for field, change in amendment.changes.items():
        setattr(target, field, _changed(getattr(target, field), field, change))
    for id_ in amendment.targets:
        if is_rejudged(draft, amendment, id_):
            for attempt in draft.stage(id_).attempts:
                attempt.is_refuted = False  # it was by the verdict that is no more


def parameters_then(state: Workflow, stage: Stage, plan: int) -> dict[str, Any]:
    """Return the parameters of a stage as they were in a version of the plan."""
    found = dict(stage.parameters)
    later = [one for one in state.amendments.values() if (one.version or 0) > plan > 0]
    for amendment in sorted(later, key=lambda one: one.version or 0, reverse=True):
        if amendment.status != "approved" or amendment.record is not None:
            continue
        changes = amendment.changes if amendment.stage == stage.id else {}
        if stage.id in amendment.rewired:
            changes = rewired_fields(amendment.rewired[stage.id])
        for name, leaf in changes.get("parameters", {}).items():
            found.pop(name, None)
            found |= {name: leaf["old"]} if "old" in leaf else {}
    return found


def _insert(draft: Workflow, definition: dict[str, Any], place: int | None) -> None:
    known = {k: v for k, v in definition.items() if k in STAGE_FIELDS and k != "status"}
    extra = {k: v for k, v in definition.items() if k not in STAGE_FIELDS}
    entries = list(draft.stages.items())
    where = len(entries) if place is None else place
    entries.insert(where, (definition["id"], Stage(**known, extra=extra)))
    draft.stages = dict(entries)


def _changed(value: Any, field: str, change: dict[str, Any]) -> Any:
    if field not in KEYED:
        return change["new"]
    new = dict(value)
    for key, leaf in change.items():
        if "new" in leaf:
            new[key] = leaf["new"]
        else:
            new.pop(key, None)
    return new


def _mark(draft: Workflow, amendment: Amendment) -> None:
    """Note what must not go on as if nothing had changed."""
    for id_ in {*amendment.targets, *amendment.invalidated_stages} & {*draft.stages}:
        draft.stages[id_].mandate = amendment.mandate
    for id_ in amendment.invalidated_stages:
        stage = draft.stages[id_]
        if stage.status in ACTIVE and stage.attempts and not goes_on(draft, amendment, stage):
            stage.attempts[-1].outdated_by = amendment.id
        stage.is_rejudged = is_rejudged(draft, amendment, id_)
    for stage in _built_anew(draft, amendment):
        stage.regenerate = True
    for target in map(draft.stage, amendment.targets):
        if target.status is Status.FAILED and _runs_again(amendment, target):
            target.rerun_by = amendment.id


def only_judges(draft: Workflow, amendment: Amendment) -> bool:
    """Say whether the amendment leaves all that is computed from: nothing but a verdict changes."""
    if amendment.kind not in _CHANGES or amendment.stage not in draft.stages:
        return False
    parameters = draft.stages[amendment.stage].parameters
    # The numbers of tasks are columns of the table that others read.
    aside = without_result(parameters) - ({METRICS} if is_sweep(parameters) else set())
    return (
        set(amendment.changes) <= _AMONG and set(amendment.changes.get("parameters", {})) <= aside
    )


def is_rejudged(draft: Workflow, amendment: Amendment, id_: str) -> bool:
    """Say whether nothing but a verdict changes for a stage that the amendment reaches."""
    if amendment.kind != PLAN_CHANGE:
        return only_judges(draft, amendment)
    named = ({id_} | upstream(_needs(draft), [id_])) & {*amendment.rewired}
    parts = [part_of(amendment, one) for one in named]
    moved = bool(_PROFILES & set(amendment.changes))
    return bool(parts) and not moved and all(only_judges(draft, one) for one in parts)


def goes_on(draft: Workflow, amendment: Amendment, stage: Stage) -> bool:
    """Say whether an attempt under way goes on, to be judged at its end by what is changed."""
    if amendment.kind == PLAN_CHANGE and is_rejudged(draft, amendment, stage.id):
        amendment = part_of(amendment, stage.id)
    if stage.id != amendment.stage or not only_judges(draft, amendment) or not amendment.changes:
        return False
    is_run_as_before = HOW_RUN.isdisjoint(amendment.changes.get("parameters", {}))
    return is_run_as_before and stage.status in ACTIVE and bool(stage.attempts)


def _runs_again(amendment: Amendment, stage: Stage) -> bool:
    """Whether an approval lets a failed stage go on: a change of what failed is decision enough.

    What it is called, and how long it is thought to take, let nothing end otherwise.
    """
    own = {*amendment.changes.get("parameters", {})} - {"expected_seconds"}
    changes = own | ({*amendment.changes} - {"name", "parameters"})
    return amendment.kind == "stage_rerun" or bool(changes) or stage.id in amendment.rewired


def _built_anew(draft: Workflow, amendment: Amendment) -> list[Stage]:
    if amendment.kind == PLAN_CHANGE and not _PROFILES & set(amendment.changes):
        return [draft.stages[id_] for id_, one in amendment.rewired.items() if _BUILT_FROM & {*one}]
    if amendment.stage is not None:
        return [draft.stages[amendment.stage]] if _BUILT_FROM & set(amendment.changes) else []
    return list(draft.stages.values()) if _PROFILES & set(amendment.changes) else []


def _detected(draft: Workflow, event: Event) -> None:
    """Keep in mind what waits for somebody; a change of the form alone does not."""
    data = event.data
    if data.get("kept_as") is None or not (data["differences"] or data["kind"] == "unreadable"):
        return
    # What only an amendment may change of a stage that stays.
    touches = [
        ".".join([one["stage"], *map(str, one["path"])])
        for one in data["differences"]
        if one.get("stage") is not None and (one.get("path") or [None])[0] in DEFINITIONAL
    ]
    known = {name: data[name] for name in ("file", "kind", "base", "kept_as")}
    draft.drifts.append(Drift(event.version, **known, touches=touches))


def _adopted(draft: Workflow, event: Event) -> None:
    """Close the drift; take over the fields that nobody specified."""
    for change in event.data.get("unknown", []):
        _take_over(draft, change)
    rest = event.data.get("rest")
    if not rest:
        close_drift(draft, event)
        return
    for drift in draft.drifts:
        if drift.version == event.data["detected"]:
            drift.rest = rest
            drift.touches = [one for one in drift.touches if _is_among(one, rest)]


def _is_among(name: str, rest: list[str]) -> bool:
    """Whether a field is one of those named, holds one of them, or is part of one."""
    return any(f"{a}.".startswith(f"{b}.") for one in rest for a, b in ((one, name), (name, one)))


def close_drift(draft: Any, event: Event) -> None:
    """Take a drift of a workflow or a machine for decided, by adoption or by reversal."""
    draft.edits = _with_decision(draft.edits, event)
    draft.drifts = [drift for drift in draft.drifts if drift.version != event.data["detected"]]


def _with_decision(edits: list[dict[str, Any]], event: Event) -> list[dict[str, Any]]:
    """Return the hand edits that were decided with one more; the same decision again is one."""
    data, how = event.data, event.type.removeprefix("drift.")
    policy = (data.get("proof") or {}).get("policy")
    new = {"file": data["file"], "how": how, "by": data.get("approved_by"), "policy": policy}
    return edits if new in edits else [*edits, new]


def _take_over(draft: Workflow, change: dict[str, Any]) -> None:
    known = STAGE_FIELDS if change.get("stage") else (*WORKFLOW_FIELDS, MANDATES, ROUNDS)
    if change["field"] in known:
        return  # written past the rules: it would be shown in place of the field itself
    extra = draft.stages[change["stage"]].extra if change.get("stage") else draft.extra
    if change.get("removed"):
        extra.pop(change["field"], None)
    else:
        extra[change["field"]] = restore(change.get("value"), change.get("layout", {}))


E = TypeVar("E", bound=Event)
Apply = Callable[[Workflow, Event], None]

#: The fold's own version: a stored state folded by another is not used.
REDUCER = 31


def evolve(
    state: Workflow | None, events: Iterable[Event], accepted: Container[str] = frozenset()
) -> Workflow | None:
    """Return the state after ``events``; ``state`` itself is left as it was.

    ``accepted`` holds the hashes of the events whose proof of consent was verified.
    """
    result = state.draft() if state is not None else None
    for _, folded in steps(result, events, accepted):
        result = folded
    return result


def steps(
    draft: Workflow | None, events: Iterable[E], accepted: Container[str] = frozenset()
) -> Iterator[tuple[E, Workflow]]:
    """Yield each event with the state after it.

    The state yielded is one object, changed in place from step to step; it is the caller's
    own (`Workflow.draft`). Raises `NoWorkflow` where the first event creates none.
    """
    for event in events:
        if draft is None:
            draft = _create(event)
        else:
            fold_in(draft, event, why_not(draft, event), partial(_apply, draft, event, accepted))
        rounds.refresh(draft, event.occurred_at)
        draft.head = event.version
        if event.type not in stages.TYPES:
            # What somebody else typed holds until something happens here.
            is_alike = len(draft.updated) == len(event.occurred_at)
            draft.updated = max(draft.updated if is_alike else "", event.occurred_at)
        yield event, draft


def _apply(draft: Workflow, event: Event, accepted: Container[str]) -> None:
    if event.type == "amendment.approved":
        approve(draft, event, accepted)
        return
    apply, of_stage = _APPLY.get(event.type), stages.APPLY.get(event.type)
    if (apply is None and of_stage is None) or not takes_effect(draft, event):
        return
    if apply is not None:
        apply(draft, event)
    elif of_stage is not None:
        of_stage(draft, draft.stages[event.data["stage"]], event)


def _create(event: Event) -> Workflow:
    if event.type not in ("workflow.created", "workflow.imported"):
        raise NoWorkflow(
            f"the first event is {event.type}; expected workflow.created or workflow.imported",
            type=event.type,
        )
    data = event.data
    try:
        draft = stages.workflow_of(restore(data["document"], data.get("layout", {})))
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
        propose_plan(draft, event.occurred_at)
    return draft


def _files(draft: Workflow, event: Event) -> None:
    """What was seen of files at the beginning; said later it would be another's word for them."""
    if not draft.is_beginning:
        return
    draft.scripts = event.data.get("scripts", {})
    for id_, found in event.data.get("attempts", {}).items():
        attempt = draft.stages[id_].attempt
        if attempt is not None and attempt.taken_over:
            attempt.submission_sha256 = found["submission_sha256"]
            attempt.inputs, attempt.scripts = found["inputs"], found["scripts"]


def _completed_workflow(draft: Workflow, event: Event) -> None:
    draft.workflow_status = "completed"
    draft.completions += 1
    draft.report = event.data.get("report")


def _reopened(draft: Workflow, event: Event) -> None:
    draft.workflow_status = None


def _session_started(draft: Workflow, event: Event) -> None:
    draft.session = Session(
        count=event.data["number"],
        id=event.occurred_at,
        is_open=True,
        driven=event.data.get("driven", False),
        report=event.data.get("report"),
    )


def _session_ended(draft: Workflow, event: Event) -> None:
    reason = event.data["reason"]
    draft.session.is_open = False
    draft.session.exit_reason = None if reason == "waiting" else reason
    for stage in draft.stages.values():
        stage.uncharged = False  # what a session left is not for another to pay


def _charged(draft: Workflow, event: Event) -> None:
    draft.session.cost += event.data["weight"]
    stage = draft.stages.get(event.data["stage"])
    if stage is not None:
        stage.uncharged = False


_APPLY: dict[str, Apply] = {
    "line.imported": stages.fold_line,
    "state.imported": stages.fold_state,
    "files.recorded": _files,
    "workflow.completed": _completed_workflow,
    "workflow.reopened": _reopened,
    "amendment.proposed": propose,
    "amendment.rejected": reject,
    "drift.detected": _detected,
    "drift.adopted": _adopted,
    "drift.reverted": close_drift,
    "session.started": _session_started,
    "session.ended": _session_ended,
    "cost.charged": _charged,
    "round.begun": rounds.begun,
    "loop.stopped": rounds.stopped,
}
