"""``wfctl db copy``, ``backup`` and ``restore``: the log in another place."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.frame.options import DryRun
from cli.frame.workspace import SCHEMA, address_here, settings_of
from cli.terminal.output import Output
from eventstore.address import is_server, public
from eventstore.engine import open_log
from eventstore.errors import DatabaseMissing
from eventstore.memory import MemoryStore
from eventstore.store import EventStore
from eventstore.transfer.copy import Chains, Copied, CopySource, require_vacant, steps
from eventstore.transfer.copy import copy as copied
from projections.words.next_action import NextAction
from service.errors import NoRoot
from service.handover.backup import (
    Stores,
    back_up,
    require_in_place,
    require_stream,
    source_in,
    workflow_in,
)
from service.root.clock import system_instant
from service.root.root import Root, address_of, find_root
from service.writing.initialise import configure, prepare_folder, root_at


class BackupForm(StrEnum):
    """What a backup is: lines of JSON with the chain, or a SQLite database."""

    ARCHIVE = "archive"
    SQLITE = "sqlite"


_REBUILD = NextAction("wfctl replay --rebuild", "the files may show more than the backup holds")

OneStream = Annotated[
    str | None, typer.Option("--stream", metavar="NAME", help="This stream alone.")
]


def copy(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="URL of the log.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="URL of another database.")],
    stream: OneStream = None,
    dry_run: DryRun = False,
) -> None:
    """Copy a log to another engine or place; an interrupted copy is taken up again.

    Nobody may write to its streams meanwhile. The roots' config.toml is left as it is.
    """
    places = [address_of(each, Path.cwd()) for each in (source, target)]
    with closing(_reader(places[0])) as log:
        require_in_place(log, stream)
        done = _transfer(log, places[1], stream, dry_run)
    text = _text(done, _shown(places[1]), dry_run, "copied")
    data = {"source": _shown(places[0]), "target": _shown(places[1])}
    _tell(context, {**data, "dry_run": dry_run, **done._asdict()}, text)


def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")],
    form: Annotated[
        BackupForm | None,
        typer.Option("--as", help="By default sqlite for a log on SQLite, else archive."),
    ] = None,
    stream: OneStream = None,
    dry_run: DryRun = False,
) -> None:
    """Write the whole log to a file, while others write to it; checked as by fsck."""
    address = address_here(context)
    chosen = form or (BackupForm.SQLITE if isinstance(address, Path) else BackupForm.ARCHIVE)
    with closing(_reader(address)) as log:
        require_stream(log, stream)
        done = (
            _survey_of(log, stream)
            if dry_run
            else back_up(log, file, chosen.value, STORES, only=stream)
        )
    data = {"file": str(file), "form": chosen.value, "dry_run": dry_run, **done._asdict()}
    _tell(context, data, _text(done, str(file), dry_run, "backed up"))


def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Made by `wfctl db backup`.")],
    stream: OneStream = None,
    dry_run: DryRun = False,
) -> None:
    """Bring back what a backup holds into this root's database; both are made where they are not.

    In a folder without a root it becomes that of the backup's workflow, or of its machines.
    """
    with closing(source_in(file, STORES)) as found:
        new = _new_root(context, found, stream)
        address = new.address if new is not None else address_here(context)
        if new is not None and not dry_run:
            prepare_folder(new)
        done = _transfer(found, address, stream, dry_run)
        if new is not None and not dry_run:
            configure(new, workflow_in(found, stream))
    data = {"file": str(file), "target": _shown(address), "dry_run": dry_run, **done._asdict()}
    text = _text(done, _shown(address), dry_run, "restored")
    actions = [] if dry_run else [_REBUILD]
    told = [text, *(f"next: {action.command}  ({action.reason})" for action in actions)]
    _tell(context, data, "\n".join(told), actions)


def _new_root(context: typer.Context, source: CopySource, only: str | None) -> Root | None:
    """Return the root that is to be made, None where the log's place is known already."""
    settings = settings_of(context)
    if settings.database_url is not None and is_server(settings.database_url):
        return None
    try:
        find_root(settings.start)
    except NoRoot:
        # What it will be must be clear before anything is made.
        require_stream(source, only)
        workflow_in(source, only)
        return root_at(settings.start, settings.database_url, settings.journal)
    return None


def _transfer(source: CopySource, target: Path | str, only: str | None, dry_run: bool) -> Copied:
    require_stream(source, only)
    if not dry_run:
        with closing(made_at(target)) as store:
            return copied(source, store, only=only)
    with closing(_there(target)) as store:
        require_vacant(source, store, only)
    return survey(source, only)


def _there(target: Path | str) -> EventStore:
    """Open the target to look at it; an empty log where there is none."""
    try:
        return _reader(target)
    except DatabaseMissing:
        return MemoryStore(schema=SCHEMA, clock=system_instant)


def survey(source: CopySource, only: str | None) -> Copied:
    """Return what would be copied, each event checked."""
    chains = Chains()
    events = sum(1 for _ in steps(source, chains, only))
    commands = sum(1 for command in source.commands() if only in (None, command.stream))
    refusals = sum(1 for _ in source.refusals(only))
    return Copied(len(chains.heads), events, commands, refusals, 0)


def _survey_of(log: EventStore, only: str | None) -> Copied:
    require_in_place(log, only)
    return survey(log, only)


def _reader(address: Path | str) -> EventStore:
    return open_log(address, schema=SCHEMA, clock=system_instant, read_only=True)


def made_at(address: Path | str, journal: str | None = None) -> EventStore:
    """Open a log for writing, made first where there is none."""
    from migrations.upgrade import upgrade  # Alembic is only loaded here

    upgrade(address)
    return open_log(address, schema=SCHEMA, clock=system_instant, journal=journal)


def _shown(address: Path | str) -> str:
    return f"sqlite:///{address}" if isinstance(address, Path) else public(address)


def _text(done: Copied, place: str, dry_run: bool, verb: str) -> str:
    there = f", {done.before} of them there before" if done.before else ""
    how = f"would be {verb}" if dry_run else f"{verb}, chain and order checked"
    return (
        f"{place}: {done.events} events of {done.streams} streams{there}, {done.commands} command "
        f"ids and {done.refusals} refusals {how}"
    )


def _tell(
    context: typer.Context, data: dict[str, Any], text: str, actions: Sequence[NextAction] = ()
) -> None:
    Output(settings_of(context)).result(data, lambda: text, actions=actions)


#: A backup is one file: no write-ahead log may stay beside it.
STORES = Stores(reading=_reader, made=lambda path: made_at(path, "truncate"))
