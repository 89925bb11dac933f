"""Import machines from the files of other programs.

The files are read, checked, and converted to the first event of a machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from eventstore.chain import canonical_json
from eventstore.regular_files import read_regular
from extensions.machines.rules.definition import CANCELLED, Definition
from extensions.machines.rules.errors import InvalidInput
from extensions.machines.rules.field_shapes import list_misfits
from extensions.machines.rules.machine import Document
from extensions.machines.rules.path import get_value, parse_path
from extensions.machines.rules.payload import MachineImported
from extensions.machines.service.complete_command import (
    apply_repository_limit,
    load_shipped_definition,
)
from extensions.machines.service.errors import UnimportableMachine
from extensions.machines.service.files import hold_track_lock
from extensions.machines.service.import_changes import (
    ALIASES,
    CHECKPOINTS,
    STATUS_ALIASES,
    log_time,
)
from extensions.machines.service.track_plan import read_tasks
from extensions.machines.views.documents import OWN
from lifecycle.words.document import record_key_order
from lifecycle.words.validation_errors import explain_validation_error_at_path
from projections.words.text import seconds_since
from service.errors import NotFound
from wording import FirstReasons

#: Kinds of import findings, the most severe first.
WEIGHT = (
    *("track_id", "mapped", "not_whole", "missing", "impossible_time", "unexpected_value"),
    *("unknown_phase", "unknown_step", "unknown_field"),
)
#: Maximum number of places to list for one kind of finding.
_NAMED = 8


@dataclass(frozen=True, slots=True)
class ImportChoices:
    """The choices of a person for an import: translations of names, and the current phase."""

    meant: Mapping[str, str] = field(default_factory=dict)
    at: str | None = None
    definition: Definition | None = None
    now: str = "9999-12-31T00:00:00.000000Z"


@dataclass(slots=True)
class ImportedMachine:
    """A machine that was read from files, with the ``findings`` of the import."""

    id: str
    definition: Definition
    phase: str
    said: ImportChoices = field(default_factory=ImportChoices)
    status: str | None = None
    document: Document = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    visits: list[Document] = field(default_factory=list)
    given: list[Document] = field(default_factory=list)
    created: str | None = None
    findings: list[Document] = field(default_factory=list)
    #: Unknown names in the files, each with its place and the most similar known name.
    unknown: list[Document] = field(default_factory=list)
    #: Statements in the files that contradict each other, each as a sentence.
    contradictions: list[str] = field(default_factory=list)

    def contradict(self, sentence: str) -> None:
        """Record a contradiction between the files, unless ``--at`` states the phase."""
        if self.said.at is None:
            self.contradictions.append(sentence)

    def add_finding(self, kind: str, place: str, found: Any, message: str) -> None:
        """Add a finding about something in the files that the protocol does not define."""
        self.findings.append({"kind": kind, "place": place, "found": found, "message": message})

    def add_field_findings(self, expected: set[str]) -> None:
        """Add findings for fields that the protocol does not define, and for wrong values."""
        for key in self.document:
            if key not in self.definition.fields and key not in expected:
                self.add_finding("unknown_field", key, None, "unknown field; kept")
        for misfit in list_misfits(self.definition.fields, self.document, ""):
            place, _, what = misfit.partition(": ")
            self.add_finding("unexpected_value", place, None, f"{what}; kept")

    def name(self, place: str, found: Any, known: Sequence[str], usual: str) -> str:
        """Return the name in the definition for a name in the file.

        The result is ``usual`` if the file contains no name. A translation by ``--map`` is applied
        and reported. An unknown name is recorded, so that the import is refused later.
        """
        if isinstance(found, str) and found in known:
            return found
        meant = self.said.meant.get(found) if isinstance(found, str) else None
        if meant is not None and meant in known:
            self.add_finding("mapped", place, found, f"read as {meant}, as --map states")
            return meant
        self.unknown.append(
            {"place": place, "found": found, "nearest": _find_nearest_name(found, known)}
        )
        return usual

    def place(self, where: str, found: Any, aliases: Mapping[str, str]) -> None:
        """Set the phase of the machine from the option ``--at``, or else from the file."""
        known = [name for name in self.definition.phases if name != "BLOCKED"]
        if self.said.at is not None:
            if self.said.at not in known:
                raise InvalidInput(
                    f"--at {self.said.at}: expected one of {', '.join(known)}", known=known
                )
            self.phase = self.said.at
            self.add_finding("mapped", where, found, f"read as {self.phase}, as --at states")
        elif found is None:
            self.add_finding("missing", where, found, f"read as {self.phase}")
        else:
            alias = aliases.get(found) if isinstance(found, str) else None
            self.phase = alias or self.name(where, found, known, self.phase)

    def status_at(self, place: str, status: Any) -> str:
        """Return the status that the file states, or the initial status if it states none."""
        known = self.definition.statuses
        initial = known.initial if known is not None else "pending"
        if status is None:
            self.add_finding("missing", place, status, f"read as {initial}")
            return initial
        named = known.values if known is not None else []
        alias = STATUS_ALIASES.get(status) if isinstance(status, str) else None
        if alias in named:
            self.add_finding("mapped", place, status, f"read as {alias}")
            return str(alias)
        return self.name(place, status, named, initial)

    def time(self, place: str, value: Any) -> str | None:
        """Return a time as it was written, or None if it is missing or not a string.

        An invalid or future time is added to the findings.
        """
        if value is not None and not isinstance(value, str):
            self.add_finding("impossible_time", place, value, "expected a time as text")
            return None
        ago = seconds_since(value, self.said.now) if value else 0
        if ago is None or ago < 0:
            why = "expected a time" if ago is None else "the time is in the future"
            self.add_finding("impossible_time", place, value, why)
        return str(value) if value is not None else None

    def continue_counts(self) -> None:
        """Set the count of each loop from the imported files. Add findings for invalid counts."""
        own = self.document.get("_loops")
        counted = own if isinstance(own, dict) else {}
        for name, loop in self.definition.loops.items():
            place = loop.count_from
            count = get_value(self.document, parse_path(place)) if place is not None else None
            count, limit = counted.get(name, count), self.definition.limit_of(name, self.document)
            if count is None:
                continue
            if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= limit:
                self.add_finding(
                    "unexpected_value", place or name, count, f"expected a number from 0 to {limit}"
                )
                count = limit if isinstance(count, int) and count > limit else 0
            if count:
                self.counts[name] = count

    def check_time_order(self, place: str, first: str | None, then: str | None) -> None:
        """Add a finding if an end time is before its start time."""
        before, after = log_time(first), log_time(then)
        if before is not None and after is not None and after < before:
            self.add_finding(
                "impossible_time", place, then, f"the end is before the start, {first}"
            )


def _find_nearest_name(found: Any, known: Sequence[str]) -> str | None:
    """Return the known name that is most similar to a name in the file, or None."""
    folded = {name.replace("_", "").lower(): name for name in known}
    wanted = str(found).replace("_", "").replace("-", "").lower()
    close = get_close_matches(wanted, folded, n=1, cutoff=0.5)
    within = [name for bare, name in folded.items() if bare in wanted or wanted in bare]
    return folded[close[0]] if close else (within[0] if within and wanted else None)


def require_known_names(takeovers: Sequence[ImportedMachine]) -> None:
    """Raise `InvalidInput` with every unknown name and its most similar known name."""
    listed = [{"machine": one.id, **what} for one in takeovers for what in one.unknown]
    if not listed:
        return
    lines = "\n".join(
        f"  - {one['machine']}: {one['place']} is {one['found']!r:.60}"
        + (f"; did you mean {one['nearest']}?" if one["nearest"] else "")
        for one in listed
    )
    first = listed[0]
    raise InvalidInput(
        (
            "nothing was imported, because the definition does not have these names:\n"
            f"{lines}\nMap each name (--map {first['found']!s:.40}={first['nearest'] or 'NAME'}), "
            "name the phase of the machine (--at PHASE), or use your own definition "
            "(--definition FILE)."
        ),
        unknown=listed,
    )


def require_no_contradiction(takeovers: Sequence[ImportedMachine]) -> None:
    """Raise `InvalidInput` with every contradiction between the files of a machine."""
    listed = [{"machine": one.id, "why": why} for one in takeovers for why in one.contradictions]
    if not listed:
        return
    lines = "\n".join(f"  - {one['machine']}: {one['why']}" for one in listed)
    raise InvalidInput(
        (
            f"nothing was imported, because the files contradict each other:\n{lines}\n"
            "Name the phase of the machine (--at PHASE), or correct the files and import "
            "again."
        ),
        contradictions=listed,
    )


def group_findings(findings: Sequence[Document]) -> list[Document]:
    """Return the findings grouped by kind, the most severe kind first.

    Each group has a count, some places and a message. All single findings are recorded in the event
    ``machine.imported``.
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


