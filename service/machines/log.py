"""The log of one machine: its stream, folded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eventstore.chain import START, Link
from eventstore.codec import canonical, digest
from eventstore.event import RecordedEvent
from eventstore.store import EventStore
from lifecycle.machines.definition import DEFINITION
from lifecycle.machines.errors import StateNotFound
from lifecycle.machines.evolve import steps
from lifecycle.machines.machine import Bound, Machine
from lifecycle.machines.transition import closed_to
from service.consent import doubts
from service.consent.approvals import Approvals
from service.consent.proof import RecordedApproval, as_of, by_policy
from service.errors import NotFound
from service.reading.moment import Moment
from service.reading.sealing import as_folded
from service.root.root import Root

APPROVED = "machine.approved"
WITHDRAWN = "machine.withdrawn"
LIMITED = "machine.limited"
TRANSITIONED = "machine.transitioned"
#: The form of the statements that are signed now. The second names no fields, and the first no
#: files either; what was signed in any of them goes on to count.
FORM = 3
_SECOND = 2


def statement_of(
    state: Machine,
    approval: str,
    choice: str | None,
    head: str,
    bound: Bound,
) -> bytes:
    """Return what is signed: canonical JSON of all that a proof is bound to.

    ``bound`` is what the approval is of: no fields in the second form, no files in the first.
    """
    known: dict[str, Any] = {}
    if bound.files is not None:
        known = {"files": bound.files, "form": _SECOND}
    if bound.fields is not None:
        ways = [way.to for way in state.definition.ways_of(approval)]
        known |= {"fields": bound.fields, "form": FORM, "leads_to": ways}
    return canonical({**known, **_said(state, approval, head), "choice": choice})


def withdrawal_of(state: Machine, approval: str, head: str) -> bytes:
    """Return what is signed where an approval is taken back."""
    return canonical({**_said(state, approval, head), "form": FORM, "withdraws": True})


def _said(state: Machine, approval: str, head: str) -> dict[str, Any]:
    return {
        "approval": approval,
        "asks": state.known_approvals[approval].asks,
        "head": head,
        "machine": state.id,
        "phase": state.phase,
        "policy": state.consent,
        **(definition_of(state) if approval == DEFINITION else {}),
    }


def definition_of(state: Machine) -> dict[str, Any]:
    """Return what is agreed to with a definition of one's own: its text, and who may agree later.

    Nothing where it is no matter of agreement: an approval may have had this name before.
    """
    if state.definition_agreed is None:
        return {}
    known = {"definition": state.definition.source(), "phases": list(state.definition.phases)}
    return {**known, "sha256": digest(canonical(known)), "signers": state.signers}


def objection(state: Machine, type_: str, given: RecordedApproval) -> str | None:
    """Return why an approval, or its withdrawal, does not count in ``state``; None: it does."""
    if type_ == LIMITED:
        return doubts.objection(state, type_, given)
    name, proof = given.data.get("approval"), given.data.get("proof")
    known = state.known_approvals.get(str(name))
    if known is None or known.phase != state.phase:
        return f"no approval {name!r} is given in the phase {state.phase}"
    if not isinstance(proof, dict) or not proof:
        return "it has no proof of consent"
    if proof.get("policy") != state.consent:
        return f"its proof is for the policy {proof.get('policy')}; in force is {state.consent}"
    return _unbound(state, type_, given, proof)


def _unbound(
    state: Machine, type_: str, given: RecordedApproval, proof: Mapping[str, Any]
) -> str | None:
    data, head = given.data, given.prev_hash
    if type_ == WITHDRAWN:
        statement = withdrawal_of(state, data["approval"], head)
    else:
        bound = Bound(data.get("files"), data.get("fields"))
        if proof.get("form") != _form_of(bound):
            return "its proof does not say which fields and files it is of"
        statement = statement_of(state, data["approval"], data.get("choice"), head, bound)
    if proof.get("statement") != digest(statement):
        return "its proof was given for another approval, choice, fields, files or head"
    return by_policy(state, given, proof, statement)


def _form_of(bound: Bound) -> int | None:
    if bound.fields is not None:
        return FORM
    return _SECOND if bound.files is not None else None


class Judge:
    """Which approvals and changes of phase of a stream count, judged one by one as it is folded.

    ``accepted`` holds the hash of the approval that the fold takes up next, where it counts.
    """

    def __init__(self, store: EventStore, stream: str, root: Path | None) -> None:
        self.accepted: set[str] = set()
        self.refused: dict[int, str] = {}
        self.state: Machine | None = None
        self._latest = ""
        self._pins = Approvals(store, stream, root)

    def judged(self, events: Iterator[RecordedEvent]) -> Iterator[RecordedEvent]:
        """Yield the events, each approval judged in the state before it."""
        for event in events:
            self.accepted.clear()
            self._latest = max(self._latest, event.recorded_at)
            if event.type in (APPROVED, WITHDRAWN, LIMITED) and self.state is not None:
                self._judge(event, self.state, self._latest)
            elif event.type == TRANSITIONED and self.state is not None:
                self._judge_way(event, self.state)
            yield event

    def _judge_way(self, event: RecordedEvent, state: Machine) -> None:
        why = closed_to(state, event.data)
        if why is not None:
            self.refused[event.version] = why

    def _judge(self, event: RecordedEvent, state: Machine, at: str) -> None:
        why = self._pins.pin_objection() or objection(state, event.type, as_of(event, at))
        if why is None:
            self.accepted.add(event.hash)
        else:
            self.refused[event.version] = why


PREFIX = "machine-"
At = Moment | int | None


class MachineLog:
    """One stream of a store, read as a machine. ``root`` is the folder it is read for."""

    def __init__(self, store: EventStore, machine: str, root: Path) -> None:
        self.store = store
        self.machine = machine
        self.stream = PREFIX + machine
        self.root = root
        self._judge = Judge(store, self.stream, root)
        self._folded: Machine | None = None
        self._end = START

    def state(self, at: At = None) -> Machine | None:
        """Return the state now or as it was, None where there was none; not to be changed."""
        if at is None:
            return self._now()
        found: Machine | None = None
        for _, state in self.steps(upto=at):
            found = state
        return found

    def _now(self) -> Machine | None:
        """Fold what came since the last look, if that still is where the log stood then."""
        head = self.store.head(self.stream)
        if head is None or (head.version, head.hash) == self._end:
            return self._folded if head is not None else None
        if not self._stands():
            self._judge = Judge(self.store, self.stream, self.root)
            self._folded, self._end = None, START
        draft = self._folded.draft() if self._folded is not None else None
        events = self.store.read(self.stream, after=self._end.version)
        for event, state in self._steps(draft, events, self._judge):
            self._folded, self._end = state, Link(event.version, event.hash)
        return self._folded

    def _stands(self) -> bool:
        """Whether the event at which the last look ended is there as it was."""
        if self._folded is None:
            return False
        found = next(
            self.store.raw(self.stream, after=self._end.version - 1, upto=self._end.version), None
        )
        return found is not None and found.hash == self._end.hash

    def current(self, at: At = None) -> Machine:
        """Return the state now or as it was; raises `StateNotFound`, `NotFound`.

        Raises `InvalidOption` for a session, which a machine has none of.
        """
        if at is not None:
            self._require(at)
        found = self.state(at)
        if found is not None:
            return found
        if at is None:
            raise self._unknown()
        raise NotFound(
            f"no machine {self.machine!r} yet ({at}); its log begins with version 1",
            machine=self.machine,
        )

    def _require(self, at: Moment | int) -> None:
        """Raise `StateNotFound` for no machine, `NotFound` for a version that is yet to come."""
        head = self.store.head(self.stream)
        if head is None:
            raise self._unknown()
        version = at.version if isinstance(at, Moment) else at
        if version is not None and version > head.version:
            raise NotFound(
                f"no version {version}: the log ends at version {head.version}", version=version
            )

    def _unknown(self) -> StateNotFound:
        return StateNotFound(self.machine, list(machines_in(self.store)))

    def steps(self, after: int = 0, upto: At = None) -> Iterator[tuple[RecordedEvent, Machine]]:
        """Yield each event after version ``after`` with the state once it is folded in.

        The state is one object, changed from step to step.
        """
        judge = Judge(self.store, self.stream, self.root)
        for event, state in self._steps(None, self._events(upto), judge):
            if event.version > after:
                yield event, state

    def along(self, events: Iterator[RecordedEvent]) -> Iterator[tuple[RecordedEvent, Machine]]:
        """Yield events that begin with the stream's first, as `steps` does."""
        return self._steps(None, events, Judge(self.store, self.stream, self.root))

    def _steps(
        self, draft: Machine | None, events: Iterator[RecordedEvent], judge: Judge
    ) -> Iterator[tuple[RecordedEvent, Machine]]:
        for event, state in steps(draft, judge.judged(events), judge.accepted):
            judge.state = state
            yield as_folded(event, state), state

    def ineffective(self) -> dict[int, str]:
        """Return the approvals that count for nothing: version → why."""
        judge = Judge(self.store, self.stream, self.root)
        for _ in self._steps(None, self._events(None), judge):
            pass
        return judge.refused

    def _events(self, upto: At) -> Iterator[RecordedEvent]:
        if isinstance(upto, Moment):
            return upto.seen(self.store.read(self.stream, upto=upto.version))
        return self.store.read(self.stream, upto=upto)


