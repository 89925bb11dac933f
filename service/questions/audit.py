"""Questions to the history of amendments: who decided what, and who tried to get round it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from eventstore.chain import Link
from eventstore.errors import EventStoreError, UnsoundLog
from eventstore.event import RecordedEvent
from eventstore.store import Refusal
from eventstore.verification import Finding
from lifecycle.errors import LifecycleError
from lifecycle.event import SET_ASIDE, newest_aside
from lifecycle.fold.evolve import takes_effect
from lifecycle.payload.event_types import is_of_a_person
from lifecycle.state.workflow import Workflow
from lifecycle.words.document import DEFINITIONAL
from projections.files.state_document import FILE_NAME
from projections.history.checkpoint import NAME, VERSION
from projections.words.decisions import AmendmentFold, AmendmentRecord, who
from service.files.drift import state_differences
from service.files.inspection import FilesInspection
from service.questions.causes import refusals_by
from service.reading.log import WorkflowLog
from service.reading.stream_log import At, StreamLog
from service.reading.trust_marks import begun_anew, kept
from service.root.root import Root, read_sync

if TYPE_CHECKING:
    from eventstore.store import EventStore
    from lifecycle.machines.machine import Machine
    from projections.words.came_about import Item


#: What may be said of an event that stands in its place.
_SOUND = frozenset({"set_aside", "unclaimed"})


def check_integrity(root: Root, log: WorkflowLog) -> list[Finding]:
    """Return everything wrong with the workflow's stream, the first bad version first.

    ``sync.json`` is the anchor outside the chain: only with it is a cut tail seen.
    """
    head = read_sync(root.sync_file).head
    is_of_it = head.get("stream") == log.stream
    anchors = {log.stream: Link(head["version"], head["hash"])} if is_of_it else {}
    found = list(log.store.verify(log.stream, anchors=anchors))
    found = with_unfoldable(found, unreadable(log))
    if all(one.kind in _SOUND for one in found):
        found += _of_tables(root, log)
    marks = [one.to_finding() for one in kept(root, log.stream) if one.is_finding]
    found += marks
    try:
        found += log.store.strays()
    except EventStoreError as error:
        found.append(Finding(None, None, None, "engine", error.message))
    return found


def _of_tables(root: Root, log: WorkflowLog) -> Iterator[Finding]:
    if log.store.load_fold(log.stream, NAME, VERSION) is None:  # no table was ever written
        return iter(())
    from service.sql.tables import check_tables

    return check_tables(root.address, log)


def with_unfoldable(found: list[Finding], folding: Iterable[Finding]) -> list[Finding]:
    """Return what is wrong with a stream, with what the fold of it says; in order of version."""
    if any(one.kind not in _SOUND for one in found):
        return found
    known = {one.version for one in found if one.kind == "set_aside"}
    more = [one for one in folding if one.version not in known]
    return sorted([*found, *more], key=lambda one: one.version or 0)


def unreadable(log: StreamLog[Any]) -> Iterator[Finding]:
    """Yield what the fold of a stream sets aside, and where it breaks off."""
    version = 0
    try:
        for event, state in log.steps():
            version = event.version
            aside = newest_aside(state, version)
            if aside is not None:
                why = f"{aside['type']!r:.80} is ignored: {aside['why']}"
                yield Finding(log.stream, version, event.position, "set_aside", why)
    except (EventStoreError, LifecycleError) as error:
        yield Finding(log.stream, version + 1, None, error.code, error.message)


Record = dict[str, Any]


def _record(**known: Any) -> Record:
    record: Record = dict.fromkeys(("version", "at", "what", "file", "actor", "kind"))
    return record | {"fields": [], "kept_as": None, "detected": None, "message": None} | known


def drift_records(rows: Iterable[Record]) -> Iterator[Record]:
    """Yield a record for each event of drift, from the rows of `questions.DRIFT`."""
    for row in rows:
        data, seen = row["data"], {"version": row["version"], "actor": row["actor"]}
        seen["at"] = row["occurred_at"]
        if not row["type"].startswith("results."):
            seen |= {name: data.get(name) for name in ("kind", "kept_as", "detected")}
            fields = [_name(difference) for difference in data.get("differences", [])]
            what = row["type"].removeprefix("drift.")
            yield _record(**seen, what=what, file=data["file"], fields=fields)
            continue
        is_adopted = row["type"] == "results.adopted"
        seen |= {"what": "adopted" if is_adopted else "detected", "message": data.get("reason")}
        for one in data["outputs"] if is_adopted else data["files"]:
            kind = "result" if is_adopted else f"{one['kind']} result"
            yield _record(**seen, file=one["path"], kind=kind)


def _name(difference: Record) -> str:
    path = difference.get("path")
    steps = [difference.get("stage"), *(path if isinstance(path, list) else [path])]
    return ".".join(str(step) for step in steps if step is not None)


def tampering_records(root: Root, log: WorkflowLog) -> Iterator[Record]:
    """Yield a record for everything that is wrong with the log."""
    for finding in check_integrity(root, log):
        said = {"version": finding.version, "kind": finding.kind, "message": finding.message}
        yield _record(**said, what="tampering")


#: Refusals that say somebody asked for what only a person may decide, or for what is not so now.
_BY_CONSENT = frozenset(
    {"needs_consent", "impact_changed", "stale_amendment"}
    | {"submission_drift", "submission_changed", "outside_envelope"}
)


#: What a person would be asked → what it is called where it was done.
_DECIDED = {
    "machine.approved": "approved",
    "machine.limited": "limited",
    "drift.adopted": "adopted",
    "drift.reverted": "reverted",
    "results.adopted": "adopted results of",
    "stage.retried": "kept finished tasks of",
}


@dataclass(frozen=True, slots=True)
class Bypass:
    """An attempt to get round consent, and what came of it.

    ``kind``: refused, ineffective (recorded, and is ignored), edited (a file), altered
    (the log), pinned (another log than this login knows), anew (a log was there before), agent
    (decided by one), or that of an item of the account of how results came about. ``version`` is
    the event's.
    """

    kind: str
    at: str | None
    actor: str | None
    what: str
    why: str
    version: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def records(log: WorkflowLog, at: At = None) -> list[AmendmentRecord]:
    """Return every amendment in the order of its proposal, as of a moment."""
    found, state = AmendmentFold(), None
    for event, state in log.steps(upto=at):
        found.add(event, state)
    return found.records(state) if state is not None else []


def bypasses(root: Root, log: WorkflowLog, at: At = None) -> list[Bypass]:
    """Return every attempt to get round consent: in the log, at the command line, in the files."""
    refused = (
        Bypass("refused", r.at, r.actor, r.command, r.message)
        for r in refusals_by(log, at)
        if _concerns(r)
    )
    if at is not None:
        return [*refused, *_of_log(log, at)]
    why = log.approvals.pin_objection()
    pinned = [Bypass("pinned", None, None, "the log as a whole", why)] if why is not None else []
    of_root = [*pinned, *of_memory(root, log.store, log.stream), *_of_chain(root, log)]
    return [*of_root, *refused, *_of_log(log), *_of_file(root, log)]


def of_memory(root: Root, store: EventStore, stream: str) -> Iterator[Bypass]:
    """Yield the logs that this login wrote in the root before the one that is there."""
    for one in begun_anew(root, store, stream):
        yield Bypass(one.kind, one.at, None, one.subject, one.text)


def _of_chain(root: Root, log: WorkflowLog) -> Iterator[Bypass]:
    for finding in check_integrity(root, log):
        if finding.kind == "set_aside":
            continue  # `_of_log` lists it
        at = f"version {finding.version}" if finding.version is not None else "the database"
        what = f"{at}: {finding.kind}"
        kind = "ineffective" if finding.kind == "stray" else "altered"
        yield Bypass(kind, None, None, what, finding.message, finding.version)


def _concerns(refusal: Refusal) -> bool:
    if refusal.code == "amendment_decided":
        return False  # a person who agrees twice gets round nothing
    return refusal.code in _BY_CONSENT or "amendment.approved" in refusal.command.split(",")


def _of_log(log: WorkflowLog, at: At = None) -> Iterator[Bypass]:
    known: set[str] = set()
    with suppress(UnsoundLog):  # `_of_chain` tells of the first row that is not in its place
        for event, state in log.steps(upto=at):
            why = _ineffective(log, event, state, known)
            if why is None and is_of_a_person(event.type, event.data):
                yield from _of_decision(event, state)
            elif why is not None:
                what = event.data["type"] if event.type == SET_ASIDE else event.type
                yield _bypass("ineffective", event, what, why)
            elif event.type == "drift.detected":
                yield from _of_drift(event)
            else:
                yield from _by_agent(event)


def of_machine(
    steps: Iterable[tuple[RecordedEvent, Machine]], ineffective: Container[int]
) -> Iterator[Bypass]:
    """Yield what agents decided of a machine, and the phases that an imported record completed.

    ``ineffective`` are the versions of the events that are ignored.
    """
    with suppress(UnsoundLog):
        for event, state in steps:
            if event.version not in ineffective:
                decided = is_of_a_person(event.type, event.data)
                yield from _of_decision(event, state) if decided else _by_agent(event)
            done = [one.phase for one in state.visits.values() if one.completed_at]
            if event.type == "machine.imported" and done:
                what = f"{state.id}: {', '.join(done)}"
                why = "completed by an imported record; nothing verified it"
                yield _bypass("taken over", event, what, why)


def of_account(items: Iterable[Item]) -> list[Bypass]:
    """Return what the account of a workflow tells of how its results came about."""
    return [Bypass(one.kind, None, None, one.subject, one.text) for one in items]


def _by_agent(event: RecordedEvent) -> Iterator[Bypass]:
    verb = _DECIDED.get(event.type)
    data = event.data
    if event.type == "stage.retried" and not is_of_a_person(event.type, data):
        return
    allowed = (data.get("proof") or {}).get("policy") in ("signature", "mandate")
    if verb is None or event.actor.kind != "agent" or allowed:
        return
    what = f"{verb} {_subject(data)}".rstrip()
    why = data.get("reason") or "decided by an agent, whatever a person would have said"
    yield _bypass("agent", event, what, why)


def _bypass(kind: str, event: RecordedEvent, what: str, why: str) -> Bypass:
    return Bypass(kind, event.recorded_at, who(event), what, why, event.version)


def _subject(data: Mapping[str, Any]) -> str:
    named = (data.get(name) for name in ("file", "stage", "approval", "loop"))
    return next((str(one) for one in named if one), "")


def _ineffective(
    log: WorkflowLog, event: RecordedEvent, state: Workflow, known: set[str]
) -> str | None:
    if event.type == SET_ASIDE:
        return str(event.data["why"])
    if event.type == "amendment.approved":
        return log.judge.verdict_on(event)
    if event.type == "amendment.proposed":
        again = event.data["amendment"] in known
        known.add(event.data["amendment"])
        why = "the id was given before; a second proposal of it is ignored"
        return why if again else None
    if not takes_effect(state, event):
        return "no approved amendment covers it"
    return None if event.type != "round.begun" else _of_round(event, state)


def _of_round(event: RecordedEvent, state: Workflow) -> str | None:
    loop = state.loops.get(event.data["loop"])
    began = None if loop is None else (loop.round.number, loop.round.began_at)
    if began == (event.data["round"], event.occurred_at):
        return None
    return "no such round was due, or its points are not within the envelope"


def _of_decision(event: RecordedEvent, state: Workflow | Machine) -> Iterator[Bypass]:
    from service.consent.doubts import objection

    data, against = event.data, objection(state, event.type, event)
    if event.type == "claim.overruled":
        what = f"{data['stage']} {data['attempt']}: {data['verdict']} called {data['claim']}"
        why = f"{data['approved_by']}: {data['reason']}" if against is None else against
        yield _bypass("overruled", event, what, why)
    elif state.consent == "trust":
        yield from _by_agent(event)
    elif against is not None:
        yield _bypass("unagreed", event, f"{event.type} of {_subject(data)}", against)


def _of_drift(event: RecordedEvent) -> Iterator[Bypass]:
    touched = [
        ".".join(str(step) for step in (d.get("stage"), *d["path"]) if step is not None)
        for d in event.data.get("differences", [])
        if isinstance(d.get("path"), list) and _is_definitional(d["path"])
    ]
    if touched:
        what = f"{event.data['file']}: {', '.join(touched)}"
        why = "edited by hand; the log decides, and the file was written anew"
        yield Bypass("edited", event.recorded_at, None, what, why, event.version)


def _of_file(root: Root, log: WorkflowLog) -> Iterator[Bypass]:
    """An edit of the state's file that no write command has come across yet.

    Where the log itself was altered nothing can be said of the file.
    """
    with suppress(UnsoundLog):
        left = read_sync(root.sync_file).files.get(FILE_NAME)
        found = FilesInspection(root, log).foreign_state(left)
        listed = state_differences(log.current(), found) if found else []
        touched = [d.name for d in listed or () if _is_definitional(d.path)]
        if touched or listed is None:
            what = f"{FILE_NAME}: {', '.join(touched) or 'unreadable'}"
            yield Bypass("edited", None, None, what, "edited by hand; the log decides")


def _is_definitional(path: Sequence[Any]) -> bool:
    return not path or path[0] in DEFINITIONAL or path[0] in ("amendments", "version", "stages")
