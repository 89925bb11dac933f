"""Test the machines of a plan before its first job, and report problems."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lifecycle.errors import LifecycleError
from lifecycle.state.requested_resources import compute_next_request
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.environments import merge_environments
from reconciler.attempt.execution_host import ExecutionHost
from reconciler.attempt.paths import AttemptPaths, generate_attempt_mark
from reconciler.dpdispatcher.runner import DPDispatcherRunner
from reconciler.errors import MachineUnreachable, ReconcilerError
from reconciler.far import query_machine
from reconciler.files.described_submission import get_stage_submission, has_command_or_submission
from reconciler.submission import fields, job_script
from reconciler.submission.requested_resources import add_requested_resources

#: For each batch type, the program that submits a job.
_PROGRAMS = {"slurm": "sbatch", "pbs": "qsub", "torque": "qsub", "sge": "qsub", "lsf": "bsub"}
#: Matches the first word of a command if the word is the name or the absolute path of a program.
_PROGRAM = re.compile(r"\s*(/?[A-Za-z0-9_][A-Za-z0-9_.+/-]*)(?=\s|$)")


@dataclass(slots=True)
class MachineProblems:
    """The problems that a test of a machine found.

    They apply to all ``stages``, which share the backend profile, the resources and the software.
    """

    profile: str
    stages: list[str]
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _TrialInput:
    """The data for testing a machine: a submission, its software and its programs."""

    trial: MachineProblems
    attempt: AttemptPaths
    given: Mapping[str, Any]
    software: Mapping[str, Any]
    programs: list[str]


def try_machines(root: Path, state: Workflow) -> list[MachineProblems]:
    """Test the machine of each backend profile in use, and return the problems found.

    Stages that share the profile but differ in resources or software are tested separately. Writes
    and removes a file in ``remote_root``. Starts no job.
    """
    found: dict[str, _TrialInput | MachineProblems] = {}
    for stage in state.stages.values():
        if has_command_or_submission(root, stage):
            _collect_trial_inputs(found, root, state, stage)
    return [
        one if isinstance(one, MachineProblems) else _build_machine_problems(one)
        for one in found.values()
    ]


def _collect_trial_inputs(
    found: dict[str, _TrialInput | MachineProblems], root: Path, state: Workflow, stage: Stage
) -> None:
    profile = str(stage.backend or state.default_backend)
    trial = MachineProblems(profile, [stage.id])
    try:
        given = get_stage_submission(root, state, stage)
        given = add_requested_resources(given, compute_next_request(state, stage))
    except (ReconcilerError, LifecycleError) as error:
        trial.problems.append(error.message)
        found[stage.id] = trial
        return
    software = merge_environments(state.profile(stage), stage.parameters)
    resources = {**given.get("resources", {}), "envs": None}
    key = json.dumps([profile, given.get("machine"), resources, software], sort_keys=True)
    attempt = AttemptPaths(root, state.id, stage.id, "att-0001", (), generate_attempt_mark())
    known = found.setdefault(key, _TrialInput(trial, attempt, given, software, []))
    if isinstance(known, _TrialInput):
        known.trial.stages += [] if known.trial is trial else [stage.id]
        known.programs += _find_program(stage)


def _find_program(stage: Stage) -> list[str]:
    word = _PROGRAM.match(str(stage.parameters.get("command") or ""))
    return [word[1]] if word is not None and (word[1][0] == "/" or "/" not in word[1]) else []


def _build_machine_problems(input_: _TrialInput) -> MachineProblems:
    try:
        own, where, _ = DPDispatcherRunner().build_checked_submission(input_.attempt, input_.given)
        input_.trial.problems += _find_problems(input_, own, where)
    except MachineUnreachable as error:
        input_.trial.problems.append(error.reason)
    except ReconcilerError as error:
        input_.trial.problems.append(error.message)
    return input_.trial


def _find_problems(input_: _TrialInput, own: Mapping[str, Any], where: ExecutionHost) -> list[str]:
    attempt = input_.attempt
    header, environment = query_machine.render_job_script(
        own["machine"], own["resources"], input_.given["resources"], attempt
    )
    program = _PROGRAMS.get(where.batch_type.lower(), "")
    script = f"{environment}\n" + "\n".join(_build_checks(input_)) + "\n: > reached\n"
    shell = (header.partition("\n")[0].removeprefix("#!") or "bash").split()
    return query_machine.find_machine_problems(
        own["machine"], where, attempt, [program, header, script, *shell]
    )


def _build_checks(input_: _TrialInput) -> Iterator[str]:
    """Yield the lines of a script that prints missing programs and modules of jobs."""
    software = fields.add_loaded_modules(input_.software, input_.given.get("resources", {}))
    programs = [] if "container" in software else list(dict.fromkeys(input_.programs))
    yield from job_script.build_missing_checks(software, programs)
