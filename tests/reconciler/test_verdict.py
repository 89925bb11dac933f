"""Each row of the decision table of verdicts, and sources of evidence that disagree."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from reconciler.attempt.markers import Marker, MarkerState
from reconciler.attempt.observations import ObservedJob, RemoteAnswer
from reconciler.attempt.paths import ScriptEnd
from reconciler.evidence.evidence import Evidence
from reconciler.host.processes import FolderProcess
from reconciler.host.scheduler_jobs import ListedJob, Queue
from reconciler.verdict.table import (
    OWN_ROWS,
    Action,
    Verdict,
    derive_verdict,
    hindered_verdict,
    is_hindered,
    needs_fresh_answer,
    unreadable_verdict,
    verdict_after_move,
    verdict_on_unlogged_attempt,
)
from tests.reconciler.support import (
    ABSENT,
    IN_PLACE,
    JOB,
    NO_MARKER,
    NOW,
    own,
    seen,
    submitted,
)

WORKER = FolderProcess(77, 5, "/w/stage-1/.attempts/att-0001/work/c/stage-1", deleted=False)
ORPHAN = replace(WORKER, deleted=True)
HELD = replace(JOB, lock_held=True, id_alive=True)
GOOD = replace(JOB, exit_code=0, ended_at=1_777_000_000_123_456_789, tag=True)
BAD = replace(JOB, exit_code=1, ended_at=2_000, failed_flag=True)
TAGGED = replace(JOB, tag=True)
OTHER = Marker(MarkerState.OTHER, 0, "wf/stage-1/att-0000", 9_000)
EMPTY = Marker(MarkerState.UNREADABLE, None, None, 9_000)

NONE = Queue(1, ())
SILENCE = Queue(1, None, "socket timed out")
REFUSAL = RemoteAnswer(0, "the machine refuses", refusal="the key file /k does not exist")
UNMAKABLE = RemoteAnswer(1, has_folder=False, refusal="remote_root /r/far cannot be made")
GONE = replace(JOB, state=4)
#: The folder of a job on another machine was removed before the id of the job was recorded.
PURGED: dict[str, Any] = {
    "far": RemoteAnswer(1, host="far", has_folder=False),
    "submission_tried": True,
}
WAITED = replace(JOB, started=False, failed_flag=None)


def alive(state: str) -> ObservedJob:
    """Return a job that the scheduler lists in this state and that has not started yet."""
    return replace(JOB, started=False, id_alive=ListedJob("12", state, "/w").is_alive, queued=state)


def queued(job: ObservedJob, queue: Queue = NONE, **changes: Any) -> Evidence:
    """Return the evidence of an attempt under a scheduler."""
    return submitted(job, scheduler="Slurm", queue=queue, **changes)


def strays() -> Evidence:
    """Return evidence of a job that the scheduler lists but whose id was never recorded."""
    listed = (ListedJob("12", "PENDING", "/w/stage-1/.attempts/att-0001/work/c"),)
    return seen(copies=("c" * 40,), scheduler="Slurm", queue=Queue(1, listed))


def untold(**changes: Any) -> Evidence:
    """Return the evidence of a command that outlived its shells and wrote its output."""
    job = replace(JOB, alone=True)
    known = {"jobs": (job,), "exit_marker": own(0), "outputs": (IN_PLACE,)}
    return seen(**{**known, **changes})


ROWS: list[tuple[str, Evidence, Action]] = [
    ("ELSEWHERE", seen(root_now="/moved"), Action.UNKNOWN),
    ("ELSEWHERE", seen(host_now="other", monitor_locked=True), Action.UNKNOWN),
    ("ORPHAN_DIR_DELETED", seen(jobs=(HELD,), tenants=(ORPHAN,)), Action.LOST),
    ("MONITORED", submitted(HELD, monitor_locked=True, exit_marker=own(137)), Action.WAIT),
    ("MONITORED", seen(session=True, monitor_alive=None), Action.WAIT),
    ("MONITORED", seen(monitor_locked=None, monitor_alive=True), Action.WAIT),
    ("MONITOR_STOPPED", seen(monitor_locked=True, monitor_stopped=True), Action.WAIT),
    ("RUNS_UNWATCHED", submitted(HELD, in_vain=True, exit_marker=own(1)), Action.WAIT),
    ("FINISHED_NOT_COLLECTED", submitted(GOOD, in_vain=True, far=RemoteAnswer(1)), Action.ATTACH),
    ("UNKNOWN", seen(monitor_locked=None), Action.UNKNOWN),
    ("UNKNOWN", seen(tenants=None), Action.UNKNOWN),
    ("UNKNOWN", submitted(replace(JOB, lock_held=None)), Action.UNKNOWN),
    ("ORPHAN_RUNNING", submitted(HELD), Action.ATTACH),
    ("ORPHAN_RUNNING", submitted(tenants=(WORKER,)), Action.ATTACH),
    ("ORPHAN_RUNNING_UNRECORDED", submitted(HELD, recovery_file=False), Action.ATTACH),
    ("ORPHAN_RUNNING_UNRECORDED", seen(tenants=(WORKER,), copies=("c",)), Action.ATTACH),
    ("FINISHED_NOT_COLLECTED", submitted(GOOD), Action.ATTACH),
    ("FINISHED_NOT_COLLECTED", submitted(TAGGED, exit_marker=own(137)), Action.ATTACH),
    ("FINISHED_NOT_COLLECTED", submitted(replace(JOB, state=5)), Action.ATTACH),
    (
        "OUTPUT_MISSING",
        submitted(GOOD, exit_marker=own(1), backward_missing=("stage-1/out.txt",)),
        Action.FAILED,
    ),
    ("OUTPUT_MISSING", seen(jobs=(GOOD,), exit_marker=own(0)), Action.FAILED),
    ("SUCCEEDED", seen(jobs=(GOOD,), exit_marker=own(0), outputs=(IN_PLACE,)), Action.SUCCEEDED),
    ("SUCCEEDED", seen(exit_marker=own(0), outputs=()), Action.SUCCEEDED),
    ("TASK_FAILED", submitted(BAD), Action.FAILED),
    ("TASK_FAILED", submitted(replace(JOB, failed_flag=True)), Action.FAILED),
    ("UNSEEN", queued(replace(JOB, lock_held=None), looked_twice=True), Action.UNKNOWN),
    ("NEVER_RAN", queued(WAITED, looked_twice=True), Action.LOST),
    ("FORGOTTEN", queued(WAITED, looked_twice=True, last_chance=True), Action.UNKNOWN),
    ("JOB_KILLED", submitted(replace(JOB, exit_code=137, failed_flag=True)), Action.LOST),
    ("JOB_LOST", submitted(), Action.LOST),
    ("JOB_LOST", submitted(exit_marker=own(1)), Action.LOST),
    ("JOB_LOST", submitted(replace(JOB, alone=True)), Action.LOST),
    ("UNTOLD", untold(), Action.UNKNOWN),
    ("UNTOLD", untold(exit_marker=Marker(MarkerState.NONE)), Action.UNKNOWN),
    ("SUCCEEDED", untold(verifiable=True), Action.SUCCEEDED),
    ("JOB_LOST", submitted(replace(JOB, exit_code=143)), Action.LOST),
    ("JOB_LOST", submitted(replace(JOB, started=False, failed_flag=None)), Action.LOST),
    ("RESULTS_LOST", seen(jobs=(GOOD,)), Action.LOST),
    ("COLLECTED_UNMARKED", seen(outputs=(IN_PLACE,)), Action.SUCCEEDED),
    ("COLLECTED_UNMARKED", seen(jobs=(GOOD,), outputs=()), Action.SUCCEEDED),
    (
        "COLLECTED_UNMARKED",
        submitted(GOOD, outputs=(IN_PLACE,), exit_marker=own(1)),
        Action.SUCCEEDED,
    ),
    ("ORPHAN_RUNNING", queued(alive("PENDING")), Action.ATTACH),
    ("ORPHAN_RUNNING", queued(alive("SOME_NEW_STATE")), Action.ATTACH),
    ("ORPHAN_RUNNING_UNRECORDED", strays(), Action.ATTACH),
    ("UNKNOWN", queued(JOB, queue=SILENCE), Action.UNKNOWN),
    ("UNKNOWN", seen(scheduler="Slurm", queue=SILENCE), Action.UNKNOWN),
    ("UNKNOWN", seen(far=RemoteAnswer(0, "refused"), tenants=None), Action.UNKNOWN),
    ("MACHINE_REFUSED", seen(far=REFUSAL, tenants=None), Action.UNKNOWN),
    ("MACHINE_REFUSED", seen(far=UNMAKABLE, exit_marker=own(69)), Action.UNKNOWN),
    ("MONITORED", seen(far=REFUSAL, monitor_locked=True), Action.WAIT),
    ("VANISHED", submitted(far=UNMAKABLE), Action.UNKNOWN),
    ("FINISHED_NOT_COLLECTED", queued(GOOD, queue=SILENCE), Action.ATTACH),
    ("VANISHED", queued(JOB), Action.UNKNOWN),
    ("VANISHED", submitted(far=RemoteAnswer(1, host="far")), Action.UNKNOWN),
    ("PURGED", submitted(far=RemoteAnswer(1, has_folder=False), looked_twice=True), Action.LOST),
    ("VANISHED", seen(**PURGED), Action.UNKNOWN),
    ("PURGED", seen(**PURGED, looked_twice=True), Action.LOST),
    ("PURGED", seen(**PURGED, looked_twice=True, scheduler="Slurm", queue=NONE), Action.LOST),
    ("UNSEEN", seen(**PURGED, looked_twice=True, scheduler="PBS"), Action.UNKNOWN),
    ("REJECTED", seen(**PURGED, exit_marker=own(1)), Action.FAILED),
    ("JOB_LOST", queued(JOB, looked_twice=True), Action.LOST),
    ("JOB_TAKEN", queued(replace(JOB, queued="CANCELLED")), Action.LOST),
    ("JOB_TAKEN", queued(replace(BAD, queued="NODE_FAIL")), Action.LOST),
    ("LIMIT_EXCEEDED", queued(replace(JOB, queued="TIMEOUT", exit_code=143)), Action.FAILED),
    (
        "SUCCEEDED",
        queued(
            replace(JOB, queued="TIMEOUT", exit_code=143),
            exit_marker=own(0),
            outputs=(IN_PLACE,),
        ),
        Action.SUCCEEDED,
    ),
    ("ASKED_THROUGH_DPDISPATCHER", submitted(scheduler="PBS"), Action.ATTACH),
    ("JOB_LOST", submitted(GONE, scheduler="PBS", looked_twice=True), Action.LOST),
    ("REJECTED", seen(scheduler="Slurm", queue=NONE, exit_marker=own(1)), Action.FAILED),
    ("NEVER_STARTED", seen(scheduler="Slurm", queue=NONE, exit_marker=own(69)), Action.LAUNCH),
    ("NEVER_STARTED", seen(), Action.LAUNCH),
    ("NEVER_STARTED", seen(launched_at=None, outputs=(IN_PLACE,)), Action.LAUNCH),
    ("NEVER_SUBMITTED", seen(copies=("c",)), Action.LAUNCH),
    ("MONITOR_KILLED_EARLY", seen(exit_marker=own(137)), Action.LAUNCH),
    ("NEVER_SUBMITTED", seen(exit_marker=own(70)), Action.LAUNCH),
    ("NEVER_SUBMITTED", seen(exit_marker=own(73), copies=("c",)), Action.LAUNCH),
    ("LAUNCHED_IN_VAIN", seen(exit_marker=own(70), in_vain=True), Action.FAILED),
    ("REJECTED", seen(exit_marker=own(1)), Action.FAILED),
    ("REJECTED", seen(exit_marker=own(1), copies=("c",)), Action.FAILED),
    (
        "RUNS_ON_AFTER_MOVE",
        submitted(replace(JOB, id_alive=True, lock_held=True), moved=True),
        Action.WAIT,
    ),
    ("ORPHAN_RUNNING", submitted(HELD, in_vain=True, exit_marker=own(0)), Action.ATTACH),
    ("REJECTED", seen(exit_marker=own(128)), Action.FAILED),
    ("FINISHED_NOT_COLLECTED", queued(replace(GOOD, queued="TIMEOUT")), Action.ATTACH),
    ("MONITOR_KILLED_EARLY", seen(exit_marker=own(129)), Action.LAUNCH),
    ("TASK_FAILED", submitted(replace(JOB, exit_code=143, failed_flag=True)), Action.FAILED),
    ("TASK_FAILED", queued(replace(JOB, failed_flag=True), looked_twice=True), Action.FAILED),
    (
        "JOB_LOST",
        submitted(replace(GONE, state=7), scheduler="PBS", looked_twice=True),
        Action.LOST,
    ),
    ("JOB_LOST", seen(jobs=(JOB,), exit_marker=own(1), outputs=(IN_PLACE,)), Action.LOST),
    ("JOB_LOST", submitted(outputs=(IN_PLACE,)), Action.LOST),
    ("FINISHED_NOT_COLLECTED", submitted(GOOD, moved=True), Action.ATTACH),
    ("JOB_LOST", submitted(moved=True), Action.LOST),
    ("LEFT_BEHIND", seen(moved=True), Action.LOST),
    ("LEFT_BEHIND", seen(moved=True, exit_marker=own(137)), Action.LOST),
    ("REJECTED", seen(moved=True, exit_marker=own(1)), Action.FAILED),
]


#: Numbers of the rows of the published table, with the situations of each row.
NUMBERS = {
    0: "ORPHAN_DIR_DELETED",
    1: "MONITORED MONITOR_STOPPED",
    2: "ELSEWHERE MACHINE_REFUSED UNKNOWN UNDECIDED",
    3: "ORPHAN_RUNNING ASKED_THROUGH_DPDISPATCHER RUNS_ON_AFTER_MOVE RUNS_UNWATCHED",
    4: "ORPHAN_RUNNING_UNRECORDED",
    5: "FINISHED_NOT_COLLECTED",
    6: "OUTPUT_MISSING",
    7: "SUCCEEDED UNTOLD",
    8: "TASK_FAILED LIMIT_EXCEEDED",
    9: (
        "JOB_LOST JOB_KILLED JOB_TAKEN RESULTS_LOST VANISHED PURGED UNSEEN FORGOTTEN NEVER_RAN "
        "LEFT_BEHIND"
    ),
    10: "COLLECTED_UNMARKED",
    11: "NEVER_STARTED",
    12: "NEVER_SUBMITTED",
    13: "MONITOR_KILLED_EARLY",
    14: "REJECTED LAUNCHED_IN_VAIN",
}


@pytest.mark.parametrize(("name", "evidence", "action"), ROWS)
def test_evidence_leads_to_its_row(name: str, evidence: Evidence, action: Action) -> None:
    """Each example of evidence gets the verdict and the action of its row in the table."""
    found = derive_verdict(evidence)
    assert (found.name, found.action) == (name, action)


def test_every_row_has_an_example() -> None:
    """Every verdict of the decision table except UNDECIDED, the last row, has an example."""
    named = {name for (_, name, _), _, _ in OWN_ROWS}
    assert named - {name for name, _, _ in ROWS} == {"UNDECIDED"}


def test_every_row_of_the_published_table_exists() -> None:
    """wfctl's decision table has the rows 0 to 14 of the table in the published protocol."""
    assert {number for (number, _, _), _, _ in OWN_ROWS} == set(range(15))


