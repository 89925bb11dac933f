"""A job that was launched by hand, as the published protocol says, is taken over, never doubled."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place
from tests.keeping.support import made, stage
from tests.keeping.test_claims import edit
from tests.need import need_programs
from tests.reconciler.support import until

pytestmark = pytest.mark.slow
OUT = ["stage-1/a.txt"]
SESSION = "dpdisp_stage-1"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Make a workflow of one stage whose command leaves a trace, and a tmux of its own."""
    need_programs("tmux")
    # A socket's path may have a hundred letters.
    sockets = tempfile.mkdtemp(prefix="wfctl-tmux-")
    monkeypatch.setenv("TMUX_TMPDIR", sockets)
    monkeypatch.delenv("TMUX", raising=False)
    yield made(
        tmp_path, stage(1, "echo ours > ../../../../../../ours; echo hi > a.txt", outputs=OUT)
    )
    subprocess.run(["tmux", "kill-server"], capture_output=True, check=False)
    shutil.rmtree(sockets)


def launch(place: Place, code: int = 0, submission: dict[str, Any] | None = None) -> None:
    """Launch the stage's job as the protocol says; it computes until it is let go."""
    folder = place.path / "stage-1"
    folder.mkdir(exist_ok=True)
    given = {"work_base": "."} if submission is None else submission
    (folder / "submission.json").write_text(json.dumps(given))
    (folder / "dpdisp-run.sh").write_text(
        f"#!/bin/bash\ncd {place.path}\nwhile [ ! -e go ]; do sleep 0.05; done\n"
        f"[ {code} = 0 ] && echo by hand > stage-1/a.txt\n"
        f"echo {code} > stage-1/DPDISP_EXIT_CODE\ntouch stage-1/DPDISP_DONE\n"
    )
    command = ["tmux", "new-session", "-d", "-s", SESSION, "bash stage-1/dpdisp-run.sh"]
    subprocess.run(command, cwd=place.path, env=dict(os.environ), check=True)


def let_go(place: Place) -> None:
    """Let the job end, and wait until it has."""
    (place.path / "go").touch()
    until((place.path / "stage-1/DPDISP_DONE").exists)


def say_running(document: dict[str, Any]) -> None:
    """Edit status and process as the protocol says."""
    document["stages"][0]["status"] = "running"
    document["stages"][0]["running_process"] = {"tmux_session": SESSION}


def check_once(place: Place) -> None:
    """Check that the stage came to its end by the one attempt that was taken over."""
    found = place.done("show", "stage-1")
    assert (found["status"], len(found["attempts"])) == ("completed", 1)
    assert (place.path / "stage-1/a.txt").read_text() == "by hand\n"
    assert not (place.path / "ours").exists()


@pytest.mark.parametrize(
    "command",
    [("dispatch", "stage-1"), ("rehydrate",), ("reconcile",), ("stage", "launch", "stage-1")],
)
def test_a_job_that_was_launched_by_hand_is_taken_over(
    place: Place, command: tuple[str, ...]
) -> None:
    """By its session and what lies in the stage's folder; judged by the rows that an import has."""
    launch(place)
    place.done(*command)
    found = place.done("show", "stage-1")
    assert (found["status"], len(found["attempts"])) == ("running", 1)
    assert place.json("dispatch", "stage-1").code == 5
    (finding,) = place.done("reconcile")["findings"]
    assert finding["verdict"]["name"] == "SESSION_ALIVE"
    let_go(place)
    assert place.call("run").code == 0
    check_once(place)


def test_run_waits_for_a_job_that_was_launched_by_hand(place: Place) -> None:
    """Ended or not, it is not computed a second time."""
    launch(place)
    let_go(place)
    assert place.call("run").code == 0
    check_once(place)
    started = place.done("events", "--type", "attempt.started")
    assert [event["data"]["taken_over"] for event in started] == [True]


def test_a_job_that_failed_by_hand_has_failed_once(place: Place) -> None:
    """Its markers speak for it alone: a retry is ours."""
    launch(place, code=3)
    let_go(place)
    assert place.call("run").code == 6
    assert place.done("show", "stage-1")["status"] == "failed"
    place.done("stage", "retry", "stage-1", "--fix", "by wfctl now")
    (place.path / "stage-1/submission.json").unlink()
    assert place.call("run").code == 0
    assert (place.path / "ours").exists()


@pytest.mark.parametrize("ended", [False, True])
def test_an_edit_that_the_evidence_bears_out_is_adopted(place: Place, ended: bool) -> None:
    """Status and process follow from the attempt that was taken over."""
    launch(place)
    if ended:
        let_go(place)
    edit(place, say_running)
    place.done("drift", "adopt")
    expected = "post_processing" if ended else "running"
    assert place.done("show", "stage-1")["status"] == expected
    assert place.done("drift", "show")["changes"] == []
    let_go(place)
    assert place.call("run").code == 0
    check_once(place)


def test_an_edit_that_nothing_bears_out_is_refused(place: Place) -> None:
    """It says what was expected, and the stage stays as the log has it."""
    edit(place, say_running)
    answer = place.json("drift", "adopt")
    assert answer.code == 5
    assert "the tmux session dpdisp_stage-1 in this root" in answer.error["message"]
    assert place.done("show", "stage-1")["status"] == "ready"


def test_a_session_of_another_root_is_nothing_to_this_one(place: Place, tmp_path: Path) -> None:
    """Whatever it is called, it works elsewhere."""
    launch(place)
    other = made(tmp_path / "other", stage(1, "echo hi > a.txt", outputs=OUT))
    (other.path / "stage-1").mkdir()
    for name in ("submission.json", "dpdisp-run.sh"):
        (other.path / "stage-1" / name).write_text("{}")
    assert place.json("reconcile").code == 0
    assert other.done("reconcile")["findings"] == []
    let_go(place)


