"""One amendment can change the success criteria and the verify command of a stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place, write_plan

BOTH = (
    "--stage",
    "stage-1",
    "--set",
    "success_criteria=slope below 2",
    "--set",
    "parameters.verify=test $(cat stage-1/out.txt) -lt 2",
)


def begun(folder: Path, limit: int) -> Place:
    """Return a workflow whose only stage ran and was checked against a limit."""
    stage: dict[str, Any] = {
        "id": "stage-1",
        "name": "Fit",
        "outputs": ["stage-1/out.txt"],
        "success_criteria": f"slope below {limit}",
        "parameters": {
            "command": f"echo 1 > out.txt; echo ran >> {folder}/trace",
            "verify": f"test $(cat stage-1/out.txt) -lt {limit}",
        },
    }
    place = Place(folder / "root")
    place.path.mkdir()
    plan = write_plan(folder, {"workflow_id": "w", "stages": [stage]})
    assert place.call("init", str(plan), "--consent", "trust").code == 0
    place.json("run")
    return place


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "status"), [(1, "failed"), (5, "completed")])
def test_changed_criteria_and_check_judge_the_result_again(
    tmp_path: Path, limit: int, status: str
) -> None:
    """The existing result is checked again, and the stage's command does not run again."""
    place = begun(tmp_path, limit)
    assert place.done("status")["stages"][0]["status"] == status
    said = place.call("amend", "propose", *BOTH, "--reason", "the limit was a guess")
    assert (said.code, "Checked again: stage-1" in said.out) == (0, True), said
    amendment = place.done("amend", "show", "amend-1")["amendment"]
    assert amendment["type"] == "parameter_change"
    assert set(amendment["changes"]) == {"parameters", "success_criteria"}
    place.done("amend", "approve", "amend-1")
    assert place.json("run").code == 0
    assert place.done("status")["stages"][0]["status"] == "completed"
    assert (tmp_path / "trace").read_text() == "ran\n"
    assert place.call("fsck", "--protocol").code == 0


@pytest.mark.long
@pytest.mark.slow
def test_changed_command_with_criteria_runs_again(tmp_path: Path) -> None:
    """A change of command, check and criteria runs the stage again, as the impact says."""
    place = begun(tmp_path, 5)
    command = f"--set=parameters.command=echo 0 > out.txt; echo anew >> {tmp_path}/trace"
    said = place.call("amend", "propose", *BOTH, command, "--reason", "other units")
    assert "Runs again from the start: stage-1" in said.out, said
    place.done("amend", "approve", "amend-1")
    assert place.json("run").code == 0
    assert (tmp_path / "trace").read_text() == "ran\nanew\n"


def test_criteria_change_of_parameters_names_the_right_type(tmp_path: Path) -> None:
    """A criteria_change of parameters is refused, and the error suggests parameter_change."""
    place = begun(tmp_path, 5)
    words = ("amend", "propose", "--type", "criteria_change", *BOTH, "--reason", "x")
    refused = place.json(*words)
    assert "a parameter_change to change both" in refused.error["message"]
