"""Audit the history: who decided on each amendment, and who tried to avoid an approval?"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from eventstore.chain import Link
from eventstore.errors import EventStoreError, UnsoundLog
from eventstore.event import RecordedEvent
from eventstore.store import Refusal
from eventstore.verification import Finding
from lifecycle.errors import LifecycleError
from lifecycle.event import SET_ASIDE, find_ignored_event_entry
from lifecycle.fold.evolve import can_take_effect
from lifecycle.payload.event_types import is_decision_of_person
from lifecycle.state.workflow import Workflow
from lifecycle.words.document import DEFINITIONAL
from projections.files.state_document import FILE_NAME
from projections.words.decisions import AmendmentFold, AmendmentRecord, get_actor
from projections.words.result_origin import (
    compute_entry_id,
    describe_approval_by_person,
    describe_item_acceptance,
)
from service.files.drift import state_differences
from service.files.inspection import FilesInspection
from service.questions.causes import list_refusals
from service.reading.log import WorkflowLog
from service.reading.machine_streams import list_machines, machine_folder
from service.reading.stream_log import At, StreamLog
from service.reading.trust_marks import anchor_file, find_replaced_logs, read_stored_evidence
from service.root.root import MACHINE, Root
from service.root.sync_record import read_sync
from wfctl_eventstore.extension import find_extension

if TYPE_CHECKING:
    from eventstore.store import EventStore
    from projections.words.result_origin import AttentionItem


#: Kinds of findings that can occur in an intact log. They concern ignored events, and events that
#: no command of wfctl appended.
_SOUND = frozenset({"set_aside", "unclaimed"})


def find_log_problems(root: Root, log: WorkflowLog) -> list[Finding]:
    """Return all problems of the workflow's log and of the other tables in the database."""
    found = stream_findings(root, log)
    if all(one.kind in _SOUND for one in found):
        history = find_extension("history")
        found += history.check_tables(root.address, log) if history is not None else ()
    try:
        found += log.store.find_foreign_rows()
    except EventStoreError as error:
        found.append(Finding(None, None, None, "engine", error.message))
    return found


def find_problems_of_all_logs(root: Root, log: WorkflowLog) -> tuple[dict[str, int], list[Finding]]:
    """Return the last version of each machine, and all problems of all logs in a folder.

    A machine is the phase machine of an agent protocol.
    """
    machines, found = check_machines(root, log.store)
    return machines, [*find_log_problems(root, log), *found]


def check_machines(root: Root, store: EventStore) -> tuple[dict[str, int], list[Finding]]:
    """Return the last version of each machine, and all problems of the machines' logs."""
    remembered = [path.stem for path in machine_folder(root).glob("*.json")]
    ids = sorted({*list_machines(root, store), *remembered})
    heads = {id_: store.head(MACHINE + id_) for id_ in ids}
    found = [one for id_ in ids for one in _check_machine(root, store, id_)]
    return {id_: head.version if head is not None else 0 for id_, head in heads.items()}, found


def _check_machine(root: Root, store: EventStore, id_: str) -> list[Finding]:
    """Return the problems of a machine's log.

    Without the extension for machines, check only the chain of hashes.
    """
    machines = find_extension("machines")
    if machines is None:
        return [*store.verify(MACHINE + id_)]
    return stream_findings(root, machines.open_machine_log(store, id_, root.path))


def stream_findings(root: Root, log: StreamLog[Any]) -> list[Finding]:
    """Return all problems of the log of a workflow or machine, in order of version.

    The problems that wfctl noted outside the log come last. A file in the workflow folder contains
    the hash of the last known event, so that removed events at the end of the log are noticed.
    """
    head = read_sync(anchor_file(root, log.stream)).head
    is_of_it = head.get("stream") == log.stream
    anchors = {log.stream: Link(head["version"], head["hash"])} if is_of_it else {}
    found = add_unfoldable_events(
        [*log.store.verify(log.stream, anchors=anchors)], find_unfoldable_events(log)
    )
    return found + [
        one.to_finding()
        for one in read_stored_evidence(root, log.stream)
        if one.is_invisible_to_log_check
    ]


def require_sound(root: Root, log: StreamLog[Any]) -> None:
    """Raise `UnsoundLog` if the log is too damaged for a signature or an export."""
    for one in stream_findings(root, log):
        if one.kind not in _SOUND:
            raise UnsoundLog(log.stream, one.version or 1, one.kind, one.message)


