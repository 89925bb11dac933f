"""``wfctl events``, ``log``, ``fsck``, ``schema``, ``replay``: read and check the log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from difflib import unified_diff
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.frame import record_output
from cli.frame import selection as chosen
from cli.frame.context import Context
from cli.frame.exit_codes import FINDINGS
from cli.frame.options import AsOf, AsOfUntil, Brief, DryRun, Machine, Text, Texts, argument, option
from cli.frame.workspace import (
    OpenedWorkflow,
    describe_entry,
    open_for_reading,
    open_for_writing,
    read_last_event_info,
    settings_of,
)
from cli.terminal.output import Output
from eventstore.event import RecordedEvent
from eventstore.store import subscribe
from lifecycle.errors import UnknownEventType
from service.errors import InvalidOption
from service.reading.log import WorkflowLog
from service.reading.machine_streams import list_machines
from service.reading.point_in_history import Moment
from service.reading.selection import Selection
from service.reading.stream_log import StreamLog
from service.root.atomic_files import system_clock, utc_text
from wfctl_eventstore.extension import (
    CheckedCheckpoints,
    MissingExtensionError,
    find_extension,
    require_extension,
)

if TYPE_CHECKING:
    from service.files.inspection import Difference

Files = list[Path] | None
Record = dict[str, Any]
#: Maximum number of findings shown; in a damaged log each row may have one.
_SHOWN = 100


def events(
    context: Context,
    asked: chosen.Wanted = chosen.ALL,
    view: AsOf = None,
    limit: chosen.Newest = None,
    brief: Brief = None,
    fields: record_output.Fields = None,
    template: record_output.Template = None,
    reverse: chosen.Reverse = False,
    follow: chosen.Follow = False,
    machine: Text = option(
        "ID",
        "Use the log of this phase machine (the tracked work of an agent) instead of "
        "the log of the workflow.",
    ),
    stored: bool = option(
        "Print each event exactly as stored, so that you can check its hash yourself."
    ),
) -> None:
    """Print the events of the log.

    With --actor KIND or --actor KIND:NAME, print only the events of these authors.
    """
    if stored:
        _print_stored(context, machine)
        return
    _check_output_options(context, ("reverse", "brief", "at", "known_at"))
    with open_for_reading(context) as root:
        workflow = root if machine is None else select_machine_log(root, machine)
        wanted = asked.build_selection(workflow)
        found = _load_events(workflow, machine, view, follow)
        each = (record_of(event) for event in found if wanted.fits(event))
        records = chosen.filter_records(each, asked.grep)
        # With --follow, the number of future events is unknown, so the newest events cannot be
        # selected. The limit then applies to the first events.
        shown = islice(records, limit) if follow else chosen.select_newest(records, limit, reverse)
        _print_records(context, workflow, shown, (_pick_main_event_fields, _event_line), view)


def _load_events(
    workflow: OpenedWorkflow, machine: str | None, view: Moment | None, follow: bool
) -> Iterator[RecordedEvent]:
    """Return the events of one log.

    If the workflow folder contains only machines and none is named, return the events of all
    machines.
    """
    if machine is None and workflow.config.workflow is None:
        from cli.frame import machine_history

        if follow:
            raise InvalidOption(
                "the option --follow can follow only one machine. Name the machine with the "
                "option --machine ID."
            )
        return machine_history.events_of_all(workflow, view)
    log = workflow.log if machine is None else workflow.machine(machine)
    return _read_recorded_events(workflow, follow) if view is None else log.events(view)


def record_of(event: RecordedEvent) -> Record:
    """Return an event as a dict for output, with its hash and its position in the log."""
    return {**event.body, "hash": event.hash, "position": event.position}


def _check_output_options(context: Context, endless: Iterable[str]) -> None:
    """Raise `InvalidOption` for output options that exclude each other.

    --brief excludes other output formats. --follow excludes the options in ``endless``, because
    they need the end of the output, and --follow never ends.
    """
    given = context.params
    forms = ("reverse", "fields", "template")
    record_output.check_brief_format(given["brief"], {f"--{name}": given[name] for name in forms})
    ends = [f"--{name.replace('_', '-')}" for name in endless if given["follow"] and given[name]]
    if ends:
        needing = " and ".join(ends).replace("--limit", "-n")
        raise InvalidOption(
            f"the option --follow cannot be combined with {needing}, because --follow runs until "
            "you stop it. Remove one of these options."
        )


def _print_records(
    context: Context,
    workflow: OpenedWorkflow,
    records: Iterable[Record],
    told: tuple[Callable[[Record], Record], Callable[[Record], str]],
    view: Moment | None,
    pager: bool = False,
) -> None:
    given, output = context.params, workflow.output
    if given["brief"] is not None:
        from cli.frame.record_output import print_newest

        print_newest(output, records, given["brief"], told, view)
        return
    shape = record_output.build_record_format(output, given["fields"], given["template"])
    through: Any = nullcontext()
    if pager:
        from cli.terminal.table import use_pager

        through = use_pager(output)
    with through:
        shape.print(output, records, told[1], view)


def _print_stored(context: Context, machine: str | None) -> None:
    """Print every event of a stream, byte for byte as stored.

    Other commands convert events to the current schema, which changes their hash. Raises
    `InvalidOption` if another option is given.
    """
    names = [name for name in context.params if name not in ("stored", "machine")]
    given = [name for name in names if context.params[name] not in (None, False, [], ())]
    if given:
        shown = ", ".join(f"--{name.strip('_').replace('_', '-')}" for name in given)
        raise InvalidOption(
            f"the option --stored cannot be combined with {shown}, because --stored always prints "
            "every event of the stream. Remove one of these options."
        )
    from eventstore.transfer.archive import export_line

    with open_for_reading(context) as root:
        workflow = root if machine is None else select_machine_log(root, machine)
        for raw in workflow.log.store.raw(workflow.log.stream):
            print(export_line(raw))


def select_machine_log(root: OpenedWorkflow, machine: str) -> OpenedWorkflow:
    """Return the opened workflow folder with the log of a machine instead of its own log.

    A machine is the phase machine of an agent protocol. Raises `StateNotFound` for an unknown
    machine.
    """
    log = root.machine(machine)
    log.current()
    output = Output(root.output.settings, partial(read_last_event_info, log, None))
    return root._replace(log=WorkflowLog(log.store, log.stream, root.root.path), output=output)


def _read_recorded_events(workflow: OpenedWorkflow, follow: bool) -> Iterator[RecordedEvent]:
    store, stream = workflow.log.store, workflow.log.stream
    if not follow:
        return store.read(stream)
    return subscribe(store, stream=stream)


def _pick_main_event_fields(record: Record) -> Record:
    """Return the main fields of an event, without its hash, position and cause."""
    when = f"{record['recorded_at'][:19]}Z"
    told = {"version": record["version"], "at": when, "type": record["type"]}
    return {**told, "actor": _format_actor(record["actor"]), "data": record["data"]}


def _format_actor(actor: Any) -> str:
    return f"{actor['kind']}:{actor['name']}" if isinstance(actor, dict) else str(actor)


def _event_line(record: Record) -> str:
    stage = record["data"].get("stage") or ""
    when = f"{record['recorded_at'][:19]}Z"
    actor = _format_actor(record["actor"])
    return f"v{record['version']:<4} {when} {record['type']:<20} {stage:<9} {actor}"


#: ANSI style of the messages of each event type, or of all types with the same first word.
_STYLES = {
    "stage.completed": "32",
    "workflow.completed": "1;32",
    "stage.failed": "31",
    "stage.blocked": "31",
    "stage.invalidated": "33",
    "stage.retried": "33",
    "amendment": "35",
    "drift": "33",
    "session": "36",
    "note": "2",
}


def log(
    context: Context,
    asked: chosen.Wanted = chosen.ALL,
    view: AsOf = None,
    limit: chosen.Newest = None,
    brief: Brief = None,
    relative: bool = option("Print times relative to now, for example 2 hours ago."),
    fields: record_output.Fields = None,
    template: record_output.Template = None,
    reverse: chosen.Reverse = False,
    follow: chosen.Follow = False,
    machine: Machine = None,
    pager: bool = option(
        "--pager/--no-pager",
        "Show long output page by page, with the program in $PAGER, if you are at a terminal.",
        default=True,
    ),
) -> None:
    """Show the history of the workflow.

    With --actor KIND:NAME, show only entries by this person or program.
    """
    _check_output_options(context, ("reverse", "limit", "brief", "at", "known_at"))
    stages = asked.stages or []
    with open_for_reading(context) as root:
        workflow = root if machine is None else select_machine_log(root, machine)
        wanted = asked._replace(stages=None).build_selection(workflow)
        entries = (
            one
            for one in _load_entries(workflow, machine, view, wanted, follow)
            if not stages or one["stage"] in stages or set(stages) & set(one["message"].split())
        )
        lines = chosen.select_newest(chosen.filter_records(entries, asked.grep), limit, reverse)
        printer = _build_entry_formatter(workflow.output, relative)
        _print_records(
            context, workflow, lines, (_pick_main_entry_fields, printer), view, pager and not follow
        )


def _load_entries(
    workflow: OpenedWorkflow,
    machine: str | None,
    view: Moment | None,
    wanted: Selection,
    follow: bool,
) -> Iterator[Record]:
    if machine is None and workflow.config.workflow is not None:
        events = _read_recorded_events(workflow, follow) if follow else workflow.log.events(view)
        return _describe_events(workflow, events, wanted)
    from cli.frame import machine_history

    if machine is None:
        if follow:
            raise InvalidOption(
                "the option --follow can follow only one machine. Name the machine with the "
                "option --machine ID."
            )
        return machine_history.entries_of_all(workflow, view, wanted)
    if follow:
        log = workflow.machine(machine)
        return machine_history.list_entries(
            log, log.replay_given_events(_read_recorded_events(workflow, follow)), wanted
        )
    return machine_history.entries_of(workflow, machine, view, wanted)


def _describe_events(
    workflow: OpenedWorkflow, events: Iterator[RecordedEvent], wanted: Selection
) -> Iterator[Record]:
    for event, state in workflow.log.replay_given_events(events):
        if wanted.fits(event) and (found := describe_entry(event, state)) is not None:
            yield found


def _get_display_time(found: Record) -> str:
    """Return the time of an event in the log.

    An imported event happened before it was recorded, so its own time is used.
    """
    return str(found["occurred_at" if found["actor"].startswith("import:") else "recorded_at"])


def _pick_main_entry_fields(found: Record) -> Record:
    keys = ("machine", "version", "actor", "stage", "message")
    return {**{key: found[key] for key in keys if key in found}, "at": _get_display_time(found)}


def _build_entry_formatter(output: Output, relative: bool) -> Callable[[Record], str]:
    from projections.words.text import convert_utc_to_local_seconds, format_age

    now = utc_text(system_clock())

    def text(found: Record) -> str:
        when, type_ = _get_display_time(found), found["type"]
        shown = (
            f"{format_age(when, now):<14}"
            if relative
            else convert_utc_to_local_seconds(when, found["utc_offset"])
        )
        who = output.style(f"{found['actor']:<16}", "2")
        whose = f"{found['machine']}: " if found.get("machine") else ""
        # An entry is always one line, because a second line would look like another entry.
        message = " ⏎ ".join(str(found["message"]).splitlines())
        style = _STYLES.get(type_) or _STYLES.get(type_.partition(".")[0])
        message = output.style(message, style) if style else message
        version = output.style(f"{'v' + str(found['version']):<6}", "33")
        return f"{version}{output.style(shown, '34')}  {who} {whose}{message}"

    return text


def fsck(
    context: Context,
    checkpoint: Files = option(
        "FILE",
        "Also compare the log with this checkpoint, a signed copy of an earlier state of the log.",
    ),
    witness: Texts = option(
        "URL",
        "Also compare the log with the last state that the witness (an independent "
        "server) at this URL confirmed.",
    ),
    public_key: Texts = option(
        "KEY",
        "Also accept checkpoints (signed states of the log) signed with this public "
        "key. KEY is the key itself or a file.",
    ),
    protocol: bool = option(
        "Also check that each event was allowed by wfctl's rules when it was recorded."
    ),
    all_: bool = option("Print all problems found. Default: the first 100."),
) -> None:
    """Check the log for damage.

    wfctl checks the chain of hashes, the order, every event and every checkpoint. The exit code is
    7 if wfctl finds damage.
    """
    from service.questions.audit import find_problems_of_all_logs

    with open_for_reading(context) as workflow:
        head = workflow.log.store.head(workflow.log.stream)  # what is appended later is checked too
        machines, wrong_rows = find_problems_of_all_logs(workflow.root, workflow.log)
        held = _check_checkpoints(workflow, machines, checkpoint, witness, public_key)
        found = [*wrong_rows, *held.findings]
        if protocol and not found:
            checker = require_extension("protocol_check", "`wfctl fsck --protocol`")
            found = checker.check_protocol(workflow.log)
        more = 0 if all_ else max(0, len(found) - _SHOWN)
        findings = [finding._asdict() for finding in found[: len(found) - more]]
        version = head.version if head is not None else 0
        beside = "chain intact; `wfctl verify` checks the results and inputs of stages"
        clean = [f"clean: {version} events, {beside}" if version else "clean: no events"]
        clean += [f"clean: {id_}: {n} events, chain intact" for id_, n in machines.items()]
        wrong = list(map(_finding_line, findings))
        wrong += [f"and {more} more: `wfctl fsck --all`"] if more else []
        data = {
            "events": version,
            "head": head.hash if head else None,
            "findings": findings,
            **({"findings_left_out": more} if more else {}),
            "machines": machines,
            "checkpoints": {"agree": held.agree, "passed_over": list(held.passed_over)},
        }
        workflow.output.result(data, lambda: "\n".join(wrong or [*clean, *_checkpoint_lines(held)]))
    if findings:
        raise SystemExit(FINDINGS)


def _check_checkpoints(
    workflow: OpenedWorkflow, machines: Iterable[str], files: Files, witnesses: Texts, keys: Texts
) -> CheckedCheckpoints:
    """Compare the logs of the workflow folder with all known or named checkpoints.

    A checkpoint is a signed copy of an earlier state of a log. Return an empty result if the
    extension for checkpoints is not installed. Raises `MissingExtensionError` if an option needs
    this extension.
    """
    proofs = find_extension("proofs")
    if proofs is None:
        if files or witnesses:
            raise MissingExtensionError("`wfctl fsck` with a checkpoint", "proofs")
        return CheckedCheckpoints()
    return proofs.check_checkpoints(workflow, machines, files or (), witnesses or (), keys or ())


def _checkpoint_lines(found: CheckedCheckpoints) -> list[str]:
    agree = [f"{found.agree} checkpoints agree"] if found.agree else []
    return [*agree, *(f"passed over: {one}" for one in found.passed_over)]


def _finding_line(finding: Record) -> str:
    from service.root.root import MACHINE

    stream = str(finding["stream"] or "")
    machine = f"{stream}: " if stream.startswith(MACHINE) else ""
    at = f"version {finding['version']}: " if finding["version"] is not None else ""
    return f"{machine}{at}{finding['kind']}: {finding['message']}"


def schema(
    context: Context,
    name: Text = argument(
        "[TYPE]",
        "The name of the schema: an event type such as stage.completed, or event, state, "
        "answer, plan, definition, feature.state …",
    ),
) -> None:
    """Print the JSON Schema of an event, a plan or the state.

    Schemas also exist for the data of each event type and for the answers of commands. Without a
    name, list all schemas.
    """
    from projections.files import schemas

    output = Output(settings_of(context))
    # Load only the requested schema if possible. Building all schemas takes a hundred times as
    # long.
    shown = None
    if name is not None:
        shown = schemas.find_schema(name) or _machine_schemas(name.partition(".")[0]).get(name)
    if shown is not None:
        output.result(shown, lambda: json.dumps(shown, indent=2))
        return
    every = {**schemas.load_schemas(), **_machine_schemas()}
    if name is not None:
        raise UnknownEventType(name, sorted(every))
    known = {key: schemas.describe_schema(key, one) for key, one in every.items()}
    width = max(map(len, known))
    lines = [f"{name:<{width}}  {line}" for name, line in known.items()]
    output.result(known, lambda: "\n".join(lines))


def _machine_schemas(only: str | None = None) -> Record:
    machines = find_extension("machines")
    return machines.list_schemas(only) if machines is not None else {}


def replay(
    context: Context,
    view: AsOfUntil = None,
    check: bool = option(
        "Check that the files and the stored state match the log, without changing "
        "anything. Exit with code 7 if they differ."
    ),
    rebuild: bool = option("Recreate all files that wfctl generates from the log."),
    machine: Text = option(
        "ID", "Rebuild only the state of this phase machine (the tracked work of an agent)."
    ),
    dry_run: DryRun = False,
) -> None:
    """Rebuild the state of the workflow from all events of the log."""
    if sum((check, rebuild, view is not None)) > 1:
        raise InvalidOption(
            "the options --check, --rebuild and --at or --known-at cannot be combined. Choose "
            "one of these options."
        )
    if rebuild and not dry_run:
        _rebuild_files(context, machine)
    elif check or rebuild:
        _check_files(context, FINDINGS if check else 0, machine)
    elif machine is not None:
        machines = require_extension("machines", f"the machine {machine}")
        machines.print_machine_documents(context, machine, view)
    else:
        from projections.files.state_document import build_document, render_state

        with open_for_reading(context) as workflow:
            state = workflow.log.replayed(view)
            text = render_state(state).decode().rstrip("\n")
            workflow.output.result(build_document(state), lambda: text, state=state)


def _rebuild_files(context: Context, machine: str | None) -> None:
    changed: list[str] = []
    if machine is None:
        with open_for_writing(context, dry_run=False, anywhere=True) as (workflow, _):
            changed += workflow.files.rebuild()
    with open_for_reading(context) as root:
        found = _select_machines(root, machine)
    for id_ in found:
        machines = require_extension("machines", f"the machine {id_}")
        changed += machines.rebuild_machine_files(context, id_)
    text = f"rewritten: {', '.join(changed)}" if changed else "every file already matched the log"
    with open_for_reading(context) as root:
        root.output.result({"written": changed}, lambda: text, state=root.log.state())


def _select_machines(root: OpenedWorkflow, only: str | None) -> list[str]:
    return list_machines(root.root, root.store) if only is None else [only]


def _check_files(context: Context, code: int, machine: str | None) -> None:
    with open_for_reading(context) as workflow:
        found = list(_list_findings(workflow, machine))
        clean = (
            "clean: the files and the stored state match the log; "
            "`wfctl verify` checks the results and inputs of stages"
        )
        text = "\n".join(f"{f['file']}: {f['kind']}\n{f['diff']}" for f in found)
        state = workflow.log.state()
        workflow.output.result({"findings": found}, lambda: text or clean, state=state)
    if found:
        raise SystemExit(code)


def _list_findings(workflow: OpenedWorkflow, machine: str | None) -> Iterator[Record]:
    """Yield each fault of the log, and each file made from the log that differs from it.

    Check one machine if ``machine`` is given, otherwise everything in the workflow folder.
    """
    from service.questions.audit import find_problems_of_all_logs, stream_findings

    root = workflow.root
    if machine is None:
        wrong = find_problems_of_all_logs(root, workflow.log)[1]
    else:
        wrong = stream_findings(root, workflow.machine(machine))
    for one in wrong:
        place = f"events.db ({one.stream or 'the whole log'})"
        yield {"file": place, "kind": one.kind, "diff": one.message}
    machines = list(map(workflow.machine, _select_machines(workflow, machine)))
    yield from map(_format_file_difference, workflow.files.differences() if machine is None else ())
    logs: list[StreamLog[Any]] = [workflow.log] if machine is None else []
    for log in (*logs, *machines):
        if log.has_wrong_stored_state():
            place = f"events.db (stored fold of {log.stream})"
            yield {"file": place, "kind": "changed", "diff": ""}
    for id_ in _select_machines(workflow, machine):
        hooks = require_extension("machines", f"the machine {id_}")
        yield from map(_format_file_difference, hooks.find_machine_differences(workflow, id_))


def _format_file_difference(found: Difference) -> Record:
    lines = unified_diff(
        found.expected.decode(errors="replace").splitlines(),
        (found.found or b"").decode(errors="replace").splitlines(),
        f"{found.file} (by the log)",
        f"{found.file} (on disk)",
        lineterm="",
        n=1,
    )
    return {"file": found.file, "kind": found.kind, "diff": "\n".join(lines)}
