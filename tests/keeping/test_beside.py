"""Files that a user puts into a stage's folder before the dispatch are sent to the job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place
from tests.keeping.support import made, recorded, stage

pytestmark = pytest.mark.slow
OUT = ["stage-1/a.txt"]


def with_scripts(folder: Path, **fields: Any) -> Place:
    """Return a workflow whose command runs scripts in the folder of its stage."""
    command = "bash 'my run.sh' > a.txt"
    place = made(folder, stage(1, command, outputs=OUT, **fields))
    (place.path / "stage-1/lib").mkdir(parents=True)
    (place.path / "stage-1/my run.sh").write_text(". lib/[x].sh; cat log.in")
    (place.path / "stage-1/lib/[x].sh").write_text("echo lib\n")
    (place.path / "stage-1/log.in").write_text("in\n")
    (place.path / "stage-1/.hidden").write_text("mine\n")
    return place


def test_files_in_the_stage_folder_are_sent_to_the_job(tmp_path: Path) -> None:
    """wfctl sends scripts and data, also from subfolders, and records them as inputs."""
    place = with_scripts(tmp_path)
    assert place.call("run").code == 0
    assert (place.path / "stage-1/a.txt").read_text() == "lib\nin\n"
    (started,) = place.done("events", "--type", "attempt.started")
    inputs = {one["path"] for one in started["data"]["inputs"]}
    assert inputs == {f"stage-1/{name}" for name in ("my run.sh", "lib/[x].sh", "log.in")}
    assert recorded(place) == {}
    (place.path / "stage-1/lib/[x].sh").write_text("echo other\n")
    assert list(place.done("status")["stale"]) == ["stage-1"]


@pytest.mark.long
def test_retry_sends_no_result_of_an_earlier_attempt(tmp_path: Path) -> None:
    """Before the retry, wfctl moves the first job's files aside; the user's own file is sent."""
    command = "cat extra; test ! -e made; r=$?; echo 1 > made; echo hi > a.txt; exit $r"
    command = f"test -e ../../../../../../go || {{ echo 1 > made; exit 3; }}; {command}"
    place = made(tmp_path, stage(1, command, outputs=OUT))
    (place.path / "stage-1").mkdir()
    (place.path / "stage-1/extra").write_text("x\n")
    assert place.call("run").code == 6
    (place.path / "go").touch()
    place.done("stage", "retry", "stage-1", "--fix", "made go")
    assert place.call("run").code == 0
    assert (place.path / "stage-1/log").read_text() == "x\n"


def test_empty_forward_files_sends_no_file(tmp_path: Path) -> None:
    """If a plan sets `forward_files` to an empty list, wfctl sends no file of the folder."""
    place = with_scripts(tmp_path, parameters={"forward_files": []})
    assert place.call("run").code == 6
    assert "my run.sh" in (place.path / "stage-1/err").read_text()


def test_large_file_in_the_stage_folder_is_refused(tmp_path: Path) -> None:
    """wfctl refuses to dispatch the stage, and suggests to list the files in `forward_files`."""
    place = with_scripts(tmp_path)
    with (place.path / "stage-1/data").open("wb") as file:
        file.truncate(10**9)
    answer = place.json("dispatch", "stage-1")
    assert (answer.code, answer.error["code"]) == (5, "too_much_beside")
    assert "parameters.forward_files" in answer.error["message"]
    assert "attempt.started" not in place.types()
