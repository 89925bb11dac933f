"""A plan before a workflow is made of it: an example to start from, a check, its schema."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.cli.support import PLAN, Place, call, tree, write_plan
from tests.sweeps.looped import plan as plan_of_a_loop


def test_the_example_is_a_plan_that_is_taken_as_it_is(tmp_path: Path) -> None:
    """It is written once, never over a file, and `init` makes a workflow of it."""
    plan = tmp_path / "plan.toml"
    assert call("init", "--example", str(plan)).code == 0
    assert call("init", "--example", str(plan)).code == 4
    assert call("plan", "check", str(plan)).code == 0
    root = tmp_path / "root"
    root.mkdir()
    assert call("--root", str(root), "init", str(plan), "--consent", "trust").code == 0


def test_a_check_tells_every_problem_and_writes_nothing(tmp_path: Path) -> None:
    """The same words as `init`, with the same exit code."""
    wrong = {**PLAN, "purpse": "x"}
    plan = write_plan(tmp_path, wrong)
    before = tree(tmp_path)
    answer = call("-o", "json", "plan", "check", str(plan))
    assert (answer.code, answer.error["code"]) == (1, "invalid_plan")
    assert answer.error["data"]["problems"] == ["purpse: unknown field; did you mean purpose?"]
    assert tree(tmp_path) == before


def test_the_schema_of_a_plan_describes_every_field() -> None:
    """Editors take it."""
    schema = json.loads(call("schema", "plan").out)
    stage = schema["properties"]["stages"]["items"]
    for fields in (schema["properties"], stage["properties"]):
        assert all(field["description"] for field in fields.values())
    assert stage["additionalProperties"] is False


def test_a_slip_in_the_name_of_a_parameter_is_asked_about(tmp_path: Path) -> None:
    """Parameters may have any name, so it is no error; a name far from all is no mistake."""
    place = Place(tmp_path)
    given = {"comand": "true", "expected_second": 3, "tolerance": 0.1, "T": 2}
    plan = {"workflow_id": "w", "stages": [{"id": "stage-1", "name": "A", "parameters": given}]}
    path = write_plan(tmp_path, plan)
    found = place.done("plan", "check", str(path))
    slips = [line.rpartition(" mean ")[2] for line in found["advice"] if " mean " in line]
    assert slips == ["command?", "expected_seconds?"]
    own = {"wfctl": [], "command": ["comand", "expected_second", "tolerance", "T"]}
    assert found["parameters"] == {"stage-1": own}
    answer = place.call("init", str(path), "--consent", "trust")
    assert answer.code == 0
    assert "parameters.comand is read by its command alone" in answer.err
    assert place.done("show", "stage-1")["parameters"] == given


COMMAND = "python3 ../../../measure.py $WFCTL_PARAM_T ${WFCTL_PARAM_seed:-1} > fit.json"


def stage(number: int, parameters: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a stage of a plan."""
    return {"id": f"stage-{number}", "name": "A", "parameters": parameters, **fields}


def advice_on(place: Place, *stages: dict[str, Any], **fields: Any) -> list[str]:
    """Return what both commands say of a plan: `plan check` in its answer, `init` on stderr."""
    path = write_plan(place.path, {"workflow_id": "w", **fields, "stages": [*stages]})
    checked: list[str] = place.done("plan", "check", str(path))["advice"]
    begun = place.call("init", str(path), "--consent", "trust", "--dry-run")
    assert (begun.code, [line for line in checked if line not in begun.err]) == (0, [])
    return checked


def test_a_sound_plan_is_given_no_advice(tmp_path: Path) -> None:
    """A sweep whose script reads what its command does not name; a partner among the inputs."""
    (tmp_path / "measure.py").write_text("import os; os.environ['WFCTL_PARAM_L']")
    grid = {"grid": {"T": [1, 2], "L": [8]}}
    sweep = {"command": COMMAND, "map": grid, "task_verify": "true", "verify": "true"}
    first = stage(
        1, sweep, inputs=["measure.py"], outputs=["stage-1/tasks.csv"], success_criteria="m < 1"
    )
    # The folder of a partner is found by all values.
    like = {"command": "cat $WFCTL_LIKE_FOLDER/m", "map": {"like": "stage-1"}}
    second = stage(
        2, like, depends_on=["stage-1"], inputs=["stage-1/tasks.csv"], outputs=["stage-2/tasks.csv"]
    )
    assert advice_on(Place(tmp_path), first, second) == []


def test_a_check_says_where_somebody_must_judge(tmp_path: Path) -> None:
    """Criteria in words with nothing that checks them."""
    (told,) = advice_on(Place(tmp_path), stage(1, {"command": "true"}, success_criteria="good"))
    assert "somebody must judge them; `wfctl run` will stop there" in told


