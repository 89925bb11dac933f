"""The fields that a plan may have, and where one belongs that stands in the wrong place.

A field that nobody knows does nothing: it is refused by name, with the nearest that is known.
What is for people alone goes into ``description``, ``tags``, or a field that begins with ``x-``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from lifecycle.sweeps.definition import MAP
from lifecycle.words.document import STAGE_FIELDS, WORKFLOW_FIELDS
from lifecycle.words.mandates import MANDATES, TIME_LIMIT
from lifecycle.words.metrics import METRICS, RESULTS
from lifecycle.words.rounds import ROUNDS

#: For people: kept as they are, shown, and never read by a rule.
FOR_PEOPLE = ("description", "tags")
FREE = "x-"
#: What files of the published protocol carry: an object with what somebody found.
_FOUND = "verification"
OF_WORKFLOW = (*WORKFLOW_FIELDS, "purpose", RESULTS, MANDATES, ROUNDS, *FOR_PEOPLE)
OF_STAGE = (*STAGE_FIELDS, *FOR_PEOPLE)

#: What each field of a plan is for; fields that only the running of a workflow fills are not here.
WORDS_OF_WORKFLOW: dict[str, str] = {
    "workflow_id": "Names the workflow: letters, digits, dot, underscore and hyphen.",
    "purpose": "What the workflow is for, in a sentence; shown by status and in the report.",
    "description": "For people.",
    "tags": "For people: a list of words.",
    RESULTS: "The few numbers and files that answer the question: stage-2.tc, stage-2/fit.svg.",
    MANDATES: "What is allowed beforehand, by name: stages, amendments, values with bounds, by, "
    "reruns, until, tasks, core_hours, scripts.",
    ROUNDS: "Loops, by name: stages, points, ask, within, each, until, at_most, tasks, core_hours, "
    "scripts.",
    "version": "Always 1 in a plan; each approved amendment adds one.",
    "experiment_design": "A document of yours, as a path relative to the root.",
    "workflow_plan": "A document of yours, as a path relative to the root.",
    "session_config": "session_budget (6), stage_weights, autonomous (false).",
    "default_backend": "The profile of stages that name none: local.",
    "backend_profiles": "Where and how jobs run, by name; local is there if nothing is said.",
    "stages": "The stages, in the order in which they are tried.",
}
WORDS_OF_STAGE: dict[str, str] = {
    "id": "stage-1, stage-2 and so on, or a name such as grow-film; its folder is called so.",
    "name": "What the stage is called, on one line.",
    "description": "For people.",
    "tags": "For people: a list of words.",
    "verification": "For people: an object, as files of the published protocol carry it.",
    "depends_on": "The stages that must be completed first.",
    "backend": "The backend profile; null is default_backend.",
    "inputs": "Files and folders that must be there, and not be empty, before it starts.",
    "outputs": "What it leaves, as paths from the root: below the stage's own folder.",
    "parameters": "command, verify, forward_files, backward_files, carry, resource_overrides, "
    "environment, expected_seconds, metrics; every other one is the command's own, seen as "
    "WFCTL_PARAM_<name>.",
    "success_criteria": "When it is completed, in words; judged by parameters.verify or somebody.",
}

#: The parameters of a stage that wfctl itself reads, and what each is for; all others are its
#: command's.
WORDS_OF_PARAMETER: dict[str, str] = {
    "command": "What is run, by bash, in a scratch copy of the stage's folder; of a stage with a "
    "map, in a folder for each task. Without it somebody does the work.",
    "verify": "What is run in the root afterwards; exit code 0 says that the criteria hold.",
    "forward_files": "More files that the command needs, relative to the stage's folder; without "
    "it all that somebody put there.",
    "backward_files": "Files that are brought back from where the command runs; without it the "
    "outputs.",
    "carry": "Patterns of checkpoint files, relative to the stage's folder, that the next attempt "
    "goes on from.",
    "resource_overrides": "Resources of this stage (group_size, cpu_per_node, custom_flags …); "
    "they win over resource_defaults of its backend profile.",
    "expected_seconds": "How long the stage takes. Below 120 on a local backend it is waited for "
    "in place.",
    TIME_LIMIT: "Seconds after which the command, or that of a task, is ended, with exit code 124.",
    "environment": "The software that the command runs with: modules, conda or venv, container. "
    "It wins over that of the backend profile, field by field.",
    "bring_back_limit": "How much of what the command left, and no output names, is put beside the "
    'outputs, as "2 GB"; else it stays in the folder of the attempt.',
    MAP: "The points of a sweep, as points, grid, zip, file or like; the command runs once for "
    "each. A stage without it computes one thing.",
    "task_outputs": "Of a sweep: files that each task must leave in its folder.",
    "task_verify": "Of a sweep: a shell command that judges one task, in its folder: exit code 0 "
    "means that the task is done. Another one judges what is there and computes nothing.",
    "task_retries": "Of a sweep: how often a task that failed is tried again within one attempt.",
    "tolerate": "Of a sweep: the share of tasks that may fail, such as 0.02; 0 if nobody says.",
    "at_once": "Of a sweep: how many tasks run at the same time; 8 if nobody says.",
    METRICS: "Numbers by name: a file of the outputs (of a sweep: of each task) and a place in it, "
    'such as {"tc": "fit.json#/tc"}; or an object with it as `at`, and error, unit, better (lower, '
    "higher), reference (value, error, source). Of a sweep they are columns of tasks.csv.",
}
READ = frozenset(WORDS_OF_PARAMETER)
#: Those of any stage, which people also write beside ``parameters``.
PARAMETERS = (*tuple(WORDS_OF_PARAMETER)[:9], METRICS)
#: How alike two names are before one is taken for a slip of the other (1: equal).
ALIKE = 0.85
#: What people write in place of a field of a stage → where it belongs.
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
    "resources": "parameters.resource_overrides, or resource_defaults of a backend profile",
    "walltime": "parameters.resource_overrides, such as custom_flags of the scheduler",
    "timeout": "parameters.time_limit, in seconds",
    "retries": "nowhere: 3 retries on a local backend, 5 on a remote one",
    "max_retries": "nowhere: 3 retries on a local backend, 5 on a remote one",
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


def words_of(name: str) -> list[str]:
    """Return what a name is for in a plan, a line for each place: ``map``, ``parameters.map``."""
    bare = name.removeprefix("parameters.")
    places = {
        f"parameters.{bare}": WORDS_OF_PARAMETER.get(bare),
        f"{name}, of a stage": WORDS_OF_STAGE.get(name),
        f"{name}, of a plan": WORDS_OF_WORKFLOW.get(name),
    }
    return [f"{place}: {text}" for place, text in places.items() if text is not None]


def unknown_in_workflow(plan: Mapping[str, Any]) -> Iterator[str]:
    """Say of each field at the top that a plan does not have."""
    yield from _unknown(plan, OF_WORKFLOW, _ELSEWHERE_IN_WORKFLOW, "")


def unknown_in_stage(stage: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Say of each field that a stage does not have; ``place`` is put before its name."""
    yield from _unknown(stage, OF_STAGE, _ELSEWHERE_IN_STAGE, place)


