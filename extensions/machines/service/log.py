"""The event log of a machine, and the rules that decide which approvals are valid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from eventstore.chain import canonical_json, sha256_hex
from eventstore.event import RecordedEvent
from eventstore.store import EventStore
from extensions.machines.rules.definition import DEFINITION, Definition, load_trusted_definition
from extensions.machines.rules.errors import StateNotFound
from extensions.machines.rules.evolve import REDUCER, explain_closed_transition, iterate_states
from extensions.machines.rules.machine import (
    ApprovalScope,
    GivenApproval,
    Handoff,
    Lease,
    Machine,
    Move,
    Visit,
)
from lifecycle.state.workflow import Drift
from service.consent import consent_weaknesses
from service.consent.proof import (
    RecordedApproval,
    build_planned_approval,
    explain_insufficient_proof,
    explain_unusable_proof,
)
from service.errors import NotFound
from service.reading.machine_streams import (
    find_first_event,
    list_machines,
    list_machines_in_store,
)
from service.reading.stream_log import StreamLog
from service.root.root import MACHINE, Root

if TYPE_CHECKING:
    from service.reading.stream_log import At

APPROVED = "machine.approved"
WITHDRAWN = "machine.withdrawn"
LIMITED = "machine.limited"
TRANSITIONED = "machine.transitioned"
#: Current version of the signed statements. Statements of version 2 contain no fields, and those of
#: version 1 contain no files either. All of them stay valid.
FORM = 3
_SECOND = 2


def statement_of(
    state: Machine,
    approval: str,
    choice: str | None,
    head: str,
    bound: ApprovalScope,
) -> bytes:
    """Return the statement that a person signs for an approval, as canonical JSON.

    ``bound`` contains the files and fields that the approval covers. Older versions of statements
    have no fields, or neither fields nor files.
    """
    known: dict[str, Any] = {}
    if bound.files is not None:
        known = {"files": bound.files, "form": _SECOND}
    if bound.fields is not None:
        ways = [way.to for way in state.definition.list_approval_transitions(approval)]
        known |= {"fields": bound.fields, "form": FORM, "leads_to": ways}
    return canonical_json({**known, **_build_statement(state, approval, head), "choice": choice})


def withdrawal_of(state: Machine, approval: str, head: str) -> bytes:
    """Return the statement that a person signs to withdraw an approval, as canonical JSON."""
    return canonical_json(
        {**_build_statement(state, approval, head), "form": FORM, "withdraws": True}
    )


def _build_statement(state: Machine, approval: str, head: str) -> dict[str, Any]:
    return {
        "approval": approval,
        "asks": state.known_approvals[approval].asks,
        "head": head,
        "machine": state.id,
        "phase": state.phase,
        "policy": state.consent,
        **(collect_unaccepted_definition(state) if approval == DEFINITION else {}),
    }


def collect_unaccepted_definition(state: Machine) -> dict[str, Any]:
    """Return a user-defined definition to be accepted, and the permitted signers.

    The result is empty if the definition needs no acceptance. Older machines may have an ordinary
    approval of the same name.
    """
    if state.definition_agreed is None:
        return {}
    known = {"definition": state.definition.source(), "phases": list(state.definition.phases)}
    return {**known, "sha256": sha256_hex(canonical_json(known)), "signers": state.signers}


def explain_invalid_approval(state: Machine, type_: str, given: RecordedApproval) -> str | None:
    """Return the reason why an approval or withdrawal is ignored, or None if it is valid."""
    if type_ == LIMITED:
        return consent_weaknesses.explain_invalid_decision(state, type_, given)
    name, proof = given.data.get("approval"), given.data.get("proof")
    known = state.known_approvals.get(str(name))
    if known is None or known.phase != state.phase:
        return f"the phase {state.phase} has no approval {name!r}"
    return explain_unusable_proof(state, proof) or _explain_unbound_proof(
        state, type_, given, proof or {}
    )


def _explain_unbound_proof(
    state: Machine, type_: str, given: RecordedApproval, proof: Mapping[str, Any]
) -> str | None:
    data, head = given.data, given.prev_hash
    if type_ == WITHDRAWN:
        statement = withdrawal_of(state, data["approval"], head)
    else:
        bound = ApprovalScope(data.get("files"), data.get("fields"))
        form = FORM if bound.fields is not None else _SECOND if bound.files is not None else None
        if proof.get("form") != form:
            return "the proof does not name the approved fields and files"
        statement = statement_of(state, data["approval"], data.get("choice"), head, bound)
    return explain_insufficient_proof(state, given, statement, "approval, choice, fields, files")


class MachineRules:
    """The rules with which the generic event log computes the state of a machine."""

    name = "machine"
    reducer = REDUCER
    proven = frozenset({APPROVED, WITHDRAWN, LIMITED})
    judged = proven | {TRANSITIONED}
    has_sessions = False

    steps = staticmethod(iterate_states)
    draft = staticmethod(Machine.draft)

    def objection(self, state: Machine, event: RecordedEvent, at: str) -> str | None:
        """Return the reason why an event is ignored, or None if it is valid.

        Approvals without a valid proof are ignored, and so are impossible changes of phase.
        """
        if event.type == TRANSITIONED:
            return explain_closed_transition(state, event.data)
        return explain_invalid_approval(state, event.type, build_planned_approval(event, at))

    def to_bytes(self, state: Machine) -> bytes:
        """Return a state as JSON to be stored. The order of keys is preserved."""
        return orjson.dumps(state, default=_convert_to_json)

    def from_bytes(self, content: bytes) -> Machine:
        """Return the state that `to_bytes` wrote."""
        data: dict[str, Any] = orjson.loads(content)
        data["definition"] = load_trusted_definition(data["definition"], data["id"])
        for one in data["visits"].values():
            one["written"] = {tuple(steps) for steps in one["written"]}
        data["visits"] = {phase: Visit(**one) for phase, one in data["visits"].items()}
        for name, kind in (("moves", Move), ("given", GivenApproval), ("drifts", Drift)):
            data[name] = [kind(**one) for one in data[name]]
        data["bound"] = {approval: ApprovalScope(*one) for approval, one in data["bound"].items()}
        data["leases"] = {task: Lease(**one) for task, one in data["leases"].items()}
        data["handoff"] = Handoff(**data["handoff"]) if data["handoff"] is not None else None
        return Machine(**data)

    def absent(self, log: StreamLog[Machine], at: At) -> StateNotFound | NotFound:
        """Return the error for a machine that does not exist now or at a moment."""
        machine = log.stream.removeprefix(MACHINE)
        if at is None or log.store.head(log.stream) is None:
            return StateNotFound(machine, list(list_machines_in_store(log.store)))
        return NotFound(
            (
                f"the machine {machine!r} did not exist yet at {at}. The log of the machine "
                "starts with version 1."
            ),
            machine=machine,
        )


def _convert_to_json(value: Any) -> Any:
    if isinstance(value, Definition):
        return value.dumped()
    return sorted(value, key=repr) if isinstance(value, set) else list(value)


class MachineLog(StreamLog[Machine]):
    """The event stream of one machine. ``root`` is the folder of the machine."""

    def __init__(self, store: EventStore, machine: str, root: Path) -> None:
        super().__init__(MachineRules(), store, MACHINE + machine, root)
        self.machine = machine


def find_rivals(root: Root, store: EventStore, machine: Machine) -> Iterator[Machine]:
    """Yield the other machines in the folder that write the same files, oldest first.

    This happens if a protocol has fixed file names. Only one machine at a time can then be active.
    """
    shared = {path for path in machine.definition.files.values() if "{id}" not in path}
    if not shared:
        return
    firsts = [
        (find_first_event(store, id_), id_)
        for id_ in list_machines(root, store)
        if id_ != machine.id
    ]
    begun = sorted((first.position, id_) for first, id_ in firsts if first is not None)
    for _, id_ in begun:
        state = MachineLog(store, id_, root.path).state()
        if state is not None and shared & set(state.definition.files.values()):
            yield state


def is_newest_writer(root: Root, store: EventStore, machine: Machine) -> bool:
    """Return whether the machine is the newest one that writes its files."""
    own = find_first_event(store, machine.id)
    others = (find_first_event(store, rival.id) for rival in find_rivals(root, store, machine))
    return own is None or not any(one.position > own.position for one in others if one is not None)
