"""The commands ``wfctl machine init`` and ``import``, which create a machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

from cli.commands.init import Consent, signers_of
from cli.frame.approve_plan import (
    build_typed_consent,
    has_typed_consent,
    is_signer_choice_unattended,
)
from cli.frame.context import Context
from cli.frame.options import File, KeyedWrites, Text, Texts, argument, option
from cli.frame.workspace import create_log, open_root_log, settings_of
from cli.settings import actor_of
from cli.terminal.output import Output
from extensions.machines.commands.changes import build_command
from extensions.machines.commands.output import (
    Data,
    Values,
    parse_data_option,
    parse_path_values,
    print_answer,
    print_outcome,
)
from extensions.machines.rules.decide import compute_state_after, decide
from extensions.machines.rules.decide_fields import check_loop_limit
from extensions.machines.rules.definition import DEFINITION, MOST_ROUNDS, Definition
from extensions.machines.rules.errors import InvalidInput
from extensions.machines.rules.machine import Machine
from extensions.machines.rules.path import parse_writable_path, set_value
from extensions.machines.rules.payload import MachineCreated
from extensions.machines.service import takeover
from extensions.machines.service.approval import record_approval
from extensions.machines.service.complete_command import (
    apply_repository_limit,
    complete_command,
    load_definition_file,
    load_shipped_definition,
)
from extensions.machines.service.initialise import (
    create_root_config,
    find_nearest_root,
    free_machine_files,
    pin_if_signed,
    root_at_place,
)
from extensions.machines.service.log import MachineLog
from extensions.machines.service.service import MachineOutcome, MachineService
from lifecycle.payload.base import Payload
from lifecycle.words.document import record_key_order
from service.root.atomic_files import system_clock, utc_text
from service.root.root import Root, read_identity
from service.writing.stream_writer import WriteOptions

#: A folder for machines, and whether it already exists with a log.
Place = tuple[Root, bool]
#: Path → content of the files from which a machine is imported.
Sources = Mapping[Path, bytes]
_KEPT = "the files do not change before something is recorded here; .wfctl/drift/ keeps copies"


def init(
    context: Context,
    options: KeyedWrites,
    machine: Annotated[str, argument("ID", "A new id for the phase machine, for example login.")],
    values: Values = None,
    type_: Text = option(
        "--type",
        "TYPE",
        "Use the phases that wfctl includes for this type of work, for example feature or debug.",
    ),
    definition: Text = option(
        "FILE", "Use your own definition of phases from this YAML file, or from stdin (-)."
    ),
    data: Data = None,
    limit: Texts = option(
        "LOOP=N",
        "Allow at most N repetitions of this loop of phases. You can repeat this option.",
    ),
    consent: Consent = option(
        "Choose how people prove their approvals: by answering at a terminal, with an "
        "SSH signature, or not at all (trust).",
        default=Consent.TERMINAL,
    ),
    signers: File = option(
        "FILE",
        "Accept only approvals signed with an SSH key listed in this file "
        "(allowed-signers format of ssh-keygen). Requires --consent signature.",
    ),
) -> None:
    """Create a phase machine in this workflow's folder.

    A phase machine tracks a piece of work, usually of an agent, through a series of phases.
    """
    settings = settings_of(context)
    if (type_ is None) == (definition is None):
        raise InvalidInput(
            "the command needs exactly one of the options --type TYPE and --definition FILE."
        )
    known = (
        load_shipped_definition(type_)
        if type_ is not None
        else load_definition_file(definition or "")
    )
    place = find_nearest_root(settings.start, settings.database_url, settings.journal)
    known = apply_repository_limit(known, place[0].path)
    known = known.with_limits(_parse_limits(known, limit or []))
    document: dict[str, object] = {}
    for path, value in {**parse_data_option(data), **parse_path_values(values)}.items():
        set_value(document, parse_writable_path(path), value)
    command = build_command(
        MachineCreated,
        machine=machine,
        definition=known.dumped(),
        document=document,
        layout=record_key_order(document),
        root=read_identity(place[0].path),
        **_build_consent_fields(context, consent, signers),
    )
    _create_machine(context, place, machine, command, options)


def _build_consent_fields(
    context: Context, consent: Consent, signers: Path | None
) -> dict[str, Any]:
    return {
        "consent": consent.value,
        "signers": signers_of(consent, signers),
        "proposed": is_signer_choice_unattended(settings_of(context), consent.value),
    }


def _parse_limits(known: Definition, words: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in words:
        loop, _, number = word.partition("=")
        if loop not in known.loops:
            names = ", ".join(known.loops) or "none"
            raise InvalidInput(
                f"the value {word!r} of the option --limit does not have the form LOOP=N. Loops "
                f"of this machine type: {names}."
            )
        usable = number.isascii() and number.isdigit() and len(number) <= len(str(MOST_ROUNDS))
        found[loop] = int(number) if usable else 0
        check_loop_limit(f"--limit {word}", found[loop])
    return found


def _create_machine(
    context: Context,
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
        new = _compute_first_state(root, command)
        line = f"would make a root in {root.path} and begin {new.id} in {new.phase}"
        data = {"dry_run": True, "machine": new.id, "phase": new.phase, **more}
        print_answer(output, data, lambda: "\n".join([line, *notes]), new)
        return
    with _open_new_machine_service(context, place, machine, options) as service:
        outcome = _record_first_event(context, service, command, options, sources or {})
        print_outcome(output, service, outcome, options, notes=notes, **more)


def _compute_first_state(root: Root, command: Payload) -> Machine:
    at = utc_text(system_clock())
    return compute_state_after(
        None, decide(None, complete_command(root.path, "", command, None), at), at
    )


@contextmanager
def _open_new_machine_service(
    context: Context, place: Place, machine: str, options: WriteOptions
) -> Iterator[MachineService]:
    root, is_there = place
    if not is_there:
        create_root_config(root)
    store = (
        open_root_log(root, read_only=options.dry_run, strict=True)
        if is_there
        else create_log(root)
    )
    with closing(store):
        log = MachineLog(store, machine, root.path)
        yield MachineService(root, log, actor_of(settings_of(context)))


def _record_first_event(
    context: Context,
    service: MachineService,
    command: Payload,
    options: WriteOptions,
    sources: Sources,
) -> MachineOutcome:
    """Record the first event of a machine and return the result.

    If the machine has a user-defined definition, the person who typed the command also approves
    this definition. Raises `StateAlreadyExists` if another machine uses the same files.
    """
    new = _compute_first_state(service.root, command)
    if service.log.state() is None and service.first_answer(options, command) is None:
        if not options.dry_run:
            service.settle_place(settings_of(context).root_is)
        free_machine_files(service, new, sources, options.dry_run)
    outcome = pin_if_signed(service, service.handle(command, options=options))
    if options.dry_run or outcome.state.definition_agreed is not False:
        return outcome
    actor, line = service.actor, f"wfctl machine {context.info_name} {new.id}"
    waits_for = f"wfctl machine approve {outcome.state.id} {DEFINITION}"
    if not has_typed_consent(actor, outcome.state.consent, "definition", waits_for, None):
        return outcome
    agreed = record_approval(
        service, DEFINITION, None, lambda _: build_typed_consent(actor, line, None), WriteOptions()
    )
    if agreed is None:
        return outcome
    return agreed._replace(events=(*outcome.events, *agreed.events), planned=outcome.planned)


NameMap = Annotated[
    Texts,
    option(
        "--map",
        "NAME=STEP",
        "Translate a name in the file, such as a phase, to a name in the definition. "
        "You can repeat this option.",
    ),
]
LaterPolicy = Annotated[
    Consent,
    option(
        "Choose how people prove later approvals: by answering at a terminal, with an "
        "SSH signature, or not at all (trust)."
    ),
]


def import_(
    context: Context,
    options: KeyedWrites,
    path: Annotated[
        Path,
        argument(
            "PATH",
            "The state file, the folder that contains the state file, or the folder of all "
            "tracks (pieces of work).",
        ),
    ],
    map_: NameMap = None,
    at: Text = option(
        "STEP", "Set the current phase of the machine, if the file names no known phase."
    ),
    definition: Text = option(
        "FILE", "Use your own definition of phases from this YAML file, or from stdin (-)."
    ),
    consent: LaterPolicy = Consent.TERMINAL,
    signers: File = option(
        "FILE",
        "Accept only approvals signed with an SSH key listed in this file "
        "(allowed-signers format of ssh-keygen). Requires --consent signature.",
    ),
) -> None:
    """Import a state file of an agent protocol as a phase machine.

    The command prints problems of the file. If wfctl does not know a name in the file, wfctl stops
    and suggests a similar name. To translate such names, use --map.
    """
    meant: dict[str, str] = {}
    for word in map_ or []:
        name, _, step = word.partition("=")
        if not (name and step):
            raise InvalidInput(f"the option --map needs NAME=STEP, not {word!r}", value=word)
        meant[name] = step
    own = load_definition_file(definition) if definition is not None else None
    said = takeover.ImportChoices(meant=meant, at=at, definition=own, now=utc_text(system_clock()))
    tracks = takeover.tracks_in(path)
    groups = [[track] for track in tracks] or [takeover.files_of(path)]
    sources = [takeover.contents_of(files, locked=not options.dry_run) for files in groups]
    found = [takeover.convert_files_to_machine(one, said) for one in sources]
    takeover.require_known_names(found)
    takeover.require_no_contradiction(found)
    policy = _build_consent_fields(context, consent, signers)
    if tracks and options.command_id is not None:
        raise InvalidInput(
            "the option --command-id can be used with only one machine. Name one track as PATH, "
            "or remove --command-id."
        )
    if tracks:
        _import_tracks(context, list(zip(sources, found, strict=True)), policy, options)
        return
    place, one = _choose_root(context, sources[0]), found[0]
    command = takeover.build_import_event(one, read_identity(place[0].path), **policy)
    more: dict[str, Any] = {"findings": takeover.group_findings(one.findings), "kept": _KEPT}
    notes = [*takeover.format_findings(one.findings), _KEPT]
    _create_machine(context, place, one.id, command, options, sources[0], notes, **more)


def _choose_root(context: Context, sources: Sources) -> Place:
    settings = settings_of(context)
    first = next(iter(sources))
    where = (settings.database_url, settings.journal)
    if settings.root is None and takeover.is_placed(first):
        return root_at_place(takeover.find_protocol_root(first), *where)
    return find_nearest_root(settings.root or takeover.find_protocol_root(first), *where)


def _import_tracks(
    context: Context,
    each: list[tuple[dict[Path, bytes], takeover.ImportedMachine]],
    policy: dict[str, Any],
    options: WriteOptions,
) -> None:
    answers: list[dict[str, Any]] = []
    findings: list[dict[str, Any]] = []
    lines: list[str] = []
    for sources, found in each:
        place = _choose_root(context, sources)
        command = takeover.build_import_event(found, read_identity(place[0].path), **policy)
        is_new = True
        if place[1] or not options.dry_run:
            with _open_new_machine_service(context, place, found.id, options) as service:
                is_new = service.log.state() is None
                if is_new:
                    _record_first_event(context, service, command, options, sources)
        one = {"machine": found.id, "phase": found.phase, "status": found.status}
        answers.append({**one, "new": is_new, "findings": len(found.findings)})
        known = "" if is_new else ", here already"
        lines.append(f"{found.id}: {found.phase}, {found.status}{known}")
        findings += [{**f, "place": f"{found.id}: {f['place']}"} for f in found.findings]
    data = {"dry_run": options.dry_run, "machines": answers}
    data |= {"findings": takeover.group_findings(findings), "kept": _KEPT}
    text = "\n".join([*lines, *takeover.format_findings(findings), _KEPT])
    print_answer(Output(settings_of(context)), data, lambda: text)
