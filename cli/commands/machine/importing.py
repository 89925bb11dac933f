"""``wfctl machine import``: a machine that was kept by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.commands.init import Consent, signers_of
from cli.commands.machine.beginning import begin_machine
from cli.frame.options import CommandId, DryRun, write_options
from cli.frame.workspace import settings_of
from service.machines.initialise import root_for
from service.machines.takeover.source import command_of, files_of, root_of, take_over
from service.writing.place import identity


def import_(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The state file, or its folder.")],
    consent: Annotated[
        Consent, typer.Option(help="How approvals are agreed to from now on.")
    ] = Consent.TERMINAL,
    signers: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Allowed signers, for signature.")
    ] = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
) -> None:
    """Take over a state file of one of the three protocols, with what is wrong in it.

    Exit 0 with findings or without; only what is not JSON is refused.
    """
    settings = settings_of(context)
    files = files_of(path)
    found = take_over(files)
    start = settings.root or root_of(files[0])
    root, is_there = root_for(start, settings.database_url, settings.journal)
    command = command_of(
        found, identity(root.path), consent=consent.value, signers=signers_of(consent, signers)
    )
    options = write_options(dry_run, command_id, None)
    begin_machine(
        context, root, is_there, found.id, command, options, sources=files, findings=found.findings
    )
