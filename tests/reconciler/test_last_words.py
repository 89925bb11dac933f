"""What a scheduler said of a job's end, for anyone who asks when it has forgotten the job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.attempt.observed import ObservedJob
from reconciler.attempt.paths import AttemptPaths
from reconciler.dpdispatcher import watch
from reconciler.records import traces
from tests.reconciler.support import seen


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptPaths:
    """Make an attempt's folder."""
    made = AttemptPaths(tmp_path, "w", "stage-1", "att-0001")
    made.folder.mkdir(parents=True)
    return made


def said(**words: str | None) -> list[ObservedJob]:
    """Return a job for each word that its scheduler says, ids from its name."""
    return [
        ObservedJob(name, id=name.removeprefix("job"), queued=word) for name, word in words.items()
    ]


def recalled(attempt: AttemptPaths, *names: str) -> list[str | None]:
    """Return what is known of jobs that are listed no more."""
    return [job.queued for job in traces.recall(attempt, said(**dict.fromkeys(names)))]


def test_an_end_is_known_when_it_is_listed_no_more(attempt: AttemptPaths) -> None:
    """Given two jobs that it ended, when one is forgotten before the other, then both are known."""
    traces.keep(attempt, said(job1="TIMEOUT", job2="RUNNING"))
    traces.keep(attempt, said(job1=None, job2="NODE_FAIL"))
    assert recalled(attempt, "job1", "job2", "job3") == ["TIMEOUT", "NODE_FAIL", None]


def test_what_is_listed_goes_before_what_was(attempt: AttemptPaths) -> None:
    """Given a preempted job that waits again, its end is taken back."""
    traces.keep(attempt, said(job1="PREEMPTED"))
    [job] = traces.recall(attempt, said(job1="PENDING"))
    assert job.queued == "PENDING"
    traces.keep(attempt, [job])
    assert recalled(attempt, "job1") == [None]


def test_only_an_end_that_no_job_tells_is_kept(attempt: AttemptPaths) -> None:
    """Given jobs that live, or wrote down how they ended, then no file is written."""
    traces.keep(attempt, said(job1="RUNNING", job2="COMPLETED", job3="FAILED", job4=None))
    assert not attempt.last_words.exists()


@pytest.mark.parametrize(
    "own", [{"exit_code": 0}, {"exit_code": 1}, {"tag": True}, {"exit_code": 143, "tag": True}]
)
def test_a_word_of_its_own_goes_before_what_was_said(
    attempt: AttemptPaths, own: dict[str, Any]
) -> None:
    """Given a job that came to its end all the same, then that alone is known of it."""
    traces.keep(attempt, said(job1="CANCELLED"))
    [job] = traces.recall(attempt, [ObservedJob("c", id="1", **own)])
    assert job.queued is None


def test_a_disk_without_room_ends_no_watch(
    attempt: AttemptPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    """Given a place that cannot be written, then it is said, and nothing raised."""
    attempt.last_words.mkdir()
    watch._keep(attempt, replace(seen(), jobs=tuple(said(job1="TIMEOUT"))))
    assert "last-words.json" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_half_a_file_says_nothing(attempt: AttemptPaths, text: str) -> None:
    """Given a file that is no object, then nothing is known."""
    attempt.last_words.write_text(text)
    assert recalled(attempt, "job1") == [None]
