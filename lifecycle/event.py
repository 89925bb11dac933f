"""The interface of an event for the rules, independent of its storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from lifecycle.state.workflow import Workflow

#: Placeholder for the hash of an event that is not recorded yet. It differs from every real hash.
DECIDED = "decided"


class Event(Protocol):
    """The attributes of an event that the fold reads."""

    @property
    def type(self) -> str:
        """Stable name, such as ``stage.completed``."""
        ...

    @property
    def data(self) -> dict[str, Any]:
        """The payload of the event, decoded from JSON."""
        ...

    @property
    def occurred_at(self) -> str:
        """The time of the event: ``YYYY-MM-DDTHH:MM:SS.ffffffZ``."""
        ...

    @property
    def version(self) -> int:
        """The position of the event in its stream: 1, 2, …"""
        ...

    @property
    def hash(self) -> str:
        """The hash of the event in its chain, or a placeholder before the event is recorded."""
        ...


class UnrecordedEvent(NamedTuple):
    """An event that is not recorded yet."""

    type: str
    data: dict[str, Any]
    occurred_at: str
    version: int
    hash: str = ""


def build_unrecorded_events(events: Iterable[Any], at: str, head: int) -> list[UnrecordedEvent]:
    """Return payloads as events that are not recorded yet.

    They occur at the time ``at``, and their versions follow ``head``.
    """
    return [
        UnrecordedEvent(e.type, e.as_json(), at, head + n, DECIDED) for n, e in enumerate(events, 1)
    ]


#: Type of an event that replaces a stored event whose data does not match its type.
SET_ASIDE = "event.set_aside"

#: Errors that folding may raise for an event whose data is valid but does not fit the state.
UNFOLDABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)

#: Maximum gap between the numbers of two sessions. A gap is allowed because a view of an earlier
#: moment may omit sessions. A much larger number is an error.
_MOST_LEFT_OUT = 1_000_000

#: Fields that the rules fill in before an event is recorded. An event without its field is ignored.
_DECIDED = {
    "amendment.proposed": "amendment",
    "attempt.started": "attempt",
    "stage.retried": "retry",
}
_OF_AN_ATTEMPT = frozenset({"stage.launched", "stage.computed", "attempt.relaunched"})
#: Types of events that contain lines of other programs unchanged. These lines may name a stage that
#: never existed.
_OF_BYTES = frozenset({"note.logged", "line.imported", "state.imported"})


class State(Protocol):
    """A state that lists the events that were ignored."""

    @property
    def set_aside(self) -> list[dict[str, Any]]:
        """The ignored events, each as a dictionary: ``version``, ``type`` and reason ``why``."""
        ...


def explain_ignored_event(draft: Workflow, event: Event) -> str | None:
    """Return the reason why the event must be ignored in this state, or None.

    None does not guarantee that the event takes effect.
    """
    if event.type == SET_ASIDE:
        return str(event.data["why"])
    if event.type == "session.started":
        number, most = event.data["number"], draft.session.count + _MOST_LEFT_OUT
        fits = isinstance(number, int) and 0 < number <= most
        why = f"expected a session with a number of at most {most}, found {number!r:.80}"
        return None if fits else why
    if event.type in _OF_BYTES:
        return _explain_unusable_import(draft, event)
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


def _explain_unusable_import(draft: Workflow, event: Event) -> str | None:
    """Return the reason why imported text in the event is not usable, or None if it is.

    Such an event is unusable after the end of the import, or if its base64 text is invalid.
    """
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


def apply_or_ignore_event(
    state: State, event: Event, why: str | None, apply: Callable[[], None]
) -> None:
    """Apply an event to the state, or add it to the ignored events.

    The event is ignored if ``why`` gives a reason or if ``apply`` fails because the event does not
    fit the state.
    """
    try:
        if why is None:
            apply()
            return
    except UNFOLDABLE as error:
        why = f"it does not fit the state ({type(error).__name__}: {error!s:.200})"
    type_ = event.data["type"] if event.type == SET_ASIDE else event.type
    state.set_aside.append({"version": event.version, "type": type_, "why": why})


def find_ignored_event_entry(state: State, version: int) -> dict[str, Any] | None:
    """Return the entry of the last ignored event if that event has the given version.

    Otherwise return None.
    """
    last = state.set_aside[-1] if state.set_aside else None
    return last if last is not None and last["version"] == version else None


def find_observed_jobs(event: Event) -> list[dict[str, Any]]:
    """Return the scheduler jobs that an observation of an attempt lists as evidence.

    Return an empty list for any other event, such as `stage.completed`.
    """
    evidence = event.data.get("evidence") if event.type == "attempt.observed" else None
    jobs = evidence.get("jobs") if isinstance(evidence, dict) else None
    return [job for job in jobs if isinstance(job, dict)] if isinstance(jobs, list) else []
