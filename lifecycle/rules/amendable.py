"""The fields that an amendment may change, and conversion of an edited plan to an amendment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lifecycle.errors import InvalidAmendment, StaleAmendment
from lifecycle.fold.evolve import KEYED
from lifecycle.payload import models as p
from lifecycle.rules.grounds import stage_definition
from lifecycle.state.status import Status
from lifecycle.state.workflow import PLAN_CHANGE, Stage, Workflow
from lifecycle.words.mandates import MANDATES
from lifecycle.words.metrics import RESULTS
from lifecycle.words.plan_parameters import PLAN_PARAMETERS, list_used_names
from lifecycle.words.rounds import ROUNDS

Leaf = dict[str, Any]
"""``old`` and ``new``. Without ``old`` the key is new; without ``new`` the key is removed."""

#: The fields of a stage that an amendment may change, by type of amendment.
_COMPUTED_FROM = frozenset({"name", "depends_on", "inputs", "outputs", "parameters", "backend"})
_CRITERIA = frozenset({"success_criteria"})
STAGE_FIELDS: Mapping[str, frozenset[str]] = {
    # A change of a success criterion often needs a change of the verify command. One amendment may
    # change both.
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
        PLAN_PARAMETERS,
        "consent",
        "signers",
    }
)
#: Workflow fields that define who approves changes, and how. Changing them needs a separate
#: amendment.
CONSENT_FIELDS = frozenset({"consent", "signers"})
#: The fields of a stage that an amendment may change.
AMENDABLE_STAGE_FIELDS = _COMPUTED_FROM | {"success_criteria"}
#: Keys of ``session_config`` that wfctl sets in each session. Amendments cannot change them.
SESSION_SET_KEYS = frozenset({"session_count", "session_id", "session_cost", "exit_reason"})


def changeable_fields(kind: str, stage: str | None) -> frozenset[str]:
    """Return the fields that an amendment of the given type may change.

    These are fields of the stage or, without a stage, fields of the workflow.
    """
    if stage is not None:
        # A rerun may also change parameters, so that a person approves both in one decision.
        return STAGE_FIELDS.get("parameter_change" if kind == "stage_rerun" else kind, frozenset())
    if kind == PLAN_CHANGE:
        return WORKFLOW_FIELDS - CONSENT_FIELDS
    return WORKFLOW_FIELDS if kind == "parameter_change" else frozenset()


def required_amendment_type(fields: Iterable[str]) -> str:
    """Return the amendment type that is needed to change all of the given fields."""
    return "criteria_change" if set(fields) == _CRITERIA else "parameter_change"


def changeable_fields_of_other_stages(kind: str) -> frozenset[str]:
    """Return the fields that this type of amendment may change in stages other than its own."""
    return AMENDABLE_STAGE_FIELDS if kind == PLAN_CHANGE else frozenset({"depends_on", "inputs"})


def fill_in_old_values(target: Workflow | Stage, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes with the current value of each field filled in as ``old``.

    Raises `StaleAmendment` if a given ``old`` value differs from the field's value, and
    `InvalidAmendment` if a change is malformed or changes nothing.
    """
    problems = list(find_malformed_changes(changes))
    if problems:
        raise InvalidAmendment(problems)
    found: dict[str, Any] = {}
    for field, change in changes.items():
        value = _read_field(target, field)
        if field in KEYED:
            found[field] = {
                k: _fill_in_old_value(f"{field}.{k}", value, k, leaf) for k, leaf in change.items()
            }
        else:
            found[field] = _fill_in_old_value(field, {field: value}, field, change)
    return found


def _read_field(target: Workflow | Stage, field: str) -> Any:
    """Return the value of a field. The parameters of a stage are without those of the plan."""
    value = getattr(target, field)
    if field != "parameters" or not isinstance(target, Stage):
        return value
    used = {*list_used_names(value)}
    return {name: one for name, one in value.items() if name not in used}


def check_old_values(target: Workflow | Stage, changes: Mapping[str, Any]) -> None:
    """Raise `StaleAmendment` unless every recorded ``old`` value equals the field's value."""
    for field, change in changes.items():
        value = _read_field(target, field)
        leaves = change if field in KEYED else {field: change}
        there = value if field in KEYED else {field: value}
        for key, leaf in leaves.items():
            if _render_value(leaf, "old") != _render_value(there, key):
                place = f"{field}.{key}" if field in KEYED else field
                raise StaleAmendment(place, _render_value(leaf, "old"), _render_value(there, key))


