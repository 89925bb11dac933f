"""``wfctl machine rehydrate``: come back to a machine after a lost session."""

from __future__ import annotations

import json
from typing import Any

import typer

from cli.commands.machine.output import ANSWER, MachineId, acting, answer, tell
from cli.frame.options import KeyedWrites, Text, option
from cli.frame.workspace import reading
from cli.terminal.output import Output, say
from eventstore.store import EventStore
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Machine
from projections.machines.briefing import BOUND, LEAST, briefing, changed_in
from projections.machines.history import message
from service.machines import evidence
from service.machines.log import MachineLog
from service.machines.news import FilesLook
from service.machines.rehydrate import drift_of, resume_phases, track_resumption
from service.machines.rehydrate import start_fresh as fresh_start
from service.machines.service import MachineService
from service.root.disk import system_clock, utc_text
from service.root.root import Root
from service.writing.amendments import check_person
from service.writing.stream_writer import WriteOptions

Document = dict[str, Any]


def rehydrate(
    context: typer.Context,
    options: KeyedWrites,
    machine: MachineId,
    resume_from: Text = option("TASK", "The task to go on from (conductor)."),
    start_fresh: bool = option("Do not resume: archive it, begin anew."),
    go_on: bool = option("A person says: resume in spite of what was found."),
    bound: int = option("--bytes", "The most bytes of the document.", min=LEAST, default=BOUND),
) -> None:
    """What there is to know after a lost session: drift, blockers, and what is next.

    It reads; phased development (dotagent) is also repaired, unless --dry-run.
    """
    with reading(context, machine) as root:
        state = root.machine(machine).current()
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
                state = FilesLook(root.root, root.machine(machine)).foreseen().state
                resume = track_resumption(root.root, state, resume_from, now)
            whole = _read(root.root, root.store, state, bound, resume)
            _print(root.output, root.root, whole, state, bound)
            return
    with acting(context, machine, options.dry_run) as (service, output):
        if start_fresh or go_on:
            asked = "--start-fresh" if start_fresh else "--go-on"
            check_person(service.actor, f"{asked} of {machine}")
        if start_fresh:
            outcome, where = fresh_start(service, options, say)
            tell(output, service, outcome, options, archived=where)
        else:
            _resume(service, output, options, bound, go_on=go_on)


def _read(
    root: Root, store: EventStore, state: Machine, bound: int, resume: Document | None
) -> Document:
    """Return the document, with where the protocol goes on."""
    files = evidence.evidence(root.path, state)
    drift = drift_of(root, MachineLog(store, state.id, root.path), state)
    return briefing(state, files, drift, bound, resume, utc_text(system_clock()))


def _resume(
    service: MachineService, output: Output, options: WriteOptions, bound: int, *, go_on: bool
) -> None:
    found, done = resume_phases(service, options, go_on=go_on)
    state = done[-1].state if done else service.state()
    planned = [message(p.type, p.model_dump(mode="json")) for p in found.commands]
    resume = {
        "resumed": found.resumed,
        "messages": found.messages,
        "findings": found.findings,
        "todo": found.todo,
        "would_record" if options.dry_run else "recorded": planned,
    }
    whole = _read(service.root, service.log.store, state, bound, resume)
    _print(output, service.root, whole, state, bound)


def _print(output: Output, root: Root, whole: Document, state: Machine, bound: int) -> None:
    size = BOUND + ANSWER if bound == BOUND else None
    files = evidence.evidence(root.path, state)
    changed = changed_in(whole["drift"] or [])
    answer(output, whole, lambda: "\n".join(_lines(whole)), state, files, size, changed)


def _lines(whole: Document) -> list[str]:
    flow = whole["workflow"]
    status = f", {flow['status']}" if flow["status"] else ""
    resume = whole.get("resume") or {}
    lines = [
        *(resume.get("messages") or []),
        f"{flow['id']}  {flow['type']}, in {flow['phase']}{status}",
    ]
    lines += [f"  {(whole['phase'] or {}).get('asks', '')}"]
    lines += [f"finding: {one['message']}" for one in resume.get("findings") or []]
    lines += [f"recorded: {one}" for one in resume.get("recorded") or []]
    lines += [f"would record: {one}" for one in resume.get("would_record") or []]
    lines += [f"blocked: {one['says']}" for one in whole["blockers"] or []]
    lines += [f"drift: {json.dumps(one, ensure_ascii=False)}" for one in whole["drift"] or []]
    handoff = whole["handoff"]
    if handoff:
        lines.append(f"hand-off ({handoff['at']}): {handoff['summary']}")
        lines += [f"  then: {step}" for step in handoff["nextSteps"]]
    lines += _of_track(resume)
    lines += [f"next: {one}" for one in resume.get("todo") or []]
    action = whole["nextAction"]
    lines += [f"next: {action['command']}  ({action['reason']})"] if action else []
    return lines + [f"cut: {one} (--bytes takes more)" for one in whole["cut"]]


def _of_track(resume: Document) -> list[str]:
    """Return where a track goes on: its last task, the next, and what is late or differs."""
    lines = [f"last task: {resume['last_task']}"] if resume.get("last_task") else []
    if resume.get("why"):
        lines.append(f"next task: {resume.get('next_task') or 'none'} ({resume['why']})")
    lines += [f"late: {resume['stale']}"] if resume.get("stale") else []
    return lines + [f"plan: {one['task']}: {one['why']}" for one in resume.get("differences") or []]
