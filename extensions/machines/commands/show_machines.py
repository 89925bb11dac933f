"""The commands that show phase machines, and `rehydrate`, which resumes a lost session."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cli.frame.ask_decision import DecisionKey, build_edit_dismissal, record_decisions
from cli.frame.context import Context
from cli.frame.exit_codes import FINDINGS
from cli.frame.options import AsOf, KeyedWrites, Text, Texts, Writes, argument, option
from cli.frame.workspace import OpenedWorkflow, open_for_reading, settings_of
from cli.terminal.output import Output, print_message
from extensions.machines.commands.explain import merge_documents
from extensions.machines.commands.output import (
    ANSWER,
    MachineId,
    open_for_writing,
    print_answer,
    print_outcome,
)
from extensions.machines.rules.definition import Definition
from extensions.machines.rules.errors import InvalidInput
from extensions.machines.rules.machine import Machine
from extensions.machines.rules.path import get_value, parse_path
from extensions.machines.service import rehydrate as resuming
from extensions.machines.service import resume_track
from extensions.machines.service.complete_command import (
    SHIPPED,
    load_definition_file,
    load_shipped_definition,
)
from extensions.machines.service.foreign_changes import (
    MachineFilesReader,
    list_unadopted,
    list_undecided,
)
from extensions.machines.service.guard_facts import collect_guard_facts
from extensions.machines.service.inspection import list_differences, list_warnings
from extensions.machines.service.log import MachineLog
from extensions.machines.views.blockers import list_blockers
from extensions.machines.views.briefing import BOUND, LEAST, build_briefing, list_changed_files
from extensions.machines.views.description import (
    describe_definition,
    outline_definition,
    render_mermaid,
    render_page,
    summarize_definition,
)
from extensions.machines.views.documents import build_documents
from extensions.machines.views.history import format_event
from extensions.machines.views.next_actions import machine_actions
from lifecycle.state.conditions import find_hindrances
from lifecycle.state.workflow import Workflow
from projections.words.text import compute_age, mark_invisible_characters, truncate_utc_to_seconds
from service.errors import NoRoot
from service.reading.machine_streams import list_machines
from service.reading.point_in_history import Moment
from service.root.atomic_files import system_clock, utc_text
from service.root.root import Root
from service.writing.amendments import check_not_agent

if TYPE_CHECKING:
    from projections.screens.watch_view import View

Document = dict[str, Any]


def get(
    context: Context,
    machine: MachineId,
    query: Text = option(
        "PATH", "Print only the value at this dot path, for example tasks.t1.status."
    ),
    fields: Text = option(
        "PATH,…", "Print only these fields, given as dot paths with commas between them."
    ),
    view: AsOf = None,
) -> None:
    """Show the state of a phase machine, or a part of the state."""
    if query is not None and fields is not None:
        raise InvalidInput("the options --query and --fields cannot be combined. Remove one.")
    with open_for_reading(context, machine) as machines:
        state = machine_log(machines, machine).current(view)
        past = view is not None
        told = [] if past else list_warnings(machines.root, machine_log(machines, machine), state)
        files = collect_guard_facts(machines.root.path, state)
        data: Any = merge_documents(state)
        if query is not None:
            data = get_value(data, parse_path(query))
        elif fields is not None:
            names = [name.strip() for name in fields.split(",") if name.strip()]
            data = {name: get_value(data, parse_path(name)) for name in names}

        def text() -> str:
            if query is not None or fields is not None:
                return data if isinstance(data, str) else json.dumps(data, indent=2)
            lines = [*_format_summary(state), *(f"warning: {one}" for one in told)]
            lines += [f"next: {action}" for action in machine_actions(state, files)]
            return "\n".join(lines)

        held = {
            task: {"by": lease.by, "until": truncate_utc_to_seconds(lease.until)}
            for task, lease in state.leases.items()
        }
        print_answer(machines.output, data, text, state, files, warnings=told, claims=held or None)


def _format_summary(state: Machine) -> list[str]:
    status = f", {state.status}" if state.status is not None else ""
    lines = [f"{state.id}  {state.definition.id}, in {state.phase}{status}, version {state.head}"]
    if not state.is_final:
        lines.append(f"  {state.definition.phases[state.phase].asks}")
    counts = state.counts.items()
    lines += [f"  {loop}: {count} of {state.limit_of(loop)}" for loop, count in counts]
    for task in state.tasks:
        lease = state.leases.get(str(task.get("id")))
        held = (
            f", claimed by {lease.by} until {truncate_utc_to_seconds(lease.until)}" if lease else ""
        )
        lines.append(f"  task {task.get('id')}: {task.get('status')}{held}")
    return lines


def check(
    context: Context,
    file: Annotated[
        str, argument("FILE", "The YAML file with the definition of phases, or - for stdin.")
    ],
) -> None:
    """Check a definition file of phases, and draw the phases.

    The exit code is 1 if the definition has problems.
    """
    definition = load_definition_file(file)
    ways, drawing = len(definition.transitions), render_mermaid(definition)
    data = {**summarize_definition(definition), "transitions": ways, "mermaid": drawing}
    sound = f"{definition.id}: sound, {data['phases']} phases, {ways} transitions"
    print_answer(Output(settings_of(context)), data, lambda: f"{sound}\n{drawing}")


def describe(
    context: Context,
    name: Text = argument(
        "[TYPE|ID]",
        "A type of phase machine, for example feature, or the id of a phase machine. "
        "Default: list all types.",
    ),
    definition: Text = option(
        "FILE", "Use your own definition of phases from this YAML file, or from stdin (-)."
    ),
    diagram: bool = option("--mermaid", "Print only the diagram of the phases, as Mermaid text."),
    full: bool = option(
        "Also print the conditions of transitions, the JSON Schemas, the reserved "
        "fields and the diagram."
    ),
    source: bool = option(
        "Print the definition file, so that you can write your own definition from a copy."
    ),
) -> None:
    """Describe a type of phase machine.

    The output shows the phases, the transitions between phases, and the conditions of transitions.
    Without a name, list all types.
    """
    output = Output(settings_of(context))
    found = _find_definitions(context, name, definition)
    if name is None and definition is None and not (full or source or diagram):
        rows = [summarize_definition(one) for one in found]
        print_answer(
            output, rows, lambda: "\n".join(f"{row['id']:<12} {row['title']}" for row in rows)
        )
        return
    show = Definition.source if source else describe_definition if full else outline_definition
    data = [show(one) for one in found]
    one = name is not None or definition is not None

    def text() -> str:
        if source:
            return "\n".join(json.dumps(each, indent=2, ensure_ascii=False) for each in data)
        return "\n".join(map(render_mermaid if diagram else render_page, found))

    print_answer(output, data[0] if one else data, text)


def _find_definitions(context: Context, name: str | None, file: str | None) -> list[Definition]:
    if file is not None:
        return [load_definition_file(file)]
    if name is None or name in SHIPPED:
        return [load_shipped_definition(one) for one in (SHIPPED if name is None else [name])]
    with open_for_reading(context, name) as machines:
        known = list(list_machines(machines.root, machines.store))
        for id_ in known if name not in known else ():
            definition = machine_log(machines, id_).current().definition
            if definition.id == name:  # The definition is the user's own.
                return [definition]
        return [machine_log(machines, name).current().definition]


def drift(
    context: Context,
    options: Writes,
    machine: MachineId,
    file: Text = argument(
        "[FILE]", "The manually edited file. Default: all files of the phase machine."
    ),
    adopt: bool = option(
        "Accept the edited fields and record them in the log, if the rules allow the changes."
    ),
    field: Texts = option(
        "PATH",
        "Record only this field of the edited file. Requires --adopt. You can repeat this option.",
    ),
    revert: bool = option(
        "Discard the edit and restore the file from the log. wfctl keeps a copy of the edited file."
    ),
    detected: int | None = option(
        "VERSION",
        "Select an edit by the number of the log event that recorded it. Default: the newest edit.",
    ),
    key: DecisionKey = None,
) -> None:
    """Show, adopt or revert manual edits of a phase machine's files.

    The exit code is 7 if there are manual edits without a decision.
    """
    if adopt and revert:
        raise InvalidInput("the options --adopt and --revert cannot be combined. Choose one.")
    if field and not adopt:
        raise InvalidInput(
            "the option --field can be used only with the option --adopt, because --field names "
            "the field to adopt. Add --adopt, or remove --field."
        )
    if key is not None and not revert:
        raise InvalidInput(
            "the option --key can be used only with the option --revert, because the key signs "
            "the decision to discard the edit. Add --revert, or remove --key."
        )
    if not (adopt or revert):
        _show_edits(context, machine, file)
        return
    with open_for_writing(context, machine, options.dry_run) as (service, output):
        if not options.dry_run:
            service.files.bring_up_to_date()
        state = service.state()
        edit = service.files.look.waiting(state, file, detected)
        if adopt:
            commands = service.files.look.adoption(state, edit, field or ())
            outcome = service.handle(*commands, options=options)
        else:
            line = f"wfctl machine drift {machine} --revert"
            outcome = record_decisions(service, [build_edit_dismissal(edit)], line, key, options)
        print_outcome(output, service, outcome, options)


def _show_edits(context: Context, machine: str, file: str | None) -> None:
    with open_for_reading(context, machine) as machines:
        known = machine_log(machines, machine)
        state = known.current()
        events = {e.version: e.data for e in known.store.read(known.stream)}
        found: list[Document] = []
        for version in (one.version for one in state.drifts):
            data = events[version]
            left = list_undecided(state, data["file"], data["differences"])
            found.append({**data, "detected": version, "differences": left})
        found += _list_unrecorded_edits(MachineFilesReader(machines.root, known), state)
        found = [one for one in found if file in (None, one["file"])]
        text = "\n".join(map(_edit_line, found)) or "no manual edit waits for a decision"
        print_answer(machines.output, {"changes": found}, lambda: text, state)
    if found:
        raise SystemExit(FINDINGS)


def _list_unrecorded_edits(look: MachineFilesReader, state: Machine) -> list[Document]:
    changed = [one for one in list_differences(look.root, look.log, state) if one.kind != "behind"]
    ahead = look.preview_foreign_changes() if changed else None
    taken = [p for listed in ahead.taken.values() for p, _ in listed] if ahead else []
    becomes = [format_event(p.type, p.model_dump(mode="json")) for p in taken]
    left = {one.path: list_unadopted(one.known) for one in ahead.left if one.known} if ahead else {}
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
    context: Context,
    type_: Text = option("--type", "List only phase machines of this type, for example feature."),
    phase: Text = option("List only phase machines in this phase, for example review."),
    limit: int | None = option(
        "--limit",
        "-n",
        "N",
        "List only the N phase machines that changed last. Default: all.",
        min=1,
    ),
    view: AsOf = None,
) -> None:
    """List phase machines with phase, last change and open problems."""
    try:
        with open_for_reading(context) as root:
            output, found = root.output, list(_list_rows(root, view))
    except NoRoot:
        output, found = Output(settings_of(context)), []
    rows = [row for row in found if type_ in (None, row["type"]) and phase in (None, row["phase"])]
    if limit is not None:
        rows = sorted(rows, key=lambda row: row["updated"], reverse=True)[:limit]
    print_answer(output, rows, lambda: "\n".join(map(_listing_line, rows)) or "no machine here")


def _list_rows(root: OpenedWorkflow, when: Moment | None) -> Iterator[Document]:
    now = utc_text(system_clock())
    flow = root.log.state(when) if root.config.workflow is not None else None
    each: list[tuple[Machine | Workflow, str, str, str | None, list[str]]] = []
    if flow is not None:
        held = [
            f"{one.stage}: {one.why}" if one.stage else one.why for one in find_hindrances(flow)
        ]
        each.append((flow, "staged workflow", flow.workflow_status or "active", None, held))
    for id_ in list_machines(root.root, root.store):
        state = machine_log(root, id_).state(when)
        if state is not None:
            files = collect_guard_facts(root.root.path, state)
            says = [
                one["says"] for one in list_blockers(state, files, now if when is None else None)
            ]
            each.append((state, state.definition.id, state.phase, state.status, says))
    for one, type_, phase, status, held in each:
        yield {
            "id": one.id,
            "type": type_,
            "phase": phase,
            "status": status,
            "version": one.head,
            "updated": truncate_utc_to_seconds(one.updated),
            "age_seconds": compute_age(one.updated, now),
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
    context: Context,
    options: KeyedWrites,
    machine: MachineId,
    resume_from: Text = option(
        "TASK", "Continue with this task. Works only with phase machines of the type conductor."
    ),
    start_fresh: bool = option(
        "Move the current state to an archive and start the machine again from the first phase."
    ),
    go_on: bool = option("Continue even if wfctl found problems. Only a person can do this."),
    bound: int = option("--bytes", "Limit the output to N bytes.", min=LEAST, default=BOUND),
) -> None:
    """Show problems and the next step after a lost session.

    The command shows manual edits and blockers of a machine, and changes nothing. There is one
    exception: without --dry-run, it repairs the state of a machine of the type dotagent.
    """
    with open_for_reading(context, machine) as root:
        log = machine_log(root, machine)
        state = log.current()
        protocol = state.definition.protocol
        if resume_from is not None and (protocol != "conductor" or start_fresh):
            raise InvalidInput(
                "the option --resume-from can be used only with machines of the type conductor "
                f"and without --start-fresh. This machine has the type {state.definition.id!r}."
            )
        if protocol != "dotagent" and not start_fresh:
            resume = None
            if protocol == "conductor":
                now = utc_text(system_clock())
                state = MachineFilesReader(root.root, log).preview_foreign_changes().state
                resume = resume_track.track_resumption(root.root, state, resume_from, now)
            _print_brief(root.output, root.root, log, state, bound, resume)
            return
    with open_for_writing(context, machine, options.dry_run) as (service, output):
        if start_fresh or go_on:
            asked = "--start-fresh" if start_fresh else "--go-on"
            check_not_agent(service.actor, f"{asked} of {machine}")
        if start_fresh:
            outcome, where = resuming.archive_and_restart(service, options, print_message)
            print_outcome(output, service, outcome, options, archived=where)
            return
        found, done = resuming.resume_phases(service, options, go_on=go_on)
        resume = {
            "resumed": found.resumed,
            "messages": found.messages,
            "findings": found.findings,
            "todo": found.todo,
            "would_record" if options.dry_run else "recorded": [
                format_event(p.type, p.model_dump(mode="json")) for p in found.commands
            ],
        }
        state = done[-1].state if done else service.state()
        _print_brief(output, service.root, service.log, state, bound, resume)


def _print_brief(
    output: Output, root: Root, log: MachineLog, state: Machine, bound: int, resume: Document | None
) -> None:
    files = collect_guard_facts(root.path, state)
    drift = resuming.list_machine_drift(root, log, state)
    whole = build_briefing(state, files, drift, bound, resume, utc_text(system_clock()))
    size = BOUND + ANSWER if bound == BOUND else None
    changed = list_changed_files(whole["drift"] or [])
    print_answer(output, whole, lambda: "\n".join(_brief_lines(whole)), state, files, size, changed)


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
    yield from (f"shortened: {one} (a larger --bytes shows more)" for one in whole["cut"])


def _track_lines(resume: Document) -> Iterator[str]:
    if resume.get("last_task"):
        yield f"last task: {resume['last_task']}"
    if resume.get("why"):
        yield f"next task: {resume.get('next_task') or 'none'} ({resume['why']})"
    if resume.get("stale"):
        yield f"late: {resume['stale']}"
    yield from (f"plan: {one['task']}: {one['why']}" for one in resume.get("differences") or [])


class MachineFollower:
    """A live view of a machine in the terminal: state, next actions and newest log lines."""

    def __init__(self, log: MachineLog, root: Path, back: int) -> None:
        self._log = log
        self._root = root
        self._lines: deque[str] = deque(maxlen=back)
        self._seen = 0
        self._state = log.current()

    def view(self, size: tuple[int, int], scrolled: int | None = None) -> View:
        """Return the text for a window of the given number of columns and lines."""
        from rich.text import Text as Line

        from projections.screens.watch_view import View

        head = self._log.store.head(self._log.stream)
        if head is not None and head.version != self._seen:
            for event, state in self._log.steps(after=self._seen):
                self._state = state
                text = format_event(event.type, event.data)
                self._lines.append(f"{event.recorded_at[11:19]}Z {text}")
            self._seen = head.version
        state = self._state
        actions = machine_actions(state, collect_guard_facts(self._root, state))
        above = [*_format_summary(state), "", *(f"next: {one}" for one in actions), ""]
        width, height = size
        room = max(height - len(above) - 1, 1)
        every = [*above, *list(self._lines)[-room:]]
        bottom = max(len(every) - height, 0)
        first = min(scrolled or 0, bottom)
        shown = every[first : first + height]
        return View(tuple(Line(mark_invisible_characters(one)[:width]) for one in shown), bottom)


def print_documents(context: Context, id_: str, view: Moment | None) -> None:
    """Print the content of a machine's state files, now or at a moment."""
    with open_for_reading(context, id_) as machines:
        known = machine_log(machines, id_).current(view)
        data = build_documents(known)
        print_answer(machines.output, data, lambda: json.dumps(data, indent=2), known)


def machine_log(root: OpenedWorkflow, id_: str) -> MachineLog:
    """Return the event log of a machine."""
    return MachineLog(root.store, id_, root.root.path)
