"""Every reader of the log accepts every shape of event that the schemas allow."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli.frame.workspace import SCHEMA
from eventstore.event import build_clock
from eventstore.sqlite.store import open_store
from extensions.exports.formats import FORMATS, ExportSource
from extensions.history import history_queries as queries
from extensions.history.history_queries import open_history_connection
from extensions.history.sql_tables import HistoryTables
from lifecycle.payload import models as p
from lifecycle.payload.models import Payload
from migrations.upgrade import upgrade_database
from projections.files import progress_log, state_document
from projections.screens.watch_view import render_frame
from service.questions.blame import find_blame
from service.questions.causes import find_causes
from service.root.atomic_files import utc_text
from service.writing.workflow_service import render_report
from tests.history.chronicle import ADA, AGENT, AGREE, STREAM, Chronicle, Deed
from tests.history.shapes import shaped_like
from tests.history.story import EDIT, PLAN
from tests.projections.story import attempt, computed, launched, observed

#: The events in order; each is first tried with random data that its schema allows.
DEEDS: list[Deed] = [
    p.SessionStarted(),
    p.StagePrepared(stage="stage-1"),
    attempt("stage-1", 1, "tmux"),
    launched("stage-1", 1),
    p.AttemptRelaunched(stage="stage-1", attempt="att-0001", mode="tmux", reason="gone"),
    p.CheckpointRecorded(stage="stage-1", checkpoint=1),
    observed("stage-1", 1),
    p.StageFailed(stage="stage-1", attempt="att-0001", error="exit 137", stop=True),
    p.AttemptStopped(stage="stage-1", attempt="att-0001", ended=[], reason="it failed"),
    p.CostCharged(stage="stage-1", weight=2, work_class="error_cycle"),
    p.AmendmentProposed(kind="stage_rerun", stage="stage-1", description="again"),
    p.AmendmentRejected(amendment="amend-1"),
    p.StageRetried(stage="stage-1", fix="a smaller step"),
    attempt("stage-1", 2, "sync"),
    p.OutputsRecorded(stage="stage-1", outputs=["stage-1/out.txt"]),
    computed("stage-1", 2),
    p.StageCompleted(stage="stage-1", attempt="att-0002", evidence="seen"),
    p.SessionEnded(reason="waiting"),
    p.NoteLogged(text="a note"),
    attempt("stage-2", 1, "sync"),
    computed("stage-2", 1),
    p.StageCompleted(stage="stage-2", attempt="att-0001", evidence="seen"),
    p.AmendmentProposed(kind="stage_rerun", stage="stage-1", description="again"),
    AGREE,
    p.AmendmentProposed(kind="stage_skip", stage="stage-3", description="nobody looks"),
    AGREE,
    EDIT,
    p.DriftAdopted(file="workflow-state.json"),
    EDIT,
    p.DriftReverted(file="workflow-state.json", proof={"policy": "trust"}),
]
#: Types of events that only the service records, when it finds something. No command records them.
FOUND = frozenset({"drift.detected"})


class Kept(Chronicle):
    """A workflow log in a file whose events have random data."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        upgrade_database(path)
        super().begin(PLAN, open_store(path, schema=SCHEMA, clock=build_clock(lambda: self.now)))
        self.refused: list[Payload] = []

    def live(self, draw: Any) -> None:
        """Record every event with random data, or unchanged if the rules refuse the random data."""
        for deed in DEEDS:
            shaped = draw(shaped_like(deed)) if isinstance(deed, Payload) else deed
            if isinstance(shaped, Payload) and shaped.type in FOUND:
                self.now += timedelta(minutes=1)
                self.record([(shaped, utc_text(self.now))], ADA)
            elif not self.do(shaped, actor=AGENT):
                self.refused.append(deed)  # type: ignore[arg-type]
                self.do(deed)


def read_by_all(path: Path, chronicle: Chronicle) -> None:
    """Let every projection, table, query and export read the log."""
    log = chronicle.log
    tables = HistoryTables(path, log)
    tables.catch_up()
    tables.rebuild()
    for question in (queries.TRANSITIONS, queries.RETRIES, queries.TIMES, queries.QUEUE,
                     queries.COSTS, queries.ATTEMPTS, queries.DRIFT):  # fmt: skip
        with open_history_connection(path, log) as desk:
            list(desk.run_user_query(question, {"stage": None, "status": None}, 60).rows)
    state = log.current()
    lines = [
        line for event, after in log.steps() if (line := progress_log.format_line(event, after))
    ]
    assert all(line.splitlines() == [line.removesuffix("\n")] for line in lines)
    assert state_document.render_state(state)
    assert render_frame(state, lines[-5:], chronicle.now, (100, 60)).lines
    assert render_report(log)
    for one in find_causes(log, *state.stages):
        assert one.to_dict()
    for stage in state.stages:
        assert [found.to_dict() for found in find_blame(log, stage)]
    source = ExportSource(log.steps, lambda: islice(log.store.raw(STREAM), None), log.current)
    for maker in FORMATS.values():
        assert "".join(maker.chunks(source))


def every_shape(data: st.DataObject, path: Path) -> None:
    """Record a history of random data, and let every reader read it."""
    chronicle = Kept(path)
    with closing(chronicle.store):
        chronicle.live(data.draw)
        read_by_all(path, chronicle)


@settings(max_examples=3, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_readers_accept_every_shape_that_the_schemas_allow(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Files, tables, queries, reports, causes and exports are read without an error."""
    every_shape(data, tmp_path_factory.mktemp("log") / "events.db")


@pytest.mark.long
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_readers_accept_many_more_shapes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """The previous test with more random event data, as a long test."""
    every_shape(data, tmp_path_factory.mktemp("log") / "events.db")


def test_tables_accept_evidence_as_a_string(tmp_path: Path) -> None:
    """The tables accept a completed stage whose evidence is text and not an object."""
    path = tmp_path / "events.db"
    chronicle = Kept(path)
    with closing(chronicle.store):
        for deed in DEEDS[:17]:
            assert chronicle.do(deed), deed
        read_by_all(path, chronicle)