def test_situations_have_the_number_of_their_row_in_the_published_table() -> None:
    """Several situations have the number of the published row that they make more precise."""
    numbers: dict[int, set[str]] = {}
    for (number, name, _), _, _ in OWN_ROWS:
        numbers.setdefault(number, set()).add(name)
    assert {number: set(names.split()) for number, names in NUMBERS.items()} == numbers


RACES: list[tuple[str, Evidence, str]] = [
    ("exit code written, done missing", seen(exit_marker=own(0), outputs=(IN_PLACE,)), "SUCCEEDED"),
    ("done present, exit code empty", submitted(HELD, exit_marker=EMPTY), "ORPHAN_RUNNING"),
    (
        "done present, exit code missing",
        submitted(GOOD, done_marker=own(0)),
        "FINISHED_NOT_COLLECTED",
    ),
    ("markers of an earlier attempt", seen(exit_marker=OTHER, done_marker=OTHER), "NEVER_STARTED"),
    ("137 written while the job runs", submitted(HELD, exit_marker=own(137)), "ORPHAN_RUNNING"),
    ("stale 0 while the job runs", submitted(HELD, exit_marker=own(0)), "ORPHAN_RUNNING"),
    (
        "wrapper killed between the end of DPDispatcher and the exit code",
        seen(jobs=(GOOD,), outputs=(IN_PLACE,)),
        "COLLECTED_UNMARKED",
    ),
    ("a stranger has the job's id", submitted(replace(JOB, id_alive=False)), "JOB_LOST"),
    ("the machine was restarted", submitted(boot_now="c"), "JOB_LOST"),
    ("tmux lost its socket", submitted(HELD, monitor_locked=True, session=False), "MONITORED"),
    ("a session kept open by a setting", submitted(HELD, session=True), "ORPHAN_RUNNING"),
    (
        "a job that wrote its end while the scheduler still lists it",
        queued(replace(GOOD, id_alive=True, queued="COMPLETING")),
        "FINISHED_NOT_COLLECTED",
    ),
    (
        "a cancelled job whose command had just failed of the same signal",
        queued(replace(JOB, exit_code=143, failed_flag=True), looked_twice=True),
        "JOB_LOST",
    ),
    (
        "a job that the scheduler forgot while it holds its lock",
        queued(replace(JOB, lock_held=True)),
        "ORPHAN_RUNNING",
    ),
    (
        "a file system without locks under a scheduler",
        queued(replace(alive("RUNNING"), lock_held=None)),
        "ORPHAN_RUNNING",
    ),
    (
        "a finished job still listed",
        submitted(replace(TAGGED, id_alive=True)),
        "FINISHED_NOT_COLLECTED",
    ),
    (
        "a job's own failure against a monitor's success",
        seen(jobs=(BAD,), exit_marker=own(0), outputs=(IN_PLACE,)),
        "TASK_FAILED",
    ),
    (
        "a job's own failure against a tag by a second copy",
        submitted(replace(BAD, tag=True, failed_flag=False)),
        "TASK_FAILED",
    ),
    (
        "a monitor's failure against a job's own success",
        submitted(GOOD, exit_marker=own(1)),
        "FINISHED_NOT_COLLECTED",
    ),
    (
        "a job whose monitors were killed one after the other",
        submitted(HELD, in_vain=True, exit_marker=own(137)),
        "ORPHAN_RUNNING",
    ),
    ("a stale output is no output", seen(outputs=(replace(IN_PLACE, new=False),)), "NEVER_STARTED"),
    (
        "a helper left behind by a collected job",
        seen(jobs=(GOOD,), tenants=(ORPHAN,), exit_marker=own(0), outputs=(IN_PLACE,)),
        "SUCCEEDED",
    ),
    (
        "a command that outlives its signalled shell",
        submitted(replace(JOB, exit_code=143, lock_held=True), exit_marker=own(1)),
        "ORPHAN_RUNNING",
    ),
    ("one of two jobs still runs", submitted(jobs=(BAD, HELD)), "ORPHAN_RUNNING"),
    ("one of two jobs was lost", submitted(jobs=(GOOD, JOB)), "JOB_LOST"),
]


