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
DEFINITIONAL = frozenset(
    {"name", "depends_on", "inputs", "parameters", "success_criteria", "backend"}
)


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
