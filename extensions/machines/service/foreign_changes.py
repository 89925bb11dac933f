"""Find changes of other programs to a machine's files, and decide which can be adopted."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from extensions.machines.rules.errors import InvalidInput
from extensions.machines.rules.machine import Document, Machine
from extensions.machines.rules.path import get_value, parse_path
from extensions.machines.rules.payload import MachineUpdated, change_of
from extensions.machines.service import import_changes
from extensions.machines.service.import_changes import (
    ChangeReplay,
    Path_,
    is_same_json,
    is_valid_path_part,
    log_time,
)
from extensions.machines.service.log import MachineLog, is_newest_writer
from extensions.machines.views import documents as shown_as
from extensions.machines.views.documents import build_documents, list_file_paths, render_files
from lifecycle.errors import LifecycleError
from lifecycle.payload.base import Payload
from lifecycle.payload.workflow import DriftAdopted, DriftDetected
from lifecycle.state.workflow import Drift
from lifecycle.words.document import record_key_order
from projections.files.document_diff import FieldDifference, apply_differences, find_differences
from projections.files.document_paths import ABSENT
from projections.files.document_paths import get_at_path as standing_at
from service.errors import NotFound
from service.files.drift import (
    build_drift_event,
    make_recordable,
    read_kept_version,
    split_difference,
)
from service.reading.machine_streams import machine_folder
from service.root.atomic_files import Clock, system_clock, utc_text
from service.root.paths_within_root import content_within
from service.root.root import Root
from service.root.sync_record import Synced, digest, read_sync

#: Maximum number of characters of a rule in the record of a manual edit.
_SAID = 300


def _interpret_change(
    root: Path, state: Machine, file: str, base: Document, found: Document, now: str
) -> ChangeReplay:
    """Replay the change of a file from ``base`` to ``found`` as events of the machine.

    The result contains the events, and the changes that the rules forbid. ``now`` is a UTC time.
    """
    role = next(role for role, path in list_file_paths(state).items() if path == file)
    walk = ChangeReplay(
        root, state, file, base, found, now, build_documents(state)[role], state.updated
    )
    changed = [leaf for one in find_differences(base, found) for leaf in _split_leaves(one)]
    if role in import_changes.TAKE_IN:
        import_changes.TAKE_IN[role](walk)
    after = build_documents(walk.state)[role]
    walk.left = [
        (leaf, _explain_refusal(walk, leaf))
        for leaf in changed
        if not _is_adopted(leaf, after, walk)
    ]
    return walk


def _path_of(one: FieldDifference) -> Path_:
    """Return the path of a changed field. It ends before the first list."""
    return ("stages",) if one.stage is not None else one.path


def _list_refusals(walk: ChangeReplay, one: FieldDifference) -> list[LifecycleError]:
    """Return the errors with which rules refused a change of a field.

    Errors about its parts or its parent objects are included.
    """
    path = _path_of(one)
    return [why for at, why in walk.refused.items() if at[: len(path)] == path[: len(at)]]


def _split_leaves(one: FieldDifference) -> list[FieldDifference]:
    """Return the fields of an added or removed object as separate differences.

    A change of only the order of keys results in an empty list.
    """
    if one.kind == "order":
        return []
    return list(split_difference(one, lambda part: not (part.new or part.old)))


def _is_adopted(one: FieldDifference, after: Document, walk: ChangeReplay) -> bool:
    """Return whether a change by another program will survive the next write of the file."""
    path = _path_of(one)
    now = get_value(after, path)
    is_there = standing_at(after, path) is not ABSENT
    if is_same_json(now, one.new) and (one.new is not None or is_there == (one.kind != "removed")):
        return True
    match path:
        case ("blockers",):
            held = shown_as.recorded_blockers(walk.state)
            return is_same_json(
                import_changes.remove_derived_blockers(now, held),
                import_changes.remove_derived_blockers(one.new, held),
            )
        case (import_changes.OWN, "current_step"):
            return bool(import_changes.resolve_alias(one.new) == now)
        case (import_changes.OWN, "step_started_at"):
            return bool(walk.taken) and log_time(one.new) is not None
        case (import_changes.OWN, import_changes.CHECKPOINTS, step, name):
            return _is_equivalent_in_checkpoint(one, step, name, now, walk)
        case ("tasks",):
            return _are_tasks_recorded(after, walk)
        case ("completed_phases" | "user_checkpoints",):
            return _list_phases(now) == _list_phases(one.new)
    return path == ("last_updated",)


def _is_equivalent_in_checkpoint(
    one: FieldDifference, step: str, name: str, now: Any, walk: ChangeReplay
) -> bool:
    if name in import_changes.OF_VISIT and one.kind == "removed":
        return True  # The engine writes the field again.
    if name in ("started_at", "completed_at"):
        visit = walk.state.visits.get(import_changes.resolve_alias(step))
        return visit is not None and visit.has_recorded_events and bool(walk.taken)
    if name == "status" and now is None:
        return bool(one.new == "NOT_STARTED")
    if name == "notes" and isinstance(one.new, str):
        return bool(now == f"ERROR: {one.new}")
    return name == "last_updated"


def _are_tasks_recorded(after: Document, walk: ChangeReplay) -> bool:
    """Return whether each task in the file is now recorded with the same values.

    Times that are derived from events may differ.
    """
    written = walk.found.get(import_changes.TASKS)
    if not isinstance(written, list) or len(import_changes.list_tasks(walk.found)) != len(written):
        return False
    now, before = (
        {task.get("id"): task for task in import_changes.list_tasks(document)}
        for document in (after, walk.base)
    )
    gone = set(before) - {task.get("id") for task in written}
    times = ("started_at", "completed_at")
    return not gone and all(
        any(is_same_json(value, known.get(task.get("id"), {}).get(key)) for known in (now, before))
        or (key in times and log_time(value) is not None)
        for task in written
        for key, value in task.items()
    )


def _list_phases(value: Any) -> list[Any]:
    found = value if isinstance(value, list) else [value]
    return [one.get("phase") if isinstance(one, dict) else one for one in found]


def _explain_refusal(walk: ChangeReplay, one: FieldDifference) -> str:
    path = _path_of(one)
    own = map(str, _list_refusals(walk, one))
    if said := "; ".join(dict.fromkeys(own)):
        return said
    for name, instead in walk.state.definition.reserved_field_commands().items():
        steps = parse_path(name)
        if path[: len(steps)] == steps or path == steps[: len(path)]:
            return f"only wfctl writes {name}: {instead.replace('{id}', walk.state.id)}"
    if one.kind == "removed":
        return "wfctl restores removed values until you adopt the change"
    if walk.refused:
        return "the change belongs to another change that was refused"
    return "the protocol allows only wfctl to write this file"


def kept_name(state: Machine, path: str) -> str:
    """Return the file name under which a copy of a foreign version is kept."""
    return f"{state.id}.{path.rpartition('/')[2]}"


def decode_object(found: bytes | None) -> Document | None:
    """Return the JSON object in a file's content, or None if it is not a JSON object."""
    try:
        value = json.loads(found or b"")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def list_unadopted(known: ChangeReplay) -> list[dict[str, Any]]:
    """Return each change that was not adopted, with the rule that forbids it."""
    return [{**make_recordable(one), "rule": rule[:_SAID]} for one, rule in known.left]