@pytest.mark.parametrize(("evidence", "name"), [r[1:] for r in RACES], ids=[r[0] for r in RACES])
def test_conflicting_sources_are_decided(evidence: Evidence, name: str) -> None:
    """If two sources of evidence disagree, the more reliable source decides the verdict."""
    assert derive_verdict(evidence).name == name


@pytest.mark.parametrize("evidence", [row[1] for row in ROWS] + [race[1] for race in RACES])
def test_verdict_depends_only_on_the_recorded_evidence(evidence: Evidence) -> None:
    """Evidence that was converted to JSON and back gets the same verdict."""
    again = Evidence.from_dict(json.loads(json.dumps(evidence.to_dict())))
    assert again == evidence
    assert derive_verdict(again) == derive_verdict(evidence)


def test_end_time_comes_from_the_record_of_the_job() -> None:
    """The verdict has the time at which the job ended, not the time of the check."""
    found = derive_verdict(submitted(GOOD)).occurred_at
    assert found == "2026-04-24T03:06:40.123456Z"
    assert found != NOW


def test_orphan_verdict_names_the_processes_to_stop() -> None:
    """The verdict lists only those processes whose folder was deleted."""
    assert derive_verdict(seen(jobs=(HELD,), tenants=(ORPHAN,))).stop == (77,)
    assert derive_verdict(submitted(HELD, tenants=(WORKER,))).stop == ()


