"""``wfctl events``, ``log``, ``fsck``, ``schema`` and ``replay``: the log, as it is and told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from difflib import unified_diff
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cli.frame import selection as chosen
from cli.frame.options import FINDINGS, AsOf, Brief, DryRun, Machine, Text, Texts, argument, option
from cli.frame.workspace import Reading, entry, reading, settings_of, standing, writing
from cli.terminal.output import Output
from eventstore.event import RecordedEvent
from eventstore.store import subscribed
from lifecycle.errors import UnknownEventType
from service.errors import InvalidOption
from service.reading.log import Selection, WorkflowLog, check_behaviour
from service.reading.moment import Moment
from service.reading.stream_log import StreamLog
from service.root.disk import system_clock, utc_text

if TYPE_CHECKING:
    from service.files.inspection import Difference

Files = list[Path] | None
Record = dict[str, Any]
#: So many findings say what is wrong; of a damaged log each row may be one.
_SHOWN = 100


def events(
    context: typer.Context,
    asked: chosen.Wanted = chosen.ALL,
    view: AsOf = None,
    limit: chosen.Newest = None,
    brief: Brief = None,
    fields: chosen.Fields = None,
    template: chosen.Template = None,
    reverse: chosen.Reverse = False,
    follow: chosen.Follow = False,
    machine: Text = option("ID", "Use the log of a phase machine."),
    stored: bool = option("Print each event with the exact bytes that were hashed."),
) -> None:
    """Print the recorded events.

    With --actor KIND or KIND:NAME, print only the events of one actor.
    """
    if stored:
        _print_stored(context, machine)
        return
    _check_form(context, ("reverse", "brief", "at", "known_at"))
    with reading(context) as root:
        workflow = root if machine is None else of_machine(root, machine)
        wanted = asked.of(workflow)
        log = workflow.log if machine is None else workflow.machine(machine)
        found = _recorded(workflow, follow) if view is None else log.events(view)
        each = (record_of(event) for event in found if wanted.fits(event))
        records = chosen.matching(each, asked.grep)
        # Those to come have no end of which one could count back.
        shown = islice(records, limit) if follow else chosen.ordered(records, limit, reverse)
        _print(context, workflow, shown, (_short_event, _event_line), view)


def record_of(event: RecordedEvent) -> Record:
    """Return an event as it is printed: with its hash, and its position in the log."""
    return {**event.body, "hash": event.hash, "position": event.position}


def _check_form(context: typer.Context, endless: Iterable[str]) -> None:
    """Raise `InvalidOption` for options that exclude each other.

    --brief has a form of its own, and ``endless`` are those that need an end, which --follow lacks.
    """
    given = context.params
    forms = ("reverse", "fields", "template")
    chosen.own_form(given["brief"], {f"--{name}": given[name] for name in forms})
    ends = [f"--{name.replace('_', '-')}" for name in endless if given["follow"] and given[name]]
    if ends:
        needing = " and ".join(ends).replace("--limit", "-n")
        raise InvalidOption(f"--follow has no end, which {needing} would need")


def _print(
    context: typer.Context,
    workflow: Reading,
    records: Iterable[Record],
    told: tuple[Callable[[Record], Record], Callable[[Record], str]],
    view: Moment | None,
    pager: bool = False,
) -> None:
    given, output = context.params, workflow.output
    if given["brief"] is not None:
        from cli.frame.selection import print_newest

        print_newest(output, records, given["brief"], told, view)
        return
    shape = chosen.shape_of(output, given["fields"], given["template"])
    through: Any = nullcontext()
    if pager:
        from cli.terminal.table import paged

        through = paged(output)
    with through:
        shape.print(output, records, told[1], view)


def _print_stored(context: typer.Context, machine: str | None) -> None:
    """Print every event of a stream, byte for byte as it is kept; raises `InvalidOption`.

    What is read otherwise is lifted to the schema of today, and has another hash.
    """
    names = [name for name in context.params if name not in ("stored", "machine")]
    given = [name for name in names if context.params[name] not in (None, False, [], ())]
    if given:
        shown = ", ".join(f"--{name.strip('_').replace('_', '-')}" for name in given)
        raise InvalidOption(f"--stored prints every event of the stream: leave out {shown}")
    from eventstore.transfer.archive import exported

    with reading(context) as root:
        workflow = root if machine is None else of_machine(root, machine)
        for raw in workflow.log.store.raw(workflow.log.stream):
            print(exported(raw))


def of_machine(root: Reading, machine: str) -> Reading:
    """Return the root with the log of a machine; raises `StateNotFound`."""
    log = root.machine(machine)
    log.current()
    output = Output(root.output.settings, partial(standing, log, None))
    return replace(root, log=WorkflowLog(log.store, log.stream, root.root.path), output=output)


def _recorded(workflow: Reading, follow: bool) -> Iterator[RecordedEvent]:
    store, stream = workflow.log.store, workflow.log.stream
    if not follow:
        return store.read(stream)
    return subscribed(store, stream=stream)


def _short_event(record: Record) -> Record:
    """Return what tells of an event: not its place in the chain, nor what it was caused by."""
    when = f"{record['recorded_at'][:19]}Z"
    told = {"version": record["version"], "at": when, "type": record["type"]}
    return {**told, "actor": _who(record["actor"]), "data": record["data"]}


def _who(actor: Any) -> str:
    return f"{actor['kind']}:{actor['name']}" if isinstance(actor, dict) else str(actor)


def _event_line(record: Record) -> str:
    stage = record["data"].get("stage") or ""
    when = f"{record['recorded_at'][:19]}Z"
    return f"v{record['version']:<4} {when} {record['type']:<20} {stage:<9} {_who(record['actor'])}"


#: Event type, or its kind → the style of its message.
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
    context: typer.Context,
    asked: chosen.Wanted = chosen.ALL,
    view: AsOf = None,
    limit: chosen.Newest = None,
    brief: Brief = None,
    relative: bool = option("Print relative times, as in 2 hours ago."),
    fields: chosen.Fields = None,
    template: chosen.Template = None,
    reverse: chosen.Reverse = False,
    follow: chosen.Follow = False,
    machine: Machine = None,
    pager: bool = option("--pager/--no-pager", "Use $PAGER on a terminal.", default=True),
) -> None:
    """Show the history of the workflow.

    With --actor, show only what one actor did.
    """
    _check_form(context, ("reverse", "limit", "brief", "at", "known_at"))
    stages = asked.stages or []
    with reading(context) as root:
        workflow = root if machine is None else of_machine(root, machine)
        wanted = asked._replace(stages=None).of(workflow)
        entries = (
            one
            for one in _entries(workflow, machine, view, wanted, follow)
            if not stages or one["stage"] in stages or set(stages) & set(one["message"].split())
        )
        lines = chosen.ordered(chosen.matching(entries, asked.grep), limit, reverse)
        printer = _printer(workflow.output, relative)
        _print(context, workflow, lines, (_short_entry, printer), view, pager and not follow)


def _entries(
    workflow: Reading, machine: str | None, view: Moment | None, wanted: Selection, follow: bool
) -> Iterator[Record]:
    if machine is None and workflow.config.workflow is not None:
        events = _recorded(workflow, follow) if follow else workflow.log.events(view)
        return _told(workflow, events, wanted)
    from cli.frame import machine_history

    if machine is None:
        if follow:
            raise InvalidOption("--follow follows one machine: name it with --machine ID")
        return machine_history.entries_of_all(workflow, view, wanted)
    if follow:
        log = workflow.machine(machine)
        return machine_history.told(log, log.along(_recorded(workflow, follow)), wanted)
    return machine_history.entries_of(workflow, machine, view, wanted)


def _told(
    workflow: Reading, events: Iterator[RecordedEvent], wanted: Selection
) -> Iterator[Record]:
    for event, state in workflow.log.along(events):
        if wanted.fits(event) and (found := entry(event, state)) is not None:
            yield found


def _when(found: Record) -> str:
    """Return when it was; an import was not done when it was recorded."""
    return str(found["occurred_at" if found["actor"].startswith("import:") else "recorded_at"])


def _short_entry(found: Record) -> Record:
    keys = ("machine", "version", "actor", "stage", "message")
    return {**{key: found[key] for key in keys if key in found}, "at": _when(found)}


def _printer(output: Output, relative: bool) -> Callable[[Record], str]:
    from projections.words.text import ago, local_seconds

    now = utc_text(system_clock())

    def text(found: Record) -> str:
        when, type_ = _when(found), found["type"]
        shown = f"{ago(when, now):<14}" if relative else local_seconds(when, found["utc_offset"])
        who = output.style(f"{found['actor']:<16}", "2")
        whose = f"{found['machine']}: " if found.get("machine") else ""
        # An entry has one line, whatever somebody wrote: another line would read as another entry.
        message = " ⏎ ".join(str(found["message"]).splitlines())
        style = _STYLES.get(type_) or _STYLES.get(type_.partition(".")[0])
        message = output.style(message, style) if style else message
        return f"{output.style(shown, '34')}  {who} {whose}{message}"

    return text


def fsck(
    context: typer.Context,
    checkpoint: Files = option("FILE", "Compare the log with a checkpoint kept elsewhere."),
    witness: Texts = option("URL", "Compare the log with the last size that a witness saw."),
    public_key: Texts = option("KEY", "Accept checkpoints of this key too (key or file)."),
    protocol: bool = option("Check too that the rules allow each event."),
    all_: bool = option("Print every finding, not only the first 100."),
) -> None:
    """Check the log for damage.

    Check the chain, the order, every event and every checkpoint (exit 7 if anything is wrong).
    """
    from cli.frame.checkpoints import judged, lines_of, told_of
    from service.machines.inspection import check_machines
    from service.questions.audit import check_integrity

    with reading(context) as workflow:
        head = workflow.log.store.head(workflow.log.stream)  # what is appended later is checked too
        machines, theirs = check_machines(workflow.root, workflow.log.store)
        held = judged(workflow, machines, checkpoint or (), witness or (), public_key or ())
        found = [*check_integrity(workflow.root, workflow.log), *theirs, *held.findings]
        if protocol and not found:
            found = check_behaviour(workflow.log)
        more = 0 if all_ else max(0, len(found) - _SHOWN)
        findings = [finding._asdict() for finding in found[: len(found) - more]]
        version = head.version if head is not None else 0
        beside = "chain whole; results and inputs of stages are looked at by `wfctl verify`"
        clean = [f"clean: {version} events, {beside}" if version else "clean: no events"]
        clean += [f"clean: {id_}: {n} events, chain whole" for id_, n in machines.items()]
        wrong = list(map(_finding_line, findings))
        wrong += [f"and {more} more: `wfctl fsck --all`"] if more else []
        data = {
            "events": version,
            "head": head.hash if head else None,
            "findings": findings,
            **({"findings_left_out": more} if more else {}),
            "machines": machines,
            "checkpoints": told_of(held),
        }
        workflow.output.result(data, lambda: "\n".join(wrong or [*clean, *lines_of(held)]))
    if findings:
        raise typer.Exit(FINDINGS)


def _finding_line(finding: Record) -> str:
    from service.machines.log import PREFIX

    stream = str(finding["stream"] or "")
    machine = f"{stream}: " if stream.startswith(PREFIX) else ""
    at = f"version {finding['version']}: " if finding["version"] is not None else ""
    return f"{machine}{at}{finding['kind']}: {finding['message']}"


def schema(
    context: typer.Context,
    name: Text = argument(
        "[TYPE]", "Event type, or event, state, answer, plan, definition, feature.state …"
    ),
) -> None:
    """Print a JSON Schema.

    The schema describes an event's data, an event or the state. Without a name, list the names.
    """
    from projections.files import schemas

    output = Output(settings_of(context))
    # Making every schema takes a hundred times as long as making one.
    shown = None
    if name is not None:
        shown = schemas.schema(name) or _of_machines(name.partition(".")[0]).get(name)
    if shown is not None:
        output.result(shown, lambda: json.dumps(shown, indent=2))
        return
    every = {**schemas.schemas(), **_of_machines()}
    if name is not None:
        raise UnknownEventType(name, sorted(every))
    known = {key: schemas.about(key, one) for key, one in every.items()}
    width = max(map(len, known))
    lines = [f"{name:<{width}}  {line}" for name, line in known.items()]
    output.result(known, lambda: "\n".join(lines))


def _of_machines(only: str | None = None) -> Record:
    from projections.machines.description import schemas
    from service.machines.completing import SHIPPED, shipped

    types = [type_ for type_ in SHIPPED if only in (None, type_)]
    return {key: one for type_ in types for key, one in schemas(shipped(type_)).items()}


def replay(
    context: typer.Context,
    view: AsOf = None,
    check: bool = option(
        "Compare the log with the files and the stored state (exit 7 if they differ)."
    ),
    rebuild: bool = option("Write every file again."),
    machine: Text = option("ID", "Replay only a phase machine."),
    dry_run: DryRun = False,
) -> None:
    """Rebuild the state from the first event on."""
    if sum((check, rebuild, view is not None)) > 1:
        raise InvalidOption("--at and --known-at, --check and --rebuild exclude each other")
    if rebuild and not dry_run:
        _rebuild(context, machine)
    elif check or rebuild:
        _check(context, FINDINGS if check else 0, machine)
    elif machine is not None:
        from cli.commands.machine.output import answer
        from projections.machines.documents import documents

        with reading(context, machine) as machines:
            known = machines.machine(machine).current(view)
            data = documents(known)
            answer(machines.output, data, lambda: json.dumps(data, indent=2), known)
    else:
        from projections.files.state_document import document, render

        with reading(context) as workflow:
            state = workflow.log.replayed(view)
            text = render(state).decode().rstrip("\n")
            workflow.output.result(document(state), lambda: text, state=state)


def _rebuild(context: typer.Context, machine: str | None) -> None:
    from cli.commands.machine.output import acting

    changed: list[str] = []
    if machine is None:
        with writing(context, dry_run=False, anywhere=True) as (workflow, _):
            changed += workflow.files.rebuild()
    with reading(context) as root:
        machines = _machines(root, machine)
    for id_ in machines:
        with acting(context, id_, dry_run=False) as (service, _):
            changed += service.files.rebuild()
    text = f"written anew: {', '.join(changed)}" if changed else "every file was as it should be"
    with reading(context) as root:
        root.output.result({"written": changed}, lambda: text, state=root.log.state())


def _machines(root: Reading, only: str | None) -> list[str]:
    from service.machines.log import ids

    return list(ids(root.root, root.store)) if only is None else [only]


def _check(context: typer.Context, code: int, machine: str | None) -> None:
    with reading(context) as workflow:
        found = list(_findings(workflow, machine))
        clean = (
            "clean: the files and the stored state are what the log says; results and inputs of "
            "stages are looked at by `wfctl verify`"
        )
        text = "\n".join(f"{f['file']}: {f['kind']}\n{f['diff']}" for f in found)
        state = workflow.log.state()
        workflow.output.result({"findings": found}, lambda: text or clean, state=state)
    if found:
        raise typer.Exit(code)


def _findings(workflow: Reading, machine: str | None) -> Iterator[Record]:
    """Yield what is not as the log says: of a machine, or of all that the root has."""
    from service.machines.inspection import differences

    machines = list(map(workflow.machine, _machines(workflow, machine)))
    yield from map(_different, workflow.files.differences() if machine is None else ())
    logs: list[StreamLog[Any]] = [workflow.log] if machine is None else []
    for log in (*logs, *machines):
        if log.stored_differs():
            place = f"events.db (stored fold of {log.stream})"
            yield {"file": place, "kind": "changed", "diff": ""}
    for known in machines:
        yield from map(_different, differences(workflow.root, known, known.current()))


def _different(found: Difference) -> Record:
    lines = unified_diff(
        found.expected.decode(errors="replace").splitlines(),
        (found.found or b"").decode(errors="replace").splitlines(),
        f"{found.file} (by the log)",
        f"{found.file} (on disk)",
        lineterm="",
        n=1,
    )
    return {"file": found.file, "kind": found.kind, "diff": "\n".join(lines)}
