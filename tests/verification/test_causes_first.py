"""Every view of a failure shows the line with its cause first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place

RAISES = "python3 -c 'import sys; sys.exit(int(\"many\"))'"
LAMMPS = "echo 'ERROR: Unknown pair style lj/cutt (src/force.cpp:275)'; echo Last; exit 1"
DRIFTS = "echo reading; echo the energy drifts by 0.3; exit 3"
CHECKED = "echo 1 > out.txt"
OUT = ["stage-1/out.txt"]
CAUSES: dict[str, tuple[str, dict[str, Any]]] = {
    "ValueError: invalid literal for int() with base 10: 'many'; exit code 1": (RAISES, {}),
    "ERROR: Unknown pair style lj/cutt (src/force.cpp:275); exit code 1": (LAMMPS, {}),
    "verification failed: verify: the energy drifts by 0.3": (CHECKED, {"verify": DRIFTS}),
    "verification failed: verify: ValueError: invalid literal for int() with base 10: 'many'": (
        CHECKED,
        {"verify": RAISES},
    ),
}


def run(folder: Path, stage: dict[str, Any]) -> Place:
    """Create a workflow of one stage, and run it until it fails."""
    folder.mkdir(exist_ok=True)
    entry = {"id": "stage-1", "name": "Run", **stage}
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"workflow_id": "w", "stages": [entry]}))
    place = Place(folder / "root")
    place.path.mkdir()
    assert place.call("init", str(plan), "--consent", "trust").code == 0
    assert place.json("run").code == 6
    return place


def told(place: Place) -> dict[str, str]:
    """Return the text in which each view describes the failure, by the name of the view."""
    (shown,) = place.done("status")["stages"]
    (item,) = [one for one in place.done("status")["account"] if one["kind"] == "failure"]
    return {
        "last_error": shown["last_error"],
        "status": place.call("status").out,
        "log": place.log(),
        "why": place.call("why", "stage-1").out,
        "account": json.dumps(item),
        "blocked": place.call("run").out,
        "diagnose": place.call("stage", "diagnose", "stage-1").out,
    }


@pytest.mark.slow
@pytest.mark.parametrize("cause", CAUSES)
def test_cause_is_the_first_line_of_an_error(tmp_path: Path, cause: str) -> None:
    """The error is one line without a traceback, and the event keeps the whole output."""
    command, more = CAUSES[cause]
    place = run(tmp_path, {"outputs": OUT, "parameters": {"command": command, **more}})
    found = told(place)
    assert found["last_error"].startswith(cause), found
    assert "\n" not in found["last_error"]
    line = cause.removeprefix("verification failed: ").partition("; exit")[0]
    for name, text in found.items():
        assert line[:60] in text, (name, text)
        assert "Traceback" not in text or name == "diagnose", (name, text)
    (event,) = place.done("events", "--type", "stage.failed")
    whole = event["data"]["output"]
    assert ("Traceback (most recent call last)" in whole) is ("many" in cause)
    assert whole.splitlines()[-1] in found["diagnose"]


@pytest.mark.long
@pytest.mark.slow
def test_failed_sweep_shows_the_errors_of_its_tasks(tmp_path: Path) -> None:
    """The task list, the stage's error and the diagnosis show the errors of the tasks."""
    raises = "python3 -c \"import sys; sys.exit(int(sys.argv[1]) and int('many'))\" $WFCTL_PARAM_T"
    verify = "test $WFCTL_PARAM_T != 0 || { echo T is 0, and that is no temperature; exit 4; }"
    parameters = {
        "command": f"echo 1 > e.txt; {raises}",
        "map": {"grid": {"T": [0, 1, 2]}},
        "task_outputs": ["e.txt"],
        "task_verify": verify,
    }
    place = run(tmp_path, {"outputs": ["stage-1/tasks.csv"], "parameters": parameters})
    cause = "ValueError: invalid literal for int() with base 10: 'many' (exit 1)"
    tasks = {row["key"]: row["why"] for row in place.done("tasks", "stage-1", "--failed")["tasks"]}
    judged = "task_verify: T is 0, and that is no temperature (exit 4)"
    assert tasks == {"T=0": judged, "T=1": cause, "T=2": cause}
    found = told(place)
    assert found["last_error"].startswith(f"{cause} in 2 tasks")
    for name, text in found.items():
        assert cause[:60] in text, (name, text)
    known = place.done("stage", "diagnose", "stage-1")
    assert known["category"] == "input"
    assert [line.partition(" (")[0] for line in known["tasks"]][-1] == f"T=0: {judged[:-9]}"
    assert "Traceback" in known["output"]
    assert place.call("replay", "--check").code == 0
    assert place.call("fsck", "--protocol").code == 0


def test_pasted_traceback_is_shortened_and_kept(tmp_path: Path) -> None:
    """`stage fail --error` shows the last line of a traceback, and the event keeps all lines."""
    place = Place(tmp_path)
    plan = {"workflow_id": "w", "stages": [{"id": "stage-1", "name": "Run"}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    assert place.call("init", str(tmp_path / "plan.json"), "--consent", "trust").code == 0
    place.done("stage", "prepare", "stage-1")
    text = "Traceback (most recent call last):\n  File a\nValueError: no column T"
    place.done("stage", "fail", "stage-1", "--error", text)
    (event,) = place.done("events", "--type", "stage.failed")
    assert (event["data"]["error"], event["data"]["output"]) == ("ValueError: no column T", text)
