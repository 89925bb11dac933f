"""Scripts that a stage runs: wfctl reports a changed script, or refuses a pinned one."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.amendments.support import LONGER, Place

PLAN: dict[str, Any] = {
    "workflow_id": "melt-2026-03-31",
    "session_config": {"session_budget": 100},
    "stages": [
        {
            "id": "stage-1",
            "name": "Build",
            "inputs": ["build.py"],
            "outputs": ["stage-1/out.txt"],
            "parameters": {
                "command": "echo $WFCTL_PARAM_n > out.txt",
                "verify": "bash check.sh",
                "n": 1,
            },
        },
        {
            "id": "stage-2",
            "name": "Look",
            "depends_on": ["stage-1"],
            "outputs": ["stage-2/out.txt"],
            "parameters": {"command": "echo 2 > out.txt"},
        },
    ],
}
FILES = ("build.py", "check.sh", "init.sh")


def begun(folder: Path, **config: Any) -> Place:
    """Create a workflow whose scripts do nothing and exit successfully."""
    root = folder / "root"
    plan = {**PLAN, "session_config": {**PLAN["session_config"], **config}}
    root.mkdir()
    for name in FILES:
        (root / name).write_text("exit 0\n")
    return make_in(root, plan)


def make_in(root: Path, plan: dict[str, Any]) -> Place:
    """Create a workflow in an existing folder."""
    from tests.cli.support import call, write_plan

    source = write_plan(root.parent, plan)
    answer = call("--root", str(root), "init", str(source), "--consent", "trust")
    assert answer.code == 0, answer
    return Place(root)


def told(place: Place) -> str:
    """Return the warnings that `status` prints."""
    found: list[str] = place.done("status")["consent"]["warnings"]
    return "\n".join(found)


@pytest.mark.parametrize("way", ["init", "import"])
@pytest.mark.parametrize("name", FILES)
def test_script_changed_before_the_first_attempt_is_reported(
    name: str, way: str, tmp_path: Path
) -> None:
    """The digest of each script is recorded when the workflow is created."""
    place = begun(tmp_path)
    if way == "import":
        shutil.rmtree(place.path / ".wfctl")
        place.done("import", str(place.path))
    assert "check.sh" not in told(place)
    (place.path / name).write_text("exit 1\n")
    assert f"{name}: changed since the workflow was created" in told(place)


def test_changed_file_in_the_command_of_a_sweep_is_reported(tmp_path: Path) -> None:
    """The path is relative to the task folder, which is deeper than the stage folder."""
    command = "solve -in ../../../model.run -x $WFCTL_PARAM_x > out.txt"
    parameters = {"command": command, "map": {"grid": {"x": [1, 2]}}}
    sweep: dict[str, Any] = {"id": "stage-1", "name": "Solve", "parameters": parameters}
    sweep["outputs"] = ["stage-1/tasks.csv"]
    root = tmp_path / "root"
    root.mkdir()
    (root / "model.run").write_text("first\n")
    place = make_in(root, {"workflow_id": "sweep", "stages": [sweep]})
    (root / "model.run").write_text("second\n")
    assert "model.run: changed since the workflow was created" in told(place)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_script_changed_after_a_completed_stage_is_reported(name: str, tmp_path: Path) -> None:
    """The warning names the script and the attempt that ran with the old content."""
    place = begun(tmp_path)
    place.done("dispatch", "stage-1", "--sync")
    place.done("stage", "complete", "stage-1", "--evidence", "looked at it")
    assert name not in told(place)
    (place.path / name).write_text("exit 0 # and more\n")
    assert f"{name}: changed since stage-1 att-0001 started" in told(place)
    assert name in place.call("run", "--dry-run").out or name in place.call("status").out


def test_script_changed_after_an_approval_is_reported(tmp_path: Path) -> None:
    """An approval covers the content of scripts, so a later change is reported."""
    place = begun(tmp_path)
    place.propose(*LONGER)
    place.approve()
    (place.path / "check.sh").write_text("exit 0 # always\n")
    assert "check.sh: changed since a person last approved a change" in told(place)


def hidden(place: Place) -> None:
    """Declare the script as an output of another stage, to hide it from the check."""
    place.done("stage", "outputs", "stage-2", "stage-2/out.txt", "check.sh")


@pytest.mark.few(3)
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("way", ["plan", "amendment", "hidden"])
def test_changed_pinned_script_does_not_run(way: str, name: str, tmp_path: Path) -> None:
    """The commands exit with code 6 until a person approves the current files."""
    place = begun(tmp_path, **({} if way == "amendment" else {"pin": "scripts"}))
    pinning = ("--set", "session_config.pin=scripts", "--reason", "what runs is agreed")
    if way == "amendment":
        place.propose(*pinning)
        place.approve()
    if way == "hidden":
        hidden(place)
    assert place.call("dispatch", "stage-1", "--dry-run").code == 0
    (place.path / name).write_text("exit 0 # and more\n")
    for words in (("dispatch", "stage-1"), ("dispatch", "stage-1", "--dry-run"), ("run",)):
        answer = place.json(*words)
        assert answer.code == 6, answer
        assert "session_config.pin" in answer.out
        assert name in answer.out
    assert "attempt.started" not in place.types()
    said = place.propose(*pinning)
    assert name in json.dumps(said["amendment"]["changes"])
    place.approve(said["amendment"]["id"])
    assert place.call("dispatch", "stage-1", "--dry-run").code == 0


def test_log_without_script_digests_causes_no_warning(trusted: Place) -> None:
    """Older logs have no script digests, and wfctl does not warn about them."""
    trusted.finish("stage-1")
    with sqlite3.connect(trusted.path / ".wfctl/events.db") as database:
        (text,) = database.execute(
            "SELECT body FROM events WHERE type = 'attempt.started'"
        ).fetchone()
    assert "scripts" in json.loads(text)["data"]
    assert "changed since" not in told(trusted)


def test_removed_script_is_reported_as_missing(tmp_path: Path) -> None:
    """The warning calls a removed script missing, not changed."""
    place = begun(tmp_path)
    (place.path / "check.sh").unlink()
    assert "check.sh: missing, but it existed when the workflow was created" in told(place)
    assert "changed since" not in told(place)


@pytest.mark.long
@pytest.mark.slow
def test_file_written_by_the_job_is_not_reported_as_changed(tmp_path: Path) -> None:
    """A rerun replaces the job's log and data, which the check reads, without a warning."""
    stage = {
        "id": "stage-1",
        "name": "Run",
        "outputs": ["stage-1/out.txt"],
        "parameters": {
            "command": "echo ran $(date +%s%N) | tee run.dat; echo 1 > out.txt",
            "verify": "grep -q ran stage-1/log && test -s stage-1/run.dat && test -s own.sh",
        },
    }
    (tmp_path / "root").mkdir()
    (tmp_path / "root/own.sh").write_text("exit 0\n")
    place = make_in(tmp_path / "root", {"workflow_id": "w", "stages": [stage]})
    place.done("run")
    place.done("amend", "propose", "--type", "stage_rerun", "--stage", "stage-1", "--reason", "x")
    place.done("amend", "approve", "amend-1")
    place.done("run")
    assert "changed since" not in told(place)
    (place.path / "own.sh").write_text("exit 1\n")
    (place.path / "stage-1/run.dat").write_text("by hand\n")
    for name in ("own.sh", "stage-1/run.dat"):
        assert f"{name}: changed since a person" in told(place)


