"""The approvals of one log, judged one by one while the log is folded; and its pins.

A pin is what this user account knows of a log from outside the log: one file for each root in the
user's configuration, outside every root. For each log of the root, it has the hash of the first
event and the digest of the allowed signers. A rewritten history has another first hash, even if its
chain is valid; so has another log in the same place. The code that judges is loaded with the first
approval.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from eventstore.event import RecordedEvent
from eventstore.private_files import make_own_folder
from eventstore.store import EventStore
from lifecycle.errors import NeedsConsent
from service.errors import ServiceError
from service.root.atomic_files import config_folder, write_whole
from wording import Worded

if TYPE_CHECKING:
    from service.consent.proof import Policy

_SIGNATURE = "signature"
#: Text in an event that selects this policy, for a new workflow or later.
_CHOSEN = ('"consent":"signature"', '"consent":{"new":"signature"')


class Judged(Protocol):
    """A state in which approvals are judged."""

    consent: str


S = TypeVar("S", bound=Judged)
S_contra = TypeVar("S_contra", bound=Judged, contravariant=True)


class Judging(Protocol[S_contra]):
    """The rules by which events of a stream are effective only without an objection."""

    #: Types of these events. A proof is valid only in a log that this user account knows.
    judged: frozenset[str]
    proven: frozenset[str]

    def objection(self, state: S_contra, event: RecordedEvent, at: str) -> str | None:
        """Return why an event, recorded by ``at``, is ignored, or None if it is effective."""
        ...


class Judge(Generic[S]):
    """Judges the events of a stream one by one during the fold.

    ``accepted`` has the hash of the next event if it is effective. ``latest`` is the latest
    recording time up to that event.
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
                # Both hashes depend only on bytes and position, whatever a row states.
                # The statement has the link and the hash covers the signature.
                key = (event.prev_hash, event.hash)
                if key not in self._verdicts:
                    swapped = event.type in self._rules.proven and self._approvals.pin_objection()
                    self._verdicts[key] = swapped or self._rules.objection(state, event, latest)
                if self._verdicts[key] is None:
                    self.accepted.add(event.hash)
            yield event

    def verdict_on(self, event: RecordedEvent) -> str | None:
        """Return why a folded event is ignored, None if it is effective."""
        return self._verdicts.get((event.prev_hash, event.hash))


class Approvals:
    """The pins of this user account for a log, by which its approvals are valid."""

    def __init__(self, store: EventStore, stream: str, root: Path | None) -> None:
        self.store = store
        self.stream = stream
        self.root = root

    def first_hash(self) -> str | None:
        """Return the hash of the first event's text, whatever its row states."""
        first = next(self.store.raw(self.stream, upto=1), None)
        return sha256(first.text.encode("utf-8", "surrogateescape")).hexdigest() if first else None

    def pin_objection(self) -> str | None:
        """Return why the log contradicts this user account's pins, None if it does not."""
        pins = self.pinned_here()
        if not pins or self.first_hash() in {pin.first for pin in pins}:
            return None
        return (
            f"this log differs from the log that your user account pinned in {self.root}: the "
            f"first event is not the first event of {pins[-1].stream}"
        )

    def require_not_swapped(self) -> None:
        """Raise `AnotherLog` if this user account pinned another log in the root.

        A log without events has no policy yet, so its first event needs no approval.
        """
        why = self.pin_objection()
        if why is not None and self.first_hash() is not None:
            raise AnotherLog(why, self.stream, [pin.first for pin in self.pinned_here()])

    def is_pinned(self) -> bool:
        """Return whether this user account pinned the log, here or at an earlier place."""
        return any(pin.first == self.first_hash() for pin in self._pins_known())

    def namesake(self) -> str | None:
        """Return where this user account pinned another log of the same id.

        Returns None if this log is pinned. An unknown log may have replaced a known one.
        """
        if self.is_pinned():
            return None
        roots = [pin.root for pin in self._pins_known() if pin.stream == self.stream]
        return roots[-1] if roots else None

    def pin(self, state: Policy) -> None:
        """Pin the log outside the root, unless another log is pinned there.

        Only a person replaces another pin, with `repin`.
        """
        if self.pin_objection() is None:
            self.repin(state)

    def repin(self, state: Policy) -> None:
        """Pin the log, replacing any earlier pin of its root."""
        from eventstore.chain import canonical_json, sha256_hex

        signers = sha256_hex(canonical_json(state.signers))
        first, root = str(self.first_hash()), self.root or Path()
        _keep_pin(root, Pin(first, state.consent, signers, str(root), self.stream))

    def pinned_here(self) -> list[Pin]:
        """Return this user account's pins in the log's root, for a log of this kind."""
        return pinned_at(self.root, self.stream) if self.root is not None else []

    def _pins_known(self) -> list[Pin]:
        files = sorted((_pins_folder() / "roots").glob("*.json"))
        return [
            *self.pinned_here(),
            *(pin for path in files for pin in _read_pins(path)),
            *_read_earlier_pins(),
        ]

    def bars_stored_folds(self, state: Judged, after: int) -> bool:
        """Return whether the state must be folded from events, not taken from a stored copy.

        If consent is or ever was by ``signature``, a direct write to the database must change
        nothing, and a stored copy is a row like others. The caller knows that the policy was
        another one up to version ``after``.
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
    """One log when this user account created it or approved its policy.

    ``first`` is the hash of its first event, ``signers`` the digest of its signers, ``root`` the
    place where it is pinned.
    """

    first: str
    policy: str
    signers: str
    root: str
    stream: str

    @property
    def place(self) -> str:
        """The log's place in a root: the only workflow, or the machine with an id."""
        return place_of(self.stream)


