"""The data of the events that concern a whole workflow: its life, its sessions, its notes."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from lifecycle.payload.base import Document, Payload, StageId, StagePayload, Text, Whole
from lifecycle.words.bounds import MAX_TEXT, MAX_WEIGHT
from lifecycle.words.naming import MAX_PATH, REPORT_PATTERN

#: A number as JSON spells it.
_NUMBER = StringConstraints(
    pattern=r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$", max_length=MAX_TEXT
)
#: Held to by the event itself: the log of an archive that somebody made up leads nowhere else.
_REPORT_PATH = StringConstraints(pattern=REPORT_PATTERN, max_length=MAX_PATH)


class WorkflowCreated(Payload):
    """A workflow exists: its document as first projected, and where its root is."""

    type: ClassVar[str] = "workflow.created"
    schema_version: ClassVar[int] = 2
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
    """A workflow taken over from files that somebody else kept."""

    type: ClassVar[str] = "workflow.imported"
    schema_version: ClassVar[int] = 2
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
    """A version of an imported ``workflow-state.json``: the state as it said it was.

    ``spelling``: numbers that it spells in other letters than we do, by JSON pointer.
    """

    type: ClassVar[str] = "state.imported"
    schema_version: ClassVar[int] = 2
    document: Document
    layout: dict[str, list[str]] = {}
    spelling: dict[str, Annotated[str, _NUMBER]] = {}
    source: Document = {}


class WorkflowCompleted(Payload):
    """Every stage is completed or skipped."""

    type: ClassVar[str] = "workflow.completed"
    stages: Whole
    report: Annotated[str, _REPORT_PATH] | None = None


class WorkflowReopened(Payload):
    """A completed workflow has work to do again."""

    type: ClassVar[str] = "workflow.reopened"
    reason: Text


class NoteLogged(Payload):
    """A line of free text for the log; ``external`` where somebody else wrote it there."""

    type: ClassVar[str] = "note.logged"
    text: Text
    stage: StageId | None = None
    kind: Literal["note", "external"] = "note"
    #: External: it lies behind the lines of the versions up to this one; None: where the event
    #: stands.
    after: Whole | None = None
    #: External: its bytes in base64, where they are not ``text`` in UTF-8 and a newline.
    raw: str | None = None


class SessionStarted(Payload):
    """An executor's session began."""

    type: ClassVar[str] = "session.started"
    schema_version: ClassVar[int] = 2
    number: Whole | None = None  # decided: the workflow's count, this one included
    #: A loop keeps the session, and ends it.
    driven: bool = False
    #: What ``init.sh`` came to: its SHA-256, the seconds it took, the file with its output.
    environment: Document | None = None
    #: Where the workflow's report is to be written, relative to the root; None: the usual place.
    report: Annotated[str, _REPORT_PATH] | None = None


ExitReason = Literal["budget_exhausted", "completed", "blocked", "waiting"]


class SessionEnded(Payload):
    """An executor's session ended in order."""

    type: ClassVar[str] = "session.ended"
    reason: ExitReason
    next: str | None = None


class CostCharged(StagePayload):
    """The session's cost grew by the weight of a stage's class."""

    type: ClassVar[str] = "cost.charged"
    weight: Annotated[float, Field(ge=0, le=MAX_WEIGHT)]
    work_class: Literal["sync", "async", "error_cycle", "diagnostic"]
