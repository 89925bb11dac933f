"""The effects of an approval: stopped, invalidated and archived stages, and the tasks of sweeps."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from lifecycle.payload import models as p
from lifecycle.rules.impact import (
    ApprovalForecast,
    Impact,
    TaskForecast,
    compute_amendment_reach,
    compute_approval_impact,
    find_partly_recomputed_sweeps,
    find_reopened_loops,
    forecast_approval,
    group_open_amendments_by_stage,
    impact_shown_by_earlier_versions,
)
from lifecycle.state.status import Status
from lifecycle.state.workflow import Amendment, Workflow
from tests.lifecycle import support as s
from tests.lifecycle.looped import create_workflow, with_rounds

NOW = "2026-03-31T10:01:40.000000Z"  # 100 s after the first events
ATTEMPT = "att-0001"
NEW_X: dict[str, Any] = {"parameters": {"x": {"new": 1}}}
VERIFY: dict[str, Any] = {"parameters": {"verify": {"new": "check"}}}
NAME: dict[str, Any] = {"name": {"new": "Other"}}
ALL = ("stage-1", "stage-2", "stage-3")
DIGEST = "0" * 64


def create_chain(*statuses: Status, **more: Any) -> Workflow:
    """Return a workflow of three stages in a row, whose first stages have these statuses.

    Completed and failed attempts took 50 s. ``more`` has fields of the plan.
    """
    state = s.given(plan={**s.PLAN, **more})
    for id_, status in zip(ALL, statuses, strict=False):
        commands = s.through(id_, status)
        state = s.follow(state, *commands[:2])
        state = s.follow(state, *commands[2:], at="2026-03-31T10:00:50.000000Z")
    return state


COMPLETED, RUNNING, FAILED = Status.COMPLETED, Status.RUNNING, Status.FAILED


def impact_of(state: Workflow, kind: Any, stage: str | None = None, **more: Any) -> Impact:
    """Return the impact of a proposal 100 s after the first events."""
    return compute_approval_impact(*s.propose(state, kind, stage, **more), now=NOW)


def test_change_of_a_completed_stage_stops_the_stage_that_runs_after_it() -> None:
    """The computing time of both is lost, and a pending stage only waits."""
    state = create_chain(COMPLETED, RUNNING)
    assert impact_of(state, "parameter_change", "stage-1", changes=NEW_X) == Impact(
        affected=ALL,
        invalidated=("stage-1", "stage-2"),
        stopped={"stage-2": ATTEMPT},
        kept={"stage-1": "stage-1.v1", "stage-2": "stage-2.v1"},
        seconds={"stage-1": 50.0, "stage-2": 100.0},
        again=("stage-1", "stage-2"),
    )


def test_change_of_a_running_stage_stops_only_the_stage() -> None:
    """The stage itself need not wait, and the completed stage before it stays valid."""
    state = create_chain(COMPLETED, RUNNING)
    assert impact_of(state, "parameter_change", "stage-2", changes=NEW_X) == Impact(
        affected=("stage-2", "stage-3"),
        stopped={"stage-2": ATTEMPT},
        kept={"stage-2": "stage-2.v1"},
        seconds={"stage-2": 100.0},
        again=("stage-2",),
    )


def test_running_stage_with_a_new_incomplete_dependency_is_invalidated() -> None:
    """The stage must wait for a stage that the amendment does not affect."""
    other = {"id": "other", "name": "Other"}
    state = create_chain(COMPLETED, RUNNING, stages=[other, *s.PLAN["stages"]])
    needs = {"depends_on": {"new": ["stage-1", "other"]}}
    found = impact_of(state, "parameter_change", "stage-2", changes=needs)
    assert (found.affected, found.invalidated) == (("stage-2", "stage-3"), ("stage-2",))
    assert found.stopped == {"stage-2": ATTEMPT}


@pytest.mark.parametrize(
    ("kind", "more", "kept"),
    [
        ("stage_rerun", {}, {"stage-1": "stage-1.v1"}),
        ("parameter_change", {"changes": NEW_X}, {}),
    ],
)
def test_only_a_rerun_archives_the_files_of_a_failed_stage(
    kind: str, more: dict[str, Any], kept: dict[str, str]
) -> None:
    """A failed stage is computed again, but has no valid results and no lost computing time."""
    assert impact_of(create_chain(FAILED), kind, "stage-1", **more) == Impact(
        affected=ALL, kept=kept, again=("stage-1",)
    )


def test_failed_stage_after_a_changed_stage_is_invalidated_and_archived() -> None:
    """The time of its failed attempt is not counted as lost."""
    state = create_chain(COMPLETED, FAILED)
    found = impact_of(state, "stage_rerun", "stage-1")
    assert (found.invalidated, found.again) == (("stage-1", "stage-2"),) * 2
    assert found.kept == {"stage-1": "stage-1.v1", "stage-2": "stage-2.v1"}
    assert found.seconds == {"stage-1": 50.0}


def test_failed_stage_that_is_archived_already_has_no_new_archive_folder() -> None:
    """An archive folder that is due has all files of the stage."""
    state = create_chain(FAILED)
    state.stage("stage-1").keep_as = "stage-1.v1"
    assert impact_of(state, "stage_rerun", "stage-1").kept == {}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (FAILED, Impact(affected=ALL)),
        (
            COMPLETED,
            Impact(
                affected=ALL,
                invalidated=("stage-1",),
                kept={"stage-1": "stage-1.v1"},
                again=("stage-1",),
            ),
        ),
        (Status.PREPARING, Impact(affected=ALL, stopped={"stage-1": None}, again=("stage-1",))),
    ],
)
def test_imported_stage_without_attempts_has_no_computing_time(
    status: Status, expected: Impact
) -> None:
    """Only completed stages without attempts may have files, and no attempt can be named."""
    state = s.given()
    state.stage("stage-1").status = status
    assert impact_of(state, "parameter_change", "stage-1", changes=NEW_X) == expected


@pytest.mark.parametrize("kept", [0, 3])
@pytest.mark.parametrize(("found", "number"), [({}, 0), ({"stage-1": 2}, 2), ({"stage-1": 5}, 5)])
def test_archive_folder_follows_the_highest_known_number(
    kept: int, found: dict[str, int], number: int
) -> None:
    """Numbers of the log and of folders on disk are not used again."""
    state = create_chain(COMPLETED)
    state.stage("stage-1").kept = kept
    impact = compute_approval_impact(*s.propose(state, "stage_rerun", "stage-1"), found)
    assert impact.kept == {"stage-1": f"stage-1.v{max(kept, number) + 1}"}


def test_lost_time_is_that_of_the_newest_attempt() -> None:
    """Times of failed attempts before a retry are not lost by the amendment."""
    state = s.follow(create_chain(FAILED), p.StageRetried(stage="stage-1", fix="x"))
    again = [s.attempt("stage-1"), s.launched("stage-1", "att-0002")]
    found = impact_of(s.follow(state, *again), "stage_rerun", "stage-1")
    assert (found.seconds, found.stopped) == ({"stage-1": 100.0}, {"stage-1": "att-0002"})


def test_new_name_of_a_stage_has_no_effects() -> None:
    """The name has no influence on the results of the stage or of any other stage."""
    state = create_chain(COMPLETED, RUNNING)
    assert impact_of(state, "parameter_change", "stage-1", changes=NAME) == Impact()
    for kind, more in (("parameter_change", NEW_X | NAME), ("stage_rerun", NAME)):
        assert impact_of(state, kind, "stage-1", changes=more).affected == ALL


def test_new_name_in_an_edited_plan_has_no_effects() -> None:
    """Only the stage with another change, and the stages after it, are affected."""
    state = create_chain(COMPLETED, RUNNING)
    for change, affected in ((NAME, ()), (NAME | NEW_X, ALL)):
        found = impact_of(state, "plan_change", rewired={"stage-1": change})
        assert found.affected == affected


def test_skip_of_a_running_stage_stops_it_without_an_archive() -> None:
    """The stage after it waits, and the skipped stage itself is not computed again."""
    assert impact_of(create_chain(COMPLETED, RUNNING), "stage_skip", "stage-2") == Impact(
        affected=("stage-3",), stopped={"stage-2": ATTEMPT}, seconds={"stage-2": 100.0}
    )


def test_skip_of_a_completed_stage_invalidates_the_running_stage_after_it() -> None:
    """The files of the skipped stage stay in place."""
    assert impact_of(create_chain(COMPLETED, RUNNING), "stage_skip", "stage-1") == Impact(
        affected=("stage-2", "stage-3"),
        invalidated=("stage-2",),
        stopped={"stage-2": ATTEMPT},
        kept={"stage-2": "stage-2.v1"},
        seconds={"stage-2": 100.0},
        again=("stage-2",),
    )


RESOURCES: dict[str, Any] = {"resources": {"new": {"cores": 2}}}
EXPECTED: dict[str, Any] = {"expected_seconds": {"new": 60}}


@pytest.mark.parametrize(
    ("changes", "is_checked"),
    [
        (VERIFY, True),
        ({"success_criteria": {"new": "smooth"}}, True),
        ({"parameters": EXPECTED}, False),
        ({"parameters": EXPECTED | RESOURCES}, False),
        ({"parameters": EXPECTED | VERIFY["parameters"]}, True),
        ({"parameters": EXPECTED, **NAME}, False),
    ],
)
def test_attempt_continues_if_only_its_check_or_the_next_request_changes(
    changes: dict[str, Any], is_checked: bool
) -> None:
    """New criteria apply to the attempt; expected times and resources only to the next attempt."""
    fields = {"going_on": {"stage-1": ATTEMPT}, "newly_checked": ("stage-1",) * is_checked}
    kind = "parameter_change" if "parameters" in changes else "criteria_change"
    found = impact_of(create_chain(RUNNING), kind, "stage-1", changes=changes)
    assert found == Impact(affected=ALL, **fields)  # type: ignore[arg-type]
    if "success_criteria" not in changes:
        found = impact_of(create_chain(RUNNING), "plan_change", rewired={"stage-1": changes})
        assert found == Impact(affected=ALL, **fields)  # type: ignore[arg-type]


def test_earlier_versions_stopped_an_attempt_whose_check_changes() -> None:
    """The rule of earlier versions is applied only if the caller requests it."""
    state, amendment = s.propose(
        create_chain(RUNNING), "parameter_change", "stage-1", changes=VERIFY
    )
    assert compute_approval_impact(state, amendment, now=NOW, stops_all=True) == Impact(
        affected=ALL,
        stopped={"stage-1": ATTEMPT},
        kept={"stage-1": "stage-1.v1"},
        seconds={"stage-1": 100.0},
        again=("stage-1",),
    )


def test_new_check_does_not_compute_reusable_results_again() -> None:
    """A completed stage with known outputs is only checked again; one without is computed."""
    files = {"outputs": ["stage-1/a.txt"], "parameters": {"command": "run"}}
    state = s.given(
        *s.through("stage-1", Status.POST_PROCESSING),
        p.StageCompleted(
            stage="stage-1",
            evidence="looked at it",
            outputs=[p.FileDigest(path="stage-1/a.txt", size=1, sha256=DIGEST)],
        ),
        *s.through("stage-2", COMPLETED),
        plan={**s.PLAN, "stages": [{**s.PLAN["stages"][0], **files}, *s.PLAN["stages"][1:]]},
    )
    assert impact_of(state, "parameter_change", "stage-1", changes=VERIFY) == Impact(
        affected=ALL,
        invalidated=("stage-1", "stage-2"),
        kept={"stage-1": "stage-1.v1", "stage-2": "stage-2.v1"},
        seconds={"stage-2": 0.0},
        judged=("stage-1",),
        again=("stage-2",),
    )


PROFILES = {"a": {"type": "local"}, "b": {"type": "local"}, "c": {"type": "local"}}


@pytest.mark.parametrize(
    ("changes", "affected"),
    [
        ({"default_backend": {"new": "b"}}, ("stage-1",)),
        ({"backend_profiles": {"a": {"new": {"type": "local", "n": 1}}}}, ("stage-1", "stage-3")),
        ({"backend_profiles": {"c": {"new": {"type": "local", "n": 1}}}}, ("stage-2",)),
        ({"workflow_plan": {"new": "Other"}}, ()),
    ],
)
def test_backend_affects_the_stages_that_run_on_it(
    changes: dict[str, Any], affected: tuple[str, ...]
) -> None:
    """The stages run on the default backend, on c and on a; equal settings do not matter."""
    backends: list[dict[str, Any]] = [{}, {"backend": "c"}, {"backend": "a"}]
    stages = [{"id": id_, "name": id_, **one} for id_, one in zip(ALL, backends, strict=True)]
    plan = {
        "workflow_id": "w",
        "stages": stages,
        "default_backend": "a",
        "backend_profiles": PROFILES,
    }
    assert impact_of(s.given(plan=plan), "parameter_change", changes=changes).affected == affected


def test_parameter_of_the_plan_affects_the_stages_that_use_it() -> None:
    """A stage that does not use the parameter is not affected."""
    uses = [{"use": ["t"]}, {}, {}]
    stages = [{"id": i, "name": i, "parameters": u} for i, u in zip(ALL, uses, strict=True)]
    state = s.given(plan={"workflow_id": "w", "parameters": {"t": 1}, "stages": stages})
    changes = {"parameters": {"t": {"new": 2}}}
    assert impact_of(state, "parameter_change", changes=changes).affected == ("stage-1",)


def test_reopened_loop_invalidates_the_stages_after_it() -> None:
    """A higher limit continues the loop; its own stages keep their results."""
    state = s.follow(with_rounds(1, at_most=1), *s.through("tell", COMPLETED))
    changes = {"rounds": {"search": {"new": {**state.rounds["search"], "at_most": 2}}}}
    assert impact_of(state, "parameter_change", changes=changes) == Impact(
        affected=("tell",),
        invalidated=("tell",),
        kept={"tell": "tell.v1"},
        seconds={"tell": 0.0},
        again=("tell",),
    )


def test_only_loops_that_were_over_can_be_reopened() -> None:
    """A removed loop, a running loop and a loop that stays over are not reopened."""
    over, running = with_rounds(1, at_most=1), create_workflow()
    removed = over.draft()
    removed.loops = {}
    pairs = [(over, running), (over, removed), (running, running), (over, over), (running, over)]
    assert [find_reopened_loops(*pair) for pair in pairs] == [["search"], [], [], [], []]


def test_open_amendments_are_listed_by_the_stages_that_they_affect() -> None:
    """An amendment that cannot be applied is left out, and the initial plan affects every stage."""
    state = create_chain(COMPLETED)
    broken = Amendment("amend-1", "stage_rerun", "nowhere", "because", s.AT, {})
    decided = Amendment("amend-2", "stage_rerun", "stage-1", "no", s.AT, {}, status="rejected")
    state.amendments = {"amend-1": broken, "amend-2": decided}
    for stage in ("stage-2", "stage-3"):
        state, _ = s.propose(state, "parameter_change", stage, changes=NEW_X)
    assert group_open_amendments_by_stage(state) == {
        "stage-2": ["amend-3"],
        "stage-3": ["amend-3", "amend-4"],
    }
    state.amendments = {"plan": Amendment("plan", "plan", None, "plan", s.AT, {})}
    assert group_open_amendments_by_stage(state) == {id_: ["plan"] for id_ in ALL}


EMPTY: dict[str, Any] = {
    "affected": [*ALL],
    "invalidated": [],
    "stopped": {},
    "outdated": [],
    "kept": {},
}


@pytest.mark.parametrize(
    ("statuses", "kind", "stage", "expected"),
    [
        (
            (COMPLETED, RUNNING),
            "stage_rerun",
            "stage-1",
            {
                "invalidated": ["stage-1"],
                "outdated": ["stage-2"],
                "kept": {"stage-1": "stage-1.v5"},
            },
        ),
        (
            (COMPLETED, RUNNING),
            "stage_rerun",
            "stage-2",
            {
                "affected": ["stage-2", "stage-3"],
                "stopped": {"stage-2": ATTEMPT},
                "kept": {"stage-2": "stage-2.v1"},
            },
        ),
        ((FAILED,), "stage_rerun", "stage-1", {"kept": {"stage-1": "stage-1.v5"}}),
        ((FAILED,), "parameter_change", "stage-1", {}),
        (
            (COMPLETED, FAILED),
            "stage_rerun",
            "stage-1",
            {"invalidated": ["stage-1"], "kept": {"stage-1": "stage-1.v5"}},
        ),
    ],
)
def test_impact_of_earlier_versions_has_outdated_stages(
    statuses: tuple[Status, ...], kind: str, stage: str, expected: dict[str, Any]
) -> None:
    """Earlier versions stopped only the changed stage, and let later running stages continue."""
    more = {"changes": NEW_X} if kind == "parameter_change" else {}
    proposal = s.propose(create_chain(*statuses), kind, stage, **more)
    assert impact_shown_by_earlier_versions(*proposal, {"stage-1": 4}) == EMPTY | expected


def test_earlier_versions_archived_only_stages_with_attempts() -> None:
    """A failed stage without attempts has no files, and known archive folders are optional."""
    state = s.given()
    state.stage("stage-1").status = FAILED
    assert impact_shown_by_earlier_versions(*s.propose(state, "stage_rerun", "stage-1")) == EMPTY


def test_impact_is_written_with_the_lost_time() -> None:
    """The effects to approve have no times, because running attempts go on."""
    effects = {
        "affected": ["stage-1", "stage-2"],
        "invalidated": ["stage-1"],
        "stopped": {"stage-2": ATTEMPT},
        "kept": {"stage-1": "stage-1.v1"},
    }
    found = Impact(
        ("stage-1", "stage-2"), ("stage-1",), {"stage-2": ATTEMPT}, {"stage-1": "stage-1.v1"},
        {"stage-1": 50.0},
    )  # fmt: skip
    assert found.effects_to_approve() == effects
    assert found.to_dict() == {**effects, "seconds_thrown_away": {"stage-1": 50.0}}


def test_impact_and_forecast_cannot_be_changed() -> None:
    """The fields of an impact and of a forecast are constant."""
    for value, name in ((Impact(), "affected"), (ApprovalForecast(), "blocked")):
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, ("stage-1",))


def forecast(
    state: Workflow, kind: Any, stage: str | None = None, in_place: Any = None, **more: Any
) -> ApprovalForecast:
    """Return the forecast of a proposal."""
    proposed, amendment = s.propose(state, kind, stage, **more)
    impact = compute_approval_impact(proposed, amendment, now=NOW)
    return forecast_approval(proposed, amendment, impact, in_place=in_place)


def test_forecast_has_the_duration_of_stages_that_are_computed_again() -> None:
    """Results of the stages before the changed stage stay valid."""
    state = create_chain(COMPLETED, COMPLETED, COMPLETED)
    found = forecast(state, "parameter_change", "stage-2", changes=NEW_X)
    assert found.again == (("stage-2", 50.0), ("stage-3", 50.0))
    assert (found.results_kept, found.blocked, found.first_tasks) == (("stage-1",), (), {})
    assert forecast(state, "stage_skip", "stage-3").results_kept == ("stage-1", "stage-2")


def test_duration_is_unknown_without_an_ended_attempt_and_with_wrong_times() -> None:
    """A running attempt and an imported file with text as a time give no duration."""
    running, wrong = create_chain(RUNNING), create_chain(COMPLETED)
    wrong.stage("stage-1").attempts[-1].started_at = "yesterday"
    assert forecast(running, "stage_rerun", "stage-1").again == (("stage-1", None),)
    changed, amendment = s.propose(wrong, "stage_rerun", "stage-1")
    found = forecast_approval(changed, amendment, Impact(again=("stage-1",)))
    assert found.again == (("stage-1", None),)


REWIRE = "with --rewire, the stages after the skipped stage no longer depend on it and can continue"


def test_skip_without_rewire_blocks_the_unfinished_stages_after_it() -> None:
    """Blocked stages are not computed again; a completed stage is not blocked."""
    found = forecast(create_chain(COMPLETED, RUNNING), "stage_skip", "stage-1")
    assert (found.blocked, found.again) == (("stage-2", "stage-3"), ())
    assert found.cheaper == (REWIRE,)
    done = create_chain(COMPLETED, COMPLETED)
    done.stage("stage-3").status = Status.SKIPPED
    assert forecast(done, "stage_skip", "stage-1").blocked == ()


def test_skip_with_rewire_blocks_no_stage() -> None:
    """The stages after the skipped stage no longer depend on it."""
    found = forecast(create_chain(COMPLETED, RUNNING), "stage_skip", "stage-1", rewire=True)
    assert (found.blocked, found.again, found.cheaper) == ((), (("stage-2", None),), ())


@pytest.mark.parametrize(
    ("kind", "seconds", "is_suggested"),
    [
        ("parameter_change", {"stage-1": 60.0}, False),
        ("parameter_change", {"stage-1": 30.0, "stage-2": 30.5}, True),
        ("stage_rerun", {"stage-1": 61.0}, False),
    ],
)
def test_new_stage_is_suggested_instead_of_losing_more_than_a_minute(
    kind: str, seconds: dict[str, float], is_suggested: bool
) -> None:
    """Only a change of a value can be an inserted stage instead."""
    more = {"changes": NEW_X} if kind == "parameter_change" else {}
    state, amendment = s.propose(create_chain(COMPLETED), kind, "stage-1", **more)
    found = forecast_approval(state, amendment, Impact(seconds=seconds)).cheaper
    assert [text.startswith("to keep every result, insert a new stage") for text in found] == (
        [True] * is_suggested
    )


@pytest.mark.parametrize(
    ("kind", "change", "is_suggested"),
    [
        ("stage_skip", {"old": ["stage-1"], "new": []}, True),
        ("stage_skip", {"old": ["stage-1"], "new": [], "inputs": {"new": []}}, False),
        ("stage_rerun", {"old": ["stage-1"], "new": []}, False),
    ],
)
def test_skip_suggests_new_inputs_for_stages_that_read_its_files(
    kind: str, change: dict[str, Any], is_suggested: bool
) -> None:
    """The hint names only files in the folder of the skipped stage."""
    state = create_chain(COMPLETED)
    state.stage("stage-2").inputs = ["stage-1/a.txt", "stage-10/b.txt", "stage-1/c.txt"]
    rewired = {"stage-2": change, "stage-3": {"old": ["stage-2"], "new": []}}
    amendment = Amendment("amend-1", kind, "stage-1", "because", s.AT, {}, rewired=rewired)
    hint = (
        "stage-2 uses stage-1/a.txt, stage-1/c.txt of the skipped stage, so change the inputs of "
        "stage-2 too (--stage stage-2 --set inputs=JSON)"
    )
    assert forecast_approval(state, amendment, Impact()).cheaper == (hint,) * is_suggested


def sweep_plan(given: dict[str, Any], *more: dict[str, Any]) -> dict[str, Any]:
    """Return a plan with the sweep `sweep` over a map, and further stages."""
    parameters = {"command": "run", "map": given}
    stage = {"id": "sweep", "name": "Sweep", "parameters": parameters}
    return {"workflow_id": "w", "stages": [{**stage, "outputs": ["sweep/tasks.csv"]}, *more]}


def build_points(*xs: int) -> dict[str, Any]:
    """Return a map with these values of x."""
    return {"points": [{"x": x} for x in xs]}


def computed_sweep(
    given: dict[str, Any], done: str, *more: dict[str, Any], status: Status = COMPLETED
) -> Workflow:
    """Return the state after an attempt of 40 s of the sweep, with these finished tasks."""
    state = s.given(plan=sweep_plan(given, *more))
    commands = s.through("sweep", status)
    state = s.follow(state, *commands[:2])
    state = s.follow(state, *commands[2:], at="2026-03-31T10:00:40.000000Z")
    state.stage("sweep").attempts[-1].tasks = {"done": done, "failures": []}
    return state


def new_map(given: dict[str, Any]) -> dict[str, Any]:
    """Return the change of a stage's map."""
    return {"parameters": {"map": {"new": given}}}


