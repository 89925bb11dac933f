"""Compute the rows that each event adds to the history tables.

This computation is separate from the computation of the workflow's state. `CarriedData` contains
the data that later events need, so that the computation can continue from a checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from eventstore.event import RecordedEvent
from extensions.history import table_schema as tables
from lifecycle.event import find_observed_jobs
from lifecycle.fold import imported
from lifecycle.fold.evolve import find_proposed_id
from lifecycle.state.workflow import Amendment, Attempt, Session, Stage, Workflow
from projections.files.progress_log import format_line_without_time
from projections.files.state_document import collect_amendment_changes
from projections.words.text import compute_seconds

Row = dict[str, Any]
Key = tuple[Any, ...]
#: Tables in which each row belongs to one event and never changes.
_SETTLED = (tables.events.name, tables.transitions.name)
_REASONS = ("error", "fix", "reason", "evidence", "detail", "text")


@dataclass(slots=True)
class CarriedData:
    """Data from earlier events that later rows need, as plain JSON values.

    - ``statuses`` maps each stage to its status and the time of the last change.
    - ``attempts`` maps the newest attempt of each stage, as ``stage/attempt``, to its version and
      the start of its computation.
    - ``amendments`` maps the id of each pending amendment (plan change) to its proposer.
    - ``session`` is the row of the newest session.
    """

    statuses: dict[str, list[str]] = field(default_factory=dict)
    attempts: dict[str, Row] = field(default_factory=dict)
    amendments: dict[str, Row] = field(default_factory=dict)
    session: Row | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the data as a dictionary of plain JSON values."""
        return asdict(self)


