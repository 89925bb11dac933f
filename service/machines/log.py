"""The log of one machine: its stream, folded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from eventstore.chain import canonical, digest
from eventstore.event import RecordedEvent
from eventstore.store import EventStore
from lifecycle.machines.definition import DEFINITION, Definition, trusted
from lifecycle.machines.errors import StateNotFound
from lifecycle.machines.evolve import REDUCER, closed_to, steps
from lifecycle.machines.machine import Bound, Given, Handoff, Lease, Machine, Move, Visit
from lifecycle.state.workflow import Drift
from service.consent import doubts
from service.consent.proof import RecordedApproval, as_of, by_policy, missing
from service.errors import NotFound
from service.reading.stream_log import StreamLog
from service.root.root import Root

if TYPE_CHECKING:
    from service.reading.stream_log import At

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

    Nothing if it is no matter of agreement: an approval may have had this name before.
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
    return missing(state, proof) or _unbound(state, type_, given, proof or {})


def _unbound(
    state: Machine, type_: str, given: RecordedApproval, proof: Mapping[str, Any]
) -> str | None:
    data, head = given.data, given.prev_hash
    if type_ == WITHDRAWN:
        statement = withdrawal_of(state, data["approval"], head)
    else:
        bound = Bound(data.get("files"), data.get("fields"))
        form = FORM if bound.fields is not None else _SECOND if bound.files is not None else None
        if proof.get("form") != form:
            return "its proof does not say which fields and files it is of"
        statement = statement_of(state, data["approval"], data.get("choice"), head, bound)
    if proof.get("statement") != digest(statement):
        return "its proof was given for another approval, choice, fields, files or head"
    return by_policy(state, given, proof, statement)


PREFIX = "machine-"


class MachineRules:
    """What the events of a machine mean."""

    name = "machine"
    reducer = REDUCER
    proven = frozenset({APPROVED, WITHDRAWN, LIMITED})
    judged = proven | {TRANSITIONED}
    has_sessions = False

    steps = staticmethod(steps)
    draft = staticmethod(Machine.draft)

    def objection(self, state: Machine, event: RecordedEvent, at: str) -> str | None:
        """See Rules; a change of phase that the way did not allow is ignored either."""
        if event.type == TRANSITIONED:
            return closed_to(state, event.data)
        return objection(state, event.type, as_of(event, at))

    def to_bytes(self, state: Machine) -> bytes:
        """Return a state as JSON, to be kept and used again; key order is kept."""
        return orjson.dumps(state, default=_plain)

    def from_bytes(self, content: bytes) -> Machine:
        """Return the state that `to_bytes` wrote."""
        data: dict[str, Any] = orjson.loads(content)
        data["definition"] = trusted(data["definition"], data["id"])
        for one in data["visits"].values():
            one["written"] = {tuple(steps) for steps in one["written"]}
        data["visits"] = {phase: Visit(**one) for phase, one in data["visits"].items()}
        for name, kind in (("moves", Move), ("given", Given), ("drifts", Drift)):
            data[name] = [kind(**one) for one in data[name]]
        data["bound"] = {approval: Bound(*one) for approval, one in data["bound"].items()}
        data["leases"] = {task: Lease(**one) for task, one in data["leases"].items()}
        data["handoff"] = Handoff(**data["handoff"]) if data["handoff"] is not None else None
        return Machine(**data)

    def absent(self, log: StreamLog[Machine], at: At) -> StateNotFound | NotFound:
        """See Rules."""
        machine = log.stream.removeprefix(PREFIX)
        if at is None or log.store.head(log.stream) is None:
            return StateNotFound(machine, list(machines_in(log.store)))
        return NotFound(
            f"no machine {machine!r} yet ({at}); its log begins with version 1", machine=machine
        )


def _plain(value: Any) -> Any:
    if isinstance(value, Definition):
        return value.dumped()
    return sorted(value, key=repr) if isinstance(value, set) else list(value)


class MachineLog(StreamLog[Machine]):
    """One stream of a store, read as a machine; ``root`` is the folder it is read for."""

    def __init__(self, store: EventStore, machine: str, root: Path) -> None:
        super().__init__(MachineRules(), store, PREFIX + machine, root)
        self.machine = machine


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
    return [id_ for id_ in found if root.url is None or _is_here(root, store, id_)]


def _is_here(root: Root, store: EventStore, id_: str) -> bool:
    if (folder_of(root) / f"{id_}.json").exists():
        return True
    first = first_event(store, id_)
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
    others = (first_event(store, rival.id) for rival in rivals(root, store, machine))
    return own is None or not any(one.position > own.position for one in others if one is not None)
