"""wfctl takes over a job that a user started by hand, and does not compute the stage again."""

from __future__ import annotations

import json
import os
import shlex
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
    """Make a workflow of one stage on a separate tmux server.

    The stage's own command writes the file `ours`, which shows whether wfctl ran the command.
    """
    need_programs("tmux")
    # A long temporary folder could exceed the limit of about 100 characters for a socket's path.
    sockets = tempfile.mkdtemp(prefix="wfctl-tmux-")
    monkeypatch.setenv("TMUX_TMPDIR", sockets)
    monkeypatch.delenv("TMUX", raising=False)
    yield made(
        tmp_path, stage(1, "echo ours > ../../../../../../ours; echo hi > a.txt", outputs=OUT)
    )
    subprocess.run(["tmux", "kill-server"], capture_output=True, check=False)
    shutil.rmtree(sockets)


def launch(place: Place, code: int = 0, submission: dict[str, Any] | None = None) -> None:
    """Start the stage's job in tmux by hand; the job waits until a file `go` exists."""
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
    """Create the file `go` for which the job waits, and wait until the job has ended."""
    (place.path / "go").touch()
    until((place.path / "stage-1/DPDISP_DONE").exists)


def say_running(document: dict[str, Any]) -> None:
    """Enter the status `running` and the tmux session into the state file, like a user."""
    document["stages"][0]["status"] = "running"
    document["stages"][0]["running_process"] = {"tmux_session": SESSION}


def check_once(place: Place) -> None:
    """Check that the job launched by hand completed the stage and is its only attempt."""
    found = place.done("show", "stage-1")
    assert (found["status"], len(found["attempts"])) == ("completed", 1)
    assert (place.path / "stage-1/a.txt").read_text() == "by hand\n"
    assert not (place.path / "ours").exists()


@pytest.mark.parametrize(
    "command",
    [("dispatch", "stage-1"), ("rehydrate",), ("reconcile",), ("stage", "launch", "stage-1")],
)
def test_job_launched_by_hand_is_taken_over(place: Place, command: tuple[str, ...]) -> None:
    """wfctl finds the job by its tmux session and its files, and records it as an attempt."""
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


def test_run_collects_a_job_launched_by_hand(place: Place) -> None:
    """If the job ended before `wfctl run`, the run uses its outputs and starts no second job."""
    launch(place)
    let_go(place)
    assert place.call("run").code == 0
    check_once(place)
    started = place.done("events", "--type", "attempt.started")
    assert [event["data"]["taken_over"] for event in started] == [True]


def test_failed_job_launched_by_hand_is_retried_by_wfctl(place: Place) -> None:
    """After `stage retry`, wfctl runs the stage and ignores the failed job's marker files."""
    launch(place, code=3)
    let_go(place)
    assert place.call("run").code == 6
    assert place.done("show", "stage-1")["status"] == "failed"
    place.done("stage", "retry", "stage-1", "--fix", "by wfctl now")
    (place.path / "stage-1/submission.json").unlink()
    assert place.call("run").code == 0
    assert (place.path / "ours").exists()


@pytest.mark.parametrize("ended", [False, True])
def test_manual_status_edit_with_evidence_is_adopted(place: Place, ended: bool) -> None:
    """If a user's job exists, `drift adopt` gives the stage the status of this job."""
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


def test_manual_status_edit_without_evidence_is_refused(place: Place) -> None:
    """Without a tmux session, `drift adopt` refuses a status of `running` and names the session."""
    edit(place, say_running)
    answer = place.json("drift", "adopt")
    assert answer.code == 5
    assert "the tmux session dpdisp_stage-1 in this root" in answer.error["message"]
    assert place.done("show", "stage-1")["status"] == "ready"


def test_session_of_another_root_is_ignored(place: Place, tmp_path: Path) -> None:
    """wfctl ignores a tmux session with the expected name that works in another root's folder."""
    launch(place)
    other = made(tmp_path / "other", stage(1, "echo hi > a.txt", outputs=OUT))
    (other.path / "stage-1").mkdir()
    for name in ("submission.json", "dpdisp-run.sh"):
        (other.path / "stage-1" / name).write_text("{}")
    assert place.json("reconcile").code == 0
    assert other.done("reconcile")["findings"] == []
    let_go(place)