@pytest.mark.long
@pytest.mark.slow
def test_check_that_reads_the_job_log_keeps_its_identity(tmp_path: Path) -> None:
    """A pinned check may read the job's log, although each attempt writes another log."""
    stage = {
        "id": "stage-1",
        "name": "Run",
        "outputs": ["stage-1/out.txt"],
        "parameters": {
            "command": "echo ran $(date +%s%N); echo 1 > out.txt",
            "verify": "grep -q ran stage-1/log && test -e good",
        },
    }
    (tmp_path / "root").mkdir()
    place = make_in(tmp_path / "root", {"workflow_id": "w", "stages": [stage]})
    assert place.json("run").code == 6
    pinning = ("--set", "session_config.pin=scripts", "--reason", "what runs is agreed")
    place.propose(*pinning)
    place.approve()
    for _ in range(2):
        place.done("stage", "retry", "stage-1", "--fix", "again")
        assert place.json("run").code == 6
        assert place.done("status")["stages"][0]["status"] == "failed"
    (place.path / "good").touch()
    place.done("stage", "retry", "stage-1", "--fix", "once more")
    place.done("run")


def with_command(folder: Path, command: str) -> Place:
    """Create a workflow whose stage runs a command."""
    root = folder / "root"
    root.mkdir()
    stage = {"id": "stage-1", "name": "Run", "outputs": ["stage-1/out.txt"]}
    plan = {"workflow_id": "w", "stages": [{**stage, "parameters": {"command": command}}]}
    return make_in(root, plan)


