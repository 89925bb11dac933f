"""Events that count for nothing: how whoever follows a fold gets them, and how they are told."""

from __future__ import annotations

from eventstore.event import RecordedEvent
from lifecycle.fold.foldable import SET_ASIDE, State, newest_aside

#: So many are told one by one; `wfctl fsck` lists all.
_TOLD = 5


def as_folded(event: RecordedEvent, state: State) -> RecordedEvent:
    """Return the event, or what is shown in its place where the fold set it aside.

    So nobody who follows a fold comes upon data that means nothing in its state.
    """
    found = newest_aside(state, event.version)
    if found is None or event.type == SET_ASIDE:
        return event
    return event.aside(found["why"])


def told(state: State) -> list[str]:
    """Say of each event that was set aside which it is, and why; of the first few."""
    found = [
        f"version {one['version']} ({one['type']!r:.80}) counts for nothing: {one['why']}"
        for one in state.set_aside[:_TOLD]
    ]
    more = len(state.set_aside) - _TOLD
    return (
        [*found, f"{more} more events count for nothing; see `wfctl fsck`"] if more > 0 else found
    )
