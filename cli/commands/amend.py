"""``wfctl amend …``: propose, show, approve and reject changes of the plan."""

from __future__ import annotations

from typing import Annotated, Any

from cli.frame import impact as words
from cli.frame import proposal
from cli.frame.consent import PersonConsent, consenter_of
from cli.frame.context import Context
from cli.frame.options import AsOf, File, Text, Texts, Why, Writes, argument, option
from cli.frame.workspace import open_for_writing, open_job_runner
from cli.frame.write_command import events_of, list_planned_files, print_outcome, write_commands
from cli.terminal.output import Output, print_message, print_statement
from lifecycle.errors import LifecycleError, NeedsConsent, UnknownAmendment
from lifecycle.payload import models as p
from lifecycle.payload.build_payload import payload_of
from lifecycle.rules.amendments import amendment_of_proposal
from lifecycle.rules.impact import compute_approval_impact
from lifecycle.state.workflow import Amendment, Workflow
from lifecycle.words.scripts import omit_missing_init_script
from projections.words.amendments import format_changes, format_targets, summarise_changes
from projections.words.text import name_approver, spell_unseen
from reconciler.context import JobContext
from reconciler.control.stop_jobs import stop_marked_attempts
from service.consent.proof import agreed_content, shown_content_digest
from service.consent.scripts import find_scripts_after_amendment
from service.errors import InvalidOption
from service.root.atomic_files import utc_text
from service.writing import amendments as decisions
from service.writing import mandates
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome, Service
from wording import CodedError

Ids = Annotated[
    list[str],
    argument(
        "AMENDMENT...",
        "The ids of the amendments (proposed changes to the plan), for example amend-1.",
    ),
]
Id = Annotated[
    str,
    argument(
        "AMENDMENT", "The id of the amendment (a proposed change to the plan), for example amend-1."
    ),
]
Dependents = Annotated[
    Texts,
    option(
        "STAGE",
        "Make this existing stage depend on the inserted stage. You can repeat this option.",
    ),
]
Stages = Annotated[
    Texts, option("STAGE", "Change the stage with this id. You can repeat this option.")
]


ChangeType = Annotated[
    Text,
    option(
        "--type",
        "TYPE",
        "Choose the type of the change: stage_rerun (run a stage again), stage_skip "
        "(skip a stage), stage_insert (add a stage), parameter_change or "
        "criteria_change (change fields). Default: the type that fits --insert or "
        "--set.",
    ),
]
NewValues = Annotated[
    Texts,
    option(
        "--set",
        "PATH=VALUE",
        "Set a field of the stage to a new value, for example parameters.x=2. You can "
        "repeat this option.",
    ),
]
RemovedFields = Annotated[
    Texts,
    option(
        "PATH", "Remove a field of the stage, for example parameters.x. You can repeat this option."
    ),
]
Description = Annotated[
    Text, option("TEXT", "Describe the change in one sentence, for the person who approves it.")
]
NewStage = Annotated[
    Text,
    option(
        "JSON|@FILE",
        "Insert a new stage, defined by this JSON object or by the JSON in a file (@FILE).",
    ),
]
Position = Annotated[
    int | None,
    option(
        "N",
        "Insert the new stage at this position in the list of stages (0 is the first position).",
        min=0,
    ),
]
Rewire = Annotated[
    bool,
    option(
        "Remove the skipped stage from the dependencies and inputs of later stages, "
        "so that they can run. Requires --type stage_skip."
    ),
]
FromRound = Annotated[
    int | None,
    option(
        "N",
        "Rerun round N of an optimization loop and all later rounds, and keep the "
        "results of earlier rounds.",
        min=2,
    ),
]
ProposalFile = Annotated[
    Text,
    option(
        "--from",
        "FILE|-",
        "Read the whole proposal from this JSON file, or from stdin (-), instead of from options.",
    ),
]


