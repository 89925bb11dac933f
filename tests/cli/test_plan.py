"""Plans before `init`: an example plan, the check of a plan, and the JSON schema of plans."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.cli.support import PLAN, Place, call, tree, write_plan
from tests.sweeps.looped import plan as plan_of_a_loop


def test_example_plan_is_valid(tmp_path: Path) -> None:
    """`init --example` replaces no existing file, and `init` accepts the written example."""
    plan = tmp_path / "plan.toml"
    assert call("init", "--example", str(plan)).code == 0
    assert call("init", "--example", str(plan)).code == 4
    assert call("plan", "check", str(plan)).code == 0
    root = tmp_path / "root"
    root.mkdir()
    assert call("--root", str(root), "init", str(plan), "--consent", "trust").code == 0


def test_check_reports_every_problem_and_writes_nothing(tmp_path: Path) -> None:
    """`plan check` has the same messages and exit code as `init`."""
    wrong = {**PLAN, "purpse": "x"}
    plan = write_plan(tmp_path, wrong)
    before = tree(tmp_path)
    answer = call("-o", "json", "plan", "check", str(plan))
    assert (answer.code, answer.error["code"]) == (1, "invalid_plan")
    assert answer.error["data"]["problems"] == ["purpse: unknown field; did you mean purpose?"]
    assert tree(tmp_path) == before


def test_plan_schema_describes_every_field() -> None:
    """The JSON schema has every field of a plan, so that editors can complete the names."""
    schema = json.loads(call("schema", "plan").out)
    stage = schema["properties"]["stages"]["items"]
    for fields in (schema["properties"], stage["properties"]):
        assert all(field["description"] for field in fields.values())
    assert stage["additionalProperties"] is False


def test_misspelled_parameter_causes_advice(tmp_path: Path) -> None:
    """`plan check` gives advice on an unknown parameter name that is close to a known one."""
    place = Place(tmp_path)
    given = {"comand": "true", "expected_second": 3, "tolerance": 0.1, "T": 2}
    plan = {"workflow_id": "w", "stages": [{"id": "stage-1", "name": "A", "parameters": given}]}
    path = write_plan(tmp_path, plan)
    found = place.done("plan", "check", str(path))
    slips = [line.rpartition(" mean ")[2] for line in found["advice"] if " mean " in line]
    assert slips == ["command?", "expected_seconds?"]
    own = {"wfctl": [], "command": ["comand", "expected_second", "tolerance", "T"], "verify": []}
    assert found["parameters"] == {"stage-1": own}
    answer = place.call("init", str(path), "--consent", "trust")
    assert answer.code == 0
    assert "wfctl does not use parameters.comand" in answer.err
    assert place.done("show", "stage-1")["parameters"] == given


COMMAND = "python3 ../../../measure.py $WFCTL_PARAM_T ${WFCTL_PARAM_seed:-1} > fit.json"


def stage(number: int, parameters: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a stage of a plan."""
    return {"id": f"stage-{number}", "name": "A", "parameters": parameters, **fields}


def advice_on(place: Place, *stages: dict[str, Any], **fields: Any) -> list[str]:
    """Return the advice for a plan, and check that `plan check` and `init` both print it."""
    path = write_plan(place.path, {"workflow_id": "w", **fields, "stages": [*stages]})
    checked: list[str] = place.done("plan", "check", str(path))["advice"]
    begun = place.call("init", str(path), "--consent", "trust", "--dry-run")
    assert (begun.code, [line for line in checked if line not in begun.err]) == (0, [])
    return checked


def test_valid_plan_causes_no_advice(tmp_path: Path) -> None:
    """A parameter of a sweep that only a script reads causes no advice."""
    (tmp_path / "measure.py").write_text("import os; os.environ['WFCTL_PARAM_L']")
    grid = {"grid": {"T": [1, 2], "L": [8]}}
    sweep = {"command": COMMAND, "map": grid, "task_verify": "true", "verify": "true"}
    first = stage(
        1, sweep, inputs=["measure.py"], outputs=["stage-1/tasks.csv"], success_criteria="m < 1"
    )
    # A follower (a sweep that takes its points from stage-1) uses all values together, through the
    # folder of the matching task, so no value counts as unused.
    like = {"command": "cat $WFCTL_LIKE_FOLDER/m", "map": {"like": "stage-1"}}
    second = stage(
        2, like, depends_on=["stage-1"], inputs=["stage-1/tasks.csv"], outputs=["stage-2/tasks.csv"]
    )
    assert advice_on(Place(tmp_path), first, second) == []


