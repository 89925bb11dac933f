"""The data of the events of phase machines.

As with stages, a command is the payload of the event that it asks for; what is marked "decided"
is filled in by the rules.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, ValidationError

from lifecycle.machines.definition import MOST_ROUNDS
from lifecycle.machines.errors import InvalidInput
from lifecycle.payload.base import Document, Payload, PayloadPart, Text, Whole, fitting
from lifecycle.words.values import misfit

Layout = dict[str, list[str]]
MachineId = Annotated[str, fitting("machine")]
Consent = Literal["terminal", "signature", "trust"]


class MachineCreated(Payload):
    """A machine begins, by a definition that stays with it."""

    machine: MachineId
    definition: Document
    #: As ``layout``, of the definition: its phases have an order. Decided.
    definition_layout: Layout = Field(default_factory=dict)
    document: Document = Field(default_factory=dict)
    #: JSON pointer of an object in ``document`` → its keys in the order they were written in.
    layout: Layout = Field(default_factory=dict)
    consent: Consent = "terminal"
    signers: list[str] = Field(default_factory=list)
    #: Whether the signers wait for a person's word at a terminal.
    proposed: bool = False
    #: Whether the definition is not shipped with wfctl.
    own: bool = False
    root: Document = Field(default_factory=dict)
    #: File that a guard of the first phase looks at → its mark as it was then. Decided.
    earlier: dict[str, str] = Field(default_factory=dict)


class MachineImported(Payload):
    """A machine that was kept by hand is taken over as it was; no rule decided on it."""

    machine: MachineId
    definition: Document
    #: As ``layout``, of the definition: its phases have an order. Decided.
    definition_layout: Layout = Field(default_factory=dict)
    phase: str
    status: str | None = None
    document: Document = Field(default_factory=dict)
    layout: Layout = Field(default_factory=dict)
    #: Loop → how often it had been taken.
    counts: dict[str, Whole] = Field(default_factory=dict)
    #: One object a phase that was entered: phase, status, times, agent, data.
    visits: list[Document] = Field(default_factory=list)
    #: Approvals that the files speak of: ``{"phase": …, "at": …}``.
    given: list[Document] = Field(default_factory=list)
    findings: list[Document] = Field(default_factory=list)
    created: str | None = None
    consent: Consent = "terminal"
    signers: list[str] = Field(default_factory=list)
    #: Whether the signers wait for a person's word at a terminal.
    proposed: bool = False
    #: Whether the definition is not shipped with wfctl.
    own: bool = False
    root: Document = Field(default_factory=dict)
    #: File that a guard of the phase looks at → its mark as it was then. Decided.
    earlier: dict[str, str] = Field(default_factory=dict)
    #: Task that is at work → its output that is there already: file → mark.
    task_earlier: dict[str, dict[str, str]] = Field(default_factory=dict)

    @property
    def entered_at(self) -> str | None:
        """When the phase was entered, as the files of the machine say; None if they do not."""
        times = [one["entered_at"] for one in self.visits if one["phase"] == self.phase]
        return str(times[-1]) if times else None


class Change(PayloadPart):
    """A value for a dot path."""

    path: str
    value: JsonValue = None


def change_of(path: str, value: Any) -> Change:
    """Return a change; raises `InvalidInput` for a value that is too deep, or no JSON."""
    try:
        return Change(path=path, value=value)
    except ValidationError as error:
        why = misfit(error.errors()[0])
        raise InvalidInput(f"{path}: the log cannot hold the value: {why}", path=path) from error


class MachineUpdated(Payload):
    """Fields of the machine's state changed; never its phase."""

    changes: list[Change]
    #: JSON pointer of an object in ``changes`` → its keys in the order they were written in.
    layout: Layout = Field(default_factory=dict)
    #: Files of the root that the new values name → their SHA-256 in hex, as they were then.
    digests: dict[str, str] = Field(default_factory=dict)
    #: Dot paths of fields that were taken away.
    removed: list[str] = Field(default_factory=list)