def test_missing_output_of_an_unstarted_attempt_is_no_failure() -> None:
    """If an attempt was never started, the action is to launch it."""
    assert derive_verdict(seen(outputs=(ABSENT,))).action is Action.LAUNCH


def test_exceeded_limit_is_known_after_a_move() -> None:
    """The verdict is ELSEWHERE, and once the move is confirmed, LIMIT_EXCEEDED."""
    job = replace(JOB, queued="TIMEOUT", exit_code=143)
    before = queued(job, far=RemoteAnswer(1, host="far"), root_recorded="/before")
    assert derive_verdict(before).name == "ELSEWHERE"
    assert verdict_after_move(before)[1].name == "LIMIT_EXCEEDED"


def test_scheduler_knows_the_jobs_of_a_moved_root() -> None:
    """wfctl looks for jobs in the old folder; without an answer, the verdict is open."""
    gone = queued(JOB, root_recorded="/before", looked_twice=True)
    assert verdict_after_move(gone)[1].name == "JOB_LOST"
    assert verdict_after_move(replace(gone, looked_twice=False))[1].name == "VANISHED"
    waits = queued(alive("PENDING"), root_recorded="/before")
    assert verdict_after_move(waits)[1].name == "RUNS_ON_AFTER_MOVE"
    assert verdict_after_move(replace(gone, queue=SILENCE))[1].name == "ELSEWHERE"
    assert verdict_after_move(replace(gone, host_recorded="other"))[1].name == "ELSEWHERE"


