"""Compute the state of a workflow or machine from its events, now or earlier.

To save time, the computation can start from a stored state.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import orjson

from eventstore.chain import START, Link
from eventstore.errors import StoreDamaged, UnsoundLog
from eventstore.event import RecordedEvent
from eventstore.store import EventStore, StoredFold
from lifecycle.errors import LifecycleError
from lifecycle.event import SET_ASIDE, State, find_ignored_event_entry
from lifecycle.state.loops import loop_state_of
from lifecycle.state.status import Status
from lifecycle.state.workflow import Amendment, Attempt, Drift, Session, Stage, Workflow
from service.consent.approvals import Approvals, ConsentPolicyState, EffectRules, EventJudge
from service.errors import InvalidOption, NotFound, ServiceError
from service.reading.point_in_history import Moment, session_end
from service.root.atomic_files import state_folder

_KEY_BYTES = 32
_SEAL_BYTES = 32


class Seal:
    """Authenticates stored content with a secret key of this user account.

    A seal proves that this account stored the content and that nobody has changed it.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    @property
    def name(self) -> str:
        """Return a name that identifies this user account's key without revealing the key."""
        return blake2b(b"name", key=self._key, digest_size=8).hexdigest()

    def sealed(self, content: bytes, purpose: str) -> bytes:
        """Return the content with its seal in front. ``purpose`` is the kind of content."""
        return self._compute_seal(content, purpose) + content

    def opened(self, kept: bytes, purpose: str) -> bytes | None:
        """Return the content without its seal, or None if the seal is invalid."""
        seal, content = kept[:_SEAL_BYTES], kept[_SEAL_BYTES:]
        return content if compare_digest(seal, self._compute_seal(content, purpose)) else None

    def _compute_seal(self, content: bytes, purpose: str) -> bytes:
        made = blake2b(key=self._key, digest_size=_SEAL_BYTES)
        made.update(len(purpose).to_bytes(8, "big"))
        made.update(purpose.encode("utf-8", "surrogateescape"))
        made.update(content)
        return made.digest()


def key_file() -> Path:
    """Return the path of this user account's secret key.

    The file is outside every workflow folder and database.
    """
    return state_folder() / "seal.key"


def read_seal() -> Seal | None:
    """Return the seal with this user account's key, or None without a key. Write nothing."""
    key = read_secret(key_file())
    return Seal(key) if key is not None else None


def get_or_create_seal() -> Seal | None:
    """Return the seal with this user account's key, and create the key if needed.

    Return None if the key cannot be stored.
    """
    key = get_or_create_secret(key_file())
    return Seal(key) if key is not None else None


def read_secret(path: Path) -> bytes | None:
    """Return the 32 secret bytes in a file, or None if the file is missing or invalid."""
    try:
        key = path.read_bytes()
    except OSError:
        return None
    return key if len(key) == _KEY_BYTES else None


def get_or_create_secret(path: Path) -> bytes | None:
    """Return the 32 secret bytes in a file, and create the file if needed.

    Return None if the file cannot be stored.
    """
    known = read_secret(path)
    if known is not None:
        return known
    import secrets  # imported only here, because it opens six files

    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(new, flags, 0o600), "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            # Create the name as a hard link. This is atomic, and fails if another process has
            # created a key meanwhile.
            path.hardlink_to(new)
        finally:
            new.unlink()
    except OSError:
        return read_secret(path)
    return read_secret(path)


NAME = "workflow"


def to_bytes(state: Workflow) -> bytes:
    """Return the state as JSON. The order of keys is kept."""
    return orjson.dumps(state)


def from_bytes(content: bytes) -> Workflow:
    """Return the state from JSON that `to_bytes` wrote."""
    return build_workflow_state(orjson.loads(content))


def build_workflow_state(data: dict[str, Any]) -> Workflow:
    """Return the state from decoded JSON values. The values become part of the state."""
    data["session"] = Session(**data["session"])
    data["amendments"] = {key: Amendment(**value) for key, value in data["amendments"].items()}
    data["drifts"] = [Drift(**drift) for drift in data["drifts"]]
    data["loops"] = {key: loop_state_of(value) for key, value in data["loops"].items()}
    data["stages"] = {key: _build_stage(value) for key, value in data["stages"].items()}
    return Workflow(**data)


