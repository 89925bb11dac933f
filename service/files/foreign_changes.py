"""Foreign changes that wait for a decision: those on the disk, and those that are kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lifecycle.errors import Refused
from lifecycle.payload import models as p
from lifecycle.rules.amendable import OPERATIONAL, WORKFLOW_FIELDS
from lifecycle.state.workflow import Drift
from lifecycle.words.document import DEFINITIONAL
from projections.files import state_document
from projections.files.document_diff import FieldDifference, applied
from projections.files.progress_log import joined
from service.errors import NotFound
from service.files.drift import line_differences, notes, recordable, state_differences, whole
from service.files.drift_commands import Adoption, Launched, adoption
from service.files.inspection import FilesInspection
from service.files.workflow_files import LOG, STATE
from service.reading.log import WorkflowLog
from service.root.root import Root
from service.root.safe_open import content_within
from service.root.sync import read_sync

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from lifecycle.state.workflow import Workflow


@dataclass(frozen=True, slots=True)
class Foreign:
    """A foreign version of a file.

    ``detected`` is the version of its ``drift.detected``, None where nobody recorded it yet;
    ``base`` the version the file had shown. ``kind`` as there, or ``appended``.
    """

    file: str
    kind: str
    base: int
    found: bytes | None
    detected: int | None = None
    kept_as: str | None = None
    #: The differences that are still to be decided; None: all of them.
    rest: tuple[str, ...] | None = None


class ForeignChanges:
    """The foreign changes of one root. Nothing here writes."""

    def __init__(self, root: Root, log: WorkflowLog) -> None:
        self.root = root
        self.log = log
        self._files = FilesInspection(root, log)

    def waiting(self, file: str | None = None) -> list[Foreign]:
        """Return what waits for a decision, the oldest first; ``file`` names the one asked for."""
        kept = [self._kept(drift) for drift in self.log.current().drifts]
        return [f for f in (*kept, *self._on_disk()) if file in (None, f.file)]

    def _kept(self, drift: Drift) -> Foreign:
        found = content_within(self.root.path, drift.kept_as)
        if found is None:
            raise NotFound(
                f"{drift.kept_as} is missing: the version of {drift.file} that was detected at "
                f"version {drift.version} was kept there. `wfctl drift revert` dismisses it.",
                path=drift.kept_as,
            )
        rest = tuple(drift.rest) if drift.rest is not None else None
        return Foreign(
            drift.file, drift.kind, drift.base, found, drift.version, drift.kept_as, rest
        )

    def _on_disk(self) -> list[Foreign]:
        return [found for found in (self._state(), self._log()) if found is not None]

    def _state(self) -> Foreign | None:
        sync = read_sync(self.root.sync_file)
        found = self._files.foreign_state(sync.files.get(STATE))
        if found is None:
            return None
        base = sync.version(STATE) or self.log.current().head
        if found == b"" and content_within(self.root.path, STATE) is None:
            return Foreign(STATE, "missing", base, None)
        readable = state_differences(self.log.current(base), found) is not None
        return Foreign(STATE, "changed" if readable else "unreadable", base, found)

    def _log(self) -> Foreign | None:
        sync = read_sync(self.root.sync_file)
        found = content_within(self.root.path, LOG)
        base = sync.version(LOG)
        if found is None:
            return Foreign(LOG, "missing", base, None)
        if not self._files.log_is_intact(sync):
            return Foreign(LOG, "changed", base, found)
        appended = b"".join(part.content for part in self._files.appended(sync))
        return Foreign(LOG, "appended", base, appended) if appended else None

    def explained(self, change: Foreign) -> list[dict[str, Any]]:
        """Return what differs, a field or a run of lines each."""
        if change.found is None or change.kind == "unreadable":
            return []
        if change.kind == "appended":
            return [
                {"field": "the end", "kind": "added", "old": None, "new": note.text}
                for note in notes(self._files.appended(read_sync(self.root.sync_file)))
            ]
        if change.file == LOG:
            return [
                {"field": f"line {run['line']}", **run}
                for run in line_differences(self._log_at(change.base), change.found)
            ]
        return [_explained(difference) for difference in self.differences(change)]

    def differences(self, change: Foreign) -> list[FieldDifference]:
        """Return what differs between a foreign state and the one that the file had shown."""
        listed = state_differences(self.log.current(change.base), change.found or b"") or []
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
            lines: list[Payload] = [p.NoteLogged(text=text[:20_000]) for text in texts]
            return Adoption(commands=lines, at=[None] * len(lines))
        return self._state_adoption(change, only, evidence, launched)

    def _state_adoption(
        self, change: Foreign, only: list[str], evidence: str | None, launched: Launched
    ) -> Adoption:
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
        result = adoption(self.log.current(), base, found, chosen, evidence, launched)
        if result.impossible:
            raise _impossible(change.file, result.impossible)
        result.rest = [d.name for d in listed if d not in chosen]
        return result


def _impossible(file: str, reasons: dict[str, str]) -> Refused:
    lines = "\n".join(f"  - {name}: {why}" for name, why in reasons.items())
    return Refused(
        f"not everything that was changed in {file} can be adopted:\n{lines}\n"
        "`wfctl drift adopt --only FIELD` adopts a part, `wfctl drift revert` nothing.",
        file=file,
        problems=reasons,
    )


def _as_deep_as(
    names: Sequence[str], listed: Iterable[FieldDifference]
) -> Iterator[FieldDifference]:
    """Take apart an object that came or went where a name leads into it."""
    for one in listed:
        value = one.new if one.kind == "added" else one.old if one.kind == "removed" else None
        inside = any(name.startswith(f"{one.name}.") for name in names)
        if not (inside and one.path and isinstance(value, dict)):
            yield one
            continue
        parts = (one._replace(path=(*one.path, key)) for key in value)
        keys = [
            part._replace(new=value[part.path[-1]])
            if one.kind == "added"
            else part._replace(old=value[part.path[-1]])
            for part in parts
        ]
        yield from _as_deep_as(names, keys)


def _named(difference: FieldDifference, names: Sequence[str]) -> bool:
    return any(difference.name == name or difference.name.startswith(f"{name}.") for name in names)


def _explained(difference: FieldDifference) -> dict[str, Any]:
    shown = recordable(difference)
    return {
        "field": difference.name,
        "kind": difference.kind,
        "old": shown["old"],
        "new": shown["new"],
    }


def closing(change: Foreign, result: Adoption) -> list[Payload]:
    """Return the command that closes an adopted drift, none where nobody recorded it yet."""
    if change.detected is None:
        return []
    return [
        p.DriftAdopted(
            file=change.file,
            detected=change.detected,
            unknown=result.unknown,
            left=result.left,
            rest=result.rest,
        )
    ]


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
    value: Any = now
    if difference.stage is not None:
        entries = (entry for entry in now["stages"] if entry["id"] == difference.stage)
        value = next(entries, None)
    for step in difference.path:
        value = value.get(step) if isinstance(value, dict) else None
    return json.dumps(value) == json.dumps(difference.new)


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:_SHOWN]
