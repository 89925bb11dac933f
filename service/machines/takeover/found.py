"""What an import works on: the documents, the findings, the state that they amount to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from lifecycle.machines.definition import Definition
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Document
from lifecycle.machines.shape import misfits
from projections.words.text import passed
from service.machines.writers.walk import log_time

#: How much the kinds of findings weigh, the heaviest first.
WEIGHT = (
    *("track_id", "mapped", "not_whole", "missing", "impossible_time", "unexpected_value"),
    *("unknown_phase", "unknown_step", "unknown_field"),
)
#: So many places of one kind are named.
_NAMED = 8


@dataclass(frozen=True, slots=True)
class Sayings:
    """What a person said for an import: which name means which, and where the machine is."""

    meant: Mapping[str, str] = field(default_factory=dict)
    at: str | None = None
    definition: Definition | None = None
    now: str = "9999-12-31T00:00:00.000000Z"


@dataclass(slots=True)
class Takeover:
    """A machine as its files give it; ``findings`` are kept with it."""

    id: str
    definition: Definition
    phase: str
    said: Sayings = field(default_factory=Sayings)
    status: str | None = None
    document: Document = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    visits: list[Document] = field(default_factory=list)
    given: list[Document] = field(default_factory=list)
    created: str | None = None
    findings: list[Document] = field(default_factory=list)
    #: Names that nobody knows the meaning of: place, found, nearest.
    unknown: list[Document] = field(default_factory=list)

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

    def name(self, place: str, found: Any, known: Sequence[str], usual: str) -> str:
        """Return the name of the definition that is meant; ``usual`` where nobody says.

        What a person said with ``--map`` is meant, and reported. A name of no meaning is noted as
        unknown: with one of those nothing is taken over.
        """
        if isinstance(found, str) and found in known:
            return found
        meant = self.said.meant.get(found) if isinstance(found, str) else None
        if meant in known and meant is not None:
            self.say("mapped", place, found, f"taken for {meant}, as --map says")
            return meant
        self.unknown.append({"place": place, "found": found, "nearest": nearest(found, known)})
        return usual

    def place(self, where: str, found: Any, aliases: Mapping[str, str]) -> None:
        """See in which phase the machine is: by ``--at``, else by what the file names."""
        known = [name for name in self.definition.phases if name != "BLOCKED"]
        if self.said.at is not None:
            if self.said.at not in known:
                raise InvalidInput(
                    f"--at {self.said.at}: expected one of {', '.join(known)}", known=known
                )
            self.phase = self.said.at
            self.say("mapped", where, found, f"at {self.phase}, as --at says")
        elif found is None:
            self.say("missing", where, found, f"taken for {self.phase}")
        else:
            alias = aliases.get(found) if isinstance(found, str) else None
            self.phase = alias or self.name(where, found, known, self.phase)

    def time(self, place: str, value: Any) -> str | None:
        """Return a time as it was written; what is none, or is yet to come, is reported."""
        if value is not None and not isinstance(value, str):
            self.say("impossible_time", place, value, "expected a time as text")
            return None
        ago = passed(value, self.said.now) if value else 0
        if ago is None:
            self.say("impossible_time", place, value, "expected a time")
        elif ago < 0:
            self.say("impossible_time", place, value, "it is yet to come")
        return str(value) if value is not None else None

    def in_order(self, place: str, first: str | None, then: str | None) -> None:
        """Report an end that lies before its beginning."""
        before, after = log_time(first), log_time(then)
        if before is not None and after is not None and after < before:
            self.say("impossible_time", place, then, f"it is before the beginning, {first}")


def nearest(found: Any, known: Sequence[str]) -> str | None:
    """Return the name that is most like what was found, None where none is."""
    folded = {name.replace("_", "").lower(): name for name in known}
    wanted = str(found).replace("_", "").replace("-", "").lower()
    close = get_close_matches(wanted, folded, n=1, cutoff=0.5)
    within = [name for bare, name in folded.items() if bare in wanted or wanted in bare]
    return folded[close[0]] if close else (within[0] if within and wanted else None)


def require_known(takeovers: Sequence[Takeover]) -> None:
    """Raise `InvalidInput` with every name that nobody knows the meaning of, and the nearest."""
    listed = [{"machine": one.id, **what} for one in takeovers for what in one.unknown]
    if not listed:
        return
    lines = "\n".join(
        f"  - {one['machine']}: {one['place']} is {one['found']!r:.60}"
        + (f"; is {one['nearest']} meant?" if one["nearest"] else "")
        for one in listed
    )
    first = listed[0]
    raise InvalidInput(
        f"nothing was taken over, as these names are none of the definition's:\n{lines}\n"
        f"Say what each means (--map {first['found']!s:.40}={first['nearest'] or 'NAME'}), where "
        "the machine is (--at PHASE), or give its own definition (--definition FILE).",
        unknown=listed,
    )


def folded(findings: Sequence[Document]) -> list[Document]:
    """Return findings by kind, the heaviest first: how many, where, and what is said of the first.

    Every one is in the ``machine.imported`` event.
    """
    kinds = dict.fromkeys((*WEIGHT, *(one["kind"] for one in findings)))
    found = [[one for one in findings if one["kind"] == kind] for kind in kinds]
    return [
        {
            "kind": same[0]["kind"],
            "count": len(same),
            "places": [one["place"] for one in same[:_NAMED]],
            "message": same[0]["message"],
        }
        for same in found
        if same
    ]


def told(findings: Sequence[Document]) -> list[str]:
    """Return findings for people, a line a kind."""
    lines = []
    for one in folded(findings):
        more = f" and {one['count'] - _NAMED} more" if one["count"] > _NAMED else ""
        lines.append(f"{one['kind']}: {', '.join(one['places'])}{more} ({one['message']})")
    return lines


def visit(phase: str, entered: str, status: str | None, **more: Any) -> Document:
    """Return a stay in a phase, as an import records it."""
    known = dict.fromkeys(("started_at", "completed_at", "updated_at", "left_at"))
    return {"phase": phase, "entered_at": entered, "status": status, **known, "data": {}, **more}
