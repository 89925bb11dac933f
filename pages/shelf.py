"""What is served: workflows, each with its address, and the state that was last folded of it."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

from eventstore.chain import START, Link
from lifecycle.state.workflow import Amendment, Stage, Workflow
from projections.words.account import Seen, waits
from service.errors import NotFound
from service.reading.log import WorkflowLog

#: States that are kept between two requests; what is not kept is read again.
_KEPT = 12
Opening = Callable[[], AbstractContextManager[WorkflowLog]]


@dataclass(frozen=True, slots=True)
class Sight:
    """What is seen beside the log, by those who know how to look.

    ``tail`` returns the last lines that a stage's job printed here; ``seen`` what a look at the
    files found; ``impact`` what the approval of an amendment would bring about, a sentence each.
    """

    tail: Callable[[Path, WorkflowLog, Workflow, Stage], str]
    seen: Callable[[Path, WorkflowLog, Workflow], Seen]
    impact: Callable[[Path, Workflow, Amendment], list[str]]


@dataclass(frozen=True, slots=True)
class ServedRoot:
    """One workflow: ``name`` is its id, ``root`` its folder, None where only its log is known."""

    name: str
    root: Path | None
    open: Opening
    where: str
    key: str = ""

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
    shared = {one.where: sha256(one.where.encode()).hexdigest()[:8] for one in entries}
    return [
        replace(one, key=one.name if counts[one.name] == 1 else f"{one.name}~{shared[one.where]}")
        for one in entries
    ]


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
