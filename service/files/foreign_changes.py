"""Foreign changes that wait for a decision, on the disk or kept, and what they are as commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eventstore.chain import canonical
from eventstore.errors import InvalidData
from lifecycle.errors import Refused
from lifecycle.fold.evolve import KEYED
from lifecycle.payload import models as p
from lifecycle.rules.amendable import OPERATIONAL, kind_of_changes
from lifecycle.rules.amendable import WORKFLOW_FIELDS as AMENDABLE_OF_WORKFLOW
from lifecycle.state.status import Status
from lifecycle.state.workflow import Drift, Stage, Workflow
from lifecycle.words.document import DEFINITIONAL, STAGE_FIELDS, WORKFLOW_FIELDS, layout_of
from projections.files import state_document
from projections.files.document_diff import FieldDifference, applied
from projections.files.progress_log import joined
from service.errors import NotFound
from service.files.drift import (
    line_differences,
    look,
    notes,
    parts,
    recordable,
    state_differences,
    whole,
)
from service.files.inspection import FilesInspection
from service.files.workflow_files import LOG, STATE
from service.reading.log import WorkflowLog
from service.root.disk import content_within
from service.root.root import Root, read_sync

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

_BY_HAND = "changed by hand in workflow-state.json"
#: Operational fields that an event of their own records: what each can be, and the event.
_RECORDED: dict[str, tuple[type, Callable[[str, Any], Payload]]] = {
    "outputs": (list, lambda id_, value: p.OutputsRecorded(stage=id_, outputs=value)),
    "checkpoint": (
        object,
        lambda stage, value: p.CheckpointRecorded(stage=stage, checkpoint=value),
    ),
}
_REASONS = {
    "amendments": "an amendment counts by a person's consent: `wfctl amend propose`",
    "version": "it is counted from the approved amendments",
    "workflow_status": "it follows from the stages",
    "stages": "their order cannot be amended",
    "id": "a stage keeps its id",
    "workflow_id": "a workflow keeps its id",
}
#: These are set by the change of status that they belong to.
_FOLLOWS = frozenset({"started_at", "completed_at", "retry_count", "last_error", "running_process"})
#: What the log says by itself of a workflow in which anything happens.
_DERIVED = frozenset({"updated"})
Document = dict[str, Any]
Launched = Callable[[Stage], "list[tuple[Payload, str]]"]
"""Returns the commands that record a job launched by hand, each with when it was so, if any."""

#: What only a job that was launched leads to, and what of it the log may say already.
_LAUNCHED = frozenset({Status.RUNNING, Status.POST_PROCESSING, Status.COMPLETED})
_UNDER_WAY = frozenset({Status.RUNNING, Status.POST_PROCESSING})
_NO_TRACE = (
    "nothing bears it out: expected {stage}/submission.json and {stage}/dpdisp-run.sh, and the "
    "tmux session dpdisp_{stage} in this root, or DPDISP_DONE and DPDISP_EXIT_CODE of its end; "
    "`wfctl dispatch {stage}` launches it"
)


@dataclass(slots=True)
class Adoption:
    """Commands in order, fields to be taken over, what cannot be adopted and why, what is left."""

    commands: list[Payload] = field(default_factory=list)
    unknown: list[p.UnknownField] = field(default_factory=list)
    impossible: dict[str, str] = field(default_factory=dict)
    #: Differences that say nothing: an order of keys, a time that follows from a status.
    left: list[str] = field(default_factory=list)
    #: Differences that nobody asked for, and that go on to wait.
    rest: list[str] = field(default_factory=list)
    #: When each command was so, None for now.
    at: list[str | None] = field(default_factory=list)

    def add(self, command: Payload, at: str | None = None) -> None:
        """Add a command, and when it was so where that is known."""
        self.commands.append(command)
        self.at.append(at)


def _adoption(
    state: Workflow,
    base: Document,
    found: Document,
    listed: Iterable[FieldDifference],
    evidence: str | None,
    launched: Launched,
) -> Adoption:
    """Return what the differences ``listed`` between two documents are as commands."""
    result = Adoption()
    groups: dict[str | None, list[FieldDifference]] = {}
    now = state_document.document(state)
    for difference in listed:
        # A status that the log has reached is closed with the fields that follow from it.
        is_fulfilled = difference.path != ("status",) and _is_so(now, difference)
        if _says_nothing(difference) or is_fulfilled:
            result.left.append(difference.name)
        elif not _portable(difference.new):
            result.impossible[difference.name] = "the log cannot carry the value"
        else:
            groups.setdefault(difference.stage, []).append(difference)
    for stage, group in groups.items() if not result.impossible else ():
        if stage is not None and group[0].path == ():
            _whole_stage(result, group[0], found)
        else:
            old, new = _entry(base, stage), _entry(found, stage)
            _Fields(result, stage, old, new, launched).adopt(group, state, evidence)
    return result


def _says_nothing(difference: FieldDifference) -> bool:
    """Return whether a difference is an order of keys, or a value that sessions write."""
    if difference.kind == "order":
        return difference.path != ("stages",)
    first, *keys = difference.path or ("",)
    is_of_sessions = first == "session_config" and bool(keys) and keys[0] in OPERATIONAL
    return difference.stage is None and is_of_sessions


def _entry(document: Document, stage: str | None) -> Document:
    """Return what a document has of a stage, of the workflow where ``stage`` is None."""
    if stage is None:
        return document
    return next((entry for entry in document["stages"] if entry["id"] == stage), {})


def _portable(value: Any) -> bool:
    try:
        canonical(value)
    except InvalidData:
        return False
    return True


def _whole_stage(result: Adoption, difference: FieldDifference, found: Document) -> None:
    id_ = difference.name
    if difference.kind == "removed":
        result.impossible[id_] = "a stage cannot be taken away; `wfctl amend propose` a stage_skip"
        return
    known = {"id", *DEFINITIONAL, "outputs"}
    insert = {key: value for key, value in difference.new.items() if key in known}
    place = [stage["id"] for stage in found["stages"]].index(id_)
    said = f"{id_} was inserted by hand in workflow-state.json"
    command = p.AmendmentProposed(kind="stage_insert", description=said, insert=insert, place=place)
    result.add(command)


@dataclass(slots=True)
class _Fields:
    """The fields of one stage, or of the workflow, before and after."""

    result: Adoption
    stage: str | None
    base: Document
    found: Document
    launched: Launched

    def adopt(self, group: list[FieldDifference], state: Workflow, evidence: str | None) -> None:
        """Sort the differences by the field they are in, and adopt each field as it must be."""
        fields: dict[str, list[FieldDifference]] = {}
        for difference in group:
            fields.setdefault(difference.path[0], []).append(difference)
        moved = self.stage is not None and "status" in fields
        if moved:
            fields.pop("status")
            self._status(state.stage(str(self.stage)), evidence)
        amended = []
        for name, listed in fields.items():
            follows = name in _FOLLOWS if self.stage is not None else name in _DERIVED
            if follows and (moved or self.stage is None):
                self.result.left += [difference.name for difference in listed]
            elif self._is_amended(name, state):
                amended.append(name)
            else:
                self._field(name)
        self._amendments(amended)

    def _is_amended(self, name: str, state: Workflow) -> bool:
        """Whether only an amendment may change the field as it was changed."""
        if self.stage is None:
            return name in AMENDABLE_OF_WORKFLOW
        listed = self.found.get(name)
        if name != "outputs" or not isinstance(listed, list):
            return name in DEFINITIONAL
        declared = state.stage(self.stage).declared_outputs
        return not all(output in listed for output in declared)

    def _field(self, name: str) -> None:
        known, value = STAGE_FIELDS if self.stage else WORKFLOW_FIELDS, self.found.get(name)
        kind, event = _RECORDED.get(name, ((), None)) if self.stage else ((), None)
        if name not in known:
            unknown = p.UnknownField(
                stage=self.stage,
                field=name,
                value=value,
                layout=layout_of(value),
                removed=name not in self.found,
            )
            self.result.unknown.append(unknown)
        elif event is None or not isinstance(value, kind):
            why = "it follows from the events of the log"
            self._impossible(name, _REASONS.get(name, why))
        else:
            try:
                self.result.add(event(str(self.stage), value))
            except ValueError as error:
                self._impossible(name, f"{error}".splitlines()[0])

    def _impossible(self, name: str, why: str) -> None:
        place = name if self.stage is None else f"{self.stage}.{name}"
        self.result.impossible[place] = why

    def _status(self, stage: Stage, evidence: str | None) -> None:
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
            Status.INVALIDATED: lambda: self._proposes("stage_rerun", said),
            Status.SKIPPED: lambda: self._proposes("stage_skip", said),
        }
        if target == stage.status:
            # The log has come to say so too.
            self.result.left.append(f"{stage.id}.status")
            return
        proven = self.launched(stage) if target in _LAUNCHED else []
        for command, at in proven:
            self.result.add(command, at)
        if target in makers:
            self.result.add(makers[target]())
        elif target not in _UNDER_WAY:
            self._impossible("status", f"{target!r:.60} is no status")
        elif not proven:
            self._impossible("status", _NO_TRACE.format(stage=stage.id))

    def _proposes(self, kind: Any, said: str, **more: Any) -> Payload:
        return p.AmendmentProposed(kind=kind, stage=self.stage, description=said, **more)

    def _amendments(self, fields: Iterable[str]) -> None:
        changes = {name: self._change(name) for name in fields}
        changes = {name: change for name, change in changes.items() if change}
        if changes:
            said = f"{', '.join(changes)} {_BY_HAND}"
            self.result.add(self._proposes(kind_of_changes(changes), said, changes=changes))

    def _change(self, name: str) -> Document | None:
        if name not in KEYED:
            if name not in self.found:
                self._impossible(name, "a field is changed, never taken away")
                return None
            return _leaf(self.base, self.found, name)
        old, new = self.base.get(name, {}), self.found.get(name)
        if not isinstance(new, dict):
            self._impossible(name, "expected an object")
            return None
        sessions = OPERATIONAL if name == "session_config" else ()
        keys = [key for key in dict.fromkeys([*old, *new]) if key not in sessions]
        return {key: _leaf(old, new, key) for key in keys if not _is_same(old, new, key)}


def _is_same(old: Document, new: Document, key: str) -> bool:
    both = key in old and key in new
    return both and canonical(old[key]) == canonical(new[key])


def _leaf(old: Document, new: Document, key: str) -> Document:
    before = {"old": old[key]} if key in old else {}
    return {**before, "new": new[key]} if key in new else before


@dataclass(frozen=True, slots=True)
class Foreign:
    """A foreign version of a file.

    ``detected`` is the version of its ``drift.detected``, None if nobody recorded it yet;
    ``base`` the version the file had shown. ``kind`` as there, or ``appended``.
    """

    file: str
    kind: str
    base: int
    found: bytes | None
    detected: int | None = None
    kept_as: str | None = None
    #: The differences that are still to be decided; None: all of them.
    rest: Sequence[str] | None = None


class ForeignChanges:
    """The foreign changes of one root. Nothing here writes."""

    def __init__(self, root: Root, log: WorkflowLog) -> None:
        self.root = root
        self.log = log
        self._files = FilesInspection(root, log)

    def waiting(self, file: str | None = None) -> list[Foreign]:
        """Return what waits for a decision, the oldest first; ``file`` names the one asked for."""
        kept = [self.kept_change(drift) for drift in self.log.current().drifts]
        return [f for f in (*kept, *self._on_disk()) if file in (None, f.file)]

    def kept_change(self, drift: Drift) -> Foreign:
        """Return the version that a drift kept; raises `NotFound` if somebody removed it."""
        found = content_within(self.root.path, drift.kept_as)
        if found is None:
            raise NotFound(
                f"{drift.kept_as} is missing: the version of {drift.file} that was detected at "
                f"version {drift.version} was kept there. `wfctl drift revert` dismisses it.",
                path=drift.kept_as,
            )
        known = drift.file, drift.kind, drift.base, found, drift.version, drift.kept_as
        return Foreign(*known, drift.rest)

    def _on_disk(self) -> Iterator[Foreign]:
        sync = read_sync(self.root.sync_file)
        found = self._files.foreign_state(sync.files.get(STATE))
        base = sync.version(STATE) or self.log.current().head
        if found == b"" and content_within(self.root.path, STATE) is None:
            yield Foreign(STATE, "missing", base, None)
        elif found is not None:
            readable = state_differences(self.log.current(base), found) is not None
            yield Foreign(STATE, "changed" if readable else "unreadable", base, found)
        found, base = content_within(self.root.path, LOG), sync.version(LOG)
        if found is None:
            yield Foreign(LOG, "missing", base, None)
        elif not look(self.root.path, LOG, sync.files.get(LOG), thorough=True).intact:
            yield Foreign(LOG, "changed", base, found)
        elif appended := b"".join(part.content for part in self._files.appended(sync)):
            yield Foreign(LOG, "appended", base, appended)

    def explained(self, change: Foreign) -> list[dict[str, Any]]:
        """Return what differs, a field or a run of lines each."""
        if change.kind == "appended":
            return [
                {"field": "the end", "kind": "added", "old": None, "new": note.text}
                for note in notes(self._files.appended(read_sync(self.root.sync_file)))
            ]
        if change.file == LOG and change.found is not None:
            return [
                {"field": f"line {run['line']}", **run}
                for run in line_differences(self._log_at(change.base), change.found)
            ]
        held = [{"field": d.name, **recordable(d)} for d in self.differences(change)]
        return [{key: one[key] for key in ("field", "kind", "old", "new")} for one in held]

    def differences(self, change: Foreign) -> list[FieldDifference]:
        """Return what differs between a foreign state and the one that the file had shown."""
        if change.found is None or change.kind == "unreadable":
            return []
        listed = state_differences(self.log.current(change.base), change.found) or []
        if change.rest is None:
            return listed
        return [one for one in _as_deep_as(change.rest, listed) if _named(one, change.rest)]

    def _log_at(self, version: int) -> bytes:
        return joined(whole(self.log.steps(upto=version)).pieces)

    def adoption(
        self, change: Foreign, only: list[str], evidence: str | None, launched: Launched
    ) -> Adoption:
        """Return what the change is as commands, of the fields ``only`` where some are named.

        ``launched`` looks for what bears out that a stage was launched by hand.
        Raises `Refused` where something in it cannot be adopted, `NotFound` for a field that did
        not change.
        """
        if change.found is None or change.kind == "unreadable":
            raise Refused(
                f"{change.file} is {change.kind}: there is nothing in it to adopt. "
                "`wfctl drift revert` goes on with the file as the log has it.",
                file=change.file,
            )
        if change.file == LOG:
            runs = line_differences(self._log_at(change.base), change.found or b"")
            texts = [line for run in runs for line in run["new"] if line.strip()]
            logged: list[Payload] = [p.NoteLogged(text=text) for text in texts]
            return Adoption(commands=logged, at=[None] * len(logged))
        listed = list(_as_deep_as(only, self.differences(change)))
        chosen = [d for d in listed if not only or _named(d, only)]
        unmatched = [name for name in only if not any(_named(d, [name]) for d in listed)]
        if unmatched:
            raise NotFound(
                f"{', '.join(unmatched)} did not change; changed: "
                f"{', '.join(d.name for d in listed) or 'nothing'}",
                fields=unmatched,
            )
        base = state_document.document(self.log.current(change.base))
        found = json.loads(change.found or b"")
        if only:
            found = applied(base, found, chosen)
        result = _adoption(self.log.current(), base, found, chosen, evidence, launched)
        if result.impossible:
            lines = "\n".join(f"  - {name}: {why}" for name, why in result.impossible.items())
            raise Refused(
                f"not everything that was changed in {change.file} can be adopted:\n{lines}\n"
                "`wfctl drift adopt --only FIELD` adopts a part, `wfctl drift revert` nothing.",
                file=change.file,
                problems=result.impossible,
            )
        result.rest = [d.name for d in listed if d not in chosen]
        return result


def _as_deep_as(
    names: Sequence[str], listed: Iterable[FieldDifference]
) -> Iterator[FieldDifference]:
    """Take apart an object that came or went where a name leads into it."""

    def is_whole(one: FieldDifference) -> bool:
        return not one.path or not any(name.startswith(f"{one.name}.") for name in names)

    return (part for one in listed for part in parts(one, is_whole))


def _named(difference: FieldDifference, names: Sequence[str]) -> bool:
    return any(difference.name == name or difference.name.startswith(f"{name}.") for name in names)


def closing(change: Foreign, result: Adoption) -> list[Payload]:
    """Return the command that closes an adopted drift, none if nobody recorded it yet."""
    if change.detected is None:
        return []
    known = {name: getattr(result, name) for name in ("unknown", "left", "rest")}
    return [p.DriftAdopted(file=change.file, detected=change.detected, **known)]


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
        return {"field": self.field, "old": self.old, "new": self.new}

    def __str__(self) -> str:
        old, new = (json.dumps(one, ensure_ascii=False)[:_SHOWN] for one in (self.old, self.new))
        return f"{self.field}: {old} -> {new}"


def undecided(root: Root, log: WorkflowLog, state: Workflow) -> list[Edit]:
    """Return the definitional fields that were edited by hand, and that the log has not come to."""
    changes = ForeignChanges(root, log)
    now = state_document.document(state)
    found: dict[str, Edit] = {}
    for change in changes.waiting(STATE):
        for one in changes.differences(change):
            if _is_definitional(one) and not _is_so(now, one):
                found[one.name] = Edit(one.name, one.old, one.new, one.stage)
    return list(found.values())


def close_fulfilled(root: Root, log: WorkflowLog, state: Workflow) -> list[Payload]:
    """Return the commands that close each edit whose values the log contains.

    Fields that follow from events, such as times, do not keep an edit open.
    """
    changes = ForeignChanges(root, log)
    now = state_document.document(state)
    found: list[Payload] = []
    for drift in state.drifts:
        if drift.file != STATE or content_within(root.path, drift.kept_as) is None:
            continue
        change = changes.kept_change(drift)
        differences = changes.differences(change)
        told = [one for one in differences if not (_says_nothing(one) or _follows(one))]
        if told and all(_is_so(now, one) for one in told):
            found += closing(change, Adoption(left=[one.name for one in differences]))
    return found


def _follows(difference: FieldDifference) -> bool:
    names = _DERIVED if difference.stage is None else _FOLLOWS
    return bool(difference.path) and difference.path[0] in names


def _is_definitional(difference: FieldDifference) -> bool:
    if difference.kind == "order" or _says_nothing(difference):
        return False
    if difference.stage is not None:
        return not difference.path or difference.path[0] in DEFINITIONAL
    return bool(difference.path) and difference.path[0] in AMENDABLE_OF_WORKFLOW


def _is_so(now: dict[str, Any], difference: FieldDifference) -> bool:
    value: Any = _entry(now, difference.stage)
    for step in difference.path:
        value = value.get(step) if isinstance(value, dict) else None
    return json.dumps(value) == json.dumps(difference.new)
