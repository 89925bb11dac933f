"""``wfctl amend …``: definitional changes, proposed and decided."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from cli.frame import impact as words
from cli.frame import proposal
from cli.frame.consent import PersonConsent, consenter_of
from cli.frame.options import AgreeingKey, AsOf, File, Text, Texts, Why, Writes, argument, option
from cli.frame.workspace import engine, writing
from cli.frame.writes import events_of, foreseen, tell, write
from cli.terminal.output import Output, print_statement, say
from lifecycle.errors import LifecycleError, NeedsConsent, UnknownAmendment
from lifecycle.payload import models as p
from lifecycle.rules.amendments import of_proposal
from lifecycle.rules.decide import payload_of
from lifecycle.rules.impact import impact_of
from lifecycle.state.conditions import downstream
from lifecycle.state.status import ACTIVE, Status
from lifecycle.state.workflow import Amendment, Workflow
from projections.words.account import stale
from projections.words.amendments import changes, summary, where
from projections.words.text import spelled
from reconciler.context import Jobs
from reconciler.control.stopping import stop_all
from reconciler.files.freshness import deviations
from service.consent.proof import content_of, shown_digest
from service.consent.scripts import scripts_after
from service.errors import InvalidOption
from service.root.disk import utc_text
from service.root.root import Root, read_config
from service.writing import amendments as decisions
from service.writing import mandates
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome, Service

Ids = Annotated[list[str], argument("AMENDMENT...", "Ids of the amendments, for example amend-1.")]
Id = Annotated[str, argument("AMENDMENT", "Id of the amendment, for example amend-1.")]
Dependents = Annotated[Texts, option("STAGE", "Stage that depends on the inserted stage.")]
Stages = Annotated[Texts, option("STAGE", "Stage to change; repeatable.")]


def propose(
    context: typer.Context,
    options: Writes,
    type_: Text = option(
        "--type",
        "TYPE",
        "stage_rerun: compute a stage once more, with --set as the new values; "
        "stage_skip: take it out of the way (--rewire lets its dependents go on); "
        "stage_insert: one more (--insert says so by itself); parameter_change and "
        "criteria_change: what --set means without a type.",
    ),
    stage: Stages = None,
    sets: Texts = option("--set", "PATH=VALUE", "New value of a field."),
    unset: Texts = option("PATH", "Key to remove."),
    reason: Why = None,
    description: Text = option("TEXT", "Describe the change."),
    insert: Text = option("JSON|@FILE", "Definition of a stage to insert."),
    place: int | None = option("N", "Position of the stage; 0 is first.", min=0),
    dependent: Dependents = None,
    rewire: bool = option("Remove the skipped stage and its outputs from the stages downstream."),
    from_round: int | None = option(
        "N", "Keep the results of earlier rounds; run this round and later ones again.", min=2
    ),
    source: Text = option("--from", "FILE|-", "Read the whole proposal from a file."),
) -> None:
    """Propose a change; nothing changes until a person approves it."""
    given = (type_, stage, sets, unset, reason, description, insert, place, dependent)
    others = rewire or from_round is not None
    if source is not None and (others or any(value is not None for value in given)):
        raise InvalidOption("--from takes no other option of the proposal: the file holds them")
    if source is not None:
        asked = proposal.read_proposal(source)
    else:
        asked = proposal.AskedChanges(
            kind=type_,
            reason=reason,
            description=description,
            words=tuple(sets or ()),
            taken=tuple(unset or ()),
            insert=proposal.definition_of(insert) if insert is not None else None,
            place=place,
            rewire=list(dependent) if dependent else rewire,
            from_round=from_round,
        )
    if not asked.reason:
        raise InvalidOption("a proposal says why: give --reason TEXT (in a file: reason)")
    with engine(context, options.dry_run) as (jobs, output):
        service = jobs.service
        before = service.state()
        named = proposal.of_each(before, asked, stage or [])
        each = [proposal.with_pins(one, service.root.path, before) for one in named]
        commands = [proposal.command_of(before, one) for one in each]
        for doubt in proposal.doubts(before, each):
            say(doubt)
        tell_proposals(jobs, output, service.handle(*commands, options=options), options)


def tell_proposals(jobs: Jobs, output: Output, outcome: Outcome, options: WriteOptions) -> None:
    """Tell of each proposal, and let those take effect that are within a mandate.

    ``amendment`` and ``impact`` are those of the first.
    """
    service = jobs.service
    told, lines = _told_of(service, outcome, options)
    stands = outcome.stands
    for one in told:
        if one.get("mandate") is not None and not options.dry_run:
            in_force = mandates.take_effect(service, one["amendment"]["id"], WriteOptions())
            stands = in_force.stands if in_force is not None else service.state()
            if in_force is None:
                one["mandate"] = None
                lines.append(f"{one['amendment']['id']} waits: another change came before it")
            one["amendment"] = _record(service.state().amendments[one["amendment"]["id"]])
    if stands is not outcome.stands:
        stop_all(jobs)
    data = {
        "dry_run": options.dry_run,
        "repeated": outcome.repeated,
        "events": events_of(outcome, options),
        **foreseen(outcome, options),
        **told[0],
        **({"proposals": told} if len(told) > 1 else {}),
    }
    output.changed(data, lambda: "\n".join(lines), stands, is_rehearsal=options.dry_run)


def _told_of(
    service: Service, outcome: Outcome, options: WriteOptions
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return what is said of each proposal, as data and as lines."""
    state, root = service.state(), service.root.path
    kept = decisions.kept_folders(root, state)
    verb = "would propose" if options.dry_run else "proposed"
    lines: list[str] = []
    told: list[dict[str, Any]] = []
    for one in _proposed(outcome):
        impact = impact_of(state, one, kept, utc_text(service.clock()))
        sight = words.foresight(root, state, one, impact)
        digest = shown_digest(state, one, impact, scripts_after(root, state, one))
        shown = {**impact.to_dict(), **sight.to_dict(), "digest": digest}
        told.append({"amendment": _record(one), "impact": shown})
        lines.append(f"{verb} {one.id} ({one.kind}, {where(one)})")
        lines += [f"  {line}" for line in changes(one)]
        lines.append(f"impact: {'; '.join(words.consequences(impact))}")
        lines += words.foreseen(sight)
        cover = mandates.cover_of(service, state, one, impact)
        if cover is not None:
            told[-1] |= {"mandate": cover.mandate, "not_within": cover.why}
            lines.append(f"{one.id} is {cover}")
    return told, lines


