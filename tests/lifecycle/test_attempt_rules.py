"""Rules for attempts: replaced attempts, files they left, and decisions against the evidence."""

from __future__ import annotations

from typing import Any

import pytest

from lifecycle.errors import (
    AttemptMismatch,
    IllegalTransition,
    InvalidPayload,
    MissingEvidence,
    NeedsConsent,
    NoCommand,
)
from lifecycle.payload import models as p
from lifecycle.rules.decide import decide
from lifecycle.state.status import RETRY_LIMITS, Status
from lifecycle.state.workflow import Workflow
from tests.lifecycle import support as s

RUNNING = s.through("stage-1", Status.RUNNING)
ZEROS = "0" * 64
#: A plan with a stage that has a command and declares its output.
DECLARED: dict[str, Any] = {
    "workflow_id": "w",
    "stages": [
        {
            "id": "stage-1",
            "name": "Build",
            "outputs": ["stage-1/a.txt"],
            "parameters": {"command": "run"},
        }
    ],
}


def create_retried_state(*commands: p.Payload) -> Workflow:
    """Return the state after a failed attempt, a retry, and further commands."""
    return s.given(
        *s.through("stage-1", Status.FAILED), p.StageRetried(stage="stage-1", fix="x"), *commands
    )


def build_loss(id_: str) -> list[p.Payload]:
    """Return the commands by which a started attempt is launched and lost."""
    return [s.launched("stage-1", id_), s.observed("stage-1", id_, "lost")]


def test_replacement_of_a_lost_attempt_has_the_same_purpose() -> None:
    """The replacement of a diagnostic run is a diagnostic run, that of another attempt is not."""
    failed = s.through("stage-1", Status.FAILED)
    diagnostic = s.given(*failed, s.attempt("stage-1", diagnostic=True), *build_loss("att-0002"))
    plain = create_retried_state(s.attempt("stage-1"), *build_loss("att-0002"))
    for state, expected in ((diagnostic, True), (plain, False)):
        started = decide(state, s.attempt("stage-1", recovers="att-0002"), s.AT)[-1].model_dump()
        assert (started["attempt"], started["diagnostic"]) == ("att-0003", expected)


@pytest.mark.parametrize(
    ("state", "recovered"),
    [
        (s.given(s.attempt("stage-1"), *build_loss("att-0001")), "att-0002"),
        (s.given(*RUNNING, s.computed("stage-1")), "att-0001"),
        (s.given(*RUNNING), "att-0001"),
        (s.given(), "att-0001"),
    ],
    ids=["another attempt", "computed", "running", "no attempt"],
)
def test_only_the_lost_attempt_can_be_replaced(state: Workflow, recovered: str) -> None:
    """The rules refuse to replace an attempt that is not open or was not lost."""
    with pytest.raises(AttemptMismatch):
        decide(state, s.attempt("stage-1", recovers=recovered), s.AT)


def build_left_files(*paths: str) -> p.AttemptLeft:
    """Return the command that records the files that the first attempt wrote."""
    files = [p.LeftFile(path=path, size=1, sha256="0" * 64) for path in paths]
    return p.AttemptLeft(stage="stage-1", attempt="att-0001", files=files)


@pytest.mark.parametrize(
    ("paths", "outputs"),
    [
        (["stage-1/err", "stage-1/log"], ["stage-1/log"]),
        (["stage-1/log", "stage-1/a.txt"], ["stage-1/a.txt"]),
        (["stage-1/err", "other/b.txt"], []),
    ],
)
def test_log_is_the_output_of_a_stage_that_writes_nothing_else(
    paths: list[str], outputs: list[str]
) -> None:
    """The files in the folder of a stage are its outputs if the plan declares none."""
    decision = decide(s.given(*RUNNING, build_left_files(*paths)), s.computed("stage-1"), s.AT)
    assert [event.model_dump()["outputs"] for event in decision[1:]] == (
        [outputs] if outputs else []
    )


def build_overruling(id_: str, **more: Any) -> p.ClaimOverruled:
    """Return the command of a person who decides against the evidence on an attempt."""
    return p.ClaimOverruled(
        stage="stage-1", attempt=id_, claim="over", verdict="RUNS_UNWATCHED", reason="ps", **more
    )