def propose(
    context: Context,
    options: Writes,
    type_: ChangeType = None,
    stage: Stages = None,
    sets: NewValues = None,
    unset: RemovedFields = None,
    reason: Why = None,
    description: Description = None,
    insert: NewStage = None,
    place: Position = None,
    dependent: Dependents = None,
    rewire: Rewire = False,
    from_round: FromRound = None,
    source: ProposalFile = None,
) -> None:
    """Propose a change of the plan.

    wfctl changes nothing until a person approves the proposal.
    """
    given = (type_, stage, sets, unset, reason, description, insert, place, dependent)
    others = rewire or from_round is not None
    if source is not None and (others or any(value is not None for value in given)):
        raise InvalidOption(
            "the option --from cannot be combined with other options that describe the change. "
            "Write their values into the file that --from names."
        )
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
        raise InvalidOption(
            "each proposed change needs a reason. Give the option --reason TEXT, or write the "
            "field `reason` into the file."
        )
    with open_job_runner(context, options.dry_run) as (jobs, output):
        service = jobs.service
        before = service.state()
        named = proposal.split_changes_by_stage(before, asked, stage or [])
        each = [proposal.pin_scripts_of_proposal(one, service.root.path, before) for one in named]
        commands = [proposal.command_of(before, one) for one in each]
        for doubt in proposal.list_change_warnings(before, each):
            print_message(doubt)
        apply_and_print_proposals(jobs, output, service.handle(*commands, options=options), options)


def apply_and_print_proposals(
    jobs: JobContext, output: Output, outcome: Outcome, options: WriteOptions
) -> None:
    """Print each proposed change, and apply each change that a mandate allows.

    A mandate is a permission that a person gave in advance. A dry run only prints. If there are
    several proposals, the top-level fields ``amendment`` and ``impact`` of the output describe the
    first one.
    """
    service = jobs.service
    told, lines = _describe_proposals(service, outcome, options)
    stands = outcome.stands
    for one in told:
        if one.get("mandate") is not None and not options.dry_run:
            in_force = mandates.approve_by_mandate(service, one["amendment"]["id"], WriteOptions())
            stands = in_force.stands if in_force is not None else service.state()
            if in_force is None:
                one["mandate"] = None
                lines.append(
                    f"{one['amendment']['id']} waits for its decision, because another change "
                    "came first"
                )
            one["amendment"] = _build_record(service.state().amendments[one["amendment"]["id"]])
    if stands is not outcome.stands:
        stop_marked_attempts(jobs)
    data = {
        "dry_run": options.dry_run,
        "repeated": outcome.repeated,
        "events": events_of(outcome, options),
        **list_planned_files(outcome, options),
        **told[0],
        **({"proposals": told} if len(told) > 1 else {}),
    }
    output.print_change(data, lambda: "\n".join(lines), stands, is_rehearsal=options.dry_run)