def _build_stage(data: dict[str, Any]) -> Stage:
    """Return the stage from decoded JSON values."""
    data["status"] = Status(data["status"])
    data["attempts"] = [Attempt(**attempt) for attempt in data["attempts"]]
    return Stage(**data)


#: Maximum number of ignored events to describe. The command `wfctl fsck` lists all of them.
_MAX_DESCRIBED = 5


def replace_if_ignored(event: RecordedEvent, state: State) -> RecordedEvent:
    """Return the event, or a replacement with only the reason if the event is ignored.

    With the replacement, readers cannot use data that has no effect on the state.
    """
    found = find_ignored_event_entry(state, event.version)
    if found is None or event.type == SET_ASIDE:
        return event
    return event.build_ignored_event(found["why"])


def describe_ignored_events(state: State) -> list[str]:
    """Return a sentence for each of the first ignored events."""
    found = [
        f"version {one['version']} ({one['type']!r:.80}) is ignored: {one['why']}"
        for one in state.set_aside[:_MAX_DESCRIBED]
    ]
    more = len(state.set_aside) - _MAX_DESCRIBED
    return [*found, f"{more} more events are ignored; see `wfctl fsck`"] if more > 0 else found


At = Moment | int | None
"""A moment, the version for which it stands, or None for now."""

#: Number of new events after which the computed state is stored again.
FOLD_EVERY = 500
_HASH_LENGTH = 64


class StreamState(ConsentPolicyState, Protocol):
    """The state of a workflow or machine. ``head`` is the version of its last event."""

    head: int
    set_aside: list[dict[str, object]]


S = TypeVar("S", bound=StreamState)


class Rules(EffectRules[S], Protocol[S]):
    """The rules by which a state is computed from events, for a workflow or for a machine."""

    #: Name under which computed states are stored. ``reducer`` is the version of the computation.
    name: str
    reducer: int
    has_sessions: bool

    def steps(
        self, draft: S | None, events: Iterable[RecordedEvent], accepted: Container[str]
    ) -> Iterator[tuple[RecordedEvent, S]]:
        """Yield each event with the state after it.

        ``draft`` is the state before the first event. It is changed in place.
        """
        ...

    def draft(self, state: S) -> S:
        """Return a copy of the state that the computation may change."""
        ...

    def to_bytes(self, state: S) -> bytes:
        """Return the state as JSON bytes, for storing it."""
        ...

    def from_bytes(self, content: bytes) -> S:
        """Return the state from JSON that `to_bytes` wrote."""
        ...

    def absent(self, log: StreamLog[S], at: At) -> LifecycleError | ServiceError:
        """Return the error for a log without events, now or up to the given moment."""
        ...