def format_findings(findings: Sequence[Document]) -> list[str]:
    """Return one line for each kind of finding."""
    lines = []
    for one in group_findings(findings):
        more = f" and {one['count'] - _NAMED} more" if one["count"] > _NAMED else ""
        lines.append(f"{one['kind']}: {', '.join(one['places'])}{more} ({one['message']})")
    return lines


def _build_visit(phase: str, entered: str, status: str | None, **more: Any) -> Document:
    known = dict.fromkeys(("started_at", "completed_at", "updated_at", "left_at"))
    return {"phase": phase, "entered_at": entered, "status": status, **known, "data": {}, **more}


# The following functions read the files of one track of the conductor protocol.

_START = "PLAN"
#: Other names that the programs of the protocol use for a step → its name in the definition.
_ALIASES = {**ALIASES, "NOT_STARTED": _START}
_TIMES = ("started_at", "completed_at", "last_updated")
_REQUIRED = ("status", "started_at", "agent", "last_updated")
#: Fields that the programs of the protocol write in addition to the loop.
_KNOWN = (
    *("version", "track_id", "name", "type", "status", "blockers", OWN, "created_at"),
    *("updated_at", "superpower_enhanced", "enrich", "business_sync_required"),
    *("description", "priority", "depends_on", "sprint_order"),
)