def _proposed(outcome: Outcome) -> list[Amendment]:
    type_ = "amendment.proposed"
    if outcome.events:
        named = [str(e.data["amendment"]) for e in outcome.events if e.type == type_]
        return [outcome.state.amendments[id_] for id_ in named]
    planned = [payload for payload, _ in outcome.planned if payload.type == type_]
    return [of_proposal(payload_of(one.type, one.model_dump(mode="json"))) for one in planned]  # type: ignore[arg-type]


def _record(amendment: Amendment) -> dict[str, Any]:
    names = ("status", "proposed_at", "decided_at", "version", "approved_by", "invalidated_stages")
    return {**content_of(amendment), **{name: getattr(amendment, name) for name in names}}


def approve(
    context: typer.Context,
    options: Writes,
    ids: Ids,
    key: File = option("FILE", "Sign with this SSH key (or its .pub)."),
    signature: File = option("FILE", "Signature of the text that `amend show --statement` prints."),
    impact: Text = option("DIGEST", "Refuse if the impact is no longer this one."),
) -> None:
    """Approve amendments as a person; each is shown before the question."""
    of_one = (signature, impact, options.command_id, options.expected_version)
    if len(ids) > 1 and (options.dry_run or any(given is not None for given in of_one)):
        raise InvalidOption(
            "--signature, --impact, --dry-run, --command-id and --expected-version are of one "
            f"amendment; found {len(ids)} of them"
        )
    with engine(context, options.dry_run) as (jobs, output):
        service = jobs.service
        if options.dry_run:
            tell(output, decisions.plan_approval(service, ids[0], options), options)
            return
        consenter = consenter_of(service.state().consent, service.actor, key, signature)
        found = [_agreed(service, id_, consenter, options, impact) for id_ in ids]
        agreed = [outcome for outcome in found if outcome is not None]
        if agreed:
            stop_all(jobs)
            events = tuple(event for outcome in agreed for event in outcome.events)
            repeated = all(outcome.repeated for outcome in agreed)
            tell(output, replace(agreed[-1], events=events, repeated=repeated), options)
    left = [id_ for id_, outcome in zip(ids, found, strict=True) if outcome is None]
    if left:
        raise _not_now(left)