def test_end_of_an_unlogged_attempt_is_accepted_after_a_move() -> None:
    """The end counts if this host would see a running job; otherwise the verdict is open."""
    ended = seen(root_recorded="/before", exit_marker=own(1))
    assert verdict_after_move(ended)[1].name == "ELSEWHERE"
    assert verdict_on_unlogged_attempt(ended)[1].name == "REJECTED"
    unseen = replace(ended, host_recorded="other")
    assert verdict_on_unlogged_attempt(unseen)[1].name == "ELSEWHERE"
    waits = replace(ended, exit_marker=NO_MARKER, monitor_locked=True)
    assert verdict_on_unlogged_attempt(waits)[1].name == "MONITORED"


def properties(found: Verdict) -> set[str]:
    """Return the names of the properties that are true for a verdict."""
    names = {name for name in vars(Verdict) if name.startswith(("is_", "has_", "needs_"))}
    return {name for name in names if getattr(found, name) is True}


@pytest.mark.parametrize(
    ("found", "names"),
    [
        (derive_verdict(seen(root_now="/moved")), {"is_elsewhere"}),
        (derive_verdict(seen(far=UNMAKABLE)), {"is_folder_refused"}),
        (derive_verdict(queued(JOB)), {"needs_second_look"}),
        (derive_verdict(submitted(GOOD)), {"is_uncollected"}),
        (derive_verdict(untold()), {"has_doubtful_outputs"}),
        (derive_verdict(submitted(BAD)), {"is_failed_command", "is_over"}),
        (derive_verdict(submitted(replace(JOB, exit_code=137))), {"is_killed_job", "is_over"}),
        (derive_verdict(submitted()), {"is_over"}),
        (unreadable_verdict("no JSON"), set()),
        (hindered_verdict("refused"), set()),
    ],
)
def test_verdict_states_what_follows_from_it(found: Verdict, names: set[str]) -> None:
    """The properties of a verdict follow from its situation and its action."""
    assert properties(found) == names | {"has_possibly_started"}


