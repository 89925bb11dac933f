"""The data of the events of files that somebody else changed."""

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, JsonValue, StringConstraints

from lifecycle.payload.base import Document, Payload, StageId, Whole
from lifecycle.words.naming import DRIFT_PATTERN, MAX_PATH

#: Where a foreign version of a file is kept: in one folder, under a plain name.
KeptAs = Annotated[str, StringConstraints(pattern=DRIFT_PATTERN, max_length=MAX_PATH)]
DriftKind = Literal["changed", "missing", "truncated", "unreadable"]


class DriftDetected(Payload):
    """A file that wfctl writes was changed by somebody else. It is written anew."""

    type: ClassVar[str] = "drift.detected"
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
    schema_version: ClassVar[int] = 2
    file: str
    #: The version of the ``drift.detected``. Decided: the newest of the file that waits.
    detected: Whole | None = None
    unknown: list[UnknownField] = []
    #: The paths of the differences that say nothing by themselves.
    left: list[str] = []
    #: The paths of those that nobody decided about yet: the change goes on to wait for them.
    rest: list[str] = []


class DriftReverted(Payload):
    """A foreign change was dismissed: the file stays as the log says."""

    type: ClassVar[str] = "drift.reverted"
    schema_version: ClassVar[int] = 2
    file: str
    detected: Whole | None = None  # decided, as above
    kept_as: KeptAs | None = None
    #: Who agreed, and the proof of it; nothing in the events of a time that asked nobody.
    approved_by: str | None = None
    proof: Document = {}
