"""The commands that change a machine: one event each."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from pydantic import ValidationError

from cli.commands.machine.output import (
    Data,
    DespiteClaim,
    MachineId,
    TaskId,
    Under,
    Values,
    acting,
    data_of,
    pairs_of,
    tell,
)
from cli.frame.consent import Wording, consenter_of
from cli.frame.deciding import NOBODY, Decision, DecisionKey, decide
from cli.frame.options import File, Text, Texts, Why, Writes, argument, option
from cli.terminal.output import print_statement
from lifecycle.errors import NeedsConsent
from lifecycle.machines import payload as p
from lifecycle.machines.decide import limit_in_force
from lifecycle.machines.errors import InvalidInput
from lifecycle.payload.base import Payload
from lifecycle.words.document import layout_of
from lifecycle.words.values import problem, span
from projections.words.text import spelled
from service.machines import approval as decisions
from service.writing.stream_writer import WriteOptions


def update(
    context: typer.Context,
    options: Writes,
    machine: MachineId,
    values: Values = None,
    data: Data = None,
    under: Under = None,
) -> None:
    """Set fields of the state by dot paths; the phase cannot be set."""
    fields = {**data_of(data), **pairs_of(values)}
    if not fields:
        raise InvalidInput("nothing to update: expected PATH=VALUE, or --data with an object")
    changes = [p.change_of(path, value) for path, value in fields.items()]
    listed = [change.model_dump(mode="json") for change in changes]
    command = p.MachineUpdated(changes=changes, layout=layout_of(listed))
    _carry_out(context, machine, options, command, under=under)


def transition(
    context: typer.Context,
    options: Writes,
    machine: MachineId,
    to: Text = argument("[PHASE]", "Phase to enter."),
    auto: bool = option("Take the only transition that is possible."),
    reason: Why = None,
) -> None:
    """Enter another phase if its guard allows."""
    if auto == (to is not None):
        raise InvalidInput("expected either a PHASE or --auto")
    _carry_out(context, machine, options, made(p.MachineTransitioned, to=to, reason=reason))


def append(
    context: typer.Context,
    options: Writes,
    machine: MachineId,
    name: Annotated[str, argument("TYPE", "Event type, for example synthesize.requested.")],
    data: Text = option("JSON|@FILE|-", "Data of the event."),
) -> None:
    """Record an event that the definition names."""
    _carry_out(context, machine, options, made(p.MachineRecorded, name=name, data=data_of(data)))


def task(
    context: typer.Context,
    options: Writes,
    machine: MachineId,
    task_id: TaskId,
    values: Texts = argument("[FIELD=VALUE]…", "Fields of the task."),
    status: Text = option("Status of the task."),
    title: Text = option("Title of the task."),
    reason: Why = None,
    under: Under = None,
    despite_claim: DespiteClaim = None,
) -> None:
    """Add or change a task."""
    named = {"title": title, "status": status}
    changes = {key: value for key, value in named.items() if value is not None} | pairs_of(values)
    if task_id in ("claim", "release") and not changes:
        way = f"`wfctl machine task {task_id} {machine} TASK`"
        raise InvalidInput(f"{task_id} stands before the machine's id: {way}", task=task_id)
    command = made(p.MachineTaskChanged, task=task_id, changes=changes, reason=reason)
    commands = [*_ending_claim(task_id, despite_claim), command]
    _carry_out(context, machine, options, *commands, under=under)


def checkpoint(
    context: typer.Context,
    options: Writes,
    machine: MachineId,
    summary: Annotated[str, option("TEXT", "Describe the completed work.")],
    next_: Texts = option("--next", "TEXT", "Next step; repeatable."),
) -> None:
    """Write a hand-off for the next session."""
    command = made(p.MachineCheckpointed, summary=summary, next=next_ or [])
    _carry_out(context, machine, options, command)


def cancel(context: typer.Context, options: Writes, machine: MachineId, reason: Why = None) -> None:
    """Cancel a machine and list its branches, worktrees and pull request."""
    from service.machines.evidence import left_behind

    command = made(p.MachineCancelled, reason=reason)
    with acting(context, machine, options.dry_run) as (service, output):
        left = left_behind(service.root.path, service.state())
        tell(output, service, service.handle(command, options=options), options, left=left)


def _carry_out(
    context: typer.Context,
    machine: str,
    options: WriteOptions,
    *commands: Payload,
    under: str | None = None,
) -> None:
    with acting(context, machine, options.dry_run, under) as (service, output):
        tell(output, service, service.handle(*commands, options=options), options)


def _ending_claim(task_id: str, why: str | None) -> list[Payload]:
    if why is None:
        return []
    return [made(p.MachineTaskReleased, task=task_id, reason=why, despite=True)]


def made(kind: type[Payload], **fields: Any) -> Payload:
    """Return a command; raises `InvalidInput` for fields that do not fit it."""
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        problems = [problem(e) for e in error.errors()]
        raise InvalidInput(
            f"the values do not fit {kind.type}: {'; '.join(problems)}", problems=problems
        ) from error


_WORDING = Wording(
    told=lambda question: question.text,
    approve="wfctl machine approve",
    show="wfctl machine approve",
)


def approve(
    context: typer.Context,
    options: Writes,
    machine: MachineId,
    approval: Annotated[str, argument("APPROVAL", "Name of the approval.")],
    choice: Text = option("FILE", "Choose this option."),
    key: File = option("FILE", "SSH key to sign with."),
    signature: File = option("FILE", "Signature made in advance."),
    statement: bool = option("Print only the text to sign."),
    withdraw: bool = option("Withdraw the approval."),
) -> None:
    """Approve what a phase is waiting for, or withdraw an approval."""
    with acting(context, machine, options.dry_run or statement) as (service, output):
        if not (statement or options.dry_run):
            outcome = decisions.approve(
                service,
                approval,
                choice,
                lambda policy: consenter_of(policy, service.actor, key, signature, _WORDING),
                options,
                withdraws=withdraw,
            )
            if outcome is None:
                why = f"{approval} was not agreed to; nothing was recorded."
                raise NeedsConsent(why, machine=service.log.machine, approval=approval)
            tell(output, service, outcome, options)
            return
        question = decisions.question_of(service, approval, choice, withdraws=withdraw)
        if statement:
            print_statement(question.statement)
            return
        asked = decisions.asked(approval, question.choice, withdraw)
        planned = asked.model_copy(update={"proof": NOBODY})
        tell(output, service, service.handle(planned, options=options), options)


def claim(
    context: typer.Context,
    options: Writes,
    machine: MachineId,
    task_id: TaskId,
    for_: str = option("--for", "TIME", "Duration of the claim: 90s, 30m, 12h, 7d.", default="30m"),
    renew: bool = option("Extend your own claim."),
    under: Under = None,
    despite_claim: DespiteClaim = None,
) -> None:
    """Claim a task for a time (exit 4 if another actor has it)."""
    found = span(for_)
    if found is None:
        raise InvalidInput(f"--for: expected a time such as 90s, 30m or 12h, found {for_!r}")
    seconds = int(found.total_seconds())
    command = made(p.MachineTaskClaimed, task=task_id, seconds=seconds, renew=renew)
    commands = [*_ending_claim(task_id, despite_claim), command]
    _carry_out(context, machine, options, *commands, under=under)


def release(
    context: typer.Context,
    options: Writes,
    machine: MachineId,
    task_id: TaskId,
    reason: Why = None,
    under: Under = None,
    despite_claim: DespiteClaim = None,
) -> None:
    """Release a claimed task."""
    if reason is not None and despite_claim is not None:
        raise InvalidInput("--despite-claim says the reason already; leave --reason out")
    commands = _ending_claim(task_id, despite_claim)
    commands = commands or [made(p.MachineTaskReleased, task=task_id, reason=reason)]
    _carry_out(context, machine, options, *commands, under=under)


def limit(
    context: typer.Context,
    options: Writes,
    machine: MachineId,
    loop: Annotated[str, argument("LOOP", "Name of the loop.")],
    times: Annotated[int, argument("N", "New maximum number of iterations.")],
    reason: Annotated[str, option("TEXT", "Reason.")],
    key: DecisionKey = None,
) -> None:
    """Change the limit of a loop as a person."""
    with acting(context, machine, options.dry_run) as (service, output):
        state = service.state()
        before = limit_in_force(state, loop)
        command = made(p.MachineLimited, loop=loop, before=before, to=times, reason=reason)
        told = (
            f"{state.id} ({state.definition.title}), in {state.phase}",
            f"the loop {loop} may go {times} times instead of {before}",
            f"{state.counts.get(loop, 0)} are used; because: {reason}",
        )
        text = "\n".join(map(spelled, told))
        asked = [] if before == times else [Decision(command, f"{machine} {loop}", text)]
        line = f"wfctl machine limit {machine} {loop} {times} --reason TEXT"
        outcome = decide(service, asked, line, key, options)
        tell(output, service, outcome, options)
