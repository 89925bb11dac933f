"""``wfctl machine limit``: a person changes how often a loop may go."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands.machine.arguments import MachineId
from cli.commands.machine.changes import made
from cli.commands.machine.workspace import acting
from cli.frame.deciding import Decision, DecisionKey, decide
from cli.frame.options import CommandId, DryRun, ExpectedVersion, write_options
from lifecycle.machines.decide import limit_in_force
from lifecycle.machines.machine import Machine
from lifecycle.machines.payload import MachineLimited
from projections.words.signs import spelled


def limit(
    context: typer.Context,
    machine: MachineId,
    loop: Annotated[str, typer.Argument(metavar="LOOP", help="The loop.")],
    times: Annotated[int, typer.Argument(metavar="N", help="How often it may go from now on.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why.")],
    key: DecisionKey = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Change, as a person, how often a loop of a machine may go."""
    options = write_options(dry_run, command_id, expected_version)
    with acting(context, machine, dry_run) as (service, output):
        state = service.state()
        before = limit_in_force(state, loop)
        command = made(MachineLimited, loop=loop, before=before, to=times, reason=reason)
        text = "\n".join(map(spelled, _lines(state, loop, before, times, reason)))
        asked = [] if before == times else [Decision(command, f"{machine} {loop}", text)]
        line = f"wfctl machine limit {machine} {loop} {times} --reason TEXT"
        outcome = decide(service, asked, line, key, options)
        output.told(service, outcome, options)


def _lines(state: Machine, loop: str, before: int, times: int, reason: str) -> list[str]:
    """Return what a person is asked."""
    return [
        f"{state.id} ({state.definition.title}), in {state.phase}",
        f"the loop {loop} may go {times} times instead of {before}",
        f"{state.counts.get(loop, 0)} are used; because: {reason}",
    ]
