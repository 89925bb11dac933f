"""Machines that other programs left: how their files are read, and what they amount to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from eventstore.chain import canonical
from eventstore.private import read_regular
from lifecycle.machines.definition import CANCELLED, Definition
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Document
from lifecycle.machines.payload import MachineImported
from lifecycle.machines.shape import misfits
from lifecycle.words.document import layout_of
from lifecycle.words.values import problem
from projections.machines.documents import LOOP, OWN
from projections.words.text import passed
from service.errors import NotFound
from service.machines.completing import limited, shipped
from service.machines.errors import UnimportableMachine
from service.machines.files import metadata_lock
from service.machines.writers import ALIASES, CHECKPOINTS, log_time

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
        """Return the name of the definition that is meant; ``usual`` if nobody says.

        What a person said with ``--map`` is meant, and reported. A name of no meaning is noted as
        unknown: with one of those nothing is taken over.
        """
        if isinstance(found, str) and found in known:
            return found
        meant = self.said.meant.get(found) if isinstance(found, str) else None
        if meant is not None and meant in known:
            self.say("mapped", place, found, f"taken for {meant}, as --map says")
            return meant
        self.unknown.append({"place": place, "found": found, "nearest": _nearest(found, known)})
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
        """Return a time as it was written; an invalid or future one is reported."""
        if value is not None and not isinstance(value, str):
            self.say("impossible_time", place, value, "expected a time as text")
            return None
        ago = passed(value, self.said.now) if value else 0
        if ago is None or ago < 0:
            why = "expected a time" if ago is None else "it is yet to come"
            self.say("impossible_time", place, value, why)
        return str(value) if value is not None else None

    def in_order(self, place: str, first: str | None, then: str | None) -> None:
        """Report an end that lies before its beginning."""
        before, after = log_time(first), log_time(then)
        if before is not None and after is not None and after < before:
            self.say("impossible_time", place, then, f"it is before the beginning, {first}")


def _nearest(found: Any, known: Sequence[str]) -> str | None:
    """Return the name that is most like what was found, None if none is."""
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
        f"nothing was taken over, as the definition does not have these names:\n{lines}\n"
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


def _visit(phase: str, entered: str, status: str | None, **more: Any) -> Document:
    known = dict.fromkeys(("started_at", "completed_at", "updated_at", "left_at"))
    return {"phase": phase, "entered_at": entered, "status": status, **known, "data": {}, **more}


# A conductor track.

_START = "PLAN"
#: What the protocol's own writers call a step.
_ALIASES = {**ALIASES, "NOT_STARTED": _START}
_TIMES = ("started_at", "completed_at", "last_updated")
_REQUIRED = ("status", "started_at", "agent", "last_updated")
#: Fields that the protocol's own writers write beside the loop.
_KNOWN = (
    *("version", "track_id", "name", "type", "status", "blockers", OWN, "created_at"),
    *("updated_at", "superpower_enhanced", "enrich", "business_sync_required"),
    *("description", "priority", "depends_on", "sprint_order"),
)


def _track(path: Path, source: Document, _: Document, said: Sayings) -> Takeover:
    """Its folder names a track, if it lies where tracks do; unknown fields are kept."""
    folder, named = path.resolve().parent.name, source.get("track_id")
    id_ = folder if is_track(path) else str(named or folder)
    known = limited(said.definition or shipped("conductor"), root_of(path))
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
    count = loop.get("fix_cycle_count", 0)
    limit = found.definition.limit_of(LOOP, found.document)
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= limit:
        found.say("unexpected_value", f"{OWN}.fix_cycle_count", count, f"expected 0 to {limit}")
        count = limit if isinstance(count, int) and count > limit else 0
    if count:
        found.counts[LOOP] = count
    _steps(found, loop)
    for key in (key for key in source if key not in _KNOWN):
        found.say("unknown_field", key, None, "kept as found")
    blockers = source.get("blockers")
    if isinstance(blockers, list) and any(isinstance(one, str) for one in blockers):
        found.say("unexpected_value", "blockers", None, "blockers as text; kept as found")
    return found


def _steps(found: Takeover, loop: Document) -> None:
    checkpoints = loop.get(CHECKPOINTS)
    if not isinstance(checkpoints, dict):
        found.say("missing", f"{OWN}.{CHECKPOINTS}", checkpoints, "no checkpoints")
        checkpoints = {}
    begun = found.time(f"{OWN}.step_started_at", loop.get("step_started_at"))
    for step, checkpoint in checkpoints.items():
        place = f"{OWN}.{CHECKPOINTS}.{step}"
        if step not in found.definition.phases:
            found.say("unknown_step", place, None, "kept as found")
        elif not isinstance(checkpoint, dict):
            found.say("unexpected_value", place, checkpoint, "expected an object; kept as found")
        else:
            _step(found, place, step, checkpoint, begun)
    if all(one["phase"] != found.phase for one in found.visits):
        entered = begun or found.created or ""
        found.visits.append(_visit(found.phase, entered, found.status, started_at=begun))


def _step(found: Takeover, place: str, step: str, checkpoint: Document, begun: str | None) -> None:
    for name in _REQUIRED:
        if checkpoint.get(name) is None:
            found.say("missing", f"{place}.{name}", None, "a checkpoint should have it")
    started, completed, updated = (
        found.time(f"{place}.{name}", checkpoint.get(name)) for name in _TIMES
    )
    found.in_order(f"{place}.completed_at", started, completed)
    data = {k: v for k, v in checkpoint.items() if k not in (*_TIMES, "status")}
    times = {"started_at": started, "completed_at": completed, "updated_at": updated}
    status = found.status_at(f"{place}.status", checkpoint.get("status"))
    entered = started or begun or found.created or ""
    found.visits.append(_visit(step, entered, status, **times, data=data))


# Phased development (dotagent): two files.

_OWN = (
    *("workflow_id", "started_at", "last_updated", "current_phase", "phase_status"),
    *("completed_phases", "user_checkpoints", "interruption_safe"),
)


def _phased(path: Path, source: Document, execution: Document, said: Sayings) -> Takeover:
    known = said.definition or shipped("dotagent")
    found = Takeover(str(source.get("workflow_id") or _name(path)), known, known.initial, said)
    found.place("current_phase", source.get("current_phase"), {})
    found.status = found.status_at("phase_status", source.get("phase_status"))
    if source.get("interruption_safe") is not True:
        value = source.get("interruption_safe")
        found.say("not_whole", "interruption_safe", value, "the file says that it was not whole")
    found.created = found.time("started_at", source.get("started_at"))
    rest = {key: value for key, value in execution.items() if key != "tasks"}
    found.document = {
        **{key: value for key, value in source.items() if key not in _OWN},
        **({"execution": rest} if rest else {}),
        "tasks": execution.get("tasks") or [],
    }
    found.see_fields({"execution"})
    _phases(found, source)
    return found


def _phases(found: Takeover, source: Document) -> None:
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
        found.visits.append(_visit(done["phase"], entered, "complete", **times, data=data))
        entered = at
    last = found.time("last_updated", source.get("last_updated"))
    started = entered if found.status != "pending" else None
    now = _visit(found.phase, entered, found.status, started_at=started, updated_at=last)
    found.visits.append(now)
    found.given = [
        {"phase": str(one.get("phase")), "at": str(one.get("approved_at") or "")}
        for one in _objects(found, source, "user_checkpoints")
    ]


def _name(path: Path) -> str:
    return path.name.removesuffix(".json").removesuffix(".state")


def _objects(found: Takeover, source: Document, key: str) -> list[Document]:
    listed = source.get(key) or []
    items = listed if isinstance(listed, list) else [listed]
    for item in items:
        if not isinstance(item, dict):
            found.say("unexpected_value", key, item, "expected an object; left out")
    return [item for item in items if isinstance(item, dict)]


# A feature, a bug and the like (exarchos): one file.

_TYPES = ("feature", "debug", "refactor", "oneshot")
_EXARCHOS_OWN = ("version", "featureId", "workflowType", "createdAt", "updatedAt", "phase")


def _feature(path: Path, source: Document, _: Document, said: Sayings) -> Takeover:
    type_ = source.get("workflowType")
    usual = type_ if type_ in _TYPES else _TYPES[0]
    known = said.definition or shipped(said.meant.get(str(type_), usual))
    found = Takeover(str(source.get("featureId") or _name(path)), known, known.initial, said)
    if said.definition is None:
        found.name("workflowType", type_, _TYPES, _TYPES[0])
    found.place("phase", source.get("phase"), {CANCELLED: CANCELLED})
    found.document = {key: value for key, value in source.items() if key not in _EXARCHOS_OWN}
    found.created = found.time("createdAt", source.get("createdAt"))
    found.see_fields({key for key in found.document if key.startswith("_")})
    entered = found.time("updatedAt", source.get("updatedAt")) or found.created or ""
    found.visits = [_visit(found.phase, entered, None)]
    return found


_PHASE, _EXECUTION, _METADATA = "phase.json", "execution.json", "metadata.json"
_STATE = ".state.json"


def files_of(path: Path) -> list[Path]:
    """Return the files to be read: of a folder those that it holds, with their siblings.

    Raises `NotFound` if it does not exist.
    """
    if path.is_dir():
        for name in (_PHASE, f"memory/state/{_PHASE}", _METADATA):
            if (path / name).is_file():
                return files_of(path / name)
        states = sorted(path.glob(f"*{_STATE}"))
        if len(states) == 1:
            return states
        raise NotFound(f"{path}: expected {_PHASE}, {_METADATA} or one *{_STATE}; name the file")
    if not path.is_file():
        raise NotFound(f"no file {path}")
    sibling = path.with_name(_EXECUTION)
    return [path, sibling] if path.name == _PHASE and sibling.is_file() else [path]


def root_of(path: Path) -> Path:
    """Return the folder that would be the root, by where the protocols keep their files."""
    path = path.resolve()
    places = {_PHASE: ("memory", "state"), _METADATA: ("conductor", "tracks", path.parent.name)}
    folders = places.get(path.name, ())
    if folders and path.parts[-len(folders) - 1 : -1] == folders:
        return path.parents[len(folders)]
    return path.parent


def contents_of(paths: Sequence[Path], *, locked: bool) -> dict[Path, bytes]:
    """Return what the files hold; ``locked``: under the protocol's own lock, if it has one."""
    has_lock = locked and is_track(paths[0])
    with metadata_lock(paths[0].parent, lambda _: None) if has_lock else nullcontext():
        return {path: read_regular(path) for path in paths}


