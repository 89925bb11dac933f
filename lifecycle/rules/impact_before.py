"""What approvals of the first two forms are bound to: they left what was under way downstream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lifecycle.rules.impact import attempts_of, has_run, kept_as, reach_of
from lifecycle.state.status import ACTIVE, Status
from lifecycle.state.workflow import Amendment, Stage, Workflow


def binding_before(
    state: Workflow, amendment: Amendment, found: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Return the impact of an approval as it was shown then, as plain JSON values."""
    reach = reach_of(state, amendment)
    affected = [stage for stage in state.stages.values() if stage.id in reach.affected]
    under_way = [stage for stage in reach.stages(state) if stage.status in ACTIVE]
    rerun = amendment.stage if amendment.kind == "stage_rerun" else None

    def is_kept(stage: Stage) -> bool:
        again = stage.status in ACTIVE and stage.id in reach.direct
        again = again or (stage.status is Status.FAILED and stage.id == rerun)
        return stage.status is Status.COMPLETED or (again and has_run(stage))

    return {
        "affected": [stage.id for stage in affected],
        "invalidated": [stage.id for stage in affected if stage.status is Status.COMPLETED],
        "stopped": attempts_of([stage for stage in under_way if stage.id in reach.direct]),
        "outdated": [stage.id for stage in under_way if stage.id not in reach.direct],
        "kept": kept_as([stage for stage in affected if is_kept(stage)], found or {}),
    }
