"""``wfctl db …``: the database behind the log."""

from __future__ import annotations

import typer

from cli.output import Output
from cli.workspace import settings_of
from service.root import Root, open_root


def build() -> typer.Typer:
    """Return the group of commands."""
    group = typer.Typer(help="The database behind the log.")
    group.command("upgrade")(upgrade)
    group.command("current")(current)
    group.command("url")(url)
    return group


def upgrade(context: typer.Context) -> None:
    """Bring the database to the newest schema."""
    from migrations.upgrade import upgrade as migrate

    root = _root(context)
    migrate(root.database)
    current(context)


def current(context: typer.Context) -> None:
    """Print the schema's revision."""
    from migrations.upgrade import current as revision_of

    root = _root(context)
    revision = revision_of(root.database)
    Output(settings_of(context)).result({"revision": revision}, lambda: str(revision))


def url(context: typer.Context) -> None:
    """Print where the log is kept, with which journal, and why."""
    from eventstore.journal import journal_for

    root = _root(context)
    address = f"sqlite:///{root.database}"
    journal = journal_for(root.database, root.journal)
    Output(settings_of(context)).result(
        {"url": address, "journal": journal._asdict()},
        lambda: (
            f"{address}\njournal {journal.mode}, synchronous {journal.synchronous}: "
            f"{journal.reason}"
        ),
    )


def _root(context: typer.Context) -> Root:
    settings = settings_of(context)
    return open_root(settings.start, settings.database_url, settings.journal)[0]
