"""Find stages that cannot start because their submission cannot be built."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from lifecycle.errors import LifecycleError
from lifecycle.state.workflow import Stage, Workflow
from projections.screens.next_actions import is_ready_to_start
from reconciler.attempt.paths import PREPARED
from reconciler.errors import ReconcilerError
from service.root.folder_entries import exists, is_file

#: Maximum number of stages that are named, and maximum length of the text about each.
_MAX_STAGES, _MAX_PROBLEM_LENGTH = 3, 200


def find_stages_to_correct(root: Path, state: Workflow) -> dict[str, str]:
    """Return a description of the correction that each due stage needs, by stage.

    Without the correction, the stage cannot be submitted. Only data that a person wrote is checked:
    submissions, profiles, resources and input paths.
    """
    found = {}
    due = (stage for stage in state.stages.values() if is_ready_to_start(state, stage))
    for stage in (
        one for one in islice(due, _MAX_STAGES) if _has_manual_submission_data(root, state, one)
    ):
        from reconciler.files.described_submission import (
            get_stage_submission,  # few stages have such files
        )

        try:
            get_stage_submission(root, state, stage, anew=stage.regenerate)
        except (ReconcilerError, LifecycleError, OSError) as error:
            found[stage.id] = (
                f"a correction: {str(getattr(error, 'message', error))[:_MAX_PROBLEM_LENGTH]}"
            )
            continue
        path = state.profile(stage).get("config_path")
        if isinstance(path, str) and not exists(root / Path(path).expanduser()):
            found[stage.id] = f"the machine file {path}, which is missing"
    return found


def _has_manual_submission_data(root: Path, state: Workflow, stage: Stage) -> bool:
    """Return whether the submission of a stage contains data that a person wrote.

    Other submissions are built by wfctl and need no check.
    """
    if not stage.parameters.get("command"):
        return is_file(root / stage.id / PREPARED)
    profile = state.profile(stage)
    return (
        "resource_overrides" in stage.parameters
        or "config_path" in profile
        or "config" not in profile
        or profile.get("type") == "remote"
        or any(".." in path for path in stage.inputs)
        or is_file(root / stage.id / PREPARED)
    )
