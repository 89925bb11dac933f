"""What keeps a workflow from going on by itself, and what would help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from lifecycle.state.retry import retry_limit
from lifecycle.state.status import FINISHED, Status
from lifecycle.state.workflow import Stage, Workflow

#: Characters of a failure's reason that are shown.
_REASON = 300


@dataclass(frozen=True, slots=True)
class Hindrance:
    """What waits for somebody: the stage (None for the whole workflow), why, and a command."""

    stage: str | None
    why: str
    unblock: str

    def to_dict(self) -> dict[str, str | None]:
        """Return plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        where = f"{self.stage}: " if self.stage else ""
        return f"{where}{self.why}; {self.unblock} would unblock it"


def hindrances(state: Workflow) -> list[Hindrance]:
    """Return everything that waits for somebody, decisions first; empty where nothing does.

    A stage that is held back by one that is named itself is not.
    """
    return [*_decisions(state), *_of_stages(state)]


def _decisions(state: Workflow) -> Iterator[Hindrance]:
    for amendment in state.pending_amendments:
        id_, rejects = amendment.id, f" or `wfctl amend reject {amendment.id}`"
        if amendment.status == "rejected":
            why, rejects = "the plan was rejected, and it is as it was or amended", ""
        elif amendment.is_plan:
            why = "the plan waits for a person's approval"
        else:
            why = f"{id_} ({amendment.kind}) waits for a person's decision"
        yield Hindrance(amendment.stage, why, f"`wfctl amend approve {id_}`{rejects}")


def _of_stages(state: Workflow) -> Iterator[Hindrance]:
    for stage in state.stages.values():
        found = _of_stage(state, stage)
        if found is not None:
            yield found


def _of_stage(state: Workflow, stage: Stage) -> Hindrance | None:
    match stage.status:
        case Status.FAILED:
            return _failed(state, stage)
        case Status.POST_PROCESSING if not stage.parameters.get("verify"):
            return _judged(stage)
        case Status.RUNNING | Status.PREPARING:
            return _under_way(stage)
        case Status.PENDING | Status.INVALIDATED | Status.READY:
            return _held_back(state, stage)
    return None


def _judged(stage: Stage) -> Hindrance | None:
    """A stage whose end no check can decide waits for somebody's word."""
    if stage.success_criteria:
        why = f"somebody must judge its success criteria ({stage.success_criteria:.200})"
    elif not stage.outputs:
        why = "it has no outputs, no check and no criteria: somebody must say that it is done"
    else:
        return None
    return Hindrance(stage.id, why, f"`wfctl stage complete {stage.id} --evidence TEXT`")


def _failed(state: Workflow, stage: Stage) -> Hindrance:
    why = reason(stage)[:_REASON]
    limit = retry_limit(state.backend_type(stage))
    if stage.retry_count >= limit:
        return Hindrance(
            stage.id,
            f"failed, and its {limit} retries are used up ({why})",
            f"`wfctl amend propose --type stage_rerun --stage {stage.id} --reason TEXT`",
        )
    return Hindrance(stage.id, f"failed ({why})", f"`wfctl stage retry {stage.id} --fix TEXT`")


def reason(stage: Stage) -> str:
    """Return why a stage failed, on one line: its exit code, its cause, what was recorded."""
    error = " ".join((stage.last_error or "no reason is known").split())
    cause = stage.because
    if not cause or cause.partition(": ")[2] in error or cause in error:
        return error
    return f"{cause}; {error}"


def _under_way(stage: Stage) -> Hindrance | None:
    attempt = stage.open_attempt
    if attempt is None or attempt.action != "unknown":
        return None
    why = f"nothing is known of {attempt.id} ({attempt.reason})"
    return Hindrance(stage.id, why, "`wfctl reconcile`")


def _held_back(state: Workflow, stage: Stage) -> Hindrance | None:
    """A skipped dependency satisfies nothing, and no failure of another stage names it."""
    for dependency in stage.depends_on:
        if state.stages[dependency].status is Status.SKIPPED:
            return Hindrance(
                stage.id,
                f"it depends on {dependency}, which was skipped",
                f"`wfctl amend propose --stage {stage.id} --set depends_on=… --reason TEXT`",
            )
    return None


def is_stuck(state: Workflow) -> bool:
    """Whether something is unfinished and nothing of it is ready or under way."""
    going = {Status.READY, Status.PREPARING, Status.RUNNING, Status.POST_PROCESSING}
    statuses = {stage.status for stage in state.stages.values()}
    return not statuses & going and not statuses <= FINISHED
