"""What people and agents say of a stage: claims, fixes, and the diagnosis that they ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lifecycle.errors import NeedsConsent, Refused
from lifecycle.payload import models as p
from lifecycle.rules.flat import payload_of
from lifecycle.state.status import Status
from lifecycle.state.workflow import Attempt as Recorded
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from reconciler.attempt.contract import PREPARED
from reconciler.attempt.paths import AttemptPaths, of_recorded
from reconciler.context import Jobs
from reconciler.control.strangers import AttemptFinding, look, newest_attempt
from reconciler.evidence.collect import Evidence
from reconciler.records import traces
from reconciler.submission import build as submission
from reconciler.verdict.diagnosis import Diagnosis, diagnose
from reconciler.verdict.names import Name
from reconciler.verdict.table import Action
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome
from wording import Worded

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload


def retry(
    jobs: Jobs, id_: str, fix: str, options: WriteOptions, *, regenerate: bool = False
) -> Outcome:
    """Let a failed stage run again after a fix, which ``fix`` says in words.

    ``regenerate``: its submission is built anew. Raises `NeedsConsent` where the prepared
    submission.json was changed in what the stage's parameters say: the command, or the resources.
    """
    values = {"stage": id_, "fix": fix, "regenerate": regenerate}
    command = payload_of(p.StageRetried.type, values)
    first = jobs.service.first_answer(options, command)
    if first is not None:
        return first
    touched = [] if regenerate else _touched(jobs, jobs.service.state().stage(id_))
    if touched:
        refusal = NeedsConsent(
            f"{id_}: its submission.json changes {' and '.join(touched)}, and a fix that changes "
            "parameters is an amendment. Propose it (`wfctl amend propose`); once it is approved, "
            "the submission is built anew. A fix of an input script needs none.",
            stage=id_,
            fields=touched,
        )
        if not options.dry_run:
            jobs.service.record_refusal([command], refusal)
        raise refusal
    return jobs.service.handle(command, options=options)


def _touched(jobs: Jobs, stage: Stage) -> list[str]:
    """Return the parameters that the prepared submission changes since the last attempt."""
    prepared = jobs.root / stage.id / PREPARED
    attempt = next((a for a in reversed(stage.attempts) if not a.diagnostic), None)
    # An amendment that was approved since has the submission built anew.
    if attempt is None or stage.regenerate or not prepared.is_file():
        return []
    own = of_recorded(jobs.root, "", stage.id, attempt)
    ran = traces.read_json(own.submission)
    if ran is None:
        return []
    now = submission.read(prepared)
    named = stage.parameters.get("command") is not None
    touched = ["parameters.command"] if named and _commands(ran) != _commands(now) else []
    if _resources(ran) != _resources(now):
        touched.append("parameters.resource_overrides")
    return touched


def _commands(given: dict[str, Any]) -> list[Any]:
    return [task.get("command") for task in given.get("task_list", [])]


def _resources(given: dict[str, Any]) -> dict[str, Any]:
    """Return what is asked for; the environment and the guard of an attempt are wfctl's."""
    resources = dict(given.get("resources", {}))
    ours = ("envs", "prepend_script", "group_size")
    return {key: value for key, value in resources.items() if key not in ours}


#: What says that something of an attempt is at work.
_ALIVE = frozenset({Action.WAIT, Action.ATTACH})
#: What says that its computation has not come to a good end.
_NOT_COMPUTED = _ALIVE | {Action.LAUNCH, Action.FAILED, Action.LOST}


class ClaimDenied(Worded, Refused):
    """Somebody says what the evidence denies."""

    code = "claim_denied"
    text = (
        "{stage}: {attempt} is not {claim}: {reason} ({verdict}). `wfctl wait {stage}` waits for "
        "it, `wfctl reconcile` records what is so; `wfctl stage fail {stage} --stop --error "
        '"…"` ends it. A person who knows better says so with --overrule TEXT.'
    )
    untold = ("claim", "reason")
    stage: str
    attempt: str
    claim: str
    reason: str
    verdict: str
    row: int


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
            found = finding.verdict
            raise ClaimDenied(
                finding.stage, finding.attempt, claim, found.reason, found.name, found.row
            )
        return self.uphold(finding, claim)


def bound(options: WriteOptions, version: int) -> WriteOptions:
    """Return the options of a write that comes right behind the version."""
    return replace(options, expected_version=version, exact=True)


def diagnosis(
    state: Workflow,
    stage: Stage,
    attempt: AttemptPaths,
    evidence: Evidence | None,
    verdict: str | None,
) -> Diagnosis:
    """Return the diagnosis of an attempt by its evidence and the verdict on it."""
    found = diagnose(attempt, evidence, verdict)
    if not is_sweep(stage.parameters):
        return found
    from reconciler.sweep import records

    return records.diagnosis_of(found, attempt.root, state, stage)


def of_newest(jobs: Jobs, state: Workflow, stage: Stage, recorded: Recorded) -> Diagnosis:
    """Return the diagnosis of the newest attempt by what is recorded of it, and by its files."""
    evidence = Evidence.from_dict(recorded.evidence) if recorded.evidence else None
    attempt = jobs.attempt(state, stage, recorded.id)
    found = diagnosis(state, stage, attempt, evidence, recorded.verdict)
    events = jobs.service.log.events() if stage.status is Status.FAILED else ()
    failed = [one.data for one in events if one.type == p.StageFailed.type]
    for data in [one for one in failed if one["stage"] == stage.id][-1:]:
        if any(not check["passed"] for check in data["checks"]):
            said = {name: data[name] for name in ("category", "because", "output")}
            return replace(found, **said, has_output=True)
    return found