def _import_track(
    path: Path, source: Document, _: Document, said: ImportChoices
) -> ImportedMachine:
    """Return the machine of a conductor track. The folder of the file gives its id."""
    folder, named = path.resolve().parent.name, source.get("track_id")
    id_ = folder if is_track(path) else str(named or folder)
    known = apply_repository_limit(
        said.definition or load_shipped_definition("conductor"), find_protocol_root(path)
    )
    found = ImportedMachine(id_, known, _START, said)
    if named is not None and named != id_:
        found.add_finding(
            "track_id", "track_id", named, f"the track has the id {id_}, the name of its folder"
        )
    loop = source.get(OWN)
    has_loop = isinstance(loop, dict)
    loop = loop if isinstance(loop, dict) else {}
    found.document = {**source, OWN: loop}
    found.created = found.time("created_at", source.get("created_at") or source.get("created"))
    if has_loop or said.at is not None:
        found.place(f"{OWN}.current_step", loop.get("current_step"), _ALIASES)
        found.status = found.status_at(f"{OWN}.step_status", loop.get("step_status"))
        _compare_status(found, source, loop)
    else:
        _infer_step(found, source, path)
    found.continue_counts()
    _import_steps(found, loop)
    for key in (key for key in source if key not in _KNOWN):
        found.add_finding("unknown_field", key, None, "unknown field; kept")
    blockers = source.get("blockers")
    if isinstance(blockers, list) and any(isinstance(one, str) for one in blockers):
        found.add_finding(
            "unexpected_value",
            "blockers",
            None,
            "the blockers are text, not objects; wfctl kept the text",
        )
    return found


#: Statuses of a track that has ended, and of a track whose work has not started.
_OVER = frozenset({"complete", "completed", "done", "archived"})
_NEW = frozenset({"new", "pending", "planned", "not_started"})
#: Steps after which only the final transition is missing.
_LAST_STEPS = frozenset({"EVALUATE_EXECUTION", "BUSINESS_SYNC"})


def _compare_status(found: ImportedMachine, source: Document, loop: Document) -> None:
    """Record a contradiction if the status of a track or checkpoint does not fit its loop."""
    stands = f"{OWN} is at {found.phase} / {found.status}"
    is_at_end = found.phase in _LAST_STEPS and found.status == "PASSED"
    is_final = found.definition.is_final(found.phase)
    if _status_of(source) in _OVER and not (is_final or is_at_end):
        found.contradict(f"status is {source['status']!r}, but {stands}")
    if _status_of(source) in _NEW and is_final:
        found.contradict(f"status is {source['status']!r}, but {stands}")


def _status_of(source: Document) -> str:
    return str(source.get("status") or "").strip().lower()


