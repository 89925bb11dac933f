"""``wfctl machine task claim`` and ``release``: a task is one worker's for a time."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands.machine.arguments import DespiteClaim, MachineId, Reason, TaskId, Under
from cli.commands.machine.changes import carry_out, ending_claim, made
from cli.frame.options import CommandId, DryRun, ExpectedVersion, write_options
from lifecycle.machines import payload as p
from lifecycle.machines.errors import InvalidInput
from lifecycle.words.span import span


def claim(
    context: typer.Context,
    machine: MachineId,
    task_id: TaskId,
    for_: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long: 90s, 30m, 12h, 7d.")
    ] = "30m",
    renew: Annotated[
        bool, typer.Option("--renew", help="Go on with a claim of one's own.")
    ] = False,
    under: Under = None,
    despite_claim: DespiteClaim = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Take a task for a time: who shows its claim alone changes it. Exit 4 where it is taken."""
    command = made(p.MachineTaskClaimed, task=task_id, seconds=_seconds(for_), renew=renew)
    options = write_options(dry_run, command_id, expected_version)
    commands = [*ending_claim(task_id, despite_claim), command]
    carry_out(context, machine, options, *commands, under=under)


def release(
    context: typer.Context,
    machine: MachineId,
    task_id: TaskId,
    reason: Reason = None,
    under: Under = None,
    despite_claim: DespiteClaim = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Give a claimed task back before its time."""
    if reason is not None and despite_claim is not None:
        raise InvalidInput("--despite-claim says the reason already; leave --reason out")
    commands = ending_claim(task_id, despite_claim)
    commands = commands or [made(p.MachineTaskReleased, task=task_id, reason=reason)]
    options = write_options(dry_run, command_id, expected_version)
    carry_out(context, machine, options, *commands, under=under)


def _seconds(text: str) -> int:
    found = span(text)
    if found is None:
        raise InvalidInput(f"--for: expected a time such as 90s, 30m or 12h, found {text!r}")
    return int(found.total_seconds())
