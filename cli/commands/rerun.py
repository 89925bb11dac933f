"""``wfctl rerun``: compute stages again, proposed and decided in one step."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.commands.amend import not_now, tell_proposals
from cli.frame import impact as words
from cli.frame.consent import consenter_of
from cli.frame.options import AgreeingKey, CommandId, DryRun, ExpectedVersion, write_options
from cli.frame.workspace import engine
from cli.frame.writes import tell
from cli.terminal.output import Output, say
from lifecycle.errors import NeedsConsent
from lifecycle.payload import models as p
from lifecycle.state.dependencies import downstream
from lifecycle.state.status import ACTIVE, Status
from lifecycle.state.workflow import Workflow
from projections.words.account import stale
from reconciler.context import Jobs
from reconciler.control.ending_attempts import stop_all
from reconciler.files.freshness import deviations
from service.consent.proof import Consenter
from service.errors import InvalidOption
from service.writing import amendments as decisions
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome

#: Of these something was computed, or is.
_BEGUN = ACTIVE | {Status.COMPLETED, Status.FAILED}
#: Characters of a reason that was found, not given.
_REASON = 1_000

Stages = Annotated[list[str], typer.Argument(metavar="STAGE...", help="The stages to compute.")]


def rerun(
    context: typer.Context,
    stages: Stages,
    from_here: Annotated[
        bool, typer.Option("--from-here", help="And every stage that rests on them.")
    ] = False,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why; else what made them stale.")
    ] = None,
    key: AgreeingKey = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Compute stages again: the impact is shown, and a person agrees to all of it at once."""
    options = write_options(dry_run, command_id, expected_version)
    with engine(context, dry_run) as (jobs, output):
        state = jobs.service.state()
        consenter = consenter_of(state.consent, jobs.service.actor, key, None)
        named = _named(state, stages, from_here)
        command = p.AmendmentProposed(
            kind="stage_rerun",
            stage=named[0],
            also=named[1:],
            description=f"rerun {', '.join(named)}",
            reason=reason or _found(jobs.root, state, named),
        )
        proposed = jobs.service.handle(command, options=options)
        if dry_run:
            tell_proposals(jobs.service, output, proposed, options)
            return
        decide(jobs, output, proposed, consenter)


def _named(state: Workflow, stages: list[str], from_here: bool) -> list[str]:
    """Return the stages in array order, with those that rest on them where that is asked for."""
    named = {state.stage(id_).id for id_ in stages}
    if from_here:
        graph = {id_: stage.depends_on for id_, stage in state.stages.items()}
        below = downstream(graph, named)
        named |= {id_ for id_ in below if state.stages[id_].status in _BEGUN}
    return [id_ for id_ in state.stages if id_ in named]


def _found(root: Path, state: Workflow, named: list[str]) -> str:
    """Return why the stages are stale; raises `InvalidOption` where they are not."""
    reasons = stale(state, deviations(root, state))
    why = [f"{id_}: {', '.join(reasons[id_])}" for id_ in named if id_ in reasons]
    if not why:
        raise InvalidOption(f"{', '.join(named)}: nothing changed since; give --reason TEXT")
    return "; ".join(why)[:_REASON]


def decide(jobs: Jobs, output: Output, proposed: Outcome, consenter: Consenter) -> None:
    """Ask for consent to what was proposed, unless it is decided already."""
    named = (e.data for e in proposed.events if e.type == "amendment.proposed")
    id_ = next(str(data["amendment"]) for data in named)
    options = WriteOptions()
    if jobs.service.state().amendments[id_].status != "proposed":
        tell(output, proposed, options)
        return
    question = decisions.question_of(jobs.service, id_)
    impact = "; ".join(words.consequences(question.impact))
    say(f"{id_} is proposed; {impact}; `wfctl amend approve {id_}` agrees to it")
    agreed = decisions.approve(jobs.service, id_, consenter, options, question.digest)
    if agreed is None:
        raise NeedsConsent(not_now([id_]), amendments=[id_])
    stop_all(jobs)
    tell(output, agreed, options)