def test_rejected_submission_has_not_started() -> None:
    """No task of an attempt was started if DPDispatcher refused the submission."""
    assert properties(derive_verdict(seen(exit_marker=own(1)))) == {"is_over"}


def test_unusable_attempt_has_the_row_of_unknown_evidence() -> None:
    """An attempt with unreadable files, or whose next step failed, has row 2 and the reason."""
    assert unreadable_verdict("no JSON").to_dict() == {
        "row": 2,
        "name": "UNREADABLE",
        "action": "unknown",
        "reason": "no JSON",
        "occurred_at": None,
        "stop": [],
    }
    assert (hindered_verdict("refused").row, hindered_verdict("refused").action) == (2, "unknown")


def test_recorded_verdict_shows_whether_the_next_step_failed() -> None:
    """The log contains the name of the verdict, or nothing."""
    assert is_hindered(hindered_verdict("refused").name)
    assert not is_hindered(unreadable_verdict("no JSON").name)
    assert not is_hindered(None)


def test_reason_names_at_most_five_processes_that_still_run() -> None:
    """The reason of a success names the processes of the command, that of a failure does not."""
    tenants = tuple(replace(WORKER, pid=pid) for pid in range(1, 8))
    done = seen(jobs=(GOOD,), tenants=tenants, exit_marker=own(0), outputs=(IN_PLACE,))
    named = ", ".join(f"process {pid}" for pid in range(1, 6))
    assert derive_verdict(done).reason.endswith(f"are still running: {named}")
    failed = seen(jobs=(BAD,), tenants=tenants)
    assert "still running" not in derive_verdict(failed).reason
    alone = seen(jobs=(GOOD,), exit_marker=own(0), outputs=(IN_PLACE,))
    assert "still running" not in derive_verdict(alone).reason


