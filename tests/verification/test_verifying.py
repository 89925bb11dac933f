"""wfctl runs every check before it completes a stage, and lists and records the checks."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from lifecycle.payload.models import Check
from tests.cli.support import Place, attempt_data, call, tree, write_plan

TABLE = "step,rg\n1,4.8\n2,4.9\n"


def computed(folder: Path, outputs: list[str], **parameters: Any) -> Place:
    """Create a workflow of one stage whose job is recorded as ended."""
    stage = {
        "id": "stage-1",
        "name": "Sample",
        "outputs": outputs,
        "success_criteria": parameters.pop("criteria", ""),
        "parameters": {"command": "true", **parameters},
    }
    plan = write_plan(folder, {"workflow_id": "rg-2026-03-31", "stages": [stage]})
    place = Place(folder / "root")
    (place.path / "stage-1").mkdir(parents=True)
    assert call("--root", str(place.path), "init", str(plan), "--consent", "trust").code == 0
    place.done("append", "attempt.started", "--data", attempt_data())
    place.done("stage", "compute", "stage-1")
    return place


def launched(place: Place) -> None:
    """Write the launch record of the attempt, whose file time is the time of the launch."""
    folder = place.path / "stage-1/.attempts/att-0001"
    folder.mkdir(parents=True)
    (folder / "launch.json").write_text(json.dumps({"root": str(place.path)}))


def write(place: Place, name: str, content: str) -> None:
    """Write a file in the folder of the stage."""
    path = place.path / "stage-1" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)


def checks(place: Place, code: int = 0) -> dict[str, Check]:
    """Run `stage verify`, check its exit code, and return the checks by name."""
    answer = place.json("stage", "verify", "stage-1")
    assert answer.code == code, answer
    assert answer.data["passed"] == (code == 0)
    found = [Check(**check) for check in answer.data["checks"]]
    return {check.name.removeprefix("stage-1/"): check for check in found}


def failed(place: Place) -> dict[str, str]:
    """Run `stage verify`, and return the details of the checks that failed."""
    return {name: check.detail for name, check in checks(place, 7).items() if not check.passed}


def test_row_that_is_not_utf_8_is_reported(tmp_path: Path) -> None:
    """wfctl escapes the invalid bytes of a row in the log, for files and files in folders."""
    place = computed(tmp_path, ["stage-1/rg.dat", "stage-1/all"])
    row = b"nan nan \xff\n"
    (place.path / "stage-1/rg.dat").write_bytes(row)
    (place.path / "stage-1/all").mkdir()
    Path(os.fsdecode(bytes(place.path / "stage-1/all") + b"/\xff.dat")).write_bytes(row)
    assert place.json("stage", "complete", "stage-1").code == 5
    assert failed(place)["rg.dat is finite"] == "line 1: nan nan \\udcff"


def test_all_checks_are_listed(tmp_path: Path) -> None:
    """`stage verify` also lists checks that passed, with their details and warnings."""
    place = computed(tmp_path, ["stage-1/rg.csv"], verify="echo R_g = 4.85")
    launched(place)
    write(place, "rg.csv", TABLE)
    write(place, "err", "WARNING: bond is long\n0 errors\n")
    found = checks(place)
    assert {name: check.detail for name, check in found.items()} == {
        "rg.csv exists": "file",
        "rg.csv is not empty": f"{len(TABLE)} bytes",
        "rg.csv is newer than the launch": "",
        "rg.csv reads as CSV": "3 rows of 2",
        "rg.csv is finite": "",
        "err was looked through": "no error lines, 1 warning line",
        "verify": "exit 0: R_g = 4.85",
    }
    assert found["err was looked through"].findings == ["line 1: WARNING: bond is long"]


def test_stage_verify_writes_nothing(tmp_path: Path) -> None:
    """`stage verify` changes no file, even if a check fails."""
    place = computed(tmp_path, ["stage-1/rg.csv"])
    before = tree(place.path)
    assert failed(place) == {"rg.csv exists": "it is missing"}
    assert tree(place.path) == before


def test_text_output_has_a_line_for_each_check(tmp_path: Path) -> None:
    """The last line of `stage verify` has the number of failed checks."""
    place = computed(tmp_path, ["stage-1/rg.csv", "stage-1/x.bin"])
    write(place, "rg.csv", TABLE.replace("4.9", "nan"))
    told = place.call("stage", "verify", "stage-1")
    assert "FAILED  stage-1/rg.csv is finite" in told.out
    assert "nan in column 2, line 3" in told.out
    assert told.out.endswith("2 failed\n")


def test_output_older_than_the_launch_is_refused(tmp_path: Path) -> None:
    """The check fails, because this attempt cannot have written the output."""
    place = computed(tmp_path, ["stage-1/rg.csv"])
    write(place, "rg.csv", TABLE)
    launched(place)
    assert failed(place) == {"rg.csv is newer than the launch": "the file is older than the launch"}


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"ro'])
def test_damaged_launch_record_is_not_used_for_comparison(tmp_path: Path, content: str) -> None:
    """If the launch record is damaged, the check does not compare file times."""
    place = computed(tmp_path, ["stage-1/rg.csv"])
    write(place, "rg.csv", TABLE)
    launched(place)
    (place.path / "stage-1/.attempts/att-0001/launch.json").write_text(content)
    found = checks(place)["rg.csv is newer than the launch"]
    assert found.detail == "not compared: the time of the launch is not recorded"


def test_new_file_with_an_old_modification_time_is_noted(tmp_path: Path) -> None:
    """The check passes with a remark: `cp -p` or `wget` creates such files."""
    place = computed(tmp_path, ["stage-1/rg.csv"])
    launched(place)
    write(place, "rg.csv", TABLE)
    os.utime(place.path / "stage-1/rg.csv", (0, 0))
    (remark,) = checks(place)["rg.csv is newer than the launch"].findings
    assert remark == "created after the launch, but last modified 1970-01-01T00:00:00Z"


def test_every_file_of_an_output_folder_is_checked(tmp_path: Path) -> None:
    """The failed checks name each broken file in the folder."""
    place = computed(tmp_path, ["stage-1/frames"])
    write(place, "frames/1.json", "{}")
    write(place, "frames/2.json", "{")
    write(place, "frames/3.dat", "1 inf\n")
    found = failed(place)
    assert found["frames can be read"].startswith("2.json: parse error: premature EOF")
    assert found["frames is finite"] == "3.dat: line 1: 1 inf"


def test_verify_command_runs_after_the_file_checks(tmp_path: Path) -> None:
    """If a file check fails, the verify command does not run on the broken file."""
    place = computed(tmp_path, ["stage-1/rg.csv"], verify="touch asked")
    write(place, "rg.csv", "step,rg\n1,4.")
    assert "verify" not in checks(place, 7)
    assert not (place.path / "asked").exists()
    write(place, "rg.csv", TABLE)
    assert "verify" in checks(place)


def test_completion_event_records_the_checks(tmp_path: Path) -> None:
    """The event has all checks, and the digest of each output."""
    place = computed(tmp_path, ["stage-1/rg.csv"], verify="true")
    write(place, "rg.csv", TABLE)
    events = place.done("stage", "complete", "stage-1")["events"]
    data = events[0]["data"]
    assert [check["name"] for check in data["checks"]] == [
        check.name if check.name == "verify" else f"stage-1/{check.name}"
        for check in map(short, data["checks"])
    ]
    digest = hashlib.sha256(TABLE.encode()).hexdigest()
    assert data["outputs"] == [{"path": "stage-1/rg.csv", "size": len(TABLE), "sha256": digest}]


def short(check: dict[str, Any]) -> Check:
    """Return a check whose name has no stage id as prefix."""
    return Check(**{**check, "name": check["name"].removeprefix("stage-1/")})


def test_failed_check_prevents_completion(tmp_path: Path) -> None:
    """`stage complete` refuses even with evidence, and names the failed check."""
    place = computed(tmp_path, ["stage-1/rg.json"])
    write(place, "rg.json", '{"rg": NaN}')
    answer = place.json("stage", "complete", "stage-1", "--evidence", "I trust it")
    assert answer.code == 5
    assert answer.error["data"]["failed_checks"] == ["stage-1/rg.json reads as JSON"]
    assert "JSON does not allow NaN" in answer.error["message"]


@pytest.mark.parametrize("actor", ["agent:helper", "user:ada"])
def test_criteria_in_prose_require_evidence_and_a_named_judge(tmp_path: Path, actor: str) -> None:
    """`stage complete` needs evidence, and the event names the person or agent as judge."""
    place = computed(tmp_path, ["stage-1/rg.csv"], criteria="the curve is smooth")
    write(place, "rg.csv", TABLE)
    assert place.json("stage", "complete", "stage-1").code == 6
    line = ["stage", "complete", "stage-1", "--evidence", "no jump in the plot"]
    data = place.done("--actor", actor, *line)["events"][0]["data"]
    assert (data["judged_by"], data["evidence"]) == (actor, "no jump in the plot")


def test_log_file_alone_does_not_complete_a_stage(tmp_path: Path) -> None:
    """A stage without outputs and without a verify command needs evidence from a judge."""
    place = computed(tmp_path, [])
    write(place, "log", "all is well\n")
    assert place.json("stage", "complete", "stage-1").code == 5
    assert place.json("stage", "complete", "stage-1", "--evidence", "the log").code == 0


@pytest.mark.slow
def test_run_verifies_the_outputs_of_a_job(tmp_path: Path) -> None:
    """A job writes an incomplete table, so its stage fails, and the event has all checks."""
    command = "printf 'step,rg\\n1,4.8\\n2' > rg.csv; echo 'ERROR: disk' >&2"
    stage = {"id": "stage-1", "name": "Sample", "outputs": ["stage-1/rg.csv"]}
    plan = {"workflow_id": "w", "stages": [{**stage, "parameters": {"command": command}}]}
    place = Place(tmp_path / "root")
    place.path.mkdir()
    assert place.call("init", str(write_plan(tmp_path, plan)), "--consent", "trust").code == 0
    assert place.json("run").code == 6
    (event,) = place.done("events", "--type", "stage.failed")
    found = {check["name"]: check for check in event["data"]["checks"]}
    assert found["stage-1/rg.csv is newer than the launch"]["passed"]
    assert not found["stage-1/rg.csv reads as CSV"]["passed"]
    assert found["stage-1/err was looked through"]["findings"] == ["line 1: ERROR: disk"]
    state = json.loads((place.path / "workflow-state.json").read_text())
    assert "the lines before have 2" in state["stages"][0]["last_error"]


def test_printed_number_of_checks_matches_the_event(tmp_path: Path) -> None:
    """If the plan names an output twice, the text and the event count its checks twice."""
    place = computed(tmp_path, ["stage-1/rg.csv"] * 2, criteria="R_g is known")
    launched(place)
    write(place, "rg.csv", TABLE)
    said = place.call("stage", "complete", "stage-1", "--evidence", "seen").out
    (event,) = place.done("events", "--type", "stage.completed")
    assert f"; {len(event['data']['checks'])} checks of its files passed" in said