def add_unfoldable_events(found: list[Finding], folding: Iterable[Finding]) -> list[Finding]:
    """Return the problems of a log and of the events in it, in order of version.

    ``found`` contains the problems of the stored rows. If the log is damaged, return only these.
    ``folding`` contains events that are ignored or cannot be processed.
    """
    if any(one.kind not in _SOUND for one in found):
        return found
    known = {one.version for one in found if one.kind == "set_aside"}
    more = [one for one in folding if one.version not in known]
    return sorted([*found, *more], key=lambda one: one.version or 0)


def find_unfoldable_events(log: StreamLog[Any]) -> Iterator[Finding]:
    """Yield the events that wfctl ignores, and the event that it cannot process, if any."""
    version = 0
    try:
        for event, state in log.steps():
            version = event.version
            aside = find_ignored_event_entry(state, version)
            if aside is not None:
                why = f"{aside['type']!r:.80} is ignored: {aside['why']}"
                yield Finding(log.stream, version, event.position, "set_aside", why)
    except (EventStoreError, LifecycleError) as error:
        yield Finding(log.stream, version + 1, None, error.code, error.message)


Record = dict[str, Any]


def _build_record(**known: Any) -> Record:
    record: Record = dict.fromkeys(("version", "at", "what", "file", "actor", "kind"))
    return record | {"fields": [], "kept_as": None, "detected": None, "message": None} | known


def drift_records(rows: Iterable[Record]) -> Iterator[Record]:
    """Yield a record for each manual edit of a file and each decision on such an edit.

    ``rows`` are results of the database query `questions.DRIFT`.
    """
    for row in rows:
        data, seen = row["data"], {"version": row["version"], "actor": row["actor"]}
        seen["at"] = row["occurred_at"]
        if not row["type"].startswith("results."):
            seen |= {name: data.get(name) for name in ("kind", "kept_as", "detected")}
            fields = [_field_name(difference) for difference in data.get("differences", [])]
            what = row["type"].removeprefix("drift.")
            yield _build_record(**seen, what=what, file=data["file"], fields=fields)
            continue
        is_adopted = row["type"] == "results.adopted"
        seen |= {"what": "adopted" if is_adopted else "detected", "message": data.get("reason")}
        for one in data["outputs"] if is_adopted else data["files"]:
            kind = "result" if is_adopted else f"{one['kind']} result"
            yield _build_record(**seen, file=one["path"], kind=kind)
        for one in data.get("deleted", []):
            yield _build_record(**seen, file=one["path"], kind="deleted result")


def _field_name(difference: Record) -> str:
    path = difference.get("path")
    steps = [difference.get("stage"), *(path if isinstance(path, list) else [path])]
    return ".".join(str(step) for step in steps if step is not None)


def tampering_records(root: Root, log: WorkflowLog) -> Iterator[Record]:
    """Yield a record for each sign that the log was changed or damaged."""
    for finding in find_log_problems(root, log):
        said = {"version": finding.version, "kind": finding.kind, "message": finding.message}
        yield _build_record(**said, what="tampering")


#: Error codes of commands that were refused because a decision of a person is missing or out of
#: date.
_BY_CONSENT = frozenset(
    {"needs_consent", "impact_changed", "stale_amendment"}
    | {"submission_drift", "submission_changed", "outside_envelope"}
)


#: Event type of a person's decision → verb that describes it.
_DECIDED = {
    "machine.approved": "approved",
    "machine.limited": "limited",
    "drift.adopted": "adopted",
    "drift.reverted": "reverted",
    "results.adopted": "adopted results of",
    "audit.agreed": "agreed to",
    "stage.retried": "kept finished tasks of",
}


