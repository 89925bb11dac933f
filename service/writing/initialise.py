"""Making a root: the folder, the database, the first event, the files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventstore.errors import WrongExpectedVersion
from eventstore.event import Actor
from eventstore.private import is_server, is_shared, let_group_write, make_folder
from eventstore.store import EventStore
from lifecycle.payload import models as p
from lifecycle.state.workflow import Workflow
from projections.files.state_document import FILE_NAME as STATE
from service.errors import InvalidOption, RootExists, WorkflowExists
from service.reading.log import WorkflowLog
from service.root.disk import Clock, sync_folder, utc_text, write_whole
from service.root.root import (
    MARKER,
    Config,
    Root,
    Synced,
    config_text,
    digest,
    kept,
    read_config,
    read_sync,
    require_utf8_path,
    write_sync,
)
from service.root.trust import require_trusted, trust
from service.writing.stream_writer import Planned, WriteOptions
from service.writing.workflow_service import Outcome, Service, plan_writes, planned_state

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

#: Below ``.wfctl``: the files that a workflow was made from, byte for byte.
IMPORTED = "imported"
#: Whatever is not ignored is removed by `git clean -fd`, and carried off by `git stash -u`.
_IGNORE = b"*\n"
#: The address of a log on a server is worth a place in the repository, so that a clone has it.
_IGNORE_OF_SERVER = b"*\n!.gitignore\n!config.toml\n"

Connect = Callable[[Root], EventStore]
"""Opens the log of a root for writing, made first where it is not there."""


def initialise(
    root: Root,
    command: p.WorkflowCreated,
    *,
    connect: Connect,
    actor: Actor,
    clock: Clock,
    options: WriteOptions,
    source: bytes | None = None,
) -> Outcome:
    """Make the root and its workflow; what an interrupted init left is taken up.

    ``source``: the plan was the root's own ``workflow-state.json``, which held this: it is kept in
    ``.wfctl/imported/``, and the state is written in its place.

    Raises `RootExists` where a workflow is here already, `WorkflowExists` where the log has one
    of this id from elsewhere, unless ``options.command_id`` names the very command that made it.
    """
    workflow = str(command.document["workflow_id"])
    if options.dry_run:
        refuse_second(root)
        expect_nothing(Config(workflow).stream, options)
        return plan_writes(None, _beginning(root.path, command, clock), options, clock)
    return make_root(
        root,
        workflow,
        lambda service: _create(service, command, options, source),
        connect=connect,
        actor=actor,
        clock=clock,
        options=options,
    )


def _create(
    service: Service, command: p.WorkflowCreated, options: WriteOptions, source: bytes | None
) -> Outcome:
    if source is not None and service.first_answer(options) is None:
        folder = service.root.folder / IMPORTED
        folder.mkdir(exist_ok=True)
        write_whole(folder / STATE, source)
        sync_folder(service.root.folder)
        claim_state(service, source)
    first = _beginning(service.root.path, command, service.clock)
    outcome = service.handle(*first, options=options)
    if outcome.state.consent == "signature":
        service.log.approvals.pin(outcome.state)
    return outcome


def _beginning(root: Path, command: p.WorkflowCreated, clock: Clock) -> list[Payload]:
    """Return the commands that begin a workflow: what is agreed to, and the files that it runs."""
    now = utc_text(clock())
    files = files_recorded(root, planned_state(((command, now),)), now)
    return [command, *(payload for payload, _ in files)]


def files_recorded(root: Path, state: Workflow, now: str, **known: Any) -> Planned:
    """Return the event of the files that a definition runs, as they are; none where none are."""
    from service.consent.scripts import scripts_of  # few commands begin a workflow

    found = p.FilesRecorded.model_validate({"scripts": scripts_of(root, state), **known})
    return ((found, now),) if found.scripts or found.attempts else ()


def claim_state(service: Service, content: bytes) -> None:
    """Let ``workflow-state.json``, which holds this, be gone on with: it is not drift."""
    entry = Synced(service.log.stream, 0, len(content), digest(content))
    known = replace(read_sync(service.root.sync_file), files={})
    write_sync(service.root.sync_file, known.having(STATE, entry))


def make_root(
    root: Root,
    workflow: str,
    write: Callable[[Service], Outcome],
    *,
    connect: Connect,
    actor: Actor,
    clock: Clock,
    options: WriteOptions,
) -> Outcome:
    """Make the root's folder, log and configuration, then let ``write`` begin the workflow.

    Raises `RootExists` as `initialise` does.
    """
    root = as_configured(root)
    prepare_folder(root)
    store = connect(root)
    try:
        log = _new_log(root, workflow, store, options)
        return write(Service(root, log, actor, clock))
    finally:
        store.close()


def expect_nothing(stream: str, options: WriteOptions) -> None:
    """Raise `WrongExpectedVersion` where a stream that is to begin was expected to have begun."""
    if options.expected_version:
        raise WrongExpectedVersion(stream, options.expected_version, 0)


def prepare_folder(root: Root) -> None:
    """Make the folder of a new root; `configure` makes it one."""
    root.below(MARKER)
    let_group_write(root.path)
    if not root.config_file.exists():
        make_folder(root.folder, root.path if is_shared(root.path) else None)


def configure(root: Root, workflow: str | None, archive: str | None = None) -> Config:
    """Write down which workflow the root has, where its log is, and what it was made from.

    Who named a server for it agreed to that server.
    """
    config = Config(workflow, root.url, root.journal, archive=archive)
    trust(kept(config.database_url), root.path)
    ignored = _IGNORE_OF_SERVER if is_server(config.database_url or "") else _IGNORE
    write_whole(root.folder / ".gitignore", ignored)
    write_whole(root.config_file, config_text(config).encode())
    return config


def as_configured(root: Root) -> Root:
    """Return the root with its log where its configuration says, if it has one."""
    if not root.config_file.exists():
        return root
    config = read_config(root)
    url = root.url
    # At the same place the root's own has perhaps the password that is not written down.
    if kept(url) != kept(config.database_url):
        url = config.database_url
        require_trusted(url, root.path)
    return replace(root, url=url, journal=root.journal or config.journal)


def _new_log(root: Root, workflow: str, store: EventStore, options: WriteOptions) -> WorkflowLog:
    here = read_config(root) if root.config_file.exists() else Config(workflow)
    log = WorkflowLog(store, here.stream, root.path)
    if log.state() is None:
        return WorkflowLog(store, configure(root, workflow).stream, root.path)
    if options.command_id is not None:
        return log
    if root.config_file.exists():
        raise RootExists(root.path, here.workflow)
    raise WorkflowExists(str(here.workflow), str(kept(root.url)))


def refuse_second(root: Root) -> None:
    """Raise `RootExists` where a workflow is here already."""
    workflow = read_config(root).workflow if root.config_file.exists() else None
    if workflow is not None:
        raise RootExists(root.path, workflow)


def root_at(path: Path, url: str | None = None, journal: str | None = None) -> Root:
    """Return the root to be made at ``path``; raises `InvalidOption` where it is no folder.

    ``url`` names the database where the log is to be kept elsewhere, ``journal`` its journal.
    """
    if not path.is_dir():
        raise InvalidOption(f"{path} is not a folder; make it first, or name another with --root")
    require_utf8_path(path.resolve())
    return Root(path.resolve(), url, journal)


def init_options(options: WriteOptions, plan: Any, **settings: str | None) -> WriteOptions:
    """Return the options with the plan as what the command is told apart by."""
    return replace(options, content={"init": plan, **settings})
