"""``wfctl agent install`` and ``uninstall``: the plugin of an agent's client."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from agents.install.clients import Places, kit_of
from agents.install.installing import InstallPlan, carry_out, clear_folders, installed, removed
from agents.install.record import load, place_of, save
from cli.frame.options import DryRun, argument, option
from cli.frame.workspace import settings_of
from cli.terminal.output import Output
from service.errors import InvalidOption, NotFound


class Client(StrEnum):
    """A client that is known; ``other`` reads AGENTS.md."""

    CLAUDE = "claude"
    CODEX = "codex"
    GEMINI = "gemini"
    OPENCODE = "opencode"
    OTHER = "other"


Which = Annotated[Client, argument("CLIENT", ", ".join(Client))]
InProject = Annotated[
    bool, option("--project", "In this folder; else for this login, in all folders.")
]


def install(
    context: typer.Context, client: Which, project: InProject = False, dry_run: DryRun = False
) -> None:
    """Set a client up: tools, skills, the brief at each start, a guard on the files of wfctl.

    It adds to the settings and changes nothing in them; again, it brings an older one up to date.
    """
    where = _project(context, client, project)
    place = place_of(client.value, where)
    kit = kit_of(client.value, Places(Path.home(), where, os.environ))
    plan = installed(kit, load(place))
    if not dry_run:
        # Before the first write: what a kill leaves can be taken out.
        save(place, plan.record)
        carry_out(plan)
    _tell(context, plan, dry_run, _ADVICE)


def uninstall(
    context: typer.Context, client: Which, project: InProject = False, dry_run: DryRun = False
) -> None:
    """Take out what `install` put in; what somebody edited since is left and named."""
    where = _project(context, client, project)
    place = place_of(client.value, where)
    record = load(place)
    if record is None:
        place_said = f"in {where}" if where is not None else "for this login"
        raise NotFound(f"expected the plugin of {client.value} {place_said}; found none installed")
    plan = removed(record)
    if not dry_run:
        carry_out(plan)
        clear_folders(record.folders)
        place.unlink()
    _tell(context, plan, dry_run, "")


_ADVICE = (
    "next: `wfctl consent setup` makes a key for your signature, so that no agent agrees for you"
)


def _project(context: typer.Context, client: Client, project: bool) -> Path | None:
    if client is Client.OTHER and not project:
        raise InvalidOption("expected --project: the client `other` reads AGENTS.md of a project")
    return settings_of(context).start.resolve() if project else None


def _tell(context: typer.Context, plan: InstallPlan, dry_run: bool, advice: str) -> None:
    wrote = sorted(str(path) for path, content in plan.writes.items() if content is not None)
    gone = sorted(str(path) for path, content in plan.writes.items() if content is None)
    data: dict[str, Any] = {
        "dry_run": dry_run,
        "written": wrote,
        "removed": gone,
        "left": plan.left,
    }
    would = "would " if dry_run else ""
    lines = [f"{would}write {path}" for path in wrote]
    lines += [f"{would}remove {path}" for path in gone]
    lines += [f"left as it is: {path} ({why})" for path, why in plan.left.items()]
    lines += [advice] if advice else []
    Output(settings_of(context)).result(data, lambda: "\n".join(lines))
