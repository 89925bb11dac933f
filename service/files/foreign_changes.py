"""Manual edits of generated files that wait for a decision, and their adoption."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from eventstore.chain import canonical_json
from eventstore.errors import InvalidData
from lifecycle.errors import Refused
from lifecycle.fold.evolve import KEYED
from lifecycle.payload import models as p
from lifecycle.rules.amendable import SESSION_SET_KEYS, required_amendment_type
from lifecycle.rules.amendable import WORKFLOW_FIELDS as AMENDABLE_OF_WORKFLOW
from lifecycle.state.status import Status
from lifecycle.state.workflow import Drift, Stage, Workflow
from lifecycle.words.document import DEFINITIONAL, STAGE_FIELDS, WORKFLOW_FIELDS, record_key_order
from projections.files import state_document
from projections.files.document_diff import FieldDifference, apply_differences
from projections.files.progress_log import join_pieces
from service.errors import NotFound
from service.files.align_lines import build_notes
from service.files.drift import (
    line_differences,
    make_recordable,
    split_difference,
    state_differences,
)
from service.files.file_changes import collect_file_changes
from service.files.inspection import FilesInspection
from service.files.log_view import read_log_view
from service.files.workflow_files import LOG, STATE
from service.reading.log import WorkflowLog
from service.root.paths_within_root import content_within
from service.root.root import Root
from service.root.sync_record import read_sync
from wording import MAX_REASONS, FirstReasons

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

_BY_HAND = "changed by hand in workflow-state.json"
#: Field that has its own event → type of the value, and function that builds the event.
_RECORDED: dict[str, tuple[type, Callable[[str, Any], Payload]]] = {
    "outputs": (list, lambda id_, value: p.OutputsRecorded(stage=id_, outputs=value)),
    "checkpoint": (
        object,
        lambda stage, value: p.CheckpointRecorded(stage=stage, checkpoint=value),
    ),
}
_REASONS = {
    "amendments": "an amendment needs a person's approval: `wfctl amend propose`",
    "version": "wfctl counts the version from the approved amendments",
    "workflow_status": "wfctl derives the status of the workflow from its stages",
    "stages": "an amendment cannot change the order of the stages",
    "id": "the id of a stage cannot change",
    "workflow_id": "the id of a workflow cannot change",
}
#: Fields that wfctl sets when the status of a stage changes.
_FOLLOWS = frozenset({"started_at", "completed_at", "retry_count", "last_error", "running_process"})
#: Fields of a workflow that change with every event.
_DERIVED = frozenset({"updated"})
Document = dict[str, Any]
Launched = Callable[[Stage], "list[tuple[Payload, str]]"]
"""Returns the commands that record a manually launched job, each with its time, if any."""

#: Statuses that a stage can have only after its job was launched, and statuses of a running stage.
_LAUNCHED = frozenset({Status.RUNNING, Status.POST_PROCESSING, Status.COMPLETED})
_UNDER_WAY = frozenset({Status.RUNNING, Status.POST_PROCESSING})
_NO_TRACE = (
    "no evidence shows this status: expected {stage}/submission.json and "
    "{stage}/dpdisp-run.sh, and either the tmux session dpdisp_{stage} in this root or the "
    "files DPDISP_DONE and DPDISP_EXIT_CODE. Run `wfctl dispatch {stage}` to launch the stage"
)


@dataclass(slots=True)
class Adoption:
    """The commands that adopt a manual edit, in order, and the differences that remain.

    ``unknown`` contains fields that wfctl does not know but keeps. ``impossible`` contains
    differences that cannot be adopted, each with the reason.
    """

    commands: list[Payload] = field(default_factory=list)
    unknown: list[p.UnknownField] = field(default_factory=list)
    impossible: dict[str, str] = field(default_factory=dict)
    #: Differences that need no command, for example the order of keys, or a time that follows from
    #: a status.
    left: list[str] = field(default_factory=list)
    #: Differences that the user did not select. They still wait for a decision.
    rest: list[str] = field(default_factory=list)
    #: The time to record for each command, or None for the current time.
    at: list[str | None] = field(default_factory=list)

    def add(self, command: Payload, at: str | None = None) -> None:
        """Add a command, with the time to record if it is known."""
        self.commands.append(command)
        self.at.append(at)


def _build_adoption(
    state: Workflow,
    base: Document,
    found: Document,
    listed: Iterable[FieldDifference],
    evidence: str | None,
    launched: Launched,
) -> Adoption:
    """Return the commands that adopt the given differences between two documents.

    ``base`` is the document that wfctl wrote, and ``found`` is the edited one.
    """
    result = Adoption()
    groups: dict[str | None, list[FieldDifference]] = {}
    now = state_document.build_document(state)
    for difference in listed:
        # The log already contains the new value, for example because a new status has set this
        # field. No command is needed.
        is_fulfilled = difference.path != ("status",) and _is_value_in_log(now, difference)
        if _is_meaningless(difference) or is_fulfilled:
            result.left.append(difference.name)
        elif not _can_be_recorded(difference.new):
            result.impossible[difference.name] = "the log cannot store the value"
        else:
            groups.setdefault(difference.stage, []).append(difference)
    for stage, group in groups.items() if not result.impossible else ():
        if stage is not None and group[0].path == ():
            _propose_inserted_stage(result, group[0], found)
        else:
            old, new = _find_entry(base, stage), _find_entry(found, stage)
            _EditedFields(result, stage, old, new, launched).adopt(group, state, evidence)
    return result


def _is_meaningless(difference: FieldDifference) -> bool:
    """Return whether a difference has no effect.

    This is the case for the order of keys, and for values that wfctl sets at the start of a
    session.
    """
    if difference.kind == "order":
        return difference.path != ("stages",)
    first, *keys = difference.path or ("",)
    is_of_sessions = first == "session_config" and bool(keys) and keys[0] in SESSION_SET_KEYS
    return difference.stage is None and is_of_sessions


def _find_entry(document: Document, stage: str | None) -> Document:
    """Return the entry of a stage in a document, or the document for None."""
    if stage is None:
        return document
    return next((entry for entry in document["stages"] if entry["id"] == stage), {})


def _can_be_recorded(value: Any) -> bool:
    """Return whether the log can store this value."""
    try:
        canonical_json(value)
    except InvalidData:
        return False
    return True


def _propose_inserted_stage(result: Adoption, difference: FieldDifference, found: Document) -> None:
    """Add a command that proposes the new stage, or a reason to refuse a removed stage.

    The removal of a stage cannot be adopted.
    """
    id_ = difference.name
    if difference.kind == "removed":
        result.impossible[id_] = (
            "a stage cannot be removed; propose a stage_skip with `wfctl amend propose`"
        )
        return
    known = {"id", *DEFINITIONAL, "outputs"}
    insert = {key: value for key, value in difference.new.items() if key in known}
    place = [stage["id"] for stage in found["stages"]].index(id_)
    said = f"{id_} was inserted by hand in workflow-state.json"
    command = p.AmendmentProposed(kind="stage_insert", description=said, insert=insert, place=place)
    result.add(command)


@dataclass(slots=True)
class _EditedFields:
    """The fields of one stage, or of the workflow, before and after a manual edit."""

    result: Adoption
    stage: str | None
    base: Document
    found: Document
    launched: Launched

    def adopt(self, group: list[FieldDifference], state: Workflow, evidence: str | None) -> None:
        """Add the commands that adopt the changed fields, one field at a time."""
        fields: dict[str, list[FieldDifference]] = {}
        for difference in group:
            fields.setdefault(difference.path[0], []).append(difference)
        moved = self.stage is not None and "status" in fields
        if moved:
            fields.pop("status")
            self._add_status_commands(state.stage(str(self.stage)), evidence)
        amended = []
        for name, listed in fields.items():
            follows = name in _FOLLOWS if self.stage is not None else name in _DERIVED
            if follows and (moved or self.stage is None):
                self.result.left += [difference.name for difference in listed]
            elif self._is_amended(name, state):
                amended.append(name)
            else:
                self._add_field_command(name)
        self._add_amendment_command(amended)

    def _is_amended(self, name: str, state: Workflow) -> bool:
        """Return whether a change of this field needs an amendment approved by a person."""
        if self.stage is None:
            return name in AMENDABLE_OF_WORKFLOW
        listed = self.found.get(name)
        if name != "outputs" or not isinstance(listed, list):
            return name in DEFINITIONAL
        declared = state.stage(self.stage).declared_outputs
        return not all(output in listed for output in declared)

    def _add_field_command(self, name: str) -> None:
        known, value = STAGE_FIELDS if self.stage else WORKFLOW_FIELDS, self.found.get(name)
        kind, event = _RECORDED.get(name, ((), None)) if self.stage else ((), None)
        if name not in known:
            unknown = p.UnknownField(
                stage=self.stage,
                field=name,
                value=value,
                layout=record_key_order(value),
                removed=name not in self.found,
            )
            self.result.unknown.append(unknown)
        elif event is None or not isinstance(value, kind):
            why = "wfctl derives this field from the log"
            self._add_impossible_field(name, _REASONS.get(name, why))
        else:
            try:
                self.result.add(event(str(self.stage), value))
            except ValueError as error:
                self._add_impossible_field(name, f"{error}".splitlines()[0])

    def _add_impossible_field(self, name: str, why: str) -> None:
        place = name if self.stage is None else f"{self.stage}.{name}"
        self.result.impossible[place] = why

    def _add_status_commands(self, stage: Stage, evidence: str | None) -> None:
        target = self.found.get("status")
        error = self.found.get("last_error")
        reason = error if isinstance(error, str) and error else "set to failed by hand"
        said = f"{stage.id} was set to {target} by hand"
        readied: Payload = p.StageReadied(stage=stage.id)
        if stage.status is Status.FAILED:
            readied = p.StageRetried(stage=stage.id, fix=_BY_HAND)
        makers: dict[Any, Callable[[], Payload]] = {
            Status.READY: lambda: readied,
            Status.PREPARING: lambda: p.StagePrepared(stage=stage.id, detail=_BY_HAND),
            Status.COMPLETED: lambda: p.StageCompleted(stage=stage.id, evidence=evidence),
            Status.FAILED: lambda: p.StageFailed(stage=stage.id, error=reason),
            Status.INVALIDATED: lambda: self._build_proposal("stage_rerun", said),
            Status.SKIPPED: lambda: self._build_proposal("stage_skip", said),
        }
        if target == stage.status:
            # The stage already has this status in the log, so no command is needed.
            self.result.left.append(f"{stage.id}.status")
            return
        proven = self.launched(stage) if target in _LAUNCHED else []
        for command, at in proven:
            self.result.add(command, at)
        if target in makers:
            self.result.add(makers[target]())
        elif target not in _UNDER_WAY:
            self._add_impossible_field("status", f"{target!r:.60} is not a status")
        elif not proven:
            self._add_impossible_field("status", _NO_TRACE.format(stage=stage.id))

    def _build_proposal(self, kind: Any, said: str, **more: Any) -> Payload:
        return p.AmendmentProposed(kind=kind, stage=self.stage, description=said, **more)

    def _add_amendment_command(self, fields: Iterable[str]) -> None:
        changes = {name: self._build_field_change(name) for name in fields}
        changes = {name: change for name, change in changes.items() if change}
        if changes:
            said = f"{', '.join(changes)} {_BY_HAND}"
            self.result.add(
                self._build_proposal(required_amendment_type(changes), said, changes=changes)
            )

    def _build_field_change(self, name: str) -> Document | None:
        if name not in KEYED:
            if name not in self.found:
                self._add_impossible_field(name, "a field can be changed, but not removed")
                return None
            return _build_old_new_pair(self.base, self.found, name)
        old, new = self.base.get(name, {}), self.found.get(name)
        if not isinstance(new, dict):
            self._add_impossible_field(name, "expected an object")
            return None
        sessions = SESSION_SET_KEYS if name == "session_config" else ()
        keys = [key for key in dict.fromkeys([*old, *new]) if key not in sessions]
        return {
            key: _build_old_new_pair(old, new, key) for key in keys if not _is_same(old, new, key)
        }


def _is_same(old: Document, new: Document, key: str) -> bool:
    """Return whether a key has the same value in the old and in the new object."""
    both = key in old and key in new
    return both and canonical_json(old[key]) == canonical_json(new[key])


def _build_old_new_pair(old: Document, new: Document, key: str) -> Document:
    """Return the old and new value of a key. A missing value is omitted."""
    before = {"old": old[key]} if key in old else {}
    return {**before, "new": new[key]} if key in new else before


@dataclass(frozen=True, slots=True)
class ForeignVersion:
    """A version of a generated file that another program or a person wrote.

    ``detected`` is the version of the event that recorded it, or None if it is not recorded.
    ``base`` is the version of the log that the file showed before the edit. ``kind`` is the kind of
    the change, as in the event, or ``appended``.
    """

    file: str
    kind: str
    base: int
    found: bytes | None
    detected: int | None = None
    kept_as: str | None = None
    #: Differences that still wait for a decision. None means all of them.
    rest: Sequence[str] | None = None


class ForeignChanges:
    """The manual edits of generated files in a workflow folder. This class only reads."""

    def __init__(self, root: Root, log: WorkflowLog) -> None:
        self.root = root
        self.log = log
        self._files = FilesInspection(root, log)

    def list_undecided_versions(self, file: str | None = None) -> list[ForeignVersion]:
        """Return the manual edits that wait for a decision, oldest first.

        If ``file`` is given, return only the edits of this file.
        """
        kept = [self.kept_change(drift) for drift in self.log.current().drifts]
        return [f for f in (*kept, *self._find_unrecorded_versions()) if file in (None, f.file)]

    def kept_change(self, drift: Drift) -> ForeignVersion:
        """Return the edited version of a file that a drift event refers to.

        Raises `NotFound` if the stored copy no longer exists.
        """
        found = content_within(self.root.path, drift.kept_as)
        if found is None:
            raise NotFound(
                f"the file {drift.kept_as} does not exist. It was the copy of {drift.file} that "
                f"wfctl kept at version {drift.version}. To discard that change, run `wfctl drift "
                "revert`.",
                path=drift.kept_as,
            )
        known = drift.file, drift.kind, drift.base, found, drift.version, drift.kept_as
        return ForeignVersion(*known, drift.rest)

    def _find_unrecorded_versions(self) -> Iterator[ForeignVersion]:
        sync = read_sync(self.root.sync_file)
        found = self._files.foreign_state(sync.files.get(STATE))
        base = sync.version(STATE) or self.log.current().head
        if found == b"" and content_within(self.root.path, STATE) is None:
            yield ForeignVersion(STATE, "missing", base, None)
        elif found is not None:
            readable = state_differences(self.log.current(base), found) is not None
            yield ForeignVersion(STATE, "changed" if readable else "unreadable", base, found)
        found, base = content_within(self.root.path, LOG), sync.version(LOG)
        if found is None:
            yield ForeignVersion(LOG, "missing", base, None)
        elif not read_log_view(self.root.path, LOG, sync.files.get(LOG), thorough=True).intact:
            yield ForeignVersion(LOG, "changed", base, found)
        elif appended := b"".join(part.content for part in self._files.appended(sync)):
            yield ForeignVersion(LOG, "appended", base, appended)

    def describe_differences(self, change: ForeignVersion) -> list[dict[str, Any]]:
        """Return the differences of a manual edit, one for each field or group of lines."""
        if change.kind == "appended":
            return [
                {"field": "the end", "kind": "added", "old": None, "new": note.text}
                for note in build_notes(self._files.appended(read_sync(self.root.sync_file)))
            ]
        if change.file == LOG and change.found is not None:
            return [
                {"field": f"line {run['line']}", **run}
                for run in line_differences(self._log_at(change.base), change.found)
            ]
        held = [{"field": d.name, **make_recordable(d)} for d in self.differences(change)]
        return [{key: one[key] for key in ("field", "kind", "old", "new")} for one in held]

    def differences(self, change: ForeignVersion) -> list[FieldDifference]:
        """Return the differences between the edited state and the state shown before."""
        if change.found is None or change.kind == "unreadable":
            return []
        listed = state_differences(self.log.current(change.base), change.found) or []
        if change.rest is None:
            return listed
        return [
            one
            for one in _split_named_differences(change.rest, listed)
            if _is_selected(one, change.rest)
        ]

    def _log_at(self, version: int) -> bytes:
        return join_pieces(collect_file_changes(self.log.steps(upto=version)).pieces)

    def adoption(
        self, change: ForeignVersion, only: list[str], evidence: str | None, launched: Launched
    ) -> Adoption:
        """Return the commands that adopt a manual edit, or only its fields ``only``.

        ``launched`` searches for evidence that a person launched the job of a stage. Raises
        `Refused` if a difference cannot be adopted, and `NotFound` if a named field did not change.
        """
        if change.found is None or change.kind == "unreadable":
            raise Refused(
                f"the file {change.file} is {change.kind}, so it contains no change to adopt. To "
                "write the file again from the log, run `wfctl drift revert`.",
                file=change.file,
            )
        if change.file == LOG:
            runs = line_differences(self._log_at(change.base), change.found or b"")
            texts = [line for run in runs for line in run["new"] if line.strip()]
            logged: list[Payload] = [p.NoteLogged(text=text) for text in texts]
            return Adoption(commands=logged, at=[None] * len(logged))
        listed = list(_split_named_differences(only, self.differences(change)))
        chosen = [d for d in listed if not only or _is_selected(d, only)]
        unmatched = [name for name in only if not any(_is_selected(d, [name]) for d in listed)]
        if unmatched:
            raise NotFound(
                f"{', '.join(unmatched)} did not change; changed: "
                f"{', '.join(d.name for d in listed) or 'nothing'}",
                fields=unmatched,
            )
        base = state_document.build_document(self.log.current(change.base))
        found = json.loads(change.found or b"")
        if only:
            found = apply_differences(base, found, chosen)
        result = _build_adoption(self.log.current(), base, found, chosen, evidence, launched)
        if result.impossible:
            found = [f"{name}: {why}" for name, why in result.impossible.items()]
            lines = "\n".join(f"  - {one}" for one in FirstReasons(found))
            raise Refused(
                f"some changes in {change.file} cannot be adopted:\n{lines}\nRun `wfctl drift "
                "adopt --only FIELD` to adopt a single field, or `wfctl drift revert` to "
                "discard all changes.",
                file=change.file,
                problems=dict(islice(result.impossible.items(), MAX_REASONS)),
            )
        result.rest = [d.name for d in listed if d not in chosen]
        return result


def _split_named_differences(
    names: Sequence[str], listed: Iterable[FieldDifference]
) -> Iterator[FieldDifference]:
    """Yield the differences. Split an added or removed object if a name is inside it."""

    def is_whole(one: FieldDifference) -> bool:
        return not one.path or not any(name.startswith(f"{one.name}.") for name in names)

    return (part for one in listed for part in split_difference(one, is_whole))


def _is_selected(difference: FieldDifference, names: Sequence[str]) -> bool:
    """Return whether a name refers to the difference or to a field that contains it."""
    return any(difference.name == name or difference.name.startswith(f"{name}.") for name in names)


def build_closing_command(change: ForeignVersion, result: Adoption) -> list[Payload]:
    """Return the command that marks a manual edit as adopted.

    Return an empty list if the edit is not recorded in the log yet.
    """
    if change.detected is None:
        return []
    known = {name: getattr(result, name) for name in ("unknown", "left", "rest")}
    return [p.DriftAdopted(file=change.file, detected=change.detected, **known)]


#: Maximum number of characters of a value in a message.
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Edit:
    """A manually edited field, with its value in the log and in the file.

    ``stage`` is None for a field of the workflow.
    """

    field: str
    old: Any
    new: Any
    stage: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the edited field with its old and new value, as a dict."""
        return {"field": self.field, "old": self.old, "new": self.new}

    def __str__(self) -> str:
        old, new = (json.dumps(one, ensure_ascii=False)[:_SHOWN] for one in (self.old, self.new))
        return f"{self.field}: {old} -> {new}"


