"""Create a workflow folder: its subfolder, its database, the first event, and its files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventstore.database_url import is_postgres_url
from eventstore.errors import WrongExpectedVersion
from eventstore.event import Actor
from eventstore.private_files import (
    create_private_folder,
    is_shared_with_group,
    set_umask_for_shared_folder,
)
from eventstore.store import EventStore
from lifecycle.payload import models as p
from lifecycle.state.run_files import has_command_with_implicit_file
from lifecycle.state.workflow import Workflow
from lifecycle.words.scripts import MISSING, omit_missing_init_script
from projections.files.state_document import FILE_NAME as STATE
from service.errors import InvalidOption, RootExists, WorkflowExists
from service.reading.log import WorkflowLog
from service.root.atomic_files import Clock, sync_folder, utc_text, write_whole
from service.root.root import (
    MARKER,
    Config,
    Root,
    config_text,
    read_config,
    require_utf8_path,
    without_secrets,
)
from service.root.sync_record import Synced, digest, read_sync, write_sync
from service.root.trusted_databases import require_trusted, trust_database
from service.writing.stream_writer import Planned, WriteOptions
from service.writing.workflow_service import Outcome, Service, plan_writes, planned_state

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

#: Folder in ``.wfctl`` for exact copies of the files from which a workflow was created.
IMPORTED = "imported"
#: Content of ``.wfctl/.gitignore``. Git ignores everything in the folder, so `git clean -fd` and
#: `git stash -u` do not remove it.
_IGNORE = b"*\n"
#: The same file if the log is on a database server. The configuration is committed, so that clones
#: of the repository know the address of the log.
_IGNORE_OF_SERVER = b"*\n!.gitignore\n!config.toml\n"

Connect = Callable[[Root], EventStore]
"""Opens the log of a root for writing, creating it if needed."""


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
    """Create a workflow and its folder, or continue an interrupted creation.

    If the plan is the folder's own ``workflow-state.json``, ``source`` is its content. A copy is
    stored in ``.wfctl/imported/``, and the state of the new workflow replaces the file.

    Raises `RootExists` if the folder already has a workflow. Raises `WorkflowExists` if the log has
    a workflow with this id from another folder, unless ``options.command_id`` is the id of the
    command that created it.
    """
    workflow = str(command.document["workflow_id"])
    if options.dry_run:
        require_no_workflow(root)
        require_new_stream(Config(workflow).stream, options)
        return plan_writes(None, _list_first_commands(root.path, command, clock), options, clock)
    return make_root(
        root,
        workflow,
        lambda service: _create_workflow(service, command, options, source),
        connect=connect,
        actor=actor,
        clock=clock,
        options=options,
    )


def _create_workflow(
    service: Service, command: p.WorkflowCreated, options: WriteOptions, source: bytes | None
) -> Outcome:
    if source is not None and service.first_answer(options) is None:
        folder = service.root.folder / IMPORTED
        folder.mkdir(exist_ok=True)
        write_whole(folder / STATE, source)
        sync_folder(service.root.folder)
        remember_state_file(service, source)
    first = _list_first_commands(service.root.path, command, service.clock)
    outcome = service.handle(*first, options=options)
    if outcome.state.consent == "signature":
        service.log.approvals.pin(outcome.state)
    return outcome


def _list_first_commands(root: Path, command: p.WorkflowCreated, clock: Clock) -> list[Payload]:
    """Return the first commands of a workflow: create it, and record its scripts."""
    now = utc_text(clock())
    files = build_files_recorded_event(root, planned_state(((command, now),)), now)
    return [command, *(payload for payload, _ in files)]


def build_files_recorded_event(root: Path, state: Workflow, now: str, **known: Any) -> Planned:
    """Return the event that records the scripts of a plan with their digests.

    Return an empty tuple if the plan names no script. If a command uses a file by its fixed name,
    such as a makefile, and the file is missing, this is recorded too. wfctl can then report a file
    that appears later.
    """
    from service.consent.scripts import find_scripts_to_approve  # needed only to start a workflow

    found = p.FilesRecorded.model_validate(
        {"scripts": find_scripts_to_approve(root, state), **known}
    )
    machines = {state.profile(one).get("config_path") for one in state.stages.values()}
    missing_machines = {path for path in machines if found.scripts.get(str(path)) == MISSING}
    is_named = not omit_missing_init_script(found.scripts).keys() <= missing_machines
    is_named = is_named or any(map(has_command_with_implicit_file, state.stages.values()))
    return ((found, now),) if is_named or found.attempts else ()


def remember_state_file(service: Service, content: bytes) -> None:
    """Remember the content of ``workflow-state.json``, so that it is not a manual edit."""
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
    """Create the folder, log and configuration of a workflow, and call ``write``.

    ``write`` starts the workflow. Raises `RootExists` if the folder already has a workflow.
    """
    root = with_configured_log(root)
    prepare_folder(root)
    store = connect(root)
    try:
        log = _prepare_new_log(root, workflow, store, options)
        return write(Service(root, log, actor, clock))
    finally:
        store.close()


def require_new_stream(stream: str, options: WriteOptions) -> None:
    """Raise `WrongExpectedVersion` if the caller expects existing events in a new log."""
    if options.expected_version:
        raise WrongExpectedVersion(stream, options.expected_version, 0)


def prepare_folder(root: Root) -> None:
    """Create the subfolder ``.wfctl`` of a new workflow folder.

    Afterwards, `write_configuration` completes it.
    """
    root.below(MARKER)
    set_umask_for_shared_folder(root.path)
    if not root.config_file.exists():
        create_private_folder(root.folder, root.path if is_shared_with_group(root.path) else None)


def write_configuration(root: Root, workflow: str | None, archive: str | None = None) -> Config:
    """Write ``config.toml`` with the workflow id, log address and source archive.

    A database that the caller named is stored as approved by this user account.
    """
    config = Config(workflow, root.url, root.journal, archive=archive)
    trust_database(without_secrets(config.database_url), root.path)
    ignored = _IGNORE_OF_SERVER if is_postgres_url(config.database_url or "") else _IGNORE
    write_whole(root.folder / ".gitignore", ignored)
    write_whole(root.config_file, config_text(config).encode())
    return config


def with_configured_log(root: Root) -> Root:
    """Return the root with the log that its configuration names, if any."""
    if not root.config_file.exists():
        return root
    config = read_config(root)
    url = root.url
    # If both URLs name the same database, keep the given one. It may contain the password, which is
    # not stored in the configuration.
    if without_secrets(url) != without_secrets(config.database_url):
        url = config.database_url
        require_trusted(url, root.path)
    return replace(root, url=url, journal=root.journal or config.journal)


def _prepare_new_log(
    root: Root, workflow: str, store: EventStore, options: WriteOptions
) -> WorkflowLog:
    here = read_config(root) if root.config_file.exists() else Config(workflow)
    log = WorkflowLog(store, here.stream, root.path)
    if log.state() is None:
        return WorkflowLog(store, write_configuration(root, workflow).stream, root.path)
    if options.command_id is not None:
        return log
    if root.config_file.exists():
        raise RootExists(root.path, here.workflow)
    raise WorkflowExists(str(here.workflow), str(without_secrets(root.url)))


def require_no_workflow(root: Root) -> None:
    """Raise `RootExists` if the folder already has a workflow."""
    workflow = read_config(root).workflow if root.config_file.exists() else None
    if workflow is not None:
        raise RootExists(root.path, workflow)


def root_at(path: Path, url: str | None = None, journal: str | None = None) -> Root:
    """Return the root for a new workflow at ``path``.

    Raises `InvalidOption` if this is not a folder. ``url`` is the address of a database outside the
    folder, and ``journal`` is its journal mode.
    """
    if not path.is_dir():
        raise InvalidOption(
            f"{path} is not a folder. Create the folder, or choose another folder with --root"
        )
    require_utf8_path(path.resolve())
    return Root(path.resolve(), url, journal)


def options_with_plan_content(
    options: WriteOptions, plan: Any, **settings: str | None
) -> WriteOptions:
    """Return the write options with the plan as the content that identifies this command.

    A repeated command with the same content is then recognised.
    """
    return options._replace(content={"init": plan, **settings})
