"""``wfctl serve``: the live pages, for the login that starts it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.frame.workspace import opened, reading_of, require_checked, settings_of
from cli.settings import Format, Settings
from cli.terminal.output import say
from eventstore.address import is_server, public
from service.errors import InvalidOption, NoRoot
from service.root.known_roots import known_roots
from service.root.root import WORKFLOW, Root, find_root, read_config

if TYPE_CHECKING:
    from pages.shelf import Opening, ServedRoot
    from service.reading.log import WorkflowLog

#: Folders in a folder of workflows that are looked at.
_FOLDERS = 2000


def serve(
    context: typer.Context,
    port: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=65535, help="Serve on this port of 127.0.0.1."),
    ] = None,
    socket_: Annotated[
        Path | None,
        typer.Option(
            "--socket", metavar="PATH", help="Serve on this Unix socket; else a usual one."
        ),
    ] = None,
    workflows: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="A workflow's folder, or one that holds such folders."),
    ] = None,
) -> None:
    """Serve pages that show the workflows live, to this login alone. They only read.

    In a workflow's folder it serves that one, elsewhere all that `wfctl list` knows.
    """
    settings = settings_of(context)
    require_checked(settings)
    if settings.format is not Format.TEXT:
        raise InvalidOption("serve is for people: `wfctl status -o json` is for programs")
    if port is not None and socket_ is not None:
        raise InvalidOption("expected --port or --socket, found both")
    signal.signal(signal.SIGTERM, _leave)
    find, what = _served(settings, workflows or [])
    if port is not None:
        _on_port(find, port)
    else:
        _on_socket(find, what, socket_)


def _leave(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _on_socket(find: Callable[[], list[ServedRoot]], what: str, path: Path | None) -> None:
    from pages.entrance import listening, usual_socket

    place = path.absolute() if path is not None else usual_socket(what)
    with listening(place) as made:
        try:
            _serve(find, made, None, lambda: _tell_socket(place))
        finally:
            place.unlink(missing_ok=True)


def _tell_socket(place: Path) -> None:
    import getpass

    host = f"{getpass.getuser()}@{socket.gethostname()}"
    say(f"wfctl: serving on {place}. On your own machine:")
    say(f"  ssh -N -L 8000:{place} {host}")
    say("  and open http://localhost:8000/")


def _on_port(find: Callable[[], list[ServedRoot]], port: int) -> None:
    from pages.entrance import Door

    try:
        made = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise InvalidOption(f"--port {port}: {error}; name another, or 0 for a free one") from error
    with made:
        door = Door(made.getsockname()[1], lambda url: say(f"wfctl: open {url} (works once)"))
        _serve(find, made, door, lambda: None)


def _serve(
    find: Callable[[], list[ServedRoot]],
    made: socket.socket,
    door: object,
    ready: Callable[[], None],
) -> None:
    from cli.frame.sight import sight
    from pages.entrance import Door
    from pages.server import serve as served
    from pages.shelf import Shelf

    shelf = Shelf(find, sight())
    served(shelf, made, door if isinstance(door, Door) else None, ready)


def _served(settings: Settings, folders: list[Path]) -> tuple[Callable[[], list[ServedRoot]], str]:
    """Return what finds the workflows, and a name for them, the same each time."""
    plain = replace(settings, root=None, database_url=None)
    if folders:
        _require_folders(folders)
        name = "\n".join(sorted(str(folder.resolve()) for folder in folders))
        return lambda: [_of_root(plain, root) for root in _roots(folders)], name
    url = settings.database_url
    if url is not None and is_server(url) and settings.root is None:
        return partial(_of_server, settings, url), public(url)
    try:
        root = find_root(settings.start)
    except NoRoot:
        if settings.root is not None:
            raise
        return lambda: [_of_root(plain, one) for one in known_roots()], "all"
    read_config(root)
    return lambda: [_of_root(replace(settings, root=root.path), root.path)], str(root.path)


def _require_folders(folders: list[Path]) -> None:
    for folder in folders:
        if not folder.is_dir():
            raise InvalidOption(f"--workflows {folder}: expected a folder, found none")


def _roots(folders: list[Path]) -> Iterator[Path]:
    """Yield the roots that the folders are, or hold."""
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
    return ServedRoot(name, path, _opening(replace(settings, root=path)), str(path))


def _opening(settings: Settings) -> Opening:
    @contextmanager
    def open_() -> Iterator[WorkflowLog]:
        with reading_of(settings) as workflow:
            yield workflow.log

    return open_


def _of_server(settings: Settings, url: str) -> list[ServedRoot]:
    from pages.shelf import ServedRoot

    store = opened(Root(Path.cwd(), url), read_only=True)
    try:
        streams = [name for name in store.streams() if name.startswith(WORKFLOW)]
    finally:
        store.close()
    where = public(url)
    return [
        ServedRoot(stream.removeprefix(WORKFLOW), None, _stream_of(url, stream), where)
        for stream in streams
    ]


def _stream_of(url: str, stream: str) -> Opening:
    @contextmanager
    def open_() -> Iterator[WorkflowLog]:
        from service.reading.log import WorkflowLog

        store = opened(Root(Path.cwd(), url), read_only=True)
        try:
            yield WorkflowLog(store, stream, Path.cwd())
        finally:
            store.close()

    return open_
