"""Machines that other programs left, by their protocol: what was found, and what it amounts to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from lifecycle.machines.definition import CANCELLED, Definition
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Document
from lifecycle.machines.shape import misfits
from projections.machines.documents import LOOP, OWN
from projections.words.text import passed
from service.machines.completing import limited, shipped
from service.machines.writers.conductor import ALIASES
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

    def status_at(self, place: str, status: Any) -> str:
        """Return the status that is named, the first one where none is."""
        known = self.definition.statuses
        initial = known.initial if known is not None else "pending"
        if status is None:
            self.say("missing", place, status, f"taken for {initial}")
            return initial
        return self.name(place, status, known.values if known is not None else [], initial)

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


_START = "PLAN"
#: What the protocol's own writers call a step.
_ALIASES = {**ALIASES, "NOT_STARTED": _START}
_TIMES = ("started_at", "completed_at", "last_updated")
_REQUIRED = ("status", "started_at", "agent", "last_updated")
#: Fields that the protocol's own writers write beside the loop.
_KNOWN = frozenset(
    {
        *("version", "track_id", "name", "type", "status", "blockers", OWN, "created_at"),
        *("updated_at", "superpower_enhanced", "enrich", "business_sync_required"),
        *("description", "priority", "depends_on", "sprint_order"),
    }
)


def take_over_conductor(
    source: Document, folder: str, said: Sayings, root: Path, *, is_track: bool
) -> Takeover:
    """Return the machine of a track; unknown fields are kept and reported.

    ``folder`` is the name of the file's folder: that of the track, if the file ``is_track``.
    ``root`` may have limits of its own.
    """
    named = source.get("track_id")
    id_ = folder if is_track else str(named or folder)
    known = limited(said.definition or shipped("conductor"), root)
    found = Takeover(id_, known, _START, said)
    if named is not None and named != id_:
        found.say("track_id", "track_id", named, f"the track is {id_}, as its folder says")
    loop = source.get(OWN)
    if not isinstance(loop, dict):
        found.say("missing", OWN, loop, "no loop_state; begins at PLAN")
        loop = {}
    found.document = {**source, OWN: loop}
    found.created = found.time("created_at", source.get("created_at") or source.get("created"))
    if loop or said.at is not None:
        found.place(f"{OWN}.current_step", loop.get("current_step"), _ALIASES)
    found.status = found.status_at(f"{OWN}.step_status", loop.get("step_status"))
    _count(found, loop)
    _visits(found, loop)
    _look_at_fields(found, source)
    return found


def _count(found: Takeover, loop: Document) -> None:
    count = loop.get("fix_cycle_count", 0)
    limit = found.definition.limit_of(LOOP, found.document)
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= limit:
        found.say("unexpected_value", f"{OWN}.fix_cycle_count", count, f"expected 0 to {limit}")
        count = limit if isinstance(count, int) and count > limit else 0
    if count:
        found.counts[LOOP] = count


def _visits(found: Takeover, loop: Document) -> None:
    checkpoints = loop.get("checkpoints")
    if not isinstance(checkpoints, dict):
        found.say("missing", f"{OWN}.checkpoints", checkpoints, "no checkpoints")
        checkpoints = {}
    begun = found.time(f"{OWN}.step_started_at", loop.get("step_started_at"))
    for step, checkpoint in checkpoints.items():
        place = f"{OWN}.checkpoints.{step}"
        if step not in found.definition.phases:
            found.say("unknown_step", place, None, "kept as found")
        elif not isinstance(checkpoint, dict):
            found.say("unexpected_value", place, checkpoint, "expected an object; kept as found")
        else:
            found.visits.append(_visit(found, place, step, checkpoint, begun))
    if all(one["phase"] != found.phase for one in found.visits):
        entered = begun or found.created or ""
        found.visits.append(visit(found.phase, entered, found.status, started_at=begun))


def _visit(
    found: Takeover, place: str, step: str, checkpoint: Document, begun: str | None
) -> Document:
    for name in _REQUIRED:
        if checkpoint.get(name) is None:
            found.say("missing", f"{place}.{name}", None, "a checkpoint should have it")
    times = {name: found.time(f"{place}.{name}", checkpoint.get(name)) for name in _TIMES}
    found.in_order(f"{place}.completed_at", times["started_at"], times["completed_at"])
    data = {k: v for k, v in checkpoint.items() if k not in (*_TIMES, "status")}
    return visit(
        step,
        times["started_at"] or begun or found.created or "",
        found.status_at(f"{place}.status", checkpoint.get("status")),
        started_at=times["started_at"],
        completed_at=times["completed_at"],
        updated_at=times["last_updated"],
        data=data,
    )


def _look_at_fields(found: Takeover, source: Document) -> None:
    for key in source:
        if key not in _KNOWN:
            found.say("unknown_field", key, None, "kept as found")
    blockers = source.get("blockers")
    if isinstance(blockers, list) and any(isinstance(one, str) for one in blockers):
        found.say("unexpected_value", "blockers", None, "blockers as text; kept as found")


_OWN = frozenset(
    {
        *("workflow_id", "started_at", "last_updated", "current_phase", "phase_status"),
        *("completed_phases", "user_checkpoints", "interruption_safe"),
    }
)


def take_over_dotagent(source: Document, execution: Document, id_: str, said: Sayings) -> Takeover:
    """Return the machine of the two files; ``execution`` is empty where there is none."""
    known = said.definition or shipped("dotagent")
    found = Takeover(str(source.get("workflow_id") or id_), known, known.initial, said)
    found.place("current_phase", source.get("current_phase"), {})
    found.status = found.status_at("phase_status", source.get("phase_status"))
    if source.get("interruption_safe") is not True:
        value = source.get("interruption_safe")
        found.say("not_whole", "interruption_safe", value, "the file says that it was not whole")
    found.created = found.time("started_at", source.get("started_at"))
    found.document = _document(source, execution)
    found.see_fields({"execution"})
    _dotagent_visits(found, source)
    return found


def _document(source: Document, execution: Document) -> Document:
    document = {key: value for key, value in source.items() if key not in _OWN}
    rest = {key: value for key, value in execution.items() if key != "tasks"}
    if rest:
        document["execution"] = rest
    return {**document, "tasks": execution.get("tasks") or []}


def _dotagent_visits(found: Takeover, source: Document) -> None:
    order = list(found.definition.phases)
    entered = found.created or ""
    for index, done in enumerate(_objects(found, source, "completed_phases")):
        place = f"completed_phases[{index}]"
        if done.get("phase") not in order or done.get("phase") == found.phase:
            found.say("unknown_phase", place, done.get("phase"), "left out of the phases done")
            continue
        at = found.time(f"{place}.completed_at", done.get("completed_at")) or entered
        found.in_order(f"{place}.completed_at", entered, at)
        data = {"output": done["output"]} if isinstance(done.get("output"), str) else {}
        times = {"started_at": entered, "completed_at": at, "left_at": at}
        found.visits.append(visit(done["phase"], entered, "complete", **times, data=data))
        entered = at
    last = found.time("last_updated", source.get("last_updated"))
    started = entered if found.status != "pending" else None
    now = visit(found.phase, entered, found.status, started_at=started, updated_at=last)
    found.visits.append(now)
    found.given = [
        {"phase": str(one.get("phase")), "at": str(one.get("approved_at") or "")}
        for one in _objects(found, source, "user_checkpoints")
    ]


def _objects(found: Takeover, source: Document, key: str) -> list[Document]:
    listed = source.get(key) or []
    items = listed if isinstance(listed, list) else [listed]
    for item in items:
        if not isinstance(item, dict):
            found.say("unexpected_value", key, item, "expected an object; left out")
    return [item for item in items if isinstance(item, dict)]


TYPES = ("feature", "debug", "refactor", "oneshot")
_EXARCHOS_OWN = frozenset(
    {"version", "featureId", "workflowType", "createdAt", "updatedAt", "phase"}
)


def take_over_exarchos(source: Document, id_: str, said: Sayings) -> Takeover:
    """Return the machine of a state file; unknown fields are kept and reported."""
    type_ = source.get("workflowType")
    known = said.definition or shipped(
        said.meant.get(str(type_), type_ if type_ in TYPES else TYPES[0])
    )
    found = Takeover(str(source.get("featureId") or id_), known, known.initial, said)
    if said.definition is None:
        found.name("workflowType", type_, TYPES, TYPES[0])
    found.place("phase", source.get("phase"), {CANCELLED: CANCELLED})
    found.document = {key: value for key, value in source.items() if key not in _EXARCHOS_OWN}
    found.created = found.time("createdAt", source.get("createdAt"))
    found.see_fields({key for key in found.document if key.startswith("_")})
    entered = found.time("updatedAt", source.get("updatedAt")) or found.created or ""
    found.visits = [visit(found.phase, entered, None)]
    return found