def find_undecided_edits(root: Root, log: WorkflowLog, state: Workflow) -> list[Edit]:
    """Return the manual edits of the plan that wait for a decision.

    Edits whose values the log already contains are left out.
    """
    changes = ForeignChanges(root, log)
    now = state_document.build_document(state)
    found: dict[str, Edit] = {}
    for change in changes.list_undecided_versions(STATE):
        for one in changes.differences(change):
            if _is_plan_change(one) and not _is_value_in_log(now, one):
                found[one.name] = Edit(one.name, one.old, one.new, one.stage)
    return list(found.values())


def build_commands_to_close_edits(root: Root, log: WorkflowLog, state: Workflow) -> list[Payload]:
    """Return commands that close the manual edits whose values the log now contains.

    Fields that wfctl sets itself, such as times, need not agree.
    """
    changes = ForeignChanges(root, log)
    now = state_document.build_document(state)
    found: list[Payload] = []
    for drift in state.drifts:
        if drift.file != STATE or content_within(root.path, drift.kept_as) is None:
            continue
        change = changes.kept_change(drift)
        differences = changes.differences(change)
        told = [
            one for one in differences if not (_is_meaningless(one) or _follows_from_event(one))
        ]
        if told and all(_is_value_in_log(now, one) for one in told):
            found += build_closing_command(change, Adoption(left=[one.name for one in differences]))
    return found


def _follows_from_event(difference: FieldDifference) -> bool:
    """Return whether wfctl sets the field itself when it records an event."""
    names = _DERIVED if difference.stage is None else _FOLLOWS
    return bool(difference.path) and difference.path[0] in names


def _is_plan_change(difference: FieldDifference) -> bool:
    """Return whether a difference changes the plan."""
    if difference.kind == "order" or _is_meaningless(difference):
        return False
    if difference.stage is not None:
        return not difference.path or difference.path[0] in DEFINITIONAL
    return bool(difference.path) and difference.path[0] in AMENDABLE_OF_WORKFLOW


def _is_value_in_log(now: dict[str, Any], difference: FieldDifference) -> bool:
    """Return whether the log already contains the new value."""
    value: Any = _find_entry(now, difference.stage)
    for step in difference.path:
        value = value.get(step) if isinstance(value, dict) else None
    return json.dumps(value) == json.dumps(difference.new)