def test_reason_names_the_processes_that_are_awaited() -> None:
    """A running attempt waits for the processes of a command whose outputs are missing."""
    waits = submitted(HELD, awaited=tuple("abcdefg"))
    assert derive_verdict(waits).reason.endswith("wfctl waits for a, b, c, d, e")
    assert "waits for" not in derive_verdict(submitted(BAD, awaited=("a",))).reason


REUSED = Queue(1, (), is_reused=True)


@pytest.mark.parametrize(
    ("evidence", "is_needed"),
    [
        (queued(WAITED, queue=REUSED, looked_twice=True), True),
        (queued(JOB, queue=REUSED), True),
        (queued(replace(alive("RUNNING"), exit_code=143), queue=REUSED), True),
        (queued(replace(alive("RUNNING"), alone=True, exit_code=137), queue=REUSED), False),
        (queued(alive("RUNNING"), queue=REUSED), False),
        (queued(GOOD, queue=REUSED), False),
        (queued(WAITED, queue=NONE, looked_twice=True), False),
        (submitted(looked_twice=True), False),
        (queued(replace(JOB, exit_code=143), queue=REUSED, monitor_locked=True), False),
    ],
    ids=[
        "never ran",
        "vanished",
        "ended by a signal",
        "outlives its shells",
        "running",
        "finished",
        "fresh answer",
        "no scheduler",
        "monitored",
    ],
)
def test_scheduler_is_asked_again_before_an_attempt_ends(
    evidence: Evidence, is_needed: bool
) -> None:
    """A reused answer is sufficient unless the verdict ends the attempt or a job may have ended."""
    assert needs_fresh_answer(evidence, derive_verdict(evidence)) is is_needed


def test_closed_connection_is_a_reason_of_its_own() -> None:
    """The reason states why no job was submitted, if the monitor recorded it."""
    closed = derive_verdict(seen(copies=("c",), exit_marker=own(ScriptEnd.SILENT)))
    unknown = derive_verdict(seen(copies=("c",)))
    assert closed.name == unknown.name == "NEVER_SUBMITTED"
    assert closed.reason.startswith("the connection to the machine was closed")
    assert unknown.reason == "a folder was created, but no job was submitted"