def test_only_a_person_decides_against_the_evidence_on_the_newest_attempt() -> None:
    """The rules refuse an earlier attempt, and a decision without a proof of consent."""
    state = create_retried_state(s.attempt("stage-1"))
    decision = decide(state, build_overruling("att-0002", proof={"policy": "trust"}), s.AT)
    assert s.types(decision) == ["claim.overruled"]
    with pytest.raises(NeedsConsent):
        decide(state, build_overruling("att-0002"), s.AT)
    with pytest.raises(AttemptMismatch, match="not the newest one"):
        decide(state, build_overruling("att-0001", proof={"policy": "trust"}), s.AT)
    with pytest.raises(AttemptMismatch, match="not the newest one"):
        decide(s.given(), build_overruling("att-0001", proof={"policy": "trust"}), s.AT)


def test_files_are_freed_only_for_attempts_before_the_completed_one() -> None:
    """The files of the attempt with the results stay, and all files of an incomplete stage."""
    again: list[p.Payload] = [
        s.attempt("stage-1"),
        s.launched("stage-1", "att-0002"),
        s.computed("stage-1", "att-0002"),
    ]
    freed = {
        id_: p.LeftoversFreed(stage="stage-1", attempt=id_, paths=["a"], size=1)
        for id_ in ("att-0001", "att-0002")
    }
    complete = create_retried_state(*again, s.completed("stage-1"))
    assert s.types(decide(complete, freed["att-0001"], s.AT)) == ["leftovers.freed"]
    for state, id_ in ((complete, "att-0002"), (create_retried_state(*again), "att-0001")):
        with pytest.raises(AttemptMismatch, match="leftover files can be deleted only"):
            decide(state, freed[id_], s.AT)


@pytest.mark.parametrize(
    "line",
    [{"kind": "line"}, {"after": 1}, {"raw": "2026 hello"}],
    ids=lambda line: next(iter(line)),
)
def test_line_of_another_program_is_not_a_note(line: dict[str, Any]) -> None:
    """Only the next command that writes to the log records lines of the file progress.log."""
    with pytest.raises(NoCommand):
        decide(s.given(), p.NoteLogged(text="hm").model_copy(update=line), s.AT)


def test_event_that_is_too_large_is_refused() -> None:
    """The error has the maximum number of letters of a text."""
    computed = s.computed("stage-1").model_copy(update={"detail": "x" * 1_000_001})
    with pytest.raises(InvalidPayload, match="letters"):
        decide(s.given(*RUNNING), computed, s.AT)


@pytest.mark.parametrize("number", range(RETRY_LIMITS["local"] + 1))
def test_approved_change_allows_a_new_attempt_after_the_last_retry(number: int) -> None:
    """The approval of a change resets the number of retries only if none is left."""
    commands: list[p.Payload] = list(s.through("stage-1", Status.FAILED))
    for retry in range(number):
        id_ = f"att-{retry + 2:04d}"
        commands += [p.StageRetried(stage="stage-1", fix="mended"), s.attempt("stage-1")]
        commands += [s.launched("stage-1", id_), s.failed("stage-1")]
    state = s.given(*commands)
    proposal = p.AmendmentProposed(
        kind="parameter_change",
        stage="stage-1",
        description="because",
        changes={"parameters": {"x": {"new": 1}}},
    )
    changed = s.given(*commands, proposal)
    assert changed.stage("stage-1").retry_count == state.stage("stage-1").retry_count == number
    approval = p.AmendmentApproved(amendment="amend-1", proof={"policy": "trust"})
    decision = decide(changed, approval, s.AT)
    [readied] = [event.model_dump() for event in decision if event.type == "stage.readied"]
    assert readied["reset"] == (number == RETRY_LIMITS["local"])


def test_attempt_starts_while_the_stage_is_prepared() -> None:
    """A stage that is already preparing needs no second preparation."""
    state = s.given(p.StagePrepared(stage="stage-1"))
    assert s.types(decide(state, s.attempt("stage-1"), s.AT)) == ["attempt.started"]


