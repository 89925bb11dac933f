"""The commands that change a machine: one event each."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from pydantic import ValidationError

from cli.commands.machine.arguments import (
    Data,
    DespiteClaim,
    MachineId,
    Reason,
    TaskId,
    Under,
    Values,
    data_of,
    pairs_of,
    update_of,
)
from cli.commands.machine.workspace import acting
from cli.frame.options import CommandId, DryRun, ExpectedVersion, write_options
from lifecycle.machines import payload as p
from lifecycle.machines.errors import InvalidInput
from lifecycle.payload.base import Payload
from lifecycle.words.misfit import problem
from service.writing.stream_writer import WriteOptions


def update(
    context: typer.Context,
    machine: MachineId,
    values: Values = None,
    data: Data = None,
    under: Under = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Write fields of the state by dot paths; never the phase."""
    command = update_of(values, data)
    options = write_options(dry_run, command_id, expected_version)
    carry_out(context, machine, options, command, under=under)


def transition(
    context: typer.Context,
    machine: MachineId,
    to: Annotated[str | None, typer.Argument(metavar="[PHASE]", help="Where to.")] = None,
    auto: Annotated[bool, typer.Option("--auto", help="The one way that is open.")] = False,
    reason: Reason = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Go to another phase, where its guard is met."""
    if auto == (to is not None):
        raise InvalidInput("expected either a PHASE or --auto")
    command = made(p.MachineTransitioned, to=to, reason=reason)
    carry_out(context, machine, write_options(dry_run, command_id, expected_version), command)


def append(
    context: typer.Context,
    machine: MachineId,
    name: Annotated[str, typer.Argument(metavar="TYPE", help="Such as synthesize.requested.")],
    data: Annotated[
        str | None, typer.Option("--data", metavar="JSON|@FILE|-", help="The event's data.")
    ] = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Record an event that the machine's definition names; guards may look for it."""
    command = made(p.MachineRecorded, name=name, data=data_of(data))
    carry_out(context, machine, write_options(dry_run, command_id, expected_version), command)


def task(
    context: typer.Context,
    machine: MachineId,
    task_id: TaskId,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="[FIELD=VALUE]…", help="Fields of the task.")
    ] = None,
    status: Annotated[str | None, typer.Option(help="Its status.")] = None,
    title: Annotated[str | None, typer.Option(help="What it is.")] = None,
    reason: Reason = None,
    under: Under = None,
    despite_claim: DespiteClaim = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Add a task, or change one; times and attempts follow from its status."""
    named = {"title": title, "status": status}
    changes = {key: value for key, value in named.items() if value is not None} | pairs_of(values)
    if task_id in ("claim", "release") and not changes:
        way = f"`wfctl machine task {task_id} {machine} TASK`"
        raise InvalidInput(f"{task_id} stands before the machine's id: {way}", task=task_id)
    command = made(p.MachineTaskChanged, task=task_id, changes=changes, reason=reason)
    options = write_options(dry_run, command_id, expected_version)
    commands = [*ending_claim(task_id, despite_claim), command]
    carry_out(context, machine, options, *commands, under=under)


def checkpoint(
    context: typer.Context,
    machine: MachineId,
    summary: Annotated[str, typer.Option(metavar="TEXT", help="What was done.")],
    next_: Annotated[
        list[str] | None, typer.Option("--next", metavar="TEXT", help="A next step; repeatable.")
    ] = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Leave a hand-off for whoever comes next."""
    command = made(p.MachineCheckpointed, summary=summary, next=next_ or [])
    carry_out(context, machine, write_options(dry_run, command_id, expected_version), command)


def cancel(
    context: typer.Context,
    machine: MachineId,
    reason: Reason = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Give a machine up; says which branches, worktrees and pull request are left."""
    from service.machines import git  # loads subprocess, which no other change needs

    command = made(p.MachineCancelled, reason=reason)
    options = write_options(dry_run, command_id, expected_version)
    with acting(context, machine, dry_run) as (service, output):
        left = git.left_behind(service.root.path, service.state())
        output.told(service, service.handle(command, options=options), options, left=left)


def carry_out(
    context: typer.Context,
    machine: str,
    options: WriteOptions,
    *commands: Payload,
    under: str | None = None,
) -> None:
    """Carry out commands, all or none, under a claim if one is shown; print what they did."""
    with acting(context, machine, options.dry_run, under) as (service, output):
        output.told(service, service.handle(*commands, options=options), options)


def ending_claim(task_id: str, why: str | None) -> list[Payload]:
    """Return the command that ends the claim of somebody else, where it is said why."""
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