def _infer_step(found: ImportedMachine, source: Document, path: Path) -> None:
    """Set the step of a track without a loop, based on the tasks in its plan.

    The published migration of the protocol uses the same rule.
    """
    tasks, status = read_tasks(path.parent / "plan.md"), _status_of(source)
    done, is_begun = sum(task.done for task in tasks), any(task.is_begun for task in tasks)
    plan = f"plan.md has {done} of {len(tasks)} tasks done" if tasks else "plan.md is missing"
    found.status = "NOT_STARTED"
    if status in _OVER and done == len(tasks):
        found.phase, found.status = "COMPLETE", "PASSED"
    elif status in _OVER or (status in _NEW and is_begun):
        found.contradict(f"status is {source['status']!r}, but {plan}")
    elif tasks and done == len(tasks):
        found.phase = "EVALUATE_EXECUTION"
    elif is_begun:
        found.phase, found.status = "EXECUTE", "IN_PROGRESS"
    elif tasks:
        found.phase = "EVALUATE_PLAN"
    why = (
        f"the folder has no {OWN}, so the state is taken as {found.phase} / {found.status}, "
        f"because {plan}"
    )
    found.add_finding("missing", OWN, source.get(OWN), why)


def _import_steps(found: ImportedMachine, loop: Document) -> None:
    checkpoints = loop.get(CHECKPOINTS)
    if not isinstance(checkpoints, dict) and not loop:
        checkpoints = {}
    elif not isinstance(checkpoints, dict):
        found.add_finding("missing", f"{OWN}.{CHECKPOINTS}", checkpoints, "no checkpoints")
        checkpoints = {}
    checkpoints = _rename_checkpoint_aliases(found, checkpoints)
    begun = found.time(f"{OWN}.step_started_at", loop.get("step_started_at"))
    for step, checkpoint in checkpoints.items():
        place = f"{OWN}.{CHECKPOINTS}.{step}"
        if step not in found.definition.phases:
            found.add_finding("unknown_step", place, None, "unknown step; kept")
        elif not isinstance(checkpoint, dict):
            found.add_finding("unexpected_value", place, checkpoint, "expected an object; kept")
        else:
            _import_step(found, place, step, checkpoint, begun)
    if all(one["phase"] != found.phase for one in found.visits):
        entered = begun or found.created or ""
        found.visits.append(_build_visit(found.phase, entered, found.status, started_at=begun))


def _rename_checkpoint_aliases(found: ImportedMachine, checkpoints: Document) -> Document:
    """Return the checkpoints by the name of their step in the definition."""
    known = dict(checkpoints)
    for alias, step in ALIASES.items():
        if alias not in known or step not in found.definition.phases:
            continue
        theirs, there = known.pop(alias), known.get(step)
        is_skeleton = not isinstance(there, dict) or there.get("status") == "NOT_STARTED"
        known[step] = theirs if is_skeleton else there
        found.add_finding("mapped", f"{OWN}.{CHECKPOINTS}.{alias}", None, f"read as {step}")
    if known.keys() != checkpoints.keys():
        found.document[OWN] = {**found.document[OWN], CHECKPOINTS: known}
    return known


def _import_step(
    found: ImportedMachine, place: str, step: str, checkpoint: Document, begun: str | None
) -> None:
    for name in _REQUIRED:
        if checkpoint.get(name) is None:
            found.add_finding("missing", f"{place}.{name}", None, "a checkpoint needs this field")
    started, completed, updated = (
        found.time(f"{place}.{name}", checkpoint.get(name)) for name in _TIMES
    )
    found.check_time_order(f"{place}.completed_at", started, completed)
    data = {k: v for k, v in checkpoint.items() if k not in (*_TIMES, "status")}
    times = {"started_at": started, "completed_at": completed, "updated_at": updated}
    status = found.status_at(f"{place}.status", checkpoint.get("status"))
    entered = started or begun or found.created or ""
    found.visits.append(_build_visit(step, entered, status, **times, data=data))


# The following functions read the two files of phased development (dotagent).

_OWN = (
    *("workflow_id", "started_at", "last_updated", "current_phase", "phase_status"),
    *("completed_phases", "user_checkpoints", "interruption_safe"),
)


def _import_phased(
    path: Path, source: Document, execution: Document, said: ImportChoices
) -> ImportedMachine:
    known = said.definition or load_shipped_definition("dotagent")
    found = ImportedMachine(
        str(source.get("workflow_id") or _id_from_file_name(path)), known, known.initial, said
    )
    found.place("current_phase", source.get("current_phase"), {})
    found.status = found.status_at("phase_status", source.get("phase_status"))
    if source.get("interruption_safe") is not True:
        value = source.get("interruption_safe")
        found.add_finding(
            "not_whole",
            "interruption_safe",
            value,
            "the file does not state that the state is complete",
        )
    found.created = found.time("started_at", source.get("started_at"))
    rest = {key: value for key, value in execution.items() if key != "tasks"}
    found.document = {
        **{key: value for key, value in source.items() if key not in _OWN},
        **({"execution": rest} if rest else {}),
        "tasks": execution.get("tasks") or [],
    }
    found.add_field_findings({"execution"})
    _import_phases(found, source)
    return found


