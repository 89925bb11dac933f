"""The commands that look at machines, and bring back who lost the thread."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.commands.machine.output import ANSWER, MachineId, acting, answer, tell
from cli.frame.deciding import DecisionKey, decide, dismissal_of
from cli.frame.machine_history import whole
from cli.frame.options import FINDINGS, AsOf, KeyedWrites, Text, Texts, Writes, argument, option
from cli.frame.workspace import Reading, reading, settings_of
from cli.terminal.output import Output, say
from lifecycle.machines.definition import Definition
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Machine
from lifecycle.machines.path import look, parse
from lifecycle.state.conditions import hindrances
from lifecycle.state.workflow import Workflow
from projections.machines.briefing import BOUND, LEAST, briefing, changed_in
from projections.machines.description import described, listed, mermaid, outlined, page
from projections.machines.history import message
from projections.machines.next_actions import blockers, machine_actions
from projections.words.text import age, marked, utc_seconds
from service.errors import NoRoot
from service.machines import log
from service.machines import rehydrate as resuming
from service.machines.completing import SHIPPED, from_file, shipped
from service.machines.evidence import evidence
from service.machines.inspection import differences, warnings
from service.machines.log import MachineLog
from service.machines.news import FilesLook, told, undecided
from service.reading.moment import Moment
from service.root.disk import system_clock, utc_text
from service.root.root import Root
from service.writing.amendments import check_person

if TYPE_CHECKING:
    from projections.screens.watch_view import View

Document = dict[str, Any]


def get(
    context: typer.Context,
    machine: MachineId,
    query: Text = option("PATH", "Print only the value at a dot path."),
    fields: Text = option("PATH,…", "Print only these fields."),
    view: AsOf = None,
) -> None:
    """Show the state of a machine, or a part of it."""
    if query is not None and fields is not None:
        raise InvalidInput("--query and --fields exclude each other")
    with reading(context, machine) as machines:
        state = machines.machine(machine).current(view)
        past = view is not None
        told = [] if past else warnings(machines.root, machines.machine(machine), state)
        files = evidence(machines.root.path, state)
        data: Any = whole(state)
        if query is not None:
            data = look(data, parse(query))
        elif fields is not None:
            names = [name.strip() for name in fields.split(",") if name.strip()]
            data = {name: look(data, parse(name)) for name in names}

        def text() -> str:
            if query is not None or fields is not None:
                return data if isinstance(data, str) else json.dumps(data, indent=2)
            lines = [*_summary(state), *(f"warning: {one}" for one in told)]
            lines += [f"next: {action}" for action in machine_actions(state, files)]
            return "\n".join(lines)

        held = {
            task: {"by": lease.by, "until": utc_seconds(lease.until)}
            for task, lease in state.leases.items()
        }
        answer(machines.output, data, text, state, files, warnings=told, claims=held or None)


def _summary(state: Machine) -> list[str]:
    status = f", {state.status}" if state.status is not None else ""
    lines = [f"{state.id}  {state.definition.id}, in {state.phase}{status}, version {state.head}"]
    if not state.is_final:
        lines.append(f"  {state.definition.phases[state.phase].asks}")
    counts = state.counts.items()
    lines += [f"  {loop}: {count} of {state.limit_of(loop)}" for loop, count in counts]
    for task in state.tasks:
        lease = state.leases.get(str(task.get("id")))
        held = f", claimed by {lease.by} until {utc_seconds(lease.until)}" if lease else ""
        lines.append(f"  task {task.get('id')}: {task.get('status')}{held}")
    return lines


def check(
    context: typer.Context,
    file: Annotated[str, argument("FILE", "File of a definition; - reads stdin.")],
) -> None:
    """Check a definition and draw it (exit 1 if it has problems)."""
    definition = from_file(file)
    ways, drawing = len(definition.transitions), mermaid(definition)
    data = {**listed(definition), "transitions": ways, "mermaid": drawing}
    sound = f"{definition.id}: sound, {data['phases']} phases, {ways} transitions"
    answer(Output(settings_of(context)), data, lambda: f"{sound}\n{drawing}")


def describe(
    context: typer.Context,
    name: Text = argument("[TYPE|ID]", "Type or machine (default: all)."),
    definition: Text = option("FILE", "File of your own definition; - reads stdin."),
    diagram: bool = option("--mermaid", "Print only the diagram, as Mermaid text."),
    full: bool = option("Include guards, schemas, reserved fields and the diagram."),
    source: bool = option("Print the definition file, as a start for your own."),
) -> None:
    """Print phases, transitions and guards; without a name, list the types."""
    output = Output(settings_of(context))
    found = _found(context, name, definition)
    if name is None and definition is None and not (full or source or diagram):
        rows = [listed(one) for one in found]
        answer(output, rows, lambda: "\n".join(f"{row['id']:<12} {row['title']}" for row in rows))
        return
    show = Definition.source if source else described if full else outlined
    data = [show(one) for one in found]
    one = name is not None or definition is not None

    def text() -> str:
        if source:
            return "\n".join(json.dumps(each, indent=2, ensure_ascii=False) for each in data)
        return "\n".join(map(mermaid if diagram else page, found))

    answer(output, data[0] if one else data, text)


def _found(context: typer.Context, name: str | None, file: str | None) -> list[Definition]:
    if file is not None:
        return [from_file(file)]
    if name is None or name in SHIPPED:
        return [shipped(one) for one in (SHIPPED if name is None else [name])]
    with reading(context, name) as machines:
        known = list(log.ids(machines.root, machines.store))
        for id_ in known if name not in known else ():
            definition = machines.machine(id_).current().definition
            if definition.id == name:  # the user's own
                return [definition]
        return [machines.machine(name).current().definition]


def drift(
    context: typer.Context,
    options: Writes,
    machine: MachineId,
    file: Text = argument("[FILE]", "Use only this file."),
    adopt: bool = option("Adopt the edited fields, checked by the rules."),
    field: Texts = option("PATH", "Adopt only this field; repeatable."),
    revert: bool = option("Dismiss the edit; a copy is kept."),
    detected: int | None = option("VERSION", "Version that detected the edit."),
    key: DecisionKey = None,
) -> None:
    """Show manual edits of a machine's files (exit 7), adopt or revert one."""
    if adopt and revert:
        raise InvalidInput("--adopt and --revert exclude each other")
    if field and not adopt:
        raise InvalidInput("--field says what to take over: expected it with --adopt")
    if key is not None and not revert:
        raise InvalidInput("--key signs that an edit is dismissed: expected it with --revert")
    if not (adopt or revert):
        _show_edits(context, machine, file)
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