def _agreed(
    service: Service, id_: str, consenter: PersonConsent, options: WriteOptions, shown: str | None
) -> Outcome | None:
    """Approve by the mandate that an amendment is within, else as a person; a key is a person's."""
    is_signed = consenter.key is not None or consenter.made is not None
    by_mandate = None if is_signed else mandates.take_effect(service, id_, options)
    return by_mandate or decisions.approve(service, id_, consenter, options, shown)


def _not_now(left: list[str]) -> NeedsConsent:
    names = " ".join(left)
    return NeedsConsent(
        f"nothing was decided of {', '.join(left)}, which waits on. `wfctl amend approve {names}` "
        f"asks again; `wfctl amend reject {names} --reason TEXT` closes it for good.",
        amendments=left,
    )


def reject(
    context: typer.Context,
    options: Writes,
    ids: Ids,
    reason: Text = option("TEXT", "Reason of the rejection."),
) -> None:
    """Reject proposals; nothing changes."""
    commands = [
        payload_of("amendment.rejected", {"amendment": id_, "reason": reason}) for id_ in ids
    ]
    write(context, options, *commands)


def list_(
    context: typer.Context,
    state: Text = option("STATE", "Show only amendments that are proposed, approved or rejected."),
    view: AsOf = None,
) -> None:
    """List amendments in the order of their proposals."""
    with writing(context, dry_run=True) as (service, output):
        workflow = service.log.current(view)
        found = [a for a in workflow.amendments.values() if state in (None, a.status)]
        lines = [f"{a.id:<9} {a.status:<9} {a.kind:<17} {where(a):<9} {summary(a)}" for a in found]
        output.result(
            [_record(a) for a in found], lambda: "\n".join(lines) or "no amendments", state=workflow
        )


def show(
    context: typer.Context,
    id_: Id,
    statement: bool = option("Print only the text to sign."),
    view: AsOf = None,
) -> None:
    """Show one amendment, with its impact while it is pending."""
    with writing(context, dry_run=True) as (service, output):
        state = service.log.current(view)
        amendment = state.amendments.get(id_)
        if amendment is None:
            # A row that is ignored may be what is meant.
            aside = [
                f"version {one['version']}, {one['type']!r:.80}, is ignored: {one['why']}"
                for one in state.set_aside
                if str(one["type"]).startswith("amendment.")
            ]
            raise UnknownAmendment(id_, list(state.amendments), aside)
        if statement and view is None:
            print_statement(decisions.question_of(service, id_).statement)
            return
        data: dict[str, Any] = {"amendment": _record(amendment)}
        text = _text(amendment)
        if view is None and amendment.status == "proposed":
            more, text = _open(service, amendment)
            data |= more
        output.result(data, lambda: text, state=state)


def _open(service: Service, amendment: Amendment) -> tuple[dict[str, Any], str]:
    """Return what is shown of a proposal that waits, and how people read it.

    What fits the workflow no more, or never did, is told with the reason. The latter is a row that
    somebody wrote past us: no command records it.
    """
    try:
        question = decisions.question_of(service, amendment.id)
    except LifecycleError as error:
        told = (
            f"{amendment.id} takes no effect, and cannot be approved: {spelled(error.message)}\n"
            f"`wfctl amend reject {amendment.id}` closes it.\n{_text(amendment)}"
        )
        return {"takes_effect": False, "why": error.message}, told
    state = question.state
    sight = words.foresight(question.root, state, question.amendment, question.impact)
    data = {
        "impact": {**question.impact.to_dict(), **sight.to_dict(), "digest": question.digest},
        "scripts": dict(question.scripts),
        "head": {"version": state.head, "hash": question.head},
        "policy": state.consent,
    }
    tail = f"\ndigest of all this {question.digest}, shown at version {state.head}"
    return data, words.told(question) + tail


