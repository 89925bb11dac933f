"""The workflows that the server shows, with cached states, searches, and change marks."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from threading import Condition, Lock, Thread
from typing import Any
from urllib.parse import quote

from eventstore.chain import START, Link
from eventstore.event import RecordedEvent
from lifecycle.state.workflow import Amendment, Stage, Workflow
from projections.words.account import FileCheckResult, list_waiting_items
from projections.words.format_results import list_named_results
from projections.words.stage_progress import StageProgress
from service.errors import NotFound
from service.reading.log import WorkflowLog
from service.root.root import (
    Root,
    describe_copy_source,
    is_same,
    read_identity,
    read_recorded_identity,
)

#: Maximum number of workflow states to keep between requests. Any other state is computed again.
_KEPT = 12
Opening = Callable[[], AbstractContextManager[WorkflowLog]]


@dataclass(frozen=True, slots=True)
class DataReaders:
    """Functions that read data outside the event log.

    - ``tail`` returns the last output lines of a stage's newest attempt.
    - ``printed`` returns the last lines that an attempt printed on stdout, or on stderr if its last
      argument is true.
    - ``seen`` returns the differences that a check of the files finds.
    - ``impact`` returns sentences about the effects of approving an amendment (plan change).
    - ``progress`` returns the progress of a running stage or of a sweep, or None if it is unknown.
    - ``tasks`` returns a record of each task of a sweep.
    """

    tail: Callable[[Path, WorkflowLog, Workflow, Stage], str]
    printed: Callable[[Path, WorkflowLog, Workflow, Stage, str, bool], str]
    seen: Callable[[Path, WorkflowLog, Workflow], FileCheckResult]
    impact: Callable[[Path, Workflow, Amendment], list[str]]
    progress: Callable[[Path, Workflow, Stage], StageProgress | None]
    tasks: Callable[[Path, Workflow, Stage], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class ServedRoot:
    """A workflow that the server shows.

    ``name`` is its id. ``root`` is its folder, or None if only its log is available.
    """

    name: str
    root: Path | None
    open: Opening
    where: str
    key: str = ""
    #: The archive file from which this workflow was unpacked, if any. No commands are suggested for
    #: it.
    archive: str | None = None

    @property
    def address(self) -> str:
        """The URL path of the workflow's page, with a final slash."""
        return f"/w/{quote(self.key or self.name, safe='')}/"

    @property
    def command(self) -> str:
        """The first words of a command for this workflow, which work in any folder."""
        if self.root is None:
            return "wfctl"
        from shlex import quote as as_word

        return f"wfctl --root {as_word(str(self.root))}"


def assign_keys(entries: Sequence[ServedRoot]) -> list[ServedRoot]:
    """Return the workflows with unique keys for their addresses.

    The key is the id of the workflow. If several workflows have the same id, the keys of copies
    have a digest as well, so that links to the original stay valid.
    """
    counts = Counter(entry.name for entry in entries)
    alike = [one for one in entries if counts[one.name] > 1]
    originals = [one for one in alike if _is_at_recorded_place(one)]
    unique = Counter(one.name for one in originals)
    return [
        replace(
            one,
            key=one.name
            if counts[one.name] == 1 or (one in originals and unique[one.name] == 1)
            else f"{one.name}~{_short_digest(one.where)}",
        )
        for one in entries
    ]


def _is_at_recorded_place(entry: ServedRoot) -> bool:
    """Return whether the folder of a workflow is at its recorded place, and is not a copy."""
    if entry.root is None:
        return False
    try:
        root = Root(entry.root)
        with entry.open() as log:
            first = log.store.read(log.stream, upto=1)
            known = read_recorded_identity(root, lambda: next(iter(first), None))
        return is_same(known, read_identity(entry.root)) and describe_copy_source(root) is None
    except Exception:  # noqa: BLE001 - one that is broken hides no other; its page says why
        return False


def _short_digest(where: str) -> str:
    return sha256(where.encode("utf-8", "surrogateescape")).hexdigest()[:8]


@dataclass(slots=True)
class _Kept:
    lock: Lock = field(default_factory=Lock)
    state: Workflow | None = None
    link: Link = START


class ServedWorkflows:
    """All workflows that the server shows. Several threads can use this object."""

    def __init__(self, find: Callable[[], Sequence[ServedRoot]], sight: DataReaders) -> None:
        self._find = find
        self.sight = sight
        self._lock = Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._entries: dict[str, ServedRoot] = {}
        self.refresh()

    def refresh(self) -> list[ServedRoot]:
        """Return the workflows to show, after searching for added and removed workflows."""
        found = assign_keys(self._find())
        with self._lock:
            self._entries = {entry.key: entry for entry in found}
        return found

    def entries(self) -> list[ServedRoot]:
        """Return the workflows that the last search found."""
        return [*self._entries.values()]

    def entry(self, key: str) -> ServedRoot:
        """Return the workflow with a key. Raise `NotFound` for an unknown key."""
        if key not in self._entries:
            self.refresh()
        if key not in self._entries:
            # A link to a copy stays valid when the original is no longer listed.
            for one in self._entries.values():
                if key == f"{one.name}~{_short_digest(one.where)}":
                    return one
            raise NotFound(
                f"this server has no workflow {key!r:.200}. Select a workflow in the list of "
                "workflows"
            )
        return self._entries[key]

    def state(self, entry: ServedRoot, log: WorkflowLog) -> Workflow:
        """Return the current state of a workflow, from its cached state and new events.

        Raises the errors of `WorkflowLog.current`.
        """
        kept = self._get_place(entry.key)
        with kept.lock:
            head = log.store.head(log.stream)
            if head is None:
                return log.current()  # This call raises the error that says what is missing.
            if kept.state is None or head.version < kept.link.version:
                kept.state = log.current(head.version)
            elif head.version > kept.link.version:
                since = log.store.read(log.stream, after=kept.link, upto=head.version)
                kept.state = log.evolve(kept.state, since)
            elif head.hash != kept.link.hash:
                kept.state = log.current(head.version)  # The log was restored and has grown again.
            kept.link = Link(head.version, head.hash)
            return kept.state or log.current()

    def _get_place(self, key: str) -> _Kept:
        with self._lock:
            kept = self._kept.setdefault(key, _Kept())
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return kept

    def running(
        self, entry: ServedRoot, log: WorkflowLog, state: Workflow, most: int
    ) -> dict[str, str]:
        """Return the last output lines of at most ``most`` running stages, by stage id."""
        if entry.root is None:
            return {}
        at_work = [stage for stage in state.stages.values() if stage.open_attempt is not None]
        return {one.id: self.sight.tail(entry.root, log, state, one) for one in at_work[:most]}


