"""``workflow-state.json``: the state as the document that people and agents read.

Names and order of the fields are those of the staged-workflow protocol.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from lifecycle.fold.stages import workflow_of
from lifecycle.state.workflow import Amendment, Stage, Workflow
from lifecycle.words.document import STAGE_FIELDS, keys_of, rewired_fields
from projections.words.text import utc_seconds, without_controls

Fields = dict[str, Any]


def as_it_came(now: Fields, then: Fields, source: Fields) -> Fields:
    """Return the document ``now`` in the spelling of ``source``.

    ``then`` is ``source`` as wfctl itself would have spelled it: what differs between ``then``
    and ``now`` has changed since.
    """
    shown = _fields(now, then, source)
    if "stages" in shown:
        shown["stages"] = _stages(now["stages"], then["stages"], source["stages"])
    config = source.get("session_config")
    if isinstance(config, dict):
        name = "session_config"
        shown[name] = _fields(now.get(name, {}), then.get(name, {}), config)
    return shown


def _stages(now: list[Fields], then: list[Fields], source: list[Fields]) -> list[Fields]:
    before = {stage["id"]: stage for stage in then}
    came = {stage["id"]: stage for stage in source}
    return [
        _fields(stage, before[stage["id"]], came[stage["id"]]) if stage["id"] in came else stage
        for stage in now
    ]


def _fields(now: Fields, then: Fields, source: Fields) -> Fields:
    kept = {
        key: value if _same(now, then, key) else now[key]
        for key, value in source.items()
        if key in now or key not in then
    }
    added = {
        key: value for key, value in now.items() if key not in source and not _same(now, then, key)
    }
    return kept | added


def _same(now: Fields, then: Fields, key: str) -> bool:
    if (key in now) != (key in then):
        return False
    # As text, since True equals 1 in Python and is another value in a file.
    return json.dumps(now.get(key)) == json.dumps(then.get(key))


def spelled(text: str, source: Mapping[str, Any], spelling: Mapping[str, str]) -> str:
    """Return a rendered document with those numbers of it that came in other letters in those.

    ``text`` is JSON; ``spelling`` holds each such number's letters by its pointer in ``source``.
    """
    mark = _unused(text)
    document = json.loads(text)
    places = {stage["id"]: str(place) for place, stage in enumerate(document["stages"])}
    for pointer, letters in spelling.items():
        keys = keys_of(pointer)
        value = _at(source, keys)
        keys = _moved(keys, source, places)
        holder: Any = _at(document, keys[:-1]) if keys else None
        if (
            keys
            and _is_same(json.loads(letters), value)
            and _is_same(_at(holder, keys[-1:]), value)
        ):
            holder[_key(holder, keys[-1])] = f"{mark}{letters}"
    shown = json.dumps(document, indent=2, ensure_ascii=False)
    return re.sub(f'"{mark}([^"]*)"', r"\1", shown)


def _unused(text: str) -> str:
    number = 0
    while (mark := f"number-{number}:") in text:
        number += 1
    return mark


def _moved(keys: list[str], source: Mapping[str, Any], places: Mapping[str, str]) -> list[str]:
    """Return where a number stands now: a stage keeps its id, but not its place."""
    if len(keys) < 2 or keys[0] != "stages":
        return keys
    place = places.get(source["stages"][int(keys[1])]["id"])
    return [] if place is None else ["stages", place, *keys[2:]]


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and json.dumps(one) == json.dumps(other)


def _at(value: Any, keys: list[str]) -> Any:
    for key in keys:
        try:
            value = value[_key(value, key)]
        except (LookupError, TypeError, ValueError):
            return None
    return value


def _key(holder: Any, key: str) -> Any:
    return int(key) if isinstance(holder, list) else key


FILE_NAME = "workflow-state.json"


def render(state: Workflow) -> bytes:
    """Return the file's bytes: UTF-8 JSON, 2-space indent, a newline at the end."""
    text = json.dumps(document(state), indent=2, ensure_ascii=False)
    if state.source is not None and state.spelling:
        text = spelled(text, state.source, state.spelling)
    return f"{without_controls(text)}\n".encode()


def document(state: Workflow) -> dict[str, Any]:
    """Return the document; a field without a value that is not usual then is left out.

    What was imported and has not changed since is shown as it came.
    """
    if state.source is None:
        return _document(state)
    return as_it_came(_document(state), _document(workflow_of(state.source)), state.source)


def part(state: Workflow, name: str, default: Any = None) -> Any:
    """Return the entry of a stage, or a field of the workflow, as wfctl itself spells it.

    ``default`` if it is missing. Of an import it is not what the document shows, but differs
    wherever that differs, as long as no further version is imported.
    """
    if name in state.stages:
        return _stage(state.stages[name])
    return {**_fields_of_state(state), **state.extra}.get(name, default)


def _document(state: Workflow) -> dict[str, Any]:
    fields = _fields_of_state(state)
    stages = [_stage(stage) for stage in state.stages.values()]
    return {**fields, "stages": stages, **state.extra}


def _fields_of_state(state: Workflow) -> dict[str, Any]:
    # The published file has no place for the plan's own approval.
    every = state.amendments.values()
    changes = [one for one in every if one.status == "approved" and not one.is_plan]
    fields = {
        "workflow_id": state.id,
        "version": state.version,
        "workflow_status": state.workflow_status,
        "created": utc_seconds(state.created),
        "updated": utc_seconds(state.updated),
        "experiment_design": state.experiment_design,
        "workflow_plan": state.workflow_plan,
        "amendments": [_amendment(a) for a in changes],
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
        "session_id": utc_seconds(session.id),
        "session_cost": int(session.cost) if session.cost == int(session.cost) else session.cost,
        "exit_reason": session.exit_reason,
    }
    return {**state.session_config, **now}


def _stage(stage: Stage) -> dict[str, Any]:
    fields = {name: getattr(stage, name) for name in STAGE_FIELDS}
    fields["status"] = stage.status.value
    fields["started_at"] = utc_seconds(stage.started_at)
    fields["completed_at"] = utc_seconds(stage.completed_at)
    process = stage.running_process
    if process is not None and "launched_at" in process:
        fields["running_process"] = {**process, "launched_at": utc_seconds(process["launched_at"])}
    if stage.checkpoint is None:
        del fields["checkpoint"]
    return {**fields, **stage.extra}


def _amendment(amendment: Amendment) -> dict[str, Any]:
    if amendment.record is not None:
        return amendment.record
    return {
        "id": amendment.id,
        "version": amendment.version,
        "timestamp": utc_seconds(amendment.decided_at),
        "type": amendment.kind,
        "stage_id": amendment.stage,
        "description": amendment.description,
        "changes": changes_of(amendment),
        "invalidated_stages": amendment.invalidated_stages,
        "approved_by": amendment.approved_by,
    }


def changes_of(amendment: Amendment) -> dict[str, Any]:
    """Return every change with old and new, those of other stages below ``stages``."""
    stages: dict[str, Any] = {id_: rewired_fields(c) for id_, c in amendment.rewired.items()}
    if amendment.insert is not None:
        stages[amendment.insert["id"]] = {"old": None, "new": amendment.insert}
    return {**amendment.changes, "stages": stages} if stages else amendment.changes