def _text(amendment: Amendment) -> str:
    lines = [
        f"{amendment.id} ({amendment.kind}, {where(amendment)})",
        *(f"  {line}" for line in changes(amendment)),
        f"described by its proposer: {spelled(amendment.description)}",
        f"reason: {spelled(amendment.reason or 'none given')}",
        f"{amendment.status} {amendment.decided_at or amendment.proposed_at}"
        + (f" by {amendment.approved_by}" if amendment.approved_by else ""),
        f"affected: {', '.join(amendment.invalidated_stages) or 'none'}",
    ]
    return "\n".join(lines)


#: Of these something was computed, or is.
_BEGUN = ACTIVE | {Status.COMPLETED, Status.FAILED}
#: Characters of a reason that was found, not given.
_REASON = 1_000


def rerun(
    context: typer.Context,
    options: Writes,
    stages: Texts = argument("STAGE...", "Ids of the stages to run."),
    from_: Texts = option("--from", "STAGE", "Run this stage and every stage downstream."),
    from_here: bool = option("Run every stage downstream too."),
    reason: Text = option("TEXT", "Reason (default: the cause that made the stages stale)."),
    key: AgreeingKey = None,
) -> None:
    """Run completed stages again.

    The impact is shown first, and a person approves all of it together.
    """
    with engine(context, options.dry_run) as (jobs, output):
        state = jobs.service.state()
        consenter = consenter_of(state.consent, jobs.service.actor, key, None)
        named = _to_compute(state, stages or [], from_ or [], from_here)
        command = p.AmendmentProposed(
            kind="stage_rerun",
            stage=named[0],
            also=named[1:],
            description=f"rerun {', '.join(named)}",
            reason=reason or _reason_for(jobs.service.root, state, named),
        )
        proposed = jobs.service.handle(command, options=options)
        decide(jobs, output, proposed, consenter, options)


def _to_compute(state: Workflow, alone: list[str], roots: list[str], all_roots: bool) -> list[str]:
    """Return the stages named, and those begun that rest on ``roots``, in the plan's order."""
    if not (alone or roots):
        raise InvalidOption("expected a STAGE, or --from STAGE, found neither")
    given = {state.stage(id_).id for id_ in (*alone, *roots)}
    graph = {id_: stage.depends_on for id_, stage in state.stages.items()}
    below = downstream(graph, given if all_roots else set(roots))
    given |= {id_ for id_ in below if state.stages[id_].status in _BEGUN}
    return [id_ for id_ in state.stages if id_ in given]


def _reason_for(root: Root, state: Workflow, named: list[str]) -> str:
    """Return what made the stages stale; if nothing did, the archive that the root is from."""
    reasons = stale(state, deviations(root.path, state))
    why = [f"{id_}: {', '.join(reasons[id_])}" for id_ in named if id_ in reasons]
    archive = read_config(root).archive
    if archive is not None:
        why = why or [f"computed again from {archive}"]
    if not why:
        raise InvalidOption(f"{', '.join(named)}: nothing changed since; give --reason TEXT")
    return "; ".join(why)[:_REASON]


def decide(
    jobs: Jobs, output: Output, proposed: Outcome, consenter: PersonConsent, options: WriteOptions
) -> None:
    """Ask for consent to what was proposed, unless it is decided already, or within a mandate."""
    if options.dry_run:
        tell_proposals(jobs, output, proposed, options)
        return
    named = (e.data for e in proposed.events if e.type == "amendment.proposed")
    id_ = next(str(data["amendment"]) for data in named)
    options = WriteOptions()
    if jobs.service.state().amendments[id_].status != "proposed":
        tell(output, proposed, options)
        return
    question = decisions.question_of(jobs.service, id_)
    impact = "; ".join(words.consequences(question.impact))
    say(f"{id_} is proposed; {impact}; `wfctl amend approve {id_}` agrees to it")
    agreed = _agreed(jobs.service, id_, consenter, options, question.digest)
    if agreed is None:
        raise _not_now([id_])
    stop_all(jobs)
    tell(output, agreed, options)