def test_script_with_an_absolute_path_is_known_by_its_digest(tmp_path: Path) -> None:
    """wfctl treats an absolute path into the root as the same file as its relative path."""
    script = tmp_path / "root/run.py"
    place = with_command(tmp_path, f"python {script} > out.txt")
    script.write_text("print(1)\n")
    place.propose("--set", "session_config.session_budget=50", "--reason", "x")
    shown = place.done("amend", "show", "amend-1")
    assert set(shown["scripts"]) == {"run.py"}
    assert len(shown["scripts"]["run.py"]) == 64
    place.approve()
    script.write_text("print(2)\n")
    assert "run.py: changed since a person last approved a change" in told(place)


def test_script_outside_the_root_is_reported_as_not_known_by_digest(tmp_path: Path) -> None:
    """Approval and status name the script, but no program without a script suffix."""
    script = tmp_path / "run.py"
    script.write_text("print(1)\n")
    place = with_command(tmp_path, f"/usr/bin/env python {script} > /dev/null")
    place.propose("--set", "session_config.session_budget=50", "--reason", "x")
    assert place.done("amend", "show", "amend-1")["scripts"] == {str(script): "not known by digest"}
    assert f"Script: {script}, not known by digest" in place.call("amend", "show", "amend-1").out
    place.approve()
    assert f"{script}: not known by digest" in told(place)


def test_script_created_after_the_approval_is_reported(tmp_path: Path) -> None:
    """wfctl reports a new script that the approval showed as missing."""
    place = with_command(tmp_path, "python ../late.py > out.txt")
    place.propose("--set", "session_config.session_budget=50", "--reason", "x")
    assert "Script: late.py, missing" in place.call("amend", "show", "amend-1").out
    place.approve()
    assert "late.py" not in told(place)
    (place.path / "late.py").write_text("print(1)\n")
    assert "late.py: changed since a person last approved a change" in told(place)


@pytest.mark.long
@pytest.mark.parametrize("name", ["init.sh", "machine.json"])
def test_new_implicit_script_is_reported(name: str, tmp_path: Path) -> None:
    """wfctl reports a new ``init.sh`` or machine file, which no command names."""
    profile = {"type": "local", "config_path": "machine.json"}
    stage = {**PLAN["stages"][1], "id": "stage-1", "depends_on": [], "outputs": []}
    plan = {**PLAN, "stages": [stage], "backend_profiles": {"own": profile}}
    (tmp_path / "root").mkdir()
    place = make_in(tmp_path / "root", {**plan, "default_backend": "own"})
    place.propose("--set", "session_config.session_budget=50", "--reason", "x")
    assert "Script: init.sh" not in place.call("amend", "show", "amend-1").out
    place.approve()
    machine = {"batch_type": "Shell", "context_type": "LocalContext", "local_root": "."}
    for file in ("machine.json", name):
        content = json.dumps({**machine, "remote_root": "work"})
        (place.path / file).write_text(content if file == "machine.json" else "true\n")
    assert f"{name}: changed since a person last approved a change" in told(place)
    place.done("run")
    assert (
        f"att-0001 ran {name}, which was created or changed after"
        in place.call("audit", "bypasses").out
    )


HIDDEN = ("sh $WFCTL_PARAM_s", "cat ../run.sh | sh", "cd ..; for f in *.sh; do sh $f; done")


