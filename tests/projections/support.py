"""Recorded events without a log, and the files that wfctl writes for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eventstore.event import RecordedEvent
from lifecycle.fold.evolve import evolve, fold_events
from lifecycle.payload.models import Payload
from lifecycle.plan.document import build_creation_payload
from lifecycle.rules.decide import decide
from lifecycle.state.workflow import Workflow
from projections.files import progress_log

#: Marks each event of a test as accepted, so that approvals are valid without a proof.
ACCEPTED = "accepted"


class Recorded(RecordedEvent):
    """A recorded event that is not read from a log."""

    def __init__(
        self,
        type_: str,
        data: dict[str, Any],
        version: int,
        occurred_at: str,
        recorded_at: str,
        utc_offset: str = "+02:00",
    ) -> None:
        body = {"type": type_, "data": data, "version": version, "occurred_at": occurred_at}
        body |= {"recorded_at": recorded_at, "utc_offset": utc_offset, "prev_hash": "0" * 64}
        super().__init__(version, ACCEPTED, body)


PLAN: dict[str, Any] = {
    "workflow_id": "melt-2026-03-31",
    "purpose": "See it melt.",
    "stages": [
        {"id": "stage-1", "name": "Build", "parameters": {"command": "true"}},
        {"id": "stage-2", "name": "Schmelze äöü", "depends_on": ["stage-1"]},
        {"id": "stage-3", "name": "Analyse", "depends_on": ["stage-2"]},
    ],
}


def at(number: int) -> str:
    """Return the time of the event with the given version. The events are one minute apart."""
    return f"2026-03-31T{10 + number // 60:02}:{number % 60:02}:00.250000Z"


def history(payloads: Sequence[Payload], plan: dict[str, Any] | None = None) -> list[Recorded]:
    """Return recorded events: the creation of a workflow, and one event for each payload."""
    created = build_creation_payload(plan or PLAN, created=at(1))
    return [
        Recorded(payload.type, payload.model_dump(mode="json"), n, at(n), at(n))
        for n, payload in enumerate([created, *payloads], 1)
    ]


def folded(payloads: Sequence[Payload], plan: dict[str, Any] | None = None) -> Workflow:
    """Return the state of a workflow after its creation and the given payloads."""
    state = evolve(None, history(payloads, plan), {ACCEPTED})
    assert state is not None
    return state


def lines(payloads: Sequence[Payload], plan: dict[str, Any] | None = None) -> list[str]:
    """Return the lines of progress.log for a workflow with the given payloads."""
    found = fold_events(None, history(payloads, plan), {ACCEPTED})
    return [line for event, state in found if (line := progress_log.format_line(event, state))]


def last_message(*payloads: Payload) -> str:
    """Return the last line of progress.log without its time, after a check of the time."""
    newest = lines(payloads)[-1]
    stamp, _, message = newest.partition("] ")
    minute = len(payloads) + 1
    assert stamp == f"[2026-03-31T12:{minute:02}:00+02:00"
    assert message.endswith("\n")
    return message.removesuffix("\n")


def decided(commands: Sequence[Payload], plan: dict[str, Any] | None = None) -> list[Recorded]:
    """Return the recorded events that follow from the commands by the rules, one minute apart."""
    found: list[Recorded] = []
    state = None
    for command in [
        build_creation_payload(plan or PLAN, created=at(1), consent="trust"),
        *commands,
    ]:
        for payload in decide(state, command, at(len(found) + 1)):
            n = len(found) + 1
            found.append(Recorded(payload.type, payload.model_dump(mode="json"), n, at(n), at(n)))
        state = evolve(None, found, {ACCEPTED})
    return found
