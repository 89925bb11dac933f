"""``wfctl machine init`` and ``wfctl machine import``: how a machine begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.commands.init import Consent, signers_of
from cli.commands.machine.changes import made
from cli.commands.machine.output import Data, MachineId, Values, answer, data_of, pairs_of, tell
from cli.frame.beginning import agrees_by_typing, names_signers, typed
from cli.frame.options import File, KeyedWrites, Text, Texts, argument, option
from cli.frame.workspace import create, opened, settings_of
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
from service.machines import takeover
from service.machines.approval import approve
from service.machines.completing import completed, from_file, limited, shipped
from service.machines.initialise import begin, make_root, make_way, root_at_place, root_for
from service.machines.log import MachineLog
from service.machines.service import MachineOutcome, MachineService
from service.root.disk import system_clock, utc_text
from service.root.root import Root, identity
from service.writing.stream_writer import WriteOptions

#: A root, and whether it is there already.
Place = tuple[Root, bool]
#: The files that a machine is begun from, as they were read.
Sources = Mapping[Path, bytes]
_KEPT = "the files stay as they are until something is recorded here; .wfctl/drift/ keeps them"


def init(
    context: typer.Context,
    options: KeyedWrites,
    machine: MachineId,
    values: Values = None,
    type_: Text = option("--type", "TYPE", "Name of a shipped definition."),
    definition: Text = option("FILE", "File of your own definition; - reads stdin."),
    data: Data = None,
    limit: Texts = option("LOOP=N", "Maximum number of iterations of a loop; repeatable."),
    consent: Consent = option("Choose how approvals are proven.", default=Consent.TERMINAL),
    signers: File = option("FILE", "Allowed signers, for signature."),
) -> None:
    """Create a phase machine here."""
    settings = settings_of(context)
    if (type_ is None) == (definition is None):
        raise InvalidInput("expected either --type TYPE or --definition FILE")
    known = shipped(type_) if type_ is not None else from_file(definition or "")
    place = root_for(settings.start, settings.database_url, settings.journal)
    known = limited(known, place[0].path)
    known = known.with_limits(_limits(known, limit or []))
    document: dict[str, object] = {}
    for path, value in {**data_of(data), **pairs_of(values)}.items():
        put(document, writable(path), value)
    command = made(
        MachineCreated,
        machine=machine,
        definition=known.dumped(),
        document=document,
        layout=layout_of(document),
        root=identity(place[0].path),
        **_policy(context, consent, signers),
    )
    _begin_one(context, place, machine, command, options)


def _policy(context: typer.Context, consent: Consent, signers: Path | None) -> dict[str, Any]:
    return {
        "consent": consent.value,
        "signers": signers_of(consent, signers),
        "proposed": names_signers(settings_of(context), consent.value),
    }


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


def _begin_one(
    context: typer.Context,
    place: Place,
    machine: str,
    command: Payload,
    options: WriteOptions,
    sources: Sources | None = None,
    notes: Sequence[str] = (),
    **more: object,
) -> None:
    root, is_there = place
    output = Output(settings_of(context))
    if options.dry_run and not is_there:
        new = _first_state(root, command)
        line = f"would make a root in {root.path} and begin {new.id} in {new.phase}"
        data = {"dry_run": True, "machine": new.id, "phase": new.phase, **more}
        answer(output, data, lambda: "\n".join([line, *notes]), new)
        return
    with _beginning(context, place, machine, options) as service:
        outcome = _begun(context, service, command, options, sources or {})
        tell(output, service, outcome, options, notes=notes, **more)


def _first_state(root: Root, command: Payload) -> Machine:
    at = utc_text(system_clock())
    return after(None, decide(None, completed(root.path, "", command, None), at), at)


@contextmanager
def _beginning(
    context: typer.Context, place: Place, machine: str, options: WriteOptions
) -> Iterator[MachineService]:
    root, is_there = place
    if not is_there:
        make_root(root)
    store = opened(root, read_only=options.dry_run, strict=True) if is_there else create(root)
    with closing(store):
        log = MachineLog(store, machine, root.path)
        yield MachineService(root, log, actor_of(settings_of(context)))


def _begun(
    context: typer.Context,
    service: MachineService,
    command: Payload,
    options: WriteOptions,
    sources: Sources,
) -> MachineOutcome:
    """Record a machine's first event, its files nobody else's; raises `StateAlreadyExists`.

    A definition of one's own is agreed to by the person who typed the command.
    """
    new = _first_state(service.root, command)
    if service.log.state() is None and service.first_answer(options, command) is None:
        if not options.dry_run:
            service.settle_place(settings_of(context).root_is)
        make_way(service, new, sources, options.dry_run)
    outcome = begin(service, service.handle(command, options=options))
    if options.dry_run or outcome.state.definition_agreed is not False:
        return outcome
    actor, line = service.actor, f"wfctl machine {context.info_name} {new.id}"
    waits_for = f"wfctl machine approve {outcome.state.id} {DEFINITION}"
    if not agrees_by_typing(actor, outcome.state.consent, "definition", waits_for, None):
        return outcome
    agreed = approve(service, DEFINITION, None, lambda _: typed(actor, line, None), WriteOptions())
    if agreed is None:
        return outcome
    return replace(agreed, events=(*outcome.events, *agreed.events), planned=outcome.planned)


def import_(
    context: typer.Context,
    options: KeyedWrites,
    path: Annotated[Path, argument("PATH", "State file, its folder, or the folder of all tracks.")],
    map_: Texts = option(
        "--map", "NAME=STEP", "Map a name of the file to a name of the definition; repeatable."
    ),
    at: Text = option("STEP", "Phase in which the machine is."),
    definition: Text = option("FILE", "File of your own definition; - reads stdin."),
    consent: Consent = option(
        "Choose how approvals are proven from now on.", default=Consent.TERMINAL
    ),
    signers: File = option("FILE", "Allowed signers, for signature."),
) -> None:
    """Import a state file of an agent protocol and report its problems.

    The file stays as it is until something is recorded here. Exit 0 with findings or without;
    names that nobody knows are refused, with the nearest: --map says what they mean.
    """
    meant: dict[str, str] = {}
    for word in map_ or []:
        name, _, step = word.partition("=")
        if not (name and step):
            raise InvalidInput(f"--map: expected NAME=STEP, found {word!r}", value=word)
        meant[name] = step
    own = from_file(definition) if definition is not None else None
    said = takeover.Sayings(meant=meant, at=at, definition=own, now=utc_text(system_clock()))
    tracks = takeover.tracks_in(path)
    groups = [[track] for track in tracks] or [takeover.files_of(path)]
    sources = [takeover.contents_of(files, locked=not options.dry_run) for files in groups]
    found = [takeover.take_over(one, said) for one in sources]
    takeover.require_known(found)
    policy = _policy(context, consent, signers)
    if tracks and options.command_id is not None:
        raise InvalidInput("--command-id is of one machine: expected PATH to name one track")
    if tracks:
        _take_all(context, list(zip(sources, found, strict=True)), policy, options)
        return
    place, one = _place_of(context, sources[0]), found[0]
    command = takeover.command_of(one, identity(place[0].path), **policy)
    more: dict[str, Any] = {"findings": takeover.folded(one.findings), "kept": _KEPT}
    notes = [*takeover.told(one.findings), _KEPT]
    _begin_one(context, place, one.id, command, options, sources[0], notes, **more)


def _place_of(context: typer.Context, sources: Sources) -> Place:
    settings = settings_of(context)
    first = next(iter(sources))
    where = (settings.database_url, settings.journal)
    if settings.root is None and takeover.is_placed(first):
        return root_at_place(takeover.root_of(first), *where)
    return root_for(settings.root or takeover.root_of(first), *where)


def _take_all(
    context: typer.Context,
    each: list[tuple[dict[Path, bytes], takeover.Takeover]],
    policy: dict[str, Any],
    options: WriteOptions,
) -> None:
    answers: list[dict[str, Any]] = []
    findings: list[dict[str, Any]] = []
    lines: list[str] = []
    for sources, found in each:
        place = _place_of(context, sources)
        command = takeover.command_of(found, identity(place[0].path), **policy)
        is_new = True
        if place[1] or not options.dry_run:
            with _beginning(context, place, found.id, options) as service:
                is_new = service.log.state() is None
                if is_new:
                    _begun(context, service, command, options, sources)
        one = {"machine": found.id, "phase": found.phase, "status": found.status}
        answers.append({**one, "new": is_new, "findings": len(found.findings)})
        known = "" if is_new else ", here already"
        lines.append(f"{found.id}: {found.phase}, {found.status}{known}")
        findings += [{**f, "place": f"{found.id}: {f['place']}"} for f in found.findings]
    data = {"dry_run": options.dry_run, "machines": answers}
    data |= {"findings": takeover.folded(findings), "kept": _KEPT}
    text = "\n".join([*lines, *takeover.told(findings), _KEPT])
    answer(Output(settings_of(context)), data, lambda: text)
