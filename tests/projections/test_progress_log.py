"""Each line of ``progress.log`` has the exact words for which other programs search."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lifecycle.payload import models as p
from lifecycle.payload.event_types import STAGED
from lifecycle.payload.models import Payload
from projections.files import progress_log
from projections.words.text import convert_utc_to_local_seconds, truncate_utc_to_seconds
from tests.projections.support import PLAN, Recorded, at, folded, history, last_message, lines

HERE: dict[str, Any] = {"stage": "stage-1"}
ATTEMPT: dict[str, Any] = {**HERE, "attempt": "att-0001"}


def attempt(**more: Any) -> p.AttemptStarted:
    """Return the event of an attempt's start."""
    fields: dict[str, Any] = {
        **ATTEMPT,
        "mode": "tmux",
        "root": "/somewhere",
        "work_dir": "w",
        "submission": "s",
        "submission_sha256": "0" * 64,
        "wrapper": "x",
        **more,
    }
    return p.AttemptStarted(**fields)


READIED = p.StageReadied(**HERE)
PROPOSED = p.AmendmentProposed(
    amendment="amend-1", kind="stage_skip", stage="stage-2", description="It is not needed."
)
SKIPPED = 'skip stage-2; described as "It is not needed."'
COLDER = 'parameter_change workflow; described as "Colder."'
GENERAL = p.AmendmentProposed(amendment="amend-2", kind="parameter_change", description="Colder.")
LAUNCHED = p.StageLaunched(**ATTEMPT, mode="tmux", session="dpdisp_stage-1")
STARTED = p.SessionStarted(number=3)
KEPT = ".wfctl/drift/x"

#: The version and hash of the log, at the end of the first and last line of a session.
ANCHOR = re.compile(r" \[log at version \d+: [0-9a-f]{64}\]$")

