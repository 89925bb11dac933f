"""Which fields an amendment may change, and a plan taken anew as one amendment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lifecycle.errors import InvalidAmendment, StaleAmendment
from lifecycle.fold.evolve import KEYED
from lifecycle.payload import models as p
from lifecycle.rules.impact import stage_definition
from lifecycle.state.status import Status
from lifecycle.state.workflow import PLAN_CHANGE, Stage, Workflow
from lifecycle.words.mandates import MANDATES
from lifecycle.words.metrics import RESULTS
from lifecycle.words.rounds import ROUNDS

Leaf = dict[str, Any]
"""``old`` and ``new``; one that is left out was not there, or is taken away."""

#: Amendment type → the fields of a stage that it may change.
_COMPUTED_FROM = frozenset({"name", "depends_on", "inputs", "outputs", "parameters", "backend"})
_CRITERIA = frozenset({"success_criteria"})
STAGE_FIELDS: Mapping[str, frozenset[str]] = {
    # A criterion and the `verify` that checks it are one decision.
    "parameter_change": _COMPUTED_FROM | _CRITERIA,
    "criteria_change": _CRITERIA,
}
#: The fields of the workflow that a ``parameter_change`` without a stage may change.
WORKFLOW_FIELDS = frozenset(
    {
        "experiment_design",
        "workflow_plan",
        "default_backend",
        "backend_profiles",
        "session_config",
        RESULTS,
        MANDATES,
        ROUNDS,
        "consent",
        "signers",
    }
)
#: Those of them that say who agrees and how: a decision of its own.
OF_CONSENT = frozenset({"consent", "signers"})
#: The fields of a stage that an amendment may change.
OF_STAGE = _COMPUTED_FROM | {"success_criteria"}
#: Keys of ``session_config`` that sessions themselves change.
OPERATIONAL = frozenset({"session_count", "session_id", "session_cost", "exit_reason"})


def fields_of(kind: str, stage: str | None) -> frozenset[str]:
    """Return the fields that an amendment of this type may change."""
    if stage is not None:
        # A rerun with other parameters is one decision.
        return STAGE_FIELDS.get("parameter_change" if kind == "stage_rerun" else kind, frozenset())
    if kind == PLAN_CHANGE:
        return WORKFLOW_FIELDS - OF_CONSENT
    return WORKFLOW_FIELDS if kind == "parameter_change" else frozenset()


def kind_of_changes(fields: Iterable[str]) -> str:
    """Return the amendment type that may change all of these fields."""
    return "criteria_change" if set(fields) == _CRITERIA else "parameter_change"


def fields_beside(kind: str) -> frozenset[str]:
    """Return the fields of other stages that an amendment of this type may change with its own."""
    return OF_STAGE if kind == PLAN_CHANGE else frozenset({"depends_on", "inputs"})


def completed(target: Workflow | Stage, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes with every ``old`` filled in.

    Raises `StaleAmendment` where a given one does not match, `InvalidAmendment` for what is no
    change.
    """
    problems = list(misshapen(changes))
    if problems:
        raise InvalidAmendment(problems)
    found: dict[str, Any] = {}
    for field, change in changes.items():
        value = getattr(target, field)
        if field in KEYED:
            found[field] = {k: _leaf(f"{field}.{k}", value, k, leaf) for k, leaf in change.items()}
        else:
            found[field] = _leaf(field, {field: value}, field, change)
    return found


def check_fits(target: Workflow | Stage, changes: Mapping[str, Any]) -> None:
    """Raise `StaleAmendment` unless every recorded ``old`` is what the field holds."""
    for field, change in changes.items():
        value = getattr(target, field)
        leaves = change if field in KEYED else {field: change}
        there = value if field in KEYED else {field: value}
        for key, leaf in leaves.items():
            if _shown(leaf, "old") != _shown(there, key):
                place = f"{field}.{key}" if field in KEYED else field
                raise StaleAmendment(place, _shown(leaf, "old"), _shown(there, key))


def misshapen(changes: Mapping[str, Any]) -> Iterator[str]:
    """Say of each change what keeps it from being one."""
    for field, change in changes.items():
        leaves = change if field in KEYED else {"": change}
        if not isinstance(leaves, dict) or not leaves:
            yield f"{field}: expected key -> old and new, found {change!r:.60}"
            continue
        for key, leaf in leaves.items():
            if not isinstance(leaf, dict) or not set(leaf) <= {"old", "new"}:
                yield f'{field}.{key}: expected {{"old": …, "new": …}}, found {leaf!r:.60}'
            elif field not in KEYED and "new" not in leaf:
                yield f"{field}: a field is changed, never taken away"
            elif field == "session_config" and key in OPERATIONAL:
                yield f"session_config.{key} is kept by the sessions themselves"


