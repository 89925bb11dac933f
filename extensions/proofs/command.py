"""``wfctl prove`` and ``wfctl checkpoint``: prove the origin of a result, and sign the log.

A proof is a file that shows the origin of a result to anyone with a public key.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from cli.frame.context import Context
from cli.frame.options import File, Text, Texts, argument, option
from cli.frame.workspace import open_for_reading, settings_of
from cli.frame.write_command import write_new
from cli.terminal.output import Output, print_message
from extensions.proofs.check_checkpoints import signed_now
from service.errors import InvalidOption

What = Annotated[
    Text,
    argument(
        "[WHAT]",
        "The fact to prove: an output file (stage-3.outputs/FILE), a value in a JSON "
        "file (stage-3.outputs/FILE#/POINTER), a metric of a stage "
        "(stage-2.metrics/NAME), of a task (stage-1.metrics/TASK/NAME) or of a loop's "
        "round 2 (LOOP@2.metrics/stage-1.NAME), a stage (stage-2), an amendment "
        "(amend-1), or an event number (12).",
    ),
]
Signed = Annotated[
    File,
    option(
        "FILE",
        "Base the proof on this checkpoint file (a signed state of the log). Default: "
        "sign a new checkpoint.",
    ),
]


def prove(
    context: Context,
    what: What = None,
    file: File = argument("[FILE]", "The file to write the proof to (default: stdout)."),
    checkpoint: Signed = None,
    whole: bool = option(
        "Include the proofs of all earlier stages. Default: include only as many as fit in 2.6 kB."
    ),
    check: File = option(
        "PROOF",
        "Check this proof file instead of writing a proof. The check does not need the log.",
    ),
    of: File = option(
        "FILE", "Also check that the proof was made for this file. Requires --check."
    ),
    public_key: Texts = option(
        "KEY",
        "Require that the proof is signed with this public key. Requires --check. You "
        "can repeat this option.",
    ),
) -> None:
    """Write a proof that a result was recorded.

    The proof also covers the run, its inputs and command, and the approval. Anybody can check
    the proof with --check and a public key, without the log. The exit code is 7 if a proof is not
    valid.
    """
    if check is not None:
        _check_proof(context, check, of, public_key or [])
        return
    if what is None or of is not None or public_key:
        raise InvalidOption(
            "name the result to prove (WHAT), or check a proof with --check PROOF --public-key "
            "KEY. The options --of and --public-key can be used only with --check"
        )
    from extensions.proofs.checkpoint import keep_checkpoint, read_checkpoint
    from extensions.proofs.proof import build_proof as proven
    from extensions.proofs.signed_note import read_note
    from service.questions.audit import require_sound

    with open_for_reading(context) as workflow:
        if checkpoint is not None:
            require_sound(workflow.root, workflow.log)
            note = read_note(checkpoint.read_bytes())
            under = read_checkpoint(note)
        else:
            signed = signed_now(workflow, workflow.log)
            under, note = (
                signed.checkpoint,
                keep_checkpoint(workflow.root, signed.checkpoint, signed.note)[1],
            )
        proof = proven(workflow.log, what, under, note, whole=whole)
        content = str(proof).encode("utf-8", "surrogateescape")
        if file is not None:
            write_new(file, content)
        texts = len(proof.texts) + 1
        data: dict[str, Any] = {"what": what, "bytes": len(content), "texts": texts}
        data |= {"file": str(file)} if file is not None else {"proof": str(proof)}
        told = f"{file}: a proof of {what}, {len(content)} bytes"
        workflow.output.result(data, lambda: told if file else str(proof).removesuffix("\n"))


def _check_proof(context: Context, path: Path, of: Path | None, named: list[str]) -> None:
    from extensions.proofs.check_proof import check_proof
    from extensions.proofs.proof import read_proof
    from extensions.proofs.witness import read_public_keys

    proof = read_proof(path.read_bytes())
    if not named:
        raise InvalidOption(
            "the check of a proof needs the public key of the log. Add the option --public-key "
            "KEY. The signer of the log prints the key with `wfctl checkpoint --public-key`. Get "
            "the key from the signer, not together with the proof."
        )
    shown = check_proof(proof, read_public_keys(named), of)
    from projections.words.text import spell_unseen

    Output(settings_of(context)).result(
        shown, lambda: "\n".join(map(spell_unseen, _format_proof(shown)))
    )


def _format_proof(shown: dict[str, Any]) -> Iterator[str]:
    yield f"holds: {shown['what']}, version {shown['version']} of {shown['origin']}"
    if (claim := shown["claim"]) is not None:
        yield f"  file      {claim['path']} {claim['sha256']}"
    if "round" in shown:
        yield f"  round     {shown['round']}"
    if "adopted" in shown:
        adopted = shown["adopted"]
        by = f"by {adopted['approved_by']} ({adopted['policy']})"
        how = by if adopted["approved_by"] else "and nobody approved it"
        yield f"  adopted   changed by hand and accepted, {how}: {adopted['reason']}"
    if "value" in shown:
        value, error, unit = (shown.get(name) for name in ("value", "error", "unit"))
        told = json.dumps(value, ensure_ascii=False)
        told += f" ± {json.dumps(error)}" if error is not None else ""
        yield f"  value     {told} {unit}" if unit else f"  value     {told}"
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


Machine = Annotated[
    Text,
    option(
        "ID",
        "Use the log of this phase machine (the tracked work of an agent) instead of "
        "the log of the workflow.",
    ),
]


CopyFile = Annotated[
    File, argument("[FILE]", "Also write the checkpoint to this file. The file must not exist yet.")
]
WitnessUrl = Annotated[
    Text,
    option(
        "URL",
        "Ask the witness at this URL to sign the checkpoint too. A witness is a "
        "server that confirms that no event was changed or deleted.",
    ),
]


def checkpoint(
    context: Context,
    file: CopyFile = None,
    git_tag: bool = option("Also store the checkpoint as a tag in the git repository."),
    witness: WitnessUrl = None,
    witness_key: Text = option(
        "KEY",
        "Fail unless the witness signs with this public key. KEY is the key itself or a file.",
    ),
    public_key: bool = option("Print your public key for this log and exit, without signing."),
    machine: Machine = None,
) -> None:
    """Sign the current state of the log.

    The result is a checkpoint: the name of the log, its size, and a hash of all its events. wfctl
    stores checkpoints in .wfctl/checkpoints/, and `wfctl fsck` and `wfctl verify` compare the log
    with them. To detect later changes of the log, keep a copy where your user account cannot change
    it.
    """
    if (witness is None) != (witness_key is None):
        raise InvalidOption(
            "the option --witness also needs the option --witness-key, because wfctl accepts a "
            "response only from a known key. To print the key, run `wfctl witness show` on the "
            "machine of the witness"
        )
    from extensions.proofs.checkpoint import keep_checkpoint, tag_checkpoint
    from extensions.proofs.witness import read_public_keys, request_cosignature

    with open_for_reading(context) as workflow:
        log = workflow.log if machine is None else workflow.machine(machine)
        if machine is not None:
            log.current()
        signed = signed_now(workflow, log)
        if public_key:
            workflow.output.result({"public_key": str(signed.key)}, lambda: str(signed.key))
            return
        made, note = signed.checkpoint, signed.note
        if witness is not None and witness_key is not None:
            key = read_public_keys([witness_key])[0]
            note = request_cosignature(log.store, log.stream, made, note, url=witness, key=key)
        path, cosigned = keep_checkpoint(workflow.root, made, note)
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
            data["tag"] = tag_checkpoint(workflow.root, made, cosigned)
            print_message(
                f"wfctl: created the git tag {data['tag']}; push the tag to another server, "
                "because only a copy elsewhere can prove something"
            )
        workflow.output.result(data, lambda: str(data["checkpoint"]).removesuffix("\n"))