def is_placed(path: Path) -> bool:
    """Whether a file lies where its protocol has it, below the folder that would be the root."""
    return root_of(path) != path.resolve().parent


def is_track(path: Path) -> bool:
    """Whether a file lies where a conductor track has its own."""
    return path.name == _METADATA and is_placed(path)


def tracks_in(path: Path) -> list[Path]:
    """Return the files of all tracks of a repository, sorted; archived ones stay archived."""
    folders = (path / "conductor" / "tracks", path / "tracks", path)
    found = (sorted(one.glob(f"*/{_METADATA}")) for one in folders if one.name == "tracks")
    return next(filter(None, found), [])


def _decoded(path: Path, content: bytes) -> Document:
    """Return the JSON object of a file; raises `UnreadablePlan` with the place of the error.

    Raises `UnimportableMachine`, and `InvalidData` for values that no event can hold.
    """
    from service.documents.plan_file import decode_json

    found: Document = {}
    try:
        found = value = decode_json(str(path), content.decode("utf-8-sig"))
        unfit = "" if isinstance(value, dict) else f"a JSON object, found {json.dumps(value):.60}"
    except UnicodeDecodeError as error:
        unfit = f"UTF-8, found other bytes at byte {error.start}"
    if unfit:
        raise UnimportableMachine(f"{path}: expected {unfit}", path=str(path))
    canonical(found, str(path))
    return found


