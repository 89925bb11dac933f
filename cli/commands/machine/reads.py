"""``wfctl machine get``: the state, or a part of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from cli.commands.machine.output import MachineId, acting, answer, next_lines, tell
from cli.frame.deciding import DecisionKey, decide, dismissal_of
from cli.frame.machine_history import whole
from cli.frame.options import FINDINGS, AsOf, Text, Texts, Writes, argument, option
from cli.frame.workspace import Reading, reading, settings_of
from cli.terminal.output import Output
from eventstore.store import EventStore
from lifecycle.machines.definition import Definition
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Machine
from lifecycle.machines.path import look, parse
from lifecycle.state.hindrance import hindrances
from lifecycle.state.workflow import Workflow
from projections.machines.description import described, listed, mermaid, outlined, page
from projections.machines.documents import documents
from projections.machines.history import message
from projections.machines.next_actions import blockers, machine_actions
from projections.words.text import age, utc_seconds
from service.errors import NoRoot
from service.files.inspection import Difference
from service.machines import log
from service.machines.completing import SHIPPED, from_file, shipped
from service.machines.evidence import evidence
from service.machines.inspection import differences, warnings
from service.machines.log import MachineLog
from service.machines.news import FilesLook, told, undecided
from service.reading.moment import Moment
from service.root.disk import system_clock, utc_text
from service.root.root import Root


def get(
    context: typer.Context,
    machine: MachineId,
    query: Text = option("PATH", "Only what stands at a dot path."),
    fields: Text = option("PATH,…", "Only these fields."),
    view: AsOf = None,
) -> None:
    """Where a machine stands, or a part of its state."""
    if query is not None and fields is not None:
        raise InvalidInput("--query and --fields exclude each other")
    with reading(context, machine) as machines:
        state = machines.machine(machine).current(view)
        past = view is not None
        told = [] if past else warnings(machines.root, machines.machine(machine), state)
        files = evidence(machines.root.path, state)
        data = _selected(whole(state), query, fields)

        def text() -> str:
            if query is not None or fields is not None:
                return data if isinstance(data, str) else json.dumps(data, indent=2)
            lines = [*summary(state), *(f"warning: {one}" for one in told)]
            return "\n".join(lines + next_lines(machine_actions(state, files)))

        held = claims(state) if state.leases else None
        answer(machines.output, data, text, state, files, warnings=told, claims=held)


def _selected(document: dict[str, Any], query: str | None, fields: str | None) -> Any:
    if query is not None:
        return look(document, parse(query))
    if fields is not None:
        names = [name.strip() for name in fields.split(",") if name.strip()]
        return {name: look(document, parse(name)) for name in names}
    return document


def summary(state: Machine) -> list[str]:
    """Return where a machine stands, for people."""
    status = f", {state.status}" if state.status is not None else ""
    lines = [f"{state.id}  {state.definition.id}, in {state.phase}{status}, version {state.head}"]
    if not state.is_final:
        lines.append(f"  {state.definition.phases[state.phase].asks}")
    lines += [
        f"  {loop}: {count} of {state.limit_of(loop)}" for loop, count in state.counts.items()
    ]
    return lines + [
        f"  task {task.get('id')}: {task.get('status')}{_claimed(state, task)}"
        for task in state.tasks
    ]


def _claimed(state: Machine, task: dict[str, Any]) -> str:
    held = state.leases.get(str(task.get("id")))
    return f", claimed by {held.by} until {utc_seconds(held.until)}" if held is not None else ""


def claims(state: Machine) -> dict[str, Any]:
    """Return the claims of a machine's tasks: task → by whom, until when."""
    return {
        task: {"by": held.by, "until": utc_seconds(held.until)}
        for task, held in state.leases.items()
    }


def check(
    context: typer.Context, file: Annotated[str, argument("FILE", "A definition; - is stdin.")]
) -> None:
    """Say all that is wrong with a definition, dead ends too (exit 1); draw one that is sound."""
    definition = from_file(file)
    data = {**listed(definition), "transitions": len(definition.transitions)}
    drawing = mermaid(definition)
    sound = f"{definition.id}: sound, {data['phases']} phases, {data['transitions']} transitions"
    answer(
        Output(settings_of(context)), {**data, "mermaid": drawing}, lambda: f"{sound}\n{drawing}"
    )


