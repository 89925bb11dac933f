"""``wfctl machine rehydrate``: come back to a machine after a lost session."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from cli.machine.arguments import MachineId
from cli.machine.output import MachineOutput
from cli.machine.reads import looked_at
from cli.machine.workspace import acting, looking
from cli.options import CommandId, DryRun, write_options
from eventstore.store import EventStore
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Machine
from lifecycle.machines.payload import MachineCancelled
from projections.machines.briefing import BOUND, LEAST, briefing
from projections.machines.history import message
from service.clock import system_clock, utc_text
from service.machines import evidence
from service.machines.log import MachineLog
from service.machines.rehydrate import drift_of, resume_phases, track_resumption
from service.machines.service import MachineService
from service.root import Root
from service.service import WriteOptions

Document = dict[str, Any]


def rehydrate(
    context: typer.Context,
    machine: MachineId,
    resume_from: Annotated[
        str | None, typer.Option(metavar="TASK", help="The task to go on from (conductor).")
    ] = None,
    start_fresh: Annotated[
        bool, typer.Option("--start-fresh", help="Do not resume: archive it and give it up.")
    ] = False,
    bound: Annotated[
        int, typer.Option("--bytes", min=LEAST, help="The most bytes of the document.")
    ] = BOUND,
    dry_run: DryRun = False,
    command_id: CommandId = None,
) -> None:
    """What there is to know after a lost session: drift, blockers, and what is next.

    It reads; phased development (dotagent) is also repaired, unless --dry-run.
    """
    options = write_options(dry_run, command_id, None)
    with looking(context, machine) as machines:
        state = machines.state(machine)
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
                resume = track_resumption(machines.root, state, resume_from, now)
            whole = _read(machines.root, machines.store, state, bound, resume)
            _print(machines.output, whole, state)
            return
    with acting(context, machine, dry_run) as (service, output):
        if start_fresh:
            command = MachineCancelled(reason="declined to resume")
            output.told(service, service.handle(command, options=options), options)
        else:
            _resume(service, output, options, bound)


def _read(
    root: Root, store: EventStore, state: Machine, bound: int, resume: Document | None
) -> Document:
    """Return the document, with where the protocol goes on."""
    files = evidence.look(root.path, looked_at(state))
    drift = drift_of(root, MachineLog(store, state.id, root.path), state)
    return briefing(state, files, drift, bound, resume)


def _resume(
    service: MachineService, output: MachineOutput, options: WriteOptions, bound: int
) -> None:
    found, done = resume_phases(service, options)
    state = done[-1].state if done else service.state()
    planned = [message(p.type, p.model_dump(mode="json")) for p in found.commands]
    resume = {
        "resumed": found.resumed,
        "messages": found.messages,
        "findings": found.findings,
        "todo": found.todo,
        "would_record" if options.dry_run else "recorded": planned,
    }
    _print(output, _read(service.root, service.log.store, state, bound, resume), state)


def _print(output: MachineOutput, whole: Document, state: Machine) -> None:
    output.result(whole, lambda: "\n".join(_lines(whole)), state)


def _lines(whole: Document) -> list[str]:
    """Return the document for people."""
    flow = whole["workflow"]
    status = f", {flow['status']}" if flow["status"] else ""
    resume = whole.get("resume") or {}
    lines = [
        *resume.get("messages", []),
        f"{flow['id']}  {flow['type']}, in {flow['phase']}{status}",
    ]
    lines += [f"  {(whole['phase'] or {}).get('asks', '')}"]
    lines += [f"finding: {one['message']}" for one in resume.get("findings", [])]
    lines += [f"recorded: {one}" for one in resume.get("recorded", [])]
    lines += [f"would record: {one}" for one in resume.get("would_record", [])]
    lines += [f"blocked: {one['says']}" for one in whole["blockers"] or []]
    lines += [f"drift: {json.dumps(one, ensure_ascii=False)}" for one in whole["drift"] or []]
    handoff = whole["handoff"]
    if handoff:
        lines.append(f"hand-off ({handoff['at']}): {handoff['summary']}")
        lines += [f"  then: {step}" for step in handoff["nextSteps"]]
    lines += [f"next: {one}" for one in resume.get("todo", [])]
    if resume.get("next_task"):
        lines.append(f"next task: {resume['next_task']} ({resume['why']})")
    action = whole["nextAction"]
    return [*lines, f"next: {action['command']}  ({action['reason']})"] if action else lines
