"""The basis of an attempt: the inputs and settings that its results depend on."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from lifecycle.state.status import Status
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.sweeps.definition import remove_first_field
from lifecycle.words.environments import merge_environments

#: Parameters that influence the results only in part. Only the relevant part is included in the
#: digest.
_IN_PART = frozenset({"resource_overrides", "environment"})
#: Resource settings that influence which software a command finds.
_SOFTWARE = (
    "envs",
    "module_list",
    "module_unload_list",
    "source_list",
    "prepend_script",
    "append_script",
)


def compute_basis_digest(state: Workflow, stage: Stage) -> str:
    """Return the basis of a stage: a digest of everything that determines its results.

    It is the SHA-256 (in hex) of the command, parameters, inputs, outputs and software settings.
    """
    profile, parameters = state.profile(stage), remove_first_field(stage.parameters)
    aside = stage.work.ignored_parameters | _IN_PART
    resources = merge_resources(state, stage)
    known = {
        "parameters": {name: parameters[name] for name in parameters if name not in aside},
        "inputs": stage.inputs,
        "outputs": stage.declared_outputs,
        "environment": merge_environments(profile, parameters) or parameters.get("environment"),
        "resources": {name: resources[name] for name in _SOFTWARE if resources.get(name)},
    }
    return sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def has_outdated_tasks(state: Workflow, stage: Stage) -> bool:
    """Return whether the definition of a waiting stage has changed since its last attempt.

    If it has, the tasks of that attempt are computed again.
    """
    if stage.status in (Status.COMPLETED, Status.FAILED) or not stage.attempts:
        return False
    last = stage.attempts[-1]
    return (
        not last.is_open and bool(last.basis) and last.basis != compute_basis_digest(state, stage)
    )


def merge_resources(state: Workflow, stage: Stage) -> dict[str, Any]:
    """Return the resources of DPDispatcher for the jobs of a stage."""
    found: dict[str, Any] = {}
    own = stage.parameters.get("resource_overrides")
    for given in (state.profile(stage).get("resource_defaults"), own):
        found |= given if isinstance(given, dict) else {}
    return found


def find_reusable_attempts(state: Workflow, stage: Stage) -> list[Attempt]:
    """Return the attempts whose results the stage could reuse, newest first.

    They succeeded and have the current definition, but their input files may differ. Results that
    no command computed are never reused. Tasks of a sweep are compared separately.
    """
    if not stage.work.output_command:
        return []
    good = [one for one in stage.attempts if one.results and not one.is_refuted]
    basis = compute_basis_digest(state, stage) if good else ""
    return [one for one in reversed(good) if one.basis == basis and not one.taken_over]


def is_recheck_sufficient(state: Workflow, stage: Stage) -> bool:
    """Return whether existing results only have to be checked again.

    For a sweep, these are the results of its tasks. For other stages, these are archived outputs,
    unless the session configuration forbids reuse.
    """
    may = state.session_config.get("reuse", "offer") != "never"
    return stage.work.keeps_tasks(stage.work) or (
        may and bool(find_reusable_attempts(state, stage))
    )