def find_malformed_changes(changes: Mapping[str, Any]) -> Iterator[str]:
    """Yield a problem for each malformed change."""
    for field, change in changes.items():
        leaves = change if field in KEYED else {"": change}
        if not isinstance(leaves, dict) or not leaves:
            yield f"{field}: expected key -> old and new, found {change!r:.60}"
            continue
        for key, leaf in leaves.items():
            if not isinstance(leaf, dict) or not set(leaf) <= {"old", "new"}:
                yield f'{field}.{key}: expected {{"old": …, "new": …}}, found {leaf!r:.60}'
            elif field not in KEYED and "new" not in leaf:
                yield f"{field}: a field can change, but not be removed"
            elif field == "session_config" and key in SESSION_SET_KEYS:
                yield (
                    f"session_config.{key} cannot be changed by an amendment, because wfctl "
                    "sets this value in each session"
                )


def _fill_in_old_value(place: str, there: Mapping[str, Any], key: str, leaf: Leaf) -> Leaf:
    """Return the change of one key with its ``old`` value filled in.

    Raises the errors of `fill_in_old_values`.
    """
    found = _render_value(there, key)
    if "old" in leaf and _render_value(leaf, "old") != found:
        raise StaleAmendment(place, _render_value(leaf, "old"), found)
    if _render_value(leaf, "new") == found:
        raise InvalidAmendment([f"{place} already has the value {found}"])
    return {**({"old": there[key]} if key in there else {}), **leaf}


def _render_value(values: Mapping[str, Any], key: str) -> str:
    """Return a value as JSON text for comparison, or "not there" if the key is missing.

    JSON is used because Python treats 1 and True as equal.
    """
    if key not in values:
        return "not there"
    return json.dumps(values[key], sort_keys=True, ensure_ascii=False)