def describe(
    context: typer.Context,
    name: Text = argument("[TYPE|ID]", "A type, or a machine; else all."),
    definition: Text = option("FILE", "A definition of your own; - is stdin."),
    diagram: bool = option("--mermaid", "Print only the diagram, in Mermaid's language."),
    full: bool = option("With guards as data, schemas, reserved fields, diagram."),
    source: bool = option("The definition itself, for --definition FILE."),
) -> None:
    """Print phases, transitions and guards; without a name, which types there are."""
    output = Output(settings_of(context))
    found = _found(context, name, definition)
    if name is None and definition is None and not (full or source or diagram):
        rows = [listed(one) for one in found]
        answer(output, rows, lambda: "\n".join(f"{row['id']:<12} {row['title']}" for row in rows))
        return
    show = Definition.source if source else described if full else outlined
    data = [show(one) for one in found]
    tell = _json if source else mermaid if diagram else page
    one = name is not None or definition is not None
    answer(output, data[0] if one else data, lambda: "\n".join(map(tell, found)))


def _json(definition: Definition) -> str:
    return json.dumps(definition.source(), indent=2, ensure_ascii=False)


def _found(context: typer.Context, name: str | None, file: str | None) -> list[Definition]:
    if file is not None:
        return [from_file(file)]
    if name is None:
        return [shipped(one) for one in SHIPPED]
    if name in SHIPPED:
        return [shipped(name)]
    with reading(context, name) as machines:
        return [_of_machine(machines, name)]


def _of_machine(machines: Reading, name: str) -> Definition:
    """Return the definition of a machine, else the user's own of that name; `StateNotFound`."""
    known = list(log.ids(machines.root, machines.store))
    for id_ in known if name not in known else ():
        definition = machines.machine(id_).current().definition
        if definition.id == name:
            return definition
    return machines.machine(name).current().definition


def differences_of(root: Root, store: EventStore, only: str | None) -> list[Difference]:
    """Return the files of a machine, or of all, that are not what the log says."""
    found: list[Difference] = []
    for id_ in log.ids(root, store) if only is None else [only]:
        known = MachineLog(store, id_, root.path)
        found += differences(root, known, known.current())
    return found


def rebuilt(context: typer.Context, only: str | None) -> list[str]:
    """Write the files of a machine, or of all, anew; return those that changed."""
    with reading(context) as machines:
        known = [only] if only is not None else log.ids(machines.root, machines.store)
    written: list[str] = []
    for id_ in known:
        with acting(context, id_, dry_run=False) as (service, _):
            written += service.files.rebuild()
    return written


def show(context: typer.Context, machine: str, view: Moment | None) -> None:
    """Print a machine's documents, folded from its first event."""
    with reading(context, machine) as machines:
        state = machines.machine(machine).current(view)
        data = documents(state)
        answer(machines.output, data, lambda: json.dumps(data, indent=2), state)


def drift(
    context: typer.Context,
    options: Writes,
    machine: MachineId,
    file: Text = argument("[FILE]", "Only this file."),
    adopt: bool = option("Take the fields over, by the rules."),
    field: Texts = option("PATH", "Adopt only this one; repeatable."),
    revert: bool = option("Dismiss the edit; it stays kept."),
    detected: int | None = option("VERSION", "The edit detected there."),
    key: DecisionKey = None,
) -> None:
    """Show hand edits of a machine's files (exit 7), adopt or revert one."""
    if adopt and revert:
        raise InvalidInput("--adopt and --revert exclude each other")
    if field and not adopt:
        raise InvalidInput("--field says what to take over: expected it with --adopt")
    if key is not None and not revert:
        raise InvalidInput("--key signs that an edit is dismissed: expected it with --revert")
    if not (adopt or revert):
        _show(context, machine, file)
        return
    with acting(context, machine, options.dry_run) as (service, output):
        if not options.dry_run:
            service.files.bring_up_to_date()
        state = service.state()
        edit = service.files.look.waiting(state, file, detected)
        if adopt:
            commands = service.files.look.adoption(state, edit, field or ())
            outcome = service.handle(*commands, options=options)
        else:
            line = f"wfctl machine drift {machine} --revert"
            outcome = decide(service, [dismissal_of(edit)], line, key, options)
        tell(output, service, outcome, options)


