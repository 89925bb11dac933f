"""``wfctl db copy``, ``backup`` and ``restore``: the log in another place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from cli.frame.options import DryRun, Text, argument, option
from cli.frame.workspace import SCHEMA, address_here, create, opened, settings_of, tidying_up
from cli.settings import Settings, actor_of
from cli.terminal.output import Output
from eventstore.chain import Schema
from eventstore.engine import open_log
from eventstore.errors import DatabaseMissing
from eventstore.event import Clock
from eventstore.private import is_server, public
from eventstore.store import EventStore
from eventstore.transfer.copy import Chains, Copied, CopySource, require_vacant, steps
from eventstore.transfer.copy import copy as copied
from projections.words.text import NextAction
from service.errors import InvalidOption, NoRoot, NotFound
from service.handover import archive as archives
from service.handover.carried import brought, put_in_place
from service.handover.manifest import Manifest
from service.handover.restore import read_archive
from service.handover.restore import restore as restored
from service.machines.log import PREFIX, MachineLog, machines_in
from service.machines.service import MachineService
from service.reading.log import WorkflowLog
from service.root.disk import system_clock, system_instant
from service.root.root import Config, Root, address_of, find_root, open_root
from service.writing.initialise import (
    as_configured,
    configure,
    prepare_folder,
    refuse_second,
    root_at,
)
from service.writing.salvage import Salvaged, salvaged_into, survey
from service.writing.salvage import salvage as salvage_here
from service.writing.workflow_service import Service


class BackupForm(StrEnum):
    """What a backup is: lines of JSON with the chain, or a SQLite database."""

    ARCHIVE = "archive"
    SQLITE = "sqlite"


_REBUILD = NextAction("wfctl replay --rebuild", "the files may show more than the backup holds")

OneStream = Annotated[Text, option("--stream", "NAME", "Use only this stream.")]


def copy(
    context: typer.Context,
    source: Annotated[str, argument("SOURCE", "URL of the log.")],
    target: Annotated[str, argument("TARGET", "URL of another database.")],
    stream: OneStream = None,
    dry_run: DryRun = False,
) -> None:
    """Copy a log to another database; an interrupted copy continues.

    Nobody may write to its streams meanwhile. The roots' config.toml is left as it is.
    """
    places = [address_of(each, Path.cwd()) for each in (source, target)]
    with closing(_reader(places[0])) as log:
        archives.require_in_place(log, stream)
        done = _transfer(log, places[1], stream, dry_run)
    told = {"source": _shown(places[0]), "target": _shown(places[1])}
    _tell(context, done, told, told["target"], dry_run, "copied")


def backup(
    context: typer.Context,
    file: Annotated[Path, argument("FILE", "New file to write.")],
    form: BackupForm | None = option(
        "--as", "Format of the backup (default: sqlite for an SQLite log, else archive)."
    ),
    stream: OneStream = None,
    dry_run: DryRun = False,
) -> None:
    """Back up the whole log to a file, also during writes."""
    address = address_here(context)
    chosen = form or (BackupForm.SQLITE if isinstance(address, Path) else BackupForm.ARCHIVE)
    with closing(_reader(address)) as log:
        archives.require_stream(log, stream)
        if dry_run:
            archives.require_in_place(log, stream)
            done = _survey(log, stream)
        else:
            done = archives.back_up(log, file, chosen.value, STORES, only=stream)
    told = {"file": str(file), "form": chosen.value}
    _tell(context, done, told, told["file"], dry_run, "backed up")


def restore(
    context: typer.Context,
    file: Annotated[Path, argument("FILE", "File that `wfctl db backup` wrote.")],
    stream: OneStream = None,
    dry_run: DryRun = False,
) -> None:
    """Restore a backup into the database of this root.

    In a folder without a root it becomes that of the backup's workflow, or of its machines.
    """
    settings, new = settings_of(context), None
    with closing(archives.source_in(file, STORES)) as found:
        if settings.database_url is None or not is_server(settings.database_url):
            try:
                find_root(settings.start)
            except NoRoot:
                # What it will be must be clear before anything is made.
                archives.require_stream(found, stream)
                archives.workflow_in(found, stream)
                new = root_at(settings.start, settings.database_url, settings.journal)
        address = new.address if new is not None else address_here(context)
        if new is not None and not dry_run:
            prepare_folder(new)
        done = _transfer(found, address, stream, dry_run)
        if new is not None and not dry_run:
            configure(new, archives.workflow_in(found, stream))
    told = {"file": str(file), "target": _shown(address)}
    _tell(context, done, told, told["target"], dry_run, "restored", [] if dry_run else [_REBUILD])


def _transfer(source: CopySource, target: Path | str, only: str | None, dry_run: bool) -> Copied:
    archives.require_stream(source, only)
    if not dry_run:
        with closing(made_at(target)) as store:
            return copied(source, store, only=only)
    with suppress(DatabaseMissing), closing(_reader(target)) as store:
        require_vacant(source, store, only)
    return _survey(source, only)


def _survey(source: CopySource, only: str | None) -> Copied:
    chains = Chains()
    events = sum(1 for _ in steps(source, chains, only))
    commands = sum(1 for command in source.commands() if only in (None, command.stream))
    refusals = sum(1 for _ in source.refusals(only))
    return Copied(len(chains.heads), events, commands, refusals, 0)


def _reader(address: Path | str) -> EventStore:
    return open_log(address, schema=SCHEMA, clock=system_instant, read_only=True)


def made_at(address: Path | str, journal: str | None = None) -> EventStore:
    """Open a log for writing; create it first if it does not exist."""
    from migrations.upgrade import upgrade

    upgrade(address)
    return open_log(address, schema=SCHEMA, clock=system_instant, journal=journal)


def _shown(address: Path | str) -> str:
    return f"sqlite:///{address}" if isinstance(address, Path) else public(address)


def _tell(
    context: typer.Context,
    done: Copied,
    told: dict[str, str],
    place: str,
    dry_run: bool,
    verb: str,
    actions: Sequence[NextAction] = (),
) -> None:
    there = f", {done.before} of them there before" if done.before else ""
    how = f"would be {verb}" if dry_run else f"{verb}, chain and order checked"
    text = (
        f"{place}: {done.events} events of {done.streams} streams{there}, {done.commands} command "
        f"ids and {done.refusals} refusals {how}"
    )
    lines = [text, *(f"next: {action.command}  ({action.reason})" for action in actions)]
    data = {**told, "dry_run": dry_run, **done._asdict()}
    Output(settings_of(context)).result(data, lambda: "\n".join(lines), actions=actions)


#: A backup is one file: no write-ahead log may stay beside it.
STORES = archives.Stores(reading=_reader, made=lambda path: made_at(path, "truncate"))


def restoring(context: typer.Context, file: Path, into: Path | None, dry_run: bool) -> None:
    """Make a root from an archive, every hash equal."""
    settings = settings_of(context)
    manifest = read_archive(file)
    place = into or settings.start
    if not dry_run:
        place.mkdir(exist_ok=True)
    target = place if place.exists() else place.parent
    root = as_configured(root_at(target, settings.database_url, settings.journal))
    if dry_run:
        refuse_second(root)
        _tell_restored(Output(settings), file, manifest, None, None, [])
        return
    restored(root, file, manifest, _connect)
    streams = (stream.name for stream in manifest.streams)
    machines = [name.removeprefix(PREFIX) for name in streams if name.startswith(PREFIX)]
    with closing(create(root)) as store:
        config = Config(manifest.workflow, root.url, root.journal)
        log = _show_files(root, store, config, machines, settings)
        kept = put_in_place(root.path, file, manifest)
        _tell_restored(Output(settings), file, manifest, root, log.state(), kept)


@contextmanager
def unpacked(file: Path) -> Iterator[Root]:
    """Make a root from an archive in a private folder, for as long as somebody looks at it.

    Nobody remembers it. Raises `UnusableArchive`, and `InvalidOption` for one without a workflow.
    """
    try:
        manifest = read_archive(file)
    except IsADirectoryError:
        raise InvalidOption(f"{file}: expected an archive, found a folder") from None
    except FileNotFoundError:
        raise NotFound(f"{file}: expected an archive, found no file", path=str(file)) from None
    if manifest.workflow is None:
        raise InvalidOption(f"{file}: expected an archive of a workflow, found one of machines")
    with tidying_up(), TemporaryDirectory(prefix="wfctl-archive-") as folder:
        root = Root(Path(folder).resolve(), journal="truncate")
        restored(root, file, manifest, _connect)
        put_in_place(root.path, file, manifest)
        yield root


def _connect(root: Root, schema: Schema, clock: Clock) -> EventStore:
    made_at(root.address, root.journal).close()
    return open_log(root.address, schema=schema, clock=clock, journal=root.journal)


def _tell_restored(
    output: Output,
    file: Path,
    manifest: Manifest,
    root: Root | None,
    state: Any,
    kept: Sequence[str],
) -> None:
    files = brought(manifest)
    data: dict[str, Any] = {
        "dry_run": root is None,
        "workflow": manifest.workflow,
        "source": str(file),
        "root": str(root.path) if root is not None else None,
        "streams": [
            {"stream": s.name, "version": s.version, "head": s.head} for s in manifest.streams
        ],
        "files": files,
        "kept": list(kept),
        "left_out": [asdict(one) for one in manifest.left_out],
    }
    verb = "would import" if root is None else "imported"
    lines = [
        f"{verb} {s.name}: {s.version} events, every hash as it was; head {s.head[:12]}"
        for s in manifest.streams
    ]
    lines.append(f"{verb} {len(files)} of the workflow's own files")
    lines += [f"  another file is here, and stays: {path}" for path in kept]
    lines += [f"  not in the archive: {one.path}: {one.why}" for one in manifest.left_out]
    lines += [_ASKED] if root is not None else []
    output.result(data, lambda: "\n".join(lines), state=state)


_ASKED = (
    "the next command that writes asks what this root is: --root-is moved, where the "
    "original is no more, or --root-is copied"
)


def salvage(
    context: typer.Context,
    into: Text = option("URL", "Empty database for the new log; required on a server."),
    dry_run: DryRun = False,
) -> None:
    """Create a new log from the versions before the first altered one.

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
            _tell_salvaged(context, survey(store, SCHEMA), None)
        return
    if into is not None:
        with closing(store), closing(made_at(address_of(into, root.path))) as target:
            done = salvaged_into(root, store, SCHEMA, target, system_clock())
    else:
        # Without a write-ahead log beside it, the new log is one file, which can be put in place.
        done = salvage_here(root, store, SCHEMA, STORES.made, system_clock())
        with closing(opened(root, read_only=False)) as store:
            _show_files(root, store, config, machines_in(store), settings)
    _tell_salvaged(context, done.lost, done)


def _show_files(
    root: Root, store: EventStore, config: Config, machines: Iterable[str], settings: Settings
) -> WorkflowLog:
    actor, log = actor_of(settings), WorkflowLog(store, config.stream, root.path)
    if log.state() is not None:
        Service(root, log, actor).files.rebuild()
    for machine in machines:
        MachineService(root, MachineLog(store, machine, root.path), actor).files.rebuild()
    return log


def _tell_salvaged(context: typer.Context, lost: dict[str, int], done: Salvaged | None) -> None:
    kept = str(done.kept) if done is not None and done.kept is not None else None
    verb = "would be left out" if done is None else "is left out"
    lines = [f"{name}: from version {n} on it {verb}" for name, n in lost.items()]
    lines = lines or ["every event is as it was recorded"]
    lines += [f"the log and the files as they were: {kept}"] if kept else []
    data = {"dry_run": done is None, "lost": lost, "kept": kept}
    data |= {"events": done.copied.events if done is not None else None}
    Output(settings_of(context)).result(data, lambda: "\n".join(lines))
