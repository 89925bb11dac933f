"""The approvals of one log, judged one after another as the log is folded; and its pins.

A pin is what this login knows of a log from elsewhere than the log: one file a root in the user's
configuration, outside every root. For each log that the root has it holds the hash of its first
event and the digest of the allowed signers. A history written anew from its first event has another
hash, whatever its chain says; so has another log that was put there. What judging needs beside is
loaded with the first approval: a log without any pays nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from eventstore.event import RecordedEvent
from eventstore.private import make_own_folder
from eventstore.store import EventStore
from lifecycle.errors import NeedsConsent
from service.errors import ServiceError
from service.root.disk import config_folder, write_whole
from wording import Worded

if TYPE_CHECKING:
    from service.consent.proof import Policy

_SIGNATURE = "signature"
#: What the text of an event holds that chose this policy, for a new workflow or later.
_CHOSEN = ('"consent":"signature"', '"consent":{"new":"signature"')


class Judged(Protocol):
    """A state that approvals are judged in."""

    consent: str


S = TypeVar("S", bound=Judged)
S_contra = TypeVar("S_contra", bound=Judged, contravariant=True)


class Judging(Protocol[S_contra]):
    """Which events of a stream count only if nothing speaks against them."""

    #: Their types; those that carry a proof count only in a log that this login knows.
    judged: frozenset[str]
    proven: frozenset[str]

    def objection(self, state: S_contra, event: RecordedEvent, at: str) -> str | None:
        """Return why one, recorded by the time ``at``, is ignored; None: it counts."""
        ...


class Judge(Generic[S]):
    """Judges the events of a stream one by one as it is folded.

    ``accepted`` holds the hash of the event that the fold takes up next, where it counts.
    ``latest`` is the latest time at which an event up to it was recorded.
    """

    def __init__(self, approvals: Approvals, rules: Judging[S]) -> None:
        self.accepted: set[str] = set()
        self.latest = ""
        self._approvals = approvals
        self._rules = rules
        self._verdicts: dict[tuple[str, str], str | None] = {}

    def judged(
        self, events: Iterator[RecordedEvent], reached: Callable[[], S | None], latest: str = ""
    ) -> Iterator[RecordedEvent]:
        """Yield the events, each judged in the state before it."""
        for event in events:
            self.latest = latest = max(latest, event.recorded_at)
            self.accepted.clear()
            state = reached() if event.type in self._rules.judged else None
            if state is not None:
                # Both are of bytes and place, whatever a row says (`eventstore.sql`): so a
                # verdict is kept by the statement, which holds the link, and the signature, which
                # the hash covers.
                key = (event.prev_hash, event.hash)
                if key not in self._verdicts:
                    swapped = event.type in self._rules.proven and self._approvals.pin_objection()
                    self._verdicts[key] = swapped or self._rules.objection(state, event, latest)
                if self._verdicts[key] is None:
                    self.accepted.add(event.hash)
            yield event

    def verdict_on(self, event: RecordedEvent) -> str | None:
        """Return why an event that was folded does not count, None if it does."""
        return self._verdicts.get((event.prev_hash, event.hash))


class Approvals:
    """What this login pinned of a log, by which its approvals count."""

    def __init__(self, store: EventStore, stream: str, root: Path | None) -> None:
        self.store = store
        self.stream = stream
        self.root = root

    def first_hash(self) -> str | None:
        """Return the hash of the first event's text, whatever its row says."""
        first = next(self.store.raw(self.stream, upto=1), None)
        return sha256(first.text.encode("utf-8", "surrogateescape")).hexdigest() if first else None

    def pin_objection(self) -> str | None:
        """Return what speaks against the log as a whole, by what this login pinned in its root."""
        pins = self.pinned_here()
        if not pins or self.first_hash() in {pin.first for pin in pins}:
            return None
        return (
            f"the log's first event is not the one that this login pinned in {self.root}: "
            f"{pins[-1].stream} was pinned there"
        )

    def require_not_swapped(self) -> None:
        """Raise `AnotherLog` if this login pinned another log in the root than the one here.

        A log without events has no policy yet: its first event asks nobody.
        """
        why = self.pin_objection()
        if why is not None and self.first_hash() is not None:
            raise AnotherLog(why, self.stream, [pin.first for pin in self.pinned_here()])

    def is_pinned(self) -> bool:
        """Whether this login pinned the log, here or where it was before."""
        return any(pin.first == self.first_hash() for pin in self._pins_known())

    def namesake(self) -> str | None:
        """Return where this login pinned another log of the same id; None if this one is known.

        A log that is new to this login may have been put in the place of one that it knows.
        """
        if self.is_pinned():
            return None
        roots = [pin.root for pin in self._pins_known() if pin.stream == self.stream]
        return roots[-1] if roots else None

    def pin(self, state: Policy) -> None:
        """Keep outside the root what the log is known by, unless another is pinned there.

        That one is replaced by a person alone: `repin`.
        """
        if self.pin_objection() is None:
            self.repin(state)

    def repin(self, state: Policy) -> None:
        """Keep what the log is known by, whatever was pinned in its root before."""
        from eventstore.chain import canonical, digest

        signers = digest(canonical(state.signers))
        first, root = str(self.first_hash()), self.root or Path()
        _keep_pin(root, Pin(first, state.consent, signers, str(root), self.stream))

    def pinned_here(self) -> list[Pin]:
        """Return what this login pinned in the log's root, for a log of this kind."""
        return pinned_at(self.root, self.stream) if self.root is not None else []

    def _pins_known(self) -> list[Pin]:
        files = sorted((_folder() / "roots").glob("*.json"))
        return [*self.pinned_here(), *(pin for path in files for pin in _read(path)), *_older()]

    def bars_stored_folds(self, state: Judged, after: int) -> bool:
        """Whether the state must come from the log's events alone, not from a kept copy.

        If consent is by ``signature``, or ever was, a raw write must change nothing, and a kept
        copy is a row like others. Up to the version ``after`` the caller knows that it never was.
        """
        if _SIGNATURE in (state.consent, *(pin.policy for pin in self.pinned_here())):
            return True
        texts = (row.text for row in self.store.raw(self.stream, after=after))
        if any(words in text for text in texts for words in _CHOSEN):
            return True
        first = self.first_hash()
        return any(p.policy == _SIGNATURE and p.first == first for p in self._pins_known())