def _import_phases(found: ImportedMachine, source: Document) -> None:
    order = list(found.definition.phases)
    entered = found.created or ""
    for index, done in enumerate(_list_objects(found, source, "completed_phases")):
        place = f"completed_phases[{index}]"
        if done.get("phase") not in order or done.get("phase") == found.phase:
            found.add_finding(
                "unknown_phase", place, done.get("phase"), "not imported as a completed phase"
            )
            continue
        at = found.time(f"{place}.completed_at", done.get("completed_at")) or entered
        found.check_time_order(f"{place}.completed_at", entered, at)
        data = {"output": done["output"]} if isinstance(done.get("output"), str) else {}
        times = {"started_at": entered, "completed_at": at, "left_at": at}
        found.visits.append(_build_visit(done["phase"], entered, "complete", **times, data=data))
        entered = at
    last = found.time("last_updated", source.get("last_updated"))
    started = entered if found.status != "pending" else None
    now = _build_visit(found.phase, entered, found.status, started_at=started, updated_at=last)
    found.visits.append(now)
    found.given = [
        {"phase": str(one.get("phase")), "at": str(one.get("approved_at") or "")}
        for one in _list_objects(found, source, "user_checkpoints")
    ]


def _id_from_file_name(path: Path) -> str:
    return path.name.removesuffix(".json").removesuffix(".state")


def _list_objects(found: ImportedMachine, source: Document, key: str) -> list[Document]:
    listed = source.get(key) or []
    items = listed if isinstance(listed, list) else [listed]
    for item in items:
        if not isinstance(item, dict):
            found.add_finding("unexpected_value", key, item, "expected an object; not imported")
    return [item for item in items if isinstance(item, dict)]


# The following functions read the single file of a feature, bug fix or similar work (exarchos).

_TYPES = ("feature", "debug", "refactor", "oneshot", "discovery")
_EXARCHOS_OWN = ("version", "featureId", "workflowType", "createdAt", "updatedAt", "phase")


#: Phase of a newer program version → phase of the definition with the same work. A feature in
#: `merge-pending` waits until the branch of one task is merged, and then returns to `delegate`. The
#: field `mergeOrchestrator` keeps the status of the merge.
_NEWER_PHASES = {"merge-pending": "delegate"}


def _import_feature(
    path: Path, source: Document, _: Document, said: ImportChoices
) -> ImportedMachine:
    type_ = source.get("workflowType")
    usual = type_ if type_ in _TYPES else _TYPES[0]
    known = said.definition or load_shipped_definition(said.meant.get(str(type_), usual))
    found = ImportedMachine(
        str(source.get("featureId") or _id_from_file_name(path)), known, known.initial, said
    )
    if said.definition is None:
        found.name("workflowType", type_, _TYPES, _TYPES[0])
    newer = _NEWER_PHASES if known.id == "feature" else {}
    found.place("phase", source.get("phase"), {CANCELLED: CANCELLED, **newer})
    if said.at is None and found.phase in newer.values() and source.get("phase") in newer:
        found.add_finding("mapped", "phase", source["phase"], f"read as {found.phase}")
    found.document = {key: value for key, value in source.items() if key not in _EXARCHOS_OWN}
    found.continue_counts()
    found.created = found.time("createdAt", source.get("createdAt"))
    found.add_field_findings({key for key in found.document if key.startswith("_")})
    entered = found.time("updatedAt", source.get("updatedAt")) or found.created or ""
    found.visits = [_build_visit(found.phase, entered, None)]
    return found


_PHASE, _EXECUTION, _METADATA = "phase.json", "execution.json", "metadata.json"
_STATE = ".state.json"


