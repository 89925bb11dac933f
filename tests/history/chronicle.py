"""A workflow in memory whose history consists of random or chosen commands.

Tests control the time of each event and the time of its recording.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from cli.frame.workspace import SCHEMA
from eventstore.event import Actor, NewEvent, build_clock
from eventstore.store import Claim, EventStore, Expected
from lifecycle.errors import LifecycleError
from lifecycle.payload import models as p
from lifecycle.payload.models import Payload
from lifecycle.plan.document import build_creation_payload
from lifecycle.rules.decide import decide_all
from lifecycle.rules.impact import compute_approval_impact
from service.consent import proof as consent
from service.reading.log import WorkflowLog
from service.root.atomic_files import utc_text
from tests.eventstore.memory import MemoryStore
from tests.projections.story import attempt
from tests.service.test_any_history import COMMANDS, DEPENDENCIES, plan

STREAM = "workflow-w"
BEGIN = datetime(2026, 3, 31, 10, 0, tzinfo=UTC)
AGENT = Actor("agent", "ralph")
ADA = Actor("user", "ada")

VALUES = st.sampled_from([1, 1.0, True, "x", None, [1], {"deep": 2}])
KEYS = st.sampled_from(["tolerance", "dt", "a.b"])
STAGES = st.sampled_from(["stage-1", "stage-2", "stage-3"])
PROPOSALS = st.one_of(
    st.builds(
        p.AmendmentProposed,
        kind=st.just("parameter_change"),
        stage=STAGES,
        description=st.just("another number"),
        changes=st.builds(lambda k, v: {"parameters": {k: {"new": v}}}, KEYS, VALUES),
    ),
    st.builds(
        p.AmendmentProposed,
        kind=st.sampled_from(["stage_skip", "stage_rerun"]),
        stage=STAGES,
        description=st.just("not so"),
    ),
    st.builds(
        p.AmendmentProposed,
        kind=st.just("stage_insert"),
        description=st.just("one more"),
        insert=st.lists(STAGES, max_size=1).map(lambda on: {"name": "More", "depends_on": on}),
    ),
)
#: Names of steps: approve the pending amendment, move a stage one step forward, let a stage fail.
AGREE, ONWARD, FAIL = "agree", "onward", "fail"
DEED_NAMES = st.sampled_from([ONWARD, ONWARD, ONWARD, FAIL])
Deed = Payload | str
#: Each entry is a step, and the number of minutes that it happened before its recording.
DEEDS = st.tuples(
    # Most of the steps move the workflow forward, so that histories get long enough.
    st.sampled_from([DEED_NAMES, DEED_NAMES, DEED_NAMES, PROPOSALS, COMMANDS]).flatmap(lambda s: s),
    st.sampled_from([0, 0, 0, 1, 7, 90]),
)


class Chronicle:
    """A log whose clock advances by a minute with each command."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.begin(document, MemoryStore(schema=SCHEMA, clock=build_clock(lambda: self.now)))

    def begin(self, document: dict[str, Any], store: EventStore) -> None:
        """Create the workflow in a store that uses the clock of this object."""
        self.now = BEGIN
        self.store = store
        self.log = WorkflowLog(self.store, STREAM)
        self.commands = 0
        created = build_creation_payload(document, created=utc_text(BEGIN))
        trusting = created.model_copy(update={"consent": "trust"})
        planned, _ = decide_all(None, [(trusting, utc_text(self.now))])
        self.record(planned, ADA)

    @property
    def head(self) -> int:
        """The current version of the log."""
        head = self.store.head(STREAM)
        return head.version if head is not None else 0

    def do(self, deed: Deed, minutes: int = 0, actor: Actor = AGENT) -> bool:
        """Carry out a command, and return whether the rules allowed it and it recorded anything."""
        self.now += timedelta(minutes=1)
        at = utc_text(self.now - timedelta(minutes=minutes))
        asked = self.named(deed) if isinstance(deed, str) else deed
        if asked is None:
            return False
        try:
            planned, _ = decide_all(self.log.current(), [(asked, at)])
        except LifecycleError:
            return False
        self.record(planned, ADA if asked.type == "amendment.approved" else actor)
        return bool(planned)

    def record(self, planned: list[tuple[Payload, str]], actor: Actor) -> None:
        """Append events as the service does, with the first event as the cause of the others."""
        self.commands += 1
        ids = [f"event-{self.head + number}" for number in range(1, len(planned) + 1)]
        session = self.log.state().session if self.head else None  # type: ignore[union-attr]
        events = [
            NewEvent(
                event_id=id_,
                type=payload.type,
                schema_version=payload.schema_version,
                data=payload.model_dump(mode="json"),
                actor=actor,
                session=session.count if session is not None and session.is_open else None,
                causation_id=ids[0] if id_ != ids[0] else None,
                correlation_id=ids[0],
                occurred_at=at,
            )
            for id_, (payload, at) in zip(ids, planned, strict=True)
        ]
        if events:
            claim = Claim(f"command-{self.commands}", "")
            self.store.append(STREAM, events, expected=Expected.ANY, claim=claim)

    def named(self, deed: str) -> Payload | None:
        """Return the command for a step in the current state, or None."""
        if deed == AGREE or self.log.current().pending_amendments:
            return self.agreement()
        for stage in self.log.current().stages.values():
            newest = stage.attempt.id if stage.attempt is not None else "att-0001"
            steps: dict[str, Payload] = {
                "ready": attempt(stage.id, len(stage.attempts) + 1, "sync"),
                "preparing": p.StageComputed(stage=stage.id, attempt=newest, exit_code=0),
                "running": p.StageComputed(stage=stage.id, attempt=newest, exit_code=0),
                "post_processing": p.StageCompleted(stage=stage.id, evidence="seen"),
                "failed": p.StageRetried(stage=stage.id, fix="a smaller step"),
            }
            if stage.status in steps and not (deed == FAIL and stage.status in ("ready", "failed")):
                failure = p.StageFailed(stage=stage.id, error="exit 137")
                return failure if deed == FAIL else steps[stage.status]
        return None

    def agreement(self) -> Payload | None:
        """Return the approval of the oldest pending amendment, with a proof by trust."""
        state = self.log.current()
        if not state.pending_amendments:
            return None
        amendment = state.pending_amendments[0]
        try:
            impact = compute_approval_impact(state, amendment, {})
        except LifecycleError:
            return None
        head = next(iter(self.store.read(STREAM, after=self.head - 1))).hash
        statement = consent.build_statement(state, amendment, impact, head, {})
        proof = consent.build_proof(statement, "trust")
        return p.AmendmentApproved(amendment=amendment.id, approved_by="ada", proof=proof)


def lived(depends: tuple[list[str], list[str]], deeds: list[tuple[Deed, int]]) -> Chronicle:
    """Return a workflow with the history of the given commands."""
    chronicle = Chronicle(plan(depends))
    for deed, minutes in deeds:
        chronicle.do(deed, minutes)
    return chronicle


CHRONICLES = st.builds(lived, DEPENDENCIES, st.lists(DEEDS, min_size=8, max_size=30))
