"""What is served: workflows with the state last folded of each; their events, and news of them."""

from __future__ import annotations

import json
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from threading import Condition, Lock, Thread
from typing import Any, NamedTuple
from urllib.parse import quote

from eventstore.chain import START, Link
from eventstore.event import RecordedEvent
from lifecycle.state.workflow import Amendment, Stage, Workflow
from projections.words.account import Seen, waits
from projections.words.answers import answers
from service.errors import NotFound
from service.reading.log import WorkflowLog

#: States that are kept between two requests; what is not kept is read again.
_KEPT = 12
Opening = Callable[[], AbstractContextManager[WorkflowLog]]


@dataclass(frozen=True, slots=True)
class Sight:
    """What is seen beside the log, by those who know how to look.

    ``tail`` returns the last lines that a stage's newest attempt printed here; ``printed`` those of
    one that is named, on stdout or, if true, on stderr; ``seen`` what a look at the files found;
    ``impact`` what the approval of an amendment would bring about, a sentence each; ``counts`` how
    many tasks of a sweep stand where, ``tasks`` a record of each, as its table has them.
    """

    tail: Callable[[Path, WorkflowLog, Workflow, Stage], str]
    printed: Callable[[Path, WorkflowLog, Workflow, Stage, str, bool], str]
    seen: Callable[[Path, WorkflowLog, Workflow], Seen]
    impact: Callable[[Path, Workflow, Amendment], list[str]]
    counts: Callable[[Path, Workflow, Stage], dict[str, int] | None]
    tasks: Callable[[Path, Workflow, Stage], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class ServedRoot:
    """One workflow: ``name`` is its id, ``root`` its folder, None if only its log is known."""

    name: str
    root: Path | None
    open: Opening
    where: str
    key: str = ""
    #: The archive that it was unpacked from, to be looked at: no command is for it.
    archive: str | None = None

    @property
    def address(self) -> str:
        """The path of its page, which ends in a slash."""
        return f"/w/{quote(self.key or self.name, safe='')}/"

    @property
    def command(self) -> str:
        """What a command line for it begins with, from whatever folder."""
        if self.root is None:
            return "wfctl"
        from shlex import quote as as_word

        return f"wfctl --root {as_word(str(self.root))}"


def keyed(entries: Sequence[ServedRoot]) -> list[ServedRoot]:
    """Return the entries with a key each: the id, and where several share it a digest behind it."""
    counts = Counter(entry.name for entry in entries)
    return [
        replace(one, key=one.name if counts[one.name] == 1 else f"{one.name}~{_digest(one.where)}")
        for one in entries
    ]


def _digest(where: str) -> str:
    return sha256(where.encode("utf-8", "surrogateescape")).hexdigest()[:8]


@dataclass(slots=True)
class _Kept:
    lock: Lock = field(default_factory=Lock)
    state: Workflow | None = None
    link: Link = START


class Shelf:
    """All that is served, looked at by many threads at once."""

    def __init__(self, find: Callable[[], Sequence[ServedRoot]], sight: Sight) -> None:
        self._find = find
        self.sight = sight
        self._lock = Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._entries: dict[str, ServedRoot] = {}
        self.refresh()

    def refresh(self) -> list[ServedRoot]:
        """Return what there is now: workflows may come and go."""
        found = keyed(self._find())
        with self._lock:
            self._entries = {entry.key: entry for entry in found}
        return found

    def entry(self, key: str) -> ServedRoot:
        """Return the entry of a key; raises `NotFound`."""
        if key not in self._entries:
            self.refresh()
        if key not in self._entries:
            raise NotFound(f"no workflow {key!r:.200} is served here; the list names them all")
        return self._entries[key]

    def state(self, entry: ServedRoot, log: WorkflowLog) -> Workflow:
        """Return the state now, folded on from before; raises as `WorkflowLog.current` does."""
        kept = self._place(entry.key)
        with kept.lock:
            head = log.store.head(log.stream)
            if head is None:
                return log.current()  # which says what is missing
            if kept.state is None or head.version < kept.link.version:
                kept.state = log.current(head.version)
            elif head.version > kept.link.version:
                since = log.store.read(log.stream, after=kept.link, upto=head.version)
                kept.state = log.evolve(kept.state, since)
            elif head.hash != kept.link.hash:
                kept.state = log.current(head.version)  # the log was put back and grew again
            kept.link = Link(head.version, head.hash)
            return kept.state or log.current()

    def _place(self, key: str) -> _Kept:
        with self._lock:
            kept = self._kept.setdefault(key, _Kept())
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return kept

    def running(
        self, entry: ServedRoot, log: WorkflowLog, state: Workflow, most: int
    ) -> dict[str, str]:
        """Return by stage the last lines of what runs, of so many stages at most."""
        if entry.root is None:
            return {}
        at_work = [stage for stage in state.stages.values() if stage.open_attempt is not None]
        return {one.id: self.sight.tail(entry.root, log, state, one) for one in at_work[:most]}


def record(entry: ServedRoot, state: Workflow | None, note: str | None = None) -> dict[str, Any]:
    """Return a line of the list: what waits for a person, and how far it is."""
    counts = Counter(stage.status.value for stage in state.stages.values()) if state else Counter()
    every = waits(state) if state else []
    failed = [one.subject for one in every if one.kind == "failure"]
    told = [one for one in every if one.kind != "failure"]
    return {
        "entry": entry,
        "state": state,
        "counts": counts,
        "answers": [str(one) for one in answers(state) if one.number] if state else [],
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


#: Versions that are read at once, and versions that one page looks through at most.
_PIECE, _FAR = 1000, 20_000
#: Begins a needle that is sought in any case; no text of an event holds it unescaped.
_FOLDED = "\0"


class FoundEvents(NamedTuple):
    """Events, the newest first; ``before`` is where to look on, None at the log's beginning."""

    events: list[RecordedEvent]
    before: int | None


def newest(
    log: WorkflowLog,
    before: int,
    most: int,
    fits: Callable[[RecordedEvent], bool],
    needles: Sequence[Sequence[str]] = (),
) -> FoundEvents:
    """Return at most ``most`` events below version ``before`` that fit.

    Of each group of ``needles`` the text of an event has one at least (`quoted`, `written`): what
    has none is not decoded.
    """
    found: list[RecordedEvent] = []
    end = before - 1
    last = max(end - _FAR, 0)
    while end > last:
        start = max(end - _PIECE, last)
        for event in reversed(list(_held(log, start, end, needles))):
            if fits(event):
                found.append(event)
            if len(found) == most:
                return FoundEvents(found, event.version if event.version > 1 else None)
        end = start
    return FoundEvents(found, end + 1 if end else None)


def _held(
    log: WorkflowLog, start: int, end: int, needles: Sequence[Sequence[str]]
) -> Iterator[RecordedEvent]:
    """Yield the events of a piece that have a needle of each group, each held to its place."""
    if not needles:
        yield from log.store.read(log.stream, after=start, upto=end)
        return
    is_lower = any(needle.startswith(_FOLDED) for group in needles for needle in group)
    groups = [[needle.removeprefix(_FOLDED) for needle in group] for group in needles]
    for version, raw in enumerate(log.store.raw(log.stream, after=start, upto=end), start + 1):
        text = raw.text.casefold() if is_lower else raw.text
        if all(any(needle in text for needle in group) for group in groups):
            yield from log.store.read(log.stream, after=version - 1, upto=version)


def quoted(value: str) -> str:
    """Return the needle of a whole value, such as an id or a type."""
    return json.dumps(value, ensure_ascii=False)


def written(part: str) -> str:
    """Return the needle of a part of a text, in any case."""
    return _FOLDED + quoted(part)[1:-1].casefold()


def holds(event: RecordedEvent, text: str) -> bool:
    """Whether a text stands anywhere in the values of an event, in any case."""
    return text.casefold() in _text(event.body).casefold()


def _text(value: Any) -> str:
    inner = value.values() if isinstance(value, dict) else value
    return "\n".join(map(_text, inner)) if isinstance(value, (dict, list)) else str(value)


#: Seconds that one wait for an event takes at most: with a job at work, whose lines are looked at.
_AT_REST, _AT_WORK = 3.0, 1.0
#: Seconds before a log that cannot be read is opened again.
_AGAIN = 1.0
#: Stages whose lines are watched.
_TAILS = 8


class Pulses:
    """The newest mark of each workflow that somebody looks at.

    A mark changes with the log's head and with what its jobs print: ``12.3fa9``.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._changed = Condition()
        self._marks: dict[str, str] = {}
        self._listeners: dict[str, int] = {}

    @contextmanager
    def heard(self, entries: list[ServedRoot]) -> Iterator[None]:
        """Watch the workflows for as long as somebody listens."""
        for entry in entries:
            with self._changed:
                number = self._listeners.get(entry.key)
                self._listeners[entry.key] = (number or 0) + 1
                if number is None:
                    Thread(target=self._watch, args=(entry,), daemon=True).start()
        try:
            yield
        finally:
            with self._changed:
                for entry in entries:
                    self._listeners[entry.key] -= 1

    def after(self, entries: list[ServedRoot], seen: str, seconds: float) -> str:
        """Return the mark of the workflows as soon as it is not ``seen``, or after so long."""
        with self._changed:
            self._changed.wait_for(lambda: self._mark(entries) not in ("", seen), seconds)
            return self._mark(entries)

    def _mark(self, entries: list[ServedRoot]) -> str:
        marks = [self._marks.get(entry.key, "") for entry in entries]
        if len(marks) == 1 or not all(marks):
            return marks[0] if len(marks) == 1 else ""
        return sha256("\n".join(marks).encode()).hexdigest()[:16]

    def _watch(self, entry: ServedRoot) -> None:
        while not self._ended(entry):
            try:
                with entry.open() as log:
                    position = 0
                    while not self._ended(entry):
                        state = self._shelf.state(entry, log)
                        tails = self._shelf.running(entry, log, state, _TAILS)
                        self._tell(entry, state.head, tails)
                        position = log.store.wait(position, _AT_WORK if tails else _AT_REST)
            except Exception as error:  # noqa: BLE001 - a watcher that dies leaves pages that lie
                self._tell(entry, -1, {"": repr(error)})
                time.sleep(_AGAIN)

    def _ended(self, entry: ServedRoot) -> bool:
        """Whether nobody listens any more; the next who does begins a new thread."""
        with self._changed:
            if self._listeners.get(entry.key, 0) > 0:
                return False
            self._listeners.pop(entry.key, None)
            self._marks.pop(entry.key, None)
            return True

    def _tell(self, entry: ServedRoot, version: int, tails: dict[str, str]) -> None:
        digest = sha256(repr(sorted(tails.items())).encode()).hexdigest()[:8]
        mark = f"{version}.{digest}"
        with self._changed:
            if self._marks.get(entry.key) != mark:
                self._marks[entry.key] = mark
                self._changed.notify_all()