@dataclass(frozen=True, slots=True)
class Bypass:
    """An attempt to avoid an approval, and its result.

    ``kind``: refused, ineffective (recorded, but ignored), edited (a file), altered (the log),
    pinned (another log than this user account knows), anew (another log was there before), agent
    (decided by an agent), or the kind of an item on the origin of results. ``version`` is the
    version of the event. A person can accept the attempt by its id ``entry``, and ``agreed``
    describes this acceptance.
    """

    kind: str
    at: str | None
    actor: str | None
    what: str
    why: str
    version: int | None = None
    entry: str | None = None
    agreed: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the attempt as a dict of JSON values."""
        return asdict(self)


def list_amendment_records(log: WorkflowLog, at: At = None) -> list[AmendmentRecord]:
    """Return every amendment (change of the plan) up to a moment, oldest first."""
    found, state = AmendmentFold(), None
    for event, state in log.steps(upto=at):
        found.add(event, state)
    return found.records(state) if state is not None else []


def find_bypasses(root: Root, log: WorkflowLog, at: At = None) -> list[Bypass]:
    """Return every attempt to avoid an approval: in the log, in commands and in files."""
    refused = (
        Bypass("refused", r.at, r.actor, r.command, r.message)
        for r in list_refusals(log, at)
        if _is_bypass(r)
    )
    if at is not None:
        return [*refused, *_find_log_bypasses(log, at)]
    why = log.approvals.pin_objection()
    pinned = [Bypass("pinned", None, None, "the log as a whole", why)] if why is not None else []
    of_root = [
        *pinned,
        *find_replaced_log_bypasses(root, log.store, log.stream),
        *_find_tampering_bypasses(root, log),
    ]
    return [*of_root, *refused, *_find_log_bypasses(log), *_find_file_bypass(root, log)]


def find_replaced_log_bypasses(root: Root, store: EventStore, stream: str) -> Iterator[Bypass]:
    """Yield an entry for each earlier log that the current log replaced in this folder."""
    for one in find_replaced_logs(root, store, stream):
        yield Bypass(one.kind, one.at, None, one.subject, one.text)


def _find_tampering_bypasses(root: Root, log: WorkflowLog) -> Iterator[Bypass]:
    """Yield an entry for each sign that the log was changed or damaged."""
    for finding in find_log_problems(root, log):
        if finding.kind == "set_aside":
            continue  # listed by `_find_log_bypasses`
        at = f"version {finding.version}" if finding.version is not None else "the database"
        what = f"{at}: {finding.kind}"
        kind = "ineffective" if finding.kind == "stray" else "altered"
        yield Bypass(kind, None, None, what, finding.message, finding.version)


def _is_bypass(refusal: Refusal) -> bool:
    """Return whether a refused command tried to make a decision that only a person may make."""
    if refusal.code == "amendment_decided":
        return False  # approving twice avoids no approval
    return refusal.code in _BY_CONSENT or "amendment.approved" in refusal.command.split(",")


def _find_log_bypasses(log: WorkflowLog, at: At = None) -> Iterator[Bypass]:
    """Yield an entry for each event that avoided an approval, or tried to."""
    known: set[str] = set()
    # Stop at the first invalid row. `_find_tampering_bypasses` already reports this row.
    with suppress(UnsoundLog):
        for event, state in log.steps(upto=at):
            why = _explain_ineffective(log, event, state, known)
            if why is None and is_decision_of_person(event.type, event.data):
                yield from _find_invalid_decision(event, state)
            elif why is not None:
                what = event.data["type"] if event.type == SET_ASIDE else event.type
                yield _build_bypass("ineffective", event, what, why)
            elif event.type == "drift.detected":
                yield from _find_drift_bypass(event)
            else:
                yield from _find_agent_decision(event)


def find_machine_bypasses(
    steps: Iterable[tuple[RecordedEvent, Any]], ineffective: Container[int]
) -> Iterator[Bypass]:
    """Yield an entry for each decision on a machine that no person provably made.

    Also yield an entry for phases that an import marked as completed. ``ineffective`` are the
    versions of ignored events.
    """
    with suppress(UnsoundLog):
        for event, state in steps:
            if event.version not in ineffective:
                decided = is_decision_of_person(event.type, event.data)
                yield from (
                    _find_invalid_decision(event, state) if decided else _find_agent_decision(event)
                )
            done = [one.phase for one in state.visits.values() if one.completed_at]
            if event.type == "machine.imported" and done:
                what = f"{state.id}: {', '.join(done)}"
                why = "completed by an imported record; nothing verified it"
                yield _build_bypass("taken over", event, what, why)


def convert_account_items(items: Iterable[AttentionItem]) -> list[Bypass]:
    """Convert items on the origin of results to audit entries."""
    return [
        Bypass(one.kind, None, None, one.subject, one.text, entry=one.entry, agreed=one.agreed)
        for one in items
    ]


#: Kinds of entries that concern the whole log. A person cannot accept such an entry.
_OF_THE_LOG = ("altered", "pinned", "anew")


def add_acceptance_texts(
    found: Iterable[Bypass], agreed: Mapping[str, Mapping[str, Any]]
) -> list[Bypass]:
    """Add to each audit entry its id, and a text on the person who accepted it, if any."""
    return [_add_acceptance_text(one, agreed) for one in found]


def _add_acceptance_text(one: Bypass, agreed: Mapping[str, Mapping[str, Any]]) -> Bypass:
    if one.entry is not None or one.agreed is not None or one.kind in _OF_THE_LOG:
        return one
    entry = compute_entry_id(one.kind, one.what, one.why, [one.version, one.at])
    how = describe_item_acceptance(agreed.get(entry))
    why = f"{one.why}; {how}" if how is not None else one.why
    return replace(one, entry=entry, why=why, agreed=how)


def _find_agent_decision(event: RecordedEvent) -> Iterator[Bypass]:
    """Yield an entry if an agent made a decision that belongs to a person."""
    verb = _DECIDED.get(event.type)
    data = event.data
    if event.type == "stage.retried" and not is_decision_of_person(event.type, data):
        return
    allowed = (data.get("proof") or {}).get("policy") in ("signature", "mandate")
    if verb is None or event.actor.kind != "agent" or allowed:
        return
    what = f"{verb} {_subject_of(data)}".rstrip()
    why = data.get("reason") or "decided by an agent, whatever a person would have said"
    yield _build_bypass("agent", event, what, why)


def _build_bypass(kind: str, event: RecordedEvent, what: str, why: str) -> Bypass:
    return Bypass(kind, event.recorded_at, get_actor(event), what, why, event.version)


def _subject_of(data: Mapping[str, Any]) -> str:
    named = (data.get(name) for name in ("file", "stage", "approval", "loop"))
    return next((str(one) for one in named if one), "")


def _explain_ineffective(
    log: WorkflowLog, event: RecordedEvent, state: Workflow, known: set[str]
) -> str | None:
    """Return the reason why an event is ignored, or None if it has an effect."""
    if event.type == SET_ASIDE:
        return str(event.data["why"])
    if event.type == "amendment.approved":
        return log.judge.explain_ignored_event(event)
    if event.type == "amendment.proposed":
        again = event.data["amendment"] in known
        known.add(event.data["amendment"])
        why = "the id was given before; a second proposal of it is ignored"
        return why if again else None
    if not can_take_effect(state, event):
        return "no approved amendment allows this change"
    return None if event.type != "round.begun" else _explain_invalid_round(event, state)


def _explain_invalid_round(event: RecordedEvent, state: Workflow) -> str | None:
    """Return the reason why an event did not start a round, or None if it did."""
    loop = state.loops.get(event.data["loop"])
    began = None if loop is None else (loop.round.number, loop.round.began_at)
    if began == (event.data["round"], event.occurred_at):
        return None
    return "the loop expected another round, or the points are outside the limits of the loop"


def _find_invalid_decision(event: RecordedEvent, state: Any) -> Iterator[Bypass]:
    """Yield an entry for a decision that has no valid proof or contradicts evidence."""
    from service.consent.consent_weaknesses import explain_invalid_decision

    data, against = event.data, explain_invalid_decision(state, event.type, event)
    if event.type == "claim.overruled":
        what = f"{data['stage']} {data['attempt']}: {data['verdict']} called {data['claim']}"
        why = f"{data['approved_by']}: {data['reason']}" if against is None else against
        how = (
            describe_approval_by_person(data["proof"]["policy"], data["approved_by"])
            if against is None
            else None
        )
        yield replace(_build_bypass("overruled", event, what, why), agreed=how)
    elif state.consent == "trust":
        yield from _find_agent_decision(event)
    elif against is not None:
        yield _build_bypass("unagreed", event, f"{event.type} of {_subject_of(data)}", against)


def _find_drift_bypass(event: RecordedEvent) -> Iterator[Bypass]:
    """Yield an entry if an event recorded a manual edit of the plan."""
    touched = [
        ".".join(str(step) for step in (d.get("stage"), *d["path"]) if step is not None)
        for d in event.data.get("differences", [])
        if isinstance(d.get("path"), list) and _is_definitional(d["path"])
    ]
    if touched:
        what = f"{event.data['file']}: {', '.join(touched)}"
        why = "edited by hand; the file was rewritten from the log"
        yield Bypass("edited", event.recorded_at, None, what, why, event.version)


def _find_file_bypass(root: Root, log: WorkflowLog) -> Iterator[Bypass]:
    """Yield an entry for each manual edit of the state file that is not recorded yet.

    Yield nothing if the log itself was changed.
    """
    with suppress(UnsoundLog):
        left = read_sync(root.sync_file).files.get(FILE_NAME)
        found = FilesInspection(root, log).foreign_state(left)
        listed = state_differences(log.current(), found) if found else []
        touched = [d.name for d in listed or () if _is_definitional(d.path)]
        if touched or listed is None:
            what = f"{FILE_NAME}: {', '.join(touched) or 'unreadable'}"
            yield Bypass(
                "edited",
                None,
                None,
                what,
                "the file was edited by hand, but wfctl ignores this edit and uses the log",
            )


def _is_definitional(path: Sequence[Any]) -> bool:
    return not path or path[0] in DEFINITIONAL or path[0] in ("amendments", "version", "stages")
