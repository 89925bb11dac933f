"""Decide which approvals in a log are valid, and pin logs to this user account.

A pin is a record, outside the log, that this user account knows a log. The user's configuration has
one file with pins for each workflow folder. For each log of the folder, it contains the hash of the
first event and the digest of the allowed signers. A rewritten log has another first hash, even if
its hash chain is valid. The same is true for another log in the same place. The code that checks
approvals is imported with the first approval.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from eventstore.event import RecordedEvent
from eventstore.private_files import create_owner_only_folder
from eventstore.store import EventStore
from lifecycle.errors import NeedsConsent
from service.errors import ServiceError
from service.root.atomic_files import config_folder, write_whole
from wording import TemplatedError

if TYPE_CHECKING:
    from service.consent.proof import Policy

_SIGNATURE = "signature"
#: Text in an event that sets the consent policy to ``signature``, at the start of a workflow or
#: later.
_CHOSEN = ('"consent":"signature"', '"consent":{"new":"signature"')


class ConsentPolicyState(Protocol):
    """The state of a workflow or machine, with the consent policy that it follows.

    The policy decides which approvals are valid.
    """

    consent: str


S = TypeVar("S", bound=ConsentPolicyState)
S_contra = TypeVar("S_contra", bound=ConsentPolicyState, contravariant=True)


class EffectRules(Protocol[S_contra]):
    """Rules that decide whether an event has an effect, for example an approval."""

    #: Event types to check. An event whose type is also in ``proven`` needs a proof, and has an
    #: effect only if the log agrees with the pins of this user account.
    judged: frozenset[str]
    proven: frozenset[str]

    def objection(self, state: S_contra, event: RecordedEvent, at: str) -> str | None:
        """Return the reason why an event is ignored, or None if it has an effect.

        ``state`` is the state before the event, and ``at`` is the latest possible time of its
        recording.
        """
        ...


class EventJudge(Generic[S]):
    """Checks the events of a log one by one while the state is computed from them.

    ``accepted`` contains the hash of the current event if the event has an effect. ``latest`` is
    the latest recording time of all events so far.
    """

    def __init__(self, approvals: Approvals, rules: EffectRules[S]) -> None:
        self.accepted: set[str] = set()
        self.latest = ""
        self._approvals = approvals
        self._rules = rules
        self._verdicts: dict[tuple[str, str], str | None] = {}

    def judged(
        self, events: Iterator[RecordedEvent], reached: Callable[[], S | None], latest: str = ""
    ) -> Iterator[RecordedEvent]:
        """Yield the events.

        Each event that needs a check is checked in the state before it.
        """
        for event in events:
            self.latest = latest = max(latest, event.recorded_at)
            self.accepted.clear()
            state = reached() if event.type in self._rules.judged else None
            if state is not None:
                # Remember each verdict by two hashes that do not depend on the claims in a row. The
                # signed statement contains the first one, and the second one covers the signature.
                key = (event.prev_hash, event.hash)
                if key not in self._verdicts:
                    swapped = event.type in self._rules.proven and self._approvals.pin_objection()
                    self._verdicts[key] = swapped or self._rules.objection(state, event, latest)
                if self._verdicts[key] is None:
                    self.accepted.add(event.hash)
            yield event

    def explain_ignored_event(self, event: RecordedEvent) -> str | None:
        """Return the reason why an event was ignored, or None if it had an effect."""
        return self._verdicts.get((event.prev_hash, event.hash))


class Approvals:
    """The pins of this user account for a log, which decide if its approvals are trusted.

    A pin is a record outside the log that the user account knows the log.
    """

    def __init__(self, store: EventStore, stream: str, root: Path | None) -> None:
        self.store = store
        self.stream = stream
        self.root = root

    def first_hash(self) -> str | None:
        """Return the hash of the first event, computed from its text, or None.

        None means that the log is empty. The hash that the row claims is not used, because it could
        be forged.
        """
        first = next(self.store.raw(self.stream, upto=1), None)
        return sha256(first.text.encode("utf-8", "surrogateescape")).hexdigest() if first else None

    def pin_objection(self) -> str | None:
        """Return the reason why the log contradicts the pins of this user account.

        Return None if it does not contradict them.
        """
        pins = self.pinned_here()
        if not pins or self.first_hash() in {pin.first for pin in pins}:
            return None
        return (
            f"this log differs from the log that your user account pinned in {self.root}: the "
            f"first event is not the first event of {pins[-1].stream}"
        )

    def require_no_pin_conflict(self) -> None:
        """Raise `AnotherLog` if this user account pinned another log in this folder.

        A log without events is accepted, because its first event sets the policy and needs no
        approval.
        """
        why = self.pin_objection()
        if why is not None and self.first_hash() is not None:
            raise AnotherLog(why, self.stream, [pin.first for pin in self.pinned_here()])

    def is_pinned(self) -> bool:
        """Return whether this user account has pinned the log, in any folder."""
        return any(pin.first == self.first_hash() for pin in self._pins_known())

    def find_same_id_folder(self) -> str | None:
        """Return the folder for which this account pinned another log with the same id.

        Such a log may have been replaced by this one. Return None if there is no such folder, or if
        this log is pinned itself.
        """
        if self.is_pinned():
            return None
        roots = [pin.root for pin in self._pins_known() if pin.stream == self.stream]
        return roots[-1] if roots else None

    def pin(self, state: Policy) -> None:
        """Pin the log, unless another log is already pinned for this folder.

        Only a person may replace the pin of another log, with `repin`.
        """
        if self.pin_objection() is None:
            self.repin(state)

    def repin(self, state: Policy) -> None:
        """Pin the log, and replace any earlier pin of this folder."""
        from eventstore.chain import canonical_json, sha256_hex

        signers = sha256_hex(canonical_json(state.signers))
        first, root = str(self.first_hash()), self.root or Path()
        _keep_pin(root, Pin(first, state.consent, signers, str(root), self.stream))

    def pinned_here(self) -> list[Pin]:
        """Return the pins of this user account for the workflow or machine in this folder."""
        return pinned_at(self.root, self.stream) if self.root is not None else []

    def _pins_known(self) -> list[Pin]:
        files = sorted((_pins_folder() / "roots").glob("*.json"))
        return [
            *self.pinned_here(),
            *(pin for path in files for pin in _read_pins(path)),
            *_read_earlier_pins(),
        ]

    def should_ignore_stored_state(self, state: ConsentPolicyState, after: int) -> bool:
        """Return whether the state must be computed from events, not from a stored copy.

        This is necessary if the consent policy is or was ``signature``. Otherwise, somebody could
        change the state without a signature, by editing the stored copy in the database. The caller
        knows that the policy was another one up to version ``after``.
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
    """A record that this user account knows a log, made at its creation or approval.

    ``first`` is the hash of the first event, and ``signers`` is the digest of the allowed signers.
    ``root`` is the folder for which the log is pinned.
    """

    first: str
    policy: str
    signers: str
    root: str
    stream: str

    @property
    def place(self) -> str:
        """The part of a folder that the log belongs to: its workflow, or a machine."""
        return folder_part_of_stream(self.stream)


