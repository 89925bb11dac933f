"""``wfctl machine drift``: hand edits of a machine's files, adopted or reverted."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from cli.commands.machine.arguments import MachineId
from cli.commands.machine.workspace import acting, looking
from cli.frame.deciding import Decision, DecisionKey, decide, dismissal_of
from cli.frame.exit_codes import FINDINGS
from cli.frame.options import CommandId, DryRun, ExpectedVersion, write_options
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Machine
from lifecycle.payload.drift import DriftReverted
from lifecycle.state.workflow import Drift
from projections.machines.history import message
from service.machines.adoption import adoption, undecided, waiting
from service.machines.foreign import told
from service.machines.inspection import differences
from service.machines.news import FilesLook


def drift(
    context: typer.Context,
    machine: MachineId,
    file: Annotated[str | None, typer.Argument(metavar="[FILE]", help="Only this file.")] = None,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Take the fields over, by the rules.")
    ] = False,
    field: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="PATH", help="Adopt only this one; repeatable."),
    ] = None,
    revert: Annotated[
        bool, typer.Option("--revert", help="Dismiss the edit; it stays kept.")
    ] = False,
    detected: Annotated[
        int | None, typer.Option(metavar="VERSION", help="The edit detected there.")
    ] = None,
    key: DecisionKey = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
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
    options = write_options(dry_run, command_id, expected_version)
    with acting(context, machine, dry_run) as (service, output):
        if not dry_run:
            service.files.bring_up_to_date()
        state = service.state()
        edit = waiting(state, file, detected)
        if adopt:
            commands = adoption(service, state, edit, field or ())
            outcome = service.handle(*commands, options=options)
        else:
            line = f"wfctl machine drift {machine} --revert"
            outcome = decide(service, [_dismissal(edit)], line, key, options)
        output.told(service, outcome, options)


def _dismissal(edit: Drift) -> Decision:
    command = DriftReverted(file=edit.file, detected=edit.version, kept_as=edit.kept_as)
    return Decision(command, edit.file, dismissal_of(edit.file, edit.version, edit.kept_as))


def _show(context: typer.Context, machine: str, file: str | None) -> None:
    with looking(context, machine) as machines:
        log = machines.log(machine)
        state = log.current()
        events = {e.version: e.data for e in log.store.read(log.stream)}
        kept = [_kept(state, one.version, events[one.version]) for one in state.drifts]
        look = FilesLook(machines.root, log)
        found = [one for one in (*kept, *_now(look, state)) if file in (None, one["file"])]
        text = "\n".join(map(_line, found)) or "no hand edit waits for a decision"
        machines.output.result({"changes": found}, lambda: text, state)
    if found:
        raise typer.Exit(FINDINGS)


def _kept(state: Machine, version: int, data: dict[str, Any]) -> dict[str, Any]:
    """Return a recorded edit with what of it nobody decided yet."""
    left = undecided(state, data["file"], data["differences"])
    return {**data, "detected": version, "differences": left}


def _now(look: FilesLook, state: Machine) -> list[dict[str, Any]]:
    """Return what nobody recorded yet: what the next write takes over, and what it keeps."""
    changed = [one for one in differences(look.root, look.log, state) if one.kind != "behind"]
    ahead = look.foreseen() if changed else None
    becomes = [message(p.type, p.model_dump(mode="json")) for p in ahead.taken] if ahead else []
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
