"""``wfctl mcp``: the commands as tools of the Model Context Protocol."""

from __future__ import annotations

import os
import secrets
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.workspace import settings_of
from cli.settings import Settings
from cli.terminal.output import say
from cli.version import VERSION
from service.errors import InvalidOption

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

TOKEN = "WFCTL_MCP_TOKEN"  # noqa: S105 - the name of a variable
#: What the commands behind the tools load; imported once, before the first call.
_COMMANDS = (
    "cli.commands.amend",
    "cli.commands.append",
    "cli.commands.audit.amendments",
    "cli.commands.audit.group",
    "cli.commands.blame",
    "cli.commands.diagnosis",
    "cli.commands.diff",
    "cli.commands.dispatch",
    "cli.commands.drift",
    "cli.commands.events",
    "cli.commands.init",
    "cli.commands.log",
    "cli.commands.logs",
    "cli.commands.machine.beginning",
    "cli.commands.machine.changes",
    "cli.commands.machine.describing",
    "cli.commands.machine.group",
    "cli.commands.machine.listing",
    "cli.commands.machine.reads",
    "cli.commands.machine.rehydrating",
    "cli.commands.plan",
    "cli.commands.reconcile",
    "cli.commands.report",
    "cli.commands.session",
    "cli.commands.show",
    "cli.commands.stage",
    "cli.commands.status",
    "cli.commands.tasks",
    "cli.commands.verify",
    "cli.commands.why",
    "cli.frame.checkpoints",
    "cli.frame.writes",
    "cli.program.app",
    "cli.terminal.briefing",
    "cli.terminal.talk",
    "eventstore.engine",
    "eventstore.intake",
    "eventstore.sqlite.store",
    "eventstore.sqlite.writer",
    "lifecycle.payload.stage",
    "lifecycle.plan.advice",
    "projections.files.report",
    "projections.files.schemas",
    "projections.machines.description",
    "reconciler.briefing.rehydrate",
    "reconciler.briefing.shorten",
    "reconciler.context",
    "reconciler.dpdispatcher.late_runner",
    "reconciler.sweep.selection",
    "reconciler.sweep.table",
    "service.documents.strict_yaml",
    "service.files.drift_commands",
    "service.machines.integrity",
    "service.proofs.witness",
    "service.writing.report",
    "service.writing.workflow_service",
    "yaml",
)


def mcp(
    context: typer.Context,
    port: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=65535, help="Serve HTTP on this port; 0: a free one."),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="With --port: the address to listen on.")
    ] = "127.0.0.1",
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="With --port: a name of this host that clients may use."),
    ] = None,
    socket: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Serve HTTP on a new Unix socket.")
    ] = None,
) -> None:
    """Serve agents over the Model Context Protocol: on stdin and stdout, or over HTTP.

    Tools reach the workflows in this folder, as an agent. None of them agrees to anything.
    """
    settings = settings_of(context)
    actor = _agent(settings)
    _check(port, host, allow, socket)
    folder = settings.start.resolve()
    # Forked while this process has one thread and has loaded little.
    from agents.warm import Warm

    warm = Warm(_carried_out, _prepare)
    try:
        _serve(_server(warm, folder, actor), port, host, allow or [], socket)
    finally:
        warm.close()


def _server(warm: Any, folder: Path, actor: str | None) -> Server[Any]:
    from agents.server import Face, build

    return build(Face(warm, folder, actor), VERSION)


def _serve(
    server: Server[Any], port: int | None, host: str, allow: list[str], socket: Path | None
) -> None:
    from agents.serving import free_port, over_http, over_socket, over_stdio

    if socket is not None:
        say(f"wfctl: serving http://localhost/mcp on the socket {socket}")
        over_socket(server, socket)
    elif port is not None:
        token = os.environ.get(TOKEN) or secrets.token_urlsafe(24)
        port = port or free_port(host)
        shown = "" if os.environ.get(TOKEN) else f", header `Authorization: Bearer {token}`"
        say(f"wfctl: serving on http://{host}:{port}/mcp{shown}")
        over_http(server, token, host=host, port=port, allowed=allow)
    else:
        over_stdio(server)


def _agent(settings: Settings) -> str | None:
    """Return who acts, an agent; None where the client says its name."""
    named = settings.actor or os.environ.get("WFCTL_ACTOR")
    if settings.actor is not None and not settings.actor.startswith("agent:"):
        raise InvalidOption(
            f"expected --actor agent:NAME, as only agents act through this server; found "
            f"{settings.actor!r}",
            value=settings.actor,
        )
    return named if named is not None and named.startswith("agent:") else None


def _check(port: int | None, host: str, allow: list[str] | None, socket: Path | None) -> None:
    """Raise `InvalidOption` where the options do not go together or a library is missing."""
    if find_spec("mcp") is None:
        raise InvalidOption(
            "expected the package mcp, found none: install wfctl with its extra, such as "
            "`pipx install 'wfctl-eventstore[mcp]'`"
        )
    if socket is not None and port is not None:
        raise InvalidOption("expected --port or --socket, found both")
    if socket is not None and len(os.fsencode(socket)) > _LONGEST:
        raise InvalidOption(
            f"--socket: expected a path of at most {_LONGEST} bytes, found "
            f"{len(os.fsencode(socket))}; name a shorter one"
        )
    if socket is not None:
        _check_place(socket)
    if host not in _LOOPBACK and not allow:
        raise InvalidOption(
            f"--host {host} can be reached from other machines: say with --allow NAME by which "
            "name clients may use it, or leave --host out"
        )


def _check_place(socket: Path) -> None:
    """Raise `InvalidOption` where something lies at the place of the socket that is in use."""
    from agents.serving import is_left_behind

    if not socket.exists() or is_left_behind(socket):
        return
    found = "one that a server listens on" if socket.is_socket() else "a file"
    raise InvalidOption(
        f"--socket: expected nothing at {socket}, or a socket on which nobody listens; found "
        f"{found}. Name another place",
        path=str(socket),
    )


#: Bytes that Linux takes for the name of a Unix socket: `man 7 unix`.
_LONGEST = 107
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def _carried_out(arguments: list[str]) -> int:
    from cli.main import run

    return run(arguments)


def _prepare() -> None:
    from importlib import import_module

    from cli.program.app import build

    for name in _COMMANDS:
        import_module(name)
    build()
