"""``wfctl prove``: a file that shows where a result comes from, to anyone who has a public key."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.checkpoints import signed_now, write_new
from cli.frame.consent import asked_at_terminal
from cli.frame.options import File, Text, Texts, argument, option
from cli.frame.workspace import Reading, reading, settings_of
from cli.settings import actor_of
from cli.terminal.output import Output, say
from lifecycle.errors import NeedsConsent
from service.consent.approvals import Approvals
from service.consent.proof import Policy
from service.errors import InvalidOption
from service.reading.trust_marks import SALVAGED, TrustMark, agree, marks_of

if TYPE_CHECKING:
    from service.proofs.witness import Witness, WitnessedLog


def prove(
    context: typer.Context,
    what: Text = argument(
        "[WHAT]",
        "stage-3.outputs/FILE (with #/POINTER: a value in it), stage-2.metrics/NAME, "
        "stage-1.metrics/TASK/NAME, search@2.metrics/stage-1.NAME of a round, a stage, an "
        "amendment, or a version.",
    ),
    file: File = argument("[FILE]", "File to write (default: stdout)."),
    checkpoint: File = option(
        "FILE", "Use this checkpoint, for example one that a witness cosigned."
    ),
    whole: bool = option("Include all dependencies, also above 2.5 kB."),
    check: File = option("PROOF", "Check a proof; this needs no log."),
    of: File = option("FILE", "With --check: file that the proof is about."),
    public_key: Texts = option(
        "KEY", "With --check: public keys that must have signed, witnesses too."
    ),
) -> None:
    """Write a proof that a result was recorded.

    The proof covers the attempt, inputs, command and consent. It is checked with nothing except the
    proof and a public key (exit 7 if it is not valid).
    """
    if check is not None:
        _check(context, check, of, public_key or [])
        return
    if what is None or of is not None or public_key:
        raise InvalidOption("expected WHAT to prove, or --check PROOF with --public-key KEY")
    from service.proofs.checkpoint import keep, read_checkpoint
    from service.proofs.note import read_note
    from service.proofs.proof import prove as proven

    with reading(context) as workflow:
        if checkpoint is not None:
            note = read_note(checkpoint.read_bytes())
            under = read_checkpoint(note)
        else:
            signed = signed_now(workflow, workflow.log.stream)
            under, note = signed.checkpoint, keep(workflow.root, signed.checkpoint, signed.note)[1]
        proof = proven(workflow.log, what, under, note, whole=whole)
        content = str(proof).encode("utf-8", "surrogateescape")
        if file is not None:
            write_new(file, content)
        texts = len(proof.texts) + 1
        data: dict[str, Any] = {"what": what, "bytes": len(content), "texts": texts}
        data |= {"file": str(file)} if file is not None else {"proof": str(proof)}
        told = f"{file}: a proof of {what}, {len(content)} bytes"
        workflow.output.result(data, lambda: told if file else str(proof).removesuffix("\n"))


def _check(context: typer.Context, path: Path, of: Path | None, named: list[str]) -> None:
    from service.proofs.judging import check
    from service.proofs.proof import read_proof
    from service.proofs.witness import keys_named

    proof = read_proof(path.read_bytes())
    if not named:
        raise InvalidOption(
            "expected --public-key KEY of the log, which `wfctl checkpoint --public-key` prints "
            "where it was signed; it comes by another way than the proof"
        )
    shown = check(proof, keys_named(named), of)
    Output(settings_of(context)).result(shown, lambda: "\n".join(_lines(shown)))


def _lines(shown: dict[str, Any]) -> Iterator[str]:
    yield f"holds: {shown['what']}, version {shown['version']} of {shown['origin']}"
    if (claim := shown["claim"]) is not None:
        yield f"  file      {claim['path']} {claim['sha256']}"
    if "round" in shown:
        yield f"  round     {shown['round']}"
    if "adopted" in shown:
        adopted = shown["adopted"]
        by = f"by {adopted['approved_by']} ({adopted['policy']})"
        how = by if adopted["approved_by"] else "and nobody agreed to it"
        yield f"  adopted   changed by hand and taken as it is, {how}: {adopted['reason']}"
    if "value" in shown:
        yield f"  value     {shown['value']}"
    if shown.get("command"):
        yield f"  command   {shown['command']}"
    if (attempt := shown.get("attempt")) is not None:
        yield f"  attempt   {attempt['attempt']} on {attempt['host']}"
        yield from (f"  input     {one['path']} {one['sha256']}" for one in attempt["inputs"])
    for one in shown["consent"]:
        how = f"signed with {one['key']}" if "key" in one else one["policy"]
        yield f"  consent   {one['amendment']} by {one['approved_by']} ({how})"
    yield from (f"  not shown {what}" for what in shown["not_shown"])
    signers = ", ".join(shown["cosigned_by"]) or "no witness that was named"
    recorded = f"recorded at {shown['recorded_at']}, of {shown['size']} events"
    yield f"  {recorded}; cosigned by {signers}"


_DONE = 200


def watch(
    context: typer.Context,
    keys: Annotated[list[str], argument("KEY...", "Public keys of logs (keys or files).")],
) -> None:
    """Watch logs by their public keys; the first checkpoint of each is trusted."""
    from service.proofs.witness import keys_named

    witness = _witness()
    found = [_told(witness.watch(key)) for key in keys_named(keys)]
    lines = [f"{one['origin']}: watched" for one in found]
    Output(settings_of(context)).result(found, lambda: "\n".join(lines))


def serve(
    context: typer.Context,
    host: str = option("ADDRESS", "Address to listen on.", default="127.0.0.1"),
    port: int = option(
        "N", "Port to listen on; 0 chooses a free port.", min=0, max=65535, default=0
    ),
) -> None:
    """Serve the protocol c2sp.org/tlog-witness over HTTP."""
    from service.proofs.witness_server import WitnessServer

    with WitnessServer(_witness(), host, port) as serving:
        say(f"wfctl: a witness at http://{host}:{serving.server_address[1]}")
        serving.serve_forever()


def cosign(
    context: typer.Context,
    file: Annotated[Path, argument("FILE", "File of an add-checkpoint request.")],
) -> None:
    """Cosign one request from a file (exit 7 if refused)."""
    from service.proofs.note import NotWitnessed

    reply = _witness().answer(file.read_bytes())
    if reply.status != _DONE:
        raise NotWitnessed(
            f"not cosigned ({reply.status}): {reply.body.strip()}", status=reply.status
        )
    data = {"cosignature": reply.body}
    Output(settings_of(context)).result(data, lambda: reply.body.removesuffix("\n"))


def show(context: typer.Context) -> None:
    """Print the public key of the witness and the last cosigned size of each log."""
    from service.proofs.checkpoint import witness_signer

    key, seen = str(witness_signer().public), [_told(one) for one in _witness().all_seen()]
    lines = [key, *(f"{one['origin']}: {one['size'] or 'nothing seen yet'}" for one in seen)]
    data = {"public_key": key, "logs": seen}
    Output(settings_of(context)).result(data, lambda: "\n".join(lines))


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


def pin(
    context: typer.Context, replace: bool = option("Pin the current logs, after a person confirms.")
) -> None:
    """Show the logs that your user account has pinned.

    Pins lie outside of the workflow's folder and show when a log was replaced.
    """
    from service.machines.log import machines_in

    with reading(context) as workflow:
        logs: list[tuple[Approvals, Policy]] = []
        if workflow.config.workflow is not None:
            logs.append((workflow.log.approvals, workflow.state()))
        machines = map(workflow.machine, machines_in(workflow.log.store))
        logs += [(log.approvals, log.current()) for log in machines]
        if replace:
            _repin(context, workflow, logs)
        found = [_described(workflow, approvals) for approvals, _ in logs]
        text = "\n".join(f"{one['log']}: {one['says']}" for one in found)
        workflow.output.result(found, lambda: text or "no logs here")


def _described(workflow: Reading, approvals: Approvals) -> dict[str, Any]:
    pinned = "pinned" if approvals.is_pinned() else "not pinned by this login"
    marks = [str(one.to_item()) for one in _against(workflow, approvals)]
    return {
        "log": approvals.stream,
        "first": approvals.first_hash(),
        "pinned": [pin.first for pin in approvals.pinned_here()],
        "says": "; ".join([approvals.pin_objection() or pinned, *marks]),
    }


def _against(workflow: Reading, approvals: Approvals) -> list[TrustMark]:
    marks = marks_of(workflow.root, approvals.store, approvals.stream)
    return [one for one in marks if one.kind != SALVAGED]


def _repin(context: typer.Context, workflow: Reading, logs: list[tuple[Approvals, Policy]]) -> None:
    changed = [
        (a, state)
        for a, state in logs
        if a.pin_objection() or not a.is_pinned() or _against(workflow, a)
    ]
    if not changed:
        return
    lines = [
        f"{a.stream}: {_described(workflow, a)['says']}\n  first event {a.first_hash()}, "
        f"consent by {state.consent}, "
        f"pinned here: {', '.join(p.first for p in a.pinned_here()) or 'nothing'}"
        for a, state in changed
    ]
    lines.append("From now on these logs are taken for the right ones, with their approvals.")
    actor, text = actor_of(settings_of(context)), "\n".join(lines)
    if not asked_at_terminal(actor, "the pin of this root", text, "wfctl pin --replace"):
        raise NeedsConsent("the pins stay as they are: n was typed.")
    for approvals, state in changed:
        approvals.repin(state)
        agree(workflow.root, approvals.store, approvals.stream)


Machine = Annotated[Text, option("ID", "Use the log of a phase machine.")]


def checkpoint(
    context: typer.Context,
    file: File = argument("[FILE]", "Write the checkpoint to this new file too."),
    git_tag: bool = option("Store the checkpoint as a git tag too."),
    witness: Text = option("URL", "Let a witness cosign the checkpoint."),
    witness_key: Text = option("KEY", "Public key of the witness (key or file)."),
    public_key: bool = option("Print only your public key for this log."),
    machine: Machine = None,
) -> None:
    """Sign the current state of the log.

    A checkpoint holds the origin of the log, its size and the root hash of its events. It is kept
    in .wfctl/checkpoints/, and fsck and verify compare the log with it. To show that a log was cut
    or rewritten, keep a copy where your user account cannot change it.
    """
    if (witness is None) != (witness_key is None):
        raise InvalidOption(
            "--witness and --witness-key go together: an answer is only taken from"
            " a known key; `wfctl witness show` prints it there"
        )
    from service.proofs.checkpoint import keep, tag
    from service.proofs.witness import cosignature, keys_named

    with reading(context) as workflow:
        stream = workflow.log.stream
        if machine is not None:
            log = workflow.machine(machine)
            log.current()
            stream = log.stream
        signed = signed_now(workflow, stream)
        if public_key:
            workflow.output.result({"public_key": str(signed.key)}, lambda: str(signed.key))
            return
        made, note = signed.checkpoint, signed.note
        if witness is not None and witness_key is not None:
            key = keys_named([witness_key])[0]
            note = cosignature(workflow.log.store, stream, made, note, url=witness, key=key)
        path, cosigned = keep(workflow.root, made, note)
        data: dict[str, Any] = {
            "origin": made.origin,
            "size": made.size,
            "root": b64encode(made.root).decode(),
            "public_key": str(signed.key),
            "checkpoint": str(cosigned),
            "kept": str(path.relative_to(workflow.root.path)),
        }
        if file is not None:
            write_new(file, str(cosigned).encode())
            data["file"] = str(file)
        if git_tag:
            data["tag"] = tag(workflow.root, made, cosigned)
            say(f"wfctl: tagged as {data['tag']}; it shows something once it is pushed elsewhere")
        workflow.output.result(data, lambda: str(data["checkpoint"]).removesuffix("\n"))
