"""What a foreign version of ``workflow-state.json`` would be as commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from eventstore.codec import canonical
from eventstore.errors import InvalidData
from lifecycle.fold.amendments import KEYED
from lifecycle.payload import models as p
from lifecycle.rules.amendable import STAGE_FIELDS as AMENDABLE
from lifecycle.rules.amendable import WORKFLOW_FIELDS as AMENDABLE_OF_WORKFLOW
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.document import DEFINITIONAL, STAGE_FIELDS, WORKFLOW_FIELDS, layout_of
from projections.files.document_diff import FieldDifference

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

_BY_HAND = "changed by hand in workflow-state.json"
#: These are set by the change of status that they belong to.
_FOLLOWS = frozenset({"started_at", "completed_at", "retry_count", "last_error", "running_process"})
#: What the log says by itself of a workflow in which anything happens.
_DERIVED = frozenset({"updated"})
Document = dict[str, Any]
Launched = Callable[[Stage], "list[tuple[Payload, str]]"]
"""Returns the commands that record a job which was launched by hand, each with when it was so;
none where no trace of one is found."""

#: What only a job that was launched leads to, and what of it the log may say already.
_LAUNCHED = frozenset({Status.RUNNING, Status.POST_PROCESSING, Status.COMPLETED})
_UNDER_WAY = frozenset({Status.RUNNING, Status.POST_PROCESSING})
_NO_TRACE = (
    "nothing bears it out: expected {stage}/submission.json and {stage}/dpdisp-run.sh, and the "
    "tmux session dpdisp_{stage} in this root, or DPDISP_DONE and DPDISP_EXIT_CODE of its end; "
    "`wfctl dispatch {stage}` launches it"
)


def _nothing(stage: Stage) -> list[tuple[Payload, str]]:
    return []


@dataclass(slots=True)
class Adoption:
    """Commands in order, fields to be taken over, what cannot be adopted and why, what is left.

    ``left`` are differences that say nothing by themselves: an order of keys, a time that
    follows from a status.
    """

    commands: list[Payload] = field(default_factory=list)
    unknown: list[p.UnknownField] = field(default_factory=list)
    impossible: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    #: Differences that nobody asked for, and that go on to wait.
    rest: list[str] = field(default_factory=list)
    #: When each command was so, None for now.
    at: list[str | None] = field(default_factory=list)

    def add(self, command: Payload, at: str | None = None) -> None:
        """Add a command, and when it was so where that is known."""
        self.commands.append(command)
        self.at.append(at)


def adoption(
    state: Workflow,
    base: Document,
    found: Document,
    listed: Iterable[FieldDifference],
    evidence: str | None = None,
    launched: Launched = _nothing,
) -> Adoption:
    """Return what the differences ``listed`` between two documents are as commands.

    ``evidence`` is what shows that a stage which was set to completed is so; ``launched`` looks for
    what bears out that one was launched.
    """
    result = Adoption()
    groups: dict[str | None, list[FieldDifference]] = {}
    for difference in listed:
        if difference.kind == "order" and difference.path != ("stages",):
            result.left.append(difference.name)
        elif not _portable(difference.new):
            result.impossible[difference.name] = "the log cannot carry the value"
        else:
            groups.setdefault(difference.stage, []).append(difference)
    for stage, group in groups.items() if not result.impossible else ():
        if stage is None:
            _Fields(result, None, base, found, launched).adopt(group, state, evidence)
        elif group[0].path == ():
            _whole_stage(result, group[0], found)
        else:
            entries = _entry(base, stage), _entry(found, stage)
            _Fields(result, stage, *entries, launched).adopt(group, state, evidence)
    return result


def _entry(document: Document, stage: str) -> Document:
    entry: Document = next(entry for entry in document["stages"] if entry["id"] == stage)
    return entry


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
    entry = difference.new
    definition = {k: v for k, v in entry.items() if k in {"id", *DEFINITIONAL, "outputs"}}
    place = [stage["id"] for stage in found["stages"]].index(id_)
    result.add(
        p.AmendmentProposed(
            kind="stage_insert",
            description=f"{id_} was inserted by hand in workflow-state.json",
            insert=definition,
            place=place,
        )
    )


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
        known = STAGE_FIELDS if self.stage is not None else WORKFLOW_FIELDS
        if name not in known:
            self._unknown(name)
        elif self.stage is not None and isinstance(
            self.found.get(name), _RECORDED.get(name, ((),))[0]
        ):
            try:
                command = _RECORDED[name][1](str(self.stage), self.found.get(name))
            except ValueError as error:
                self._impossible(name, f"{error}".splitlines()[0])
            else:
                self.result.add(command)
        else:
            why = "it follows from the events of the log"
            self._impossible(name, _REASONS.get(name, why))

    def _unknown(self, name: str) -> None:
        value = self.found.get(name)
        self.result.unknown.append(
            p.UnknownField(
                stage=self.stage,
                field=name,
                value=value,
                layout=layout_of(value),
                removed=name not in self.found,
            )
        )

    def _impossible(self, name: str, why: str) -> None:
        place = name if self.stage is None else f"{self.stage}.{name}"
        self.result.impossible[place] = why

    def _status(self, stage: Stage, evidence: str | None) -> None:
        target = self.found.get("status")
        error = self.found.get("last_error")
        reason = error if isinstance(error, str) and error else "set to failed by hand"
        makers: dict[Any, Callable[[], Payload]] = {
            Status.READY: lambda: _readied(stage),
            Status.PREPARING: lambda: p.StagePrepared(stage=stage.id, detail=_BY_HAND),
            Status.COMPLETED: lambda: p.StageCompleted(stage=stage.id, evidence=evidence),
            Status.FAILED: lambda: p.StageFailed(stage=stage.id, error=reason),
            Status.INVALIDATED: lambda: self._asks("stage_rerun"),
            Status.SKIPPED: lambda: self._asks("stage_skip"),
        }
        if target == stage.status and stage.status in _UNDER_WAY:
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

    def _asks(self, kind: Any) -> Payload:
        status = self.found["status"]
        return p.AmendmentProposed(
            kind=kind, stage=self.stage, description=f"{self.stage} was set to {status} by hand"
        )

    def _amendments(self, fields: Iterable[str]) -> None:
        kinds = AMENDABLE if self.stage is not None else {"parameter_change": AMENDABLE_OF_WORKFLOW}
        for kind, reach in kinds.items():
            changes = {name: self._change(name) for name in fields if name in reach}
            changes = {name: change for name, change in changes.items() if change is not None}
            if changes:
                self.result.add(self._proposal(kind, changes))

    def _proposal(self, kind: Any, changes: Document) -> Payload:
        said = f"{', '.join(changes)} {_BY_HAND}"
        return p.AmendmentProposed(kind=kind, stage=self.stage, description=said, changes=changes)

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
        return {
            key: _leaf(old, new, key)
            for key in (*old, *(key for key in new if key not in old))
            if _shown(old, key) != _shown(new, key)
        }


def _shown(values: Document, key: str) -> bytes:
    return canonical(values[key]) if key in values else b"not there"


def _leaf(old: Document, new: Document, key: str) -> Document:
    before = {"old": old[key]} if key in old else {}
    return {**before, "new": new[key]} if key in new else before


def _readied(stage: Stage) -> Payload:
    if stage.status is Status.FAILED:
        return p.StageRetried(stage=stage.id, fix=_BY_HAND)
    return p.StageReadied(stage=stage.id)


#: Operational fields that an event of their own records: what each can be, and the event.
_RECORDED: dict[str, tuple[type, Callable[[str, Any], Payload]]] = {
    "outputs": (list, lambda stage, value: p.OutputsRecorded(stage=stage, outputs=value)),
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
