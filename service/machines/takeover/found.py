"""What an import works on: the documents, the findings, the state that they amount to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lifecycle.machines.definition import Definition
from lifecycle.machines.shape import misfits

Document = dict[str, Any]


@dataclass(slots=True)
class Takeover:
    """A machine as its files give it; ``findings`` are kept with it."""

    id: str
    definition: Definition
    phase: str
    status: str | None = None
    document: Document = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    visits: list[Document] = field(default_factory=list)
    given: list[Document] = field(default_factory=list)
    created: str | None = None
    findings: list[Document] = field(default_factory=list)

    def say(self, kind: str, place: str, found: Any, message: str) -> None:
        """Report something that the protocol does not name, or names otherwise."""
        self.findings.append({"kind": kind, "place": place, "found": found, "message": message})

    def see_fields(self, expected: set[str]) -> None:
        """Report the fields that the protocol does not name, and values of another shape."""
        for key in self.document:
            if key not in self.definition.fields and key not in expected:
                self.say("unknown_field", key, None, "kept as found")
        for misfit in misfits(self.definition.fields, self.document, ""):
            place, _, what = misfit.partition(": ")
            self.say("unexpected_value", place, None, f"{what}; kept as found")

    def time(self, place: str, value: Any) -> str | None:
        """Return a time as it was written; what is none is reported."""
        if value is None or isinstance(value, str):
            return value
        self.say("unexpected_value", place, value, "expected a time as text")
        return None


def visit(phase: str, entered: str, status: str | None, **more: Any) -> Document:
    """Return a stay in a phase, as an import records it."""
    known = dict.fromkeys(("started_at", "completed_at", "updated_at", "left_at"))
    return {"phase": phase, "entered_at": entered, "status": status, **known, "data": {}, **more}