def test_a_check_says_which_points_cannot_run_as_they_are_meant(tmp_path: Path) -> None:
    """A value that nobody gives, and one that nobody asks for."""
    grid = {"command": COMMAND, "map": {"grid": {"temperature": [1, 2]}}}
    told = advice_on(Place(tmp_path), stage(1, grid, outputs=["stage-1/tasks.csv"]))
    assert len(told) == 2
    assert told[0].startswith("stage-1: parameters.command asks for $WFCTL_PARAM_T, which has no")
    assert told[1].startswith("stage-1: temperature is a value of the map that nothing here uses")


def test_a_check_says_which_stage_no_session_affords(tmp_path: Path) -> None:
    """`wfctl run` never goes on there, however often it is called."""
    first = stage(1, {"command": "true", "expected_seconds": 1})
    (told,) = advice_on(Place(tmp_path), first, session_config={"session_budget": 0.5})
    assert "no session begins it; raise session_config.session_budget" in told
    assert "goes on" not in told


def test_a_check_says_which_limits_end_a_loop_before_its_rounds_are_over(tmp_path: Path) -> None:
    """Three rounds have two points each and a stage behind them: nine tasks, of 90 s at most."""

    def told(**limits: Any) -> list[str]:
        given = plan_of_a_loop(tmp_path, **limits)
        for one in given["stages"][:2]:
            one["parameters"]["time_limit"] = 60
        found = advice_on(Place(tmp_path), *given["stages"], rounds=given["rounds"])
        return [line for line in found if line.startswith("rounds.")]

    assert told(tasks=9, core_hours=0.225) == told() == []
    assert told(tasks=2) == ["rounds.walk: tasks = 2 is not enough for round 1 (all need 9)"]
    assert told(tasks=8) == [
        "rounds.walk: tasks = 8 is enough for 2 of its 3 rounds with 2 points each (all need 9)"
    ]
    assert told(tasks=6, each=None) == [
        "rounds.walk: tasks = 6 is enough for 2 of its 3 rounds with 1 point each (all need 7)"
    ]
    (both,) = told(tasks=3, core_hours=0.2)
    assert "tasks = 3 is enough for 1 of its 3 rounds" in both
    assert (
        "core_hours = 0.2 is enough for 2 of its 3 rounds with 2 points each if each task" in both
    )


def test_a_check_takes_scripts_that_are_pinned_as_they_are(tmp_path: Path) -> None:
    """As `init` takes them."""
    assert advice_on(Place(tmp_path), stage(1, {}), session_config={"pin": "scripts"}) == []


def test_a_machine_that_is_not_there_is_told_before_anything_begins(tmp_path: Path) -> None:
    """Of a profile that names none, and of one whose file is missing; a check says it too."""
    profiles = {"local": {"type": "local"}, "hpc": {"type": "remote", "config_path": "hpc.json"}}
    found = advice_on(Place(tmp_path), stage(1, {"command": "true"}), backend_profiles=profiles)
    assert [line.partition(": ")[0] for line in found] == ["local", "hpc"]
    assert "without config and config_path" in found[0]
    assert "hpc.json is missing" in found[1]


def test_a_command_that_is_no_text_is_told_of(tmp_path: Path) -> None:
    """``verify = true`` is run by bash as ``True``, which is no command."""
    [line] = advice_on(Place(tmp_path), stage(1, {"command": "true", "verify": True}))
    assert line == "stage-1: parameters.verify is True, and no text: bash runs `True`"


def test_a_check_says_what_is_wrong_with_line_ends_modules_and_files_of_points(
    tmp_path: Path,
) -> None:
    """Each of them would end a stage later, or be missed without a word."""
    content = b"\xef\xbb\xbfT,a b\r\n1,2\r\n"
    (tmp_path / "points.csv").write_bytes(content)
    maps = [
        {"file": "points.csv", "sha256": sha256(content).hexdigest()},
        {"file": "points.csv", "sha256": "0" * 64},
    ]
    sweeps = [
        stage(n, {"command": "true", "map": one}, outputs=[f"stage-{n}/tasks.csv"])
        for n, one in enumerate(maps, 1)
    ]
    overrides = {"resource_overrides": {"module_list": ["lamps"]}, "command": "true\r\ntrue"}
    told = advice_on(Place(tmp_path), *sweeps, stage(3, overrides))
    name, digest, modules, ends = told
    assert modules.startswith("stage-3: parameters.resource_overrides.module_list: nothing fails")
    assert name == (
        "stage-1.parameters.map: point 1: 'a b' is no name; expected letters, digits and _, for "
        "WFCTL_PARAM_<name>"
    )
    assert digest.startswith("stage-2: points.csv: the map has another sha256, found")
    assert ends.startswith("stage-3: parameters.command has lines that end with a carriage return")