class StreamLog(Generic[S]):
    """The log of one workflow or machine, which computes its state by the given rules.

    ``root`` is the folder of the log. It is needed to notice that the log was replaced by another
    one.
    """

    def __init__(self, rules: Rules[S], store: EventStore, stream: str, root: Path | None) -> None:
        self.rules = rules
        self.store = store
        self.stream = stream
        self.root = root
        self.approvals = Approvals(store, stream, root)
        self.judge: EventJudge[S] = EventJudge(self.approvals, rules)
        self._folded_at = 0
        #: The log is known not to have used the consent policy ``signature`` up to this version.
        self._unsigned = 0
        self._reached: RecordedEvent | None = None
        #: Cache: the newest state, the version and hash of its last event, and the latest recording
        #: time up to this event.
        self._newest: tuple[S, Link, str] | None = None

    def state(self, at: At = None) -> S | None:
        """Return the state now or at a moment, or None if the log has no events."""
        moment = self.resolved(at)
        if moment.so_by is not None or moment.known_by is not None:
            return self._fold(None, self._seen(moment))
        start, link, latest = self._load_stored_state(moment.version)
        read = self.store.read(self.stream, after=link, upto=moment.version)
        state = self._fold(start, read, latest)
        if start is not None and state is start:
            self._require_end(link)
        if state is not None and moment.version is None:
            # Cache the newest state, because a command requests it up to five times.
            last = self._reached
            end = Link(last.version, last.hash) if last is not None else link
            if end.version == state.head:
                self._newest = self.rules.draft(state), end, self.judge.latest
        return state

    def _require_end(self, link: Link) -> None:
        """Raise `UnsoundLog` if the log does not contain the last event of a stored state.

        If there are later events, the hash that they contain is checked anyway, and this check is
        not needed.
        """
        found = next(self.store.raw(self.stream, after=link.version - 1, upto=link.version), None)
        if found is None or found.hash != link.hash:
            reason = f"the hash differs from {link.hash}, which this user account had checked"
            kind = "cut_tail" if found is None else "anchor"
            raise UnsoundLog(self.stream, link.version, kind, reason)

    def events(self, at: At = None) -> Iterator[RecordedEvent]:
        """Yield the events that are visible at a moment."""
        return self._seen(self.resolved(at))

    def _seen(self, moment: Moment) -> Iterator[RecordedEvent]:
        if moment.so_by is not None:
            self._verify_approvals_before_hiding(moment)
        return moment.select_visible_events(self.store.read(self.stream, upto=moment.version))

    def resolved(self, at: At = None) -> Moment:
        """Return the moment with its session replaced by the last version of the session.

        Raises `NotFound` for an unknown version or session, and `InvalidOption` for a session in a
        log that has no sessions.
        """
        moment = at if isinstance(at, Moment) else Moment(version=at)
        if moment.session is not None:
            end = self._end_of(moment.session)
            version = end if moment.version is None else min(end, moment.version)
            moment = Moment(version, moment.so_by, moment.known_by)
        self.require(moment.version)
        return moment

    def _end_of(self, session: int) -> int:
        if not self.rules.has_sessions:
            raise InvalidOption(
                "a session cannot be used here, because only a workflow has sessions. Give a "
                "version or a time",
                session=session,
            )
        end = session_end(self.store.read(self.stream), session)
        if end is None:
            raise NotFound(
                f"the log has no session {session}. To list the sessions, run `wfctl audit costs`",
                session=session,
            )
        return end

    def replayed(self, at: At = None) -> S:
        """Return the state, computed from all events without using a stored state.

        Raises the same errors as `current`.
        """
        return self._require_state(self._fold(None, self.events(at)), at)

    def has_wrong_stored_state(self) -> bool:
        """Return whether the stored state differs from the state computed from all events."""
        kept = self._load_sealed_content()
        return kept is not None and kept[0] != self.rules.to_bytes(self.replayed(kept[1].version))

    def current(self, at: At = None) -> S:
        """Return the state now or at a moment.

        If the log has no events, raises the error that the rules define. Raises `NotFound` for an
        unknown moment.
        """
        return self._require_state(self.state(at), at)

    def _require_state(self, state: S | None, at: At) -> S:
        if state is None:
            raise self.rules.absent(self, at)
        return state

    def require(self, version: int | None) -> None:
        """Raise an error if the log does not contain a version.

        This is `NotFound` for a version after the end of the log, and the error of a violated rule
        for a log without events.
        """
        if version is None:
            return
        head = self.store.head(self.stream)
        if head is None:
            raise self.rules.absent(self, None)
        if version > head.version:
            raise NotFound(
                f"version {version} does not exist, because the log ends at version {head.version}",
                version=head.version,
            )

    def evolve(self, state: S | None, events: Iterator[RecordedEvent]) -> S | None:
        """Return the state after further events, starting from a copy of ``state``."""
        return self._fold(self.rules.draft(state) if state is not None else None, events)

    def steps(
        self, after: int = 0, start: S | None = None, upto: At = None
    ) -> Iterator[tuple[RecordedEvent, S]]:
        """Yield each event after version ``after`` with the state after the event.

        All yielded states are the same object, which each step changes. ``start`` is the state at
        version ``after``, if the caller knows it. ``upto`` is the last moment to read.
        """
        if upto is not None:
            yield from self._steps(None, self.events(upto))
            return
        if start is None and after:
            start = self.state(after)
        draft = self.rules.draft(start) if start is not None else None
        yield from self._steps(draft, self.store.read(self.stream, after=after))

    def replay_given_events(
        self, events: Iterator[RecordedEvent]
    ) -> Iterator[tuple[RecordedEvent, S]]:
        """Yield the given events with the state after each of them, as `steps` does.

        The events must start with the first event of the log.
        """
        return self._steps(None, events)

    def explain_ignored_events(self) -> dict[int, str]:
        """Return the version of each ignored approval or decision, with the reason."""
        found: dict[int, str] = {}
        for event, _ in self._steps(None, self.store.read(self.stream)):
            why = self.judge.explain_ignored_event(event)
            if why is not None:
                found[event.version] = why
        return found

    def _steps(
        self, draft: S | None, events: Iterator[RecordedEvent], latest: str = ""
    ) -> Iterator[tuple[RecordedEvent, S]]:
        reached = [draft]
        judged = self.judge.judged(events, lambda: reached[0], latest)
        for event, state in self.rules.steps(draft, judged, self.judge.accepted):
            reached[0] = state
            self._reached = event
            yield replace_if_ignored(event, state), state

    def _fold(self, draft: S | None, events: Iterator[RecordedEvent], latest: str = "") -> S | None:
        for _, folded in self._steps(draft, events, latest):
            draft = folded
        return draft

    def _verify_approvals_before_hiding(self, moment: Moment) -> None:
        """Check all approvals known at a moment, before some of the events are left out.

        An approval is valid or not in the state in which it was given, even if the moment hides
        some of the earlier events.
        """
        known = Moment(moment.version, known_by=moment.known_by)
        self._fold(None, self._seen(known))

    def _load_stored_state(self, at: int | None) -> tuple[S | None, Link, str]:
        """Return the stored state, its last event, and the latest recording time.

        A state in the database is used only if this user account stored it. Otherwise, return None
        and the start of the log.
        """
        if self._newest is not None and at is None:
            state, link, latest = self._newest
            return self.rules.draft(state), link, latest
        kept = self._load_sealed_content()
        if kept is None or (at is not None and kept[1].version > at):
            return None, START, ""
        content, link = kept
        self._folded_at = link.version
        state = self.rules.from_bytes(content)
        if state.head != link.version or self.approvals.should_ignore_stored_state(
            state, link.version
        ):
            return None, START, ""
        self._unsigned = link.version
        return state, link, ""

    def _load_sealed_content(self) -> tuple[bytes, Link] | None:
        """Return the content and last event of the stored state, or None if invalid."""
        seal = read_seal()
        if seal is None:
            return None
        try:
            fold = self.store.load_fold(self.stream, self._fold_name(seal), self.rules.reducer)
        except StoreDamaged:
            return None  # only a cache: the events yield the same state and show other damage
        content = (
            seal.opened(fold.state, self._seal_purpose(fold.version)) if fold is not None else None
        )
        if fold is None or content is None:
            return None
        return content[_HASH_LENGTH:], Link(fold.version, content[:_HASH_LENGTH].decode())

    def _seal_purpose(self, version: int) -> str:
        # The purpose records that the log never used the consent policy ``signature`` up to this
        # version. `store_state_if_due` stores a state only in this case.
        return f"{self.rules.name} {self.rules.reducer} never-signed {version} {self.stream}"

    def _fold_name(self, seal: Seal) -> str:
        """Return the name under which this user account stores the state.

        Several accounts may share a log.
        """
        return f"{self.rules.name} {seal.name}"

    def store_state_if_due(self, state: S) -> bool:
        """Store the state if enough events were added since it was last stored.

        Return whether this was the case. The state is stored with the hash of its last event, and
        with a seal of this user account.
        """
        if state.head - self._folded_at < FOLD_EVERY:
            return False
        if self.approvals.should_ignore_stored_state(state, self._unsigned):
            self._folded_at = state.head  # checked again only after as many new events
            return False
        last = self._reached
        seal = get_or_create_seal() if last is not None and last.version == state.head else None
        if seal is not None and last is not None:
            sealed = seal.sealed(
                last.hash.encode() + self.rules.to_bytes(state), self._seal_purpose(state.head)
            )
            self.store.save_fold(
                StoredFold(
                    self.stream, self._fold_name(seal), self.rules.reducer, state.head, sealed
                )
            )
        self._folded_at = state.head
        return True


def read_newest_event(store: EventStore, stream: str) -> RecordedEvent | None:
    """Return the last event of a stream, or None if the stream is empty."""
    head = store.head(stream)
    return None if head is None else next(store.read(stream, after=head.version - 1), None)
