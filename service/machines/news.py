"""What others did to a machine's files, and what the rules do not allow of it: a look alone."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from lifecycle.errors import LifecycleError
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Document, Machine
from lifecycle.machines.path import look, parse
from lifecycle.machines.payload import MachineUpdated, change_of
from lifecycle.payload.base import Payload
from lifecycle.payload.workflow import DriftAdopted, DriftDetected
from lifecycle.state.workflow import Drift
from lifecycle.words.document import layout_of
from projections.files.document_diff import ABSENT, FieldDifference, applied, differences
from projections.files.document_diff import at as standing_at
from projections.machines import documents as shown_as
from projections.machines.documents import documents, paths, rendered
from service.errors import NotFound
from service.files.drift import detected, kept_before, parts, recordable
from service.machines import writers
from service.machines.log import MachineLog, folder_of, is_writer
from service.machines.writers import Path_, Walk, is_field, log_time, same
from service.root.disk import Clock, content_within, system_clock, utc_text
from service.root.root import Root, Synced, digest, read_sync

#: Letters of a rule that a drift says.
_SAID = 300


def _walked(
    root: Path, state: Machine, file: str, base: Document, found: Document, now: str
) -> Walk:
    """Return what the change from ``base`` to ``found`` amounts to; ``now`` is UTC."""
    role = next(role for role, path in paths(state).items() if path == file)
    walk = Walk(root, state, file, base, found, now, documents(state)[role], state.updated)
    changed = [leaf for one in differences(base, found) for leaf in _leaves(one)]
    if role in writers.TAKE_IN:
        writers.TAKE_IN[role](walk)
    after = documents(walk.state)[role]
    walk.left = [(leaf, _rule(walk, leaf)) for leaf in changed if not _holds(leaf, after, walk)]
    return walk


def _path_of(one: FieldDifference) -> Path_:
    """Return where a field that differs is in its file, as far as objects lead."""
    return ("stages",) if one.stage is not None else one.path


def _refusals(walk: Walk, one: FieldDifference) -> list[LifecycleError]:
    """Return why rules refused a change of the field, of one below it, or of one above it."""
    path = _path_of(one)
    return [why for at, why in walk.refused.items() if at[: len(path)] == path[: len(at)]]


def _leaves(one: FieldDifference) -> list[FieldDifference]:
    """Return an object that came or went as its fields; an order of keys says nothing."""
    if one.kind == "order":
        return []
    return list(parts(one, lambda part: not (part.new or part.old)))


def _holds(one: FieldDifference, after: Document, walk: Walk) -> bool:
    """Whether the file as it will be written says what its writer wrote there."""
    path = _path_of(one)
    now = look(after, path)
    is_there = standing_at(after, path) is not ABSENT
    if same(now, one.new) and (one.new is not None or is_there == (one.kind != "removed")):
        return True
    match path:
        case ("blockers",):
            held = shown_as.recorded_blockers(walk.state)
            return same(writers.without(now, held), writers.without(one.new, held))
        case (writers.OWN, "current_step"):
            return bool(writers.aliased(one.new) == now)
        case (writers.OWN, "step_started_at"):
            return bool(walk.taken) and log_time(one.new) is not None
        case (writers.OWN, writers.CHECKPOINTS, step, name):
            return _same_in_checkpoint(one, step, name, now, walk)
        case ("tasks",):
            return _same_tasks(after, walk)
        case ("completed_phases" | "user_checkpoints",):
            return _phases(now) == _phases(one.new)
    return path == ("last_updated",)


def _same_in_checkpoint(one: FieldDifference, step: str, name: str, now: Any, walk: Walk) -> bool:
    if name in writers.OF_VISIT and one.kind == "removed":
        return True  # the engine writes it anew
    if name in ("started_at", "completed_at"):
        visit = walk.state.visits.get(writers.aliased(step))
        return visit is not None and visit.has_begun and bool(walk.taken)
    if name == "status" and now is None:
        return bool(one.new == "NOT_STARTED")
    if name == "notes" and isinstance(one.new, str):
        return bool(now == f"ERROR: {one.new}")
    return name == "last_updated"


def _same_tasks(after: Document, walk: Walk) -> bool:
    """Whether each task that was written is so now, but for the times that follow."""
    written = walk.found.get(writers.TASKS)
    if not isinstance(written, list) or len(writers.listed(walk.found)) != len(written):
        return False
    now, before = (
        {task.get("id"): task for task in writers.listed(document)}
        for document in (after, walk.base)
    )
    gone = set(before) - {task.get("id") for task in written}
    times = ("started_at", "completed_at")
    return not gone and all(
        any(same(value, known.get(task.get("id"), {}).get(key)) for known in (now, before))
        or (key in times and log_time(value) is not None)
        for task in written
        for key, value in task.items()
    )


def _phases(value: Any) -> list[Any]:
    found = value if isinstance(value, list) else [value]
    return [one.get("phase") if isinstance(one, dict) else one for one in found]


def _rule(walk: Walk, one: FieldDifference) -> str:
    path = _path_of(one)
    own = map(str, _refusals(walk, one))
    if said := "; ".join(dict.fromkeys(own)):
        return said
    for name, instead in walk.state.definition.all_reserved().items():
        steps = parse(name)
        if path[: len(steps)] == steps or path == steps[: len(path)]:
            return f"{name} is written by the engine: {instead.replace('{id}', walk.state.id)}"
    if one.kind == "removed":
        return "what others took away comes back until somebody adopts that"
    if walk.refused:
        return "what it goes with was not allowed"
    return "nobody but wfctl writes this file by its protocol"


def kept_name(state: Machine, path: str) -> str:
    """Return the name under which a foreign version of a file is kept."""
    return f"{state.id}.{path.rpartition('/')[2]}"


def decoded(found: bytes | None) -> Document | None:
    """Return a JSON object, None for anything else."""
    try:
        value = json.loads(found or b"")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def told(known: Walk) -> list[dict[str, Any]]:
    """Return what is not taken over, field by field, each with the rule that does not allow it."""
    return [{**recordable(one), "rule": rule[:_SAID]} for one, rule in known.left]


@dataclass(frozen=True, slots=True)
class LeftForeign:
    """A foreign version of a file that is not taken over, or not all of it."""

    path: str
    found: bytes | None
    base: int
    known: Walk | None

    def drift(self, root: Root, state: Machine) -> DriftDetected:
        """Keep the foreign bytes and say what is left of them, field by field, with the rules."""

        def listed(found: bytes) -> list[dict[str, Any]] | None:
            if decoded(found) is None:
                return None
            return told(self.known) if self.known is not None else []

        name, expected = kept_name(state, self.path), rendered(state)[self.path]
        return detected(root, self.path, self.base, expected, self.found, listed, name)


@dataclass(slots=True)
class News:
    """What others did to the files: by file the events that it amounts to, and what is left.

    ``state`` is the machine as the next write would find it; the log has version ``head``.
    """

    state: Machine
    head: int
    taken: dict[str, list[tuple[Payload, str]]] = field(default_factory=dict)
    left: list[LeftForeign] = field(default_factory=list)


class FilesLook:
    """Looks at the files of one machine in one root."""

    def __init__(self, root: Root, log: MachineLog, clock: Clock = system_clock) -> None:
        self.root = root
        self.log = log
        self._clock = clock
        self.sync_file = folder_of(root) / f"{log.machine}.json"

    def contents(self, state: Machine) -> dict[str, bytes | None]:
        """Return what each of the files holds now."""
        return {path: content_within(self.root.path, path) for path in rendered(state)}

    def news(
        self, contents: dict[str, bytes | None], taken: Container[bytes | None] = frozenset()
    ) -> News:
        """Return what to record of the files before they are written.

        ``taken`` are versions of files that were taken over already.
        """
        sync = read_sync(self.sync_file)
        newest, shown = self._shown(min((left.version for left in sync.files.values()), default=0))
        state = newest or self.log.current()
        news = News(state, state.head)
        now = utc_text(self._clock())
        # A phase may ask for its tasks, and their file comes last.
        for path, found in reversed(contents.items()):
            left, expected = sync.files.get(path), rendered(news.state)[path]
            if found in taken or _is_ours(shown.get(path, ()), left, expected, found):
                continue
            known = self._amounts(news.state, path, left, found, now)
            if known is None or known.left:
                base = left.version if left is not None else 0
                news.left.append(LeftForeign(path, found, base, known))
            if known is not None and known.taken:
                news.taken[path], news.state = known.taken, known.state
        return news

    def _amounts(
        self, state: Machine, path: str, left: Synced | None, found: bytes | None, now: str
    ) -> Walk | None:
        """Return what a file that somebody else changed amounts to, None if it cannot be read."""
        document, base = decoded(found), decoded(self._base(state, path, left))
        if document is None or base is None or rendered(state)[path].startswith(found or b""):
            return None
        return _walked(self.root.path, state, path, base, document, now)

    def _base(self, state: Machine, path: str, left: Synced | None) -> bytes:
        """Return the file as it was left here: as the log had it then, or an import found it."""
        if left is None:
            return rendered(state)[path]
        # A log that was cut short since then has it at its end at best.
        then = self.log.state(min(left.version, state.head)) if left.version else None
        shown = rendered(then).get(path, b"") if then is not None else b""
        if digest(shown) == left.sha256:
            return shown
        kept = kept_before(self.root, kept_name(state, path), left.sha256)
        return kept or shown or rendered(state)[path]

    def foreseen(self) -> News:
        """Return what the next write would make of the files, without recording anything."""
        state = self.log.current()
        if not is_writer(self.root, self.log.store, state):
            return News(state, state.head)
        news = self.news(self.contents(state))
        if news.taken:
            # What a caller expects is a version of the log.
            news.state = news.state.draft()
            news.state.head = state.head
        else:
            news.state = state
        return news

    def _shown(self, after: int) -> tuple[Machine | None, dict[str, set[str | None]]]:
        """Return the newest state after a version, and what each file may have shown since.

        Those are digests of what was written, and of foreign versions, None for a missing file.
        """
        newest: Machine | None = None
        head = self.log.store.head(self.log.stream)
        shown: dict[str, set[str | None]] = {}
        if head is None or after >= head.version:
            return None, shown  # nothing came since, or the log was cut short
        for event, state in self.log.steps(after):
            newest = state
            for path, content in rendered(state).items():
                shown.setdefault(path, set()).add(digest(content))
            if event.type == "drift.detected":
                shown.setdefault(event.data["file"], set()).add(event.data["found_sha256"])
        return newest, shown

    def waiting(self, state: Machine, file: str | None, version: int | None) -> Drift:
        """Return the hand edit that is meant, the newest if several wait; raises `NotFound`."""
        for drift in reversed(state.drifts):
            if file in (None, drift.file) and version in (None, drift.version):
                return drift
        raise NotFound(
            f"no hand edit of {file or 'a file'} of {state.id} waits for a decision",
            machine=state.id,
            file=file,
        )

    def adoption(self, state: Machine, drift: Drift, only: Sequence[str] = ()) -> list[Payload]:
        """Return the commands that take a hand edit over, through the rules as if asked for.

        With ``only`` some fields, the others wait on. Raises `InvalidInput` for a field that was
        not edited, and what the rules say to a change that only an event of the protocol could
        make.
        """
        role = next(role for role, path in paths(state).items() if path == drift.file)
        found = decoded(content_within(self.root.path, drift.kept_as))
        if found is None:
            raise InvalidInput(
                f"{drift.kept_as}: there is nothing in it to adopt (missing, or no JSON object); "
                f"`wfctl machine drift {state.id} --revert` goes on with the file as the log has "
                "it.",
                kept_as=drift.kept_as,
            )
        base = documents(self.log.current(drift.base) if drift.base else state)[role]
        current = documents(state)[role]
        edits = [
            leaf
            for one in differences(base, found)
            for leaf in _leaves(one)
            # A field that was taken over before is an edit no longer.
            if look(current, _path_of(leaf)) != look(found, _path_of(leaf))
        ]
        named = {_named(role, _path_of(one)): one for one in edits}
        chosen = _chosen(list(named), only)
        wanted = applied(base, found, [named[name] for name in chosen])
        now = utc_text(self._clock())
        known = _walked(self.root.path, state, drift.file, base, wanted, now)
        commands = [*known.asked, *_updates(role, known, wanted)]
        if len(chosen) < len(edits):
            return commands  # the other fields wait on
        return [*commands, DriftAdopted(file=drift.file, detected=drift.version)]


def _is_ours(
    known: Container[str | None], left: Synced | None, expected: bytes, found: bytes | None
) -> bool:
    if found is None:
        return left is None or None in known
    sha = digest(found)
    return found == expected or sha in known or (left is not None and left.sha256 == sha)


def is_as_imported(state: Machine, left: Synced | None, found: bytes | None) -> bool:
    """Whether a file is as an import found it, and nothing was recorded since: it stays so."""
    is_source = left is not None and left.version == 0 and state.head == 1
    return is_source and found is not None and left is not None and digest(found) == left.sha256


def undecided(state: Machine, file: str, found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those differences of a recorded edit that were not taken over since."""
    role = next((role for role, path in paths(state).items() if path == file), None)
    if role is None:
        return list(found)
    now = documents(state)[role]
    return [one for one in found if look(now, tuple(one["path"])) != one["new"]]


