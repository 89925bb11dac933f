"""A workflow with everything that an export can show, with the same bytes each time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

from eventstore.event import Actor, NewEvent, build_clock
from eventstore.schema import Schema
from eventstore.sqlite.store import open_store
from eventstore.store import Claim, EventStore, Expected
from lifecycle.payload import models as p
from lifecycle.payload.event_types import UPCASTERS, VERSIONS
from lifecycle.payload.models import Payload
from lifecycle.plan.document import build_creation_payload
from lifecycle.rules.decide import decide
from lifecycle.rules.impact import compute_approval_impact
from lifecycle.state.workflow import Workflow
from migrations.upgrade import upgrade_database
from service.consent.proof import build_proof, build_statement
from service.reading.log import WorkflowLog
from tests.projections.story import attempt, computed, launched, observed

PLAN: dict[str, Any] = {
    "workflow_id": "melt-2026-03-31",
    "purpose": "See it melt: <b>how</b> & why.",
    "experiment_design": "design.md",
    "stages": [
        {
            "id": "stage-1",
            "name": "Build the box",
            "inputs": ["in.txt"],
            "outputs": ["stage-1/box.data"],
            "parameters": {"command": "python3 build.py", "seed": 7},
            "success_criteria": "The box is whole.",
        },
        {
            "id": "stage-2",
            "name": "Schmelze bei 2000 K (äöü)",
            "depends_on": ["stage-1"],
            "inputs": ["stage-1/box.data"],
            "outputs": ["stage-2/melt.dump"],
            "parameters": {"command": "lmp -in in.melt", "timestep": 0.005},
            "success_criteria": "Drift below 1e-3, and <script>alert(1)</script> is only text.",
        },
        {"id": "stage-3", "name": "Control at 300 K", "depends_on": ["stage-1"]},
        {
            "id": "stage-4",
            "name": "Analyse the mean square displacement of every species",
            "depends_on": ["stage-2", "stage-3", "stage-1"],
            "inputs": ["stage-2/melt.dump"],
        },
        {"id": "stage-5", "name": "Plot", "depends_on": ["stage-4"]},
    ],
}
ADA, BOT = Actor("user", "ada"), Actor("agent", "tess")
RECONCILER = Actor("reconciler", "tess")
BEGIN = datetime(2026, 3, 31, 10, 0, 0, 250000, tzinfo=UTC)
WORKFLOW = str(PLAN["workflow_id"])
STREAM = f"workflow-{WORKFLOW}"


def digest_of(path: str) -> p.FileDigest:
    """Return the digest of a file whose content is its path."""
    return p.FileDigest(path=path, size=len(path), sha256=sha256(path.encode()).hexdigest())


def proposal(
    kind: p.AmendmentType, stage: str, text: str, changes: dict[str, Any]
) -> p.AmendmentProposed:
    """Return a proposed amendment of a stage."""
    return p.AmendmentProposed(
        kind=kind, stage=stage, description=text, reason="It is needed.", changes=changes
    )


def done(stage: str, number: int) -> list[Payload]:
    """Return the commands of an attempt that ran synchronously and was verified."""
    return [
        attempt(stage, number, "sync"),
        computed(stage, number),
        p.StageCompleted(
            stage=stage,
            attempt=f"att-{number:04d}",
            evidence="I looked.",
            checks=[p.Check(name=f"output {stage}/out", passed=True, detail="3 bytes")],
            judged_by="user:ada",
            outputs=[digest_of(f"{stage}/out.txt")],
        ),
    ]


HALF_WAY: list[tuple[Actor, Payload | str]] = [
    (BOT, p.SessionStarted()),
    *((BOT, command) for command in done("stage-1", 1)),
    (BOT, p.CostCharged(stage="stage-1", weight=1, work_class="sync")),
    (BOT, p.NoteLogged(text="Now the long one: <i>melting</i> & more.")),
    (BOT, attempt("stage-2", 1, "tmux")),
    (BOT, launched("stage-2", 1)),
    (BOT, p.StageFailed(stage="stage-2", attempt="att-0001", error="exit 137", exit_code=137)),
    (BOT, p.StageRetried(stage="stage-2", fix="more memory")),
    (BOT, attempt("stage-2", 2, "tmux")),
    (BOT, launched("stage-2", 2)),
    (RECONCILER, observed("stage-2", 2)),
    (RECONCILER, attempt("stage-2", 3, "tmux", recovers="att-0002")),
    (RECONCILER, launched("stage-2", 3)),
    (RECONCILER, computed("stage-2", 3)),
    (BOT, p.StageCompleted(stage="stage-2", attempt="att-0003", evidence="I looked again.")),
    *((BOT, command) for command in done("stage-3", 1)),
    (
        BOT,
        proposal(
            "parameter_change",
            "stage-2",
            "Halve the time step <b>now</b>",
            {"parameters": {"timestep": {"new": 0.0025}}},
        ),
    ),
    (ADA, "amend-1"),
    (BOT, proposal("criteria_change", "stage-5", "Look only", {"success_criteria": {"new": "x"}})),
    (ADA, p.AmendmentRejected(amendment="amend-2", reason="Never.")),
    (
        RECONCILER,
        p.DriftDetected(
            file="workflow-state.json",
            base=30,
            kept_as=".wfctl/drift/one.json",
            differences=[{"stage": "stage-4", "path": ["name"], "old": "Analyse", "new": "A&B"}],
        ),
    ),
    (BOT, attempt("stage-2", 4, "tmux")),
    (BOT, launched("stage-2", 4)),
    (
        BOT,
        proposal(
            "parameter_change", "stage-4", "Every tenth", {"parameters": {"stride": {"new": 10}}}
        ),
    ),
]
REST: list[tuple[Actor, Payload | str]] = [
    (ADA, "amend-3"),
    (ADA, p.DriftReverted(file="workflow-state.json", proof={"policy": "terminal"})),
    (RECONCILER, computed("stage-2", 4)),
    (BOT, p.StageCompleted(stage="stage-2", attempt="att-0004", evidence="The drift is small.")),
    *((BOT, command) for command in done("stage-4", 1)),
    *((BOT, command) for command in done("stage-5", 1)),
    (BOT, p.SessionEnded(reason="completed")),
]
STORIES = {"begun": [], "half-way": HALF_WAY, "completed": [*HALF_WAY, *REST]}
#: Other ids for the stages; a number in an id differs from the position of the stage.
NAMES = {
    "stage-1": "film",
    "stage-2": "grow-film-9",
    "stage-3": "A_b",
    "stage-4": "stage-1",
    "stage-5": "plot-007",
}


def named(text: str) -> str:
    """Return the text with the other ids of the stages."""
    return re.sub("stage-[1-5]", lambda found: NAMES[found[0]], text)


class Clock:
    """A clock that stands still until a test advances it."""

    def __init__(self) -> None:
        self.minute = 0

    def __call__(self) -> datetime:
        """Return the current time in the time zone UTC+2."""
        return (BEGIN + timedelta(minutes=self.minute)).astimezone(timezone(timedelta(hours=2)))

    def text(self) -> str:
        """Return the current time in the format of the log."""
        return self().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class World:
    """A log written command by command, one minute apart, with numbered event ids."""

    def __init__(self, store: EventStore, clock: Clock) -> None:
        self.log = WorkflowLog(store, STREAM)
        self.clock = clock
        self.events = 0

    def begin(self, plan: dict[str, Any] = PLAN) -> None:
        """Create the workflow under the consent policy trust, which proves no person."""
        self.act(BOT, build_creation_payload(plan, created=self.clock.text(), consent="trust"))

    def act(self, actor: Actor, command: Payload | str) -> None:
        """Run a command; a string is the id of an amendment to approve."""
        self.clock.minute += 1
        state = self.log.state()
        asked = command if isinstance(command, Payload) else self._approval(state, command)
        found = isinstance(asked, p.DriftDetected)  # drift needs no decision
        planned = [asked] if found else decide(state, asked, self.clock.text())
        self.append(actor, planned, state)

    def _approval(self, state: Workflow | None, amendment: str) -> p.AmendmentApproved:
        assert state is not None
        found = state.amendments[amendment]
        head = self.log.store.head(STREAM)
        assert head is not None
        impact = compute_approval_impact(state, found, {})
        statement = build_statement(state, found, impact, head.hash, {})
        return p.AmendmentApproved(amendment=amendment, proof=build_proof(statement, "trust"))

    def append(self, actor: Actor, planned: Sequence[Payload], state: Workflow | None) -> None:
        """Append the events without applying the rules."""
        first = self.events + 1
        ids = [event_id(first + n) for n in range(len(planned))]
        session = state.session.count if state is not None and state.session.is_open else None
        new = [
            NewEvent(
                event_id=id_,
                type=payload.type,
                schema_version=payload.schema_version,
                data=payload.model_dump(mode="json"),
                actor=actor,
                session=session,
                causation_id=ids[0] if id_ != ids[0] else None,
                correlation_id=ids[0],
                occurred_at=self.clock.text(),
            )
            for id_, payload in zip(ids, planned, strict=True)
        ]
        claim = Claim(f"command-{first}", "")
        self.log.store.append(STREAM, new, expected=Expected.ANY, claim=claim)
        self.events += len(new)


def event_id(number: int) -> str:
    """Return a UUIDv7 that contains the number of the event."""
    return f"019d4c00-0000-7000-8000-{number:012x}"


def _called(command: Payload | str, called: Callable[[str], str]) -> Payload | str:
    if isinstance(command, str):
        return command
    return type(command).model_validate_json(called(command.model_dump_json()))


def make_root(
    path: Path, story: Sequence[tuple[Actor, Payload | str]], called: Callable[[str], str] = str
) -> Path:
    """Create a workflow root at ``path`` whose log has the story, and return the path.

    ``called`` replaces the ids of the stages in all texts.
    """
    folder = path / ".wfctl"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'workflow = "{WORKFLOW}"\n')
    upgrade_database(folder / "events.db")
    clock = Clock()
    store = open_store(
        folder / "events.db",
        schema=Schema(VERSIONS, UPCASTERS),
        clock=build_clock(clock),
        journal="truncate",
    )
    try:
        world = World(store, clock)
        world.begin(json.loads(called(json.dumps(PLAN))))
        for actor, command in story:
            world.act(actor, _called(command, called))
    finally:
        store.close()
    return path