class UnreadablePins(ServiceError):
    """A pins file is damaged, so nothing in it is trusted."""

    code = "unreadable_pins"


class AnotherLog(Worded, NeedsConsent):
    """Nothing is begun or changed by a log that is not the one that is pinned in its root."""

    code = "another_log"
    text = (
        "{why}. Nothing was started or changed; commands that only read still work. Restore "
        "the pinned log. If the new log is the right one, a person runs `wfctl pin "
        "--replace`."
    )
    untold = ("why",)
    why: str
    stream: str
    pinned: list[str]


def place_of(stream: str) -> str:
    """Return the place of a stream in its root: a root has one workflow, whatever its id."""
    return "workflow" if stream.startswith(_WORKFLOW) else stream


def pinned_at(root: Path, stream: str) -> list[Pin]:
    """Return the pins of the workflow or machine in a root. Raises `UnreadablePins`."""
    pins = [
        *_read_pins(_pins_file(root)),
        *(pin for pin in _read_earlier_pins() if pin.root == str(root)),
    ]
    return [pin for pin in pins if pin.place == place_of(stream)]


def _keep_pin(root: Path, pin: Pin) -> None:
    """Store the pin of a log in its root, replacing an earlier pin."""
    path = _pins_file(root)
    others = [known for known in _read_pins(path) if known.place != pin.place]
    make_own_folder(path.parent)
    pins = [one._asdict() for one in (*others, pin)]
    _write_pins(path, {"format": 2, "root": str(root), "pins": pins})
    for older in sorted(_pins_folder().glob("*.json")):
        entries = _read_entries(older)
        same = place_of(_earlier_stream_name(older)) == pin.place
        left = [entry for entry in entries if not (same and entry["root"] == str(root))]
        if left != entries:
            _write_pins(older, {"format": 1, "pins": left})


def _pins_folder() -> Path:
    return config_folder() / "pins"


def _pins_file(root: Path) -> Path:
    name = sha256(os.fsencode(root)).hexdigest()[:40]
    return _pins_folder() / "roots" / f"{name}.json"


def _read_pins(path: Path) -> list[Pin]:
    return [Pin(**entry) for entry in _read_entries(path)]


def _read_entries(path: Path) -> list[dict[str, Any]]:
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
            f"the file {path}, which records the logs that you pinned, is damaged ({error}). To "
            "continue without pins, move the file away.",
            path=str(path),
        ) from error


def _read_earlier_pins() -> Iterator[Pin]:
    """Yield pins of the earlier format: one file for each workflow id, one pin for each log."""
    for path in sorted(_pins_folder().glob("*.json")):
        for entry in _read_entries(path):
            yield Pin(**entry, stream=_earlier_stream_name(path))


def _earlier_stream_name(path: Path) -> str:
    return path.stem if path.stem.startswith("machine-") else f"{_WORKFLOW}{path.stem}"


def _write_pins(path: Path, content: dict[str, Any]) -> None:
    write_whole(path, json.dumps(content, indent=1).encode() + b"\n")
