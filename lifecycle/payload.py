"""The data of each event type: frozen models, strict when written, tolerant when read.

A command is the payload of the event that it asks for: `decide` accepts it, completes it and
adds what follows from it, or refuses it. Validators are built when first used, so that a
process pays only for the types it writes.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, JsonValue, StringConstraints

StageId = Annotated[str, StringConstraints(pattern=r"^stage-[1-9][0-9]*$")]
AttemptId = Annotated[str, StringConstraints(pattern=r"^att-[0-9]{4,}$")]
AmendmentId = Annotated[str, StringConstraints(pattern=r"^amend-[1-9][0-9]*$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=20_000)]
Document = dict[str, JsonValue]


class Payload(BaseModel):
    """Base of every payload. ``type`` is the stable event name, never a class path."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True
    )
    type: ClassVar[str]
    schema_version: ClassVar[int] = 1


class StagePayload(Payload):
    """Base of the payloads that concern one stage."""

    stage: StageId


class AttemptPayload(StagePayload):
    """Base of the payloads that concern one attempt of a stage."""

    attempt: AttemptId


class WorkflowCreated(Payload):
    """A workflow exists: its document as first projected, and where its root is."""

    type: ClassVar[str] = "workflow.created"
    document: Document
    #: JSON pointer of an object → its keys in the order they were written in.
    layout: dict[str, list[str]] = {}
    purpose: str | None = None
    root: Document = {}
    consent: Literal["terminal", "signature", "trust"] = "terminal"
    #: Lines of an allowed-signers file (ssh-keygen(1)), for the policy ``signature``.
    signers: list[str] = []


class WorkflowImported(Payload):
    """A workflow taken over from files that somebody else kept."""

    type: ClassVar[str] = "workflow.imported"
    document: Document
    layout: dict[str, list[str]] = {}
    #: How many events the import has, this one included: none after them is a part of it.
    events: int = 0
    source: Document = {}
    findings: list[Document] = []
    root: Document = {}
    consent: Literal["terminal", "signature", "trust"] = "terminal"
    signers: list[str] = []


class LineImported(Payload):
    """What stood in an imported log, and what it says: a fact of another's keeping.

    ``raw`` holds the lines as they were, without their newlines; several entries where they
    differ in their time alone (``count``).
    """

    type: ClassVar[str] = "line.imported"
    raw: list[str]
    encoding: Literal["utf-8", "base64"] = "utf-8"
    #: Whether a newline ends it; only the last line of a file may lack it.
    ended: bool = True
    text: str
    #: The time as it was typed; None where the line has none.
    typed_at: str | None = None
    line: int
    count: int = 1
    #: Whether the file that was imported last still holds it.
    kept: bool = True
    commit: str | None = None
    stage: StageId | None = None
    statuses: list[str] = []
    retry: int | None = None
    session: int | None = None
    workflow_completed: bool = False


class StateImported(Payload):
    """A version of an imported ``workflow-state.json``: the state as it said it was."""

    type: ClassVar[str] = "state.imported"
    document: Document
    layout: dict[str, list[str]] = {}
    source: Document = {}


class WorkflowCompleted(Payload):
    """Every stage is completed or skipped."""

    type: ClassVar[str] = "workflow.completed"
    stages: int
    report: str | None = None


class WorkflowReopened(Payload):
    """A completed workflow has work to do again."""

    type: ClassVar[str] = "workflow.reopened"
    reason: Text


class StageReadied(StagePayload):
    """A stage may be picked up; ``reset``: times and ``retry_count`` start from nothing."""

    type: ClassVar[str] = "stage.readied"
    reason: str = "dependencies met"
    reset: bool = False
    amendment: AmendmentId | None = None


class StagePrepared(StagePayload):
    """A stage was picked up; its inputs are being built."""

    type: ClassVar[str] = "stage.prepared"
    detail: str | None = None


class FileDigest(BaseModel):
    """A file as it was: path relative to the root, size in bytes, SHA-256 in hex."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)
    path: str
    size: int
    sha256: str


class AttemptStarted(StagePayload):
    """An attempt is about to be launched: committed before any process of it starts."""

    type: ClassVar[str] = "attempt.started"
    attempt: AttemptId | None = None  # decided: the next number of the stage
    mode: Literal["sync", "tmux", "setsid"]
    root: str
    work_dir: str
    submission: str
    submission_sha256: str
    wrapper: str
    session: str | None = None
    host: str | None = None
    boot_id: str | None = None
    inputs: list[FileDigest] = []
    diagnostic: bool = False
    recovers: AttemptId | None = None


class StageLaunched(AttemptPayload):
    """The attempt's processes run; what its runner told of itself."""

    type: ClassVar[str] = "stage.launched"
    mode: Literal["tmux", "setsid"]
    session: str | None = None
    submission_hash: str | None = None
    job_ids: list[str] = []
    host: str | None = None
    boot_id: str | None = None
    dpdispatcher_version: str | None = None


