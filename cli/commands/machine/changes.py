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
    """Write fields of the state by dot paths; never the phase."""
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
    to: Text = argument("[PHASE]", "Where to."),
    auto: bool = option("The one way that is open."),
    reason: Why = None,
) -> None:
    """Go to another phase, where its guard is met."""
    if auto == (to is not None):
        raise InvalidInput("expected either a PHASE or --auto")
    _carry_out(context, machine, options, made(p.MachineTransitioned, to=to, reason=reason))


def append(
    context: typer.Context,
    options: Writes,
    machine: MachineId,
    name: Annotated[str, argument("TYPE", "Such as synthesize.requested.")],
    data: Text = option("JSON|@FILE|-", "The event's data."),
) -> None:
    """Record an event that the machine's definition names; guards may look for it."""
    _carry_out(context, machine, options, made(p.MachineRecorded, name=name, data=data_of(data)))


def task(
    context: typer.Context,
    options: Writes,
    machine: MachineId,
    task_id: TaskId,
    values: Texts = argument("[FIELD=VALUE]…", "Fields of the task."),
    status: Text = option("Its status."),
    title: Text = option("What it is."),
    reason: Why = None,
    under: Under = None,
    despite_claim: DespiteClaim = None,
) -> None:
    """Add a task, or change one; times and attempts follow from its status."""
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
    summary: Annotated[str, option("TEXT", "What was done.")],
    next_: Texts = option("--next", "TEXT", "A next step; repeatable."),
) -> None:
    """Leave a hand-off for anyone who comes next."""
    command = made(p.MachineCheckpointed, summary=summary, next=next_ or [])
    _carry_out(context, machine, options, command)


def cancel(context: typer.Context, options: Writes, machine: MachineId, reason: Why = None) -> None:
    """Give a machine up; says which branches, worktrees and pull request are left."""
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
    approval: Annotated[str, argument("APPROVAL", "What is approved.")],
    choice: Text = option("FILE", "Which of the options is chosen."),
    key: File = option("FILE", "SSH key to sign with."),
    signature: File = option("FILE", "A signature made beforehand."),
    statement: bool = option("Print only what is to be signed, byte for byte."),
    withdraw: bool = option("Take back the approval that was given."),
) -> None:
    """Agree, as a person, to what a phase waits for, or take that back."""
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
    for_: str = option("--for", "TIME", "How long: 90s, 30m, 12h, 7d.", default="30m"),
    renew: bool = option("Go on with a claim of one's own."),
    under: Under = None,
    despite_claim: DespiteClaim = None,
) -> None:
    """Take a task for a time: who shows its claim alone changes it. Exit 4 where it is taken."""
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
    """Give a claimed task back before its time."""
    if reason is not None and despite_claim is not None:
        raise InvalidInput("--despite-claim says the reason already; leave --reason out")
    commands = _ending_claim(task_id, despite_claim)
    commands = commands or [made(p.MachineTaskReleased, task=task_id, reason=reason)]
    _carry_out(context, machine, options, *commands, under=under)


def limit(
    context: typer.Context,
    options: Writes,
    machine: MachineId,
    loop: Annotated[str, argument("LOOP", "The loop.")],
    times: Annotated[int, argument("N", "How often it may go from now on.")],
    reason: Annotated[str, option("TEXT", "Why.")],
    key: DecisionKey = None,
) -> None:
    """Change, as a person, how often a loop of a machine may go."""
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
