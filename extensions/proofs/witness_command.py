"""``wfctl witness``: run a witness, which signs the logs of others."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cli.frame.context import Context
from cli.frame.options import argument, option
from cli.frame.workspace import settings_of
from cli.terminal.output import Output, print_message

if TYPE_CHECKING:
    from extensions.proofs.witness import Witness, WitnessedLog


_DONE = 200


def watch(
    context: Context,
    keys: Annotated[
        list[str],
        argument(
            "KEY...", "The public keys of the logs to watch. Each KEY is a key or a key file."
        ),
    ],
) -> None:
    """Add logs for the witness to watch.

    The witness trusts the first checkpoint (signed state) of each log.
    """
    from extensions.proofs.witness import read_public_keys

    witness = _open_witness()
    found = [_describe_log(witness.watch(key)) for key in read_public_keys(keys)]
    lines = [f"{one['origin']}: watched" for one in found]
    Output(settings_of(context)).result(found, lambda: "\n".join(lines))


def serve(
    context: Context,
    host: str = option("ADDRESS", "Listen on this network address.", default="127.0.0.1"),
    port: int = option(
        "N", "Listen on this port. Use 0 for any free port.", min=0, max=65535, default=0
    ),
) -> None:
    """Run a witness as an HTTP server.

    A witness confirms that events were only added to a log. The server uses the protocol
    c2sp.org/tlog-witness.
    """
    from extensions.proofs.witness_server import WitnessServer

    with WitnessServer(_open_witness(), host, port) as serving:
        print_message(f"wfctl: a witness at http://{host}:{serving.server_address[1]}")
        serving.serve_forever()


def cosign(
    context: Context,
    file: Annotated[
        Path,
        argument(
            "FILE",
            "The file with the request to sign a checkpoint, in the format of the "
            "tlog-witness protocol.",
        ),
    ],
) -> None:
    """Sign a checkpoint (a signed state of a log) as a witness.

    The exit code is 7 if the witness refuses to sign.
    """
    from extensions.proofs.errors import NotWitnessed

    reply = _open_witness().answer(file.read_bytes())
    if reply.status != _DONE:
        raise NotWitnessed(
            f"not cosigned ({reply.status}): {reply.body.strip()}", status=reply.status
        )
    data = {"cosignature": reply.body}
    Output(settings_of(context)).result(data, lambda: reply.body.removesuffix("\n"))


def show(context: Context) -> None:
    """Print the public key of the witness and the logs it watches.

    For each log, print the size that the witness signed last.
    """
    from extensions.proofs.checkpoint import load_or_create_witness_signer

    key, seen = (
        str(load_or_create_witness_signer().public),
        [_describe_log(one) for one in _open_witness().all_seen()],
    )
    lines = [key, *(f"{one['origin']}: {one['size'] or 'nothing seen yet'}" for one in seen)]
    data = {"public_key": key, "logs": seen}
    Output(settings_of(context)).result(data, lambda: "\n".join(lines))


def _describe_log(seen: WitnessedLog) -> dict[str, Any]:
    last = seen.checkpoint
    return {
        "origin": seen.origin,
        "keys": list(seen.keys),
        "size": last.size if last is not None else None,
        "checkpoint": seen.note,
    }


def _open_witness() -> Witness:
    from extensions.proofs.witness import Witness

    return Witness(lambda: int(time.time()))
