"""``wfctl machine approve``: a person's decision, by the same consent as an amendment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.commands.machine.arguments import MachineId
from cli.commands.machine.workspace import acting
from cli.frame.consent import Wording, consenter_of
from cli.frame.options import CommandId, DryRun, ExpectedVersion, write_options
from cli.terminal.output import print_statement
from lifecycle.errors import NeedsConsent
from service.machines import approval as decisions
from service.machines.service import MachineOutcome, MachineService
from service.writing.stream_writer import WriteOptions

_WORDING = Wording(
    told=lambda question: question.text,
    approve="wfctl machine approve",
    show="wfctl machine approve",
)


def approve(
    context: typer.Context,
    machine: MachineId,
    approval: Annotated[str, typer.Argument(metavar="APPROVAL", help="What is approved.")],
    choice: Annotated[
        str | None, typer.Option(metavar="FILE", help="Which of the options is chosen.")
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="SSH key to sign with.")] = None,
    signature: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A signature made beforehand.")
    ] = None,
    statement: Annotated[
        bool, typer.Option("--statement", help="Print only what is to be signed, byte for byte.")
    ] = False,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Take back the approval that was given.")
    ] = False,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Agree, as a person, to what a phase waits for, or take that back."""
    options = write_options(dry_run, command_id, expected_version)
    with acting(context, machine, dry_run or statement) as (service, output):
        if statement:
            question = decisions.question_of(service, approval, choice, withdraws=withdraw)
            print_statement(question.statement)
            return
        if dry_run:
            outcome = service.handle(_planned(service, approval, choice, withdraw), options=options)
        else:
            outcome = _decided(service, approval, choice, withdraw, (key, signature), options)
        output.told(service, outcome, options)


def _planned(
    service: MachineService, approval: str, choice: str | None, withdraw: bool
) -> decisions.Asked:
    question = decisions.question_of(service, approval, choice, withdraws=withdraw)
    proof = {"policy": "none: a dry run"}
    return decisions.asked(approval, question.choice, withdraw).model_copy(update={"proof": proof})


def _decided(
    service: MachineService,
    approval: str,
    choice: str | None,
    withdraw: bool,
    signing: tuple[Path | None, Path | None],
    options: WriteOptions,
) -> MachineOutcome:
    outcome = decisions.approve(
        service,
        approval,
        choice,
        lambda policy: consenter_of(policy, service.actor, *signing, _WORDING),
        options,
        withdraws=withdraw,
    )
    if outcome is None:
        raise NeedsConsent(
            f"{approval} was not agreed to; nothing was recorded.",
            machine=service.log.machine,
            approval=approval,
        )
    return outcome
