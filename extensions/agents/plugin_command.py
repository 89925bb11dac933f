"""The command ``wfctl agent``, which installs a client's plugin and answers its hooks.

The answers have the format that Claude Code, Codex and Gemini expect. Other wfctl commands produce
their content.
"""

from __future__ import annotations

import os
import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cli.frame.context import Context
from cli.frame.options import DryRun, argument, option
from cli.frame.workspace import settings_of
from cli.terminal.output import Output
from service.errors import InvalidOption, NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extensions.agents.client_settings import SettingsPiece
    from extensions.agents.install import InstallPlan, Kit

#: Maximum size of the briefing about the workflow in tokens, and of the briefings about all
#: machines in bytes.
_TOKENS, _BYTES = 1200, 2400


class Client(StrEnum):
    """The supported client programs. ``other`` is any client that reads AGENTS.md."""

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
    context: Context, client: Which, project: InProject = False, dry_run: DryRun = False
) -> None:
    """Install the wfctl plugin for a coding agent.

    The plugin adds tools, skills, and a briefing at the start of each session. The command does not
    edit the settings of the agent's client. It calls the client's own command, such as `gemini mcp
    add`, or prints the lines to paste. To update the plugin, run the command again.
    """
    from extensions.agents.install import (
        InstallRecord,
        apply_install_plan,
        load_record,
        plan_install,
        save_record,
    )

    kit, place = _prepare_kit(context, client, project)
    plan = plan_install(kit, load_record(place) or InstallRecord())
    if not dry_run:
        # Save the record before the first file is written, so that `uninstall` finds the files even
        # after a crash.
        save_record(place, plan.record)
        apply_install_plan(plan)
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
    context: Context, client: Which, project: InProject = False, dry_run: DryRun = False
) -> None:
    """Uninstall the wfctl plugin from a coding agent.

    The command keeps files that you edited, and prints which lines you can remove from the settings
    of the agent's client.
    """
    from extensions.agents.install import (
        apply_install_plan,
        load_record,
        plan_removal,
        remove_empty_folders,
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
        apply_install_plan(plan)
        remove_empty_folders(record.folders)
        if plan.record.files:
            save_record(place, plan.record)
        else:
            place.unlink()
    pieces = [
        piece
        for piece in kit.all_pieces()
        if piece.is_wfctl_mentioned() and not (command and piece is kit.server)
    ]
    heading = "Remove these lines, and any other entry of the plugin, from {path}:"
    _print_changes(context, plan, dry_run, command, heading, pieces)


def _prepare_kit(context: Context, client: Client, in_project: bool) -> tuple[Kit, Path]:
    """Return the plugin files for the client, and the path of the installation record."""
    from extensions.agents.install import ClientFolders, kit_of, record_path

    if client is Client.OTHER and not in_project:
        raise InvalidOption(
            "the client `other` reads the file AGENTS.md in a project folder, so it needs the "
            "option --project. Add --project."
        )
    project = settings_of(context).start.resolve() if in_project else None
    places = ClientFolders(Path.home(), project, os.environ)
    return kit_of(client.value, places), record_path(client.value, project)


def _add_server(kit: Kit, dry_run: bool) -> tuple[str, ...]:
    """Add the MCP server to the client's settings with the client's own command.

    Returns the command, or an empty tuple if no command was run successfully. Settings that already
    mention wfctl are not changed, because the user may have edited the entry.
    """
    commands = kit.commands
    if commands is None or kit.server is None or kit.server.is_wfctl_mentioned():
        return ()
    if not commands.is_supported():
        return ()
    return commands.add if dry_run or commands.run(commands.add) is not None else ()


def _print_changes(
    context: Context,
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
