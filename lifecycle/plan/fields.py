"""The fields of a plan, their descriptions, and suggestions for misplaced fields.

A field that wfctl does not know is an error; the message suggests the most similar field. Notes for
people go into ``description``, ``tags``, or a field whose name starts with ``x-``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from lifecycle.sweeps.parameters import PARAMETERS_OF_WFCTL, WORDS_OF_PARAMETER
from lifecycle.words.document import STAGE_FIELDS, WORKFLOW_FIELDS
from lifecycle.words.mandates import MANDATES
from lifecycle.words.metrics import METRICS, RESULTS
from lifecycle.words.plan_parameters import PLAN_PARAMETERS
from lifecycle.words.rounds import ROUNDS

#: Fields for people. wfctl stores and shows them, but no rule uses them.
FOR_PEOPLE = ("description", "tags")
FREE = "x-"
#: Field in files of the published protocol: an object with the result of a verification.
_FOUND = "verification"
OF_WORKFLOW = (
    *(*WORKFLOW_FIELDS, "purpose", RESULTS, MANDATES, ROUNDS, PLAN_PARAMETERS),
    *FOR_PEOPLE,
)
OF_STAGE = (*STAGE_FIELDS, *FOR_PEOPLE)

#: Description of each field of a plan. Fields that only a running workflow has are missing.
WORDS_OF_WORKFLOW: dict[str, str] = {
    "workflow_id": "The name of the workflow. It consists of letters, digits, dots, underscores "
    "and hyphens.",
    "purpose": "The purpose of the workflow, in one sentence. `wfctl status` and the report show "
    "the purpose.",
    "description": "Notes for people. wfctl stores and shows this field, but does not use it.",
    "tags": "A list of keywords for people. wfctl stores and shows this field, but does not use "
    "it.",
    RESULTS: "The main results, as a list of metrics (stage-2.tc) and output files "
    "(stage-2/fit.svg). `wfctl results` shows them.",
    MANDATES: "Mandates (approvals given in advance), by name. Each mandate states which changes "
    "need no further approval, and their limits: stages, amendments, values, by, reruns, until, "
    "tasks, core_hours, scripts.",
    ROUNDS: "Optimization loops, by name. A loop repeats its stages in rounds, with new points in "
    "each round: stages, points, ask, within, each, until, at_most, tasks, core_hours, scripts.",
    PLAN_PARAMETERS: "Parameters of the whole plan, by name. A stage that lists a name in "
    "parameters.use gets the value as one of its own parameters.",
    "version": "The version of the plan. A new plan has version 1. Each approved amendment adds 1.",
    "experiment_design": "The path of your description of the experiment, relative to the "
    "workflow's folder.",
    "workflow_plan": "The path of your description of the plan, relative to the workflow's folder.",
    "session_config": "Settings of working sessions: session_budget (maximum total weight of the "
    "stages of a session, default 6), stage_weights (weight by stage), and autonomous (run "
    "session after session, default false).",
    "default_backend": "The backend profile (where jobs run) of each stage that names no profile "
    "(default: local).",
    "backend_profiles": "Backend profiles, by name. A profile states where and how jobs run. The "
    "profile `local` always exists and runs jobs on this computer.",
    "stages": "The stages (steps) of the workflow. wfctl tries to start them in this order.",
}
WORDS_OF_STAGE: dict[str, str] = {
    "id": "The name of the stage and of its folder, for example stage-1 or grow-film.",
    "name": "The title of the stage, on one line.",
    "description": "Notes for people. wfctl stores and shows this field, but does not use it.",
    "tags": "A list of keywords for people. wfctl stores and shows this field, but does not use "
    "it.",
    "verification": "Notes for people: an object, as in files of the staged-workflow protocol. "
    "wfctl does not use this field.",
    "depends_on": "The ids of the stages that must be completed before this stage starts.",
    "backend": "The backend profile (where the job of this stage runs). null means the profile in "
    "default_backend.",
    "inputs": "Files and folders that must exist before the stage starts. They must not be empty.",
    "outputs": "Files that the stage writes into its folder. Each path is relative to the "
    "workflow's folder, for example stage-1/fit.json.",
    "parameters": "Settings of wfctl (such as command, verify, map, metrics and environment) and "
    "your own parameters. The command gets each of your parameters as the variable "
    "WFCTL_PARAM_<name>.",
    "success_criteria": "A description of correct results, in words. The command "
    "parameters.verify or a person checks these criteria.",
}

#: Parameters of any stage that people sometimes write next to ``parameters`` by mistake.
PARAMETERS = (*tuple(WORDS_OF_PARAMETER)[:9], METRICS)
#: Minimum similarity (0 to 1) at which an unknown name is treated as a typing error of a known one.
ALIKE = 0.85
_FIXED_RETRIES = "the number of retries is fixed: 3 on a local backend, 5 on a remote backend"
#: Wrong names that people use in a stage, with the correct place for the value.
_ELSEWHERE_IN_STAGE = {
    **{name: f"parameters.{name}" for name in PARAMETERS},
    "cmd": "parameters.command",
    "run": "parameters.command",
    "script": "parameters.command",
    "check": "parameters.verify",
    "verification": "parameters.verify or success_criteria",
    "criteria": "success_criteria",
    "depends": "depends_on",
    "dependencies": "depends_on",
    "needs": "depends_on",
    "after": "depends_on",
    "env": "parameters.<name>, which the command sees as WFCTL_PARAM_<name>, or "
    "parameters.resource_overrides.envs",
    "modules": "parameters.environment.modules",
    "conda": "parameters.environment.conda",
    "venv": "parameters.environment.venv",
    "container": "parameters.environment.container",
    "memory": "parameters.resources.memory_gb",
    "walltime": "parameters.resources.time_limit, in seconds",
    "timeout": "parameters.time_limit, in seconds",
    "retries": _FIXED_RETRIES,
    "max_retries": _FIXED_RETRIES,
    "profile": "backend",
    "files": "inputs",
    "results": "outputs",
    "title": "name",
    "notes": "description",
    "comment": "description",
}
_ELSEWHERE_IN_WORKFLOW = {
    "id": "workflow_id",
    "name": "workflow_id",
    "goal": "purpose",
    "steps": "stages",
    "tasks": "stages",
    "backend": "default_backend",
    "profiles": "backend_profiles",
    "backends": "backend_profiles",
    "session_budget": "session_config.session_budget",
    "budget": "session_config.session_budget",
    "autonomous": "session_config.autonomous",
    "notes": "description",
    "comment": "description",
}


def describe_field(name: str) -> list[str]:
    """Return one line of help for each field of a plan with this name, such as ``map``."""
    bare = name.removeprefix("parameters.")
    places = {
        f"parameters.{bare}": WORDS_OF_PARAMETER.get(bare),
        f"{name} (of a stage)": WORDS_OF_STAGE.get(name),
        f"{name} (of a plan)": WORDS_OF_WORKFLOW.get(name),
    }
    return [f"{place}: {text}" for place, text in places.items() if text is not None]


def find_unknown_workflow_fields(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield a problem for each unknown field at the top level of a plan."""
    yield from _find_unknown_fields(plan, OF_WORKFLOW, _ELSEWHERE_IN_WORKFLOW, "")


