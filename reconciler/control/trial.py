"""Tries the machines of a plan before its first job: what would fail there, for each profile."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lifecycle.errors import LifecycleError
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.values import wanted
from reconciler.attempt.execution_host import ExecutionHost
from reconciler.attempt.paths import AttemptPaths, new_mark
from reconciler.dpdispatcher.runner import DPDispatcherRunner
from reconciler.errors import MachineUnreachable, ReconcilerError
from reconciler.far import ask
from reconciler.files.described import has_command, submission_of
from reconciler.submission import fields

#: Batch type → the program that takes a job.
_PROGRAMS = {"slurm": "sbatch", "pbs": "qsub", "torque": "qsub", "sge": "qsub", "lsf": "bsub"}
#: A first word of a command that names a program by name or absolute path.
_PROGRAM = re.compile(r"\s*(/?[A-Za-z0-9_][A-Za-z0-9_.+/-]*)(?=\s|$)")


@dataclass(slots=True)
class Trial:
    """What the stages of a profile ask of its machine alike, and the problems that were found."""

    profile: str
    stages: list[str]
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Wanted:
    """A trial that is to be made: a submission, its software, and the programs of its commands."""

    trial: Trial
    attempt: AttemptPaths
    given: Mapping[str, Any]
    software: Mapping[str, Any]
    programs: list[str]


def try_machines(root: Path, state: Workflow) -> list[Trial]:
    """Contact the machine of each profile that stages use; return what would fail there.

    Stages of one profile with other resources or other software are a trial of their own. Writes
    a file in ``remote_root`` and removes it; starts no job.
    """
    found: dict[str, _Wanted | Trial] = {}
    for stage in state.stages.values():
        if has_command(root, stage):
            _collect(found, root, state, stage)
    return [one if isinstance(one, Trial) else _tried(one) for one in found.values()]


def _collect(found: dict[str, _Wanted | Trial], root: Path, state: Workflow, stage: Stage) -> None:
    profile = str(stage.backend or state.default_backend)
    trial = Trial(profile, [stage.id])
    try:
        given = submission_of(root, state, stage)
    except (ReconcilerError, LifecycleError) as error:
        trial.problems.append(error.message)
        found[stage.id] = trial
        return
    software = wanted(state.profile(stage), stage.parameters)
    resources = {**given.get("resources", {}), "envs": None}
    key = json.dumps([profile, given.get("machine"), resources, software], sort_keys=True)
    attempt = AttemptPaths(root, state.id, stage.id, "att-0001", (), new_mark())
    known = found.setdefault(key, _Wanted(trial, attempt, given, software, []))
    if isinstance(known, _Wanted):
        known.trial.stages += [] if known.trial is trial else [stage.id]
        known.programs += _program_of(stage)


def _program_of(stage: Stage) -> list[str]:
    word = _PROGRAM.match(str(stage.parameters.get("command") or ""))
    return [word[1]] if word is not None and (word[1][0] == "/" or "/" not in word[1]) else []


def _tried(wanted_: _Wanted) -> Trial:
    try:
        own, where, _ = DPDispatcherRunner().checked(wanted_.attempt, wanted_.given)
        wanted_.trial.problems += _problems(wanted_, own, where)
    except MachineUnreachable as error:
        wanted_.trial.problems.append(error.reason)
    except ReconcilerError as error:
        wanted_.trial.problems.append(error.message)
    return wanted_.trial


def _problems(wanted_: _Wanted, own: Mapping[str, Any], where: ExecutionHost) -> list[str]:
    attempt = wanted_.attempt
    header, environment = ask.rendered(
        own["machine"], own["resources"], wanted_.given["resources"], attempt
    )
    program = _PROGRAMS.get(where.batch_type.lower(), "")
    script = f"{environment}\n" + "\n".join(_checks(wanted_)) + "\n: > reached\n"
    shell = (header.partition("\n")[0].removeprefix("#!") or "bash").split()
    return ask.tried(own["machine"], where, attempt, [program, header, script, *shell])


def _checks(wanted_: _Wanted) -> Iterator[str]:
    """Yield the lines that print what the environment of the jobs lacks."""
    modules = wanted_.given.get("resources", {}).get("module_list") or []
    software = {**wanted_.software, "modules": [word for one in modules for word in one.split()]}
    programs = [] if "container" in software else list(dict.fromkeys(wanted_.programs))
    yield from fields.lacking(software, programs)