def build_listing_row(
    entry: ServedRoot, state: Workflow | None, note: str | None = None
) -> dict[str, Any]:
    """Return the row of a workflow in the list, with its open decisions and its progress."""
    counts = Counter(stage.status.value for stage in state.stages.values()) if state else Counter()
    every = list_waiting_items(state) if state else []
    failed = [one.subject for one in every if one.kind == "failure"]
    told = [one for one in every if one.kind != "failure"]
    return {
        "entry": entry,
        "state": state,
        "counts": counts,
        "answers": [str(one) for one in list_named_results(state) if one.number] if state else [],
        "waits": told,
        "failed": failed,
        "note": note,
        "urgency": (
            not told,
            not failed,
            not (counts["running"] + counts["preparing"] + counts["post_processing"]),
        ),
        "updated": state.updated if state else "",
    }


#: Number of events to read at once, and maximum number of events to search for one page.
_PIECE, _FAR = 1000, 20_000


def contains_text(event: RecordedEvent, text: str) -> bool:
    """Return whether any value in an event contains a text, ignoring case."""
    return text.casefold() in _join_values(event.body).casefold()


def _join_values(value: Any) -> str:
    inner = value.values() if isinstance(value, dict) else value
    return "\n".join(map(_join_values, inner)) if isinstance(value, (dict, list)) else str(value)


#: Maximum number of seconds to wait for a new event: without running jobs, and with running jobs.
_AT_REST, _AT_WORK = 3.0, 1.0
#: Seconds to wait before a log that could not be read is opened again.
_AGAIN = 1.0
#: Maximum number of running stages whose output is watched for changes.
_TAILS = 8


class ChangeWatcher:
    """Watches workflows, and provides a change mark for each of them.

    A mark, such as ``12.3fa9``, changes with the log and with the output of running jobs.
    """

    def __init__(self, shelf: ServedWorkflows) -> None:
        self._shelf = shelf
        self._changed = Condition()
        self._marks: dict[str, str] = {}
        self._listeners: dict[str, int] = {}

    @contextmanager
    def watch_workflows(self, entries: list[ServedRoot]) -> Iterator[None]:
        """Watch the workflows while the `with` block runs."""
        for entry in entries:
            with self._changed:
                number = self._listeners.get(entry.key)
                self._listeners[entry.key] = (number or 0) + 1
                if number is None:
                    Thread(target=self._watch_workflow, args=(entry,), daemon=True).start()
        try:
            yield
        finally:
            with self._changed:
                for entry in entries:
                    self._listeners[entry.key] -= 1

    def wait_for_change(self, entries: list[ServedRoot], seen: str, seconds: float) -> str:
        """Wait until the mark differs from ``seen`` or time is up, and return the mark."""
        with self._changed:
            self._changed.wait_for(lambda: self._combine_marks(entries) not in ("", seen), seconds)
            return self._combine_marks(entries)

    def _combine_marks(self, entries: list[ServedRoot]) -> str:
        marks = [self._marks.get(entry.key, "") for entry in entries]
        if len(marks) == 1 or not all(marks):
            return marks[0] if len(marks) == 1 else ""
        return sha256("\n".join(marks).encode()).hexdigest()[:16]

    def _watch_workflow(self, entry: ServedRoot) -> None:
        while not self._stop_if_unwatched(entry):
            try:
                with entry.open() as log:
                    position = 0
                    while not self._stop_if_unwatched(entry):
                        state = self._shelf.state(entry, log)
                        tails = self._shelf.running(entry, log, state, _TAILS)
                        self._update_mark(entry, state.head, tails)
                        position = log.store.wait(position, _AT_WORK if tails else _AT_REST)
            except Exception as error:  # noqa: BLE001 - a watcher that dies leaves pages that lie
                self._update_mark(entry, -1, {"": repr(error)})
                time.sleep(_AGAIN)

    def _stop_if_unwatched(self, entry: ServedRoot) -> bool:
        """Return whether nobody listens to a workflow any more. If so, stop watching it."""
        with self._changed:
            if self._listeners.get(entry.key, 0) > 0:
                return False
            self._listeners.pop(entry.key, None)
            self._marks.pop(entry.key, None)
            return True

    def _update_mark(self, entry: ServedRoot, version: int, tails: dict[str, str]) -> None:
        digest = sha256(repr(sorted(tails.items())).encode()).hexdigest()[:8]
        mark = f"{version}.{digest}"
        with self._changed:
            if self._marks.get(entry.key) != mark:
                self._marks[entry.key] = mark
                self._changed.notify_all()
