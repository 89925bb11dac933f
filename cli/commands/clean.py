"""``wfctl clean``: frees what attempts before the last good one left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.frame.options import CommandId, DryRun, KeyedWrites, Text, Texts, argument, option
from cli.frame.workspace import address_here, engine, journal_of, settings_of, writing
from cli.settings import actor_of
from cli.terminal.output import Output
from eventstore.errors import WrongExpectedVersion
from eventstore.event import HEAD
from eventstore.private import public
from lifecycle.errors import NeedsConsent
from lifecycle.words.values import span
from service.errors import InvalidOption
from service.root.root import find_root, open_root, read_config

if TYPE_CHECKING:
    from reconciler.context import Jobs
    from reconciler.files.clearing import Clearing


Stages = Annotated[Texts, argument("[STAGE...]", "Ids of the stages (default: all).")]


def clean(
    context: typer.Context,
    options: KeyedWrites,
    stages: Stages = None,
    older: Text = option(
        "--older-than", "AGE", "Delete only files of attempts that ended longer ago than 12h, 7d …."
    ),
    larger: Text = option(
        "--larger-than", "SIZE", "Delete only files of attempts larger than this: 1 GB."
    ),
    yes: bool = option("Delete without asking."),
) -> None:
    """Delete leftover files of old attempts.

    List the files, ask, and delete them. The last good attempt of each stage is kept.
    """
    from reconciler.files.clearing import clearings, command, remove
    from reconciler.files.leftovers import size_of

    age = None if older is None else span(older)
    if older is not None and age is None:
        raise InvalidOption(f"--older-than: expected an age such as 12h, 7d or 2w, found {older!r}")
    size = None if larger is None else size_of(larger)
    if larger is not None and size is None:
        raise InvalidOption(f"--larger-than: expected bytes, or 500 MB, 1 GB …, found {larger!r}")
    with engine(context, options.dry_run) as (jobs, output):
        if jobs.service.first_answer(options) is not None:
            _tell(output, jobs, [], freed=True)
            return
        found = clearings(jobs, jobs.service.state(), stages, age, size)
        if found and not (options.dry_run or yes):
            _ask(jobs, found)
        if found and not options.dry_run:
            # What is gone is named, no matter who dies in between.
            commands = [command(jobs.root, one) for one in found]
            jobs.tell(jobs.service.handle(*commands, options=options))
            for one in found:
                remove(one)
        _tell(output, jobs, found, freed=not options.dry_run)


def _ask(jobs: Jobs, found: list[Clearing]) -> None:
    from cli.frame.consent import asked_at_terminal

    total = sum(one.size for one in found)
    told = "\n".join([*map(_line, found), f"{total} bytes in all."])
    try:
        agreed = asked_at_terminal(jobs.service.actor, "what is freed", told, "wfctl clean")
    except NeedsConsent as error:
        raise NeedsConsent(
            f"nothing was freed of:\n{told} `wfctl clean --yes` frees it "
            "without asking, `--dry-run` only looks.",
            bytes=total,
            freed=[],
        ) from error
    if not agreed:
        raise NeedsConsent("nothing was freed: n was typed.", bytes=total, freed=[])


def _line(one: Clearing) -> str:
    what = [f"{len(one.folders)} folders of scratch"] if one.folders else []
    what += [f"{len(one.files)} files that it left"] if one.files else []
    return f"{one.stage} {one.attempt}: {one.size} bytes: {', '.join(what)}"


def _tell(output: Output, jobs: Jobs, found: list[Clearing], *, freed: bool) -> None:
    total = sum(one.size for one in found)
    told = [
        {"stage": one.stage, "attempt": one.attempt, "bytes": one.size}
        | {"paths": [str(path.relative_to(jobs.root)) for path in one.paths]}
        for one in found
    ]
    data = {"dry_run": not freed, "bytes": total, "freed": told}
    verb = "freed" if freed else "would be freed"
    lines = [*map(_line, found), f"{total} bytes {verb}" if found else "nothing is to be freed"]
    output.changed(data, lambda: "\n".join(lines), jobs.service.state(), is_rehearsal=not freed)


def upgrade(
    context: typer.Context,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: int | None = option("N", "Refuse unless the schema has revision N.", min=0),
) -> None:
    """Upgrade the database to the newest schema.

    It appends no event, so that there is no command to keep a key for.
    """
    from migrations.upgrade import current as revision_of
    from migrations.upgrade import upgrade as migrate

    address = address_here(context)
    before = revision_of(address)
    if expected_version not in (None, int(before or 0)):
        raise WrongExpectedVersion("the database's schema", expected_version, int(before or 0))
    after = HEAD if dry_run else migrate(address)
    text = f"would go from {before} to {after}" if dry_run else str(after)
    data = {"revision": before if dry_run else after, "was": before, "dry_run": dry_run}
    Output(settings_of(context)).result(data, lambda: text)


def current(context: typer.Context) -> None:
    """Print the revision of the schema."""
    from migrations.upgrade import current as revision_of

    revision = revision_of(address_here(context))
    Output(settings_of(context)).result({"revision": revision}, lambda: str(revision))


def project(
    context: typer.Context,
    rebuild: bool = option("Delete the rows of the tables and write them again."),
    dry_run: DryRun = False,
) -> None:
    """Update the tables of the history to the newest version of the log."""
    from service.sql.tables import HistoryTables

    with writing(context, dry_run, anywhere=True) as (service, output):
        tables = HistoryTables(service.root.address, service.log)
        before, state = tables.checkpoint().version, service.state()
        start = 0 if rebuild else before
        if not dry_run:
            tables.rebuild() if rebuild else tables.catch_up()
        verb, count = "would project" if dry_run else "projected", state.head - start
        data = {"events": count, "was": before, "version": state.head, "dry_run": dry_run}
        text = f"{verb} {count} events, up to version {state.head}"
        output.result(data, lambda: text, state=state)


def url(context: typer.Context) -> None:
    """Print the address and journal of the log, without a password."""
    settings = settings_of(context)
    root = open_root(settings.start, settings.database_url, settings.journal)[0]
    address = root.address
    shown = public(address) if isinstance(address, str) else f"sqlite:///{address}"
    journal = journal_of(root)
    how = "the server keeps its own journal; each commit of ours waits for its disk"
    if journal is not None:
        how = f"journal {journal.mode}, synchronous {journal.synchronous}: {journal.reason}"
    data = {"url": shown, "journal": journal._asdict() if journal else None}
    Output(settings).result(data, lambda: f"{shown}\n{how}")


def trust(context: typer.Context, dry_run: DryRun = False) -> None:
    """Trust the database and the notice receiver that config.toml names, as a person."""
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
    text = f"{'would trust' if dry_run else 'trusted'}: {told}"
    text = text if told else "no database elsewhere, and nobody to be told"
    Output(settings).result({"url": named, "notify": notify, "dry_run": dry_run}, lambda: text)
