"""The items that wait for a person in a workflow and its machines, each with a permanent number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from lifecycle.event import Event
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow

#: Statuses of a stage that is being worked on.
_IN_HAND = (Status.PREPARING, Status.RUNNING, Status.POST_PROCESSING)
#: Event types with which a person or agent leaves a note on a stage or in general.
_WORDS = ("note.logged", "checkpoint.recorded", "session.ended")


class Unfinished(NamedTuple):
    """A stage or machine at work, its state, and the command that leaves a note on it."""

    subject: str
    text: str
    command: str


def of_workflow(state: Workflow, events: Iterable[Event]) -> list[Unfinished]:
    """Return the running stages without a note since their status changed.

    ``events`` are the newest events of the log, oldest first. While an amendment waits, no stage is
    unfinished, because the amendment explains the state.
    """
    if state.pending_amendments:
        return []
    silent = {stage.id: stage for stage in state.stages.values() if stage.status in _IN_HAND}
    spoken: set[str] = set()
    for event in events:
        stage = event.data.get("stage")
        if event.type in _WORDS:
            spoken |= {str(stage)} if stage is not None else set(silent)
        elif event.type.startswith("stage.") and stage is not None:
            spoken.discard(str(stage))
    command = (
        'wfctl session end --reason waiting --next "…"'
        if state.session.is_open
        else 'wfctl note "…"'
    )
    return [
        Unfinished(stage.id, f"is {stage.status.value}", command)
        for stage in silent.values()
        if stage.id not in spoken
    ]


#: Characters that are not confused with each other (Crockford's base 32).
#: Twelve characters are 60 bits, so nobody can create a proposal with the number of another.
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH, _GROUP = 12, 4


class InboxItem(NamedTuple):
    """An item that waits in a root: its kind, subject, text and possible answers.

    ``lines``: an answer (approve, reject, answer, statement) → its command line. ``mark``
    identifies the content of the item.
    """

    root: str
    kind: str
    subject: str
    text: str
    lines: Mapping[str, list[str]]
    mark: str
    of: str

    def to_dict(self, number: str) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "number": number,
            "of": self.of,
            "root": self.root,
            "kind": self.kind,
            "subject": self.subject,
            "text": self.text,
            "answers": sorted(self.lines),
        }


def number_items(asked: Sequence[InboxItem]) -> dict[str, InboxItem]:
    """Return the waiting items by number. A number depends on the item, not on its position.

    A number that a person read earlier therefore never means another item.
    """
    return {_compute_number(one): one for one in asked}


def number_of(text: str) -> str:
    """Return a typed number in its listed form: in lower case, with dashes between groups."""
    letters = "".join(letter for letter in text.lower() if letter.isalnum())
    return "-".join(letters[at : at + _GROUP] for at in range(0, len(letters), _GROUP))


def _compute_number(one: InboxItem) -> str:
    known = "\0".join((one.root, one.kind, one.subject, one.mark))
    found = int.from_bytes(sha256(known.encode()).digest())
    return number_of("".join(_LETTERS[found >> 5 * at & 31] for at in range(_LENGTH)))