def test_check_reports_stages_that_a_person_must_judge(tmp_path: Path) -> None:
    """`plan check` names stages with success criteria in words and no verify command."""
    (told,) = advice_on(Place(tmp_path), stage(1, {"command": "true"}, success_criteria="good"))
    assert "so `wfctl run` stops at this stage until a person has checked the results" in told


def test_check_reports_unused_and_undefined_sweep_values(tmp_path: Path) -> None:
    """`plan check` reports a map value without use and a used value without a map entry."""
    grid = {"command": COMMAND, "map": {"grid": {"temperature": [1, 2]}}}
    told = advice_on(Place(tmp_path), stage(1, grid, outputs=["stage-1/tasks.csv"]))
    assert len(told) == 2
    assert told[0].startswith("stage-1: parameters.command uses $WFCTL_PARAM_T, which has no")
    assert told[1].startswith("stage-1: the value temperature of the map has no effect")


def test_check_reports_a_stage_that_exceeds_the_session_budget(tmp_path: Path) -> None:
    """`plan check` reports a stage that `wfctl run` could never start within the budget."""
    first = stage(1, {"command": "true", "expected_seconds": 1})
    (told,) = advice_on(Place(tmp_path), first, session_config={"session_budget": 0.5})
    assert "Increase session_config.session_budget" in told
    assert "goes on" not in told


def test_check_reports_limits_that_end_a_loop_early(tmp_path: Path) -> None:
    """`plan check` reports a loop whose limits do not allow all its rounds."""

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


def test_check_accepts_pinned_scripts(tmp_path: Path) -> None:
    """`plan check` and `init` accept a plan with pinned scripts."""
    assert advice_on(Place(tmp_path), stage(1, {}), session_config={"pin": "scripts"}) == []


def test_missing_machine_of_a_profile_is_reported(tmp_path: Path) -> None:
    """`plan check` names profiles without a machine or with a missing machine file."""
    profiles = {"local": {"type": "local"}, "hpc": {"type": "remote", "config_path": "hpc.json"}}
    found = advice_on(Place(tmp_path), stage(1, {"command": "true"}), backend_profiles=profiles)
    assert [line.partition(": ")[0] for line in found] == ["local", "hpc"]
    assert "neither config nor config_path" in found[0]
    assert "hpc.json is missing" in found[1]


def test_check_that_is_not_a_string_is_reported(tmp_path: Path) -> None:
    """`plan check` reports `verify = true`, because bash would run the command ``True``."""
    [line] = advice_on(Place(tmp_path), stage(1, {"command": "true", "verify": True}))
    assert line == "stage-1: parameters.verify is True, not a string; bash runs `True`"


def test_check_reports_line_ends_and_files_of_points(
    tmp_path: Path,
) -> None:
    """`plan check` reports problems that would fail a later stage or stay unnoticed."""
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
    told = advice_on(Place(tmp_path), *sweeps, stage(3, {"command": "true\r\ntrue"}))
    name, digest, ends = told
    assert name == (
        "stage-1.parameters.map: the name 'a b' of point 1 is not valid. Use only letters, digits "
        "and _, because each task gets the value as WFCTL_PARAM_<name>"
    )
    assert digest.startswith("stage-2: points.csv: the map names another sha256; the file has")
    assert ends.startswith("stage-3: parameters.command has lines that end with a carriage return")


def test_check_asks_to_declare_a_data_file_that_a_check_reads(tmp_path: Path) -> None:
    """`plan check` asks this unless the file is a declared input or created by a stage."""
    place = Place(tmp_path)
    one = {
        "id": "stage-1",
        "name": "A",
        "outputs": ["stage-1/out.txt"],
        "success_criteria": "as the reference",
        "parameters": {"command": "echo 3 > out.txt", "verify": "python3 check.py"},
    }
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference/values.dat").write_text("3\n")
    (tmp_path / "stage-1").mkdir()
    (tmp_path / "stage-1/out.txt").write_text("3\n")
    (tmp_path / "check.py").write_text(
        "import sys\nnames = 'reference/values.dat', 'stage-1/out.txt'\n"
        "sys.exit(len({open(name).read() for name in names}) - 1)\n"
    )
    path = write_plan(tmp_path, {"workflow_id": "w", "stages": [one]})
    [advice] = place.done("plan", "check", str(path))["advice"]
    assert advice.startswith("stage-1: the check check.py names the file reference/values.dat")
    one["inputs"] = ["reference/values.dat"]
    path = write_plan(tmp_path, {"workflow_id": "w", "stages": [one]})
    assert place.done("plan", "check", str(path))["advice"] == []