def test_preparation_states_its_purpose() -> None:
    """The preparation of an attempt has its mode, and that of a diagnostic run is marked."""
    [prepared, _] = decide(s.given(), s.attempt("stage-1", "sync"), s.AT)
    assert prepared == p.StagePrepared(stage="stage-1", detail="sync dispatch")
    failed = s.given(*s.through("stage-1", Status.FAILED))
    [repeated, diagnostic, started] = decide(failed, s.attempt("stage-1", diagnostic=True), s.AT)
    assert repeated == p.StageRetried(
        stage="stage-1",
        fix="none: the attempt is a diagnostic run, which only produces log and err",
        retry=1,
    )
    assert diagnostic == p.StagePrepared(stage="stage-1", detail="diagnostic run")
    assert started.model_dump()["attempt"] == "att-0002"


def test_attempt_of_a_completed_stage_is_refused() -> None:
    """The error has the status of the stage, and no expected attempt."""
    state = s.given(*s.through("stage-1", Status.COMPLETED))
    with pytest.raises(AttemptMismatch, match="while the stage is completed") as refusal:
        decide(state, s.attempt("stage-1"), s.AT)
    assert refusal.value.data["expected"] is None


def test_attempt_that_computed_the_first_tasks_is_continued() -> None:
    """The action `continue` allows a new attempt, although the attempt was not lost."""
    state = s.given(*RUNNING, s.observed("stage-1", "att-0001", "continue"))
    decision = decide(state, s.attempt("stage-1", recovers="att-0001"), s.AT)
    assert s.types(decision) == ["attempt.started"]


def build_task_observation(id_: str, ended: int) -> p.TasksObserved:
    """Return the command that records the number of tasks that ended in an attempt."""
    return p.TasksObserved(stage="stage-1", attempt=id_, total=9, points="x", ended=ended)


@pytest.mark.parametrize(("ended", "can_recover"), [(0, False), (1, True)])
def test_attempt_with_progress_can_be_lost_again(ended: int, can_recover: bool) -> None:
    """An attempt of a sweep in which a task ended does not count as lost without progress."""
    state = s.given(
        *RUNNING,
        s.observed("stage-1", "att-0001", "lost"),
        s.attempt("stage-1", recovers="att-0001"),
        s.launched("stage-1", "att-0002"),
        build_task_observation("att-0002", ended),
        s.observed("stage-1", "att-0002", "lost"),
    )
    again = s.attempt("stage-1", recovers="att-0002")
    if can_recover:
        assert s.types(decide(state, again, s.AT)) == ["attempt.started"]
        return
    with pytest.raises(AttemptMismatch, match="lost twice"):
        decide(state, again, s.AT)


def test_first_launch_is_not_marked_as_repeated() -> None:
    """Only a launch with other jobs after the first one has the mark `again`."""
    [event] = decide(s.given(s.attempt("stage-1")), s.launched("stage-1"), s.AT)
    assert event.model_dump()["again"] is False


def test_launch_with_the_same_jobs_is_refused() -> None:
    """A launch without jobs, or with the recorded jobs, adds nothing to the log."""
    told = s.launched("stage-1").model_copy(update={"job_ids": ["12"]})
    state = s.given(s.attempt("stage-1"), told)
    for repeated in (told, s.launched("stage-1")):
        with pytest.raises(IllegalTransition, match="is already recorded"):
            decide(state, repeated, s.AT)


def test_launch_names_the_running_attempt() -> None:
    """The error has the id of the running attempt and of the named one."""
    with pytest.raises(AttemptMismatch) as refusal:
        decide(s.given(s.attempt("stage-1")), s.launched("stage-1", "att-0002"), s.AT)
    assert refusal.value.data == {"stage": "stage-1", "expected": "att-0001", "found": "att-0002"}


