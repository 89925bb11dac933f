"""``wfctl prove``: a file that shows where a result comes from, to whoever has a public key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.workspace import Reading, reading, settings_of
from cli.terminal.output import Output
from service.errors import InvalidOption

if TYPE_CHECKING:
    from service.proofs.checkpoint import Checkpoint
    from service.proofs.note import Note, VerifierKey


def prove(
    context: typer.Context,
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[WHAT]",
            help="stage-3.outputs/FILE (with #/POINTER: a value in it), stage-1.metrics/TASK/NAME, "
            "a stage, an amendment, or a version.",
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Where to write it; else to stdout.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Under this checkpoint, such as a witness cosigned."),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="With all that it rests on, above 2.5 kB too.")
    ] = False,
    check: Annotated[
        Path | None, typer.Option(metavar="PROOF", help="Check a proof; no log is needed.")
    ] = None,
    of: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --check: this is the file it is of.")
    ] = None,
    public_key: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="With --check: who must have signed; also witnesses."),
    ] = None,
) -> None:
    """Write a proof that a result was recorded, with its attempt, inputs, command and consent.

    It is checked with nothing but itself and a public key (exit 7: it does not hold).
    """
    if check is not None:
        _check(context, check, of, public_key or [])
        return
    if what is None or of is not None or public_key:
        raise InvalidOption("expected WHAT to prove, or --check PROOF with --public-key KEY")
    from cli.frame.checkpoints import write_new
    from service.proofs.proving import prove as proven

    with reading(context) as workflow:
        proof = proven(workflow.log, what, *_under(workflow, checkpoint), whole=whole)
        content = str(proof).encode("utf-8", "surrogateescape")
        if file is not None:
            write_new(file, content)
        texts = len(proof.texts) + 1
        data: dict[str, Any] = {"what": what, "bytes": len(content), "texts": texts}
        data |= {"file": str(file)} if file is not None else {"proof": str(proof)}
        told = f"{file}: a proof of {what}, {len(content)} bytes"
        workflow.output.result(data, lambda: told if file else str(proof).removesuffix("\n"))


def _under(workflow: Reading, file: Path | None) -> tuple[Checkpoint, Note]:
    """Return the checkpoint that a file holds, or one of the log as it stands, kept in the root."""
    from cli.frame.checkpoints import signed_now
    from service.proofs.checkpoint import read_checkpoint
    from service.proofs.kept import keep
    from service.proofs.note import read_note

    if file is not None:
        note = read_note(file.read_bytes())
        return read_checkpoint(note), note
    signed = signed_now(workflow, workflow.log.stream)
    return signed.checkpoint, keep(workflow.root, signed.checkpoint, signed.note)[1]


def _check(context: typer.Context, path: Path, of: Path | None, named: list[str]) -> None:
    from service.proofs.checking import check
    from service.proofs.proof import read_proof

    shown = check(read_proof(path.read_bytes()), _keys(named), of)
    Output(settings_of(context)).result(shown, lambda: "\n".join(_lines(shown)))


def _keys(named: list[str]) -> list[VerifierKey]:
    from service.proofs.asking import keys_named

    if not named:
        raise InvalidOption(
            "expected --public-key KEY of the log, which `wfctl checkpoint --public-key` prints "
            "where it was signed; it comes by another way than the proof"
        )
    return keys_named(named)


def _lines(shown: dict[str, Any]) -> list[str]:
    claim, attempt = shown["claim"], shown.get("attempt")
    signers = ", ".join(shown["cosigned_by"]) or "no witness that was named"
    lines = [f"holds: {shown['what']}, version {shown['version']} of {shown['origin']}"]
    if claim is not None:
        lines.append(f"  file      {claim['path']} {claim['sha256']}")
    if "adopted" in shown:
        adopted = shown["adopted"]
        by = f"by {adopted['approved_by']} ({adopted['policy']})"
        how = by if adopted["approved_by"] else "and nobody agreed to it"
        lines.append(f"  adopted   changed by hand and taken as it is, {how}: {adopted['reason']}")
    if "value" in shown:
        lines.append(f"  value     {shown['value']}")
    if shown.get("command"):
        lines.append(f"  command   {shown['command']}")
    if attempt is not None:
        lines.append(f"  attempt   {attempt['attempt']} on {attempt['host']}")
        lines += [f"  input     {one['path']} {one['sha256']}" for one in attempt["inputs"]]
    for one in shown["consent"]:
        how = f"signed with {one['key']}" if "key" in one else one["policy"]
        lines.append(f"  consent   {one['amendment']} by {one['approved_by']} ({how})")
    lines += [f"  not shown {what}" for what in shown["not_shown"]]
    recorded = f"recorded at {shown['recorded_at']}, of {shown['size']} events"
    return [*lines, f"  {recorded}; cosigned by {signers}"]
