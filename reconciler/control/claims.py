"""Claims: at most one process starts the job of a stage at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lifecycle.errors import Refused
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from reconciler.context import JobContext
from reconciler.control.judge_attempts import inspect_attempt, newest_attempt
from reconciler.verdict.table import Action
from wording import TemplatedError

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
from reconciler.control.stop_jobs import Uphold

#: Actions which mean that a part of the attempt is still running.
_ALIVE = frozenset({Action.WAIT, Action.ATTACH})
#: Actions which mean that the computation has not completed successfully.
_NOT_COMPUTED = _ALIVE | {Action.LAUNCH, Action.FAILED, Action.LOST, Action.CONTINUE}


class ClaimDenied(TemplatedError, Refused):
    """The evidence contradicts the claim that an attempt has ended or succeeded."""

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
class ClaimChecker:
    """Checks claims about attempts, such as "its job has ended", against the evidence.

    ``uphold`` asks a person to overrule the evidence. If it is None, a contradicted claim is an
    error.
    """

    jobs: JobContext
    uphold: Uphold | None = None

    def check_computed_claim(self, id_: str) -> tuple[Payload, int] | None:
        """Check the claim that the computation of a stage has succeeded.

        Returns None if the evidence does not contradict the claim. Otherwise returns the decision
        of a person who overrules the evidence, or raises `ClaimDenied`.
        """
        state = self.jobs.service.state()
        stage = state.stage(id_)
        is_open = stage.open_attempt is not None
        return self._check_claim(state, stage, "computed", _NOT_COMPUTED) if is_open else None

    def check_job_ended_claim(self, id_: str) -> tuple[Payload, int] | None:
        """Check the claim that the job of a stage in post-processing has ended.

        Returns None if the evidence does not contradict the claim. Otherwise returns the decision
        of a person who overrules the evidence, or raises `ClaimDenied`.
        """
        state = self.jobs.service.state()
        stage = state.stage(id_)
        known = stage.attempt is not None and stage.status is Status.POST_PROCESSING
        return self._check_claim(state, stage, "over", _ALIVE) if known else None

    def record_claimed_tasks_done(self, id_: str) -> None:
        """Record the tasks of a sweep as done if nothing shows how they ended.

        A person has claimed that they succeeded. Prints the number of these tasks.
        """
        state = self.jobs.service.state()
        stage = state.stage(id_)
        if not is_sweep(stage.parameters) or stage.open_attempt is None:
            return
        # This import is slow and needed only for a sweep.
        from reconciler.sweep.judge_tasks import close_tasks, find_tasks_to_judge

        with self.jobs.lock_stage(id_):
            if not inspect_attempt(self.jobs, state, stage).verdict.has_doubtful_outputs:
                return
            found = find_tasks_to_judge(self.jobs.root, state, stage)
            newest = newest_attempt(self.jobs, state, stage)
            earlier = {one.id: one for one, _ in found.values() if one.id != newest.id}
            for attempt in (*earlier.values(), newest):
                observed = close_tasks(state, state.stage(id_), attempt, believed=True)
                state = self.jobs.record(observed).state
            tasks = "1 task" if len(found) == 1 else f"{len(found):,} tasks"
            self.jobs.say(
                f"{id_}: {tasks} recorded as done, although nothing shows how they ended", stage=id_
            )

    def _check_claim(
        self, state: Workflow, stage: Stage, claim: str, denying: frozenset[Action]
    ) -> tuple[Payload, int] | None:
        # An attempt that was never launched has left no evidence that could contradict the claim.
        if not newest_attempt(self.jobs, state, stage).launch_record.exists():
            return None
        finding = inspect_attempt(self.jobs, state, stage)
        found = finding.verdict
        if found.action not in denying:
            return None
        if self.uphold is None:
            raise ClaimDenied(stage.id, finding.attempt, claim, found.reason, found.name, found.row)
        return self.uphold(finding, claim)