@dataclass(frozen=True, slots=True)
class UnadoptedVersion:
    """A version of a file by another program that could not be adopted completely."""

    path: str
    found: bytes | None
    base: int
    known: ChangeReplay | None

    def drift(self, root: Root, state: Machine) -> DriftDetected:
        """Keep a copy of the foreign version, and return the event that reports it.

        The event lists the changes that were not adopted, with the rules that forbid them.
        """

        def listed(found: bytes) -> list[dict[str, Any]] | None:
            if decode_object(found) is None:
                return None
            return list_unadopted(self.known) if self.known is not None else []

        name, expected = kept_name(state, self.path), render_files(state)[self.path]
        return build_drift_event(root, self.path, self.base, expected, self.found, listed, name)


@dataclass(slots=True)
class MachineFileChanges:
    """The changes of other programs to a machine's files.

    ``taken`` maps files to the events that their changes mean. ``left`` contains the versions that
    could not be adopted completely. ``state`` is the state after these events. ``head`` is the
    current version of the log.
    """

    state: Machine
    head: int
    taken: dict[str, list[tuple[Payload, str]]] = field(default_factory=dict)
    left: list[UnadoptedVersion] = field(default_factory=list)


class MachineFilesReader:
    """Reads the files of a machine, and finds changes of other programs."""

    def __init__(self, root: Root, log: MachineLog, clock: Clock = system_clock) -> None:
        self.root = root
        self.log = log
        self._clock = clock
        self.sync_file = machine_folder(root) / f"{log.machine}.json"

    def contents(self, state: Machine) -> dict[str, bytes | None]:
        """Return the current content of each file, or None for a missing file."""
        return {path: content_within(self.root.path, path) for path in render_files(state)}

    def news(
        self, contents: dict[str, bytes | None], taken: Container[bytes | None] = frozenset()
    ) -> MachineFileChanges:
        """Return the changes of other programs to record before files are written.

        ``taken`` contains versions of files that were recorded already.
        """
        sync = read_sync(self.sync_file)
        newest, shown = self._collect_shown_digests(
            min((left.version for left in sync.files.values()), default=0)
        )
        state = newest or self.log.current()
        news = MachineFileChanges(state, state.head)
        now = utc_text(self._clock())
        # Process the file with tasks first, because the change of a phase may require its tasks.
        for path, found in reversed(contents.items()):
            left, expected = sync.files.get(path), render_files(news.state)[path]
            if found in taken or _is_known_content(shown.get(path, ()), left, expected, found):
                continue
            known = self._interpret_file(news.state, path, left, found, now)
            if known is None or known.left:
                base = left.version if left is not None else 0
                news.left.append(UnadoptedVersion(path, found, base, known))
            if known is not None and known.taken:
                news.taken[path], news.state = known.taken, known.state
        return news

    def _interpret_file(
        self, state: Machine, path: str, left: Synced | None, found: bytes | None, now: str
    ) -> ChangeReplay | None:
        """Replay the change of a file by another program as events of the machine.

        Returns None if the file contains no JSON object or is only the start of the expected
        content.
        """
        document, base = decode_object(found), decode_object(self._find_base(state, path, left))
        if document is None or base is None or render_files(state)[path].startswith(found or b""):
            return None
        return _interpret_change(self.root.path, state, path, base, document, now)

    def _find_base(self, state: Machine, path: str, left: Synced | None) -> bytes:
        """Return the content of a file that wfctl last wrote or imported."""
        if left is None:
            return render_files(state)[path]
        # If the log was shortened since then, its last version is the best known base.
        then = self.log.state(min(left.version, state.head)) if left.version else None
        shown = render_files(then).get(path, b"") if then is not None else b""
        if digest(shown) == left.sha256:
            return shown
        kept = read_kept_version(self.root, kept_name(state, path), left.sha256)
        return kept or shown or render_files(state)[path]

    def preview_foreign_changes(self) -> MachineFileChanges:
        """Return the changes of other programs that the next write would record.

        Nothing is recorded or written. The returned state is the state after the next write.
        """
        state = self.log.current()
        if not is_newest_writer(self.root, self.log.store, state):
            return MachineFileChanges(state, state.head)
        news = self.news(self.contents(state))
        if news.taken:
            # Keep the current version in this state, because callers pass it as the expected
            # version of the log.
            news.state = news.state.draft()
            news.state.head = state.head
        else:
            news.state = state
        return news

    def _collect_shown_digests(
        self, after: int
    ) -> tuple[Machine | None, dict[str, set[str | None]]]:
        """Return the newest state, and the digests of each file since version ``after``.

        They include foreign versions that were recorded. None stands for a missing file. Returns
        None as the state if the log has no newer event.
        """
        newest: Machine | None = None
        head = self.log.store.head(self.log.stream)
        shown: dict[str, set[str | None]] = {}
        if head is None or after >= head.version:
            return None, shown  # The log has no newer event, or it was cut.
        for event, state in self.log.steps(after):
            newest = state
            for path, content in render_files(state).items():
                shown.setdefault(path, set()).add(digest(content))
            if event.type == "drift.detected":
                shown.setdefault(event.data["file"], set()).add(event.data["found_sha256"])
        return newest, shown

    def waiting(self, state: Machine, file: str | None, version: int | None) -> Drift:
        """Return a manual edit that waits for a decision, by default the newest.

        Raises `NotFound` if no such change exists.
        """
        for drift in reversed(state.drifts):
            if file in (None, drift.file) and version in (None, drift.version):
                return drift
        what = f"the file {file}" if file is not None else "its files"
        raise NotFound(
            f"the machine {state.id} has no manual edit of {what} that waits for a decision.",
            machine=state.id,
            file=file,
        )

    def adoption(self, state: Machine, drift: Drift, only: Sequence[str] = ()) -> list[Payload]:
        """Return the commands that adopt a manual edit.

        They are subject to the same rules as any other command.

        If ``only`` names fields, the other edited fields stay undecided. Raises `InvalidInput` if
        one of these fields was not edited. Raises the error of a rule if a change requires an event
        of the protocol.
        """
        role = next(role for role, path in list_file_paths(state).items() if path == drift.file)
        found = decode_object(content_within(self.root.path, drift.kept_as))
        if found is None:
            raise InvalidInput(
                (
                    f"there is nothing to adopt, because the file {drift.kept_as} is missing or "
                    "contains no JSON object. To restore the recorded file, run `wfctl machine "
                    f"drift {state.id} --revert`."
                ),
                kept_as=drift.kept_as,
            )
        base = build_documents(self.log.current(drift.base) if drift.base else state)[role]
        current = build_documents(state)[role]
        edits = [
            leaf
            for one in find_differences(base, found)
            for leaf in _split_leaves(one)
            # Skip fields that were adopted before, because they are no longer edits.
            if get_value(current, _path_of(leaf)) != get_value(found, _path_of(leaf))
        ]
        named = {_format_field_name(role, _path_of(one)): one for one in edits}
        chosen = _select_fields(list(named), only)
        wanted = apply_differences(base, found, [named[name] for name in chosen])
        now = utc_text(self._clock())
        known = _interpret_change(self.root.path, state, drift.file, base, wanted, now)
        commands = [*known.asked, *_build_updates(role, known, wanted)]
        if len(chosen) < len(edits):
            return commands  # The other fields stay pending.
        return [*commands, DriftAdopted(file=drift.file, detected=drift.version)]


