"""One fixed history, written to a root with the same bytes every time."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from cli.frame.workspace import SCHEMA
from eventstore.engine import open_log
from eventstore.event import Actor, build_clock
from eventstore.store import EventStore, Refusal
from lifecycle.payload import models as p
from migrations.upgrade import upgrade_database
from service.root.atomic_files import utc_text
from service.root.root import Config, Root, config_text, without_secrets
from service.root.trusted_databases import trust_database
from tests.history.chronicle import AGREE, STREAM, Chronicle, Deed
from tests.projections.story import attempt, computed, launched

PLAN: dict[str, Any] = {
    "workflow_id": "w",
    "purpose": "See it melt.",
    "stages": [
        {"id": "stage-1", "name": "Build", "parameters": {"tolerance": 1e-6, "box": {"x": 2}}},
        {"id": "stage-2", "name": "Run", "depends_on": ["stage-1"]},
        {"id": "stage-3", "name": "Look", "depends_on": ["stage-2"]},
    ],
}
RALPH = Actor("agent", "ralph")
FINDER = Actor("reconciler", "ralph")
#: Each entry: the event, the minutes before its recording, and the actor.
DEEDS: list[tuple[Deed, int, Actor]] = [
    (p.SessionStarted(), 0, RALPH),
    (attempt("stage-1", 1, "tmux"), 0, RALPH),
    (launched("stage-1", 1), 0, RALPH),
    (
        p.AttemptObserved(
            stage="stage-1", attempt="att-0001", row=8, verdict="TASK_FAILED", action="failed",
            reason="a job recorded that its task failed", evidence={"exit_code": 137},
        ),
        1,
        FINDER,
    ),
    (
        p.StageFailed(stage="stage-1", attempt="att-0001", error="exit 137", exit_code=137),
        2,
        FINDER,
    ),
    (p.CostCharged(stage="stage-1", weight=2, work_class="error_cycle"), 0, RALPH),
    (p.SessionEnded(reason="blocked"), 0, RALPH),
    (p.StageRetried(stage="stage-1", fix="a looser tolerance"), 0, RALPH),
    (
        p.AmendmentProposed(
            kind="parameter_change", stage="stage-1", description="a looser one",
            reason="it does not converge", changes={"parameters": {"tolerance": {"new": 1e-4}}},
        ),
        0,
        RALPH,
    ),
    (AGREE, 0, RALPH),
    (p.SessionStarted(), 0, RALPH),
    (attempt("stage-1", 2, "sync"), 0, RALPH),
    (computed("stage-1", 2), 1, FINDER),
    (p.StageCompleted(stage="stage-1", evidence="The box is whole."), 0, RALPH),
    (p.CostCharged(stage="stage-1", weight=1, work_class="sync"), 0, RALPH),
    (p.NoteLogged(text="Now the long one."), 0, RALPH),
    (attempt("stage-2", 1, "tmux"), 0, RALPH),
    (p.StageFailed(stage="stage-2", error="no queue"), 0, RALPH),
    (
        p.AmendmentProposed(kind="stage_skip", stage="stage-3", description="nobody looks"),
        0,
        RALPH,
    ),
]  # fmt: skip
EDIT = p.DriftDetected(
    file="workflow-state.json",
    base=12,
    kept_as=".wfctl/drift/workflow-state.json.1",
    found_sha256="0" * 64,
    differences=[{"stage": "stage-1", "path": ["name"], "kind": "changed"}],
)


class Story(Chronicle):
    """The fixed history, recorded in a store."""

    def tell(self, store: EventStore) -> None:
        """Record the whole history."""
        self.begin(PLAN, store)
        for deed, minutes, actor in DEEDS:
            assert self.do(deed, minutes, actor), deed
        self.record([(EDIT, utc_text(self.now))], FINDER)
        refused = ("stage.completed", "illegal_transition", "not in the transition table")
        data = {"stage": "stage-3", "status": "pending"}
        store.record_refusal(Refusal(utc_text(self.now), STREAM, "agent:ralph", *refused, data))


def written(path: Path, url: str | None = None) -> Path:
    """Write a root with its configuration and log; with a URL, the log is on that server."""
    root = Root(path, url)
    root.folder.mkdir(parents=True)
    root.config_file.write_text(config_text(Config("w", database_url=url)))
    trust_database(without_secrets(url), path)
    upgrade_database(root.address)
    story = Story.__new__(Story)
    with closing(
        open_log(root.address, schema=SCHEMA, clock=build_clock(lambda: story.now))
    ) as store:
        story.tell(store)
    return path