def test_nested_key_of_a_new_object_can_be_adopted(place: Place) -> None:
    """If an edit adds an object, `drift adopt --only` can adopt a single key of that object."""

    def change(document: dict[str, Any]) -> None:
        document["stages"][0]["parameters"]["new"] = {"x": 1, "y": 2}

    edit(place, change)
    place.done("drift", "adopt", "--only", "stage-1.parameters.new.x")
    (proposed,) = place.done("events", "--type", "amendment.proposed")
    assert json.dumps(proposed["data"]["changes"]) == '{"parameters": {"new": {"new": {"x": 1}}}}'


def submission(command: str, **resources: Any) -> dict[str, Any]:
    """Return the content of a submission.json file as a user would write it."""
    sent = {"command": command, "task_work_path": "stage-1", "forward_files": ["tool.sh"]}
    return {"work_base": ".", "resources": resources, "task_list": [sent]}


def planned(folder: Path) -> tuple[Place, str]:
    """Make a workflow of one stage with an input, a script, and declared resources."""
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
    """Start the job by hand, and run `wfctl reconcile`, which takes over the job."""
    launch(place, submission=given)
    place.done("reconcile")
    return place


def by_import(place: Place, given: dict[str, Any]) -> Place:
    """Start the job by hand, delete wfctl's log, and import the workflow from its files."""
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
def test_job_launched_with_other_values_waits_for_a_person(
    place: Place,
    tmp_path: Path,
    adopted: Callable[[Place, dict[str, Any]], Place],
    given: dict[str, Any],
    field: str,
) -> None:
    """wfctl does not accept outputs of a command or resources that differ from the plan.

    A person can let the attempt fail and compute the stage as planned.
    """
    place, command = planned(tmp_path / "planned")
    adopted(place, given)
    assert place.done("show", "stage-1")["launched_otherwise"] == {"att-0001": [field]}
    let_go(place)
    assert place.call("run").code == 6
    assert (
        f"was launched with values that differ from the plan: {field}"
        in place.call("show", "stage-1").out
    )
    for words in ((), ("--evidence", "It is good")):
        answer = place.json("stage", "complete", "stage-1", *words)
        assert (answer.code, answer.error["code"]) == (6, "submission_drift")
        assert answer.error["data"]["fields"] == [field]
    answer = place.json("status")
    actions = json.loads(answer.out)["next_actions"]
    (action,) = (one for one in actions if "stage-1" in one["command"])
    assert action["command"].startswith("wfctl stage fail stage-1 --error"), action
    assert field in action["reason"]
    tried = place.json("audit", "bypasses").data
    assert {one["what"] for one in tried if one["kind"] == "refused"} == {"stage.completed"}
    place.done(*shlex.split(action["command"])[1:])
    place.done("stage", "retry", "stage-1", "--fix", "as defined")
    (place.path / "stage-1/submission.json").unlink()
    place.done("run")
    assert place.done("show", "stage-1")["parameters"]["command"] == command


@pytest.mark.parametrize("adopted", ADOPTED)
def test_job_launched_by_hand_records_its_inputs(
    place: Place, tmp_path: Path, adopted: Callable[[Place, dict[str, Any]], Place]
) -> None:
    """wfctl records inputs, sent files and scripts; a later change makes the stage stale."""
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
def test_submission_edited_after_the_takeover_is_refused(
    place: Place, tmp_path: Path, adopted: Callable[[Place, dict[str, Any]], Place]
) -> None:
    """wfctl records the digest of submission.json at the takeover, and detects a later edit."""
    place, command = planned(tmp_path / "planned")
    adopted(place, submission("bash tool.sh tol=1e-4 > a.txt"))
    (place.path / "stage-1/submission.json").write_text(json.dumps(submission(command)))
    let_go(place)
    assert place.call("run").code == 6
    answer = place.json("stage", "complete", "stage-1")
    assert (answer.code, answer.error["code"]) == (6, "submission_changed")
