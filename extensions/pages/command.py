"""The command ``wfctl serve``, which shows live web pages to the user who starts it."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cli.frame.context import Context
from cli.frame.options import File, argument, option
from cli.frame.workspace import (
    convert_signals_to_exit,
    open_root_log,
    open_workflow_for_reading,
    require_no_as_is_option,
    settings_of,
)
from cli.settings import Format, Settings
from cli.terminal.output import print_message
from eventstore.database_url import is_postgres_url, url_without_password
from service.errors import InvalidOption, NoRoot
from service.root.root import WORKFLOW, Root, find_root, read_config
from service.root.trust import known_roots
from wfctl_eventstore.extension import require_extension

if TYPE_CHECKING:
    from extensions.pages.served_workflows import ServedRoot
    from service.reading.log import WorkflowLog


Folders = list[Path] | None
Finding = Callable[[], "list[ServedRoot]"]
#: Maximum number of subfolders in which to search for workflows.
_FOLDERS = 2000


def serve(
    context: Context,
    archive: File = argument(
        "FILE", "Show the workflow in this archive file, without importing the archive."
    ),
    port: int | None = option("N", "Serve the pages on this port of 127.0.0.1.", min=0, max=65535),
    socket_: File = option(
        "--socket",
        "PATH",
        "Serve the pages on this Unix socket. Default: a socket that only your user "
        "account can open.",
    ),
    workflows: Folders = option(
        "DIR", "Show only the workflows in this folder. You can repeat this option."
    ),
) -> None:
    """Follow your workflows in the browser.

    The pages change nothing, and only your user account can open them. In the folder of a workflow,
    the pages show this workflow. In other folders, they show all workflows that `wfctl list` knows.
    With FILE, they show an archive that `wfctl export archive` wrote.
    """
    settings = settings_of(context)
    require_no_as_is_option(settings)
    if settings.format is not Format.TEXT:
        raise InvalidOption(
            "`wfctl serve` does not support JSON output, because it shows web pages. To read the "
            "state with a program, run `wfctl status -o json`."
        )
    if port is not None and socket_ is not None:
        raise InvalidOption(
            "the options --port and --socket cannot be combined. Choose one of these options."
        )
    with (
        convert_signals_to_exit(),
        _open_served_selection(settings, archive, workflows or []) as (find, what),
    ):
        _serve_pages(find, what, port, socket_)


def _serve_pages(find: Finding, what: str, port: int | None, socket_: Path | None) -> None:
    from extensions.pages.access import AccessControl, open_socket, usual_socket
    from extensions.pages.job_data import build_data_readers
    from extensions.pages.served_workflows import ServedWorkflows
    from extensions.pages.server import serve_pages as served

    shelf = ServedWorkflows(find, build_data_readers())
    if port is not None:
        try:
            made = socket.create_server(("127.0.0.1", port))
        except OSError as error:
            why = (
                f"wfctl cannot listen on port {port}: {error}. Choose another --port, or 0 "
                "for any free port"
            )
            raise InvalidOption(why) from error
        with made:
            door = AccessControl(
                made.getsockname()[1], lambda url: print_message(f"wfctl: open {url} (works once)")
            )
            served(shelf, made, door, lambda: None)
        return
    place = socket_.absolute() if socket_ is not None else usual_socket(what)
    host = f"{getpass.getuser()}@{socket.gethostname()}"
    lines = [
        f"wfctl: serving on {place}. On your own machine:",
        f"  ssh -N -L 8000:{place} {host}",
        "  and open http://localhost:8000/",
    ]
    with open_socket(place) as made:
        try:
            served(shelf, made, None, lambda: print_message("\n".join(lines)))
        finally:
            place.unlink(missing_ok=True)


@contextmanager
def _open_served_selection(
    settings: Settings, archive: Path | None, folders: list[Path]
) -> Iterator[tuple[Finding, str]]:
    if archive is None:
        yield _build_workflow_finder(settings, folders)
        return
    if folders:
        raise InvalidOption(
            "an archive and the option --workflows cannot be combined. Remove one of them."
        )
    handover = require_extension("handover", f"the archive {archive}")
    with handover.open_archive(archive) as root:
        shown = _build_served_root(replace(settings, root=None, database_url=None), root.path)
        entry = replace(shown, where=f"archive {archive}", archive=str(archive))
        yield lambda: [entry], str(archive.resolve())


def _build_workflow_finder(settings: Settings, folders: list[Path]) -> tuple[Finding, str]:
    """Return a function that finds the workflows to serve, and a name for the selection.

    The name is the same at each start, so that the default socket path does not change.
    """
    plain = replace(settings, root=None, database_url=None)
    if folders:
        for folder in folders:
            if not folder.is_dir():
                raise InvalidOption(f"--workflows {folder}: the folder does not exist")
        name = "\n".join(sorted(str(folder.resolve()) for folder in folders))
        return lambda: [_build_served_root(plain, root) for root in _iterate_roots(folders)], name
    url = settings.database_url
    if url is not None and is_postgres_url(url) and settings.root is None:
        return partial(_list_server_workflows, url), url_without_password(url)
    try:
        root = find_root(settings.start)
    except NoRoot:
        if settings.root is not None:
            raise
        return lambda: [_build_served_root(plain, one) for one in known_roots()], "all"
    read_config(root)
    return lambda: [_build_served_root(replace(settings, root=root.path), root.path)], str(
        root.path
    )


def _iterate_roots(folders: list[Path]) -> Iterator[Path]:
    for folder in folders:
        if _is_root(folder):
            yield folder.resolve()
            continue
        with os.scandir(folder) as found:
            names = sorted(one.name for _, one in zip(range(_FOLDERS), found, strict=False))
        yield from (folder.resolve() / name for name in names if _is_root(folder / name))


def _is_root(folder: Path) -> bool:
    return (folder / ".wfctl" / "config.toml").is_file()


def _build_served_root(settings: Settings, path: Path) -> ServedRoot:
    from extensions.pages.served_workflows import ServedRoot

    try:
        name = read_config(find_root(path)).workflow or path.name
    except Exception:  # noqa: BLE001 - one root that is broken hides no other; its page says why
        name = path.name

    @contextmanager
    def opening() -> Iterator[WorkflowLog]:
        with open_workflow_for_reading(replace(settings, root=path)) as workflow:
            yield workflow.log

    return ServedRoot(name, path, opening, str(path))


def _list_server_workflows(url: str) -> list[ServedRoot]:
    from extensions.pages.served_workflows import ServedRoot
    from service.reading.log import WorkflowLog

    @contextmanager
    def opening(stream: str) -> Iterator[WorkflowLog]:
        with closing(open_root_log(Root(Path.cwd(), url), read_only=True)) as store:
            yield WorkflowLog(store, stream, Path.cwd())

    with closing(open_root_log(Root(Path.cwd(), url), read_only=True)) as store:
        streams = [name for name in store.streams() if name.startswith(WORKFLOW)]
    return [
        ServedRoot(
            name.removeprefix(WORKFLOW), None, partial(opening, name), url_without_password(url)
        )
        for name in streams
    ]