#: For each kind of line: the events that lead to it, and its text. Each key starts with the type of
#: the last event.
SPELLING: dict[str, tuple[list[Payload], str]] = {
    "workflow.created": ([], "Workflow created: melt-2026-03-31. 3 stages. Purpose: See it melt."),
    "workflow.completed": (
        [p.WorkflowCompleted(stages=3)],
        "Workflow completed. All 3 stages verified.",
    ),
    "workflow.completed report": (
        [p.WorkflowCompleted(stages=3, report="report.md")],
        "Workflow completed. All 3 stages verified. Report: report.md",
    ),
    "workflow.reopened": ([p.WorkflowReopened(reason="more")], "Workflow reopened: more"),
    "stage.readied": ([READIED], "stage-1 (Build): status -> ready (dependencies met)"),
    "stage.prepared": ([p.StagePrepared(**HERE)], "stage-1 (Build): status -> preparing"),
    "stage.prepared detail": (
        [p.StagePrepared(**HERE, detail="tmux dispatch")],
        "stage-1 (Build): status -> preparing (tmux dispatch)",
    ),
    "attempt.started recovery": (
        [attempt(), attempt(attempt="att-0002", recovers="att-0001")],
        "stage-1: att-0001 was lost; att-0002 takes its place (not counted as a retry)",
    ),
    "stage.launched": (
        [attempt(), LAUNCHED],
        "stage-1: status -> running (tmux: dpdisp_stage-1)",
    ),
    "stage.launched setsid": (
        [attempt(), p.StageLaunched(**ATTEMPT, mode="setsid")],
        "stage-1: status -> running (setsid)",
    ),
    "stage.launched sync": (
        [attempt(mode="sync"), p.StageLaunched(**ATTEMPT, mode="sync", job_ids=["12"])],
        "stage-1: att-0001 runs as job 12",
    ),
    "stage.launched again": (
        [attempt(), LAUNCHED, p.StageLaunched(**ATTEMPT, mode="tmux", job_ids=["12"], again=True)],
        "stage-1: att-0001 runs as job 12",
    ),
    "stage.computed": (
        [attempt(), p.StageComputed(**ATTEMPT, exit_code=0)],
        "stage-1 (Build): status -> post_processing (att-0001, exit 0)",
    ),
    "stage.completed": (
        [p.StageCompleted(**HERE, detail="R² = 0.99")],
        "stage-1 (Build): status -> completed (R² = 0.99)",
    ),
    "stage.completed evidence": (
        [p.StageCompleted(**HERE, evidence="I looked")],
        "stage-1 (Build): status -> completed (I looked)",
    ),
    "stage.failed": (
        [p.StageFailed(**HERE, error="exit 3")],
        "stage-1 (Build): status -> failed (exit 3)",
    ),
    "attempt.stopped": (
        [
            attempt(),
            p.StageFailed(**HERE, error="too long", stop=True),
            p.AttemptStopped(**ATTEMPT, ended=["process 4711", "job 12"], reason="asked for"),
        ],
        "stage-1: att-0001 stopped (asked for): process 4711, job 12 ended",
    ),
    "stage.retried": (
        [p.StageRetried(**HERE, fix="more memory", retry=2)],
        "stage-1: retry #2 after fix: more memory",
    ),
    "stage.invalidated": (
        [p.StageInvalidated(**HERE, amendment="amend-1", reason="stage-0 runs again")],
        "stage-1 (Build): status -> invalidated (stage-0 runs again)",
    ),
    "stage.skipped": (
        [p.StageSkipped(stage="stage-2", amendment="amend-1")],
        "stage-2 (Schmelze äöü): status -> skipped (amend-1)",
    ),
    "stage.blocked": (
        [p.StageBlocked(stage="stage-2", dependency="stage-1", dependency_status="failed")],
        "WARNING: stage-2 blocked: dependency stage-1 is failed",
    ),
    "attempt.observed": (
        [
            attempt(),
            p.AttemptObserved(
                **ATTEMPT, row=3, verdict="LOST", action="lost", reason="no lock", evidence={}
            ),
        ],
        "stage-1: att-0001 found LOST: no lock",
    ),
    "attempt.relaunched": (
        [attempt(), p.AttemptRelaunched(**ATTEMPT, mode="tmux", reason="monitor gone")],
        "Recovering stage-1: re-launching DPDispatcher",
    ),
    "tasks.observed": (
        [
            attempt(),
            p.TasksObserved(**ATTEMPT, total=6, points="a", running="0-5"),
            p.TasksObserved(
                **ATTEMPT,
                total=6,
                points="a",
                done="0-2,4",
                failed="3",
                record=p.FileDigest(path="r", size=1, sha256="b"),
            ),
        ],
        "stage-1: att-0001: 4 of 6 tasks done, 1 failed, 1 waiting",
    ),
    "attempt.left": (
        [
            attempt(),
            p.AttemptLeft(
                **ATTEMPT,
                files=[
                    p.LeftFile(path="stage-1/restart", size=1, sha256="a"),
                    p.LeftFile(path="up", size=1, sha256="b", at="stage-1/b"),
                ],
                more=9,
            ),
        ],
        "stage-1: att-0001 left stage-1/restart, up and 9 more; 1 kept elsewhere, as stage-1/b",
    ),
    "outputs.recorded": (
        [p.OutputsRecorded(**HERE, outputs=["a.txt", "b.txt"])],
        "stage-1: outputs: a.txt, b.txt",
    ),
    "outputs.recorded none": ([p.OutputsRecorded(**HERE, outputs=[])], "stage-1: outputs: none"),
    "results.adopted": (
        [
            p.ResultsAdopted(
                **HERE, outputs=[p.FileDigest(path="a", size=1, sha256="a")], reason="rounded"
            )
        ],
        "WARNING: stage-1: changed by hand and adopted: a (rounded)",
    ),
    "claim.overruled": (
        [
            p.ClaimOverruled(
                **ATTEMPT, claim="over", verdict="MONITORED", reason="x", approved_by="ann"
            )
        ],
        "WARNING: stage-1: ann overruled the evidence on att-0001 (MONITORED) and calls it over: x",
    ),
    "audit.agreed": (
        [
            p.AuditAgreed(
                entry="3f9c", kind="script", subject="s", text="t", reason="x", approved_by="ann"
            )
        ],
        "ann agreed to script s (t): x",
    ),
    "files.recorded": (
        [p.FilesRecorded(scripts={"check.sh": "0" * 64})],
        "Digests recorded: check.sh",
    ),
    "leftovers.freed": (
        [p.LeftoversFreed(**ATTEMPT, paths=["stage-1/.attempts/x/work/y"], size=7)],
        "stage-1: 1 leftovers of att-0001 freed, 7 bytes: stage-1/.attempts/x/work/y",
    ),
    "results.changed": (
        [p.ResultsChanged(**HERE, files=[p.ChangedFile(path="a", kind="missing")])],
        "WARNING: stage-1: results are not as recorded: a (missing)",
    ),
    "results.changed back": (
        [p.ResultsChanged(**HERE, files=[])],
        "stage-1: its results are as recorded again",
    ),
    "outputs.reused": (
        [p.OutputsReused(**ATTEMPT, outputs=[p.FileDigest(path="a", size=1, sha256="0" * 64)])],
        "stage-1: outputs of att-0001 reused, because it had the same inputs: a",
    ),
    "outputs.archived": (
        [p.OutputsArchived(**HERE, kept_as="stage-1.v1")],
        "stage-1: outputs will be kept as stage-1.v1 before it runs again",
    ),
    "checkpoint.recorded": (
        [p.CheckpointRecorded(**HERE, checkpoint={"step": 4})],
        "stage-1: checkpoint recorded",
    ),
    "note.logged": ([p.NoteLogged(text="looks well")], "looks well"),
    "note.logged stage": (
        [p.NoteLogged(text="looks well", stage="stage-1")],
        "stage-1: looks well",
    ),
    "amendment.proposed": (
        [PROPOSED],
        f"Amendment proposed: amend-1 (stage_skip, stage-2): {SKIPPED}",
    ),
    "amendment.proposed workflow": (
        [GENERAL],
        f"Amendment proposed: amend-2 (parameter_change, workflow): {COLDER}",
    ),
    "amendment.approved": (
        [PROPOSED, p.AmendmentApproved(amendment="amend-1", version=2)],
        f"Amendment approved: amend-1 (stage_skip, stage-2): {SKIPPED}",
    ),
    "amendment.rejected": (
        [PROPOSED, p.AmendmentRejected(amendment="amend-1")],
        f"Amendment rejected: amend-1 (stage_skip, stage-2): {SKIPPED}",
    ),
    "round.begun": (
        [p.RoundBegun(loop="search", round=2, points=[{"x": 1}], by="agent:bo", reason="far off")],
        "Round 2 of search began: 1 point from agent:bo: far off",
    ),
    "loop.stopped": (
        [p.LoopStopped(loop="search", reason="enough")],
        "Loop search is stopped: enough",
    ),
    "session.started": ([STARTED], "Session 3 started. Workflow: melt-2026-03-31"),
    "session.ended": (
        [STARTED, p.SessionEnded(reason="blocked", next="ask Ada")],
        "Session 3 ended. Next: ask Ada",
    ),
    "session.ended reason": (
        [STARTED, p.SessionEnded(reason="waiting")],
        "Session 3 ended. Next: waiting",
    ),
    "cost.charged": (
        [STARTED, p.CostCharged(**HERE, weight=1.5, work_class="async")],
        "stage-1: session_cost += 1.5 (async), total=1.5/6",
    ),
    "cost.charged again": (
        [
            STARTED,
            p.CostCharged(**HERE, weight=1.5, work_class="async"),
            p.CostCharged(**HERE, weight=2, work_class="error_cycle"),
        ],
        "stage-1: session_cost += 2 (error_cycle), total=3.5/6",
    ),
    "drift.detected": (
        [p.DriftDetected(file="workflow-state.json", kept_as=KEPT)],
        f"WARNING: workflow-state.json was changed by hand; the edited version is kept as {KEPT}",
    ),
}

