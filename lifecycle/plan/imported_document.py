"""Check whether a state file contains enough to import the workflow."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lifecycle.payload.models import StageId
from lifecycle.plan.document import RelativePath, WorkflowId
from lifecycle.state.conditions import find_cycle
from lifecycle.state.status import Status
from lifecycle.words.validation_errors import explain_validation_error
from lifecycle.words.values import explain_unfit_stage_id

Problem = tuple[str, str]
"""JSON pointer of a value, and the problem of the value."""

Paths = list[RelativePath] | None


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False, defer_build=True)


class _Process(_Part):
    tmux_session: str | None = None
    submission_json: str | None = None
    wrapper_script: str | None = None
    done_marker: RelativePath | None = None
    exit_code_file: RelativePath | None = None
    recovery_attempted: bool | None = None
    launched_at: str | None = None


class _Stage(_Part):
    id: StageId
    name: str | None = None
    status: str | None = None
    depends_on: list[StageId] | None = None
    backend: str | None = None
    inputs: Paths = None
    outputs: Paths = None
    parameters: dict[str, Any] | None = None
    success_criteria: str | None = None
    started_at: str | None = None
    completed_at: str | None = None
    retry_count: Annotated[int, Field(ge=0)] | None = None
    last_error: str | None = None
    running_process: _Process | None = None


class _Session(_Part):
    session_count: Annotated[int, Field(ge=0)] | None = None
    session_id: str | None = None
    session_cost: float | None = None
    session_budget: float = 6
    exit_reason: str | None = None


class _Amendment(_Part):
    id: str
    version: int | None = None
    timestamp: str = ""
    type: str = ""
    stage_id: str | None = None
    description: str = ""
    changes: dict[str, Any] = {}
    invalidated_stages: list[str] | None = None


class _State(_Part):
    workflow_id: WorkflowId
    version: Annotated[int, Field(ge=1)] | None = None
    workflow_status: str | None = None
    created: str | None = None
    updated: str | None = None
    experiment_design: str | None = None
    workflow_plan: str | None = None
    amendments: list[_Amendment] | None = None
    session_config: _Session | None = None
    default_backend: str | None = None
    backend_profiles: dict[str, dict[str, Any]] | None = None
    stages: Annotated[list[_Stage], Field(min_length=1)]


def find_import_problems(document: Any) -> list[Problem]:
    """Return the reasons why a decoded ``workflow-state.json`` cannot be imported.

    Return an empty list if it can be imported.
    """
    if not isinstance(document, dict):
        return [("", f"expected an object, found {type(document).__name__}")]
    try:
        _State.model_validate(document)
    except ValidationError as error:
        return [_format_problem(found) for found in error.errors()]
    ids = Counter(record["id"] for record in document.get("amendments") or [])
    twice = [("/amendments", f"{id_} appears {n} times") for id_, n in ids.items() if n > 1]
    return [*_find_stage_problems(document["stages"]), *twice]


def _format_problem(found: Any) -> Problem:
    """Return the place of a validation error (a JSON pointer) and its message."""
    steps = [str(step).replace("~", "~0").replace("/", "~1") for step in found["loc"]]
    if found["type"] == "missing":
        return "".join(f"/{step}" for step in steps[:-1]), f"{steps[-1]} is missing"
    return "".join(f"/{step}" for step in steps), explain_validation_error(found)


def _find_stage_problems(stages: list[dict[str, Any]]) -> list[Problem]:
    """Return the problems of stage ids, statuses and dependencies in an imported file."""
    ids = [stage["id"] for stage in stages]
    found = [("/stages", f"{id_} appears {n} times") for id_, n in Counter(ids).items() if n > 1]
    for index, stage in enumerate(stages):
        place = f"/stages/{index}"
        unfit = explain_unfit_stage_id(stage["id"])
        found += [(f"{place}/id", unfit)] if unfit is not None else []
        if stage.get("status") not in (None, *Status):
            known = ", ".join(Status)
            why = f"{stage['status']!r:.80} is not a valid status; expected one of: {known}"
            found.append((f"{place}/status", why))
        found += [
            (f"{place}/depends_on", f"no stage {dep!r}")
            for dep in stage.get("depends_on") or []
            if dep not in ids
        ]
    cycle = find_cycle({stage["id"]: stage.get("depends_on") or [] for stage in stages})
    return [*found, *([("/stages", f"circle: {' -> '.join(cycle)}")] if cycle else [])]
