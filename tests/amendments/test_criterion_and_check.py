"""A criterion and the command that checks it are one decision."""

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
    """Return a workflow whose one stage was run, and is judged by a limit."""
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
def test_one_amendment_changes_both_and_judges_again(
    tmp_path: Path, limit: int, status: str
) -> None:
    """Its impact says so; what was computed is judged by the new limit, and not computed again."""
    place = begun(tmp_path, limit)
    assert place.done("status")["stages"][0]["status"] == status
    said = place.call("amend", "propose", *BOTH, "--reason", "the limit was a guess")
    assert (said.code, "Judged again: stage-1" in said.out) == (0, True), said
    amendment = place.done("amend", "show", "amend-1")["amendment"]
    assert amendment["type"] == "parameter_change"
    assert set(amendment["changes"]) == {"parameters", "success_criteria"}
    place.done("amend", "approve", "amend-1")
    assert place.json("run").code == 0
    assert place.done("status")["stages"][0]["status"] == "completed"
    assert (tmp_path / "trace").read_text() == "ran\n"
    assert place.call("fsck", "--protocol").code == 0


@pytest.mark.slow
def test_a_change_of_both_and_of_the_command_is_computed_again(tmp_path: Path) -> None:
    """One amendment may hold all three, and its impact tells that."""
    place = begun(tmp_path, 5)
    command = f"--set=parameters.command=echo 0 > out.txt; echo anew >> {tmp_path}/trace"
    said = place.call("amend", "propose", *BOTH, command, "--reason", "other units")
    assert "Computed again: stage-1" in said.out or "computed again" in said.out.lower(), said
    place.done("amend", "approve", "amend-1")
    assert place.json("run").code == 0
    assert (tmp_path / "trace").read_text() == "ran\nanew\n"


def test_a_criteria_change_says_which_type_changes_both(tmp_path: Path) -> None:
    """Asked for by its name it is refused, and the refusal leads on."""
    place = begun(tmp_path, 5)
    words = ("amend", "propose", "--type", "criteria_change", *BOTH, "--reason", "x")
    refused = place.json(*words)
    assert "a parameter_change changes both" in refused.error["message"]