def _describe_proposals(
    service: Service, outcome: Outcome, options: WriteOptions
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a description of each proposed change, as data and as lines of text."""
    state, root = service.state(), service.root.path
    kept = decisions.find_newest_archive_numbers(root, state)
    verb = "would propose" if options.dry_run else "proposed"
    lines: list[str] = []
    told: list[dict[str, Any]] = []
    for one in _list_proposed(outcome):
        impact = compute_approval_impact(state, one, kept, utc_text(service.clock()))
        sight = words.forecast_effects(root, state, one, impact)
        digest = shown_content_digest(
            state, one, impact, find_scripts_after_amendment(root, state, one)
        )
        shown = {**impact.to_dict(), **sight.to_dict(), "digest": digest}
        told.append({"amendment": _build_record(one), "impact": shown})
        lines.append(f"{verb} {one.id} ({one.kind}, {format_targets(one)})")
        lines += [f"  {line}" for line in format_changes(one)]
        lines.append(f"impact: {'; '.join(words.list_consequences(impact))}")
        lines += words.format_forecast(sight)
        cover = mandates.find_mandate_coverage(service, state, one, impact)
        if cover is not None:
            told[-1] |= {"mandate": cover.mandate, "not_within": cover.why}
            lines.append(f"{one.id} is {cover}")
    return told, lines


def _list_proposed(outcome: Outcome) -> list[Amendment]:
    type_ = "amendment.proposed"
    if outcome.events:
        named = [str(e.data["amendment"]) for e in outcome.events if e.type == type_]
        return [outcome.state.amendments[id_] for id_ in named]
    planned = [payload for payload, _ in outcome.planned if payload.type == type_]
    payloads = [payload_of(one.type, one.model_dump(mode="json")) for one in planned]
    return [amendment_of_proposal(one) for one in payloads]  # type: ignore[arg-type]


def _build_record(amendment: Amendment) -> dict[str, Any]:
    names = ("status", "proposed_at", "decided_at", "version", "approved_by", "invalidated_stages")
    user = amendment.database_user
    known = {name: getattr(amendment, name) for name in names}
    known |= {"database_user": user} if user is not None else {}
    return {**agreed_content(amendment), **known}


def approve(
    context: Context,
    options: Writes,
    ids: Ids,
    key: File = option(
        "FILE",
        "Sign your approval with this SSH key. FILE is the private key, or the .pub file "
        "of a key in ssh-agent.",
    ),
    signature: File = option(
        "FILE",
        "Approve with this signature file. To create the file, sign the output of "
        "`wfctl amend show --statement`.",
    ),
    impact: Text = option(
        "DIGEST",
        "Approve only if the effects of the change still have this digest, as printed "
        "by `wfctl amend show`.",
    ),
) -> None:
    """Approve proposed changes of the plan.

    Only a person can do this. wfctl shows each change before it asks you.
    """
    of_one = (signature, impact, options.command_id, options.expected_version)
    if len(ids) > 1 and (options.dry_run or any(given is not None for given in of_one)):
        raise InvalidOption(
            "the options --signature, --impact, --dry-run, --command-id and --expected-version "
            f"can be used only with one amendment, but you named {len(ids)}. Run the command once "
            "for each amendment."
        )
    with open_job_runner(context, options.dry_run) as (jobs, output):
        service = jobs.service
        for id_ in ids:
            _find_amendment(service.state(), id_)
        if options.dry_run:
            print_outcome(
                output, decisions.preview_approval_events(service, ids[0], options), options
            )
            return
        consenter = consenter_of(service.state().consent, service.actor, key, signature)
        found = [_approve_amendment(service, id_, consenter, options, impact) for id_ in ids]
        agreed = [outcome for outcome in found if outcome is not None]
        if agreed:
            stop_marked_attempts(jobs)
            events = tuple(event for outcome in agreed for event in outcome.events)
            repeated = all(outcome.repeated for outcome in agreed)
            print_outcome(output, (agreed[-1])._replace(events=events, repeated=repeated), options)
    left = [id_ for id_, outcome in zip(ids, found, strict=True) if outcome is None]
    if left:
        raise _build_undecided_error(left)


def _find_amendment(state: Workflow, id_: str) -> Amendment:
    """Return the amendment with this id. Raises `UnknownAmendment` if none exists."""
    found = state.amendments.get(id_)
    if found is not None:
        return found
    # The log may contain an amendment with this id in an event that wfctl ignores. The message of
    # the error then quotes that event.
    aside = [
        f"version {one['version']}, {one['type']!r:.80}, is ignored: {one['why']}"
        for one in state.set_aside
        if str(one["type"]).startswith("amendment.")
    ]
    raise UnknownAmendment(id_, list(state.amendments), aside)


def _approve_amendment(
    service: Service, id_: str, consenter: PersonConsent, options: WriteOptions, shown: str | None
) -> Outcome | None:
    """Approve an amendment (change of the plan) by a mandate, or by asking a person.

    A mandate is a permission given in advance. It is not used if the caller gives a signing key or
    a signature, because then a person wants to approve. Returns None if the person answers "not
    now".
    """
    is_signed = consenter.key is not None or consenter.made is not None
    by_mandate = None if is_signed else mandates.approve_by_mandate(service, id_, options)
    return by_mandate or decisions.approve_amendment(service, id_, consenter, options, shown)


def _build_undecided_error(left: list[str]) -> NeedsConsent:
    names = " ".join(left)
    return NeedsConsent(
        f"you made no decision, so these changes still wait for approval: {', '.join(left)}. To "
        f"decide later, run `wfctl amend approve {names}`. To reject, run `wfctl amend reject "
        f"{names} --reason TEXT`.",
        amendments=left,
    )


def reject(
    context: Context,
    options: Writes,
    ids: Ids,
    reason: Text = option("TEXT", "Record in the log why you reject the change."),
) -> None:
    """Reject proposed changes of the plan."""
    commands = [
        payload_of("amendment.rejected", {"amendment": id_, "reason": reason}) for id_ in ids
    ]
    write_commands(context, options, *commands)


def list_(
    context: Context,
    state: Text = option(
        "STATE",
        "List only amendments (plan changes) in this state: proposed, approved or rejected.",
    ),
    view: AsOf = None,
) -> None:
    """List amendments (proposed changes of the plan), the oldest first."""
    with open_for_writing(context, dry_run=True) as (service, output):
        workflow = service.log.current(view)
        found = [a for a in workflow.amendments.values() if state in (None, a.status)]
        lines = [
            f"{a.id:<9} {a.status:<9} {a.kind:<17} {format_targets(a):<9} {summarise_changes(a)}"
            for a in found
        ]
        output.result(
            [_build_record(a) for a in found],
            lambda: "\n".join(lines) or "no amendments",
            state=workflow,
        )


def show(
    context: Context,
    id_: Id,
    statement: bool = option(
        "Print only the text to sign, so that you can sign your approval on another computer."
    ),
    view: AsOf = None,
) -> None:
    """Show one amendment (a proposed change of the plan).

    If nobody has decided about the amendment yet, also show its impact.
    """
    with open_for_writing(context, dry_run=True) as (service, output):
        state = service.log.current(view)
        amendment = _find_amendment(state, id_)
        if statement and view is None:
            print_statement(decisions.build_question(service, id_).statement)
            return
        data: dict[str, Any] = {"amendment": _build_record(amendment)}
        text = _format_amendment(amendment)
        if view is None and amendment.status == "proposed":
            more, text = _describe_open_amendment(service, amendment)
            data |= more
        output.result(data, lambda: text, state=state)


def _describe_open_amendment(service: Service, amendment: Amendment) -> tuple[dict[str, Any], str]:
    """Return a description of a proposed change of the plan, as data and as text.

    If the change does not fit the workflow, include the reason. wfctl records no proposal that does
    not fit. A proposal that never fitted was therefore written to the log by another program.
    """
    try:
        question = decisions.build_question(service, amendment.id)
    except LifecycleError as error:
        told = (
            f"{amendment.id} can no longer be applied, so it cannot be approved: "
            f"{spell_unseen(error.message)}\n`wfctl amend reject {amendment.id}` rejects the "
            f"amendment.\n{_format_amendment(amendment)}"
        )
        return {"takes_effect": False, "why": error.message}, told
    state = question.state
    sight = words.forecast_effects(question.root, state, question.amendment, question.impact)
    data = {
        "impact": {**question.impact.to_dict(), **sight.to_dict(), "digest": question.digest},
        "scripts": omit_missing_init_script(question.scripts),
        "head": {"version": state.head, "hash": question.head},
        "policy": state.consent,
    }
    tail = f"\ndigest of everything above: {question.digest}, shown at version {state.head}"
    return data, words.format_question(question) + tail


def _format_amendment(amendment: Amendment) -> str:
    by = name_approver(amendment.approved_by, amendment.database_user)
    lines = [
        f"{amendment.id} ({amendment.kind}, {format_targets(amendment)})",
        *(f"  {line}" for line in format_changes(amendment)),
        f"described by its proposer: {spell_unseen(amendment.description)}",
        f"reason: {spell_unseen(amendment.reason or 'none given')}",
        f"{amendment.status} {amendment.decided_at or amendment.proposed_at}"
        + (f" by {by}" if by else ""),
        f"affected: {', '.join(amendment.invalidated_stages) or 'none'}",
    ]
    return "\n".join(lines)


#: Maximum number of characters of a reason that wfctl generates.
MAX_REASON_LENGTH = 1_000


def ask_to_approve_proposal(
    jobs: JobContext,
    output: Output,
    proposed: Outcome,
    consenter: PersonConsent,
    options: WriteOptions,
    *,
    closes: bool = False,
) -> None:
    """Ask a person to approve the first proposed change, and print the result.

    A dry run only prints the proposals. A change that is already decided, or that a mandate
    (permission given in advance) allows, takes effect without a question. With ``closes``, a
    refused consent also rejects the proposal, because an open proposal of this kind would block
    every stage. If the person answers "not now", the proposal stays open.
    """
    if options.dry_run:
        apply_and_print_proposals(jobs, output, proposed, options)
        return
    named = (e.data for e in proposed.events if e.type == "amendment.proposed")
    id_ = next(str(data["amendment"]) for data in named)
    options = WriteOptions()
    if jobs.service.state().amendments[id_].status != "proposed":
        print_outcome(output, proposed, options)
        return
    question = decisions.build_question(jobs.service, id_)
    impact = "; ".join(words.list_consequences(question.impact))
    print_message(f"{id_} is proposed; {impact}; `wfctl amend approve {id_}` approves it")
    try:
        agreed = _approve_amendment(jobs.service, id_, consenter, options, question.digest)
    except CodedError as refusal:
        if closes:
            jobs.record(
                p.AmendmentRejected(amendment=id_, reason=refusal.message[:MAX_REASON_LENGTH])
            )
            print_message(f"{id_} was rejected because no person approved it; nothing changed")
        raise
    if agreed is None:
        raise _build_undecided_error([id_])
    stop_marked_attempts(jobs)
    print_outcome(output, agreed, options)
