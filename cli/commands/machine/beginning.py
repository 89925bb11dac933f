"""``wfctl machine init``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from cli.commands.init import Consent, signers_of
from cli.commands.machine.arguments import Data, MachineId, Values, data_of, pairs_of
from cli.commands.machine.changes import made
from cli.commands.machine.output import MachineOutput
from cli.commands.machine.workspace import connect
from cli.frame.beginning import agrees_by_typing, names_signers, typed
from cli.frame.options import CommandId, DryRun, write_options
from cli.frame.workspace import settings_of
from cli.settings import actor_of
from lifecycle.machines.decide import after, decide
from lifecycle.machines.decide_fields import check_limit
from lifecycle.machines.definition import DEFINITION, MOST_ROUNDS, Definition
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Machine
from lifecycle.machines.path import put, writable
from lifecycle.machines.payload import MachineCreated
from lifecycle.payload.base import Payload
from lifecycle.words.layout import layout_of
from service.machines.approval import approve
from service.machines.completing import completed
from service.machines.definitions import from_file, limited, shipped
from service.machines.initialise import begin, make_root, make_way, root_for
from service.machines.log import MachineLog
from service.machines.service import MachineOutcome, MachineService
from service.root.clock import system_clock, utc_text
from service.root.root import Root
from service.writing.place import identity
from service.writing.stream_writer import WriteOptions


def init(
    context: typer.Context,
    machine: MachineId,
    values: Values = None,
    type_: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="A definition that is shipped.")
    ] = None,
    definition: Annotated[
        str | None, typer.Option(metavar="FILE", help="A definition of your own; - is stdin.")
    ] = None,
    data: Data = None,
    limit: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="LOOP=N", help="How often a loop may go; repeatable."),
    ] = None,
    consent: Annotated[
        Consent, typer.Option(help="How approvals are agreed to.")
    ] = Consent.TERMINAL,
    signers: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Allowed signers, for signature.")
    ] = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
) -> None:
    """Begin a machine here, in a root of its own where there is none."""
    settings = settings_of(context)
    known = definition_of(type_, definition)
    root, is_there = root_for(settings.start, settings.database_url, settings.journal)
    known = limited(known, root.path)
    known = known.with_limits(_limits(known, limit or []))
    document = _document(values, data)
    command = made(
        MachineCreated,
        machine=machine,
        definition=known.dumped(),
        document=document,
        layout=layout_of(document),
        consent=consent.value,
        signers=signers_of(consent, signers),
        proposed=names_signers(settings, consent.value),
        root=identity(root.path),
    )
    options = write_options(dry_run, command_id, None)
    begin_machine(context, root, is_there, machine, command, options)


def definition_of(type_: str | None, file: str | None) -> Definition:
    """Return the definition that the options name."""
    if (type_ is None) == (file is None):
        raise InvalidInput("expected either --type TYPE or --definition FILE")
    return shipped(type_) if type_ is not None else from_file(file or "")


def _limits(known: Definition, words: list[str]) -> dict[str, int]:
    """Return the limits that the options give: loop → how often it may be taken."""
    found: dict[str, int] = {}
    for word in words:
        loop, _, number = word.partition("=")
        if loop not in known.loops:
            names = ", ".join(known.loops) or "none"
            raise InvalidInput(f"--limit: expected LOOP=N, a loop of {names}; found {word!r}")
        usable = number.isascii() and number.isdigit() and len(number) <= len(str(MOST_ROUNDS))
        found[loop] = int(number) if usable else 0
        check_limit(f"--limit {word}", found[loop])
    return found


def _document(values: list[str] | None, data: str | None) -> dict[str, object]:
    document: dict[str, object] = {}
    for path, value in {**data_of(data), **pairs_of(values)}.items():
        put(document, writable(path), value)
    return document


def begin_machine(
    context: typer.Context,
    root: Root,
    is_there: bool,
    machine: str,
    command: Payload,
    options: WriteOptions,
    sources: Mapping[Path, bytes] | None = None,
    notes: Sequence[str] = (),
    **more: object,
) -> None:
    """Record a machine's first event and print what came of it.

    ``sources`` are the files that it is begun from, as they were read; ``notes`` are for people.
    """
    if options.dry_run and not is_there:
        _tell_of_root(context, root, first_state(root, command), notes, more)
        return
    with beginning(context, root, is_there, machine, options) as service:
        outcome = begun(context, service, command, options, sources or {})
        output = MachineOutput(settings_of(context))
        output.told(service, outcome, options, notes=notes, **more)


def first_state(root: Root, command: Payload) -> Machine:
    """Return the state that a machine's first event makes; raises what the rules raise."""
    at = utc_text(system_clock())
    return after(None, decide(None, completed(root.path, "", command, None), at), at)


@contextmanager
def beginning(
    context: typer.Context, root: Root, is_there: bool, machine: str, options: WriteOptions
) -> Iterator[MachineService]:
    """Open a root to begin a machine in; it is made where it is not there."""
    if not is_there:
        make_root(root)
    store = connect(root, is_there, options.dry_run)
    try:
        log = MachineLog(store, machine, root.path)
        yield MachineService(root, log, actor_of(settings_of(context)))
    finally:
        store.close()


def begun(
    context: typer.Context,
    service: MachineService,
    command: Payload,
    options: WriteOptions,
    sources: Mapping[Path, bytes],
) -> MachineOutcome:
    """Record a machine's first event, its files nobody else's; raises `StateAlreadyExists`.

    A definition of one's own is agreed to by the person who typed the command.
    """
    new = first_state(service.root, command)
    if service.log.state() is None and service.first_answer(options, command) is None:
        if not options.dry_run:
            service.settle_place(settings_of(context).root_is)
        make_way(service, new, sources, options.dry_run)
    outcome = begin(service, service.handle(command, options=options))
    if options.dry_run or outcome.state.definition_agreed is not False:
        return outcome
    return _agreed(service, outcome, f"wfctl machine {context.info_name} {new.id}")


def _agreed(service: MachineService, outcome: MachineOutcome, line: str) -> MachineOutcome:
    """Return what was recorded, with the approval of the definition if a person typed it."""
    id_, policy, actor = outcome.state.id, outcome.state.consent, service.actor
    waits_for = f"wfctl machine approve {id_} {DEFINITION}"
    if not agrees_by_typing(actor, policy, "definition", waits_for, None):
        return outcome
    agreed = approve(service, DEFINITION, None, lambda _: typed(actor, line, None), WriteOptions())
    if agreed is None:
        return outcome
    return replace(agreed, events=(*outcome.events, *agreed.events), planned=outcome.planned)


def _tell_of_root(
    context: typer.Context,
    root: Root,
    new: Machine,
    notes: Sequence[str],
    more: Mapping[str, object],
) -> None:
    """Say what a dry run would make where there is nothing yet."""
    line = f"would make a root in {root.path} and begin {new.id} in {new.phase}"
    MachineOutput(settings_of(context)).result(
        {"dry_run": True, "machine": new.id, "phase": new.phase, **more},
        lambda: "\n".join([line, *notes]),
        new,
    )
