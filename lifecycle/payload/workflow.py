"""The data of events about workflows, sessions, amendments, loops and manual edits."""

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
from lifecycle.words.limits import MAX_COUNT, MAX_WEIGHT

#: A number in JSON notation.
Number = Annotated[str, string_constraints("number")]
#: The payload restricts this path, so that a forged log in an archive cannot make wfctl write
#: elsewhere.
ReportPath = Annotated[str, string_constraints("report")]


class WorkflowCreated(Payload):
    """Somebody created a workflow. The event contains the first plan and the root."""

    document: Document
    #: For each object in the document (a JSON pointer), the original order of its keys.
    layout: dict[str, list[str]] = {}
    purpose: str | None = None
    root: Document = {}
    consent: Literal["terminal", "signature", "trust"] = "terminal"
    #: Lines of an allowed-signers file (see ssh-keygen(1)), used by the consent policy
    #: ``signature``.
    signers: list[str] = []
    #: True if a person must approve the plan. wfctl then treats the plan as an amendment with the
    #: id ``plan``.
    proposed: bool = False


class WorkflowImported(Payload):
    """A workflow was imported from files that were kept without wfctl."""

    document: Document
    layout: dict[str, list[str]] = {}
    #: Number of events of the import, including this one. Later events do not belong to the import.
    events: Whole = 0
    source: Document = {}
    findings: list[Document] = []
    root: Document = {}
    consent: Literal["terminal", "signature", "trust"] = "terminal"
    signers: list[str] = []
    proposed: bool = False


class LineImported(Payload):
    """A line of an imported log, with its meaning. wfctl did not verify the line.

    ``raw`` contains the original lines without newlines. It has several entries if ``count`` lines
    differ only in their time.
    """

    raw: list[str]
    encoding: Literal["utf-8", "base64"] = "utf-8"
    #: False if no newline follows. Only the last line of a file may lack a newline.
    ended: bool = True
    text: str
    #: The time as written in the line, or None if the line has no time.
    typed_at: str | None = None
    line: Whole
    count: Whole = 1
    #: True if the latest imported version of the file still contains the line.
    kept: bool = True
    commit: str | None = None
    stage: StageId | None = None
    statuses: list[str] = []
    retry: Whole | None = None
    session: Whole | None = None
    workflow_completed: bool = False


class StateImported(Payload):
    """One version of an imported ``workflow-state.json``.

    ``spelling`` has the numbers that the file writes in another notation than wfctl, by JSON
    pointer.
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
    #: Version after whose line an external line appears in the log. None: the line appears here.
    after: Whole | None = None
    #: Bytes of an external line in base64, if they differ from ``text`` in UTF-8 plus a newline.
    raw: str | None = None


class SessionStarted(Payload):
    """A session started."""

    number: Whole | None = None  # decided: the workflow's count, this one included
    #: True if an automatic run loop opened the session and will end it.
    driven: bool = False
    #: Result of the script ``init.sh``: its SHA-256, its run time in seconds, and the file with its
    #: output.
    environment: Document | None = None
    #: Path of the workflow's report relative to the root. None: the default path.
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
    #: For a rerun: further stages that run again.
    also: list[StageId] = []
    description: Text
    reason: Text | None = None
    #: For each changed field, or each changed key of a field: ``{"old": …, "new": …}``. Without
    #: ``old``, the key is added; without ``new``, the key is removed. If a command omits ``old``,
    #: wfctl fills it in.
    changes: Document = {}
    #: The definition of an inserted stage, and its index in the list of stages.
    insert: Document | None = None
    place: Whole | None = None
    #: For an insertion: the stages that will depend on the new stage. For a skip, true removes the
    #: dependencies on the skipped stage.
    rewire: list[StageId] | bool = False
    #: For each other stage: the change of its ``depends_on`` as ``{"old": …, "new": …}``, and
    #: changes of further fields as in ``changes``. For a plan_change the caller gives these
    #: changes; for other types wfctl computes them.
    rewired: dict[StageId, Document] = {}
    #: For a stage in a loop: results of the rounds before this round stay valid.
    from_round: Whole | None = None


class AmendmentApproved(Payload):
    """Somebody approved an amendment. wfctl ignores approvals without a valid proof of consent."""

    amendment: DecisionId
    #: The version of the plan after the approval, filled in by wfctl. The approval of the initial
    #: plan does not increase it.
    version: Whole | None = None
    invalidated_stages: list[StageId] = []  # decided: all that are affected, whatever their status
    approved_by: str = "user"
    proof: Document = {}
    #: For each stage, the highest number K among the existing archive folders ``stage-N.vK``.
    kept: dict[StageId, Whole] = {}
    #: Scripts that the plan runs, at the time of the approval: path → SHA-256 in hex.
    scripts: dict[str, str] = {}


class AmendmentRejected(Payload):
    """Somebody rejected a proposed change. Nothing changes."""

    amendment: DecisionId
    reason: str | None = None


LoopName = Annotated[str, string_constraints("loop")]


class RoundBegun(Payload):
    """The next round of a loop starts, with new points."""

    loop: LoopName
    #: The number of the round, filled in by wfctl. The first started round has the number 2.
    round: Annotated[int, Field(ge=2, le=MAX_COUNT)] | None = None
    points: list[Document]
    #: The proposer of the points, such as ``agent:bo``, and the output file of a stage from which
    #: they were read, if any.
    by: Text
    source: str | None = None
    #: Files from which the points were read: path → SHA-256 in hex.
    data: dict[str, str] = {}
    reason: Text | None = None


class LoopStopped(Payload):
    """Somebody stopped a loop. The current round still ends normally."""

    loop: LoopName
    reason: Text


#: Path of the archived copy of an edited file. It must be a plain name in one fixed folder.
KeptAs = Annotated[str, string_constraints("drift")]
DriftKind = Literal["changed", "missing", "truncated", "unreadable"]


class DriftDetected(Payload):
    """wfctl found a manual edit of a file that wfctl writes. It writes the file again."""

    file: str
    kind: DriftKind = "changed"
    #: The version of the log that the file showed before the edit.
    base: Whole = 0
    #: Path of the archived copy of the edited file, relative to the root, and the SHA-256 of its
    #: contents in hex.
    kept_as: KeptAs | None = None
    found_sha256: str | None = None
    differences: list[Document] = []
    #: The number of differences that are not listed.
    more: Whole = 0


class UnknownField(PayloadPart):
    """A field of a stage or of the workflow that the protocol does not define."""

    stage: StageId | None = None
    field: str
    value: JsonValue = None
    #: For each object in ``value`` (a JSON pointer), the original order of its keys.
    layout: dict[str, list[str]] = {}
    removed: bool = False


class DriftAdopted(Payload):
    """Somebody accepted a manual edit of a file. Its changes become part of the log."""

    file: str
    #: The version of the event that detected the edit. wfctl fills in the newest undecided edit of
    #: the file.
    detected: Whole | None = None
    unknown: list[UnknownField] = []
    #: The paths of differences that have no meaning of their own and were ignored.
    left: list[str] = []
    #: The paths of differences that are not decided yet. The edit continues to wait for a decision
    #: about them.
    rest: list[str] = []


class AuditAgreed(Payload):
    """A person accepted an entry of `wfctl audit bypasses`, with a proof of consent.

    ``entry`` is the id of the entry. ``kind``, ``subject`` and ``text`` are copied from it.
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
    #: The person who agreed, and the proof of consent. Events of early versions have neither.
    approved_by: str | None = None
    proof: Document = {}