class HistoryRows:
    """The table rows of one event stream, collected event by event.

    ``rows`` maps each table to its rows by key.
    """

    def __init__(self, stream: str, carried: CarriedData | None = None) -> None:
        self.stream = stream
        self.carried = carried or CarriedData()
        self.rows: dict[str, dict[Key, Row]] = {}

    def add(self, event: RecordedEvent, state: Workflow) -> None:
        """Collect the rows of an event. ``state`` is the state after this event."""
        self._put_row(tables.events.name, (event.version,), _build_event_row(event, state))
        self._add_transitions(event, state)
        self._add_attempts(event, state)
        if event.data.get("amendment") or event.type == "state.imported":
            self._add_amendments(event, state)
        self._add_session(event, state)

    def pop_rows(self) -> dict[str, dict[Key, Row]]:
        """Return the rows that were collected since the last call, and forget them."""
        found, self.rows = self.rows, {}
        return found

    def pop_final_rows(self) -> dict[str, dict[Key, Row]]:
        """Return the collected rows that no later event can change. Keep the other rows."""
        return {name: self.rows.pop(name) for name in _SETTLED if name in self.rows}

    def _put_row(self, table: str, key: Key, row: Row) -> None:
        values = {name: _without_nul(value) for name, value in row.items()}
        self.rows.setdefault(table, {})[key] = {"stream": self.stream, **values}

    def _add_transitions(self, event: RecordedEvent, state: Workflow) -> None:
        for stage in _list_touched_stages(event, state):
            before = self.carried.statuses.get(stage.id)
            now = stage.status.value
            if before is None or before[0] != now:
                row = _build_transition_row(event, stage, before)
                self._put_row(tables.transitions.name, (event.version, stage.id), row)
                self.carried.statuses[stage.id] = [now, event.occurred_at]

    def _add_attempts(self, event: RecordedEvent, state: Workflow) -> None:
        for stage in _list_touched_stages(event, state):
            named = event.data.get("attempt")
            for attempt in stage.attempts[-2:]:
                known = self._get_carried_attempt(event, stage, attempt)
                row = _build_attempt_row(stage, attempt, known)
                if event.data.get("stage") == stage.id or attempt.id == named or known["new"]:
                    self._put_row(tables.attempts.name, (stage.id, attempt.id), row)
                known["new"] = False

    def _get_carried_attempt(self, event: RecordedEvent, stage: Stage, attempt: Attempt) -> Row:
        """Return the carried data of an attempt, updated by the event."""
        key = f"{stage.id}/{attempt.id}"
        if key not in self.carried.attempts:
            for old in stage.attempts[:-2]:
                self.carried.attempts.pop(f"{stage.id}/{old.id}", None)
            since = attempt.started_at if attempt.mode == "sync" else attempt.launched_at
            self.carried.attempts[key] = {"version": event.version, "from": since, "new": True}
        known = self.carried.attempts[key]
        if event.data.get("stage") == stage.id and event.data.get("attempt") == attempt.id:
            known["from"] = _find_compute_start(event, known["from"])
        return known

    def _add_amendments(self, event: RecordedEvent, state: Workflow) -> None:
        named = event.data.get("amendment")
        for amendment in state.amendments.values() if named is None else [named]:
            found = state.amendments.get(amendment) if isinstance(amendment, str) else amendment
            if found is not None:
                key = (found.id,)
                self._put_row(
                    tables.amendments.name,
                    key,
                    _build_amendment_row(found, self._collect_amendment_people(event, found)),
                )

    def _collect_amendment_people(self, event: RecordedEvent, amendment: Amendment) -> Row:
        """Return the proposer and, if decided, the decider of an amendment (plan change)."""
        parts = self.carried.amendments.setdefault(amendment.id, {})
        who = str(event.actor)
        if find_proposed_id(event) == amendment.id and not parts:
            parts |= {"proposed_version": event.version, "proposed_by": who}
        decided = event.type == f"amendment.{amendment.status}" and "decided_by" not in parts
        if decided and amendment.status != "proposed":
            proof = event.data.get("proof") or {}
            by = amendment.approved_by if amendment.mandate else who
            parts |= {"decided_version": event.version, "decided_by": by}
            parts |= {"policy": proof.get("policy"), "signer": proof.get("signer")}
        return parts

    def _add_session(self, event: RecordedEvent, state: Workflow) -> None:
        is_line = event.type == "line.imported" and event.data.get("session") is not None
        begins = is_line or event.type == "session.started"
        row = self._start_session(event, state.session) if begins else self.carried.session
        if row is None or not (begins or row["ended"] == "open" or event.session == row["session"]):
            return
        row["last_version"] = event.version
        row["cost"] = state.session.cost
        row["charges"] += event.type == "cost.charged"
        row["completed"] += event.type == "stage.completed"
        row["failed"] += event.type == "stage.failed"
        if event.type == "session.ended":
            row |= {"ended": event.data["reason"], "ended_at": event.occurred_at}
        self._put_row(tables.sessions.name, (row["session"],), dict(row))

    def _start_session(self, event: RecordedEvent, session: Session) -> Row:
        before = self.carried.session
        if before is not None and before["session"] == session.count:
            return before  # An imported log may record the start of a session twice.
        if before is not None and before["ended"] == "open":
            self._put_row(tables.sessions.name, (before["session"],), {**before, "ended": "died"})
        self.carried.session = {
            "session": session.count,
            "first_version": event.version,
            "last_version": event.version,
            "started_at": event.occurred_at,
            "started_by": str(event.actor),
            "ended_at": None,
            "ended": "unknown" if event.type in imported.TYPES else "open",
            "cost": 0.0,
            "charges": 0,
            "completed": 0,
            "failed": 0,
        }
        return self.carried.session


def _without_nul(value: Any) -> Any:
    """Return the value with NUL characters replaced, because PostgreSQL cannot store them."""
    return value.replace("\0", "\N{SYMBOL FOR NULL}") if isinstance(value, str) else value


def _list_touched_stages(event: RecordedEvent, state: Workflow) -> Iterable[Stage]:
    """Return the stages that an event may have changed.

    If the event names no stage, these are all stages, except for events that change none.
    """
    named = event.data.get("stage")
    if named is None:
        return state.stages.values() if event.type not in _QUIET else ()
    found = state.stages.get(named)
    return (found,) if found is not None else ()


