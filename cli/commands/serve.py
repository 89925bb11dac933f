"""``wfctl serve``: the live pages, for the login that starts it."""

from __future__ import annotations

import getpass
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cli.frame.options import File, Texts, argument, option
from cli.frame.workspace import opened, reading_of, require_checked, settings_of, tidying_up
from cli.settings import VERSION, Format, Settings
from cli.terminal.output import say
from eventstore.private import is_server, public
from service.errors import InvalidOption, NoRoot
from service.root.root import WORKFLOW, Root, find_root, read_config
from service.root.trust import known_roots

if TYPE_CHECKING:
    from pages.shelf import ServedRoot
    from service.reading.log import WorkflowLog


Folders = list[Path] | None
Finding = Callable[[], "list[ServedRoot]"]
#: Folders in a folder of workflows that are looked at.
_FOLDERS = 2000


def serve(
    context: typer.Context,
    archive: File = argument("FILE", "Show the contents of this archive without importing it."),
    port: int | None = option("N", "Serve on this port of 127.0.0.1.", min=0, max=65535),
    socket_: File = option(
        "--socket", "PATH", "Serve on this Unix socket (default: a socket of your user account)."
    ),
    workflows: Folders = option("DIR", "Folder of a workflow, or folder that contains workflows."),
) -> None:
    """Follow your workflows in the browser.

    The pages only read, and only your user account can open them. In a workflow's folder, show that
    workflow, elsewhere all that `wfctl list` knows; with FILE, show an archive that
    `wfctl export archive` wrote.
    """
    settings = settings_of(context)
    require_checked(settings)
    if settings.format is not Format.TEXT:
        raise InvalidOption("serve is for people: `wfctl status -o json` is for programs")
    if port is not None and socket_ is not None:
        raise InvalidOption("expected --port or --socket, found both")
    with tidying_up(), _chosen(settings, archive, workflows or []) as (find, what):
        _serve(find, what, port, socket_)


def _serve(find: Finding, what: str, port: int | None, socket_: Path | None) -> None:
    from cli.frame.sight import sight
    from pages.entrance import Door, listening, usual_socket
    from pages.server import serve as served
    from pages.shelf import Shelf

    shelf = Shelf(find, sight())
    if port is not None:
        try:
            made = socket.create_server(("127.0.0.1", port))
        except OSError as error:
            why = f"--port {port}: {error}; name another, or 0 for a free one"
            raise InvalidOption(why) from error
        with made:
            door = Door(made.getsockname()[1], lambda url: say(f"wfctl: open {url} (works once)"))
            served(shelf, made, door, lambda: None)
        return
    place = socket_.absolute() if socket_ is not None else usual_socket(what)
    host = f"{getpass.getuser()}@{socket.gethostname()}"
    lines = [
        f"wfctl: serving on {place}. On your own machine:",
        f"  ssh -N -L 8000:{place} {host}",
        "  and open http://localhost:8000/",
    ]
    with listening(place) as made:
        try:
            served(shelf, made, None, lambda: say("\n".join(lines)))
        finally:
            place.unlink(missing_ok=True)


@contextmanager
def _chosen(
    settings: Settings, archive: Path | None, folders: list[Path]
) -> Iterator[tuple[Finding, str]]:
    if archive is None:
        yield _served(settings, folders)
        return
    if folders:
        raise InvalidOption("expected an archive or --workflows, found both")
    from cli.commands.backup import unpacked

    with unpacked(archive) as root:
        shown = _of_root(replace(settings, root=None, database_url=None), root.path)
        entry = replace(shown, where=f"archive {archive}", archive=str(archive))
        yield lambda: [entry], str(archive.resolve())


def _served(settings: Settings, folders: list[Path]) -> tuple[Finding, str]:
    """Return what finds the workflows, and a name for them, the same each time."""
    plain = replace(settings, root=None, database_url=None)
    if folders:
        for folder in folders:
            if not folder.is_dir():
                raise InvalidOption(f"--workflows {folder}: expected a folder, found none")
        name = "\n".join(sorted(str(folder.resolve()) for folder in folders))
        return lambda: [_of_root(plain, root) for root in _roots(folders)], name
    url = settings.database_url
    if url is not None and is_server(url) and settings.root is None:
        return partial(_of_server, url), public(url)
    try:
        root = find_root(settings.start)
    except NoRoot:
        if settings.root is not None:
            raise
        return lambda: [_of_root(plain, one) for one in known_roots()], "all"
    read_config(root)
    return lambda: [_of_root(replace(settings, root=root.path), root.path)], str(root.path)


def _roots(folders: list[Path]) -> Iterator[Path]:
    for folder in folders:
        if _is_root(folder):
            yield folder.resolve()
            continue
        with os.scandir(folder) as found:
            names = sorted(one.name for _, one in zip(range(_FOLDERS), found, strict=False))
        yield from (folder.resolve() / name for name in names if _is_root(folder / name))


def _is_root(folder: Path) -> bool:
    return (folder / ".wfctl" / "config.toml").is_file()


