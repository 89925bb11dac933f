"""The data of the events of phase machines.

A command is the payload of the event that it requests. The rules fill in the fields marked "Decided
by the rules".
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, ValidationError

from extensions.machines.rules.definition import MOST_ROUNDS
from extensions.machines.rules.errors import InvalidInput
from lifecycle.payload.base import Document, Payload, PayloadPart, Text, Whole, string_constraints
from lifecycle.words.values import explain_misfit

Layout = dict[str, list[str]]
MachineId = Annotated[str, string_constraints("machine")]
Consent = Literal["terminal", "signature", "trust"]


class MachineCreated(Payload):
    """Somebody created a machine. The event contains the machine's definition."""

    machine: MachineId
    definition: Document
    #: Key order of the definition, whose phases have an order. Decided by the rules.
    definition_layout: Layout = Field(default_factory=dict)
    document: Document = Field(default_factory=dict)
    #: JSON pointer of an object in ``document`` → its keys in their original order.
    layout: Layout = Field(default_factory=dict)
    consent: Consent = "terminal"
    signers: list[str] = Field(default_factory=list)
    #: Whether a person at a terminal must still accept the signers.
    proposed: bool = False
    #: Whether the definition is not shipped with wfctl.
    own: bool = False
    root: Document = Field(default_factory=dict)
    #: File that a guard of the first phase reads → its mark at that time. Decided by the rules.
    earlier: dict[str, str] = Field(default_factory=dict)


class MachineImported(Payload):
    """Somebody imported a machine that was kept by hand. wfctl did not check its history."""

    machine: MachineId
    definition: Document
    #: Key order of the definition, whose phases have an order. Decided by the rules.
    definition_layout: Layout = Field(default_factory=dict)
    phase: str
    status: str | None = None
    document: Document = Field(default_factory=dict)
    layout: Layout = Field(default_factory=dict)
    #: Loop → the number of times that it was taken.
    counts: dict[str, Whole] = Field(default_factory=dict)
    #: One object for each entered phase: phase, status, times, agent, data.
    visits: list[Document] = Field(default_factory=list)
    #: Approvals that the files mention: ``{"phase": …, "at": …}``.
    given: list[Document] = Field(default_factory=list)
    findings: list[Document] = Field(default_factory=list)
    created: str | None = None
    consent: Consent = "terminal"
    signers: list[str] = Field(default_factory=list)
    #: Whether a person at a terminal must still accept the signers.
    proposed: bool = False
    #: Whether the definition is not shipped with wfctl.
    own: bool = False
    root: Document = Field(default_factory=dict)
    #: File that a guard of the phase reads → its mark at that time. Decided by the rules.
    earlier: dict[str, str] = Field(default_factory=dict)
    #: Running task → its output that exists already: file → mark.
    task_earlier: dict[str, dict[str, str]] = Field(default_factory=dict)

    @property
    def entered_at(self) -> str | None:
        """Return when the phase was entered according to the files, None if unknown."""
        times = [one["entered_at"] for one in self.visits if one["phase"] == self.phase]
        return str(times[-1]) if times else None


class Change(PayloadPart):
    """A value for a dot path."""

    path: str
    value: JsonValue = None


def change_of(path: str, value: Any) -> Change:
    """Return a change. Raise `InvalidInput` for a value that is too deep or not JSON."""
    try:
        return Change(path=path, value=value)
    except ValidationError as error:
        why = explain_misfit(error.errors()[0])
        raise InvalidInput(
            f"the value of the field {path} cannot be stored in the log: {why}", path=path
        ) from error


class MachineUpdated(Payload):
    """Fields of the machine's state changed, but not its phase."""

    changes: list[Change]
    #: JSON pointer of an object in ``changes`` → its keys in their original order.
    layout: Layout = Field(default_factory=dict)
    #: Files of the root that the new values name → their SHA-256 in hex at that time.
    digests: dict[str, str] = Field(default_factory=dict)
    #: Dot paths of removed fields.
    removed: list[str] = Field(default_factory=list)


