"""The data of the events of workflows, sessions, amendments and foreign changes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from lifecycle.payload.base import (
    AmendmentId,
    DecisionId,
    Document,
    Payload,
    PayloadPart,
    StageId,
    StagePayload,
    Text,
    Whole,
    string_constraints,
)
from lifecycle.words.values import MAX_COUNT, MAX_WEIGHT

#: A number as JSON spells it.
Number = Annotated[str, string_constraints("number")]
#: Held to by the event itself: the log of an archive that somebody made up leads nowhere else.
ReportPath = Annotated[str, string_constraints("report")]


class WorkflowCreated(Payload):
    """Somebody created a workflow. The event contains the first plan and the root."""

    document: Document
    #: JSON pointer of an object → its keys in the order they were written in.
    layout: dict[str, list[str]] = {}
    purpose: str | None = None
    root: Document = {}
    consent: Literal["terminal", "signature", "trust"] = "terminal"
    #: Lines of an allowed-signers file (ssh-keygen(1)), for the policy ``signature``.
    signers: list[str] = []
    #: Decided: whether the plan waits for a person's approval, as the amendment ``plan``.
    proposed: bool = False


class WorkflowImported(Payload):
    """A workflow was imported from files that were kept without wfctl."""

    document: Document
    layout: dict[str, list[str]] = {}
    #: How many events the import has, this one included: none after them is a part of it.
    events: Whole = 0
    source: Document = {}
    findings: list[Document] = []
    root: Document = {}
    consent: Literal["terminal", "signature", "trust"] = "terminal"
    signers: list[str] = []
    proposed: bool = False


class LineImported(Payload):
    """A line of an imported log, with its meaning. wfctl did not verify the line.

    ``raw`` holds the lines as they were, without their newlines; several entries where they
    differ in their time alone (``count``).
    """

    raw: list[str]
    encoding: Literal["utf-8", "base64"] = "utf-8"
    #: Whether a newline ends it; only the last line of a file may lack it.
    ended: bool = True
    text: str
    #: The time as it was typed; None if the line has none.
    typed_at: str | None = None
    line: Whole
    count: Whole = 1
    #: Whether the file that was imported last still holds it.
    kept: bool = True
    commit: str | None = None
    stage: StageId | None = None
    statuses: list[str] = []
    retry: Whole | None = None
    session: Whole | None = None
    workflow_completed: bool = False


class StateImported(Payload):
    """One version of an imported ``workflow-state.json``.

    ``spelling``: numbers that the file writes differently from wfctl, by JSON pointer.
    """

    document: Document
    layout: dict[str, list[str]] = {}
    spelling: dict[str, Number] = {}
    source: Document = {}


class WorkflowCompleted(Payload):
    """Every stage is completed or skipped."""

    stages: Whole
    report: ReportPath | None = None


class WorkflowReopened(Payload):
    """A completed workflow has work to do again."""

    reason: Text


class NoteLogged(Payload):
    """A line of free text. If another program wrote the line, ``kind`` is ``external``."""

    text: Text
    stage: StageId | None = None
    kind: Literal["note", "external"] = "note"
    #: External: it lies behind the lines of the versions up to this one; None: where the event
    #: stands.
    after: Whole | None = None
    #: External: its bytes in base64, where they are not ``text`` in UTF-8 and a newline.
    raw: str | None = None


class SessionStarted(Payload):
    """A session started."""

    number: Whole | None = None  # decided: the workflow's count, this one included
    #: A loop keeps the session, and ends it.
    driven: bool = False
    #: What ``init.sh`` came to: its SHA-256, the seconds it took, the file with its output.
    environment: Document | None = None
    #: Where the workflow's report is to be written, relative to the root; None: the usual place.
    report: ReportPath | None = None


ExitReason = Literal["budget_exhausted", "completed", "blocked", "waiting"]


class SessionEnded(Payload):
    """A session ended normally."""

    reason: ExitReason
    next: str | None = None


class CostCharged(StagePayload):
    """wfctl charged the cost of a stage to the session."""

    weight: Annotated[float, Field(ge=0, le=MAX_WEIGHT)]
    work_class: Literal["sync", "async", "error_cycle", "diagnostic"]


AmendmentType = Literal[
    "parameter_change",
    "criteria_change",
    "stage_insert",
    "stage_skip",
    "stage_rerun",
    "plan_change",
]


class AmendmentProposed(Payload):
    """Somebody proposed a change of the workflow's definition. Nothing changes yet."""

    amendment: AmendmentId | None = None  # decided: the workflow's next number
    kind: AmendmentType
    stage: StageId | None = None
    #: Rerun: stages that run again together with it.
    also: list[StageId] = []
    description: Text
    reason: Text | None = None
    #: Field, or field → key, → ``{"old": …, "new": …}``; no ``old``: it was not there, no ``new``:
    #: it is taken away. Decided: ``old`` where the command leaves it out.
    changes: Document = {}
    #: The definition of an inserted stage, and its place in the array (0 is first).
    insert: Document | None = None
    place: Whole | None = None
    #: Insert: the stages that shall depend on the new one. Skip: true, its dependents drop it.
    rewire: list[StageId] | bool = False
    #: Stage → its ``depends_on``, ``{"old": …, "new": …}``, beside it other fields as in
    #: ``changes``. A plan_change says what changes of each stage; else it is decided.
    rewired: dict[StageId, Document] = {}
    #: Of a stage of a loop: what rounds before this one computed goes on to count.
    from_round: Whole | None = None


