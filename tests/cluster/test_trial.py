"""`plan check --try` reports what would fail on the machine of a profile before the first job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.support import Sshd, write_machine
from tests.cluster.test_ssh import machine
from tests.crash.support import Workflow
from tests.keeping.support import made, run_as_ordinary_user, stage

pytestmark = pytest.mark.slow
RESOURCES = {"number_node": 1, "cpu_per_node": 1, "group_size": 1}
WHERE = ["slurm", "ssh"]
#: Fault → resources and environment of the profile, the command, and the text of the problem.
FAULTS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "partition": ({"queue_name": "nowhere"}, {}, "true", "invalid partition specified: nowhere"),
    "flag": ({"custom_flags": ["#SBATCH --tiem=1"]}, {}, "true", "unrecognized option '--tiem=1'"),
    "gres": ({"custom_flags": ["#SBATCH --gres=gpu:4"]}, {}, "true", "generic resource"),
    "module": ({}, {"modules": ["nowhere"]}, "true", "the module nowhere is not loaded"),
    "module_list": ({"module_list": ["nowhere"]}, {}, "true", "the module nowhere is not loaded"),
    "venv": ({}, {"venv": "$HOME/nowhere"}, "true", "no virtual environment $HOME/nowhere"),
    "program": ({}, {}, "no-such-program -in x", "the program no-such-program was not found"),
    "early end": (
        {"prepend_script": ["echo no licence >&2; exit 3"]},
        {},
        "true",
        "the lines before the command ended the job (exit code 3): no licence",
    ),
}


def write_plan(workflow: Workflow, path: str, *commands: str, **profile: Any) -> None:
    """Write a plan with one stage for each command, on the machine of a machine file."""
    far = {"type": "remote", "batch_type": "Slurm", "config_path": path, **profile}
    stages = [
        {"id": f"stage-{n}", "name": "A", "parameters": {"command": command}}
        for n, command in enumerate(commands, 1)
    ]
    plan = {"workflow_id": "w", "default_backend": "far", "backend_profiles": {"far": far}}
    (workflow.root / "plan.json").write_text(json.dumps({**plan, "stages": stages}))


def check(workflow: Workflow, *words: str) -> tuple[int, dict[str, Any]]:
    """Run `plan check --try`, and return its exit code and its answer."""
    done = workflow.call("-o", "json", "plan", "check", "plan.json", *words)
    answer = json.loads(done.stdout)
    return done.returncode, answer["data"]


def slurm_machine(sshd: Sshd, where: str, scratch: Path) -> dict[str, Any]:
    """Return the description of a machine with Slurm, local or over SSH."""
    if where == "ssh":
        return machine(sshd, scratch, "Slurm")
    return {"batch_type": "Slurm", "context_type": "LocalContext", "remote_root": str(scratch)}


@pytest.mark.parametrize("where", WHERE)
def test_trial_of_a_working_machine_changes_nothing(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, where: str
) -> None:
    """The check tries stages with equal requirements together and leaves no file behind."""
    path = write_machine(workflow, slurm_machine(sshd, where, tmp_path / "scratch"))
    write_plan(workflow, path, "echo 1", "cat /dev/null", resource_defaults=RESOURCES)
    before = sorted(workflow.root.rglob("*"))
    code, data = check(workflow, "--try")
    tried = {"profile": "far", "stages": ["stage-1", "stage-2"], "problems": []}
    assert (code, data["tried"]) == (0, [tried])
    assert sorted(workflow.root.rglob("*")) == before
    assert not (tmp_path / "scratch").exists()


@pytest.mark.long
@pytest.mark.parametrize("where", WHERE)
def test_trial_reports_each_fault_of_a_profile(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, where: str
) -> None:
    """The check exits with code 7, lists each problem, and leaves the job folder unchanged."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    path = write_machine(workflow, slurm_machine(sshd, where, scratch))
    for resources, environment, command, words in FAULTS.values():
        profile = {"resource_defaults": {**RESOURCES, **resources}, "environment": environment}
        write_plan(workflow, path, command, **profile)
        code, data = check(workflow, "--try")
        assert code == 7, words
        assert any(words in one for one in data["tried"][0]["problems"]), (words, data["tried"])
    assert not [*scratch.iterdir()]


@pytest.mark.parametrize("where", WHERE)
def test_trial_reports_an_unusable_remote_root(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, where: str
) -> None:
    """The check reports a `remote_root` that is a file or has no parent folder."""
    (tmp_path / "file").touch()
    for scratch, words in (("file", "is not a folder"), ("absent/b", "does not exist")):
        path = write_machine(workflow, slurm_machine(sshd, where, tmp_path / scratch))
        write_plan(workflow, path, "true", resource_defaults=RESOURCES)
        code, data = check(workflow, "--try")
        [problem] = data["tried"][0]["problems"]
        assert (code, words in problem) == (7, True), problem


def test_trial_reports_an_unwritable_remote_root(tmp_path: Path) -> None:
    """The check names the user and the `remote_root` that the user may not write to."""
    place = made(tmp_path, stage(1, "true"))
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    closed.chmod(0o555)
    config = {"batch_type": "Shell", "context_type": "LocalContext", "local_root": "."}
    profile = {"type": "local", "config": {**config, "remote_root": str(closed)}}
    plan = {"workflow_id": "w", "default_backend": "here", "backend_profiles": {"here": profile}}
    stages = [{"id": "stage-1", "name": "A", "parameters": {"command": "true"}}]
    path = tmp_path / "new.json"
    path.write_text(json.dumps({**plan, "stages": stages}))
    told = run_as_ordinary_user(place, "plan", "check", str(path), "--try", code=7)
    assert f"may not write to {closed}" in told


def test_trial_reports_a_refused_login_and_a_missing_machine_file(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """Only with --try does the check contact the machine and report these problems."""
    right = machine(sshd, tmp_path / "far", "Slurm")
    wrong = {**right["remote_profile"], "username": "nobody-here"}
    path = write_machine(workflow, {**right, "remote_profile": wrong})
    write_plan(workflow, path, "true", resource_defaults=RESOURCES)
    assert check(workflow)[0] == 0
    done = workflow.call("plan", "check", "plan.json", "--try")
    assert done.returncode == 7
    assert "far (stage-1): would fail: 127.0.0.1 rejects the user nobody-here" in done.stdout
    write_plan(workflow, "nowhere.json", "true", resource_defaults=RESOURCES)
    code, data = check(workflow, "--try")
    assert (code, "nowhere.json" in data["tried"][0]["problems"][0]) == (7, True)
