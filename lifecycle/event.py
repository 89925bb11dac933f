"""The interface of an event that the rules need, independent of its storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from lifecycle.state.workflow import Workflow

#: Placeholder for the hash of an event that is decided but not recorded. No real hash equals it.
DECIDED = "decided"


class Event(Protocol):
    """An event in the form that the fold reads."""

    @property
    def type(self) -> str:
        """Stable name, such as ``stage.completed``."""
        ...

    @property
    def data(self) -> dict[str, Any]:
        """The decoded payload."""
        ...

    @property
    def occurred_at(self) -> str:
        """The time of the event: ``YYYY-MM-DDTHH:MM:SS.ffffffZ``."""
        ...

    @property
    def version(self) -> int:
        """The position in its stream: 1, 2, …"""
        ...

    @property
    def hash(self) -> str:
        """The hash in the chain, or "" before the event is recorded."""
        ...


class Fact(NamedTuple):
    """An event that is not recorded yet."""

    type: str
    data: dict[str, Any]
    occurred_at: str
    version: int
    hash: str = ""


def facts_of(events: Iterable[Any], at: str, head: int) -> list[Fact]:
    """Return payloads as the events that follow version ``head`` at the time ``at``."""
    return [Fact(e.type, e.as_json(), at, head + n, DECIDED) for n, e in enumerate(events, 1)]


#: Type that the log gives to an event whose data does not match its own type.
SET_ASIDE = "event.set_aside"

#: Errors that folding an event may raise if its data is valid but has no meaning in this state.
UNFOLDABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)

#: Maximum gap between session numbers. A view of a moment may omit some sessions.
_MOST_LEFT_OUT = 1_000_000

#: Fields that the rules fill in before an event is recorded. Without them the event has no meaning.
_DECIDED = {
    "amendment.proposed": "amendment",
    "attempt.started": "attempt",
    "stage.retried": "retry",
}
_OF_AN_ATTEMPT = frozenset({"stage.launched", "stage.computed", "attempt.relaunched"})
#: Types with lines of other programs, byte for byte, which may name a stage that never existed.
_OF_BYTES = frozenset({"note.logged", "line.imported", "state.imported"})


class State(Protocol):
    """A state that remembers ignored events."""

    @property
    def set_aside(self) -> list[dict[str, Any]]:
        """One object for each ignored event: ``version``, ``type``, ``why``."""
        ...


def why_not(draft: Workflow, event: Event) -> str | None:
    """Return why an event has no meaning in this state, or None if it may have one."""
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
    """Return why the recorded lines of another program cannot be shown unchanged, or None."""
    if event.type != "note.logged" and event.version > draft.import_end:
        return f"the import ended at version {draft.import_end}"
    kept = event.data.get("raw")
    lines = kept if isinstance(kept, list) else [kept] if kept is not None else []
    if event.type == "line.imported" and event.data.get("encoding") != "base64":
        return None
    if not lines:
        return None
    from base64 import b64decode  # few events contain base64

    try:
        for line in lines:
            b64decode(line)
    except ValueError:
        return "raw: expected base64"
    return None


def fold_in(state: State, event: Event, why: str | None, apply: Callable[[], None]) -> None:
    """Fold an event into the state, or add it to the ignored events with the reason."""
    try:
        if why is None:
            apply()
            return
    except UNFOLDABLE as error:
        why = f"it does not fit the state ({type(error).__name__}: {error!s:.200})"
    type_ = event.data["type"] if event.type == SET_ASIDE else event.type
    state.set_aside.append({"version": event.version, "type": type_, "why": why})


def newest_aside(state: State, version: int) -> dict[str, Any] | None:
    """Return the ignored event at the given version if it was the last one folded, else None."""
    last = state.set_aside[-1] if state.set_aside else None
    return last if last is not None and last["version"] == version else None


def find_observed_jobs(event: Event) -> list[dict[str, Any]]:
    """Return the jobs in the evidence of an observed attempt, or an empty list for other events.

    Other events, such as `stage.completed`, give their evidence as text or not at all.
    """
    evidence = event.data.get("evidence") if event.type == "attempt.observed" else None
    jobs = evidence.get("jobs") if isinstance(evidence, dict) else None
    return [job for job in jobs if isinstance(job, dict)] if isinstance(jobs, list) else []
