"""The commands ``wfctl db copy``, ``backup``, ``restore`` and ``salvage``, and archives."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from cli.frame.context import Context
from cli.frame.exit_codes import FINDINGS
from cli.frame.options import DryRun, Text, argument, option
from cli.frame.workspace import (
    SCHEMA,
    convert_signals_to_exit,
    create_log,
    find_log_address,
    open_root_log,
    settings_of,
)
from cli.settings import Settings, actor_of
from cli.terminal.output import Output
from eventstore.database_url import is_postgres_url, url_without_password
from eventstore.engine import open_log
from eventstore.errors import DatabaseMissing
from eventstore.event import Clock
from eventstore.schema import Schema
from eventstore.store import EventStore
from eventstore.transfer.copy import (
    Chains,
    CopyCounts,
    CopySource,
    iterate_checked_events,
    require_no_common_stream,
)
from eventstore.transfer.copy import copy_log as copied
from extensions.handover import archive as archives
from extensions.handover.archive_files import (
    find_unapproved_executables,
    list_workflow_files,
    restore_workflow_files,
)
from extensions.handover.backup import StoreOpeners, back_up, open_backup
from extensions.handover.manifest import Manifest
from extensions.handover.restore import read_archive
from extensions.handover.restore import restore_log as restored
from extensions.machines.service.log import MachineLog
from extensions.machines.service.service import MachineService
from projections.words.text import NextAction
from service.errors import InvalidOption, NoRoot, NotFound
from service.reading.log import WorkflowLog
from service.reading.machine_streams import list_machines_in_store
from service.root.atomic_files import system_clock, system_instant
from service.root.root import MACHINE, Config, Root, address_of, find_root, open_root
from service.writing.initialise import (
    prepare_folder,
    require_no_workflow,
    root_at,
    with_configured_log,
    write_configuration,
)
from service.writing.salvage import SalvageResult, find_unsound_streams, salvage_into
from service.writing.salvage import salvage_log as salvage_here
from service.writing.workflow_service import Service


class BackupForm(StrEnum):
    """The format of a backup: JSON lines with the hash chain, or an SQLite database."""

    ARCHIVE = "archive"
    SQLITE = "sqlite"


_REBUILD = NextAction("wfctl replay --rebuild", "the files may be newer than the backup")

OneStream = Annotated[
    Text,
    option(
        "--stream",
        "NAME",
        "Include only this stream (the events of one workflow or phase machine). "
        "Default: all streams.",
    ),
]


def copy(
    context: Context,
    source: Annotated[str, argument("SOURCE", "The URL of the database to copy from.")],
    target: Annotated[str, argument("TARGET", "The URL of the database to copy to.")],
    stream: OneStream = None,
    dry_run: DryRun = False,
) -> None:
    """Copy a log to another database.

    Make sure that nobody writes to the log during the copy. If the copy was interrupted, run the
    command again to continue. To use the copy, change the database in config.toml yourself.
    """
    places = [address_of(each, Path.cwd()) for each in (source, target)]
    with closing(_open_reader(places[0])) as log:
        archives.require_undamaged_log(log, stream)
        done = _copy_log(log, places[1], stream, dry_run)
    told = {"source": _format_address(places[0]), "target": _format_address(places[1])}
    _print_result(context, done, told, told["target"], dry_run, "copied")


def backup(
    context: Context,
    file: Annotated[
        Path, argument("FILE", "The backup file to create. The file must not exist yet.")
    ],
    form: BackupForm | None = option(
        "--as",
        "Write the backup in this format. Default: sqlite if the log is an SQLite file, "
        "otherwise archive.",
    ),
    stream: OneStream = None,
    dry_run: DryRun = False,
) -> None:
    """Back up the whole log to a file.

    Other commands can write to the log during the backup. wfctl leaves out a damaged stream (the
    events of one workflow or machine), prints its name, and exits with code 7.
    """
    address = find_log_address(context)
    chosen = form or (BackupForm.SQLITE if isinstance(address, Path) else BackupForm.ARCHIVE)
    with closing(_open_reader(address)) as log:
        archives.require_stream(log, stream)
        damaged = archives.damaged_streams(log, stream)
        intact = archives.select_intact_streams(log, damaged)
        if damaged and (stream is not None or not list(intact.streams())):
            raise next(iter(damaged.values()))
        if dry_run:
            done = _count_records(intact, stream)
        else:
            done = back_up(intact, file, chosen.value, STORES, only=stream)
        wrong = [f"left out: {error.message}" for error in damaged.values()]
        wrong += _list_fsck_problems(context, log, damaged, stream)
    told: dict[str, Any] = {"file": str(file), "form": chosen.value}
    told |= {"left_out": sorted(damaged), "findings": wrong}
    _print_result(context, done, told, told["file"], dry_run, "backed up", wrong=wrong)


def _list_fsck_problems(
    context: Context, store: EventStore, damaged: Container[str], only: str | None
) -> list[str]:
    """Return the problems that fsck finds in the logs of the folder.

    Damaged streams are left out. The list is empty if there is no workflow folder.
    """
    from service.questions.audit import find_problems_of_all_logs

    settings = settings_of(context)
    try:
        root, config = open_root(settings.start, settings.database_url, settings.journal)
    except NoRoot:
        return []
    found = find_problems_of_all_logs(root, WorkflowLog(store, config.stream, root.path))[1]
    return [
        f"{one.stream or 'the log'}: {one.kind}: {one.message}"
        for one in found
        if (one.stream is None or one.stream not in damaged)
        and only in (None, one.stream)
        and one.kind != "foreign_rule"  # it affects only appends
    ]


def restore(
    context: Context,
    file: Annotated[Path, argument("FILE", "The backup file that `wfctl db backup` wrote.")],
    stream: OneStream = None,
    dry_run: DryRun = False,
) -> None:
    """Restore a backup into the database of this workflow.

    In a folder without a workflow, the command creates the workflow or machines of the backup.
    """
    settings, new = settings_of(context), None
    with closing(open_backup(file, STORES)) as found:
        if settings.database_url is None or not is_postgres_url(settings.database_url):
            try:
                find_root(settings.start)
            except NoRoot:
                # Check the content of the backup before the new workflow folder is created.
                archives.require_stream(found, stream)
                archives.find_workflow_id(found, stream)
                new = root_at(settings.start, settings.database_url, settings.journal)
        address = new.address if new is not None else find_log_address(context)
        if new is not None and not dry_run:
            prepare_folder(new)
        done = _copy_log(found, address, stream, dry_run)
        if new is not None and not dry_run:
            write_configuration(new, archives.find_workflow_id(found, stream))
    told = {"file": str(file), "target": _format_address(address)}
    _print_result(
        context, done, told, told["target"], dry_run, "restored", [] if dry_run else [_REBUILD]
    )


def _copy_log(
    source: CopySource, target: Path | str, only: str | None, dry_run: bool
) -> CopyCounts:
    archives.require_stream(source, only)
    if not dry_run:
        with closing(open_or_create_log(target)) as store:
            return copied(source, store, only=only)
    with suppress(DatabaseMissing), closing(_open_reader(target)) as store:
        require_no_common_stream(source, store, only)
    return _count_records(source, only)


def _count_records(source: CopySource, only: str | None) -> CopyCounts:
    chains = Chains()
    events = sum(1 for _ in iterate_checked_events(source, chains, only))
    commands = sum(1 for command in source.commands() if only in (None, command.stream))
    refusals = sum(1 for _ in source.refusals(only))
    return CopyCounts(len(chains.heads), events, commands, refusals, 0)


def _open_reader(address: Path | str) -> EventStore:
    return open_log(address, schema=SCHEMA, clock=system_instant, read_only=True)


def open_or_create_log(address: Path | str, journal: str | None = None) -> EventStore:
    """Open a log for writing, and create its database if it does not exist."""
    from migrations.upgrade import upgrade_database

    upgrade_database(address)
    return open_log(address, schema=SCHEMA, clock=system_instant, journal=journal)


def _format_address(address: Path | str) -> str:
    return f"sqlite:///{address}" if isinstance(address, Path) else url_without_password(address)


def _print_result(
    context: Context,
    done: CopyCounts,
    told: dict[str, Any],
    place: str,
    dry_run: bool,
    verb: str,
    actions: Sequence[NextAction] = (),
    wrong: Sequence[str] = (),
) -> None:
    """Print the result of a copy. Exit with code 7 if problems were found in the source."""
    there = f", {done.before} of them there before" if done.before else ""
    how = f"would be {verb}" if dry_run else f"{verb}, chain and order checked"
    text = (
        f"{place}: {done.events} events of {done.streams} streams{there}, {done.commands} command "
        f"ids and {done.refusals} refusals {how}"
    )
    lines = [text, *wrong, *(f"next: {action.command}  ({action.reason})" for action in actions)]
    data = {**told, "dry_run": dry_run, **done._asdict()}
    Output(settings_of(context)).result(data, lambda: "\n".join(lines), actions=actions)
    if wrong:
        raise SystemExit(FINDINGS)


#: A backup must be a single file, so its database is created without a write-ahead log.
STORES = StoreOpeners(reading=_open_reader, made=lambda path: open_or_create_log(path, "truncate"))


def restore_into_root(context: Context, file: Path, into: Path | None, dry_run: bool) -> None:
    """Create a workflow folder from an archive, and print the result.

    Every hash is checked first.
    """
    settings = settings_of(context)
    manifest = read_archive(file)
    place = into or settings.start
    if not dry_run:
        place.mkdir(exist_ok=True)
    target = place if place.exists() else place.parent
    root = with_configured_log(root_at(target, settings.database_url, settings.journal))
    if dry_run:
        require_no_workflow(root)
        _tell_restored(Output(settings), file, manifest, None, None, [])
        return
    restored(root, file, manifest, _create_and_open)
    streams = (stream.name for stream in manifest.streams)
    machines = [name.removeprefix(MACHINE) for name in streams if name.startswith(MACHINE)]
    with closing(create_log(root)) as store:
        config = Config(manifest.workflow, root.url, root.journal)
        log = _rebuild_generated_files(root, store, config, machines, settings)
        state = log.state()
        unapproved = find_unapproved_executables(root.path, state, manifest)
        kept = restore_workflow_files(root.path, file, manifest, unapproved)
        _tell_restored(Output(settings), file, manifest, root, state, kept, unapproved)


@contextmanager
def open_archive_temporarily(file: Path) -> Iterator[Root]:
    """Restore an archive into a temporary folder, and remove the folder afterwards.

    The folder is not added to the list of known workflows. Raises `UnusableArchive` if the archive
    is damaged, and `InvalidOption` if it has no workflow.
    """
    try:
        manifest = read_archive(file)
    except IsADirectoryError:
        raise InvalidOption(f"{file}: expected an archive, found a folder") from None
    except FileNotFoundError:
        raise NotFound(f"{file}: expected an archive, found no file", path=str(file)) from None
    if manifest.workflow is None:
        raise InvalidOption(
            f"the archive {file} contains only machines, but this command needs the archive of a "
            "workflow."
        )
    with convert_signals_to_exit(), TemporaryDirectory(prefix="wfctl-archive-") as folder:
        root = Root(Path(folder).resolve(), journal="truncate")
        restored(root, file, manifest, _create_and_open)
        restore_workflow_files(root.path, file, manifest)
        yield root


def _create_and_open(root: Root, schema: Schema, clock: Clock) -> EventStore:
    open_or_create_log(root.address, root.journal).close()
    return open_log(root.address, schema=schema, clock=clock, journal=root.journal)


def _tell_restored(
    output: Output,
    file: Path,
    manifest: Manifest,
    root: Root | None,
    state: Any,
    kept: Sequence[str],
    unapproved: Sequence[str] = (),
) -> None:
    files = [path for path in list_workflow_files(manifest) if path not in unapproved]
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
        "unapproved": list(unapproved),
        "left_out": [asdict(one) for one in manifest.left_out],
    }
    verb = "would import" if root is None else "imported"
    lines = [
        f"{verb} {s.name}: {s.version} events, all hashes unchanged; head {s.head[:12]}"
        for s in manifest.streams
    ]
    lines.append(f"{verb} {len(files)} of the workflow's own files")
    lines += [f"  kept, because a different file exists here: {path}" for path in kept]
    lines += [f"  not imported: {path}: {_UNAPPROVED}" for path in unapproved]
    lines += [f"  not in the archive: {one.path}: {one.why}" for one in manifest.left_out]
    lines += [_ASKED] if root is not None else []
    output.result(data, lambda: "\n".join(lines), state=state)


_UNAPPROVED = (
    "a program could run or read the file, but the log has no record of the file; check the file, "
    "then unpack it by hand"
)
_ASKED = (
    "the next command that writes needs --root-is moved if the original no longer exists, else "
    "--root-is copied"
)


def salvage(
    context: Context,
    into: Text = option(
        "URL",
        "Write the new log to this empty database. Required if the log is on a database server.",
    ),
    dry_run: DryRun = False,
) -> None:
    """Create a new log from the events before the first damage.

    wfctl moves the old log and files to a folder in .wfctl/. Make sure that nobody writes to the
    log during the command.
    """
    settings = settings_of(context)
    root, config = open_root(settings.start, settings.database_url, settings.journal)
    if root.url is not None and into is None and not dry_run:
        raise InvalidOption(
            "the log is not in .wfctl/events.db, so the option --into URL is required. Name an "
            "empty database for the new log."
        )
    store = open_root_log(root, read_only=True)
    if dry_run:
        with closing(store):
            _tell_salvaged(context, find_unsound_streams(store, SCHEMA), None)
        return
    if into is not None:
        with closing(store), closing(open_or_create_log(address_of(into, root.path))) as target:
            done = salvage_into(root, store, SCHEMA, target, system_clock())
    else:
        # Create the new log without a write-ahead log. It is then one file that can be moved into
        # place.
        done = salvage_here(root, store, SCHEMA, STORES.made, system_clock())
        with closing(open_root_log(root, read_only=False)) as store:
            _rebuild_generated_files(root, store, config, list_machines_in_store(store), settings)
    _tell_salvaged(context, done.lost, done)


def _rebuild_generated_files(
    root: Root, store: EventStore, config: Config, machines: Iterable[str], settings: Settings
) -> WorkflowLog:
    actor, log = actor_of(settings), WorkflowLog(store, config.stream, root.path)
    if log.state() is not None:
        Service(root, log, actor).files.rebuild()
    for machine in machines:
        MachineService(root, MachineLog(store, machine, root.path), actor).files.rebuild()
    return log


def _tell_salvaged(context: Context, lost: dict[str, int], done: SalvageResult | None) -> None:
    kept = str(done.kept) if done is not None and done.kept is not None else None
    verb = "would be left out" if done is None else "is left out"
    lines = [f"{name}: from version {n} on it {verb}" for name, n in lost.items()]
    lines = lines or ["every event is unchanged since it was recorded"]
    lines += [f"copies of the old log and files: {kept}"] if kept else []
    data = {"dry_run": done is None, "lost": lost, "kept": kept}
    data |= {"events": done.copied.events if done is not None else None}
    Output(settings_of(context)).result(data, lambda: "\n".join(lines))