_WORKFLOW = "workflow-"


class Pin(NamedTuple):
    """One log as it was when this login made it or agreed to its policy.

    ``first`` is the hash of its first event, ``signers`` the digest of its signers, ``root`` the
    place that it is pinned at.
    """

    first: str
    policy: str
    signers: str
    root: str
    stream: str

    @property
    def place(self) -> str:
        """What there is one of in a root: the staged workflow, or a machine of an id."""
        return place_of(self.stream)


class UnreadablePins(ServiceError):
    """A pins file that is not what wfctl writes; nothing is trusted on its word."""

    code = "unreadable_pins"


class AnotherLog(Worded, NeedsConsent):
    """Nothing is begun or changed by a log that is not the one that is pinned in its root."""

    code = "another_log"
    text = (
        "{why}. Nothing was begun or changed; what only reads shows the log. Put the pinned "
        "one back, or, where this one is as it should be, a person runs `wfctl pin --replace`."
    )
    untold = ("why",)
    why: str
    stream: str
    pinned: list[str]


def place_of(stream: str) -> str:
    """Return what a stream is in its root: a root has one workflow, whatever its id."""
    return "workflow" if stream.startswith(_WORKFLOW) else stream


def pinned_at(root: Path, stream: str) -> list[Pin]:
    """Return the pins of the workflow, or of the machine, in a root; raises `UnreadablePins`."""
    pins = [*_read(_file_of(root)), *(pin for pin in _older() if pin.root == str(root))]
    return [pin for pin in pins if pin.place == place_of(stream)]


def _keep_pin(root: Path, pin: Pin) -> None:
    """Keep the pin of a log in its root, in place of what was pinned there."""
    path = _file_of(root)
    others = [known for known in _read(path) if known.place != pin.place]
    make_own_folder(path.parent)
    pins = [one._asdict() for one in (*others, pin)]
    _write(path, {"format": 2, "root": str(root), "pins": pins})
    for older in sorted(_folder().glob("*.json")):
        entries = _entries(older)
        same = place_of(_older_stream(older)) == pin.place
        left = [entry for entry in entries if not (same and entry["root"] == str(root))]
        if left != entries:
            _write(older, {"format": 1, "pins": left})


def _folder() -> Path:
    return config_folder() / "pins"


def _file_of(root: Path) -> Path:
    name = sha256(os.fsencode(root)).hexdigest()[:40]
    return _folder() / "roots" / f"{name}.json"


def _read(path: Path) -> list[Pin]:
    return [Pin(**entry) for entry in _entries(path)]


def _entries(path: Path) -> list[dict[str, Any]]:
    try:
        entries = json.loads(path.read_text("utf-8"))["pins"]
        names = {"first", "policy", "signers", "root"}
        if all(names <= set(entry) <= names | {"stream"} for entry in entries):
            return list(entries)
        raise ValueError(f"a pin has {', '.join(sorted(names))}")
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadablePins(
            f"{path}: expected the pins that wfctl wrote, found something else ({error}); move it "
            "away to go on without pins.",
            path=str(path),
        ) from error


def _older() -> Iterator[Pin]:
    """Yield the pins of the earlier form: one file a workflow id, one pin a log."""
    for path in sorted(_folder().glob("*.json")):
        for entry in _entries(path):
            yield Pin(**entry, stream=_older_stream(path))


def _older_stream(path: Path) -> str:
    return path.stem if path.stem.startswith("machine-") else f"{_WORKFLOW}{path.stem}"


def _write(path: Path, content: dict[str, Any]) -> None:
    write_whole(path, json.dumps(content, indent=1).encode() + b"\n")