def _of_root(settings: Settings, path: Path) -> ServedRoot:
    from pages.shelf import ServedRoot

    try:
        name = read_config(find_root(path)).workflow or path.name
    except Exception:  # noqa: BLE001 - one root that is broken hides no other; its page says why
        name = path.name

    @contextmanager
    def opening() -> Iterator[WorkflowLog]:
        with reading_of(replace(settings, root=path)) as workflow:
            yield workflow.log

    return ServedRoot(name, path, opening, str(path))


def _of_server(url: str) -> list[ServedRoot]:
    from pages.shelf import ServedRoot
    from service.reading.log import WorkflowLog

    @contextmanager
    def opening(stream: str) -> Iterator[WorkflowLog]:
        with closing(opened(Root(Path.cwd(), url), read_only=True)) as store:
            yield WorkflowLog(store, stream, Path.cwd())

    with closing(opened(Root(Path.cwd(), url), read_only=True)) as store:
        streams = [name for name in store.streams() if name.startswith(WORKFLOW)]
    return [
        ServedRoot(name.removeprefix(WORKFLOW), None, partial(opening, name), public(url))
        for name in streams
    ]


TOKEN = "WFCTL_MCP_TOKEN"  # noqa: S105 - the name of a variable
#: What the commands behind the tools load, by room; imported once, before the first call.
_COMMANDS = {
    "cli.commands": "amend append audit compare dispatch drift events export init "
    "stage status tasks why",
    "cli.commands.machine": "beginning changes reads",
    "cli.frame": "checkpoints writes",
    "cli.program": "tree",
    "cli.terminal": "briefing talk",
    "eventstore": "engine intake sqlite.store sqlite.connection",
    "lifecycle": "payload.stage plan.advice",
    "projections": "files.report files.schemas machines.description",
    "reconciler": "briefing.briefing briefing.rehydrate context sweep.table",
    "service": "documents.strict_yaml files.foreign_changes machines.inspection "
    "proofs.witness writing.workflow_service",
}


def mcp(
    context: typer.Context,
    port: int | None = option(
        "N", "Serve HTTP on this port; 0 chooses a free port.", min=0, max=65535
    ),
    host: str = option("ADDRESS", "With --port: address to listen on.", default="127.0.0.1"),
    allow: Texts = option("NAME", "With --port: host name that clients may use."),
    socket: File = option("PATH", "Serve HTTP on a new Unix socket."),
) -> None:
    """Serve agents over the Model Context Protocol.

    The server uses stdin and stdout, or HTTP. Its tools reach the workflows in this folder, as an
    agent. No tool approves anything.
    """
    settings = settings_of(context)
    named = settings.actor or os.environ.get("WFCTL_ACTOR")
    if settings.actor is not None and not settings.actor.startswith("agent:"):
        raise InvalidOption(
            f"expected --actor agent:NAME, as only agents act through this server; found "
            f"{settings.actor!r}",
            value=settings.actor,
        )
    actor = named if named is not None and named.startswith("agent:") else None
    _check(port, host, allow, socket)
    folder = settings.start.resolve()
    # Forked while this process has one thread and has loaded little.
    from agents.warm import Warm

    with closing(Warm(_carried_out, _prepare)) as warm:
        from agents.server import Face, build
        from agents.serving import free_port, over_http, over_socket, over_stdio

        server = build(Face(warm, folder, actor), VERSION)
        if socket is not None:
            say(f"wfctl: serving http://localhost/mcp on the socket {socket}")
            over_socket(server, socket)
        elif port is not None:
            token = os.environ.get(TOKEN) or secrets.token_urlsafe(24)
            port = port or free_port(host)
            shown = "" if os.environ.get(TOKEN) else f", header `Authorization: Bearer {token}`"
            say(f"wfctl: serving on http://{host}:{port}/mcp{shown}")
            over_http(server, token, host=host, port=port, allowed=allow or [])
        else:
            over_stdio(server)


def _check(port: int | None, host: str, allow: list[str] | None, socket: Path | None) -> None:
    if find_spec("mcp") is None:
        raise InvalidOption(
            "expected the package mcp, found none: install wfctl with its extra, such as "
            "`pipx install 'wfctl-eventstore[mcp]'`"
        )
    if socket is not None:
        from agents.serving import is_left_behind

        size = len(os.fsencode(socket))
        if port is not None:
            raise InvalidOption("expected --port or --socket, found both")
        if size > _LONGEST:
            raise InvalidOption(
                f"--socket: expected a path of at most {_LONGEST} bytes, found "
                f"{size}; name a shorter one"
            )
        if socket.exists() and not is_left_behind(socket):
            found = "one that a server listens on" if socket.is_socket() else "a file"
            raise InvalidOption(
                f"--socket: expected nothing at {socket}, or a socket on which nobody listens; "
                f"found {found}. Name another place",
                path=str(socket),
            )
    if host not in _LOOPBACK and not allow:
        raise InvalidOption(
            f"--host {host} can be reached from other machines: say with --allow NAME by which "
            "name clients may use it, or leave --host out"
        )


#: Bytes that Linux takes for the name of a Unix socket: `man 7 unix`.
_LONGEST = 107
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def _carried_out(arguments: list[str]) -> int:
    from cli.main import run

    return run(arguments)


def _prepare() -> None:
    from cli.program.tree import build

    for room, names in _COMMANDS.items():
        for name in names.split():
            import_module(f"{room}.{name}")
    import_module("yaml")
    build()