def test_attempt_that_was_seen_as_failed_is_not_computed() -> None:
    """The rules refuse a success that contradicts the verdict; another verdict allows it."""
    state = s.given(*RUNNING, s.observed("stage-1", "att-0001", "failed"))
    with pytest.raises(MissingEvidence, match="failed \\(looked\\)") as refusal:
        decide(state, s.computed("stage-1"), s.AT)
    assert refusal.value.data == {"stage": "stage-1", "attempt": "att-0001"}
    succeeded = s.given(*RUNNING, s.observed("stage-1", "att-0001", "succeeded"))
    assert decide(succeeded, s.computed("stage-1"), s.AT) == [s.computed("stage-1")]


def test_synchronous_attempt_ends_without_the_status_running() -> None:
    """A preparing stage continues to post_processing if its attempt is synchronous."""
    state = s.given(s.attempt("stage-1", "sync"))
    assert s.types(decide(state, s.computed("stage-1"), s.AT)) == ["stage.computed"]


def test_only_files_with_contents_at_their_place_become_outputs() -> None:
    """Empty files and files that were moved are not outputs of the stage."""
    files = [
        p.LeftFile(path="stage-1/empty.txt", size=0, sha256=ZEROS),
        p.LeftFile(path="stage-1/moved.txt", size=1, sha256=ZEROS, at="elsewhere"),
        p.LeftFile(path="stage-1/kept.txt", size=1, sha256=ZEROS),
    ]
    state = s.given(*RUNNING, p.AttemptLeft(stage="stage-1", attempt="att-0001", files=files))
    assert decide(state, s.computed("stage-1"), s.AT)[1:] == [
        p.OutputsRecorded(stage="stage-1", outputs=["stage-1/kept.txt"], found=True)
    ]


def test_leftover_files_are_no_outputs_of_a_stage_that_declares_outputs() -> None:
    """The plan decides which files are the outputs of such a stage."""
    state = s.given(*RUNNING, build_left_files("stage-1/other.txt"), plan=DECLARED)
    assert s.types(decide(state, s.computed("stage-1"), s.AT)) == ["stage.computed"]


def test_observation_is_recorded_if_any_part_of_it_is_new() -> None:
    """Verdict, rule, action, reason and the reason of the waiting are compared."""
    first = s.observed("stage-1", "att-0001", "wait").model_copy(update={"waiting": "queue"})
    state = s.given(*RUNNING, first)
    assert decide(state, first, s.AT) == []
    changes: list[dict[str, Any]] = [
        {"verdict": "OTHER"},
        {"row": 1},
        {"action": "lost"},
        {"reason": "other"},
        {"waiting": "other"},
        {"waiting": None},
    ]
    for change in changes:
        new = first.model_copy(update=change)
        assert decide(state, new, s.AT) == [new]


def test_monitor_is_started_again_only_for_the_running_attempt() -> None:
    """The rules refuse another attempt, and an attempt that has ended."""
    again = p.AttemptRelaunched(stage="stage-1", attempt="att-0001", mode="tmux", reason="died")
    assert decide(s.given(*RUNNING), again, s.AT) == [again]
    other = again.model_copy(update={"attempt": "att-0002"})
    with pytest.raises(AttemptMismatch, match="the named attempt is not running"):
        decide(s.given(*RUNNING), other, s.AT)
    with pytest.raises(AttemptMismatch, match="the named attempt is not running"):
        decide(s.given(*RUNNING, s.computed("stage-1")), again, s.AT)


def test_attempt_that_does_not_exist_cannot_be_stopped() -> None:
    """The error has the id of the unknown attempt."""
    state = s.given(*s.through("stage-1", Status.FAILED))
    stopped = p.AttemptStopped(stage="stage-1", attempt="att-0009", ended=[], reason="asked for")
    with pytest.raises(AttemptMismatch) as refusal:
        decide(state, stopped, s.AT)
    assert refusal.value.data["found"] == "att-0009"


