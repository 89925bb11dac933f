"""What keeps a workflow from going on by itself, and what would help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lifecycle.state.status import FINISHED, Status, retry_limit
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import VERDICTS

#: Characters of a failure's reason that are shown.
_REASON = 300
#: Verdicts that no further look changes: somebody finds out how the attempt ended, and says so.
_FOR_SOMEBODY = frozenset({"ELSEWHERE", "FORGOTTEN", "UNREADABLE", "UNSEEN", "UNTOLD"})
#: The row of the verdict on an attempt of somebody else's launch that left nothing to look at.
_OF_SOMEBODY_ELSE = 25


@dataclass(frozen=True, slots=True)
class Hindrance:
    """What waits for somebody: the stage (None for the whole workflow), why, and what leads on.

    ``unblock`` is a text with a command in it, or some; ``command`` is the first of them, with
    the words in capitals that ``needs`` names.
    """

    stage: str | None
    why: str
    unblock: str
    command: str = ""
    needs: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, str | None]:
        """Return plain JSON values."""
        return {"stage": self.stage, "why": self.why, "unblock": self.unblock}

    def __str__(self) -> str:
        where = f"{self.stage}: " if self.stage else ""
        return f"{where}{self.why}; {self.unblock} would unblock it"


def _by(stage: Stage, why: str, command: str, *needs: str) -> Hindrance:
    """Return the hindrance of a stage that one command ends, given what it needs."""
    return Hindrance(stage.id, why, f"`{command}`", command, needs)


def hindrances(state: Workflow) -> list[Hindrance]:
    """Return everything that waits for somebody, decisions first; empty where nothing does.

    A stage that is held back by one that is named itself is not.
    """
    of_stages = (hindrance_of(state, stage) for stage in state.stages.values())
    return [*_decisions(state), *(found for found in of_stages if found is not None)]


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


def hindrance_of(state: Workflow, stage: Stage) -> Hindrance | None:
    """Return what of a stage waits for somebody, if anything does."""
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
    return _by(stage, why, f"wfctl stage complete {stage.id} --or-fail --evidence TEXT", "TEXT")


def _failed(state: Workflow, stage: Stage) -> Hindrance:
    """A failed stage runs again: with other parameters, after a fix, or as a person agrees.

    An amendment is one decision: with it the stage is computed again, and no retry is counted.
    """
    why = reason(stage)[:_REASON]
    limit = retry_limit(state.backend_type(stage))
    if stage.retry_count >= limit:
        why = f"failed, and its {limit} retries are used up ({why})"
        return _by(stage, why, *_amendment(stage, "--type stage_rerun"))
    if is_refuted(stage):
        why = f"failed ({why}); computed again as it is, it gives the same"
        return _by(stage, why, *_amendment(stage, "--set PATH=VALUE", "PATH=VALUE"))
    return _by(stage, f"failed ({why})", f"wfctl stage retry {stage.id} --fix TEXT", "TEXT")


def is_refuted(stage: Stage) -> bool:
    """Whether a stage failed as what it computed did not pass: it, or each task that failed."""
    if not stage.attempts:
        return False
    last = stage.attempts[-1]
    failed = (last.tasks or {}).get("failures", [])
    by_task = [str(one.get("because")).startswith(VERDICTS) for one in failed]
    return last.is_refuted or (bool(by_task) and all(by_task))


def _amendment(stage: Stage, change: str, *needs: str) -> tuple[str, ...]:
    command = f"wfctl amend propose --stage {stage.id} {change} --reason TEXT"
    return (command, *needs, "TEXT")


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
    if attempt.verdict not in _FOR_SOMEBODY and attempt.row != _OF_SOMEBODY_ELSE:
        return _by(stage, why, "wfctl reconcile")
    fail = f"wfctl stage fail {stage.id} --error TEXT"
    unblock = (
        f"`{fail}` and then `wfctl stage retry {stage.id} --fix TEXT`, or `wfctl stage compute "
        f"{stage.id}` where its results are in place,"
    )
    return Hindrance(stage.id, why, unblock, fail, ("TEXT",))


def _held_back(state: Workflow, stage: Stage) -> Hindrance | None:
    """A skipped dependency satisfies nothing, and no failure of another stage names it."""
    for dependency in stage.depends_on:
        if state.stages[dependency].status is Status.SKIPPED:
            why = f"it depends on {dependency}, which was skipped"
            return _by(stage, why, *_amendment(stage, "--set depends_on=JSON", "JSON"))
    return None


def is_stuck(state: Workflow) -> bool:
    """Whether something is unfinished and nothing of it is ready or under way."""
    going = {Status.READY, Status.PREPARING, Status.RUNNING, Status.POST_PROCESSING}
    statuses = {stage.status for stage in state.stages.values()}
    return not statuses & going and not statuses <= FINISHED
