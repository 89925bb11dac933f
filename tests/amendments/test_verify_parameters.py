"""A new value of a parameter that only the verify command uses does not rerun the stage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place, write_plan
from tests.sweeps.looped import amended as amended_loop
from tests.sweeps.looped import give, plan
from tests.sweeps.support import amended, begun, lines, sweep

LIMIT = "WFCTL_PARAM_limit"


def _plain(folder: Path, **parameters: Any) -> dict[str, Any]:
    """Return a stage with the result 3, which records whether its command sees the limit."""
    command = f'echo "ran ${{{LIMIT}-without}}" >> {folder}/trace; echo 3 > out.txt'
    verify = f"[ $(cat stage-1/out.txt) -lt ${LIMIT} ]"
    own = {"command": command, "verify": verify, **parameters}
    return {"id": "stage-1", "name": "A", "outputs": ["stage-1/out.txt"], "parameters": own}


def _set_limit(place: Place, value: Any) -> dict[str, Any]:
    """Propose and approve another limit for the verify command, and return the proposal."""
    path = f"parameters.verify_parameters.limit={json.dumps(value)}"
    return amended_loop(place, "--stage", "stage-1", "--set", path)


@pytest.mark.slow
def test_new_limit_checks_a_result_again(
    tmp_path: Path,
) -> None:
    """The impact announces the check, and the command does not run again."""
    place = begun(tmp_path, _plain(tmp_path, verify_parameters={"limit": 4}))
    place.done("run")
    shown = _set_limit(place, 5)
    assert shown["impact"]["judged_again"] == ["stage-1"]
    assert shown["impact"]["computed_again"] == {}
    assert shown["impact"]["seconds_thrown_away"] == {}
    place.done("run")
    assert lines(tmp_path / "trace") == ["ran without"]
    assert place.done("show", "stage-1")["status"] == "completed"


@pytest.mark.slow
def test_failed_result_can_pass_a_new_limit(tmp_path: Path) -> None:
    """A stage whose result failed the old limit completes with this result."""
    place = begun(tmp_path, _plain(tmp_path, verify_parameters={"limit": 2}))
    assert place.call("run").code == 6
    _set_limit(place, 4)
    place.done("run")
    assert lines(tmp_path / "trace") == ["ran without"]


@pytest.mark.slow
def test_new_limit_of_task_verify_checks_tasks_again(
    tmp_path: Path,
) -> None:
    """Failed tasks pass without a new computation, and no task sees the limit."""
    check = f'[ "$(grep -o "[0-9]" e.json)" -lt ${LIMIT} ]'
    seen = f'echo "${{{LIMIT}-without}}" >> {tmp_path}/seen'
    grid = {"grid": {"T": [1, 2, 3]}}
    stage = sweep(tmp_path / "trace", grid, seen, task_verify=check, verify_parameters={"limit": 3})
    place = begun(tmp_path, stage)
    assert place.call("run").code == 6
    shown = amended(place, **{"verify_parameters.limit": 9})
    assert shown["impact"]["tasks"]["stage-1"]["computed"] == 0
    assert shown["impact"]["tasks"]["stage-1"]["judged"] == 3
    place.done("run")
    assert lines(tmp_path / "trace") == ["T=1", "T=2", "T=3"]
    assert lines(tmp_path / "seen") == ["without"] * 3
    assert place.done("show", "stage-1")["status"] == "completed"


@pytest.mark.long
@pytest.mark.slow
def test_new_limit_computes_no_task_of_earlier_rounds(tmp_path: Path) -> None:
    """The tasks of all rounds are checked again in their folders."""
    given = plan(tmp_path, is_last=True, at_most=2)
    own = {
        "task_verify": f"[ $(grep -c f f.json) -lt ${LIMIT} ]",
        "verify_parameters": {"limit": 2},
    }
    given["stages"][0]["parameters"] |= own
    place = Place(tmp_path / "root")
    place.path.mkdir()
    place.done("init", str(write_plan(tmp_path, given)), "--consent", "trust")
    give(tmp_path, 1, "x\n1\n")
    give(tmp_path, 2, "x\n2\n")
    place.done("run")
    before = lines(tmp_path / "trace")
    assert before == ["x=0", "x=1", "x=50"]
    amended_loop(place, "--stage", "run", "--set", "parameters.verify_parameters.limit=3")
    place.done("run")
    assert lines(tmp_path / "trace") == before


def test_verify_parameter_must_not_be_a_command_parameter(tmp_path: Path) -> None:
    """`plan check` also refuses names and values that cannot be environment variables."""
    own = {"limit": 1, "verify_parameters": {"limit": 2, "a-b": 1, "c": [1]}}
    place = Place(tmp_path)
    path = write_plan(tmp_path, {"workflow_id": "w", "stages": [_plain(tmp_path, **own)]})
    said = place.call("plan", "check", str(path)).err
    assert "verify_parameters.limit: the parameters of the command also contain limit" in said
    assert "verify_parameters.a-b: expected a name of letters" in said
    assert "verify_parameters.c: expected text, a number" in said


def test_plan_check_lists_parameters_of_the_verify_command(tmp_path: Path) -> None:
    """It suggests moving a parameter that only the verify command uses."""
    place = Place(tmp_path)
    stages = {"workflow_id": "w", "stages": [_plain(tmp_path, verify_parameters={"limit": 2})]}
    found = place.done("plan", "check", str(write_plan(tmp_path, stages)))
    assert found["parameters"]["stage-1"]["verify"] == ["limit"]
    assert found["advice"] == []
    stages["stages"] = [_plain(tmp_path, command="true", limit=2)]
    path = str(write_plan(tmp_path, stages))
    (advice,) = place.done("plan", "check", path)["advice"]
    assert "If you move limit to parameters.verify_parameters" in advice
    said = place.call("plan", "check", path).out
    assert "parameters of the command (a new value computes the stage again): limit" in said
