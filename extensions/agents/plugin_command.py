"""``wfctl agent …``: the plugin of an agent's client, and the answers to its hooks.

The answers have the format of Claude Code, Codex and Gemini, and other commands provide their
content.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.options import DryRun, argument, option
from cli.frame.workspace import Reading, open_for_reading, settings_of
from cli.terminal.output import Output
from service.errors import InvalidOption, NoRoot, NotFound
from service.reading.machine_streams import list_machines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extensions.agents.client_settings import SettingsPiece
    from extensions.agents.install import InstallPlan, Kit
    from extensions.machines.rules.machine import Machine
    from lifecycle.state.workflow import Workflow
    from projections.screens.inbox import Unfinished

#: Maximum size of the workflow's brief in tokens, and of the briefs of all machines in bytes.
_TOKENS, _BYTES = 1200, 2400
#: Maximum number of machines in full; the list has one line for each other machine.
_FULL = 2
#: Number of recent events that are searched for a note.
_EVENTS = 200
#: Maximum number of characters of the summary of current work.
_LETTERS = 600


class Client(StrEnum):
    """The known clients; ``other`` reads AGENTS.md."""

    CLAUDE = "claude"
    CODEX = "codex"
    GEMINI = "gemini"
    OPENCODE = "opencode"
    OTHER = "other"


Which = Annotated[Client, argument("CLIENT", f"The agent's client: {', '.join(Client)}.")]
InProject = Annotated[
    bool,
    option(
        "--project",
        "Apply the command to this project only. Default: to your user account.",
    ),
]


def install(
    context: typer.Context, client: Which, project: InProject = False, dry_run: DryRun = False
) -> None:
    """Install the wfctl plugin for a coding agent.

    The plugin adds tools, skills, and a briefing at the start of each session. The command does not
    edit the settings of the agent's client. It calls the client's own command, such as `gemini mcp
    add`, or prints the lines to paste. To update the plugin, run the command again.
    """
    from extensions.agents.install import (
        InstallRecord,
        carry_out,
        load_record,
        plan_install,
        save_record,
    )

    kit, place = _prepare_kit(context, client, project)
    plan = plan_install(kit, load_record(place) or InstallRecord())
    if not dry_run:
        # Saved before the first write, so that `uninstall` finds the files after a crash.
        save_record(place, plan.record)
        carry_out(plan)
    command = _add_server(kit, dry_run)
    if command and not dry_run:
        plan.record.has_server = True
        save_record(place, plan.record)
    pieces = [
        piece
        for piece in kit.all_pieces()
        if not piece.is_pasted() and not (command and piece is kit.server)
    ]
    advice = (
        "next: `wfctl consent setup` creates a key for your signature, so that no agent can "
        "approve in your name"
    )
    heading = "Add these lines to {path}, if they are missing there:"
    _print_changes(context, plan, dry_run, command, heading, pieces, advice)


def uninstall(
    context: typer.Context, client: Which, project: InProject = False, dry_run: DryRun = False
) -> None:
    """Uninstall the wfctl plugin from a coding agent.

    The command keeps files that you edited, and prints which lines you can remove from the settings
    of the agent's client.
    """
    from extensions.agents.install import (
        carry_out,
        clear_folders,
        load_record,
        plan_removal,
        save_record,
    )

    kit, place = _prepare_kit(context, client, project)
    record = load_record(place)
    if record is None:
        where = "in this project" if project else "for this user account"
        raise NotFound(f"the plugin of {client.value} is not installed {where}")
    command: tuple[str, ...] = ()
    if record.has_server and kit.commands is not None:
        is_removed = dry_run or kit.commands.run(kit.commands.remove) is not None
        command = kit.commands.remove if is_removed else ()
    plan = plan_removal(kit, record)
    if not dry_run:
        carry_out(plan)
        clear_folders(record.folders)
        if plan.record.files:
            save_record(place, plan.record)
        else:
            place.unlink()
    pieces = [
        piece
        for piece in kit.all_pieces()
        if piece.is_mentioned() and not (command and piece is kit.server)
    ]
    heading = "Remove these lines, and any other entry of the plugin, from {path}:"
    _print_changes(context, plan, dry_run, command, heading, pieces)


def _prepare_kit(context: typer.Context, client: Client, in_project: bool) -> tuple[Kit, Path]:
    """Return the kit of the client, and the file of its record."""
    from extensions.agents.install import Places, kit_of, record_path

    if client is Client.OTHER and not in_project:
        raise InvalidOption(
            "the client `other` reads the file AGENTS.md in a project folder, so it needs the "
            "option --project. Add --project."
        )
    project = settings_of(context).start.resolve() if in_project else None
    places = Places(Path.home(), project, os.environ)
    return kit_of(client.value, places), record_path(client.value, project)


def _add_server(kit: Kit, dry_run: bool) -> tuple[str, ...]:
    """Let the client add the MCP server to its settings; return the command, () if none worked.

    Settings that mention wfctl stay as they are, because the user may have changed the entry.
    """
    commands = kit.commands
    if commands is None or kit.server is None or kit.server.is_mentioned():
        return ()
    if not commands.is_supported():
        return ()
    return commands.add if dry_run or commands.run(commands.add) is not None else ()


def _print_changes(
    context: typer.Context,
    plan: InstallPlan,
    dry_run: bool,
    command: Sequence[str],
    heading: str,
    pieces: Sequence[SettingsPiece],
    *advice: str,
) -> None:
    written = sorted(str(path) for path, content in plan.writes.items() if content is not None)
    removed = sorted(str(path) for path, content in plan.writes.items() if content is None)
    would = "would " if dry_run else ""
    lines = [f"{would}write {path}" for path in written]
    lines += [f"{would}remove {path}" for path in removed]
    lines += [f"{would}run {shlex.join(command)}"] if command else []
    lines += [f"not changed: {path} ({why})" for path, why in plan.left.items()]
    lines += [f"\n{heading.format(path=piece.path)}\n\n{piece.text.strip()}\n" for piece in pieces]
    data: dict[str, Any] = {"dry_run": dry_run, "written": written, "removed": removed}
    data |= {"left": plan.left, "command": list(command)}
    data["by_hand"] = [{"path": str(piece.path), "text": piece.text} for piece in pieces]
    text = "\n".join([*lines, *advice])
    Output(settings_of(context)).result(data, lambda: text)


class HookTurn(StrEnum):
    """The moment at which a client calls the hook."""

    SESSION_START = "session-start"
    BEFORE_COMPACT = "before-compact"
    BEFORE_STOP = "before-stop"


def hook(
    context: typer.Context,
    turn: Annotated[
        HookTurn, argument("TURN", f"The moment in the session: {', '.join(HookTurn)}.")
    ],
) -> None:
    """Answer a call from the wfctl plugin of a coding agent.

    session-start prints a briefing. before-compact records a summary of the current work.
    before-stop asks the agent once for a summary.
    """
    from extensions.machines.views.unfinished import list_unfinished_work
    from projections.screens.inbox import of_workflow

    given = _read_hook_input()
    try:
        with open_for_reading(context) as here:
            root = str(here.root.path)
            state = here.log.state() if here.config.workflow is not None else None
            live = _list_live_machines(here)
            unfinished = list(chain.from_iterable(map(list_unfinished_work, live)))
            if state is not None:
                events = here.store.read(here.log.stream, after=max(state.head - _EVENTS, 0))
                unfinished = [*of_workflow(state, events), *unfinished]
    except NoRoot:
        return
    if turn is HookTurn.SESSION_START:
        _print_brief(root, state, live)
    elif turn is HookTurn.BEFORE_COMPACT:
        _hand_off(root, unfinished, live, str(given.get("trigger") or "auto"))
    else:
        _ask_once(unfinished, given, root)


def _read_hook_input() -> dict[str, Any]:
    """Return the JSON object on stdin, or an empty object if the client sends none."""
    with suppress(ValueError):
        found = json.loads("" if sys.stdin.isatty() else sys.stdin.read())
        return found if isinstance(found, dict) else {}
    return {}


def _list_live_machines(here: Reading) -> list[Machine]:

    found = [here.machine(id_).current() for id_ in list_machines(here.root, here.store)]
    live = [one for one in found if not one.is_final]
    return sorted(live, key=lambda one: one.updated, reverse=True)


def _print_brief(root: str, state: Workflow | None, live: list[Machine]) -> None:
    parts = ["From wfctl, which keeps the state of the work in this folder:"]
    if state is not None:
        parts.append(_run_command(root, "rehydrate", "--dry-run", f"--brief={_TOKENS}"))
    brief = f"--bytes={_BYTES // min(max(len(live), 1), _FULL)}"
    parts += [
        _run_command(root, "machine", "rehydrate", "--dry-run", brief, m.id) for m in live[:_FULL]
    ]
    parts += [f"machine {machine.id}: in {machine.phase}" for machine in live[_FULL:10]]
    policies = {state.consent} if state is not None else {machine.consent for machine in live}
    if "terminal" in policies:
        parts.append(
            "Consent is by terminal here, so an agent with a shell could approve in a person's "
            "name. Tell the person once that `wfctl consent setup` sets up a signature."
        )
    text = "\n".join(part.strip() for part in parts if part.strip())
    answer = {"hookEventName": "SessionStart", "additionalContext": text}
    print(json.dumps({"hookSpecificOutput": answer}, ensure_ascii=False))


def _hand_off(root: str, unfinished: list[Unfinished], live: list[Machine], trigger: str) -> None:
    """Record a summary of the work in progress, as the agent whose context is compacted."""
    by_id = {machine.id: machine for machine in live}
    stages = [one for one in unfinished if one.subject not in by_id]
    if stages:
        text = "; ".join(f"{one.subject} {one.text}" for one in stages)[:_LETTERS]
        _run_command(
            root, "note", f"an agent's context is compacted ({trigger}); current work: {text}"
        )
    for one in unfinished:
        machine = by_id.get(one.subject)
        if machine is None:
            continue
        before = machine.handoff
        summary = (
            f"An agent's context was compacted ({trigger}); current work: {one.text[:_LETTERS]}."
        )
        summary += f" Before that: {before.summary}"[:_LETTERS] if before is not None else ""
        steps = [f"--next={step}" for step in before.next] if before is not None else []
        _run_command(root, "machine", "checkpoint", f"--summary={summary}", *steps, machine.id)


def _ask_once(unfinished: list[Unfinished], given: dict[str, Any], root: str) -> None:
    """Ask the client once to continue if work in progress has no summary."""
    from service.root.trust import was_asked_before

    if not unfinished or given.get("stop_hook_active"):
        return
    what = "; ".join(f"{one.subject} {one.text}" for one in unfinished)
    if was_asked_before(root, f"{given.get('session_id')} {what}"):
        return
    commands = ", ".join(dict.fromkeys(f"`{one.command}`" for one in unfinished))
    reason = (
        f"Work is in progress, and the next agent would not know its state: {what[:_LETTERS]}. "
        f"Record a summary first: {commands}. If you already did, or if nothing needs to be "
        "recorded, stop."
    )
    print(json.dumps({"decision": "block", "reason": reason}, ensure_ascii=False))


def _run_command(root: str, *line: str) -> str:
    from cli.main import run

    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        run([f"--root={root}", "--log-level=error", *line])
    return out.getvalue()
