"""``wfctl db …``: the database behind the log."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands import backup as backups
from cli.commands import salvage
from cli.frame.options import CommandId, DryRun
from cli.frame.workspace import address_here, journal_of, settings_of, writing
from cli.settings import actor_of
from cli.terminal.output import Output
from eventstore.address import public
from eventstore.errors import WrongExpectedVersion
from eventstore.revision import HEAD
from eventstore.sqlite.journal import Journal
from lifecycle.errors import NeedsConsent
from service.root.root import find_root, open_root, read_config


def build() -> typer.Typer:
    """Return the group of commands."""
    group = typer.Typer(help="The database behind the log.")
    group.command("upgrade")(upgrade)
    group.command("current")(current)
    group.command("url")(url)
    group.command("trust")(trust)
    group.command("copy")(backups.copy)
    group.command("backup")(backups.backup)
    group.command("restore")(backups.restore)
    group.command("salvage")(salvage.command)
    group.command("project")(project)
    return group


def upgrade(
    context: typer.Context,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: Annotated[
        int | None,
        typer.Option(
            "--expected-version", metavar="N", min=0, help="Refuse unless the schema is revision N."
        ),
    ] = None,
) -> None:
    """Bring the database to the newest schema; done again, with a key or without, it does nothing.

    It appends no event, so that there is no command to keep a key for.
    """
    from migrations.upgrade import current as revision_of
    from migrations.upgrade import upgrade as migrate

    address = address_here(context)
    before = revision_of(address)
    if expected_version not in (None, int(before or 0)):
        raise WrongExpectedVersion("the database's schema", expected_version, int(before or 0))
    after = HEAD if dry_run else migrate(address)
    Output(settings_of(context)).result(
        {"revision": before if dry_run else after, "was": before, "dry_run": dry_run},
        lambda: f"would go from {before} to {after}" if dry_run else str(after),
    )


def current(context: typer.Context) -> None:
    """Print the schema's revision."""
    from migrations.upgrade import current as revision_of

    revision = revision_of(address_here(context))
    Output(settings_of(context)).result({"revision": revision}, lambda: str(revision))


def project(
    context: typer.Context,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Drop the rows and make them anew.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Bring the history's tables to the head of the log; nothing is appended."""
    from service.sql.tables import HistoryTables

    with writing(context, dry_run, anywhere=True) as (service, output):
        tables = HistoryTables(service.root.address, service.log)
        before, state = tables.checkpoint().version, service.state()
        start = 0 if rebuild else before
        if not dry_run:
            tables.rebuild() if rebuild else tables.catch_up()
        verb = "would project" if dry_run else "projected"
        output.result(
            {
                "events": state.head - start,
                "was": before,
                "version": state.head,
                "dry_run": dry_run,
            },
            lambda: f"{verb} {state.head - start} events, up to version {state.head}",
            state=state,
        )


def url(context: typer.Context) -> None:
    """Print where the log is kept, with which journal, and why; never a password."""
    settings = settings_of(context)
    root = open_root(settings.start, settings.database_url, settings.journal)[0]
    address = root.address
    shown = public(address) if isinstance(address, str) else f"sqlite:///{address}"
    journal = journal_of(root)
    Output(settings_of(context)).result(
        {"url": shown, "journal": journal._asdict() if journal else None},
        lambda: f"{shown}\n{_journal(journal)}",
    )


def trust(context: typer.Context, dry_run: DryRun = False) -> None:
    """Agree to the database and to whom config.toml names to be told: a person does, no agent."""
    from service.root import trust as agreed

    settings = settings_of(context)
    root = find_root(settings.start)
    config = read_config(root)
    named, notify = config.database_url, config.notify
    if actor_of(settings).kind == "agent":
        agreed.require_trusted(named, root.path)
        if notify is not None and not agreed.is_notice_trusted(notify, root.path):
            raise NeedsConsent(f"a person agrees to whom {root.config_file} names: {notify}")
    elif not dry_run:
        agreed.trust(named, root.path)
        if notify is not None:
            agreed.trust_notice(notify, root.path)
    told = " and ".join(filter(None, (named, notify)))
    verb = "would trust" if dry_run else "trusted"
    Output(settings).result(
        {"url": named, "notify": notify, "dry_run": dry_run},
        lambda: f"{verb}: {told}" if told else "no database elsewhere, and nobody to be told",
    )


def _journal(journal: Journal | None) -> str:
    if journal is None:
        return "the server keeps its own journal; each commit of ours waits for its disk"
    return f"journal {journal.mode}, synchronous {journal.synchronous}: {journal.reason}"
