"""``wfctl machine import``: a machine that was kept by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cli.commands.init import Consent, signers_of
from cli.commands.machine.beginning import begin_machine, beginning, begun
from cli.commands.machine.output import MachineOutput
from cli.frame.beginning import names_signers
from cli.frame.options import CommandId, DryRun, write_options
from cli.frame.workspace import settings_of
from lifecycle.machines.errors import InvalidInput
from lifecycle.payload.base import Payload
from service.machines.definitions import from_file
from service.machines.initialise import root_at_place, root_for
from service.machines.takeover.found import Sayings, Takeover, folded, require_known, told
from service.machines.takeover.source import (
    command_of,
    contents_of,
    files_of,
    is_placed,
    root_of,
    take_over,
    tracks_in,
)
from service.root.clock import system_clock, utc_text
from service.root.root import Root
from service.writing.place import identity
from service.writing.stream_writer import WriteOptions

Sources = dict[Path, bytes]
"""The files that a machine is taken over from, as they were read."""

_KEPT = "the files stay as they are until something is recorded here; .wfctl/drift/ keeps them"


def import_(
    context: typer.Context,
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="The state file, its folder, or all tracks.")
    ],
    map_: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="NAME=STEP", help="What a name means; repeatable."),
    ] = None,
    at: Annotated[str | None, typer.Option(metavar="STEP", help="Where the machine is.")] = None,
    definition: Annotated[
        str | None, typer.Option(metavar="FILE", help="A definition of your own; - is stdin.")
    ] = None,
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

    The file stays as it is until something is recorded here. Exit 0 with findings or without;
    names that nobody knows are refused, with the nearest: --map says what they mean.
    """
    said = Sayings(
        meant=_meanings(map_),
        at=at,
        definition=from_file(definition) if definition is not None else None,
        now=utc_text(system_clock()),
    )
    tracks = tracks_in(path)
    groups = [[track] for track in tracks] or [files_of(path)]
    sources = [contents_of(files, locked=not dry_run) for files in groups]
    found = [take_over(one, said) for one in sources]
    require_known(found)
    policy = {
        "consent": consent.value,
        "signers": signers_of(consent, signers),
        "proposed": names_signers(settings_of(context), consent.value),
    }
    options = write_options(dry_run, command_id, None)
    if not tracks:
        _one(context, sources[0], found[0], policy, options)
    elif command_id is not None:
        raise InvalidInput("--command-id is of one machine: expected PATH to name one track")
    else:
        _all(context, list(zip(sources, found, strict=True)), policy, options)


def _meanings(words: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words or []:
        name, equals, meant = word.partition("=")
        if not (name and equals and meant):
            raise InvalidInput(f"--map: expected NAME=STEP, found {word!r}", value=word)
        found[name] = meant
    return found


def _root_of(context: typer.Context, sources: Sources) -> tuple[Root, bool]:
    settings = settings_of(context)
    first = next(iter(sources))
    where = (settings.database_url, settings.journal)
    if settings.root is None and is_placed(first):
        return root_at_place(root_of(first), *where)
    return root_for(settings.root or root_of(first), *where)


def _one(
    context: typer.Context,
    sources: Sources,
    found: Takeover,
    policy: dict[str, Any],
    options: WriteOptions,
) -> None:
    root, is_there = _root_of(context, sources)
    command = command_of(found, identity(root.path), **policy)
    findings = folded(found.findings)
    more: dict[str, Any] = {"sources": sources, "notes": [*told(found.findings), _KEPT]}
    begin_machine(
        context, root, is_there, found.id, command, options, **more, findings=findings, kept=_KEPT
    )


def _all(
    context: typer.Context,
    each: list[tuple[Sources, Takeover]],
    policy: dict[str, Any],
    options: WriteOptions,
) -> None:
    """Take over each track; one that is here already is left as it is."""
    answers: list[dict[str, Any]] = []
    lines: list[str] = []
    for sources, found in each:
        root, is_there = _root_of(context, sources)
        command = command_of(found, identity(root.path), **policy)
        is_new = True
        if is_there or not options.dry_run:
            is_new = _is_begun(context, root, is_there, found.id, command, options, sources)
        answer = {"machine": found.id, "phase": found.phase, "status": found.status}
        answers.append({**answer, "new": is_new, "findings": len(found.findings)})
        known = "" if is_new else ", here already"
        lines.append(f"{found.id}: {found.phase}, {found.status}{known}")
    findings = [
        {**one, "place": f"{found.id}: {one['place']}"}
        for _, found in each
        for one in found.findings
    ]
    data = {"dry_run": options.dry_run, "machines": answers, "findings": folded(findings)}
    text = "\n".join([*lines, *told(findings), _KEPT])
    MachineOutput(settings_of(context)).result({**data, "kept": _KEPT}, lambda: text)


def _is_begun(
    context: typer.Context,
    root: Root,
    is_there: bool,
    id_: str,
    command: Payload,
    options: WriteOptions,
    sources: Sources,
) -> bool:
    """Take one track over; False where it is here already."""
    with beginning(context, root, is_there, id_, options) as service:
        if service.log.state() is not None:
            return False
        begun(context, service, command, options, sources)
    return True
