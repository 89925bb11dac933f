"""``wfctl checkpoint``: the log as it stands, in three lines that this login signs."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.checkpoints import signed_now, write_new
from cli.frame.workspace import Reading, reading
from cli.terminal.output import say
from service.errors import InvalidOption

if TYPE_CHECKING:
    from service.proofs.note import Note
    from service.proofs.signing import SignedCheckpoint

Machine = Annotated[str | None, typer.Option(metavar="ID", help="Of the log of a phase machine.")]


def checkpoint(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Write it to this new file too.")
    ] = None,
    git_tag: Annotated[
        bool, typer.Option("--git-tag", help="Keep it as a tag of the root's repository too.")
    ] = False,
    witness: Annotated[
        str | None, typer.Option(metavar="URL", help="Have a witness cosign it.")
    ] = None,
    witness_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="The witness's public key, or a file of it.")
    ] = None,
    public_key: Annotated[
        bool, typer.Option("--public-key", help="Print this login's public key for this log alone.")
    ] = False,
    machine: Machine = None,
) -> None:
    """Sign what the log is now: its origin, its size and the root hash of its events.

    Kept in .wfctl/checkpoints/, where fsck and verify hold the log against it. What is to show that
    a log was cut or written anew has to lie where this login cannot change it.
    """
    if (witness is None) != (witness_key is None):
        raise InvalidOption(
            "--witness and --witness-key go together: an answer is only taken from"
            " a known key; `wfctl witness show` prints it there"
        )
    with reading(context) as workflow:
        stream = stream_of(workflow, machine)
        signed = signed_now(workflow, stream)
        if public_key:
            workflow.output.result({"public_key": str(signed.key)}, lambda: str(signed.key))
            return
        note = signed.note
        if witness is not None and witness_key is not None:
            note = _cosigned(workflow, stream, signed, witness, witness_key)
        data = _kept(workflow, signed, note, file, git_tag=git_tag)
        workflow.output.result(data, lambda: str(data["checkpoint"]).removesuffix("\n"))


def stream_of(workflow: Reading, machine: str | None) -> str:
    """Return the stream of the workflow, or of a machine; raises `StateNotFound`."""
    if machine is None:
        return workflow.log.stream
    from service.machines.log import MachineLog

    log = MachineLog(workflow.log.store, machine, workflow.root.path)
    log.current()
    return log.stream


def _cosigned(workflow: Reading, stream: str, signed: SignedCheckpoint, url: str, key: str) -> Note:
    from service.proofs.asking import cosignature, keys_named

    return cosignature(
        workflow.log.store,
        stream,
        signed.checkpoint,
        signed.note,
        url=url,
        key=keys_named([key])[0],
    )


def _kept(
    workflow: Reading, signed: SignedCheckpoint, note: Note, file: Path | None, *, git_tag: bool
) -> dict[str, Any]:
    from service.proofs.kept import keep, tag

    path, whole = keep(workflow.root, signed.checkpoint, note)
    data: dict[str, Any] = {
        "origin": signed.checkpoint.origin,
        "size": signed.checkpoint.size,
        "root": b64encode(signed.checkpoint.root).decode(),
        "public_key": str(signed.key),
        "checkpoint": str(whole),
        "kept": str(path.relative_to(workflow.root.path)),
    }
    if file is not None:
        write_new(file, str(whole).encode())
        data["file"] = str(file)
    if git_tag:
        data["tag"] = tag(workflow.root, signed.checkpoint, whole)
        say(f"wfctl: tagged as {data['tag']}; it shows something once it is pushed elsewhere")
    return data