def _show_edits(context: typer.Context, machine: str, file: str | None) -> None:
    with reading(context, machine) as machines:
        known = machines.machine(machine)
        state = known.current()
        events = {e.version: e.data for e in known.store.read(known.stream)}
        found: list[Document] = []
        for version in (one.version for one in state.drifts):
            data = events[version]
            left = undecided(state, data["file"], data["differences"])
            found.append({**data, "detected": version, "differences": left})
        found += _unrecorded(FilesLook(machines.root, known), state)
        found = [one for one in found if file in (None, one["file"])]
        text = "\n".join(map(_edit_line, found)) or "no hand edit waits for a decision"
        answer(machines.output, {"changes": found}, lambda: text, state)
    if found:
        raise typer.Exit(FINDINGS)


def _unrecorded(look: FilesLook, state: Machine) -> list[Document]:
    changed = [one for one in differences(look.root, look.log, state) if one.kind != "behind"]
    ahead = look.foreseen() if changed else None
    taken = [p for listed in ahead.taken.values() for p, _ in listed] if ahead else []
    becomes = [message(p.type, p.model_dump(mode="json")) for p in taken]
    left = {one.path: told(one.known) for one in ahead.left if one.known} if ahead else {}
    return [
        {"file": one.file, "kind": one.kind, "detected": None}
        | {"differences": left.get(one.file, []), "becomes": becomes}
        for one in changed
    ]


