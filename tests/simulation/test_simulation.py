"""The reconciler keeps its promises in random histories of a simulated world.

A failing history prints a command that runs it again, and the history as sentences.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from lifecycle.rules import stages
from reconciler.control import judge_attempts, reconcile
from reconciler.control.stop_jobs import StopResult
from reconciler.dpdispatcher import watch
from reconciler.evidence.evidence import Evidence
from reconciler.loop import end_loop
from reconciler.sweep import judge_tasks, tasks
from reconciler.verdict import table
from tests.rounds import first
from tests.simulation import history, world
from tests.simulation.history import History, run_history
from tests.simulation.sweep import Sweep
from tests.simulation.world import Violation, World

#: Number of histories in one test of `make test` and in one test of `make soak`.
_PART, _SOAK_PART = 200, 10_000
#: Number of histories in `make test`, together with `make crash`, and together with `make soak`. A
#: history takes about 4 ms of CPU time, so `make test` runs only half of the daily ones.
_FIRST_HISTORIES, _HISTORIES, _SOAK_HISTORIES = 5_000, 10_000, 1_000_000
#: Seeds of histories in which a planted fault must be found, and those of sweeps.
_SEEDS, _SWEEPS = range(1, 3_000), range(0, 4_000, 20)


def run_histories(seeds: Iterable[int]) -> None:
    """Run the histories of the given seeds."""
    for seed in seeds:
        run_history(seed)


@pytest.mark.parametrize("start", first(range(0, _HISTORIES, _PART), _FIRST_HISTORIES // _PART))
def test_no_history_breaks_an_invariant(start: int) -> None:
    """Nothing is computed twice, lost or accepted without success, and every session ends told."""
    run_histories(range(start, start + _PART))


@pytest.mark.soak
@pytest.mark.parametrize("start", range(_HISTORIES, _SOAK_HISTORIES, _SOAK_PART))
def test_no_history_of_many_breaks_an_invariant(start: int) -> None:
    """The same is true for a million histories."""
    run_histories(range(start, min(start + _SOAK_PART, _SOAK_HISTORIES)))


def draw_only(monkeypatch: pytest.MonkeyPatch, *faults: Any, name: str = "_FAULTS") -> None:
    """Let every history draw only the given faults, so that few histories suffice."""
    monkeypatch.setattr(world, name, faults)


def find_violation(seeds: Iterable[int]) -> str:
    """Return the message of the first history that breaks an invariant."""
    for seed in seeds:
        try:
            run_history(seed)
        except Violation as found:
            return str(found)
    pytest.fail("no history finds the planted fault")


def test_a_purged_remote_folder_that_looks_unused_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: after a machine removed its results, a job without an id counts as no job."""
    draw_only(monkeypatch, World.remove_scratch, World.kill_monitor, World.pause_monitor)
    observe = World._observe_jobs

    def forget(self: World, one: Any, queue: Any) -> Any:
        is_purged = self.backend.is_far and not one.has_scratch
        one.known_id = None if is_purged else one.known_id
        return iter(()) if is_purged else observe(self, one, queue)

    monkeypatch.setattr(World, "_observe_jobs", forget)
    monkeypatch.setattr(judge_attempts, "is_remote_folder_missing", lambda _evidence: False)
    monkeypatch.setattr(table, "_may_have_unrecorded_job", lambda _evidence: False)
    assert "starts a second time" in find_violation(_SEEDS)


def test_a_follower_that_reports_the_same_state_again_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: every check of an attempt is recorded, although nothing has changed."""

    def record_always(_state: Any, _stage: Any, command: Any) -> list[Any]:
        return [command]

    monkeypatch.setattr(reconcile, "_is_new_or_actionable", lambda _stage, _finding: True)
    monkeypatch.setitem(cast("dict[str, Any]", stages.RULES), "attempt.observed", record_always)
    assert "the log repeats" in find_violation(_SEEDS)


def test_swapped_task_folders_that_count_as_done_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: the mark in the folder of a task does not name its task."""
    draw_only(monkeypatch, Sweep.swap_folders, name="_TASK_FAULTS")
    read = tasks.read_mark

    def read_without_key(folder: Any) -> tasks.TaskMark | None:
        mark = read(folder)
        return None if mark is None else mark._replace(key="")

    monkeypatch.setattr(tasks, "read_mark", read_without_key)
    monkeypatch.setattr(judge_tasks, "read_mark", read_without_key)
    assert "is computed, but" in find_violation(_SWEEPS)


def test_a_cut_list_of_tasks_that_counts_as_complete_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: the tasks that a worker has seen are all tasks of the sweep."""
    draw_only(monkeypatch, Sweep.cut_list, name="_TASK_FAULTS")
    read = tasks.tasks_of

    def read_seen(*arguments: Any) -> list[tasks.Task]:
        return [task for task in read(*arguments) if task.begun > 0]

    monkeypatch.setattr(judge_tasks, "tasks_of", read_seen)
    assert "is computed, but" in find_violation(_SWEEPS)


def test_a_session_that_ends_without_naming_anybody_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: the end of a session names no obstacle."""
    monkeypatch.setattr(end_loop, "find_hindrances", lambda _state: [])
    assert "the end names nobody" in find_violation(_SEEDS)


@pytest.mark.long
def test_a_session_that_waits_forever_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a monitor watches a job forever although nothing shows whether the job runs."""

    def has_answer(evidence: Evidence, _found: table.Verdict) -> bool:
        return evidence.missing_answer_reason is None

    draw_only(monkeypatch, World.kill_job)
    monkeypatch.setattr(watch, "_shows_state", has_answer)
    assert "neither ends nor names a person" in find_violation(_SEEDS)


def test_a_verdict_on_a_silent_machine_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a machine that does not answer counts as a machine without jobs."""
    rows = [row for row in table.TABLE if row[1] is not table._lacks_an_answer]
    monkeypatch.setattr(table, "TABLE", tuple(rows))
    assert "did not answer" in find_violation(_SEEDS)


def test_two_jobs_at_a_time_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a lost attempt is replaced without being stopped."""
    draw_only(monkeypatch, World.remove_scratch)
    monkeypatch.setattr(World, "stop", lambda _self, _paths: StopResult())
    assert "starts while another one runs" in find_violation(_SEEDS)


@pytest.mark.long
def test_a_job_without_log_and_folder_that_is_ignored_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: a claim to start is ignored if both log and folder of its attempt are lost."""
    draw_only(monkeypatch, World.remove_scratch)
    monkeypatch.setattr(history, "_RESTORED", 1)
    monkeypatch.setattr(History, "_find_attempts_without_folder", lambda *_: iter(()))
    assert "starts while another one runs" in find_violation(_SEEDS)


@pytest.mark.long
def test_tasks_of_an_attempt_without_a_folder_are_examined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task is computed again if its folder is damaged and its attempt lost the scratch copy."""
    draw_only(monkeypatch, World.remove_scratch)
    draw_only(monkeypatch, Sweep.swap_folders, Sweep.remove_folder, name="_TASK_FAULTS")
    run_histories(range(0, 1_000, 20))
