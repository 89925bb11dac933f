"""Claims: at most one process starts the job of a stage at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.errors import Refused
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from reconciler.context import Jobs
from reconciler.control.judge_attempts import inspect_attempt, newest_attempt
from reconciler.verdict.table import Action
from wording import Worded

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
from reconciler.control.stop_jobs import Uphold

#: Actions which mean that a part of the attempt is still running.
_ALIVE = frozenset({Action.WAIT, Action.ATTACH})


#: Actions which mean that the computation has not completed successfully.
_NOT_COMPUTED = _ALIVE | {Action.LAUNCH, Action.FAILED, Action.LOST}


class ClaimDenied(Worded, Refused):
    """Somebody says what the evidence denies."""

    code = "claim_denied"
    text = (
        "the evidence shows that the attempt {attempt} of the stage {stage} is not {claim}: "
        "{reason} ({verdict}). Run `wfctl wait {stage}` to wait for the attempt, `wfctl reconcile` "
        'to record its actual state, or `wfctl stage fail {stage} --stop --error "…"` to end the '
        "attempt. A person who knows better can add --overrule TEXT."
    )
    untold = ("claim", "reason")
    stage: str
    attempt: str
    claim: str
    reason: str
    verdict: str
    row: int


@dataclass(frozen=True, slots=True)
class Claims:
    """Compares claims with the evidence.

    ``uphold`` asks a person who may overrule the evidence.
    """

    jobs: Jobs
    uphold: Uphold | None = None

    def computed(self, id_: str) -> tuple[Payload, int] | None:
        """Raise `ClaimDenied` if the evidence contradicts that a computation has succeeded.

        Returns the record of a person's decision against the evidence, if one is needed.
        """
        state = self.jobs.service.state()
        stage = state.stage(id_)
        is_open = stage.open_attempt is not None
        return self._held(state, stage, "computed", _NOT_COMPUTED) if is_open else None

    def over(self, id_: str) -> tuple[Payload, int] | None:
        """Like `computed`, for a stage that is claimed to be complete while its job runs."""
        state = self.jobs.service.state()
        stage = state.stage(id_)
        known = stage.attempt is not None and stage.status is Status.POST_PROCESSING
        return self._held(state, stage, "over", _ALIVE) if known else None

    def believe(self, id_: str) -> None:
        """Record tasks as done whose results only a person can judge, and print their number."""
        state = self.jobs.service.state()
        stage = state.stage(id_)
        if not is_sweep(stage.parameters) or stage.open_attempt is None:
            return
        # only if a stage has tasks
        from reconciler.sweep.judge_tasks import close_tasks, tasks_without_verdict

        with self.jobs.sole(id_):
            if not inspect_attempt(self.jobs, state, stage).verdict.is_untold:
                return
            found = tasks_without_verdict(self.jobs.root, state, stage)
            newest = newest_attempt(self.jobs, state, stage)
            earlier = {one.id: one for one, _ in found.values() if one.id != newest.id}
            for attempt in (*earlier.values(), newest):
                observed = close_tasks(state, state.stage(id_), attempt, believed=True)
                state = self.jobs.record(observed).state
            tasks = "1 task" if len(found) == 1 else f"{len(found):,} tasks"
            self.jobs.say(
                f"{id_}: {tasks} recorded as done, although nothing shows how they ended", stage=id_
            )

    def _held(
        self, state: Workflow, stage: Stage, claim: str, denying: frozenset[Action]
    ) -> tuple[Payload, int] | None:
        # An attempt that was recorded but never launched has left no evidence.
        if not newest_attempt(self.jobs, state, stage).launch_record.exists():
            return None
        finding = inspect_attempt(self.jobs, state, stage)
        found = finding.verdict
        if found.action not in denying:
            return None
        if self.uphold is None:
            raise ClaimDenied(stage.id, finding.attempt, claim, found.reason, found.name, found.row)
        return self.uphold(finding, claim)