def _leaf(place: str, there: Mapping[str, Any], key: str, leaf: Leaf) -> Leaf:
    found = _shown(there, key)
    if "old" in leaf and _shown(leaf, "old") != found:
        raise StaleAmendment(place, _shown(leaf, "old"), found)
    if _shown(leaf, "new") == found:
        raise InvalidAmendment([f"{place} is {found} already"])
    return {**({"old": there[key]} if key in there else {}), **leaf}


def _shown(values: Mapping[str, Any], key: str) -> str:
    """Spell a value so that only the same value is spelled so; JSON tells 1 from true."""
    if key not in values:
        return "not there"
    return json.dumps(values[key], sort_keys=True, ensure_ascii=False)


def changes_of(
    target: Workflow | Stage, settings: Mapping[str, Any], taken: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the changes that set dotted paths to values, and take others away.

    A path deeper than field and key changes the whole value at the key:
    ``parameters.resource_overrides.cpu`` is recorded under ``parameters.resource_overrides``.
    """
    changes: dict[str, Any] = {}
    for path, value in settings.items():
        _set(target, changes, path.split("."), value)
    for path in taken:
        field, _, key = path.partition(".")
        if field not in KEYED or not key or "." in key:
            raise InvalidAmendment([f"{path}: only a key such as parameters.x is taken away"])
        changes.setdefault(field, {})[key] = {}
    return changes


def _set(target: Workflow | Stage, changes: dict[str, Any], path: list[str], value: Any) -> None:
    field, *keys = path
    if field not in KEYED:
        if keys:
            raise InvalidAmendment([f"{'.'.join(path)}: {field} has no keys to be set"])
        changes[field] = {"new": value}
        return
    if not keys:
        raise InvalidAmendment([f"{field}: name the key that changes, such as {field}.x"])
    leaves = changes.setdefault(field, {})
    before = leaves[keys[0]]["new"] if keys[0] in leaves else getattr(target, field).get(keys[0])
    leaves[keys[0]] = {"new": _within(before, keys[1:], value)}


def _within(before: Any, keys: list[str], value: Any) -> Any:
    if not keys:
        return value
    there = before if isinstance(before, dict) else {}
    return {**there, keys[0]: _within(there.get(keys[0]), keys[1:], value)}


def replanned(state: Workflow, plan: Workflow, reason: str | None) -> p.AmendmentProposed | None:
    """Return the amendment that makes a workflow what ``plan`` says; None if it is already.

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
    # Behind the stage that stands before it in the plan.
    planned = list(plan.stages)
    before = planned[: planned.index(new[0])] if new else []
    place = list(state.stages).index(before[-1]) + 1 if before else 0 if new else None
    return p.AmendmentProposed(
        kind="plan_change",
        description=f"apply the plan: {', '.join([*changes, *edits, *new])}"[:2_000],
        reason=reason,
        changes=changes,
        rewired=edits,
        insert=stage_definition(plan.stages[new[0]]) if new else None,
        place=place,
    )


def _unchangeable(state: Workflow, plan: Workflow) -> Iterator[str]:
    if plan.id != state.id:
        yield f"workflow_id: this workflow is {state.id} and stays so; found {plan.id}"
    if plan.purpose is not None and plan.purpose != state.purpose:
        yield f"purpose: it is {state.purpose!r:.200} for good; found {plan.purpose!r:.200}"
    before, after = (
        {
            name: value
            for name, value in one.extra.items()
            if name not in (RESULTS, MANDATES, ROUNDS)
        }
        for one in (state, plan)
    )
    yield from _for_people(before, after, "")
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
        was, found = _shown(before, name), _shown(after, name)
        if was != found:
            yield f"{of}{name}: no amendment changes it; it is {was}, found {found}"


def _changes(before: Any, after: Any, fields: frozenset[str]) -> dict[str, Any]:
    """Return the changes of a workflow's or a stage's fields, as an amendment has them."""
    found: dict[str, Any] = {}
    for field in sorted(fields):
        old, new = getattr(before, field), getattr(after, field)
        if field not in KEYED:
            if _shown({"": old}, "") != _shown({"": new}, ""):
                found[field] = {"new": new}
            continue
        keys = [key for key in {**old, **new} if _shown(old, key) != _shown(new, key)]
        if field == "session_config":
            keys = [key for key in keys if key not in OPERATIONAL]
        if keys:
            found[field] = {key: {"new": new[key]} if key in new else {} for key in keys}
    return found
