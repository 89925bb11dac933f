"""wfctl with Slurm: the stages of a plan run on a backend of type remote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.contenders import wfctl
from benchmarks.faults.work import Step

NAME, PACKAGES, FILES = wfctl.NAME, wfctl.PACKAGES, wfctl.FILES
DOCUMENTATION = (*wfctl.DOCUMENTATION, "docs/start/clusters.md")
STATE = wfctl.STATE
SCHEDULER = "slurm"

command, recover, locate_output = wfctl.command, wfctl.recover, wfctl.locate_output

#: The backend profile that docs/start/clusters.md describes, with its default settings.
_PROFILE = {
    "type": "remote",
    "batch_type": "Slurm",
    "config_path": "machine.json",
    "resource_defaults": {"number_node": 1, "cpu_per_node": 1, "group_size": 1},
}


def write(steps: Sequence[Step], folder: Path, python: str) -> None:
    """Write the machine file and the plan, and create the workflow."""
    machine = {"local_root": ".", "batch_type": "Slurm", "context_type": "LocalContext"}
    machine["remote_root"] = str(folder.parent / "remote")
    (folder / "machine.json").write_text(json.dumps(machine))
    backend = {"default_backend": "hpc", "backend_profiles": {"hpc": _PROFILE}}
    wfctl.create_workflow(wfctl.describe_plan(steps) | backend, folder, python)
