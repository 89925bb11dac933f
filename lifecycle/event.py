"""What the rules need to know of an event, wherever it is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from lifecycle.state.workflow import Workflow

#: Stands for the hash of what is decided but not recorded; a recorded hash is never this.
DECIDED = "decided"


class Event(Protocol):
    """An event as the fold sees it."""

    @property
    def type(self) -> str:
        """Stable name, such as ``stage.completed``."""
        ...

    @property
    def data(self) -> dict[str, Any]:
        """The payload, decoded."""
        ...

    @property
    def occurred_at(self) -> str:
        """When it was so: ``YYYY-MM-DDTHH:MM:SS.ffffffZ``."""
        ...

    @property
    def version(self) -> int:
        """Its place in its stream: 1, 2, …"""
        ...

    @property
    def hash(self) -> str:
        """Its hash in the chain, empty while it is not recorded."""
        ...


class Fact(NamedTuple):
    """An event that is not recorded yet."""

    type: str
    data: dict[str, Any]
    occurred_at: str
    version: int
    hash: str = ""


def facts_of(events: Iterable[Any], at: str, head: int) -> list[Fact]:
    """Return payloads as the events that they become at ``at``, behind the version ``head``."""
    return [Fact(e.type, e.as_json(), at, head + n, DECIDED) for n, e in enumerate(events, 1)]


#: The type under which the log gives an event whose data is not of its type.
SET_ASIDE = "event.set_aside"

#: What an event may fail with whose data is of its type, and means nothing in this state.
UNFOLDABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)

#: Sessions are numbered one by one; a view of a moment may leave some out, and not so many.
_MOST_LEFT_OUT = 1_000_000

#: What the rules fill in before it is recorded: without it the event says nothing.
_DECIDED = {
    "amendment.proposed": "amendment",
    "attempt.started": "attempt",
    "stage.retried": "retry",
}
_OF_AN_ATTEMPT = frozenset({"stage.launched", "stage.computed", "attempt.relaunched"})
#: They hold lines of somebody else's, byte for byte, and may name a stage that there never was.
_OF_BYTES = frozenset({"note.logged", "line.imported", "state.imported"})


class State(Protocol):
    """What keeps in mind what was set aside."""

    @property
    def set_aside(self) -> list[dict[str, Any]]:
        """One object an event: ``version``, ``type``, ``why``."""
        ...


def why_not(draft: Workflow, event: Event) -> str | None:
    """Return why an event means nothing in this state, None if it may mean something."""
    if event.type == SET_ASIDE:
        return str(event.data["why"])
    if event.type == "session.started":
        number, most = event.data["number"], draft.session.count + _MOST_LEFT_OUT
        fits = isinstance(number, int) and 0 < number <= most
        why = f"expected a session with a number of at most {most}, found {number!r:.80}"
        return None if fits else why
    if event.type in _OF_BYTES:
        return _no_lines(draft, event)
    decided = _DECIDED.get(event.type)
    if decided is not None and event.data.get(decided) is None:
        return f"{decided}: expected what the rules decide, found nothing"
    named = event.data.get("stage")
    if named is None or event.type == "amendment.proposed":
        return None
    stage = draft.stages.get(named)
    if stage is None:
        return f"there is no stage {named!r:.80}"
    if event.type in _OF_AN_ATTEMPT and not stage.attempts:
        return f"{named} has no attempt"
    return None


def _no_lines(draft: Workflow, event: Event) -> str | None:
    """Return why what somebody else wrote cannot be shown as it was."""
    if event.type != "note.logged" and event.version > draft.import_end:
        return f"the import ended at version {draft.import_end}"
    kept = event.data.get("raw")
    lines = kept if isinstance(kept, list) else [kept] if kept is not None else []
    if event.type == "line.imported" and event.data.get("encoding") != "base64":
        return None
    if not lines:
        return None
    from base64 import b64decode  # few events hold any

    try:
        for line in lines:
            b64decode(line)
    except ValueError:
        return "raw: expected base64"
    return None


def fold_in(state: State, event: Event, why: str | None, apply: Callable[[], None]) -> None:
    """Fold an event in, or set it aside for why it means nothing, or where it cannot be."""
    try:
        if why is None:
            apply()
            return
    except UNFOLDABLE as error:
        why = f"it does not fit the state ({type(error).__name__}: {error!s:.200})"
    type_ = event.data["type"] if event.type == SET_ASIDE else event.type
    state.set_aside.append({"version": event.version, "type": type_, "why": why})


def newest_aside(state: State, version: int) -> dict[str, Any] | None:
    """Return what was set aside at a version, the last that was folded; None if nothing was."""
    last = state.set_aside[-1] if state.set_aside else None
    return last if last is not None and last["version"] == version else None
