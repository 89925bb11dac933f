"""Data models for the events of phase machines.

A command is the payload of the event that it requests. The rules fill in the fields that are marked
"Decided by the rules".
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, ValidationError

from extensions.machines.rules.definition import MOST_ROUNDS
from extensions.machines.rules.errors import InvalidInput
from lifecycle.payload.base import Document, Payload, PayloadPart, Text, Whole, string_constraints
from lifecycle.words.validation_errors import explain_validation_error

Layout = dict[str, list[str]]
MachineId = Annotated[str, string_constraints("machine")]
Consent = Literal["terminal", "signature", "trust"]


class MachineCreated(Payload):
    """Somebody created a machine. The event contains the machine's definition."""

    machine: MachineId
    definition: Document
    #: Order of the keys in the definition, because the order of the phases has a meaning. Decided
    #: by the rules.
    definition_layout: Layout = Field(default_factory=dict)
    document: Document = Field(default_factory=dict)
    #: JSON pointer of an object in ``document`` → its keys in their original order.
    layout: Layout = Field(default_factory=dict)
    consent: Consent = "terminal"
    signers: list[str] = Field(default_factory=list)
    #: Whether a person at a terminal must still accept the list of signers.
    proposed: bool = False
    #: Whether the definition is user-defined, that is, not included in wfctl.
    own: bool = False
    root: Document = Field(default_factory=dict)
    #: File that a guard of the first phase reads → its mark when the phase started. Decided by the
    #: rules.
    earlier: dict[str, str] = Field(default_factory=dict)


class MachineImported(Payload):
    """Somebody imported a machine that was kept by hand. wfctl did not check its history."""

    machine: MachineId
    definition: Document
    #: Order of the keys in the definition, because the order of the phases has a meaning. Decided
    #: by the rules.
    definition_layout: Layout = Field(default_factory=dict)
    phase: str
    status: str | None = None
    document: Document = Field(default_factory=dict)
    layout: Layout = Field(default_factory=dict)
    #: Loop → the number of its repetitions.
    counts: dict[str, Whole] = Field(default_factory=dict)
    #: An object for each phase that was entered: phase, status, times, agent and data.
    visits: list[Document] = Field(default_factory=list)
    #: Approvals that the imported files mention: ``{"phase": …, "at": …}``.
    given: list[Document] = Field(default_factory=list)
    findings: list[Document] = Field(default_factory=list)
    created: str | None = None
    consent: Consent = "terminal"
    signers: list[str] = Field(default_factory=list)
    #: Whether a person at a terminal must still accept the list of signers.
    proposed: bool = False
    #: Whether the definition is user-defined, that is, not included in wfctl.
    own: bool = False
    root: Document = Field(default_factory=dict)
    #: File that a guard of the phase reads → its mark at the time of the import. Decided by the
    #: rules.
    earlier: dict[str, str] = Field(default_factory=dict)
    #: Running task → its output files that already existed, with their marks.
    task_earlier: dict[str, dict[str, str]] = Field(default_factory=dict)

    @property
    def entered_at(self) -> str | None:
        """Return the time at which the phase was entered, or None if it is unknown."""
        times = [one["entered_at"] for one in self.visits if one["phase"] == self.phase]
        return str(times[-1]) if times else None


class Change(PayloadPart):
    """A value for a dot path."""

    path: str
    value: JsonValue = None


def change_of(path: str, value: Any) -> Change:
    """Return a change of the field at a path.

    Raises `InvalidInput` if the value is too deep or is not JSON.
    """
    try:
        return Change(path=path, value=value)
    except ValidationError as error:
        why = explain_validation_error(error.errors()[0])
        raise InvalidInput(
            f"the value of the field {path} cannot be stored in the log: {why}", path=path
        ) from error


class MachineUpdated(Payload):
    """Fields of the machine's state changed, but not its phase."""

    changes: list[Change]
    #: JSON pointer of an object in ``changes`` → its keys in their original order.
    layout: Layout = Field(default_factory=dict)
    #: Files that the new values name → their SHA-256 at that time.
    digests: dict[str, str] = Field(default_factory=dict)
    #: Dot paths of the fields that were removed.
    removed: list[str] = Field(default_factory=list)


class MachineTransitioned(Payload):
    """The machine changed its phase and nothing else."""

    to: str | None = None  # None selects the open transition.
    reason: Text | None = None
    left: str | None = None  # Decided by the rules: the phase before.
    #: The requested phase, if the limit of a loop led to another phase. Decided by the rules.
    asked: str | None = None
    loop: str | None = None  # Decided by the rules.
    count: Whole | None = None  # Decided by the rules: the number of times that the loop was taken.
    limit: Whole | None = None  # Decided by the rules.
    #: Loops whose counts restart. Decided by the rules.
    resets: list[str] = Field(default_factory=list)
    #: Pattern → the matching files with content. Decided by the rules.
    files: dict[str, list[str]] = Field(default_factory=dict)
    #: File that a guard of the new phase reads → its mark when the phase started. Decided by the
    #: rules.
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
    #: Output file that existed when the task started → its mark.
    earlier: dict[str, str] = Field(default_factory=dict)


class MachineTaskClaimed(Payload):
    """An agent reserved a task for a limited time. Nobody else can change the task."""

    task: Text
    #: Duration of the reservation in seconds, at most 30 days.
    seconds: Annotated[int, Field(ge=1, le=2_592_000)] = 1_800
    renew: bool = False  # Decided by the rules: whether the caller renews a claim.
    by: str | None = None  # Decided by the rules: the caller, as kind:name.
    #: Code that identifies the owner: anyone who presents it may change the task. Decided by the
    #: rules.
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
    #: Path → SHA-256 of each file that the person saw. These are the files that the transitions
    #: require, the files that ``fields`` name, and the chosen file. None in events of older
    #: versions.
    files: dict[str, str] | None = None
    #: The fields that the approval covers, with their values. None in events of older versions.
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
    #: Whether the machine starts again from its first phase, without its earlier state.
    anew: bool = False
    #: If the machine starts again: file that a guard of the first phase reads → its mark. Decided
    #: by the rules.
    earlier: dict[str, str] = Field(default_factory=dict)