def _edit_line(change: Document) -> str:
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
    type_: Text = option("--type", "List only machines of this type."),
    phase: Text = option("List only machines in this phase."),
    limit: int | None = option(
        "--limit", "-n", "N", "List only the N machines that changed last.", min=1
    ),
    view: AsOf = None,
) -> None:
    """List machines with phase, age and blockers."""
    try:
        with reading(context) as root:
            output, found = root.output, list(_listed(root, view))
    except NoRoot:
        output, found = Output(settings_of(context)), []
    rows = [row for row in found if type_ in (None, row["type"]) and phase in (None, row["phase"])]
    if limit is not None:
        rows = sorted(rows, key=lambda row: row["updated"], reverse=True)[:limit]
    answer(output, rows, lambda: "\n".join(map(_listing_line, rows)) or "no machine here")


def _listed(root: Reading, when: Moment | None) -> Iterator[Document]:
    now = utc_text(system_clock())
    flow = root.log.state(when) if root.config.workflow is not None else None
    each: list[tuple[Machine | Workflow, str, str, str | None, list[str]]] = []
    if flow is not None:
        held = [f"{one.stage}: {one.why}" if one.stage else one.why for one in hindrances(flow)]
        each.append((flow, "staged workflow", flow.workflow_status or "active", None, held))
    for id_ in log.ids(root.root, root.store):
        state = root.machine(id_).state(when)
        if state is not None:
            files = evidence(root.root.path, state)
            says = [one["says"] for one in blockers(state, files, now if when is None else None)]
            each.append((state, state.definition.id, state.phase, state.status, says))
    for one, type_, phase, status, held in each:
        yield {
            "id": one.id,
            "type": type_,
            "phase": phase,
            "status": status,
            "version": one.head,
            "updated": utc_seconds(one.updated),
            "age_seconds": age(one.updated, now),
            "blockers": held,
        }


def _listing_line(row: Document) -> str:
    held = f"  blocked: {'; '.join(row['blockers'])}" if row["blockers"] else ""
    phase = f"{row['phase']} ({row['status']})" if row["status"] else row["phase"]
    seconds = row["age_seconds"]
    units = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    size, unit = next((one for one in units if seconds >= one[0]), units[-1])
    return f"{row['id']:<24} {row['type']:<16} {phase:<28} {seconds // size} {unit} ago{held}"


def rehydrate(
    context: typer.Context,
    options: KeyedWrites,
    machine: MachineId,
    resume_from: Text = option("TASK", "Task to continue with (conductor)."),
    start_fresh: bool = option("Archive the state and start again."),
    go_on: bool = option("Resume although problems were found (a person decides)."),
    bound: int = option("--bytes", "The most bytes of the document.", min=LEAST, default=BOUND),
) -> None:
    """Show drift, blockers and the next step after a lost session.

    It reads; phased development (dotagent) is also repaired, unless --dry-run.
    """
    with reading(context, machine) as root:
        log = root.machine(machine)
        state = log.current()
        protocol = state.definition.protocol
        if resume_from is not None and (protocol != "conductor" or start_fresh):
            raise InvalidInput(
                "--resume-from names a task of a track (conductor) to go on from: expected it "
                f"without --start-fresh, and found a machine of the type {state.definition.id!r}"
            )
        if protocol != "dotagent" and not start_fresh:
            resume = None
            if protocol == "conductor":
                now = utc_text(system_clock())
                state = FilesLook(root.root, log).foreseen().state
                resume = resuming.track_resumption(root.root, state, resume_from, now)
            _print_brief(root.output, root.root, log, state, bound, resume)
            return
    with acting(context, machine, options.dry_run) as (service, output):
        if start_fresh or go_on:
            asked = "--start-fresh" if start_fresh else "--go-on"
            check_person(service.actor, f"{asked} of {machine}")
        if start_fresh:
            outcome, where = resuming.start_fresh(service, options, say)
            tell(output, service, outcome, options, archived=where)
            return
        found, done = resuming.resume_phases(service, options, go_on=go_on)
        resume = {
            "resumed": found.resumed,
            "messages": found.messages,
            "findings": found.findings,
            "todo": found.todo,
            "would_record" if options.dry_run else "recorded": [
                message(p.type, p.model_dump(mode="json")) for p in found.commands
            ],
        }
        state = done[-1].state if done else service.state()
        _print_brief(output, service.root, service.log, state, bound, resume)


