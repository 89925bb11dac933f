"""``wfctl db salvage``: a new log from the part of an altered one that is as it was recorded."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Annotated, Any

import typer

from cli.commands.backup import made_at
from cli.frame.options import DryRun
from cli.frame.workspace import SCHEMA, opened, settings_of
from cli.settings import actor_of
from cli.terminal.output import Output
from service.errors import InvalidOption
from service.reading.log import WorkflowLog
from service.root.clock import system_clock
from service.root.root import Config, Root, address_of, open_root
from service.writing.salvage import Salvaged, salvage, salvaged_into, survey
from service.writing.workflow_service import Service


def command(
    context: typer.Context,
    into: Annotated[
        str | None,
        typer.Option("--into", metavar="URL", help="An empty database; needed on a server."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Make a new log from the versions before the first that was altered; nothing is deleted.

    The old log and the files go into a folder of .wfctl/. Nobody may write meanwhile.
    """
    settings = settings_of(context)
    root, config = open_root(settings.start, settings.database_url, settings.journal)
    if root.url is not None and into is None and not dry_run:
        raise InvalidOption(
            "expected --into URL: this log is not in .wfctl/events.db, and what is there is left"
        )
    store = opened(root, read_only=True)
    if dry_run:
        with closing(store):
            lost = survey(store, SCHEMA)
        _tell(context, {"dry_run": True, "lost": lost, "kept": None, "events": None})
        return
    if into is not None:
        with closing(store):
            done = _into(root, into)
    else:
        # Without a write-ahead log beside it, the new log is one file, which can be put in place.
        done = salvage(root, store, SCHEMA, partial(made_at, journal="truncate"), system_clock())
    if into is None:
        _show_files(root, config, context)
    _tell(
        context,
        {
            "dry_run": False,
            "lost": done.lost,
            "kept": str(done.kept) if done.kept is not None else None,
            "events": done.copied.events,
        },
    )


def _into(root: Root, url: str) -> Salvaged:
    address = address_of(url, root.path)
    with closing(opened(root, read_only=True)) as store, closing(made_at(address)) as target:
        return salvaged_into(root, store, SCHEMA, target, system_clock())


def _show_files(root: Root, config: Config, context: typer.Context) -> None:
    """Write the files of the root as the new log says."""
    actor = actor_of(settings_of(context))
    with closing(opened(root, read_only=False)) as store:
        log = WorkflowLog(store, config.stream, root.path)
        if log.state() is not None:
            Service(root, log, actor).files.rebuild()
        from service.machines.log import MachineLog, machines_in
        from service.machines.service import MachineService

        for machine in machines_in(store):
            MachineService(root, MachineLog(store, machine, root.path), actor).files.rebuild()


def _tell(context: typer.Context, data: dict[str, Any]) -> None:
    Output(settings_of(context)).result(data, lambda: _text(data))


def _text(data: dict[str, Any]) -> str:
    if not data["lost"]:
        return "every event is as it was recorded" + _kept(data)
    verb = "would be left out" if data["dry_run"] else "is left out"
    lines = [f"{name}: from version {n} on it {verb}" for name, n in data["lost"].items()]
    return "\n".join(lines) + _kept(data)


def _kept(data: dict[str, Any]) -> str:
    return f"\nthe log and the files as they were: {data['kept']}" if data["kept"] else ""
