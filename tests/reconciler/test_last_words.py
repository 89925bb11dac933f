"""wfctl keeps the last reported state of a job that the scheduler has forgotten."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.attempt.observations import ObservedJob
from reconciler.attempt.paths import AttemptPaths
from reconciler.dpdispatcher import watch
from reconciler.records import traces
from tests.reconciler.support import seen


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptPaths:
    """Create the folder of an attempt."""
    made = AttemptPaths(tmp_path, "w", "stage-1", "att-0001")
    made.folder.mkdir(parents=True)
    return made


def said(**words: str | None) -> list[ObservedJob]:
    """Return jobs with the given states, as a scheduler would report them."""
    return [
        ObservedJob(name, id=name.removeprefix("job"), queued=word) for name, word in words.items()
    ]


def recalled(attempt: AttemptPaths, *names: str) -> list[str | None]:
    """Return the stored states of the jobs, as if the scheduler no longer listed them."""
    return [job.queued for job in traces.add_recorded_ends(attempt, said(**dict.fromkeys(names)))]


def test_final_state_is_known_after_the_scheduler_forgets_the_job(attempt: AttemptPaths) -> None:
    """wfctl stores the final states of two jobs that end and disappear one after another."""
    traces.record_scheduler_ends(attempt, said(job1="TIMEOUT", job2="RUNNING"))
    traces.record_scheduler_ends(attempt, said(job1=None, job2="NODE_FAIL"))
    assert recalled(attempt, "job1", "job2", "job3") == ["TIMEOUT", "NODE_FAIL", None]


def test_current_state_replaces_the_kept_state(attempt: AttemptPaths) -> None:
    """When a preempted job waits again, wfctl deletes the stored final state."""
    traces.record_scheduler_ends(attempt, said(job1="PREEMPTED"))
    [job] = traces.add_recorded_ends(attempt, said(job1="PENDING"))
    assert job.queued == "PENDING"
    traces.record_scheduler_ends(attempt, [job])
    assert recalled(attempt, "job1") == [None]


def test_only_final_states_without_a_job_record_are_kept(attempt: AttemptPaths) -> None:
    """No state is stored for running jobs and for jobs that record their own end."""
    traces.record_scheduler_ends(
        attempt, said(job1="RUNNING", job2="COMPLETED", job3="FAILED", job4=None)
    )
    assert not attempt.last_words.exists()


@pytest.mark.parametrize(
    "own", [{"exit_code": 0}, {"exit_code": 1}, {"tag": True}, {"exit_code": 143, "tag": True}]
)
def test_result_of_the_job_replaces_the_kept_state(
    attempt: AttemptPaths, own: dict[str, Any]
) -> None:
    """If a cancelled job recorded its own end, the stored scheduler state is ignored."""
    traces.record_scheduler_ends(attempt, said(job1="CANCELLED"))
    [job] = traces.add_recorded_ends(attempt, [ObservedJob("c", id="1", **own)])
    assert job.queued is None


def test_unwritable_disk_does_not_stop_the_monitor(
    attempt: AttemptPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    """The monitor prints that it cannot store the state, and raises no exception."""
    attempt.last_words.mkdir()
    watch._record_scheduler_ends(attempt, replace(seen(), jobs=tuple(said(job1="TIMEOUT"))))
    assert "last-words.json" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_damaged_record_of_states_is_ignored(attempt: AttemptPaths, text: str) -> None:
    """If the file of stored states is no JSON object, no state is known."""
    attempt.last_words.write_text(text)
    assert recalled(attempt, "job1") == [None]
