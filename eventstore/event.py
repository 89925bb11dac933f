"""An event before and after it is recorded."""

from typing import Any, NamedTuple

from eventstore.envelope import set_aside


class Actor(NamedTuple):
    """Who caused an event. `kind` is user, agent, reconciler, runner or import."""

    kind: str
    name: str


class NewEvent(NamedTuple):
    """An event to append. `occurred_at` is UTC: `YYYY-MM-DDTHH:MM:SS.ffffffZ`."""

    event_id: str
    type: str
    schema_version: int
    data: dict[str, Any]
    actor: Actor
    session: int | None
    causation_id: str | None
    correlation_id: str | None
    occurred_at: str


class RecordedEvent:
    """An event of the log, its data lifted to the current schema version.

    `body` is the decoded envelope without `hash` and `position`; treat it as read-only. What was
    hashed, byte for byte, is what `EventStore.raw` yields.
    """

    __slots__ = ("body", "hash", "position")

    def __init__(self, position: int, hash_: str, body: dict[str, Any]) -> None:
        self.position = position
        self.hash = hash_
        self.body = body

    def aside(self, why: str) -> "RecordedEvent":
        """What is read in place of the event where it counts for nothing."""
        return RecordedEvent(self.position, self.hash, set_aside(self.body, why))

    @property
    def stream(self) -> str:
        """Name of the stream."""
        return self.body["stream"]  # type: ignore[no-any-return]

    @property
    def version(self) -> int:
        """Place in its stream: 1, 2, … without a gap."""
        return self.body["version"]  # type: ignore[no-any-return]

    @property
    def event_id(self) -> str:
        """Identity of the event, unique in the database."""
        return self.body["event_id"]  # type: ignore[no-any-return]

    @property
    def type(self) -> str:
        """Stable name such as `stage.completed`."""
        return self.body["type"]  # type: ignore[no-any-return]

    @property
    def schema_version(self) -> int:
        """Schema version of `data` as it is here, after lifting."""
        return self.body["schema_version"]  # type: ignore[no-any-return]

    @property
    def data(self) -> dict[str, Any]:
        """What the event says, in its current schema version."""
        return self.body["data"]  # type: ignore[no-any-return]

    @property
    def actor(self) -> Actor:
        """Who caused it."""
        actor = self.body["actor"]
        return Actor(actor["kind"], actor["name"])

    @property
    def session(self) -> int | None:
        """Number of the session it belongs to."""
        return self.body["session"]  # type: ignore[no-any-return]

    @property
    def command_id(self) -> str:
        """Idempotency key of the command that appended it."""
        return self.body["command_id"]  # type: ignore[no-any-return]

    @property
    def causation_id(self) -> str | None:
        """Identity of the event or command that caused it."""
        return self.body["causation_id"]  # type: ignore[no-any-return]

    @property
    def correlation_id(self) -> str | None:
        """What it shares with others of one conversation."""
        return self.body["correlation_id"]  # type: ignore[no-any-return]

    @property
    def occurred_at(self) -> str:
        """When it was so, UTC, `YYYY-MM-DDTHH:MM:SS.ffffffZ`."""
        return self.body["occurred_at"]  # type: ignore[no-any-return]

    @property
    def recorded_at(self) -> str:
        """When the log learned it, UTC, `YYYY-MM-DDTHH:MM:SS.ffffffZ`."""
        return self.body["recorded_at"]  # type: ignore[no-any-return]

    @property
    def utc_offset(self) -> str:
        """The writer's local offset at `recorded_at`, such as `+02:00`."""
        return self.body["utc_offset"]  # type: ignore[no-any-return]

    @property
    def prev_hash(self) -> str:
        """Hash of the version before, 64 zeros for version 1."""
        return self.body["prev_hash"]  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordedEvent):
            return NotImplemented
        return (self.position, self.hash) == (other.position, other.hash)

    def __hash__(self) -> int:
        return hash((self.position, self.hash))

    def __repr__(self) -> str:
        return f"RecordedEvent({self.stream}@{self.version} {self.type} #{self.position})"