def machines_in(store: EventStore) -> Iterator[str]:
    """Yield the ids of the machines of a store, sorted."""
    for stream in store.streams():
        if stream.startswith(PREFIX):
            yield stream.removeprefix(PREFIX)


def folder_of(root: Root) -> Path:
    """Return where it is remembered what was written for each machine."""
    return root.folder / "machines"


def ids(root: Root, store: EventStore) -> list[str]:
    """Return the machines of this root, sorted; others may share the database."""
    found = list(machines_in(store))
    if root.url is None:
        return found
    return [id_ for id_ in found if _is_here(root, first_event(store, id_), id_)]


def _is_here(root: Root, first: RecordedEvent | None, id_: str) -> bool:
    if (folder_of(root) / f"{id_}.json").exists():
        return True
    known = (first.data.get("root") or {}) if first is not None else {}
    return known.get("path") in (None, str(root.path.resolve()))


def first_event(store: EventStore, id_: str) -> RecordedEvent | None:
    """Return the event a machine begins with."""
    return next(iter(store.read(PREFIX + id_, upto=1)), None)


def rivals(root: Root, store: EventStore, machine: Machine) -> Iterator[Machine]:
    """Yield the other machines of the root that write the same files, in the order they began.

    A protocol that names its files without an id has room for one machine at a time.
    """
    shared = {path for path in machine.definition.files.values() if "{id}" not in path}
    if not shared:
        return
    firsts = [(first_event(store, id_), id_) for id_ in ids(root, store) if id_ != machine.id]
    begun = sorted((first.position, id_) for first, id_ in firsts if first is not None)
    for _, id_ in begun:
        state = MachineLog(store, id_, root.path).state()
        if state is not None and shared & set(state.definition.files.values()):
            yield state


def is_writer(root: Root, store: EventStore, machine: Machine) -> bool:
    """Whether the machine is the one that writes its files: the last that began."""
    own = first_event(store, machine.id)
    for rival in rivals(root, store, machine):
        other = first_event(store, rival.id)
        if own is not None and other is not None and other.position > own.position:
            return False
    return True
