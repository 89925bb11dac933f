"""`wfctl wait` reports whether the job of each stage has ended."""

from __future__ import annotations

import pytest

from tests.cli.support import Place, attempt_data

STARTED = ["append", "attempt.started", "--data", attempt_data()]
COMPUTED = [STARTED, ["stage", "compute", "stage-1"]]
BY_HAND = [*COMPUTED, ["stage", "complete", "stage-1", "--evidence", "done by hand"]]
RETRIED = [
    STARTED,
    ["stage", "fail", "stage-1", "--error", "it broke"],
    ["stage", "retry", "stage-1", "--fix", "mended"],
]


@pytest.mark.parametrize(
    ("steps", "status"),
    [([], "ready"), ([["stage", "prepare", "stage-1"]], "preparing"), (RETRIED, "ready")],
    ids=["ready", "prepared", "retried"],
)
def test_wait_reports_that_an_unstarted_job_has_not_ended(
    place: Place, steps: list[list[str]], status: str
) -> None:
    """`wait` exits with code 1 if the job of a stage has not started."""
    for step in steps:
        place.done(*step)
    answer = place.json("wait", "stage-1")
    assert (answer.code, answer.data) == (
        1,
        {"stage": "stage-1", "status": status, "ended": False},
    )
    told = place.call("wait", "stage-1")
    assert (told.code, told.out.splitlines()[0]) == (
        1,
        f"stage-1 is {status}; its job has not started",
    )


@pytest.mark.parametrize(
    ("steps", "status"),
    [(COMPUTED, "post_processing"), (BY_HAND, "completed"), (RETRIED[:-1], "failed")],
    ids=["computed", "completed by hand", "failed"],
)
def test_wait_reports_that_an_ended_job_has_ended(
    place: Place, steps: list[list[str]], status: str
) -> None:
    """`wait` exits with code 0 if the newest job of a stage has ended."""
    (place.path / "stage-1").mkdir(exist_ok=True)
    (place.path / "stage-1/out.txt").write_text("hi\n")
    for step in steps:
        place.done(*step)
    assert place.done("wait", "stage-1") == {"stage": "stage-1", "status": status, "ended": True}


def test_wait_for_a_pending_and_an_ended_stage_has_not_ended(place: Place) -> None:
    """With several stages, each stage is reported, and `wait` has ended only if all have."""
    for step in COMPUTED:
        place.done(*step)
    answer = place.json("wait", "stage-1", "stage-2")
    assert answer.code == 1
    assert [one["ended"] for one in answer.data["stages"]] == [True, False]
    assert answer.data["ended"] is False