class UnreadablePins(ServiceError):
    """A file with pins is damaged, and wfctl trusts none of its contents."""

    code = "unreadable_pins"


class AnotherLog(TemplatedError, NeedsConsent):
    """The log is not the log that is pinned for this folder, so wfctl changes nothing."""

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


def folder_part_of_stream(stream: str) -> str:
    """Return the name of the part of a folder to which a stream's log belongs.

    This is ``workflow`` for every workflow, because a folder contains only one. For a machine, it
    is the name of the event stream.
    """
    return "workflow" if stream.startswith(_WORKFLOW) else stream


def pinned_at(root: Path, stream: str) -> list[Pin]:
    """Return the pins of this user account for a workflow or machine in a folder.

    Raises `UnreadablePins` if the file with the pins is damaged.
    """
    pins = [
        *_read_pins(_pins_file(root)),
        *(pin for pin in _read_earlier_pins() if pin.root == str(root)),
    ]
    return [pin for pin in pins if pin.place == folder_part_of_stream(stream)]


def _keep_pin(root: Path, pin: Pin) -> None:
    """Store the pin of a log for its folder. Replace an earlier pin."""
    path = _pins_file(root)
    others = [known for known in _read_pins(path) if known.place != pin.place]
    create_owner_only_folder(path.parent)
    pins = [one._asdict() for one in (*others, pin)]
    _write_pins(path, {"format": 2, "root": str(root), "pins": pins})
    for older in sorted(_pins_folder().glob("*.json")):
        entries = _read_entries(older)
        same = folder_part_of_stream(_earlier_stream_name(older)) == pin.place
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
    """Yield the pins that an old version of wfctl stored, with one file per workflow id."""
    for path in sorted(_pins_folder().glob("*.json")):
        for entry in _read_entries(path):
            yield Pin(**entry, stream=_earlier_stream_name(path))


def _earlier_stream_name(path: Path) -> str:
    return path.stem if path.stem.startswith("machine-") else f"{_WORKFLOW}{path.stem}"


def _write_pins(path: Path, content: dict[str, Any]) -> None:
    write_whole(path, json.dumps(content, indent=1).encode() + b"\n")
