"""Hand edits of what only an amendment may change, which nobody has decided on yet."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lifecycle.rules.amendable import OPERATIONAL, WORKFLOW_FIELDS
from lifecycle.words.document import DEFINITIONAL
from projections.files import state_document
from service.files.foreign_changes import Foreign, ForeignChanges
from service.files.workflow_files import STATE

if TYPE_CHECKING:
    from lifecycle.state.workflow import Workflow
    from projections.files.document_diff import FieldDifference
    from service.reading.log import WorkflowLog
    from service.root.root import Root

#: Characters of a value that are shown.
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Edit:
    """A field as the log has it and as somebody wrote it; ``stage`` has it, if any."""

    field: str
    old: Any
    new: Any
    stage: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {key: value for key, value in asdict(self).items() if key != "stage"}

    def __str__(self) -> str:
        return f"{self.field}: {_shown(self.old)} -> {_shown(self.new)}"


def undecided(root: Root, log: WorkflowLog, state: Workflow) -> list[Edit]:
    """Return the definitional fields that were edited by hand, and that the log has not come to."""
    changes = ForeignChanges(root, log)
    now = state_document.document(state)
    found: dict[str, Edit] = {}
    for change in changes.waiting(STATE):
        for difference in _definitional(changes, change):
            if not _is_so(now, difference):
                name = difference.name
                found[name] = Edit(name, difference.old, difference.new, difference.stage)
    return list(found.values())


def _definitional(changes: ForeignChanges, change: Foreign) -> list[FieldDifference]:
    if change.found is None or change.kind == "unreadable":
        return []
    return [one for one in changes.differences(change) if _is_definitional(one)]


def _is_definitional(difference: FieldDifference) -> bool:
    if difference.kind == "order":
        return False
    if difference.stage is not None:
        return not difference.path or difference.path[0] in DEFINITIONAL
    first, *keys = difference.path or ("",)
    if first == "session_config" and keys and keys[0] in OPERATIONAL:
        return False
    return first in WORKFLOW_FIELDS


def _is_so(now: dict[str, Any], difference: FieldDifference) -> bool:
    """Whether the log has come to say the same since."""
    value: Any = now
    if difference.stage is not None:
        entries = (entry for entry in now["stages"] if entry["id"] == difference.stage)
        value = next(entries, None)
    for step in difference.path:
        value = value.get(step) if isinstance(value, dict) else None
    return json.dumps(value) == json.dumps(difference.new)


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:_SHOWN]