def files_of(path: Path) -> list[Path]:
    """Return the files to import from a path.

    These are the given file with the related files next to it, or the known files of a folder.
    Raises `NotFound` if the path does not exist.
    """
    if path.is_dir():
        for name in (_PHASE, f"memory/state/{_PHASE}", _METADATA):
            if (path / name).is_file():
                return files_of(path / name)
        states = sorted(path.glob(f"*{_STATE}"))
        if len(states) == 1:
            return states
        raise NotFound(
            f"wfctl cannot choose a file to import from the folder {path}. It contains neither "
            f"{_PHASE} nor {_METADATA}, and {len(states)} files end in {_STATE}. Name the file."
        )
    if not path.is_file():
        raise NotFound(f"no file {path}")
    sibling = path.with_name(_EXECUTION)
    return [path, sibling] if path.name == _PHASE and sibling.is_file() else [path]


def find_protocol_root(path: Path) -> Path:
    """Return the folder to which the protocol's file paths are relative."""
    path = path.resolve()
    places = {_PHASE: ("memory", "state"), _METADATA: ("conductor", "tracks", path.parent.name)}
    folders = places.get(path.name, ())
    if folders and path.parts[-len(folders) - 1 : -1] == folders:
        return path.parents[len(folders)]
    return path.parent


def contents_of(paths: Sequence[Path], *, locked: bool) -> dict[Path, bytes]:
    """Return the content of the files.

    With ``locked``, the files are read under the lock of the protocol.
    """
    has_lock = locked and is_track(paths[0])
    with hold_track_lock(paths[0].parent, lambda _: None) if has_lock else nullcontext():
        return {path: read_regular(path) for path in paths}


def is_placed(path: Path) -> bool:
    """Return whether a file is in the place that the protocol defines for it."""
    return find_protocol_root(path) != path.resolve().parent


def is_track(path: Path) -> bool:
    """Return whether a file is the state file of a conductor track, judged by its path."""
    return path.name == _METADATA and is_placed(path)


def tracks_in(path: Path) -> list[Path]:
    """Return the sorted state files of all tracks in a repository, except archived ones."""
    folders = (path / "conductor" / "tracks", path / "tracks", path)
    found = (sorted(one.glob(f"*/{_METADATA}")) for one in folders if one.name == "tracks")
    return next(filter(None, found), [])


def _decode_state(path: Path, content: bytes) -> Document:
    """Return the JSON object in a file.

    Raises `UnreadablePlan` with line and column if it is not JSON, `UnimportableMachine` if it is
    not an object, and `InvalidData` if an event cannot store its values.
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
    canonical_json(found, str(path))
    return found


_Reader = Callable[[Path, Document, Document, ImportChoices], ImportedMachine]
#: Fields or file names that identify a protocol, and the function that reads its files.
_READERS: tuple[tuple[set[str], str | None, _Reader], ...] = (
    ({"workflowType", "featureId"}, None, _import_feature),
    ({"current_phase"}, _PHASE, _import_phased),
    ({OWN, "track_id"}, _METADATA, _import_track),
)


def convert_files_to_machine(
    contents: Mapping[Path, bytes], said: ImportChoices
) -> ImportedMachine:
    """Return the machine in the files.

    Raises `UnimportableMachine` if the files belong to no known protocol.
    """
    path, *_ = contents
    first, *more = (_decode_state(path, content) for path, content in contents.items())
    for fields, name, reader in _READERS:
        if fields & first.keys() or path.name == name:
            return reader(path, first, more[0] if more else {}, said)
    raise UnimportableMachine(
        (
            f"the file {path} is not the state of a known protocol, because it has none of the "
            "fields workflowType, current_phase and loop_state. Fields of the file: "
            f"{', '.join(list(first)[:8]) or 'none'}."
        ),
        path=str(path),
    )


def build_import_event(found: ImportedMachine, root: Document, **policy: Any) -> MachineImported:
    """Return the event that imports a machine.

    Raises `InvalidInput` if the id of the machine is not valid.
    """
    from pydantic import ValidationError

    names = ("phase", "status", "document", "counts", "visits", "given", "findings", "created")
    try:
        return MachineImported(
            machine=found.id,
            definition=found.definition.dumped(),
            layout=record_key_order(found.document),
            root=root,
            **{name: getattr(found, name) for name in names},
            **policy,
        )
    except ValidationError as error:
        problems = FirstReasons(explain_validation_error_at_path(e) for e in error.errors())
        raise InvalidInput(
            (
                f"the machine {found.id!r} cannot be imported: {'; '.join(problems)}. Correct the "
                "file, and import it again. Nothing was written."
            ),
            id=found.id,
            problems=problems,
        ) from error
