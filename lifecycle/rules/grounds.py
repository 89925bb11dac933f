"""The grounds of a result: its definition, inputs and approved amendments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from lifecycle.payload import models as p
from lifecycle.state.workflow import Amendment, Stage, Workflow

_HEX_DIGITS = 64


def build_result_grounds(state: Workflow, stage: Stage) -> p.RestsOn:
    """Return the grounds of a stage's current result: the digests on which it rests.

    Approvals that are part of the current decision have no hash yet and are omitted.
    """
    source = stage.source
    record = ((source.tasks or {}).get("record") or {}) if source is not None else {}
    loop = state.loops.get(state.loop_of(stage.id) or "")
    return p.RestsOn(
        attempt=_hash_if_recorded(source.event) if source is not None else None,
        definition=sha256(canonical_definition_json(stage)).hexdigest(),
        tasks=record.get("sha256"),
        round=loop.round.number if loop is not None else None,
        approvals={
            one.id: one.approval
            for one in _find_approved_amendments(state, stage)
            if _hash_if_recorded(one.approval)
        },
    )


def stage_definition(stage: Stage) -> dict[str, Any]:
    """Return the definition of a stage as it would appear in a plan."""
    fields = ("id", "name", "depends_on", "backend", "inputs", "outputs", "parameters")
    return {f: getattr(stage, f) for f in (*fields, "success_criteria")}


def canonical_definition_json(stage: Stage) -> bytes:
    """Return the definition of a stage as canonical JSON (sorted keys, no spaces) for hashing."""
    said = stage_definition(stage)
    text = json.dumps(said, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogateescape")


def _find_approved_amendments(state: Workflow, stage: Stage) -> Iterator[Amendment]:
    """Yield the approved plan and all approved amendments that affected the stage."""
    for one in state.amendments.values():
        inserted = (one.insert or {}).get("id") == stage.id
        names_it = one.stage is None or stage.id in (*one.targets, *one.rewired) or inserted
        if one.status == "approved" and one.record is None and names_it:
            yield one


def _hash_if_recorded(hash_: str) -> str | None:
    """Return the hash of an event, or None if it is only a placeholder for a new event."""
    return hash_ if len(hash_) == _HEX_DIGITS else None