def _is_known_content(
    known: Container[str | None], left: Synced | None, expected: bytes, found: bytes | None
) -> bool:
    if found is None:
        return left is None or None in known
    sha = digest(found)
    return found == expected or sha in known or (left is not None and left.sha256 == sha)


def is_unchanged_since_import(state: Machine, left: Synced | None, found: bytes | None) -> bool:
    """Return whether a file is unchanged since its import, and nothing was recorded since.

    Such a file is not overwritten.
    """
    is_source = left is not None and left.version == 0 and state.head == 1
    return is_source and found is not None and left is not None and digest(found) == left.sha256


def list_undecided(
    state: Machine, file: str, found: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the differences of a manual edit that have not been adopted since."""
    role = next((role for role, path in list_file_paths(state).items() if path == file), None)
    if role is None:
        return list(found)
    now = build_documents(state)[role]
    return [one for one in found if get_value(now, tuple(one["path"])) != one["new"]]


def _select_fields(edits: list[str], only: Sequence[str]) -> list[str]:
    """Return the edited fields that ``only`` names, including fields below them.

    All edited fields are returned if ``only`` is empty. Raises `InvalidInput` if a name was not
    edited.
    """
    wanted: set[str] = set()
    for name in only:
        below = {path for path in edits if path == name or path.startswith(f"{name}.")}
        if not below:
            raise InvalidInput(
                f"the field {name} was not edited. Edited fields: {', '.join(edits) or 'none'}.",
                field=name,
                edited=edits,
            )
        wanted |= below
    return [path for path in edits if not only or path in wanted]


def _build_updates(role: str, known: ChangeReplay, found: Document) -> list[Payload]:
    """Return an update with the changes that correspond to no event of the protocol.

    Raises the error of the rule if a change was refused.
    """
    changes: dict[str, Any] = {}
    removed: list[str] = []
    for one, _ in known.left:
        for refusal in _list_refusals(known, one):
            raise refusal
        whole = _path_of(one)
        path = tuple(takewhile(is_valid_path_part, whole)) or whole[:1]
        if one.kind == "removed" and path == whole:
            removed.append(_format_field_name(role, path))
        else:
            changes[_format_field_name(role, path)] = get_value(found, path)
    if not (changes or removed):
        return []
    listed = [change_of(path, value) for path, value in changes.items()]
    layout = record_key_order([change.model_dump(mode="json") for change in listed])
    return [MachineUpdated(changes=listed, layout=layout, removed=removed)]


def _format_field_name(role: str, path: tuple[str, ...]) -> str:
    is_apart = role == "execution" and path[0] != "tasks"
    return ".".join(("execution", *path) if is_apart else path)
