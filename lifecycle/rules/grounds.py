"""What a result rests on: the attempt, the definition in force, and the approvals, by digest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from lifecycle.payload import models as p

if TYPE_CHECKING:
    from lifecycle.state.workflow import Amendment, Stage, Workflow

_HEX_DIGITS = 64


def rests_on(state: Workflow, stage: Stage) -> p.RestsOn:
    """Return what the result of a stage rests on now.

    Events that are decided together with the result have no hash yet, and are left out.
    """
    source = stage.source
    record = ((source.tasks or {}).get("record") or {}) if source is not None else {}
    return p.RestsOn(
        attempt=_recorded(source.event) if source is not None else None,
        definition=sha256(definition_text(stage)).hexdigest(),
        tasks=record.get("sha256"),
        approvals={
            one.id: one.approval for one in _agreed(state, stage) if _recorded(one.approval)
        },
    )


def stage_definition(stage: Stage) -> dict[str, Any]:
    """Return what is computed by a stage and how it is judged, as a plan has it."""
    fields = ("id", "name", "depends_on", "backend", "inputs", "outputs", "parameters")
    return {f: getattr(stage, f) for f in (*fields, "success_criteria")}


def definition_text(stage: Stage) -> bytes:
    """Return the definition of a stage as it is digested: JSON, keys sorted, no spaces."""
    said = stage_definition(stage)
    text = json.dumps(said, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogateescape")


def _agreed(state: Workflow, stage: Stage) -> Iterator[Amendment]:
    """Yield what a person agreed to of the stage: the plan, and what changed it or all stages."""
    for one in state.amendments.values():
        inserted = (one.insert or {}).get("id") == stage.id
        names_it = one.stage is None or stage.id in (*one.targets, *one.rewired) or inserted
        if one.status == "approved" and one.record is None and names_it:
            yield one


def _recorded(hash_: str) -> str | None:
    return hash_ if len(hash_) == _HEX_DIGITS else None
