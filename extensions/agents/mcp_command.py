"""The command ``wfctl mcp``, which offers wfctl commands as tools over MCP."""

from __future__ import annotations

import os
import secrets
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from cli.frame.context import Context
from cli.frame.options import File, Texts, option
from cli.frame.workspace import settings_of
from cli.terminal.output import print_message
from cli.version import VERSION
from service.errors import InvalidOption
from wfctl_eventstore.extension import is_installed

TOKEN = "WFCTL_MCP_TOKEN"  # noqa: S105 - the name of a variable
#: Package → names of its modules that the tool commands need. They are imported in advance, so that
#: the first call is not slow.
_COMMANDS = {
    "cli.commands": "amend append compare diff diagnose dispatch drift events init logs plan "
    "reconcile rehydrate session show stage status tasks wait why",
    "cli.frame": "write_command",
    "cli.program": "tree",
    "cli.terminal": "briefing progress_messages",
    "eventstore": "engine import_rows sqlite.store sqlite.connection",
    "lifecycle": "payload.stage plan.advice",
    "extensions.exports": "command",
    "extensions.history": "command",
    "extensions.machines": "commands.changes commands.create_machine commands.show_machines "
    "service.inspection views.description",
    "extensions.proofs": "check_checkpoints witness",
    "projections": "files.report files.schemas",
    "reconciler": "briefing.briefing briefing.rehydrate context sweep.table",
    "service": "documents.strict_yaml files.foreign_changes writing.workflow_service",
}


def mcp(
    context: Context,
    port: int | None = option(
        "N",
        "Serve HTTP on this port instead of using stdin and stdout. Use 0 for any free port.",
        min=0,
        max=65535,
    ),
    host: str = option(
        "ADDRESS", "Listen on this network address. Requires --port.", default="127.0.0.1"
    ),
    allow: Texts = option(
        "NAME",
        "Accept HTTP requests whose Host header is this name. Requires --port. You "
        "can repeat this option.",
    ),
    socket: File = option(
        "PATH", "Serve HTTP on a new Unix socket at this path instead of using stdin and stdout."
    ),
) -> None:
    """Serve agents over the Model Context Protocol (MCP).

    The server uses stdin and stdout, or HTTP. Its tools let an agent work with the workflows in
    this folder. No tool can approve a change.
    """
    settings = settings_of(context)
    named = settings.actor or os.environ.get("WFCTL_ACTOR")
    if settings.actor is not None and not settings.actor.startswith("agent:"):
        raise InvalidOption(
            "this server accepts only agents as actors, but the given actor is "
            f"{settings.actor!r}. Give an agent with --actor agent:NAME.",
            value=settings.actor,
        )
    actor = named if named is not None and named.startswith("agent:") else None
    _check_options(port, host, allow, socket)
    folder = settings.start.resolve()
    # Forking is safe and fast now, because this process has one thread and few loaded modules.
    from extensions.agents.warm_process import WarmProcess

    with closing(WarmProcess(_run_command_line, _import_commands)) as warm:
        from extensions.agents.server import ServerState, build_server
        from extensions.agents.serving import (
            free_port,
            serve_over_http,
            serve_over_socket,
            serve_over_stdio,
        )

        server = build_server(ServerState(warm, folder, actor), VERSION)
        if socket is not None:
            print_message(f"wfctl: serving http://localhost/mcp on the socket {socket}")
            serve_over_socket(server, socket)
        elif port is not None:
            token = os.environ.get(TOKEN) or secrets.token_urlsafe(24)
            port = port or free_port(host)
            shown = "" if os.environ.get(TOKEN) else f", header `Authorization: Bearer {token}`"
            print_message(f"wfctl: serving on http://{host}:{port}/mcp{shown}")
            serve_over_http(server, token, host=host, port=port, allowed=allow or [])
        else:
            serve_over_stdio(server)


def _check_options(
    port: int | None, host: str, allow: list[str] | None, socket: Path | None
) -> None:
    if find_spec("mcp") is None:
        raise InvalidOption(
            "the Python package mcp is not installed. To install wfctl with this package, run "
            "`pipx install 'wfctl-eventstore[mcp]'`."
        )
    if socket is not None:
        from extensions.agents.serving import is_leftover_socket

        size = len(os.fsencode(socket))
        if port is not None:
            raise InvalidOption(
                "the options --port and --socket cannot be combined. Choose one of these options."
            )
        if size > _LONGEST:
            raise InvalidOption(
                f"the option --socket accepts a path of at most {_LONGEST} bytes, but the given "
                f"path has {size} bytes. Choose a shorter path."
            )
        if socket.exists() and not is_leftover_socket(socket):
            used = "a running server already uses it"
            found = used if socket.is_socket() else "a file already exists at this path"
            raise InvalidOption(
                f"the socket {socket} cannot be created, because {found}. Choose another path "
                "with --socket.",
                path=str(socket),
            )
    if host not in _LOOPBACK and not allow:
        raise InvalidOption(
            f"other machines can reach the server with --host {host}, so wfctl needs the host "
            "name that clients use. Give this name with --allow NAME, or remove --host."
        )


#: Maximum length in bytes of a Unix socket path on Linux; see `man 7 unix`.
_LONGEST = 107
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def _run_command_line(arguments: list[str]) -> int:
    from cli.main import run

    return run(arguments)


def _import_commands() -> None:
    from cli.program.tree import build_program

    for package, names in _COMMANDS.items():
        extension = package.removeprefix("extensions.")
        for name in names.split() if extension == package or is_installed(extension) else ():
            import_module(f"{package}.{name}")
    import_module("yaml")
    build_program()