def task_forecasts(
    state: Workflow, changes: dict[str, Any], **more: Any
) -> tuple[TaskForecast, ...]:
    """Return the forecast of the tasks for a change of the sweep."""
    return forecast(state, "parameter_change", "sweep", changes=changes, **more).tasks


@pytest.mark.parametrize(
    ("done", "in_place", "expected"),
    [
        ("0-3", None, TaskForecast("sweep", 2, 1, 2, 10.0)),
        ("0,2", None, TaskForecast("sweep", 1, 2, 1, 20.0)),
        ("0-4", None, TaskForecast("sweep", 2, 1, 2, 10.0)),
        ("", None, TaskForecast("sweep", 0, 3, 0, 30.0)),
        ("0-3", {"sweep": ["x=0", "x=2"]}, TaskForecast("sweep", 1, 2, 1, 20.0)),
        ("0-3", {"other": []}, TaskForecast("sweep", 2, 1, 2, 10.0)),
    ],
)
def test_finished_tasks_of_unchanged_points_are_kept(
    done: str, in_place: dict[str, list[str]] | None, expected: TaskForecast
) -> None:
    """The estimate is the time of the last attempt for its four tasks, 10 s for each."""
    state = computed_sweep(build_points(0, 1, 2, 3), done)
    found = task_forecasts(state, new_map(build_points(0, 1, 5)), in_place=in_place)
    assert found == (expected,)