class MachineTransitioned(Payload):
    """The machine changed its phase and nothing else."""

    to: str | None = None  # None selects the open transition.
    reason: Text | None = None
    left: str | None = None  # Decided by the rules: the phase before.
    #: Decided by the rules: the requested target, if a limit led elsewhere.
    asked: str | None = None
    loop: str | None = None  # Decided by the rules.
    count: Whole | None = None  # Decided by the rules: the number of times that the loop was taken.
    limit: Whole | None = None  # Decided by the rules.
    #: Decided by the rules: loops whose count restarts.
    resets: list[str] = Field(default_factory=list)
    #: Pattern → the files with content that the guard found. Decided by the rules.
    files: dict[str, list[str]] = Field(default_factory=dict)
    #: File that a guard of the new phase reads → its mark at that time. Decided by the rules.
    earlier: dict[str, str] = Field(default_factory=dict)


class MachineRecorded(Payload):
    """An event that the machine's definition names. A guard can require this event."""

    name: Text
    data: Document = Field(default_factory=dict)
    phase: str | None = None  # Decided by the rules: the current phase.


class MachineTaskChanged(Payload):
    """Somebody added a task, or changed its fields."""

    task: Text
    changes: Document  # The rules add the resulting times and attempts.
    reason: Text | None = None
    #: Output that existed when the task started → its mark.
    earlier: dict[str, str] = Field(default_factory=dict)


class MachineTaskClaimed(Payload):
    """An agent reserved a task for a limited time. Nobody else can change the task."""

    task: Text
    #: Duration of the claim, at most 30 days.
    seconds: Annotated[int, Field(ge=1, le=2_592_000)] = 1_800
    renew: bool = False  # Decided by the rules: whether the caller renews a claim.
    by: str | None = None  # Decided by the rules: the caller, as kind:name.
    #: Decided by the rules: anyone who presents this handle owns the claim.
    handle: str | None = None
    until: str | None = None  # Decided by the rules: the end of the claim in UTC.
    before: str | None = None  # Decided by the rules: the owner of the expired claim.


class MachineTaskReleased(Payload):
    """The reservation of a task ended early."""

    task: Text
    reason: Text | None = None
    despite: bool = False  # Decided by the rules: whether the claim was another owner's.
    by: str | None = None  # Decided by the rules: the owner, as kind:name.


class MachineCheckpointed(Payload):
    """An agent left a message for the next session: completed work and next steps."""

    summary: Text
    next: list[Text] = Field(default_factory=list)
    phase: str | None = None  # Decided by the rules.


class MachineApproved(Payload):
    """A person approved something. wfctl ignores an approval without a valid proof of consent."""

    approval: Text
    choice: Text | None = None
    phase: str | None = None  # Decided by the rules.
    approved_by: str = "user"
    proof: Document = Field(default_factory=dict)
    #: The files that the person saw, with their SHA-256 in hex: files that the transitions
    #: require, files that ``fields`` name, and the chosen file. Older versions recorded None.
    files: dict[str, str] | None = None
    #: The fields that the approval covers, with their values. Older versions recorded None.
    fields: Document | None = None


class MachineWithdrawn(Payload):
    """A person withdrew an approval, with a proof of consent."""

    approval: Text
    phase: str | None = None  # Decided by the rules.
    approved_by: str = "user"
    proof: Document = Field(default_factory=dict)


class MachineLimited(Payload):
    """A person changed the limit of a loop. wfctl ignores a change without a proof of consent."""

    loop: Text
    before: Whole | None = None  # Decided by the rules: the previous limit.
    to: Annotated[int, Field(ge=1, le=MOST_ROUNDS)]
    reason: Text
    approved_by: str | None = None
    proof: Document = Field(default_factory=dict)


class MachineCancelled(Payload):
    """Somebody cancelled the machine, permanently or to start again."""

    reason: Text | None = None
    left: str | None = None  # Decided by the rules: the phase before.
    #: Whether the machine starts again under the same name, without its earlier state.
    anew: bool = False
    #: As in `MachineCreated`, if the machine starts again. Decided by the rules.
    earlier: dict[str, str] = Field(default_factory=dict)
