"""The approvals of one log, judged one after another as the log is folded.

What judging needs is loaded with the first approval: a log without any pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from eventstore.event import RecordedEvent
from eventstore.store import EventStore, Raw
from lifecycle.state.workflow import Workflow

if TYPE_CHECKING:
    from service.consent.pins import Pin
    from service.consent.proof import Policy

APPROVED = "amendment.approved"
_SIGNATURE = "signature"


class Current:
    """The state that a fold has reached."""

    def __init__(self, state: Workflow | None) -> None:
        self.state = state


class Approvals:
    """Which approvals of a stream count.

    ``accepted`` holds the hashes that count, exactly for the event that the fold takes up next.
    """

    def __init__(self, store: EventStore, stream: str, root: Path | None) -> None:
        self.store = store
        self.stream = stream
        self.root = root
        self.accepted: set[str] = set()
        self._verdicts: dict[tuple[str, str], str | None] = {}

    def judged(self, events: Iterator[RecordedEvent], current: Current) -> Iterator[RecordedEvent]:
        """Yield the events, each approval judged in the state before it."""
        latest = ""
        for event in events:
            latest = max(latest, event.recorded_at)
            if event.type == APPROVED and current.state is not None:
                self._judge(event, current.state, latest)
            yield event

    def objection(self, event: RecordedEvent) -> str | None:
        """Return why an approval that was folded does not count, None where it does."""
        return self._verdicts.get((event.prev_hash, event.hash))

    def _judge(self, event: RecordedEvent, state: Workflow, at: str) -> None:
        # Both are of bytes and place, whatever a row says (`eventstore.reading`): so a verdict is
        # kept by the statement, which holds the link, and the signature, which the hash covers.
        key = (event.prev_hash, event.hash)
        if key not in self._verdicts:
            self._verdicts[key] = self._verdict(event, state, at)
        if self._verdicts[key] is None:
            self.accepted.add(event.hash)
        else:
            self.accepted.discard(event.hash)

    def _verdict(self, event: RecordedEvent, state: Workflow, at: str) -> str | None:
        from service.consent import proof as consent  # loads the rules of amendments

        return self.pin_objection() or consent.objection(state, consent.as_of(event, at))

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
        """Raise `AnotherLog` where this login pinned another log in the root than the one here.

        A log without events is none yet: what begins one asks nobody.
        """
        why = self.pin_objection()
        if why is not None and self.first_hash() is not None:
            from service.consent.pins import AnotherLog

            raise AnotherLog(why, self.stream, [pin.first for pin in self.pinned_here()])

    def is_pinned(self) -> bool:
        """Whether this login pinned the log, here or where it was before."""
        return any(pin.first == self.first_hash() for pin in self._pins_known())

    def namesake(self) -> str | None:
        """Return where this login pinned another log of the same id; None where this one is known.

        A log that is new to this login may have been put in the place of one that it knows.
        """
        if self.is_pinned():
            return None
        roots = [pin.root for pin in self._pins_known() if pin.stream == self.stream]
        return roots[-1] if roots else None

    def pin(self, state: Policy) -> bool:
        """Keep outside the root what the log is known by; False where another is pinned there.

        That one is replaced by a person alone: `repin`.
        """
        if self.pin_objection() is not None:
            return False
        self.repin(state)
        return True

    def repin(self, state: Policy) -> None:
        """Keep what the log is known by, whatever was pinned in its root before."""
        from eventstore.codec import canonical, digest
        from service.consent.pins import Pin, keep_pin

        signers = digest(canonical(state.signers))
        first, root = str(self.first_hash()), self.root or Path()
        keep_pin(root, Pin(first, state.consent, signers, str(root), self.stream))

    def pinned_here(self) -> list[Pin]:
        """Return what this login pinned in the log's root, for a log of this kind."""
        from service.consent.pins import pinned_at

        return pinned_at(self.root, self.stream) if self.root is not None else []

    def _pins_known(self) -> list[Pin]:
        from service.consent.pins import every_pin

        return [*self.pinned_here(), *every_pin()]

    def bars_stored_folds(self, state: Workflow, after: int) -> bool:
        """Whether the state must come from the log's events alone, not from a kept copy.

        Where consent is by ``signature``, or ever was, a raw write must change nothing, and a kept
        copy is a row like others. Up to the version ``after`` the caller knows that it never was.
        """
        if _SIGNATURE in (state.consent, *(pin.policy for pin in self.pinned_here())):
            return True
        return self._was_by_signature(after)

    def _was_by_signature(self, after: int) -> bool:
        """Whether a text behind a version says so, or this login pinned the log so elsewhere."""
        if any(map(_speaks_of_signature, self.store.raw(self.stream, after=after))):
            return True
        first = self.first_hash()
        return any(p.policy == _SIGNATURE and p.first == first for p in self._pins_known())


def _speaks_of_signature(row: Raw) -> bool:
    """Whether an event begins with the policy ``signature``, or proposes it."""
    return '"consent":"signature"' in row.text or '"consent":{"new":"signature"' in row.text
