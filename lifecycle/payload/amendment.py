"""The data of the events of amendments."""

from typing import ClassVar, Literal

from lifecycle.payload.base import (
    AmendmentId,
    DecisionId,
    Document,
    Payload,
    StageId,
    Text,
    Whole,
)

AmendmentType = Literal[
    "parameter_change",
    "criteria_change",
    "stage_insert",
    "stage_skip",
    "stage_rerun",
    "plan_change",
]


class AmendmentProposed(Payload):
    """A definitional change that somebody asks for. Nothing changes yet."""

    type: ClassVar[str] = "amendment.proposed"
    schema_version: ClassVar[int] = 3
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


class AmendmentApproved(Payload):
    """A person agreed; takes effect only with an accepted proof of consent."""

    type: ClassVar[str] = "amendment.approved"
    schema_version: ClassVar[int] = 3
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
    """A person did not agree; nothing changes."""

    type: ClassVar[str] = "amendment.rejected"
    schema_version: ClassVar[int] = 2
    amendment: DecisionId
    reason: str | None = None