class StageComputed(AttemptPayload):
    """The computation is over, with exit code 0."""

    type: ClassVar[str] = "stage.computed"
    exit_code: int
    detail: str | None = None
    facts: Document = {}


class Check(BaseModel):
    """One check of a verification and what it found."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)
    name: str
    passed: bool
    detail: str = ""


class StageCompleted(StagePayload):
    """The outputs were verified against the success criteria."""

    type: ClassVar[str] = "stage.completed"
    attempt: AttemptId | None = None
    detail: str | None = None
    checks: list[Check] = []
    evidence: Text | None = None
    judged_by: str | None = None
    outputs: list[FileDigest] = []


class StageFailed(StagePayload):
    """The stage failed; ``error`` goes into ``last_error``."""

    type: ClassVar[str] = "stage.failed"
    error: Text
    attempt: AttemptId | None = None
    exit_code: int | None = None
    checks: list[Check] = []
    superseded_by: AmendmentId | None = None


class StageRetried(StagePayload):
    """A failed stage may run again after a fix."""

    type: ClassVar[str] = "stage.retried"
    fix: Text
    retry: int | None = None  # decided: the stage's count, this one included
    regenerate: bool = False


class StageInvalidated(StagePayload):
    """A completed stage is stale, because of an approved amendment."""

    type: ClassVar[str] = "stage.invalidated"
    amendment: AmendmentId
    reason: str | None = None


class StageSkipped(StagePayload):
    """A person decided that the stage is not needed."""

    type: ClassVar[str] = "stage.skipped"
    amendment: AmendmentId
    reason: str | None = None


class StageBlocked(StagePayload):
    """A stage stays held back by a dependency that failed or was skipped."""

    type: ClassVar[str] = "stage.blocked"
    dependency: StageId
    dependency_status: Literal["failed", "skipped"]


class AttemptObserved(AttemptPayload):
    """What the reconciler saw of an attempt, and what it concluded."""

    type: ClassVar[str] = "attempt.observed"
    row: int
    verdict: Text
    action: Text
    reason: str
    evidence: Document


class AttemptRelaunched(AttemptPayload):
    """The monitor of an attempt was started again; the computation was not."""

    type: ClassVar[str] = "attempt.relaunched"
    mode: Literal["sync", "tmux", "setsid"]
    session: str | None = None
    reason: str


class OutputsRecorded(StagePayload):
    """The stage's list of output paths, relative to the root."""

    type: ClassVar[str] = "outputs.recorded"
    outputs: list[str]


class OutputsArchived(StagePayload):
    """The stage's folder was kept under another name before it runs again."""

    type: ClassVar[str] = "outputs.archived"
    kept_as: Annotated[str, StringConstraints(pattern=r"^stage-[1-9][0-9]*\.v[1-9][0-9]*$")]
    amendment: AmendmentId | None = None


class CheckpointRecorded(StagePayload):
    """Where a long computation can go on from."""

    type: ClassVar[str] = "checkpoint.recorded"
    checkpoint: JsonValue


class NoteLogged(Payload):
    """A line of free text for the log; ``external`` where somebody else wrote it there."""

    type: ClassVar[str] = "note.logged"
    text: Text
    stage: StageId | None = None
    kind: Literal["note", "external"] = "note"
    #: External: it lies behind the lines of the versions up to this one; None: where the event
    #: stands.
    after: int | None = None
    #: External: its bytes in base64, where they are not ``text`` in UTF-8 and a newline.
    raw: str | None = None


AmendmentType = Literal[
    "parameter_change", "criteria_change", "stage_insert", "stage_skip", "stage_rerun"
]


