"""``wfctl db``: upgrade, show and trust the database that holds the log."""

from __future__ import annotations

from cli.frame.context import Context
from cli.frame.options import CommandId, DryRun, option
from cli.frame.workspace import find_log_address, journal_of, settings_of
from cli.settings import actor_of
from cli.terminal.output import Output
from eventstore.database_url import url_without_password
from eventstore.errors import WrongExpectedVersion
from eventstore.event import HEAD
from lifecycle.errors import NeedsConsent
from service.root.root import find_root, open_root, read_config


def upgrade(
    context: Context,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: int | None = option(
        "N", "Run only if the database schema has revision N. Otherwise, exit with code 4.", min=0
    ),
) -> None:
    """Upgrade the database to the newest schema.

    The events in the log do not change.
    """
    from migrations.upgrade import current_revision as revision_of
    from migrations.upgrade import upgrade_database as migrate

    address = find_log_address(context)
    before = revision_of(address)
    if expected_version not in (None, int(before or 0)):
        raise WrongExpectedVersion("the database's schema", expected_version, int(before or 0))
    after = HEAD if dry_run else migrate(address)
    text = f"would change from revision {before} to {after}" if dry_run else str(after)
    data = {"revision": before if dry_run else after, "was": before, "dry_run": dry_run}
    Output(settings_of(context)).result(data, lambda: text)


def current(context: Context) -> None:
    """Print the revision of the database schema."""
    from migrations.upgrade import current_revision as revision_of

    revision = revision_of(find_log_address(context))
    Output(settings_of(context)).result({"revision": revision}, lambda: str(revision))


def url(context: Context) -> None:
    """Print the URL of the log's database, without its password.

    The output also shows the SQLite journal mode.
    """
    settings = settings_of(context)
    root = open_root(settings.start, settings.database_url, settings.journal)[0]
    address = root.address
    shown = url_without_password(address) if isinstance(address, str) else f"sqlite:///{address}"
    journal = journal_of(root)
    how = (
        "the database server keeps its own journal; each commit waits until the server has "
        "written it to disk"
    )
    if journal is not None:
        how = f"journal {journal.mode}, synchronous {journal.synchronous}: {journal.reason}"
    data = {"url": shown, "journal": journal._asdict() if journal else None}
    Output(settings).result(data, lambda: f"{shown}\n{how}")


def trust(context: Context, dry_run: DryRun = False) -> None:
    """Allow wfctl to use the database and notice receiver in config.toml.

    Only a person can do this. wfctl asks you to confirm at a terminal.
    """
    from service.root import trusted_databases

    settings = settings_of(context)
    root = find_root(settings.start)
    config = read_config(root)
    named, notify = config.database_url, config.notify
    if actor_of(settings).kind == "agent":
        trusted_databases.require_trusted(named, root.path)
        if notify is not None and not trusted_databases.is_notice_trusted(notify, root.path):
            raise NeedsConsent(
                f"the file {root.config_file} names {notify} as the receiver of notices, which no "
                "person has approved yet. A person must run `wfctl db trust` at a terminal."
            )
    elif not dry_run:
        trusted_databases.trust_database(named, root.path)
        if notify is not None:
            trusted_databases.trust_notice(notify, root.path)
    told = " and ".join(filter(None, (named, notify)))
    text = f"{'would trust' if dry_run else 'trusted'}: {told}"
    text = text if told else "config.toml names no other database and no receiver of notices"
    Output(settings).result({"url": named, "notify": notify, "dry_run": dry_run}, lambda: text)
