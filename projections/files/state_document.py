"""Render the state as ``workflow-state.json``, the document that people and agents read.

The staged-workflow protocol defines the names and order of the fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from lifecycle.fold.imported import build_imported_workflow
from lifecycle.state.workflow import Amendment, Stage, Workflow
from lifecycle.words.document import STAGE_FIELDS, collect_changes_by_field, split_pointer
from projections.words.text import escape_json_controls, truncate_utc_to_seconds

Fields = dict[str, Any]


def restore_imported_form(now: Fields, then: Fields, source: Fields) -> Fields:
    """Return the current document, with the unchanged parts in their imported form.

    ``source`` is the imported document. ``then`` is the same document in the form that wfctl
    writes. ``now`` is the current document. A part that differs between ``then`` and ``now`` was
    changed after the import.
    """
    shown = _restore_fields(now, then, source)
    if "stages" in shown:
        shown["stages"] = _restore_stages(now["stages"], then["stages"], source["stages"])
    config = source.get("session_config")
    if isinstance(config, dict):
        name = "session_config"
        shown[name] = _restore_fields(now.get(name, {}), then.get(name, {}), config)
    return shown


def _restore_stages(now: list[Fields], then: list[Fields], source: list[Fields]) -> list[Fields]:
    before = {stage["id"]: stage for stage in then}
    came = {stage["id"]: stage for stage in source}
    return [
        _restore_fields(stage, before[stage["id"]], came[stage["id"]])
        if stage["id"] in came
        else stage
        for stage in now
    ]


def _restore_fields(now: Fields, then: Fields, source: Fields) -> Fields:
    kept = {
        key: value if _is_same_value(now, then, key) else now[key]
        for key, value in source.items()
        if key in now or key not in then
    }
    added = {
        key: value
        for key, value in now.items()
        if key not in source and not _is_same_value(now, then, key)
    }
    return kept | added


def _is_same_value(now: Fields, then: Fields, key: str) -> bool:
    if (key in now) != (key in then):
        return False
    # Compare the JSON texts, because Python treats True and 1 as equal, but they differ in a file.
    return json.dumps(now.get(key)) == json.dumps(then.get(key))


def restore_number_spelling(
    text: str, source: Mapping[str, Any], spelling: Mapping[str, str]
) -> str:
    """Return a JSON document in which imported numbers have their original spelling.

    For example, ``1e3`` stays ``1e3``. ``text`` is the rendered document. ``spelling`` maps JSON
    pointers in the imported document ``source`` to the original spelling. A number that has changed
    since the import is not affected.
    """
    mark = _find_unused_mark(text)
    document = json.loads(text)
    places = {stage["id"]: str(place) for place, stage in enumerate(document["stages"])}
    for pointer, letters in spelling.items():
        keys = split_pointer(pointer)
        value = _get_at_keys(source, keys)
        keys = _find_current_keys(keys, source, places)
        holder: Any = _get_at_keys(document, keys[:-1]) if keys else None
        if (
            keys
            and _is_same(json.loads(letters), value)
            and _is_same(_get_at_keys(holder, keys[-1:]), value)
        ):
            holder[_convert_key(holder, keys[-1])] = f"{mark}{letters}"
    shown = json.dumps(document, indent=2, ensure_ascii=False)
    return re.sub(f'"{mark}([^"]*)"', r"\1", shown)


def _find_unused_mark(text: str) -> str:
    number = 0
    while (mark := f"number-{number}:") in text:
        number += 1
    return mark


def _find_current_keys(
    keys: list[str], source: Mapping[str, Any], places: Mapping[str, str]
) -> list[str]:
    """Return the keys that lead to an imported number in the current document.

    The index of a stage may have changed since the import, so the stage is found by its id. Return
    an empty list if the stage no longer exists.
    """
    if len(keys) < 2 or keys[0] != "stages":
        return keys
    place = places.get(source["stages"][int(keys[1])]["id"])
    return [] if place is None else ["stages", place, *keys[2:]]


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and json.dumps(one) == json.dumps(other)


def _get_at_keys(value: Any, keys: list[str]) -> Any:
    for key in keys:
        try:
            value = value[_convert_key(value, key)]
        except (LookupError, TypeError, ValueError):
            return None
    return value


def _convert_key(holder: Any, key: str) -> Any:
    return int(key) if isinstance(holder, list) else key


FILE_NAME = "workflow-state.json"


def render_state(state: Workflow) -> bytes:
    """Return the content of ``workflow-state.json`` as UTF-8 JSON, indented by two spaces."""
    text = json.dumps(build_document(state), indent=2, ensure_ascii=False)
    if state.source is not None and state.spelling:
        text = restore_number_spelling(text, state.source, state.spelling)
    return f"{escape_json_controls(text)}\n".encode()


def build_document(state: Workflow) -> dict[str, Any]:
    """Return the state as the document of ``workflow-state.json``.

    Optional fields without a value are omitted. Parts that were imported and have not changed keep
    their original form.
    """
    if state.source is None:
        return _build_plain_document(state)
    return restore_imported_form(
        _build_plain_document(state),
        _build_plain_document(build_imported_workflow(state.source)),
        state.source,
    )


def get_document_part(state: Workflow, name: str, default: Any = None) -> Any:
    """Return a stage or a field of the workflow, in the form that wfctl writes.

    Returns ``default`` if it does not exist. In an imported workflow, this form may differ from the
    document. It changes whenever the document changes, except when another version is imported.
    """
    if name in state.stages:
        return _build_stage(state.stages[name])
    return {**_fields_of_state(state), **state.extra}.get(name, default)


def _build_plain_document(state: Workflow) -> dict[str, Any]:
    fields = _fields_of_state(state)
    stages = [_build_stage(stage) for stage in state.stages.values()]
    return {**fields, "stages": stages, **state.extra}


def _fields_of_state(state: Workflow) -> dict[str, Any]:
    # The published file format has no field for the approval of the plan, so leave this amendment
    # out.
    every = state.amendments.values()
    changes = [one for one in every if one.status == "approved" and not one.is_plan]
    fields = {
        "workflow_id": state.id,
        "version": state.version,
        "workflow_status": state.workflow_status,
        "created": truncate_utc_to_seconds(state.created),
        "updated": truncate_utc_to_seconds(state.updated),
        "experiment_design": state.experiment_design,
        "workflow_plan": state.workflow_plan,
        "amendments": [_build_amendment(a) for a in changes],
        "session_config": _session_config(state),
        "default_backend": state.default_backend,
        "backend_profiles": state.backend_profiles,
    }
    if state.workflow_status is None:
        del fields["workflow_status"]
    if not state.session_config and state.session.count == 0:
        del fields["session_config"]
    return fields


def _session_config(state: Workflow) -> dict[str, Any]:
    session = state.session
    now = {
        "session_count": session.count,
        "session_id": truncate_utc_to_seconds(session.id),
        "session_cost": int(session.cost) if session.cost == int(session.cost) else session.cost,
        "exit_reason": session.exit_reason,
    }
    return {**state.session_config, **now}


def _build_stage(stage: Stage) -> dict[str, Any]:
    fields = {name: getattr(stage, name) for name in STAGE_FIELDS}
    fields["status"] = stage.status.value
    fields["started_at"] = truncate_utc_to_seconds(stage.started_at)
    fields["completed_at"] = truncate_utc_to_seconds(stage.completed_at)
    process = stage.running_process
    if process is not None and "launched_at" in process:
        fields["running_process"] = {
            **process,
            "launched_at": truncate_utc_to_seconds(process["launched_at"]),
        }
    if stage.checkpoint is None:
        del fields["checkpoint"]
    return {**fields, **stage.extra}


def _build_amendment(amendment: Amendment) -> dict[str, Any]:
    if amendment.record is not None:
        return amendment.record
    return {
        "id": amendment.id,
        "version": amendment.version,
        "timestamp": truncate_utc_to_seconds(amendment.decided_at),
        "type": amendment.kind,
        "stage_id": amendment.stage,
        "description": amendment.description,
        "changes": collect_amendment_changes(amendment),
        "invalidated_stages": amendment.invalidated_stages,
        "approved_by": amendment.approved_by,
    }


def collect_amendment_changes(amendment: Amendment) -> dict[str, Any]:
    """Return every change of an amendment, with its old and new value.

    Changes of other stages are in the field ``stages``.
    """
    stages: dict[str, Any] = {
        id_: collect_changes_by_field(c) for id_, c in amendment.rewired.items()
    }
    if amendment.insert is not None:
        stages[amendment.insert["id"]] = {"old": None, "new": amendment.insert}
    return {**amendment.changes, "stages": stages} if stages else amendment.changes
