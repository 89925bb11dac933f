"""Parameters of the whole plan, which several stages use."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.amendments.mandated import BO
from tests.cli.support import Place, call, write_plan

T_AND_STEPS = {"T": 0.25, "steps": 100}


def _stage(id_: str, needs: list[str], **parameters: Any) -> dict[str, Any]:
    return {
        "id": id_,
        "name": id_,
        "depends_on": needs,
        "outputs": [f"{id_}/out"],
        "parameters": {
            "command": 'echo "$WFCTL_PARAM_T $WFCTL_PARAM_steps" > out',
            "verify": '[ "${WFCTL_PARAM_T-}" != 13 ]',
            **parameters,
        },
    }


PLAN: dict[str, Any] = {
    "workflow_id": "w",
    "purpose": "Share values.",
    "session_config": {"session_budget": 100},
    "parameters": T_AND_STEPS,
    "stages": [
        _stage("one", [], use=["T", "steps"]),
        _stage("two", [], T=7, use=["steps"]),
        _stage("three", ["one"]),
        _stage("four", [], use=["T"]),
    ],
}


def _edited(folder: Path, **changes: Any) -> str:
    return str(write_plan(folder, {**copy.deepcopy(PLAN), **changes}, "edited.json"))


@pytest.fixture
def done(tmp_path: Path) -> Place:
    """Return a completed workflow with plan parameters under the policy trust."""
    place = Place(tmp_path)
    place.done("init", _edited(tmp_path), "--consent", "trust")
    place.done("run")
    return place


def _outputs(place: Place) -> list[str]:
    stages = ("one", "two", "three", "four")
    return [(place.path / one / "out").read_text().strip() for one in stages]


def _attempts(place: Place) -> list[int]:
    return [len(place.done("show", one)["attempts"]) for one in ("one", "two", "three", "four")]


def _changed(place: Place, *words: str) -> dict[str, Any]:
    """Propose and approve an amendment; return its record before the approval."""
    id_ = place.done("amend", "propose", "--reason", "Warmer.", *words)["amendment"]["id"]
    shown: dict[str, Any] = place.done("amend", "show", id_)
    place.done("amend", "approve", id_)
    return shown


def _check_log(place: Place) -> None:
    for words in (("fsck", "--protocol"), ("replay", "--check")):
        answer = place.call(*words)
        assert answer.code == 0, answer


def _applied(place: Place, plan: str) -> dict[str, Any]:
    """Apply an edited plan; return the answer of a dry run before it."""
    words = ("plan", "apply", plan, "--reason", "Warmer.")
    dry: dict[str, Any] = place.done(*words, "--dry-run")
    place.done(*words)
    return dry


@pytest.mark.long
def test_amended_plan_parameter_recomputes_only_its_users(done: Place) -> None:
    """One amendment changes the value in all stages that use it, and in their dependents."""
    assert _outputs(done) == ["0.25 100", "7 100", "", "0.25"]
    shown = _changed(done, "--set", "parameters.T=0.5")
    assert shown["impact"]["affected"] == ["one", "three", "four"]
    assert done.done("status")["stages"][0]["status"] == "ready"
    done.done("run")
    assert _outputs(done) == ["0.5 100", "7 100", "", "0.5"]
    assert _attempts(done) == [2, 1, 2, 2]
    for field in ("parameters.T", "four.parameters.T"):
        [blamed] = done.done("blame", field)
        assert (blamed["old"], blamed["value"], blamed["amendment"]) == (0.25, 0.5, "amend-1")
    assert "parameters.T" in done.call("diff", "session:1").out
    _check_log(done)
    done.done("export", "report", str(done.path / "report.html"))
    assert "0.5" in (done.path / "report.html").read_text()


@pytest.mark.long
def test_failed_stage_runs_again_after_its_plan_parameter_changes(tmp_path: Path) -> None:
    """The verify command sees the plan parameter, and the amendment starts the stage again."""
    place = Place(tmp_path)
    place.done("init", _edited(tmp_path, parameters={"T": 13, "steps": 1}), "--consent", "trust")
    assert place.json("run").code == 6
    _changed(place, "--set", "parameters.T=1")
    place.done("run")
    assert _outputs(place)[3] == "1"
    assert _attempts(place) == [2, 1, 1, 2]
    _check_log(place)


def test_approval_shows_the_parameters_of_the_plan(tmp_path: Path) -> None:
    """The text and the statement of the approval contain the values."""
    place = Place(tmp_path)
    place.done("init", _edited(tmp_path), "--consent", "terminal")
    shown = place.call("amend", "show", "plan")
    assert "Parameter T: 0.25" in shown.out
    assert "  T: 0.25" in shown.out
    statement = place.call("amend", "show", "plan", "--statement").out
    assert json.loads(statement)["amendment"]["plan"]["parameters"] == T_AND_STEPS


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no object": ({"parameters": [1]}, "parameters: expected an object of names and values"),
    "a list as value": ({"parameters": {"T": [1], "steps": 1}}, "parameters.T: expected text"),
    "a name of wfctl": (
        {"parameters": {**T_AND_STEPS, "command": "rm"}},
        "parameters.command: wfctl itself uses this name",
    ),
    "a missing name": ({"parameters": {"T": 1}}, "use: the plan has no parameter steps"),
    "no parameters": ({"parameters": None}, "use: the plan has no parameter T"),
    "no list": ({"stages": [_stage("one", [], use="T")]}, "use: expected a list of names"),
    "an own value": (
        {"stages": [_stage("one", [], use=["T"], T=3)]},
        "one.parameters.T: the stage cannot set its own value",
    ),
    "an own verify parameter": (
        {"stages": [_stage("one", [], use=["T"], verify_parameters={"T": 3})]},
        "the parameters of the command also contain T",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_plan_check_reports_invalid_plan_parameters(tmp_path: Path, name: str) -> None:
    """The problem names the stage and the parameter."""
    changes, said = BAD[name]
    answer = call("plan", "check", _edited(tmp_path, **changes))
    assert answer.code == 1
    assert said in answer.err


def test_plan_check_names_unused_plan_parameters(tmp_path: Path) -> None:
    """The advice is silent about parameters that a stage uses."""
    answer = call("plan", "check", _edited(tmp_path, parameters={**T_AND_STEPS, "width": 1}))
    said = answer.out + answer.err
    assert (answer.code, "parameters.width: no stage uses" in said) == (0, True)
    assert "parameters.T: no stage uses" not in said


def test_use_without_plan_parameters_is_an_ordinary_parameter(tmp_path: Path) -> None:
    """A command gets a text of this name if the plan has no parameters."""
    place = Place(tmp_path)
    stage = _stage("one", [], use="gpu", command="echo $WFCTL_PARAM_use > out")
    place.done("init", _edited(tmp_path, parameters=None, stages=[stage]), "--consent", "trust")
    place.done("run")
    assert (tmp_path / "one/out").read_text() == "gpu\n"


def test_change_without_a_stage_refuses_a_parameter_of_stages(tmp_path: Path) -> None:
    """The error names the stage; a new name that no stage uses gives a warning."""
    place = Place(tmp_path)
    stages = [*PLAN["stages"][:1], _stage("two", [], dt=7)]
    place.done("init", _edited(tmp_path, stages=stages), "--consent", "trust")
    asked = ("amend", "propose", "--reason", "Shorter.", "--set")
    assert "--stage two --set parameters.dt" in place.json(*asked, "parameters.dt=1").out
    own = place.json(
        "amend", "propose", "--reason", "No.", "--stage", "one", "--set", "parameters.T=1"
    )
    assert "the stage cannot set its own value" in own.out
    assert "no stage uses it yet" in place.call(*asked, "parameters.width=1").err
    place.done("amend", "approve", "amend-1")
    _changed(place, "--stage", "two", "--set", 'parameters.use=["width"]')
    document = json.loads((tmp_path / "workflow-state.json").read_text())
    assert document["stages"][1]["parameters"]["width"] == 1
    gone = place.json("amend", "propose", "--reason", "No.", "--unset", "parameters.width")
    assert "the plan has no parameter width" in gone.out


def test_mandate_of_a_stage_does_not_cover_plan_parameters(tmp_path: Path) -> None:
    """The change of an agent waits for a person."""
    grant = {
        "stages": ["one", "three", "four"],
        "amendments": 3,
        "values": {f"{id_}.parameters.T": {"from": 0, "to": 1} for id_ in ("one", "four")},
    }
    place = Place(tmp_path)
    limited = [
        {**one, "parameters": {**one["parameters"], "time_limit": 60}} for one in PLAN["stages"]
    ]
    plan = _edited(tmp_path, mandates={"warm": grant}, stages=limited)
    place.done("init", plan, "--consent", "trust")
    asked = place.done(*BO, "amend", "propose", "--reason", "Warm.", "--set", "parameters.T=0.5")
    assert (asked["mandate"], asked["amendment"]["status"]) == (None, "proposed")


@pytest.mark.long
def test_applied_plan_lists_a_changed_plan_parameter_once(done: Place) -> None:
    """Moving a value from the plan to a stage changes only this stage."""
    changed = _edited(done.path, parameters={"T": 0.5, "steps": 100})
    applied = _applied(done, changed)
    assert applied["amendment"]["changes"] == {"parameters": {"T": {"old": 0.25, "new": 0.5}}}
    assert applied["impact"]["affected"] == ["one", "three", "four"]
    done.done("run")
    own = [*PLAN["stages"][:3], _stage("four", [], T=0.5)]
    moved = _edited(done.path, parameters={"T": 0.5, "steps": 100}, stages=own)
    assert _applied(done, moved)["impact"]["affected"] == ["four"]
    done.done("run")
    assert _outputs(done) == ["0.5 100", "7 100", "", "0.5"]


@pytest.mark.long
@pytest.mark.parametrize("by", ["amendment", "plan"])
def test_plan_parameter_of_a_sweep_recomputes_all_its_tasks(tmp_path: Path, by: str) -> None:
    """No task keeps its result, even if the same amendment also adds a point."""
    sweep = {
        **_stage("one", [], use=["T"]),
        "outputs": ["one/tasks.csv"],
    }
    sweep["parameters"] |= {
        "command": "echo $WFCTL_PARAM_T > out",
        "map": {"points": [{"x": 1}, {"x": 2, "T": 9}]},
        "task_outputs": ["out"],
    }
    place = Place(tmp_path)
    place.done("init", _edited(tmp_path, stages=[sweep]), "--consent", "trust")
    place.done("run")
    read = [(place.path / f"one/tasks/{key}/out").read_text() for key in ("x=1", "T=9,x=2")]
    assert read == ["0.25\n", "9\n"]
    if by == "amendment":
        shown = _changed(place, "--set", "parameters.T=0.5")
    else:
        more = copy.deepcopy(sweep)
        more["parameters"]["map"]["points"].append({"x": 3})
        changed = _edited(tmp_path, stages=[more], parameters={"T": 0.5, "steps": 100})
        shown = _applied(place, changed)
    assert shown["impact"]["tasks"] == {}
    place.done("run")
    assert (place.path / "one/tasks/x=1/out").read_text() == "0.5\n"
    rows = place.done("tasks", "one")["tasks"]
    assert {row["attempt"] for row in rows} == {"att-0002"}