_Reader = Callable[[Path, Document, Document, Sayings], Takeover]
#: By which fields or name the first file of a protocol is known, and what reads it.
_READERS: tuple[tuple[set[str], str | None, _Reader], ...] = (
    ({"workflowType", "featureId"}, None, _feature),
    ({"current_phase"}, _PHASE, _phased),
    ({OWN, "track_id"}, _METADATA, _track),
)


def take_over(contents: Mapping[Path, bytes], said: Sayings) -> Takeover:
    """Return the machine of the files; raises `UnimportableMachine` for no known protocol."""
    path, *_ = contents
    first, *more = (_decoded(path, content) for path, content in contents.items())
    for fields, name, reader in _READERS:
        if fields & first.keys() or path.name == name:
            return reader(path, first, more[0] if more else {}, said)
    raise UnimportableMachine(
        f"{path}: expected the state of a known protocol (workflowType, current_phase or "
        f"loop_state), found the fields {', '.join(list(first)[:8]) or '(none)'}",
        path=str(path),
    )


def command_of(found: Takeover, root: Document, **policy: Any) -> MachineImported:
    """Return the event that begins the machine; raises `InvalidInput` for an unusable id."""
    from pydantic import ValidationError

    names = ("phase", "status", "document", "counts", "visits", "given", "findings", "created")
    try:
        return MachineImported(
            machine=found.id,
            definition=found.definition.dumped(),
            layout=layout_of(found.document),
            root=root,
            **{name: getattr(found, name) for name in names},
            **policy,
        )
    except ValidationError as error:
        problems = [problem(e) for e in error.errors()]
        raise InvalidInput(
            f"{found.id!r} cannot be taken over: {'; '.join(problems)}. Correct it and import "
            "again; nothing was written.",
            id=found.id,
            problems=problems,
        ) from error