class AmendmentProposed(Payload):
    """A definitional change that somebody asks for. Nothing changes yet."""

    type: ClassVar[str] = "amendment.proposed"
    amendment: AmendmentId | None = None  # decided: the workflow's next number
    kind: AmendmentType
    stage: StageId | None = None
    description: Text
    reason: Text | None = None
    #: Field, or field → key, → ``{"old": …, "new": …}``; no ``old``: it was not there, no ``new``:
    #: it is taken away. Decided: ``old`` where the command leaves it out.
    changes: Document = {}
    #: The definition of an inserted stage, and its place in the array (0 is first).
    insert: Document | None = None
    place: int | None = None
    #: Insert: the stages that shall depend on the new one. Skip: true, its dependents drop it.
    rewire: list[StageId] | bool = False
    #: Decided: stage → its ``depends_on``, ``{"old": …, "new": …}``.
    rewired: dict[StageId, Document] = {}


class AmendmentApproved(Payload):
    """A person agreed; takes effect only with an accepted proof of consent."""

    type: ClassVar[str] = "amendment.approved"
    amendment: AmendmentId
    version: int | None = None  # decided: the workflow's version, one more than before
    invalidated_stages: list[StageId] = []  # decided: all that are affected, whatever their status
    approved_by: str = "user"
    proof: Document = {}
    #: Stage → the highest K of the ``stage-N.vK`` that were found on the disk.
    kept: dict[StageId, int] = {}


class AmendmentRejected(Payload):
    """A person did not agree; nothing changes."""

    type: ClassVar[str] = "amendment.rejected"
    amendment: AmendmentId
    reason: str | None = None


class SessionStarted(Payload):
    """An executor's session began."""

    type: ClassVar[str] = "session.started"
    number: int | None = None  # decided: the workflow's count, this one included


ExitReason = Literal["budget_exhausted", "completed", "blocked", "waiting"]


class SessionEnded(Payload):
    """An executor's session ended in order."""

    type: ClassVar[str] = "session.ended"
    reason: ExitReason
    next: str | None = None


class CostCharged(StagePayload):
    """The session's cost grew by the weight of a stage's class."""

    type: ClassVar[str] = "cost.charged"
    weight: float
    work_class: Literal["sync", "async", "error_cycle", "diagnostic"]


DriftKind = Literal["changed", "missing", "truncated", "unreadable"]


class DriftDetected(Payload):
    """A file that wfctl writes was changed by somebody else. It is written anew."""

    type: ClassVar[str] = "drift.detected"
    file: str
    kind: DriftKind = "changed"
    #: The version of the log that the file had shown.
    base: int = 0
    #: Where the foreign bytes are kept, relative to the root, and their SHA-256 in hex.
    kept_as: str | None = None
    found_sha256: str | None = None
    differences: list[Document] = []
    #: How many differences are not listed.
    more: int = 0


class UnknownField(BaseModel):
    """A field that the protocol does not have, of a stage or of the workflow."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)
    stage: StageId | None = None
    field: str
    value: JsonValue = None
    #: JSON pointer of an object in ``value`` → its keys in the order they were written in.
    layout: dict[str, list[str]] = {}
    removed: bool = False


class DriftAdopted(Payload):
    """A foreign change was turned into events; fields that nobody specified come with it."""

    type: ClassVar[str] = "drift.adopted"
    file: str
    #: The version of the ``drift.detected``. Decided: the newest of the file that waits.
    detected: int | None = None
    unknown: list[UnknownField] = []
    #: The paths of the differences that were not taken over.
    left: list[str] = []


class DriftReverted(Payload):
    """A foreign change was dismissed: the file stays as the log says."""

    type: ClassVar[str] = "drift.reverted"
    file: str
    detected: int | None = None  # decided, as above
    kept_as: str | None = None


#: The closed union of the staged workflow: event type → its payload.
PAYLOADS: dict[str, type[Payload]] = {
    payload.type: payload
    for payload in (
        WorkflowCreated,
        WorkflowImported,
        LineImported,
        StateImported,
        WorkflowCompleted,
        WorkflowReopened,
        StageReadied,
        StagePrepared,
        AttemptStarted,
        StageLaunched,
        StageComputed,
        StageCompleted,
        StageFailed,
        StageRetried,
        StageInvalidated,
        StageSkipped,
        StageBlocked,
        AttemptObserved,
        AttemptRelaunched,
        OutputsRecorded,
        OutputsArchived,
        CheckpointRecorded,
        NoteLogged,
        AmendmentProposed,
        AmendmentApproved,
        AmendmentRejected,
        SessionStarted,
        SessionEnded,
        CostCharged,
        DriftDetected,
        DriftAdopted,
        DriftReverted,
    )
}