def _print_brief(
    output: Output, root: Root, log: MachineLog, state: Machine, bound: int, resume: Document | None
) -> None:
    files = evidence(root.path, state)
    drift = resuming.drift_of(root, log, state)
    whole = briefing(state, files, drift, bound, resume, utc_text(system_clock()))
    size = BOUND + ANSWER if bound == BOUND else None
    changed = changed_in(whole["drift"] or [])
    answer(output, whole, lambda: "\n".join(_brief_lines(whole)), state, files, size, changed)


def _brief_lines(whole: Document) -> Iterator[str]:
    flow, resume = whole["workflow"], whole.get("resume") or {}
    status = f", {flow['status']}" if flow["status"] else ""
    yield from resume.get("messages") or []
    yield f"{flow['id']}  {flow['type']}, in {flow['phase']}{status}"
    yield f"  {(whole['phase'] or {}).get('asks', '')}"
    yield from (f"finding: {one['message']}" for one in resume.get("findings") or [])
    for key in ("recorded", "would_record"):
        yield from (f"{key.replace('_', ' ')}: {one}" for one in resume.get(key) or [])
    yield from (f"blocked: {one['says']}" for one in whole["blockers"] or [])
    yield from (f"drift: {json.dumps(one, ensure_ascii=False)}" for one in whole["drift"] or [])
    if handoff := whole["handoff"]:
        yield f"hand-off ({handoff['at']}): {handoff['summary']}"
        yield from (f"  then: {step}" for step in handoff["nextSteps"])
    yield from _track_lines(resume)
    yield from (f"next: {one}" for one in resume.get("todo") or [])
    if action := whole["nextAction"]:
        yield f"next: {action['command']}  ({action['reason']})"
    yield from (f"cut: {one} (--bytes takes more)" for one in whole["cut"])


def _track_lines(resume: Document) -> Iterator[str]:
    if resume.get("last_task"):
        yield f"last task: {resume['last_task']}"
    if resume.get("why"):
        yield f"next task: {resume.get('next_task') or 'none'} ({resume['why']})"
    if resume.get("stale"):
        yield f"late: {resume['stale']}"
    yield from (f"plan: {one['task']}: {one['why']}" for one in resume.get("differences") or [])


class MachineFollower:
    """What `watch --machine` shows: where a machine stands, what is next, and its log's end."""

    def __init__(self, log: MachineLog, root: Path, back: int) -> None:
        self._log = log
        self._root = root
        self._lines: deque[str] = deque(maxlen=back)
        self._seen = 0
        self._state = log.current()

    def view(self, size: tuple[int, int], scrolled: int | None = None) -> View:
        """Return what is to be seen now in a window of so many columns and lines."""
        from rich.text import Text as Line

        from projections.screens.watch_view import View

        head = self._log.store.head(self._log.stream)
        if head is not None and head.version != self._seen:
            for event, state in self._log.steps(after=self._seen):
                self._state = state
                text = message(event.type, event.data)
                self._lines.append(f"{event.recorded_at[11:19]}Z {text}")
            self._seen = head.version
        state = self._state
        actions = machine_actions(state, evidence(self._root, state))
        above = [*_summary(state), "", *(f"next: {one}" for one in actions), ""]
        width, height = size
        room = max(height - len(above) - 1, 1)
        every = [*above, *list(self._lines)[-room:]]
        bottom = max(len(every) - height, 0)
        first = min(scrolled or 0, bottom)
        shown = every[first : first + height]
        return View(tuple(Line(marked(one)[:width]) for one in shown), bottom)