def doubtful_parameters(stage: Mapping[str, Any]) -> Iterator[str]:
    """Say of each parameter of the command's own whose name is nearly one that wfctl reads.

    It is sound, since a command may have parameters of any name.
    """
    for name in stage.get("parameters") or {}:
        near = get_close_matches(name.lower(), READ, n=1, cutoff=ALIKE)
        if name not in READ and near:
            yield (
                f"{stage.get('id')}: parameters.{name} is read by its command alone, as "
                f"WFCTL_PARAM_{name}; did you mean {near[0]}?"
            )


def _unknown(
    values: Mapping[str, Any], known: tuple[str, ...], elsewhere: Mapping[str, str], place: str
) -> Iterator[str]:
    for key, value in values.items():
        if key == _FOUND and isinstance(value, dict):
            continue
        if key not in known and not key.startswith(FREE):
            yield f"{place}{key}: unknown field; {_remedy(key, known, elsewhere)}"


def _remedy(key: str, known: tuple[str, ...], elsewhere: Mapping[str, str]) -> str:
    if key.lower() in elsewhere:
        return f"it belongs into {elsewhere[key.lower()]}".replace("into nowhere", "nowhere")
    near = get_close_matches(key.lower(), [*known, *elsewhere], n=1, cutoff=0.7)
    if not near:
        return "for people only: description, tags, or a name that begins with x-"
    return f"did you mean {elsewhere.get(near[0], near[0])}?"