def find_unknown_stage_fields(stage: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Yield a problem for each unknown field of a stage.

    ``place`` is printed before the name of the field.
    """
    yield from _find_unknown_fields(stage, OF_STAGE, _ELSEWHERE_IN_STAGE, place)


def find_doubtful_parameters(stage: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning for each parameter whose name resembles a parameter that wfctl uses.

    It may be a typing error, but it is valid, because commands may have parameters of any name.
    """
    for name in stage.get("parameters") or {}:
        near = get_close_matches(name.lower(), PARAMETERS_OF_WFCTL, n=1, cutoff=ALIKE)
        if name not in PARAMETERS_OF_WFCTL and near:
            yield (
                f"{stage.get('id')}: wfctl does not use parameters.{name}; the command gets it as "
                f"WFCTL_PARAM_{name}. Did you mean {near[0]}?"
            )


def _find_unknown_fields(
    values: Mapping[str, Any], known: tuple[str, ...], elsewhere: Mapping[str, str], place: str
) -> Iterator[str]:
    """Yield a problem for each unknown field, with a suggestion for the correct field."""
    for key, value in values.items():
        if key == _FOUND and isinstance(value, dict):
            continue
        if key not in known and not key.startswith(FREE):
            yield f"{place}{key}: unknown field; {_suggest_field(key, known, elsewhere)}"


def _suggest_field(key: str, known: tuple[str, ...], elsewhere: Mapping[str, str]) -> str:
    """Return a hint for an unknown field: the most similar known field or the correct place."""
    if elsewhere.get(key.lower()) == _FIXED_RETRIES:
        return _FIXED_RETRIES
    if key.lower() in elsewhere:
        return f"use {elsewhere[key.lower()]}"
    near = get_close_matches(key.lower(), [*known, *elsewhere], n=1, cutoff=0.7)
    if not near or elsewhere.get(near[0]) == _FIXED_RETRIES:
        return "for notes use description, tags, or a name that starts with x-"
    return f"did you mean {elsewhere.get(near[0], near[0])}?"
