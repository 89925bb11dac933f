"""Fifteen faults that users make on a cluster.

For each fault, the first line of output names the cause, and `next:` suggests the right command. A
run of these tests ends with a table of the faults.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import pytest

from tests.cli.test_disk import small_disk
from tests.cluster.support import Slurm, Sshd, traced, write_machine
from tests.cluster.test_out_of_memory import LINE, OUTPUT
from tests.cluster.test_ssh import machine
from tests.crash.support import Workflow
from tests.crash.victims import Victim, find, kill
from tests.need import need

pytestmark = pytest.mark.slow
APPLY, RUN = "wfctl plan apply FILE --reason TEXT", "wfctl run"
RESOURCES = {"number_node": 1, "cpu_per_node": 1, "group_size": 1}
ORDINARY = "echo 1 > out.txt"


@dataclass(frozen=True)
class Fault:
    """A planted fault: the text that names the cause, and the command that should follow.

    ``profile`` and ``remote`` are fields of the backend profile and of the connection; ``scratch``
    returns another ``remote_root``.
    """

    cause: str
    command: str = ORDINARY
    follows: str = APPLY
    resources: dict[str, Any] = field(default_factory=dict)
    profile: dict[str, Any] = field(default_factory=dict)
    remote: dict[str, Any] = field(default_factory=dict)
    scratch: Callable[[Path], str] | None = None


def flag(line: str, cause: str, command: str = ORDINARY, **resources: Any) -> Fault:
    """Return a fault that consists of a wrong scheduler flag."""
    return Fault(cause, command, resources={"custom_flags": [f"#SBATCH {line}"], **resources})


def closed(folder: Path) -> str:
    """Return a folder in which this user cannot create another folder."""
    need(os.geteuid() != 0, "root may write everywhere; an ordinary user runs it")
    (folder / "closed").mkdir(mode=0o555)
    return str(folder / "closed")


FAULTS = {
    "wrong partition": Fault(
        "invalid partition specified: nowhere", resources={"queue_name": "nowhere"}
    ),
    "time above the limit": flag(
        "--time=10",
        "PartitionTimeLimit): it requests more time than its partition allows",
        queue_name="short",
    ),
    "gres": flag("--gres=gpu:4", "Invalid generic resource (gres) specification"),
    "flag typo": flag("--tiem=1:00", "unrecognized option '--tiem=1:00'"),
    "wall time": flag("--time=0:01", "its scheduler says TIMEOUT", command="sleep 600"),
    "memory": Fault("out of memory", command=f'echo "{LINE}" >> "{OUTPUT}"; kill -9 0'),
    "module": Fault(
        "the module nowhere is not loaded", profile={"environment": {"modules": ["nowhere"]}}
    ),
    "module_list": Fault(
        "the module nowhere is not loaded", resources={"module_list": ["nowhere"]}
    ),
    "missing venv": Fault(
        "there is no virtual environment /nowhere/venv",
        profile={"environment": {"venv": "/nowhere/venv"}},
    ),
    "venv in $HOME": Fault(
        "there is no virtual environment $HOME/nowhere",
        profile={"environment": {"venv": "$HOME/nowhere"}},
    ),
    "missing program": Fault("no-such-program: command not found", command="no-such-program -in x"),
    "unwritable remote_root": Fault("/closed", follows=RUN, scratch=closed),
    "wrong login": Fault(
        "127.0.0.1 rejects the user nobody-here", follows=RUN, remote={"username": "nobody-here"}
    ),
    "wrong key": Fault(
        "the key file /nowhere/id (key_filename) does not exist",
        follows=RUN,
        remote={"key_filename": "/nowhere/id"},
    ),
}


def slurm_here(scratch: str) -> dict[str, Any]:
    """Return a description of the local Slurm."""
    return {"batch_type": "Slurm", "context_type": "LocalContext", "remote_root": scratch}


def init(workflow: Workflow, described: dict[str, Any], fault: Fault, **fields: Any) -> None:
    """Create a workflow of one stage with a fault. ``fields`` are additional stage fields."""
    stage = traced(workflow, fault.command)
    stage |= {**fields, "parameters": {**stage["parameters"], **fields.get("parameters", {})}}
    profile = {
        "type": "remote",
        "batch_type": described["batch_type"],
        "config_path": write_machine(workflow, described),
        "resource_defaults": {**RESOURCES, **fault.resources},
        **fault.profile,
    }
    plan = {
        "workflow_id": "w-far",
        "default_backend": "far",
        "backend_profiles": {"far": profile},
        "stages": [stage],
    }
    (workflow.root / "plan.json").write_text(json.dumps(plan))
    workflow.succeed("init", "plan.json", "--consent", "trust")


def check_leads_on(
    workflow: Workflow, fault: Fault, record: Callable[[str, object], None], name: str
) -> None:
    """Check that `run` and `status` name the cause first and suggest the right command."""
    done = workflow.call("run")
    assert done.returncode == 6, done
    first, *others = done.stdout.splitlines()
    following = next(line for line in others if line.startswith("next: "))
    record("fault", f"{name} | {first} | {following.partition('  (')[0]}")
    assert fault.cause in first
    assert following.startswith(f"next: {fault.follows}  (")
    assert fault.cause[:40] in workflow.succeed("status")


CASES = [
    *((name, "Slurm") for name, one in FAULTS.items() if not one.remote),
    *((name, "Slurm over SSH") for name in FAULTS),
]
FIRST = {("flag typo", "Slurm"), ("wrong key", "Slurm over SSH")}


@pytest.mark.parametrize(
    ("name", "where"),
    [pytest.param(*one, marks=[pytest.mark.long] * (one not in FIRST)) for one in CASES],
)
def test_fault_is_named_first_with_the_right_next_command(
    workflow: Workflow,
    sshd: Sshd,
    slurm: Slurm,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    name: str,
    where: str,
) -> None:
    """For a wrong plan, `run` suggests an amended plan. Otherwise, it suggests `run`."""
    fault = FAULTS[name]
    with suppress(CalledProcessError):  # the partition may exist already
        slurm.ask("scontrol", "create", "PartitionName=short", "Nodes=ALL", "MaxTime=1")
    scratch = (fault.scratch or (lambda folder: str(folder / "far")))(tmp_path)
    far = machine(sshd, Path(scratch), "Slurm")
    far["remote_profile"] |= fault.remote
    init(workflow, slurm_here(scratch) if where == "Slurm" else far, fault)
    check_leads_on(workflow, fault, record_property, f"{name}, {where}")
    # The monitor of a job that never starts keeps running, so the test kills it.
    kill(find(workflow, Victim.EVERYTHING))


def test_scheduler_flags_on_a_machine_without_scheduler_suggest_an_amended_plan(
    workflow: Workflow,
) -> None:
    """The stage fails before an attempt starts, and `run` suggests an amended plan."""
    fault = flag("--tiem=1:00", "custom_flags must be absent, because the machine has no scheduler")
    here = {"batch_type": "Shell", "context_type": "LocalContext", "remote_root": "."}
    init(workflow, here, fault)
    check_leads_on(workflow, fault, lambda *_: None, "")
    workflow.succeed("stage", "retry", "stage-1", "--fix", "nothing")
    check_leads_on(workflow, fault, lambda *_: None, "")


@pytest.mark.long
def test_sweep_ended_by_slurm_suggests_an_amended_plan(workflow: Workflow) -> None:
    """The first line of `run` names the memory limit that ended the tasks."""
    command = f'echo "{LINE}" >> "{OUTPUT}"; kill -9 0'
    tasks = {"map": {"grid": {"x": [1, 2]}}, "task_outputs": ["out.txt"]}
    fault = Fault("its scheduler says OUT_OF_MEMORY", command=command)
    init(workflow, slurm_here("."), fault, outputs=["stage-1/tasks.csv"], parameters=tasks)
    check_leads_on(workflow, fault, lambda *_: None, "")


@contextmanager
def full(path: Path) -> Iterator[None]:
    """Mount a small file system, and fill it."""
    with small_disk(path, 600_000) as disk:
        disk.fill()
        yield


@pytest.mark.long
@pytest.mark.root
@pytest.mark.parametrize("where", ["Slurm", "Slurm over SSH"])
def test_full_scratch_disk_is_named_in_the_first_line(
    workflow: Workflow,
    sshd: Sshd,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    where: str,
) -> None:
    """If the scratch disk is full, `run` names it and suggests `reconcile` to try again."""
    with full(tmp_path / "scratch"):
        there = str(tmp_path / "scratch/far")
        fault = Fault("no room is left", follows="wfctl reconcile")
        far = slurm_here(there) if where == "Slurm" else machine(sshd, Path(there), "Slurm")
        init(workflow, far, fault)
        check_leads_on(workflow, fault, record_property, f"scratch full, {where}")


@pytest.mark.long
@pytest.mark.root
@pytest.mark.parametrize("where", ["Slurm", "Slurm over SSH"])
def test_full_root_is_named_and_the_same_command_continues(
    workflow: Workflow,
    sshd: Sshd,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    where: str,
) -> None:
    """If the disk of the root is full, the error asks to free space and repeat."""
    scratch = str(tmp_path / "far")
    far = slurm_here(scratch) if where == "Slurm" else machine(sshd, Path(scratch), "Slurm")
    with small_disk(tmp_path / "disk", 2_000_000) as disk:
        on_disk = replace(workflow, root=disk.path)
        init(on_disk, far, Fault(""))
        disk.fill()
        done = on_disk.call("run")
        first = next(one for one in done.stderr.splitlines() if one.startswith("wfctl: "))
        record_property("fault", f"root full, {where} | {first} | the same command")
        assert done.returncode == 1
        full = f"no room is left on the file system {disk.path} (0 bytes free)"
        assert full in first
        assert full in on_disk.succeed("status")
        assert first.endswith("Free some space or get permission to write, then repeat the command")
        disk.make_room()
        on_disk.succeed("run")


def test_virtual_environment_in_the_home_folder_is_found(workflow: Workflow) -> None:
    """The documented notation `$HOME/venv` works if the environment exists."""
    venv = Path(workflow.environ["HOME"]) / "venv/bin"
    venv.mkdir(parents=True)
    (venv / "activate").write_text('export VIRTUAL_ENV="$HOME/venv"\n')
    fault = Fault("", profile={"environment": {"venv": "$HOME/venv"}})
    init(workflow, slurm_here("."), fault)
    workflow.succeed("run")
