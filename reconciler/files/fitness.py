"""Whether a stage that is due can be submitted as it is described, seen without DPDispatcher."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.errors import LifecycleError
from lifecycle.state.workflow import Stage, Workflow
from projections.screens.starting import is_due
from reconciler.attempt.contract import PREPARED
from reconciler.errors import ReconcilerError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Stages that are looked at, and characters of what is wrong with one.
_FEW, _SHOWN = 3, 200


def unfit(root: Path, state: Workflow) -> dict[str, str]:
    """Return what must be corrected before the first stages that are due can be submitted.

    Only what a person wrote is looked at: submissions, profiles, resources, paths of inputs.
    """
    due = (stage for stage in state.stages.values() if is_due(state, stage))
    return dict(_unfit(root, state, [stage for stage, _ in zip(due, range(_FEW), strict=False)]))


def _unfit(root: Path, state: Workflow, stages: list[Stage]) -> Iterator[tuple[str, str]]:
    for stage in stages:
        if not _is_own(root, state, stage):
            continue
        from reconciler.files.described import submission_of  # few stages have anything of the kind

        try:
            submission_of(root, state, stage, anew=stage.regenerate)
        except (ReconcilerError, LifecycleError, OSError) as error:
            found = str(getattr(error, "message", error))
            yield stage.id, f"a correction: {found[:_SHOWN]}"
            continue
        path = state.profile(stage).get("config_path")
        if isinstance(path, str) and not (root / Path(path).expanduser()).exists():
            yield stage.id, f"the machine file {path}, which is missing"


def _is_own(root: Path, state: Workflow, stage: Stage) -> bool:
    """Whether there is something of the kind that is not as wfctl makes it."""
    if not stage.parameters.get("command"):
        return (root / stage.id / PREPARED).is_file()
    profile = state.profile(stage)
    return (
        "resource_overrides" in stage.parameters
        or "config_path" in profile
        or "config" not in profile
        or profile.get("type") == "remote"
        or any(".." in path for path in stage.inputs)
        or (root / stage.id / PREPARED).is_file()
    )
