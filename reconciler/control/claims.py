"""Claims of people and agents, held to the evidence: no living job is over by being called so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lifecycle.errors import Refused
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from reconciler.context import Jobs
from reconciler.control.finding import AttemptFinding, look, newest_attempt
from reconciler.verdict.names import Name
from reconciler.verdict.table import Action

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from service.writing.stream_writer import WriteOptions

#: What says that something of an attempt is at work.
_ALIVE = frozenset({Action.WAIT, Action.ATTACH})
#: What says that its computation has not come to a good end.
_NOT_COMPUTED = _ALIVE | {Action.LAUNCH, Action.FAILED, Action.LOST}


class ClaimDenied(Refused):
    """Somebody says what the evidence denies."""

    code = "claim_denied"

    def __init__(self, finding: AttemptFinding, claim: str) -> None:
        found = finding.verdict
        super().__init__(
            f"{finding.stage}: {finding.attempt} is not {claim}: {found.reason} ({found.name}). "
            f"`wfctl wait {finding.stage}` waits for it, `wfctl reconcile` records what is so; "
            f'`wfctl stage fail {finding.stage} --stop --error "…"` ends it. A person who knows '
            "better says so with --overrule TEXT.",
            stage=finding.stage,
            attempt=finding.attempt,
            verdict=found.name,
            row=found.row,
        )


Uphold = Callable[[AttemptFinding, str], tuple["Payload", int]]
"""Asks a person to uphold a claim against a finding; returns the record of it, and the version
that the record is bound to."""


@dataclass(frozen=True, slots=True)
class Claims:
    """How claims are held to the evidence; ``uphold`` asks a person where one may overrule it."""

    jobs: Jobs
    uphold: Uphold | None = None

    def computed(self, id_: str) -> tuple[Payload, int] | None:
        """Raise `ClaimDenied` where the evidence denies that a computation is over and well.

        Returns the record of a person's word against the evidence, None where none is needed.
        """
        state = self.jobs.service.state()
        stage = state.stage(id_)
        if stage.open_attempt is None:
            return None
        return self._held(state, stage, "computed", _NOT_COMPUTED)

    def believe(self, id_: str) -> None:
        """Take what tasks left as good where somebody says so and nothing else can."""
        state = self.jobs.service.state()
        stage = state.stage(id_)
        if not is_sweep(stage.parameters) or stage.open_attempt is None:
            return
        from reconciler.sweep import judging  # only where a stage has tasks

        with self.jobs.sole(id_):
            if look(self.jobs, state, stage).verdict.name == Name.UNTOLD:
                attempt = newest_attempt(self.jobs, state, stage)
                self.jobs.record(judging.close(self.jobs.root, state, stage, attempt))

    def over(self, id_: str) -> tuple[Payload, int] | None:
        """As `computed`, where a stage that is called complete has a job at work."""
        state = self.jobs.service.state()
        stage = state.stage(id_)
        if stage.attempt is None or stage.status is not Status.POST_PROCESSING:
            return None
        return self._held(state, stage, "over", _ALIVE)

    def _held(
        self, state: Workflow, stage: Stage, claim: str, denying: frozenset[Action]
    ) -> tuple[Payload, int] | None:
        # An attempt that was only recorded has left nothing that could deny anything.
        if not newest_attempt(self.jobs, state, stage).launch_record.exists():
            return None
        finding = look(self.jobs, state, stage)
        if finding.verdict.action not in denying:
            return None
        if self.uphold is None:
            raise ClaimDenied(finding, claim)
        return self.uphold(finding, claim)


def bound(options: WriteOptions, version: int) -> WriteOptions:
    """Return the options of a write that comes right behind the version."""
    return replace(options, expected_version=version, exact=True)