def test_a_deep_part_of_an_edit_is_adopted(place: Place) -> None:
    """A key of an object that came as a whole, too."""

    def change(document: dict[str, Any]) -> None:
        document["stages"][0]["parameters"]["new"] = {"x": 1, "y": 2}

    edit(place, change)
    place.done("drift", "adopt", "--only", "stage-1.parameters.new.x")
    (proposed,) = place.done("events", "--type", "amendment.proposed")
    assert json.dumps(proposed["data"]["changes"]) == '{"parameters": {"new": {"new": {"x": 1}}}}'


def submission(command: str, **resources: Any) -> dict[str, Any]:
    """Return a submission as somebody writes it by hand."""
    sent = {"command": command, "task_work_path": "stage-1", "forward_files": ["tool.sh"]}
    return {"work_base": ".", "resources": resources, "task_list": [sent]}


def planned(folder: Path) -> tuple[Place, str]:
    """Make a workflow of one stage with an input and a script, and resources that it names."""
    command = "bash tool.sh tol=1e-6 > a.txt"
    parameters = {"resource_overrides": {"cpu_per_node": 2}, "forward_files": ["tool.sh"]}
    one = stage(1, command, outputs=OUT, inputs=["in.txt"])
    one["parameters"] |= parameters
    place = made(folder, one)
    (place.path / "stage-1").mkdir(exist_ok=True)
    (place.path / "stage-1/tool.sh").write_text("echo by hand\n")
    (place.path / "in.txt").write_text("1\n")
    return place, command


def by_hand(place: Place, given: dict[str, Any]) -> Place:
    """Have the job launched by hand, and taken over by the next command."""
    launch(place, submission=given)
    place.done("reconcile")
    return place


def by_import(place: Place, given: dict[str, Any]) -> Place:
    """Have the job launched by hand, and the files imported as if there had been no log."""
    launch(place, submission=given)
    edit(place, say_running)
    shutil.rmtree(place.path / ".wfctl")
    place.done("import", str(place.path), "--consent", "trust")
    return place


ADOPTED = [by_hand, by_import]


@pytest.mark.few(2)
@pytest.mark.parametrize("adopted", ADOPTED)
@pytest.mark.parametrize(
    ("given", "field"),
    [
        (submission("bash tool.sh tol=1e-4 > a.txt"), "parameters.command"),
        (
            submission("bash tool.sh tol=1e-6 > a.txt", cpu_per_node=8),
            "resources.cpu_per_node",
        ),
    ],
)
def test_a_job_that_was_not_launched_as_defined_is_left_to_a_person(
    place: Place,
    tmp_path: Path,
    adopted: Callable[[Place, dict[str, Any]], Place],
    given: dict[str, Any],
    field: str,
) -> None:
    """It is told, its outputs are not taken, and the stage can be computed as defined instead."""
    place, command = planned(tmp_path / "planned")
    adopted(place, given)
    assert place.done("show", "stage-1")["launched_otherwise"] == {"att-0001": [field]}
    let_go(place)
    assert place.call("run").code == 6
    assert f"something else in {field}" in place.call("show", "stage-1").out
    for words in ((), ("--evidence", "It is good")):
        answer = place.json("stage", "complete", "stage-1", *words)
        assert (answer.code, answer.error["code"]) == (6, "submission_drift")
        assert answer.error["data"]["fields"] == [field]
    tried = place.json("audit", "bypasses").data
    assert {one["what"] for one in tried if one["kind"] == "refused"} == {"stage.completed"}
    place.done("stage", "fail", "stage-1", "--error", "not as defined")
    place.done("stage", "retry", "stage-1", "--fix", "as defined")
    (place.path / "stage-1/submission.json").unlink()
    place.done("run")
    assert place.done("show", "stage-1")["parameters"]["command"] == command


@pytest.mark.parametrize("adopted", ADOPTED)
def test_a_job_that_was_launched_as_defined_rests_on_what_it_read(
    place: Place, tmp_path: Path, adopted: Callable[[Place, dict[str, Any]], Place]
) -> None:
    """Its inputs, the files that it was sent and its scripts; a changed one makes it stale."""
    place, command = planned(tmp_path / "planned")
    adopted(place, submission(command, cpu_per_node=2, queue_name="fast"))
    let_go(place)
    place.done("run")
    found = place.done("show", "stage-1")
    (attempt,) = found["attempts"]
    assert (found["status"], attempt["taken_over"]) == ("completed", True)
    assert {one["path"] for one in attempt["inputs"]} == {"in.txt", "stage-1/tool.sh"}
    assert "stage-1/tool.sh" in attempt["scripts"]
    assert place.done("status")["stale"] == {}
    (place.path / "in.txt").write_text("2\n")
    assert list(place.done("status")["stale"]) == ["stage-1"]
    assert place.json("verify", "stage-1").code != 0


@pytest.mark.parametrize("adopted", ADOPTED)
def test_a_submission_that_was_edited_once_it_was_taken_over_is_not_believed(
    place: Place, tmp_path: Path, adopted: Callable[[Place, dict[str, Any]], Place]
) -> None:
    """What it was launched by is known by its digest."""
    place, command = planned(tmp_path / "planned")
    adopted(place, submission("bash tool.sh tol=1e-4 > a.txt"))
    (place.path / "stage-1/submission.json").write_text(json.dumps(submission(command)))
    let_go(place)
    assert place.call("run").code == 6
    answer = place.json("stage", "complete", "stage-1")
    assert (answer.code, answer.error["code"]) == (6, "submission_changed")