def _chosen(edits: list[str], only: Sequence[str]) -> list[str]:
    """Return the edited fields that are at or below one of ``only``; all if that is empty."""
    wanted: set[str] = set()
    for name in only:
        below = {path for path in edits if path == name or path.startswith(f"{name}.")}
        if not below:
            raise InvalidInput(
                f"{name} is no field that was edited; these were: {', '.join(edits) or 'none'}",
                field=name,
                edited=edits,
            )
        wanted |= below
    return [path for path in edits if not only or path in wanted]


def _updates(role: str, known: Walk, found: Document) -> list[Payload]:
    """Return one update for what no event of the protocol says; raises what the rules said."""
    changes: dict[str, Any] = {}
    removed: list[str] = []
    for one, _ in known.left:
        for refusal in _refusals(known, one):
            raise refusal
        whole = _path_of(one)
        path = tuple(takewhile(is_field, whole)) or whole[:1]
        if one.kind == "removed" and path == whole:
            removed.append(_named(role, path))
        else:
            changes[_named(role, path)] = look(found, path)
    if not (changes or removed):
        return []
    listed = [change_of(path, value) for path, value in changes.items()]
    layout = layout_of([change.model_dump(mode="json") for change in listed])
    return [MachineUpdated(changes=listed, layout=layout, removed=removed)]


def _named(role: str, path: tuple[str, ...]) -> str:
    is_apart = role == "execution" and path[0] != "tasks"
    return ".".join(("execution", *path) if is_apart else path)