class MachineTransitioned(Payload):
    """The machine came into another phase; nothing else changed."""

    to: str | None = None  # without one: the way that is open
    reason: Text | None = None
    left: str | None = None  # decided: the phase before
    asked: str | None = None  # decided: the target, where a limit led elsewhere
    loop: str | None = None  # decided
    count: Whole | None = None  # decided: how often the loop was taken by then
    limit: Whole | None = None  # decided
    resets: list[str] = Field(default_factory=list)  # decided: loops that begin anew
    #: Decided: pattern → the files with content that were found, where the guard looked at some.
    files: dict[str, list[str]] = Field(default_factory=dict)
    #: Decided: file that a guard of the new phase looks at → its mark as it was then.
    earlier: dict[str, str] = Field(default_factory=dict)


class MachineRecorded(Payload):
    """An event that the definition names; guards may look for it."""

    name: Text
    data: Document = Field(default_factory=dict)
    phase: str | None = None  # decided: the phase it was recorded in


class MachineTaskChanged(Payload):
    """A task is new, or fields of it changed."""

    task: Text
    changes: Document  # decided: with the times and the attempts that follow
    reason: Text | None = None
    #: Where the task begins to run: its output that is there already → its mark.
    earlier: dict[str, str] = Field(default_factory=dict)


class MachineTaskClaimed(Payload):
    """A task is somebody's for a time: nobody else claims or changes it until then."""

    task: Text
    #: How long, at most 30 days.
    seconds: Annotated[int, Field(ge=1, le=2_592_000)] = 1_800
    renew: bool = False  # decided: the claim of who asks goes on
    by: str | None = None  # decided: who asks, as kind:name
    handle: str | None = None  # decided: anyone who shows it holds the task
    until: str | None = None  # decided: UTC
    before: str | None = None  # decided: whose claim had run out


class MachineTaskReleased(Payload):
    """The claim of a task ended before its time."""

    task: Text
    reason: Text | None = None
    despite: bool = False  # decided: against who held it
    by: str | None = None  # decided: who held it, as kind:name


class MachineCheckpointed(Payload):
    """A hand-off: what was done, and what is next."""

    summary: Text
    next: list[Text] = Field(default_factory=list)
    phase: str | None = None  # decided


class MachineApproved(Payload):
    """A person agreed; takes effect only with an accepted proof of consent."""

    approval: Text
    choice: Text | None = None
    phase: str | None = None  # decided
    approved_by: str = "user"
    proof: Document = Field(default_factory=dict)
    #: What the person saw: the files that the ways out of the phase ask for, those that ``fields``
    #: name, and the one chosen, each with its SHA-256 in hex. None if an older version
    #: recorded none.
    files: dict[str, str] | None = None
    #: The fields that it is of, each with its value. None if an older version recorded none.
    fields: Document | None = None


class MachineWithdrawn(Payload):
    """A person took an approval back; takes effect only with an accepted proof of consent."""

    approval: Text
    phase: str | None = None  # decided
    approved_by: str = "user"
    proof: Document = Field(default_factory=dict)


class MachineLimited(Payload):
    """A person changed how often a loop may go; takes effect only with an accepted proof."""

    loop: Text
    before: Whole | None = None  # decided: the limit that was in force
    to: Annotated[int, Field(ge=1, le=MOST_ROUNDS)]
    reason: Text
    approved_by: str | None = None
    proof: Document = Field(default_factory=dict)


class MachineCancelled(Payload):
    """The machine was given up, for good or to begin anew."""

    reason: Text | None = None
    left: str | None = None  # decided: the phase before
    #: Whether it begins anew under its name, with nothing of what was.
    anew: bool = False
    #: As in `MachineCreated`, where it begins anew. Decided.
    earlier: dict[str, str] = Field(default_factory=dict)