def _show(context: typer.Context, machine: str, file: str | None) -> None:
    with reading(context, machine) as machines:
        known = machines.machine(machine)
        state = known.current()
        events = {e.version: e.data for e in known.store.read(known.stream)}
        kept = [_kept(state, one.version, events[one.version]) for one in state.drifts]
        look = FilesLook(machines.root, known)
        found = [one for one in (*kept, *_now(look, state)) if file in (None, one["file"])]
        text = "\n".join(map(_line, found)) or "no hand edit waits for a decision"
        answer(machines.output, {"changes": found}, lambda: text, state)
    if found:
        raise typer.Exit(FINDINGS)


def _kept(state: Machine, version: int, data: dict[str, Any]) -> dict[str, Any]:
    left = undecided(state, data["file"], data["differences"])
    return {**data, "detected": version, "differences": left}


def _now(look: FilesLook, state: Machine) -> list[dict[str, Any]]:
    """Return what nobody recorded yet: what the next write takes over, and what it keeps."""
    changed = [one for one in differences(look.root, look.log, state) if one.kind != "behind"]
    ahead = look.foreseen() if changed else None
    taken = [p for listed in ahead.taken.values() for p, _ in listed] if ahead else []
    becomes = [message(p.type, p.model_dump(mode="json")) for p in taken]
    left = {one.path: told(one.known) for one in ahead.left if one.known} if ahead else {}
    return [
        {
            "file": one.file,
            "kind": one.kind,
            "detected": None,
            "differences": left.get(one.file, []),
            "becomes": becomes,
        }
        for one in changed
    ]


def _line(change: dict[str, Any]) -> str:
    where = f"version {change['detected']}" if change["detected"] else "not yet recorded"
    lines = [f"{change['file']}: {change['kind']} ({where})"]
    for one in change["differences"]:
        old, new = json.dumps(one["old"]), json.dumps(one["new"])
        rule = f"  ({one['rule']})" if one.get("rule") else ""
        lines.append(f"  {'.'.join(map(str, one['path']))}: {old} -> {new}{rule}")
    lines += [f"  the next write records: {one}" for one in change.get("becomes", [])]
    return "\n".join(lines)


def list_(
    context: typer.Context,
    type_: Text = option("--type", "Only this type."),
    phase: Text = option("Only in this phase."),
    limit: int | None = option("--limit", "-n", "N", "Only the N changed last.", min=1),
    view: AsOf = None,
) -> None:
    """Every machine and the staged workflow: phase, age, blockers."""
    try:
        with reading(context) as root:
            output, found = root.output, list(_listed(root, view))
    except NoRoot:
        output, found = Output(settings_of(context)), []
    rows = [row for row in found if type_ in (None, row["type"]) and phase in (None, row["phase"])]
    if limit is not None:
        rows = sorted(rows, key=lambda row: row["updated"], reverse=True)[:limit]
    answer(output, rows, lambda: "\n".join(map(_listing_line, rows)) or "no machine here")


def _listed(root: Reading, when: Moment | None) -> Iterator[dict[str, Any]]:
    flow = root.log.state(when) if root.config.workflow is not None else None
    if flow is not None:
        held = [f"{one.stage}: {one.why}" if one.stage else one.why for one in hindrances(flow)]
        yield _row(flow, "staged workflow", flow.workflow_status or "active", None, held)
    now = utc_text(system_clock()) if when is None else None
    for id_ in log.ids(root.root, root.store):
        state = root.machine(id_).state(when)
        if state is not None:
            held = [b["says"] for b in blockers(state, evidence(root.root.path, state), now)]
            yield _row(state, state.definition.id, state.phase, state.status, held)


def _row(
    state: Machine | Workflow, type_: str, phase: str, status: str | None, held: list[str]
) -> dict[str, Any]:
    return {
        "id": state.id,
        "type": type_,
        "phase": phase,
        "status": status,
        "version": state.head,
        "updated": utc_seconds(state.updated),
        "age_seconds": age(state.updated, utc_text(system_clock())),
        "blockers": held,
    }


def _listing_line(row: dict[str, Any]) -> str:
    held = f"  blocked: {'; '.join(row['blockers'])}" if row["blockers"] else ""
    status = f" ({row['status']})" if row["status"] else ""
    phase = f"{row['phase']}{status}"
    return f"{row['id']:<24} {row['type']:<16} {phase:<28} {_age(row['age_seconds'])}{held}"


def _age(seconds: int) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"