#: Events without a line of their own. Another event of the same append may have a line.
SILENT = {"drift.adopted", "drift.reverted"}

#: Events of an import. They start a log, or contain lines that other programs wrote.
IMPORTED = {"workflow.imported", "line.imported", "state.imported"}


@pytest.mark.parametrize("name", SPELLING)
def test_log_line_has_the_expected_text(name: str) -> None:
    """Each line has the local time in brackets, a space, the text and one line break."""
    payloads, expected = SPELLING[name]
    printed = last_message(*payloads)
    at_a_boundary = name.startswith("session.")
    assert ANCHOR.sub("", printed) == expected
    assert bool(ANCHOR.search(printed)) == at_a_boundary


def test_every_event_type_is_covered_or_silent() -> None:
    """A new event type must have an example of its line, or be listed as an event without one."""
    spelt = {name.split()[0] for name in SPELLING}
    assert spelt | SILENT | IMPORTED == set(STAGED)


@pytest.mark.parametrize("type_", sorted(SILENT))
def test_silent_event_adds_no_line(type_: str) -> None:
    """wfctl writes no line for this event to progress.log."""
    event = Recorded(type_, {"file": "progress.log"}, 2, at(2), at(2))
    assert progress_log.format_line(event, folded([])) is None


def test_first_start_of_an_attempt_has_no_line() -> None:
    """Only the launch of a first attempt has a line; the start of a replacing attempt has one."""
    assert len(lines([READIED, attempt()])) == 2