def build_changes_from_paths(
    target: Workflow | Stage, settings: Mapping[str, Any], taken: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the changes that set dotted paths to values and remove the paths in ``taken``.

    A path with more than two parts changes the whole value of the second part: a change of
    ``parameters.resource_overrides.cpu`` is recorded under ``parameters.resource_overrides``.
    Raises `InvalidAmendment` if the target does not have the path.
    """
    if isinstance(target, Stage):
        _check_no_workflow_only_field((*settings, *taken))
    changes: dict[str, Any] = {}
    for path, value in settings.items():
        _add_change(target, changes, path.split("."), value)
    for path in taken:
        field, _, key = path.partition(".")
        if field not in KEYED or not key or "." in key:
            raise InvalidAmendment([f"{path}: only a key such as parameters.x can be removed"])
        changes.setdefault(field, {})[key] = {}
    return changes


def _explain_unsettable_path(target: Workflow | Stage, path: list[str]) -> str:
    """Return the reason why a path cannot be set.

    If the path starts with a stage, give the correct spelling.
    """
    stages = target.stages if isinstance(target, Workflow) else {}
    names = path[1:] if path[0] == "stages" else path
    if names and names[0] in stages:
        rest = ".".join(names[1:]) or "parameters.x"
        return f"name the stage by its own option: --stage {names[0]} --set {rest}=VALUE"
    return (
        f"{path[0]} has no keys that can be changed; expected a key of "
        f"{', '.join(sorted(KEYED))}, or a field without a key"
    )


def _check_no_workflow_only_field(paths: Iterable[str]) -> None:
    """Raise `InvalidAmendment` if a path names a field that only a workflow has."""
    of_workflow = WORKFLOW_FIELDS - AMENDABLE_STAGE_FIELDS
    problems = [
        f"{path}: this field belongs to the workflow, not to a stage; leave --stage out"
        for path in paths
        if path.partition(".")[0] in of_workflow
    ]
    if problems:
        raise InvalidAmendment(problems)


def _add_change(
    target: Workflow | Stage, changes: dict[str, Any], path: list[str], value: Any
) -> None:
    """Add the change of one value, named by a path, to ``changes``.

    Raises `InvalidAmendment` if the path cannot be changed.
    """
    field, *keys = path
    if field not in KEYED:
        if keys:
            raise InvalidAmendment([f"{'.'.join(path)}: {_explain_unsettable_path(target, path)}"])
        changes[field] = {"new": value}
        return
    if not keys:
        raise InvalidAmendment([f"{field}: name the key to change, such as {field}.x"])
    leaves = changes.setdefault(field, {})
    before = (
        leaves[keys[0]]["new"] if keys[0] in leaves else _read_field(target, field).get(keys[0])
    )
    leaves[keys[0]] = {"new": _replace_nested_value(before, keys[1:], value)}


def _replace_nested_value(before: Any, keys: list[str], value: Any) -> Any:
    """Return a copy of the object ``before`` with the value at the nested keys replaced."""
    if not keys:
        return value
    there = before if isinstance(before, dict) else {}
    return {**there, keys[0]: _replace_nested_value(there.get(keys[0]), keys[1:], value)}


def build_plan_change(
    state: Workflow, plan: Workflow, reason: str | None
) -> p.AmendmentProposed | None:
    """Return the amendment that applies an edited plan, or None if nothing differs.

    ``plan`` is the initial state of a workflow with the edited plan. Raises `InvalidAmendment` with
    every difference that an amendment cannot make.
    """
    problems = list(_find_unchangeable_differences(state, plan))
    if problems:
        raise InvalidAmendment(problems)
    new = [id_ for id_ in plan.stages if id_ not in state.stages]
    changes = _compute_changes(state, plan, WORKFLOW_FIELDS - CONSENT_FIELDS)
    edits = {
        id_: found
        for id_, stage in plan.stages.items()
        if id_ not in new
        and (found := _compute_changes(state.stages[id_], stage, AMENDABLE_STAGE_FIELDS))
    }
    if not (changes or edits or new):
        return None
    # The new stage gets the position after its predecessor in the edited plan.
    planned = list(plan.stages)
    before = planned[: planned.index(new[0])] if new else []
    place = list(state.stages).index(before[-1]) + 1 if before else 0 if new else None
    return p.AmendmentProposed(
        kind="plan_change",
        description=f"apply the plan: {', '.join([*changes, *edits, *new])}"[:2_000],
        reason=reason,
        changes=changes,
        rewired=edits,
        insert=_build_inserted_stage(plan.stages[new[0]]) if new else None,
        place=place,
    )


def _build_inserted_stage(stage: Stage) -> dict[str, Any]:
    return {**stage_definition(stage), "parameters": _read_field(stage, "parameters")}


def _find_unchangeable_differences(state: Workflow, plan: Workflow) -> Iterator[str]:
    """Yield each difference between an edited plan and the workflow that cannot be amended."""
    if plan.id != state.id:
        yield (
            f"workflow_id: the id of a workflow cannot change; expected {state.id}, found {plan.id}"
        )
    if plan.purpose is not None and plan.purpose != state.purpose:
        yield (
            "purpose: the purpose of a workflow cannot change; expected "
            f"{state.purpose!r:.200}, found {plan.purpose!r:.200}"
        )
    before, after = (
        {
            name: value
            for name, value in one.extra.items()
            if name not in (RESULTS, MANDATES, ROUNDS, PLAN_PARAMETERS)
        }
        for one in (state, plan)
    )
    yield from _compare_fixed_fields(before, after, "")
    known = [id_ for id_ in state.stages if id_ in plan.stages]
    new = [id_ for id_ in plan.stages if id_ not in state.stages]
    if known != [id_ for id_ in plan.stages if id_ in state.stages]:
        yield f"stages: the order of the stages cannot change; expected {', '.join(known)}"
    if len(new) > 1:
        yield f"stages: a plan can add only one stage at a time, found {', '.join(new)}"
    for id_, stage in state.stages.items():
        if id_ in plan.stages:
            yield from _compare_fixed_fields(stage.extra, plan.stages[id_].extra, f"{id_}.")
        elif stage.status is not Status.SKIPPED:
            yield (
                f"stages: {id_} is missing in the plan, but a plan cannot remove a stage. To skip "
                f"the stage, run `wfctl amend propose --type stage_skip --stage {id_} --rewire "
                "--reason TEXT`"
            )


def _compare_fixed_fields(
    before: Mapping[str, Any], after: Mapping[str, Any], of: str
) -> Iterator[str]:
    """Yield a problem for each field that differs and that no amendment can change."""
    for name in sorted({*before, *after}):
        was, found = _render_value(before, name), _render_value(after, name)
        if was != found:
            yield (
                f"{of}{name}: an amendment cannot change this field; expected {was}, found {found}"
            )


def _compute_changes(before: Any, after: Any, fields: frozenset[str]) -> dict[str, Any]:
    """Return the changes of the given fields from one workflow or stage to another."""
    found: dict[str, Any] = {}
    for field in sorted(fields):
        old, new = _read_field(before, field), _read_field(after, field)
        if field not in KEYED:
            if _render_value({"": old}, "") != _render_value({"": new}, ""):
                found[field] = {"new": new}
            continue
        keys = [key for key in {**old, **new} if _render_value(old, key) != _render_value(new, key)]
        if field == "session_config":
            keys = [key for key in keys if key not in SESSION_SET_KEYS]
        if keys:
            found[field] = {key: {"new": new[key]} if key in new else {} for key in keys}
    return found
