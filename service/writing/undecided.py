"""Hand edits of what only an amendment may change, which nobody has decided on yet."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lifecycle.errors import NeedsConsent
from lifecycle.rules.amendable import OPERATIONAL, WORKFLOW_FIELDS
from lifecycle.words.document import DEFINITIONAL
from projections.files import state_document
from service.files.foreign_changes import Foreign, ForeignChanges
from service.files.workflow_files import STATE

if TYPE_CHECKING:
    from projections.files.document_diff import FieldDifference
    from service.writing.workflow_service import Service

#: Characters of a value that are shown.
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Edit:
    """A field as the log has it and as somebody wrote it into the file."""

    field: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.field}: {_shown(self.old)} -> {_shown(self.new)}"


class UndecidedEdit(NeedsConsent):
    """Nothing is dispatched over a definitional hand edit."""

    code = "undecided_edit"

    def __init__(self, edits: list[Edit]) -> None:
        listed = "".join(f"\n  {edit}" for edit in edits)
        super().__init__(
            f"{STATE} was edited by hand, and nobody has decided on it:{listed}\n"
            "Nothing is dispatched until then. `wfctl drift adopt` proposes it as an amendment, "
            "`wfctl drift revert` goes on with what the log has.",
            file=STATE,
            edits=[asdict(edit) for edit in edits],
        )


def check_edits(service: Service) -> None:
    """Raise `UndecidedEdit` where somebody edited a definition, and nobody has decided on it."""
    service.files.take_in()
    # Without one that waits nothing has to be compared.
    if service.state().drifts and (edits := _undecided(service)):
        raise UndecidedEdit(edits)


def _undecided(service: Service) -> list[Edit]:
    changes = ForeignChanges(service.root, service.log)
    now = state_document.document(service.state())
    found: dict[str, Edit] = {}
    for change in changes.waiting(STATE):
        for difference in _definitional(changes, change):
            if not _is_so(now, difference):
                name = difference.name
                found[name] = Edit(name, difference.old, difference.new)
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