def test_import_has_a_line() -> None:
    """The last event of an import adds a line with the number of stages."""
    state = folded([])
    state.import_end = state.head
    event = Recorded("state.imported", {}, state.head, "", "2026-03-31T10:00:00.000000Z", "+00:00")
    line = progress_log.format_line(event, state)
    assert line == "[2026-03-31T10:00:00+00:00] Workflow imported: melt-2026-03-31. 3 stages.\n"


def test_purpose_ends_with_one_full_stop() -> None:
    """wfctl adds a missing full stop to the purpose, and accepts a plan without a purpose."""
    bare = {key: value for key, value in PLAN.items() if key != "purpose"}
    assert lines([], bare)[0].endswith("] Workflow created: melt-2026-03-31. 3 stages.\n")
    assert lines([], {**bare, "purpose": "Melt"})[0].endswith("stages. Purpose: Melt.\n")


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\u2028b", "a\x0bb", "a\x85b"])
def test_line_breaks_in_an_event_are_replaced(text: str) -> None:
    """Each event stays on one line, whatever line breaks its text contains."""
    assert last_message(p.NoteLogged(text=text)) == "a b"
    assert len(lines([p.NoteLogged(text=text)])[-1].splitlines()) == 1


@pytest.mark.parametrize(
    ("offset", "shown"),
    [
        ("+00:00", "2026-12-31T23:59:59+00:00"),
        ("+02:00", "2027-01-01T01:59:59+02:00"),
        ("-05:00", "2026-12-31T18:59:59-05:00"),
        ("+05:45", "2027-01-01T05:44:59+05:45"),
        ("-03:30", "2026-12-31T20:29:59-03:30"),
    ],
)
def test_local_time_has_whole_seconds_and_the_offset(offset: str, shown: str) -> None:
    """The time is in the time zone of the writer, without fractions of a second."""
    assert convert_utc_to_local_seconds("2026-12-31T23:59:59.999999Z", offset) == shown


def test_utc_time_has_whole_seconds() -> None:
    """A time in UTC loses its fractions; an imported time in another format is not changed."""
    assert truncate_utc_to_seconds("2026-12-31T23:59:59.999999Z") == "2026-12-31T23:59:59Z"
    assert truncate_utc_to_seconds("2026-04-02 00:00") == "2026-04-02 00:00"
    assert truncate_utc_to_seconds(None) is None


def test_invalid_budget_is_shown_as_the_default() -> None:
    """For an old log with an invalid budget, wfctl writes "total=1/6" with the default budget 6."""
    charged = [STARTED, p.CostCharged(stage="stage-1", weight=1, work_class="sync")]
    state = folded(charged)
    state.session_config = {"session_budget": "abc"}
    told = progress_log.format_line_without_time(history(charged)[-1], state)
    assert told == "stage-1: session_cost += 1 (sync), total=1/6"
