"""``wfctl witness``: this login vouches that logs of others only grow."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.workspace import settings_of
from cli.terminal.output import Output, say

if TYPE_CHECKING:
    from service.proofs.witness import Witness, WitnessedLog

_DONE = 200


def build() -> typer.Typer:
    """Return the group of commands."""
    group = typer.Typer(help="Vouch that logs of others only grow.", no_args_is_help=True)
    group.command("watch")(watch)
    group.command("serve")(serve)
    group.command("cosign")(cosign)
    group.command("show")(show)
    return group


def watch(
    context: typer.Context,
    keys: Annotated[
        list[str],
        typer.Argument(metavar="KEY...", help="Public keys of logs, or files that hold one."),
    ],
) -> None:
    """Take in logs by their public keys; the first checkpoint of each is cosigned as it comes."""
    from service.proofs.asking import keys_named

    witness = _witness()
    found = [_told(witness.watch(key)) for key in keys_named(keys)]
    _result(context, found, lambda: "\n".join(f"{one['origin']}: watched" for one in found))


def serve(
    context: typer.Context,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="The port; 0: a free one.")
    ] = 0,
) -> None:
    """Answer over HTTP, by the protocol c2sp.org/tlog-witness, until it is stopped."""
    from service.proofs.witness_server import WitnessServer

    with WitnessServer(_witness(), host, port) as serving:
        say(f"wfctl: a witness at http://{host}:{serving.server_address[1]}")
        serving.serve_forever()


def cosign(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A request add-checkpoint, as it was sent.")
    ],
) -> None:
    """Answer one request from a file, with no network (exit 7: not cosigned)."""
    from service.proofs.errors import NotWitnessed

    reply = _witness().answer(file.read_bytes())
    if reply.status != _DONE:
        raise NotWitnessed(
            f"not cosigned ({reply.status}): {reply.body.strip()}", status=reply.status
        )
    _result(context, {"cosignature": reply.body}, lambda: reply.body.removesuffix("\n"))


def show(context: typer.Context) -> None:
    """Print this witness's public key, and each log with the last size that was cosigned."""
    from service.proofs.keys import witness_signer

    key, seen = str(witness_signer().public), [_told(one) for one in _witness().all_seen()]
    lines = [key, *(f"{one['origin']}: {one['size'] or 'nothing seen yet'}" for one in seen)]
    _result(context, {"public_key": key, "logs": seen}, lambda: "\n".join(lines))


def _told(seen: WitnessedLog) -> dict[str, Any]:
    last = seen.checkpoint
    return {
        "origin": seen.origin,
        "keys": list(seen.keys),
        "size": last.size if last is not None else None,
        "checkpoint": seen.note,
    }


def _witness() -> Witness:
    from service.proofs.witness import Witness

    return Witness(lambda: int(time.time()))


def _result(context: typer.Context, data: Any, text: Any) -> None:
    Output(settings_of(context)).result(data, text)
