"""The approvals of one log, judged one after another as the log is folded.

What judging needs is loaded with the first approval: a log without any pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from eventstore.event import RecordedEvent
from eventstore.store import EventStore
from lifecycle.workflow import Workflow
from service.root import WORKFLOW

if TYPE_CHECKING:
    from service.consent import Policy
    from service.pins import Pin

APPROVED = "amendment.approved"
_SIGNATURE = "signature"


class Current:
    """The state that a fold has reached."""

    def __init__(self, state: Workflow | None) -> None:
        self.state = state


class Approvals:
    """Which approvals of a stream count.

    ``accepted`` holds the hashes that count, exactly for the event that the fold takes up next:
    a row may carry another row's hash.
    """

    def __init__(self, store: EventStore, stream: str, root: Path | None) -> None:
        self.store = store
        self.stream = stream
        self.root = root
        self.accepted: set[str] = set()
        self._verdicts: dict[tuple[int, str], str | None] = {}

    def judged(self, events: Iterator[RecordedEvent], current: Current) -> Iterator[RecordedEvent]:
        """Yield the events, each approval judged in the state before it."""
        for event in events:
            if event.type == APPROVED and current.state is not None:
                self._judge(event, current.state)
            yield event

    def objection(self, event: RecordedEvent) -> str | None:
        """Return why an approval that was folded does not count, None where it does."""
        return self._verdicts.get((event.version, event.hash))

    def _judge(self, event: RecordedEvent, state: Workflow) -> None:
        key = (event.version, event.hash)
        if key not in self._verdicts:
            self._verdicts[key] = self._verdict(event, state)
        if self._verdicts[key] is None:
            self.accepted.add(event.hash)
        else:
            self.accepted.discard(event.hash)

    def _verdict(self, event: RecordedEvent, state: Workflow) -> str | None:
        from service import consent  # loads the rules of amendments

        return self.pin_objection() or consent.objection(state, event)

    def first_hash(self) -> str | None:
        """Return the hash of the first event's text, whatever its row says."""
        first = next(self.store.raw(self.stream), None)
        return sha256(first.text.encode("utf-8", "surrogateescape")).hexdigest() if first else None

    def pin_objection(self) -> str | None:
        """Return what speaks against the log as a whole, by what this login pinned of it."""
        first = self.first_hash()
        pins = self._pins()
        if first in {pin.first for pin in pins}:
            return None
        if str(self.root) in {pin.root for pin in pins}:
            return "the log's first event is not the one that this login pinned"
        return None

    def is_pinned(self) -> bool:
        """Whether this login pinned the log."""
        return self.first_hash() in {pin.first for pin in self._pins()}

    def pin(self, state: Policy) -> None:
        """Keep outside the root what the log is known by."""
        from eventstore.codec import canonical, digest
        from service.pins import Pin, add_pin, pins_file

        signers = digest(canonical(state.signers))
        known = Pin(str(self.first_hash()), state.consent, signers, str(self.root))
        add_pin(pins_file(self.stream.removeprefix(WORKFLOW)), known)

    def _pins(self) -> list[Pin]:
        from service.pins import pins_file, read_pins

        return read_pins(pins_file(self.stream.removeprefix(WORKFLOW)))

    def bars_stored_folds(self, state: Workflow) -> bool:
        """Whether the state must come from the log's events alone, not from a kept copy.

        Under ``signature`` a raw write must change nothing, and a kept copy is a row like others.
        """
        if state.consent == _SIGNATURE:
            return True
        first = next(self.store.read(self.stream, upto=1), None)
        if first is None or first.data.get("consent") == _SIGNATURE:
            return True
        return any(pin.policy == _SIGNATURE for pin in self._pins() if pin.root == str(self.root))
