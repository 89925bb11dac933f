"""What waits for a person in one workflow and its machines, each by a number that stays its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from lifecycle.event import Event
from lifecycle.machines.machine import Machine
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow

#: A stage is in hand in these.
_IN_HAND = (Status.PREPARING, Status.RUNNING, Status.POST_PROCESSING)
#: By these somebody leaves a word, of a stage or of all.
_WORDS = ("note.logged", "checkpoint.recorded", "session.ended")


class Unfinished(NamedTuple):
    """What is in hand: a stage or a machine, what of it, and the command that leaves a word."""

    subject: str
    text: str
    command: str


def of_workflow(state: Workflow, events: Iterable[Event]) -> list[Unfinished]:
    """Return the stages in hand of which nothing was said since they came there.

    ``events`` are the newest of the log, oldest first. Nothing is unfinished while an amendment
    waits: that question is the word.
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


def of_machine(machine: Machine) -> list[Unfinished]:
    """Return the machine where work of it is in hand and no hand-off says how far it has come.

    Nothing is unfinished where a person is to approve.
    """
    approval = machine.definition.approval_in(machine.phase)
    waits = approval is not None and approval not in machine.approvals
    handed_off = machine.handoff is not None and machine.handoff.at >= machine.updated
    if machine.is_final or waits or handed_off:
        return []
    text = ", ".join(_in_hand(machine))
    command = f'wfctl machine checkpoint {machine.id} --summary "…" --next "…"'
    return [Unfinished(machine.id, text, command)] if text else []


def _in_hand(machine: Machine) -> Iterator[str]:
    tasks = machine.definition.tasks
    for task in machine.tasks:
        if tasks is not None and task.get("status") == tasks.running:
            yield f"task {task.get('id')} is {tasks.running}"
    if str(machine.visit.status).lower() == "in_progress":
        yield f"phase {machine.phase} is {machine.visit.status}"


#: Letters that are not taken for each other (Crockford's base 32). Twelve of them are 60 bits:
#: nobody finds, by proposals made for it, one that has the number of another.
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH, _GROUP = 12, 4


class InboxItem(NamedTuple):
    """What waits in a root: its kind, of what, said how, and what is done of it.

    ``lines``: an answer (approve, reject, answer, statement) → the command line that gives it.
    ``mark`` is what it is known by: another one has another.
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


def numbered(asked: Sequence[InboxItem]) -> dict[str, InboxItem]:
    """Return what waits by its number, which comes from what it is and not from its place.

    So a number that a person read a minute ago never means something else now.
    """
    return {_number(one): one for one in asked}


def number_of(text: str) -> str:
    """Return a number as it is listed, however it was typed: in capitals, without its dashes."""
    letters = "".join(letter for letter in text.lower() if letter.isalnum())
    return "-".join(letters[at : at + _GROUP] for at in range(0, len(letters), _GROUP))


def _number(one: InboxItem) -> str:
    known = "\0".join((one.root, one.kind, one.subject, one.mark))
    found = int.from_bytes(sha256(known.encode()).digest())
    return number_of("".join(_LETTERS[found >> 5 * at & 31] for at in range(_LENGTH)))