@pytest.mark.few(1)
@pytest.mark.parametrize("command", HIDDEN)
def test_command_part_without_a_script_is_reported_as_not_known_by_digest(
    command: str, tmp_path: Path
) -> None:
    """The approval shows the command part. Without a pin or mandate the stage runs."""
    place = with_command(tmp_path, f"{command}; echo 1 > out.txt")
    place.propose("--set", "session_config.session_budget=50", "--reason", "x")
    shown = place.done("amend", "show", "amend-1")["scripts"].items()
    ((part, _),) = [item for item in shown if item[1].startswith("not known by digest: ")]
    assert "sh" in part
    assert f"Script: {part}, not known by digest: " in place.call("amend", "show", "amend-1").out
    place.approve()
    assert "digest" not in told(place)
    assert place.call("dispatch", "stage-1", "--dry-run").code == 0


@pytest.mark.few(1)
@pytest.mark.parametrize("command", [*HIDDEN, "sh /usr/share/outside.sh"])
def test_pin_refuses_scripts_that_the_command_does_not_name(command: str, tmp_path: Path) -> None:
    """A pinned stage does not run until its command names the script file that it runs."""
    place = with_command(tmp_path, f"{command}; echo 1 > out.txt")
    pinning = ("--set", "session_config.pin=scripts", "--reason", "what runs is agreed")
    place.propose(*pinning)
    place.approve()
    for words in (("dispatch", "stage-1"), ("dispatch", "stage-1", "--dry-run"), ("run",)):
        answer = place.json(*words)
        assert answer.code == 6, answer
        assert "only pinned files may run" in answer.out
        assert "sh" in answer.out
    assert "attempt.started" not in place.types()
    (place.path / "run.sh").write_text("true\n")
    named = "sh ../run.sh; echo 1 > out.txt"
    stage = ("--set", f"stage-1.parameters.command={named}")
    place.approve(place.propose(*stage, "--reason", "named")["amendment"]["id"])
    place.approve(place.propose(*pinning)["amendment"]["id"])
    assert place.call("dispatch", "stage-1", "--dry-run").code == 0


def test_person_removes_a_pin_with_an_edited_plan(tmp_path: Path) -> None:
    """A stage whose script cannot be pinned runs after the pin is removed."""
    place = with_command(tmp_path, "sh $X; echo 1 > out.txt")
    place.propose("--set", "session_config.pin=scripts", "--reason", "x")
    place.approve()
    plan = tmp_path / "plan.json"
    assert "pin" not in plan.read_text()
    place.done("plan", "apply", str(plan), "--reason", "no pin")
    assert place.call("dispatch", "stage-1", "--dry-run").code == 0


OUTSIDE_OR_HIDDEN = {
    "python {folder}/run.py > out.txt": "run.py is outside the root",
    "sh $WFCTL_PARAM_s > out.txt": "`sh $WFCTL_PARAM_s` runs files not known by digest: a variable",
}


@pytest.mark.parametrize("command", OUTSIDE_OR_HIDDEN)
def test_mandate_covers_no_stage_with_an_unknown_script(command: str, tmp_path: Path) -> None:
    """The agent's amendment waits for a person, and the reason names the script."""
    (tmp_path / "root").mkdir()
    parameters = {"command": command.format(folder=tmp_path), "n": 1}
    stage = {"id": "stage-1", "name": "Run", "outputs": ["stage-1/out.txt"]}
    values = {"stage-1.parameters.n": {"from": 1, "to": 9}}
    mandate = {"stages": ["stage-1"], "amendments": 3, "values": values}
    plan = {"workflow_id": "w", "stages": [{**stage, "parameters": parameters}]}
    place = make_in(tmp_path / "root", {**plan, "mandates": {"sampling": mandate}})
    words = ("--stage", "stage-1", "--set", "parameters.n=2", "--reason", "x")
    said = place.done("--actor", "agent:bo", "amend", "propose", *words)
    assert (said["mandate"], said["amendment"]["status"]) == (None, "proposed")
    assert OUTSIDE_OR_HIDDEN[command] in said["not_within"]["sampling"][0]
    assert place.json("run").code == 6