#: Types of events that name no stage and change no stage.
_QUIET = frozenset(
    {"note.logged", "session.started", "session.ended", "line.imported", "amendment.proposed",
     "amendment.rejected", "drift.detected", "drift.reverted", "workflow.completed", "audit.agreed"}
)  # fmt: skip


def _build_common_columns(event: RecordedEvent) -> Row:
    return {
        "version": event.version,
        "attempt": event.data.get("attempt"),
        "amendment": event.data.get("amendment") or event.data.get("superseded_by"),
        "actor": str(event.actor),
        "session": event.session,
        "occurred_at": event.occurred_at,
    }


def _build_event_row(event: RecordedEvent, state: Workflow) -> Row:
    return _build_common_columns(event) | {
        "stage": event.data.get("stage"),
        "command_id": event.command_id,
        "causation_id": event.causation_id,
        "message": format_line_without_time(event, state),
    }


def _build_transition_row(event: RecordedEvent, stage: Stage, before: list[str] | None) -> Row:
    data = event.data
    status, since = before or (None, None)
    return _build_common_columns(event) | {
        "stage": stage.id,
        "from_status": status,
        "to_status": stage.status.value,
        "type": event.type,
        "reason": next((str(data[key]) for key in _REASONS if data.get(key)), None),
        "recorded_at": event.recorded_at,
        "since": since,
        "seconds": compute_seconds(since, event.occurred_at),
    }


def _find_compute_start(event: RecordedEvent, since: str | None) -> str | None:
    """Return the time at which an attempt started to compute, or None if it is unknown.

    For a scheduler job, this is its observed start. For any other job, it is the launch.
    """
    if event.type == "stage.launched" and event.data["mode"] != "sync":
        return event.occurred_at
    jobs = find_observed_jobs(event)
    if not jobs:
        return since
    if any(job.get("started") for job in jobs):
        return since or event.occurred_at
    return None if any(job.get("queued") for job in jobs) else since


#: Fields of a table row that come from an attempt, from an amendment, and from the actors.
_OF_ATTEMPT = (
    "mode", "host", "started_at", "launched_at", "ended_at", "outcome", "exit_code", "verdict",
    "action", "reason", "relaunches", "recovers", "submission_sha256",
)  # fmt: skip
_OF_AMENDMENT = ("stage", "description", "reason", "proposed_at", "decided_at")
_PARTS = (
    "proposed_version", "proposed_by", "decided_version", "decided_by", "policy", "signer"
)  # fmt: skip


def _build_attempt_row(stage: Stage, attempt: Attempt, known: Row) -> Row:
    since = known["from"]
    return {name: getattr(attempt, name) for name in _OF_ATTEMPT} | {
        "stage": stage.id,
        "attempt": attempt.id,
        "version": known["version"],
        "computing_from": since,
        "queue_seconds": compute_seconds(attempt.started_at, since),
        "compute_seconds": compute_seconds(since, attempt.ended_at),
        "verdict_row": attempt.row,
        "evidence": as_json(attempt.evidence) if attempt.evidence is not None else None,
        "diagnostic": int(attempt.diagnostic),
        "job_ids": as_json(attempt.job_ids),
    }


def _build_amendment_row(amendment: Amendment, parts: Row) -> Row:
    as_it_is = {name: getattr(amendment, name) for name in _OF_AMENDMENT}
    return (
        as_it_is
        | dict.fromkeys(_PARTS)
        | parts
        | {
            "amendment": amendment.id,
            "type": amendment.kind,
            "state": amendment.status,
            "changes": as_json(collect_amendment_changes(amendment)),
            "affected": as_json(amendment.invalidated_stages),
            "workflow_version": amendment.version,
        }
    )


def as_json(value: Any) -> str:
    """Return a value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