class AmendmentApproved(Payload):
    """Somebody approved an amendment. wfctl ignores approvals without a valid proof of consent."""

    amendment: DecisionId
    #: Decided: the workflow's version, one more than before; of the plan the one it began with.
    version: Whole | None = None
    invalidated_stages: list[StageId] = []  # decided: all that are affected, whatever their status
    approved_by: str = "user"
    proof: Document = {}
    #: Stage → the highest K of the ``stage-N.vK`` that were found on the disk.
    kept: dict[StageId, Whole] = {}
    #: Files of the root that the definition runs, as they were then: path → SHA-256 in hex.
    scripts: dict[str, str] = {}


class AmendmentRejected(Payload):
    """Somebody rejected a proposed change. Nothing changes."""

    amendment: DecisionId
    reason: str | None = None


LoopName = Annotated[str, string_constraints("loop")]


class RoundBegun(Payload):
    """The next round of a loop starts, with new points."""

    loop: LoopName
    #: Decided: its number, from 2 on.
    round: Annotated[int, Field(ge=2, le=MAX_COUNT)] | None = None
    points: list[Document]
    #: Who proposed them, such as ``agent:bo``; the output of a stage that holds them, if one does.
    by: Text
    source: str | None = None
    #: Files that they came from: path → SHA-256 in hex.
    data: dict[str, str] = {}
    reason: Text | None = None


class LoopStopped(Payload):
    """Somebody stopped a loop. The current round still ends normally."""

    loop: LoopName
    reason: Text


#: Where a foreign version of a file is kept: in one folder, under a plain name.
KeptAs = Annotated[str, string_constraints("drift")]
DriftKind = Literal["changed", "missing", "truncated", "unreadable"]


class DriftDetected(Payload):
    """wfctl found a manual edit of a file that wfctl writes. It writes the file again."""

    file: str
    kind: DriftKind = "changed"
    #: The version of the log that the file had shown.
    base: Whole = 0
    #: Where the foreign bytes are kept, relative to the root, and their SHA-256 in hex.
    kept_as: KeptAs | None = None
    found_sha256: str | None = None
    differences: list[Document] = []
    #: How many differences are not listed.
    more: Whole = 0


class UnknownField(PayloadPart):
    """A field that the protocol does not have, of a stage or of the workflow."""

    stage: StageId | None = None
    field: str
    value: JsonValue = None
    #: JSON pointer of an object in ``value`` → its keys in the order they were written in.
    layout: dict[str, list[str]] = {}
    removed: bool = False


class DriftAdopted(Payload):
    """Somebody accepted a manual edit of a file. Its changes become part of the log."""

    file: str
    #: The version of the ``drift.build_drift_event``. Decided: the newest of the file that waits.
    detected: Whole | None = None
    unknown: list[UnknownField] = []
    #: The paths of the differences that say nothing by themselves.
    left: list[str] = []
    #: The paths of those that nobody decided about yet: the change goes on to wait for them.
    rest: list[str] = []


class AuditAgreed(Payload):
    """A person accepted an entry of `wfctl audit bypasses`, with a proof of consent.

    ``entry`` is its id in `wfctl audit bypasses`; ``kind``, ``subject`` and ``text`` are what the
    audit says of it.
    """

    entry: Text
    kind: Text
    subject: Text
    text: Text
    reason: Text
    approved_by: str = "user"
    proof: Document = {}


class DriftReverted(Payload):
    """A person discarded a manual edit of a file. wfctl restored the file from the log."""

    file: str
    detected: Whole | None = None  # decided, as above
    kept_as: KeptAs | None = None
    #: Who agreed, and the proof of it; nothing in the events of a time that asked nobody.
    approved_by: str | None = None
    proof: Document = {}
