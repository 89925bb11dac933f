"""A plan taken anew: what differs from a workflow that is under way, as one amendment. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lifecycle.errors import InvalidAmendment
from lifecycle.fold.amendments import KEYED
from lifecycle.payload import models as p
from lifecycle.rules.amendable import OF_CONSENT, OF_STAGE, OPERATIONAL, WORKFLOW_FIELDS
from lifecycle.rules.grounds import stage_definition
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow


def replanned(state: Workflow, plan: Workflow, reason: str | None) -> p.AmendmentProposed | None:
    """Return the amendment that makes a workflow what ``plan`` says; None where it is already.

    ``plan`` is the workflow that would begin with the plan. Raises `InvalidAmendment` with every
    field that no amendment changes, or not together with the others.
    """
    problems = list(_unchangeable(state, plan))
    if problems:
        raise InvalidAmendment(problems)
    new = [id_ for id_ in plan.stages if id_ not in state.stages]
    changes = _changes(state, plan, WORKFLOW_FIELDS - OF_CONSENT)
    edits = {
        id_: found
        for id_, stage in plan.stages.items()
        if id_ not in new and (found := _changes(state.stages[id_], stage, OF_STAGE))
    }
    if not (changes or edits or new):
        return None
    return p.AmendmentProposed(
        kind="plan_change",
        description=f"apply the plan: {', '.join([*changes, *edits, *new])}"[:2_000],
        reason=reason,
        changes=changes,
        rewired=edits,
        insert=stage_definition(plan.stages[new[0]]) if new else None,
        place=_place(state, plan, new[0]) if new else None,
    )


def _unchangeable(state: Workflow, plan: Workflow) -> Iterator[str]:
    if plan.id != state.id:
        yield f"workflow_id: this workflow is {state.id} and stays so; found {plan.id}"
    if plan.purpose is not None and plan.purpose != state.purpose:
        yield f"purpose: it is {state.purpose!r:.200} for good; found {plan.purpose!r:.200}"
    yield from _for_people(state.extra, plan.extra, "")
    known = [id_ for id_ in state.stages if id_ in plan.stages]
    new = [id_ for id_ in plan.stages if id_ not in state.stages]
    if known != [id_ for id_ in plan.stages if id_ in state.stages]:
        yield f"stages: their order stays; expected {', '.join(known)}"
    if len(new) > 1:
        yield f"stages: expected one new stage at a time, found {', '.join(new)}"
    for id_, stage in state.stages.items():
        if id_ in plan.stages:
            yield from _for_people(stage.extra, plan.stages[id_].extra, f"{id_}.")
        elif stage.status is not Status.SKIPPED:
            yield (
                f"stages: {id_} is not in the plan, and no plan takes a stage away; `wfctl amend "
                f"propose --type stage_skip --stage {id_} --rewire --reason TEXT` takes it out"
            )


def _for_people(before: Mapping[str, Any], after: Mapping[str, Any], of: str) -> Iterator[str]:
    for name in sorted({*before, *after}):
        if _spelled(before, name) != _spelled(after, name):
            was, found = _spelled(before, name), _spelled(after, name)
            yield f"{of}{name}: no amendment changes it; it is {was}, found {found}"


def _changes(before: Any, after: Any, fields: frozenset[str]) -> dict[str, Any]:
    """Return the changes of a workflow's or a stage's fields, as an amendment has them."""
    found: dict[str, Any] = {}
    for field in sorted(fields):
        old, new = getattr(before, field), getattr(after, field)
        if field not in KEYED:
            if _spelled({"": old}, "") != _spelled({"": new}, ""):
                found[field] = {"new": new}
            continue
        keys = [key for key in {**old, **new} if _spelled(old, key) != _spelled(new, key)]
        if field == "session_config":
            keys = [key for key in keys if key not in OPERATIONAL]
        if keys:
            found[field] = {key: {"new": new[key]} if key in new else {} for key in keys}
    return found


def _place(state: Workflow, plan: Workflow, id_: str) -> int:
    """Return the place of a new stage: behind the stage that stands before it in the plan."""
    order, planned = list(state.stages), list(plan.stages)
    before = planned[: planned.index(id_)]
    return order.index(before[-1]) + 1 if before else 0


def _spelled(values: Mapping[str, Any], key: str) -> str:
    """Spell a value so that only the same is spelled so; JSON tells 1 from true."""
    if key not in values:
        return "not there"
    return json.dumps(values[key], sort_keys=True, ensure_ascii=False)