def test_leftover_files_are_recorded_only_if_they_are_new() -> None:
    """New files and newly replaced scripts are recorded; a shorter list of scripts is not new."""
    first = build_left_files("stage-1/a.txt").model_copy(update={"exchanged": ["a.py", "b.py"]})
    state = s.given(*RUNNING, first)
    news: list[tuple[dict[str, Any], bool]] = [
        ({}, False),
        ({"exchanged": ["b.py"]}, False),
        ({"exchanged": []}, False),
        ({"exchanged": ["a.py", "b.py", "c.py"]}, True),
        ({"exchanged": ["c.py"]}, True),
        ({"files": []}, True),
    ]
    for change, is_new in news:
        command = first.model_copy(update=change)
        assert decide(state, command, s.AT) == ([command] if is_new else [])


def test_files_of_an_unknown_attempt_are_refused() -> None:
    """The error has the id of the newest attempt and of the named one."""
    unknown = build_left_files("stage-1/a.txt").model_copy(update={"attempt": "att-0002"})
    with pytest.raises(AttemptMismatch, match="no attempt of this id") as refusal:
        decide(s.given(*RUNNING), unknown, s.AT)
    assert refusal.value.data == {"stage": "stage-1", "expected": "att-0001", "found": "att-0002"}


def test_states_of_tasks_are_recorded_only_if_they_are_new() -> None:
    """The same states of the tasks are not recorded again."""
    state = s.given(*RUNNING, build_task_observation("att-0001", 1))
    assert decide(state, build_task_observation("att-0001", 1), s.AT) == []
    assert decide(state, build_task_observation("att-0001", 2), s.AT) == [
        build_task_observation("att-0001", 2)
    ]


def build_file_digest(name: str, digest: str = ZEROS) -> p.FileDigest:
    """Return a file of stage-1 with its digest."""
    return p.FileDigest(path=f"stage-1/{name}", size=1, sha256=digest)


OTHER = "1" * 64
DONE = p.StageCompleted(stage="stage-1", evidence="seen", outputs=[build_file_digest("a.txt")])
#: The first attempt was completed, and the stage is ready for a rerun.
RERUN: list[p.Payload] = [
    s.attempt("stage-1", inputs=[build_file_digest("in.txt")]),
    s.launched("stage-1"),
    s.computed("stage-1"),
    DONE,
    p.AmendmentProposed(kind="stage_rerun", stage="stage-1", description="because"),
    p.AmendmentApproved(amendment="amend-1", proof={"policy": "trust"}),
]
REUSED = p.OutputsReused(
    stage="stage-1",
    attempt="att-0001",
    outputs=[build_file_digest("a.txt")],
    inputs=[build_file_digest("in.txt")],
)


def test_equal_outputs_are_reused_instead_of_a_computation() -> None:
    """The reuse follows the preparation of the stage."""
    decision = decide(s.given(*RERUN, plan=DECLARED), REUSED, s.AT)
    assert decision == [p.StagePrepared(stage="stage-1", detail="reuse of att-0001"), REUSED]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"attempt": "att-0002"}, "no successful attempt of that id"),
        ({"outputs": [build_file_digest("a.txt", OTHER)]}, "the attempt used other outputs"),
        ({"inputs": [build_file_digest("in.txt", OTHER)]}, "the attempt used other inputs"),
        ({"inputs": []}, "the attempt used other inputs"),
    ],
)
def test_outputs_of_a_different_computation_are_not_reused(
    change: dict[str, Any], why: str
) -> None:
    """The attempt, its outputs and its inputs must be those of the log."""
    with pytest.raises(AttemptMismatch, match=why):
        decide(s.given(*RERUN, plan=DECLARED), REUSED.model_copy(update=change), s.AT)


def test_files_of_a_reused_attempt_are_not_freed() -> None:
    """The results of a completed stage can come from an attempt that is not the newest."""
    again: list[p.Payload] = [
        s.attempt("stage-1"),
        s.launched("stage-1", "att-0002"),
        s.failed("stage-1"),
        p.StageRetried(stage="stage-1", fix="x"),
        REUSED,
        DONE,
    ]
    state = s.given(*RERUN, *again, plan=DECLARED)
    assert state.stage("stage-1").status is Status.COMPLETED
    freed = p.LeftoversFreed(stage="stage-1", attempt="att-0001", paths=["a"], size=1)
    with pytest.raises(AttemptMismatch, match="leftover files can be deleted only"):
        decide(state, freed, s.AT)
