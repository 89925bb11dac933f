"""``wfctl machine init``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.commands.init import Consent, signers_of
from cli.commands.machine.changes import made
from cli.commands.machine.output import (
    Data,
    MachineId,
    Values,
    answer,
    connect,
    data_of,
    pairs_of,
    tell,
)
from cli.frame.beginning import agrees_by_typing, names_signers, typed
from cli.frame.options import File, KeyedWrites, Text, Texts, argument, option
from cli.frame.workspace import settings_of
from cli.settings import actor_of
from cli.terminal.output import Output
from lifecycle.machines.decide import after, decide
from lifecycle.machines.decide_fields import check_limit
from lifecycle.machines.definition import DEFINITION, MOST_ROUNDS, Definition
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Machine
from lifecycle.machines.path import put, writable
from lifecycle.machines.payload import MachineCreated
from lifecycle.payload.base import Payload
from lifecycle.words.document import layout_of
from service.machines.approval import approve
from service.machines.completing import completed, from_file, limited, shipped
from service.machines.initialise import begin, make_root, make_way, root_at_place, root_for
from service.machines.log import MachineLog
from service.machines.service import MachineOutcome, MachineService
from service.machines.takeover import (
    Sayings,
    Takeover,
    command_of,
    contents_of,
    files_of,
    folded,
    is_placed,
    require_known,
    root_of,
    take_over,
    told,
    tracks_in,
)
from service.root.disk import system_clock, utc_text
from service.root.root import Root
from service.writing.report import identity
from service.writing.stream_writer import WriteOptions


def init(
    context: typer.Context,
    options: KeyedWrites,
    machine: MachineId,
    values: Values = None,
    type_: Text = option("--type", "TYPE", "A definition that is shipped."),
    definition: Text = option("FILE", "A definition of your own; - is stdin."),
    data: Data = None,
    limit: Texts = option("LOOP=N", "How often a loop may go; repeatable."),
    consent: Consent = option("How approvals are agreed to.", default=Consent.TERMINAL),
    signers: File = option("FILE", "Allowed signers, for signature."),
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
    begin_machine(context, root, is_there, machine, command, options)


def definition_of(type_: str | None, file: str | None) -> Definition:
    """Return the definition that the options name."""
    if (type_ is None) == (file is None):
        raise InvalidInput("expected either --type TYPE or --definition FILE")
    return shipped(type_) if type_ is not None else from_file(file or "")


def _limits(known: Definition, words: list[str]) -> dict[str, int]:
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
        tell(Output(settings_of(context)), service, outcome, options, notes=notes, **more)


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
    line = f"would make a root in {root.path} and begin {new.id} in {new.phase}"
    answer(
        Output(settings_of(context)),
        {"dry_run": True, "machine": new.id, "phase": new.phase, **more},
        lambda: "\n".join([line, *notes]),
        new,
    )


Sources = dict[Path, bytes]
"""The files that a machine is taken over from, as they were read."""

_KEPT = "the files stay as they are until something is recorded here; .wfctl/drift/ keeps them"


def import_(
    context: typer.Context,
    options: KeyedWrites,
    path: Annotated[Path, argument("PATH", "The state file, its folder, or all tracks.")],
    map_: Texts = option("--map", "NAME=STEP", "What a name means; repeatable."),
    at: Text = option("STEP", "Where the machine is."),
    definition: Text = option("FILE", "A definition of your own; - is stdin."),
    consent: Consent = option("How approvals are agreed to from now on.", default=Consent.TERMINAL),
    signers: File = option("FILE", "Allowed signers, for signature."),
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
    sources = [contents_of(files, locked=not options.dry_run) for files in groups]
    found = [take_over(one, said) for one in sources]
    require_known(found)
    policy = {
        "consent": consent.value,
        "signers": signers_of(consent, signers),
        "proposed": names_signers(settings_of(context), consent.value),
    }
    if not tracks:
        _one(context, sources[0], found[0], policy, options)
    elif options.command_id is not None:
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
        one = {"machine": found.id, "phase": found.phase, "status": found.status}
        answers.append({**one, "new": is_new, "findings": len(found.findings)})
        known = "" if is_new else ", here already"
        lines.append(f"{found.id}: {found.phase}, {found.status}{known}")
    findings = [
        {**one, "place": f"{found.id}: {one['place']}"}
        for _, found in each
        for one in found.findings
    ]
    data = {"dry_run": options.dry_run, "machines": answers, "findings": folded(findings)}
    text = "\n".join([*lines, *told(findings), _KEPT])
    answer(Output(settings_of(context)), {**data, "kept": _KEPT}, lambda: text)


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