def test_tasks_of_the_newest_attempt_with_a_record_are_used() -> None:
    """An attempt without a record of its tasks does not hide the earlier record."""
    state = computed_sweep(build_points(0, 1), "0", status=FAILED)
    state.stage("sweep").attempts[-1].tasks = {"done": "0"}
    state = s.follow(state, p.StageRetried(stage="sweep", fix="x"), s.attempt("sweep"))
    assert task_forecasts(state, new_map(build_points(0, 1, 2))) == (
        TaskForecast("sweep", 1, 2, 0, 40.0),
    )
    state.stage("sweep").attempts[-1].tasks = {"done": "0-1"}
    assert task_forecasts(state, new_map(build_points(0, 1, 2))) == (
        TaskForecast("sweep", 2, 1, 0, 20.0),
    )


def test_sweep_without_attempts_has_no_estimate() -> None:
    """All tasks are computed, and their time is unknown."""
    state = s.given(plan=sweep_plan(build_points(0, 1)))
    assert task_forecasts(state, new_map(build_points(0, 1, 2))) == (
        TaskForecast("sweep", 0, 3, 0, None),
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"grid": {"x": [0, 1]}}, {"grid": {"x": [0, 1, 2]}}),
        ({"zip": {"x": [0, 1]}}, {"grid": {"x": [0, 1, 2]}}),
        (build_points(0, 1), {"zip": {"x": [0, 1, 2]}}),
    ],
)
def test_tasks_of_a_grid_and_of_a_zip_are_counted(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    """Equal points stay valid, in whatever form the map lists them."""
    state = computed_sweep(before, "0-1")
    assert task_forecasts(state, new_map(after)) == (TaskForecast("sweep", 2, 1, 0, 20.0),)


FILE = {"file": "points.csv", "sha256": DIGEST}


@pytest.mark.parametrize("given", [build_points(0, 1), FILE | {"sha256": "1" * 64}])
def test_tasks_of_a_points_file_are_not_counted(given: dict[str, Any]) -> None:
    """The plan alone does not determine the points before and after the change."""
    state = computed_sweep(FILE, "0-1")
    assert task_forecasts(state, new_map(given)) == ()


def test_changed_input_makes_all_tasks_of_a_sweep_invalid() -> None:
    """Changed inputs of stages that are no partly computed sweeps are left out."""
    state, amendment = s.propose(
        computed_sweep(build_points(0, 1), "0-1"),
        "parameter_change",
        "sweep",
        changes=new_map(build_points(0, 1, 2)),
    )
    impact = compute_approval_impact(state, amendment)
    changed = {"sweep": ["a.txt"], "other": ["b.txt"]}
    found = forecast_approval(state, amendment, impact, changed)
    assert found.tasks == (TaskForecast("sweep", 0, 3, 2, 60.0),)
    assert found.changed_inputs == {"sweep": ["a.txt"]}


CHECK: dict[str, Any] = {"parameters": {"task_verify": {"new": "check"}}}


def build_failure(key: str, because: str) -> dict[str, Any]:
    """Return the record of a failed task."""
    return {"key": key, "exit_code": 1, "because": because}


@pytest.mark.parametrize(
    ("failures", "computed", "judged"),
    [
        ([build_failure("x=3", "task_verify: exit code 1")], 0, 4),
        ([build_failure("x=3", "metrics: no number")], 0, 4),
        ([build_failure("x=3", "exit code 1")], 1, 3),
        ([build_failure("x=9", "task_verify: exit code 1")], 1, 3),
        ([{"key": "x=3"}], 1, 3),
    ],
)
def test_new_check_judges_computed_tasks_again(
    failures: list[dict[str, Any]], computed: int, judged: int
) -> None:
    """Tasks that failed only the check are judged again; other failed tasks are computed."""
    state = computed_sweep(build_points(0, 1, 2, 3), "0-2")
    state.stage("sweep").attempts[-1].tasks = {"done": "0-2", "failures": failures}
    expected = TaskForecast("sweep", 0, computed, 0, 10.0 * computed, judged)
    assert task_forecasts(state, CHECK) == (expected,)


def test_new_check_of_changed_inputs_judges_no_task() -> None:
    """All tasks are computed again, so their results are not checked before."""
    state, amendment = s.propose(
        computed_sweep(build_points(0, 1), "0-1"), "parameter_change", "sweep", changes=CHECK
    )
    impact = compute_approval_impact(state, amendment)
    [found] = forecast_approval(state, amendment, impact, {"sweep": ["a.txt"]}).tasks
    assert found == TaskForecast("sweep", 0, 2, 2, 40.0)


def test_running_sweep_with_a_new_check_computes_no_task_again() -> None:
    """The attempt continues and computes the rest of its tasks."""
    state = computed_sweep(build_points(0, 1, 2), "0", status=RUNNING)
    assert task_forecasts(state, CHECK) == (TaskForecast("sweep", 0, 0, 0, None, 1),)


def test_change_from_a_round_keeps_only_tasks_of_the_earlier_rounds() -> None:
    """Failed tasks of earlier rounds were accepted and are not computed again."""
    state = with_rounds(3, at_most=5)
    for done, aside in (("0-2", 2), ("1-2", 2), ("0-1", 1)):
        state.stage("run").attempts[-1].tasks = {"done": done, "failures": []}
        found = forecast(state, "parameter_change", "run", changes=NEW_X, from_round=2).tasks
        assert found == (TaskForecast("run", 1, 2, aside, 0.0),)


TWIN: dict[str, Any] = {
    "id": "twin",
    "name": "Twin",
    "depends_on": ["sweep"],
    "outputs": ["twin/tasks.csv"],
    "parameters": {"command": "twin", "map": {"like": "sweep"}},
}


def create_twins(done_by_sweep: str, done_by_twin: str) -> Workflow:
    """Return the state of a sweep of four points and of its follower, both completed."""
    state = computed_sweep(build_points(0, 1, 2, 3), done_by_sweep, TWIN)
    state = s.follow(state, *s.through("twin", COMPLETED))
    state.stage("twin").attempts[-1].tasks = {"done": done_by_twin, "failures": []}
    return state


def test_task_of_a_follower_is_kept_only_with_its_partner() -> None:
    """The first task of the follower stays; the partner of its second task is computed again."""
    assert task_forecasts(create_twins("0,2-3", "0-3"), new_map(build_points(0, 1, 5))) == (
        TaskForecast("sweep", 1, 2, 2, 20.0),
        TaskForecast("twin", 1, 2, 3, 0.0),
    )


def test_new_check_of_a_sweep_leaves_its_follower_out() -> None:
    """The tasks of the follower are not computed again, unless a check fails."""
    found = task_forecasts(create_twins("0-3", "0-3"), CHECK)
    assert [one.stage for one in found] == ["sweep"]


def test_sweep_is_counted_before_its_follower() -> None:
    """The order of an edited plan does not matter."""
    rewired = {"twin": CHECK, "sweep": new_map(build_points(0, 1))}
    state, amendment = s.propose(create_twins("0-3", "0-3"), "plan_change", rewired=rewired)
    impact = compute_approval_impact(state, amendment)
    assert find_partly_recomputed_sweeps(state, amendment, impact) == ["sweep", "twin"]


def first_tasks(before: dict[str, Any], after: dict[str, Any], done: str = "0-3") -> dict[str, str]:
    """Return the sentences on first tasks for a new map of a sweep of four points."""
    state = computed_sweep(before, done)
    found = forecast(state, "parameter_change", "sweep", changes=new_map(after))
    return dict(found.first_tasks)


def test_first_tasks_of_a_changed_sweep_are_described() -> None:
    """Kept tasks are first tasks that have succeeded; a sweep without new tasks has none."""
    four, two = build_points(0, 1, 2, 3), {**build_points(7, 8), "first": 1}
    one = "1 task first; 1 task starts when it has succeeded"
    assert first_tasks(four, two) == {"sweep": one}
    assert first_tasks(four, {**build_points(0, 7, 8), "first": 2}) == {"sweep": one}
    assert first_tasks(four, {**build_points(0, 7), "first": 1}) == {}
    assert first_tasks(four, {**build_points(0, 1), "first": 2}) == {}


@pytest.mark.parametrize(
    ("first", "text"),
    [
        (1, "1 task first; 3 tasks start when it has succeeded"),
        (2, "2 tasks first; 2 tasks start when they have succeeded"),
    ],
)
def test_first_tasks_of_a_sweep_that_runs_again_are_described(first: int, text: str) -> None:
    """All tasks are counted as new, and stages without tasks are left out."""
    before: dict[str, Any] = {"id": "before", "name": "Before"}
    after: dict[str, Any] = {"id": "after", "name": "After", "depends_on": ["sweep"]}
    state = computed_sweep({**build_points(0, 1, 2, 3), "first": first}, "0-3", before, after)
    assert forecast(state, "stage_rerun", "sweep").first_tasks == {"sweep": text}
    change = {"changes": NEW_X}
    assert forecast(state, "parameter_change", "before", **change).first_tasks == {}


def test_loops_are_part_of_the_forecast() -> None:
    """The forecast has the loop whose earlier round becomes invalid."""
    found = forecast(with_rounds(2), "parameter_change", "next", changes=NEW_X)
    assert [(one.loop, one.uncounted) for one in found.loops] == [("search", (1,))]


def test_forecast_is_written_without_empty_fields_of_tasks() -> None:
    """Judged tasks and first tasks are left out if their number is zero."""
    tasks = TaskForecast("sweep", 1, 2, 3, 4.0)
    assert tasks.to_dict() == {"kept": 1, "computed": 2, "set_aside": 3, "seconds": 4.0}
    assert tasks._replace(judged=5).to_dict() == {**tasks.to_dict(), "judged": 5}
    empty = ApprovalForecast().to_dict()
    assert "first_tasks" not in empty
    assert ApprovalForecast(
        blocked=("a",),
        again=(("b", 1.0),),
        results_kept=("c",),
        tasks=(tasks,),
        judged=("d",),
        changed_inputs={"sweep": ("a.txt",)},
        first_tasks={"sweep": "one first"},
        cheaper=("insert",),
    ).to_dict() == {
        "blocked_for_good": ["a"],
        "computed_again": {"b": 1.0},
        "judged_again": ["d"],
        "results_kept": ["c"],
        "cheaper": ["insert"],
        "changed_inputs": {"sweep": ["a.txt"]},
        "tasks": {"sweep": tasks.to_dict()},
        "loops": {},
        "first_tasks": {"sweep": "one first"},
    }


def test_reach_of_a_skip_names_the_skipped_stage() -> None:
    """Only a skip has a skipped stage, which is changed directly and not affected."""
    for kind, skipped in (("stage_skip", "stage-2"), ("stage_rerun", None)):
        reach = compute_amendment_reach(
            *s.propose(create_chain(COMPLETED, COMPLETED), kind, "stage-2")
        )
        assert (reach.direct, reach.skipped) == (frozenset({"stage-2"}), skipped)
        assert reach.affected == {"stage-2", "stage-3"} - {skipped}
