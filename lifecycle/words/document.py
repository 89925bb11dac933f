"""The names and the order of the fields of ``workflow-state.json``.

Source: the staged-workflow protocol; readers of the file depend on both.
"""

from __future__ import annotations

from typing import Any

WORKFLOW_FIELDS = (
    "workflow_id",
    "version",
    "workflow_status",
    "created",
    "updated",
    "experiment_design",
    "workflow_plan",
    "amendments",
    "session_config",
    "default_backend",
    "backend_profiles",
    "stages",
)
STAGE_FIELDS = (
    "id",
    "name",
    "status",
    "depends_on",
    "backend",
    "inputs",
    "outputs",
    "parameters",
    "success_criteria",
    "started_at",
    "completed_at",
    "retry_count",
    "last_error",
    "running_process",
    "checkpoint",
)
#: The fields of a stage that are lists of paths.
PATHS = ("inputs", "outputs")
DEFINITIONAL = frozenset(
    {"name", "depends_on", "inputs", "parameters", "success_criteria", "backend"}
)


def with_listed_paths(stage: Any) -> tuple[Any, tuple[str, ...]]:
    """Return a stage's entry with its paths as lists, and the fields that gave each path a name.

    The published skill writes ``"outputs": {"film": "stage-1/film.xyz"}`` as well as a list.
    """
    if not isinstance(stage, dict):
        return stage, ()
    named = tuple(field for field in PATHS if _is_named(stage.get(field)))
    return {**stage, **{field: list(stage[field].values()) for field in named}}, named


def _is_named(value: Any) -> bool:
    if not isinstance(value, dict) or not value:
        return False
    return all(isinstance(path, str) for path in value.values())


def default_session_config() -> dict[str, Any]:
    """Return ``session_config`` as a new workflow starts with it."""
    return {
        "autonomous": False,
        "session_budget": 6,
        "session_count": 0,
        "session_id": None,
        "session_cost": 0,
        "exit_reason": None,
        "stage_weights": {"sync": 1, "async": 1.5, "error_cycle": 2, "diagnostic": 2},
    }


def default_profiles() -> dict[str, Any]:
    """Return the backend profiles of a plan that names none."""
    return {
        "local": {
            "type": "local",
            "config": {"batch_type": "Shell", "context_type": "LocalContext"},
        }
    }
