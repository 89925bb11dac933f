"""Add the resources that a stage requests to its submission, for each kind of scheduler."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

from lifecycle.words.mandates import GRACE, TIME_LIMIT
from reconciler.errors import UnusableSubmission

#: Field of a submission with the requested resources, until the scheduler of the job is known.
_REQUEST = "wfctl_request"
#: For each resource, the environment variable from which the command reads its amount.
_VARIABLES: Mapping[str, str] = {
    "memory_gb": "WFCTL_MEMORY_GB",
    TIME_LIMIT: "WFCTL_TIME_LIMIT",
    "nodes": "WFCTL_NODES",
    "cores": "WFCTL_CORES",
}
#: For each resource, the field of DPDispatcher's resources with the same meaning.
_FIELDS: Mapping[str, str] = {"nodes": "number_node", "cores": "cpu_per_node"}
#: Seconds that a job gets in addition to the time limits of its commands, for its own setup.
_SETUP = 60

#: For each batch type, the line that requests memory in MB per node, job or core. PBS is missing,
#: because its line of nodes would have to contain the memory.
_MEMORY_LINES: Mapping[str, str] = {
    "slurm": "#SBATCH --mem={node}M",
    "torque": "#PBS -l mem={job}mb",
    "lsf": "#BSUB -M {node}MB",
    "sge": "#$ -l h_vmem={core}M",
}
#: For each batch type, the line that requests a run time, given seconds.
_TIME_LINES: Mapping[str, Callable[[int], str]] = {
    "slurm": lambda seconds: f"#SBATCH --time={ceil(seconds / 60)}",
    "pbs": lambda seconds: f"#PBS -l walltime={_format_clock(seconds)}",
    "torque": lambda seconds: f"#PBS -l walltime={_format_clock(seconds)}",
    "lsf": lambda seconds: f"#BSUB -W {ceil(seconds / 60)}",
    "sge": lambda seconds: f"#$ -l h_rt={seconds}",
}


def add_requested_resources(
    given: Mapping[str, Any], requested: Mapping[str, float]
) -> dict[str, Any]:
    """Return a copy of the submission that requests the given amounts of resources.

    The jobs read the amounts from environment variables. `request_from_scheduler` adds the lines
    for the scheduler.
    """
    result = copy.deepcopy(dict(given))
    if not requested or not isinstance(result.get("resources"), dict):
        return result
    resources = result["resources"]
    fields = {_FIELDS[name]: int(one) for name, one in requested.items() if name in _FIELDS}
    variables = {_VARIABLES[name]: f"{one:.12g}" for name, one in requested.items()}
    envs = {**resources.get("envs", {}), **variables}
    result["resources"] = {**resources, **fields, "envs": envs}
    return {**result, _REQUEST: dict(requested)}


def set_runs_per_job(given: Mapping[str, Any], runs: int) -> dict[str, Any]:
    """Return the submission of a sweep whose jobs each need the time of ``runs`` tasks."""
    request = given.get(_REQUEST, {})
    if TIME_LIMIT not in request:
        return dict(given)
    return {**given, _REQUEST: {**request, "runs": runs}}


def request_from_scheduler(submission: dict[str, Any], batch_type: str) -> dict[str, Any]:
    """Return the resources of a submission, with lines that request memory and time.

    Removes the request from the submission, because DPDispatcher does not know this field. Raises
    UnusableSubmission if wfctl cannot request memory from this scheduler.
    """
    request, resources = submission.pop(_REQUEST, {}), submission["resources"]
    kind = batch_type.lower()
    lines = [*_build_memory_line(request, resources, kind), *_build_time_line(request, kind)]
    if not lines:
        return dict(resources)
    return {**resources, "custom_flags": [*resources.get("custom_flags", []), *lines]}


def _build_memory_line(
    request: Mapping[str, float], resources: Mapping[str, Any], kind: str
) -> list[str]:
    """Return the line that requests memory, or an empty list if none is needed."""
    memory = request.get("memory_gb")
    if memory is None or kind not in _TIME_LINES:
        return []
    if kind not in _MEMORY_LINES:
        raise UnusableSubmission(
            "resources.memory_gb",
            f"one of the schedulers {', '.join(sorted(_MEMORY_LINES))}",
            kind,
            "Remove memory_gb from the plan, because wfctl cannot request memory from this "
            "scheduler.",
        )
    nodes, cores = (int(resources.get(name) or 1) for name in _FIELDS.values())
    node = ceil(memory * 1024)
    return [_MEMORY_LINES[kind].format(node=node, job=node * nodes, core=ceil(node / cores))]


def _build_time_line(request: Mapping[str, float], kind: str) -> list[str]:
    """Return the line that requests a run time, or an empty list if none is needed."""
    limit = request.get(TIME_LIMIT)
    if limit is None or kind not in _TIME_LINES:
        return []
    seconds = int(limit + GRACE) * int(request.get("runs", 1)) + _SETUP
    return [_TIME_LINES[kind](seconds)]


def _format_clock(seconds: int) -> str:
    """Return seconds as hours, minutes and seconds, such as ``01:30:00``."""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
