"""``wfctl consent setup``: create a signing key, and require signed approvals."""

from __future__ import annotations

import getpass
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cli.frame.consent import consenter_of
from cli.frame.context import Context
from cli.frame.options import DryRun, File, Text, option
from cli.frame.workspace import open_for_writing, settings_of
from cli.settings import actor_of
from cli.terminal.output import Output, print_message
from lifecycle.errors import NeedsConsent
from service.consent import signature
from service.errors import NoRoot
from service.root.atomic_files import config_folder
from service.writing import amendments as decisions
from service.writing.amendments import check_not_agent
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Service

_POLICY = "signature"
_WHY = "accept only signatures, so that nobody can approve in another person's name"


def setup(
    context: Context,
    name: Text = option(
        "NAME", "List your key under this name in the file of approved signers. Default: USER@HOST."
    ),
    key: File = option(
        "FILE",
        "Use this existing SSH key instead of creating a key. The .pub file must be "
        "in the same folder.",
    ),
    hardware: bool = option(
        "Create the key on a FIDO security key. Each signature then requires a touch of the device."
    ),
    dry_run: DryRun = False,
) -> None:
    """Create your SSH key, and require signed approvals in this workflow.

    Run the command at a terminal. ssh-keygen asks you for a passphrase, and wfctl asks you to
    approve the new rule. If you already have a key and a file of approved signers, wfctl uses them.
    """
    settings = settings_of(context)
    actor = actor_of(settings)
    check_not_agent(actor, "how a person approves")
    own = name or f"{getpass.getuser()}@{platform.node()}"
    path, signers = key or config_folder() / "signing-key", config_folder() / "signers"
    made = key is None and not path.exists()
    # Raise an error for an invalid name now, before ssh-keygen asks for a passphrase.
    signature.signer_line(own, "")
    line = f"{own} …"
    if not (dry_run and made):
        if made:
            print_message(
                f"wfctl: creating your key at {path}; choose a passphrase that no program knows"
            )
            signature.make_key(path, own, hardware=hardware)
        line = signature.signer_line(own, signature.read_public_key(path))
        if not dry_run:
            signature.allow_signer(signers, line)
    _explain_key_protection(path, line)
    try:
        with open_for_writing(context, dry_run) as (service, output):
            data = _change_policy_to_signature(service, path, line, dry_run)
    except NoRoot:
        output, data = Output(settings), {"workflow": None, "policy": None}
    told = {"dry_run": dry_run, "key": str(path), "made": made, "signers": str(signers)}
    told |= {"signer": line, **data}
    output.result(told, lambda: "\n".join(_format_setup(told)))


def _explain_key_protection(key: Path, line: str) -> None:
    """Print how the signing key is protected against use by other programs of this user.

    If the key has no passphrase, print a warning. If the key file does not exist, print nothing.
    """
    if not key.exists():
        return
    if signature.needs_touch(line.partition(" ")[2]):
        text = "the key is on a device: each signature needs a touch, which no program can give"
    elif key.suffix == ".pub":
        text = "the SSH agent signs: add the key with `ssh-add -c`, so that it asks each time"
    elif signature.is_unprotected_key(key):
        text = (
            f"warning: {key} has no passphrase, so every program of your user account can sign "
            f"with the key. `ssh-keygen -p -f {key}` sets a passphrase"
        )
    else:
        text = (
            "the passphrase is required for each signature. Do not add the key to an SSH "
            "agent without `ssh-add -c`: the agent would sign for every program that asks"
        )
    print_message(f"wfctl: {text}")


def _change_policy_to_signature(
    service: Service, key: Path, line: str, dry_run: bool
) -> dict[str, Any]:
    from cli.frame.proposal import AskedChanges, command_of

    state = service.state()
    found = {"workflow": state.id, "policy": state.consent}
    if state.consent == _POLICY and line in state.signers:
        return found
    if dry_run:
        return {**found, "would_be": _POLICY}
    lines = [*state.signers, *([line] if line not in state.signers else [])]
    wanted = {"consent": _POLICY, "signers": lines}
    command = command_of(state, AskedChanges(reason=_WHY, settings=wanted))
    outcome = service.handle(command, options=WriteOptions())
    id_ = next(str(e.data["amendment"]) for e in outcome.events if e.type == command.type)
    policy = service.state().consent
    consenter = consenter_of(policy, service.actor, key if policy == _POLICY else None, None)
    if decisions.approve_amendment(service, id_, consenter, WriteOptions()) is None:
        raise NeedsConsent(
            f"the consent policy is still {policy}, because you answered no. To decide later, run "
            f"`wfctl amend approve {id_}`. To reject the change, run `wfctl amend reject {id_}`.",
            amendments=[id_],
        )
    return {**found, "policy": service.state().consent, "amendment": id_}


def _format_setup(told: dict[str, Any]) -> Iterator[str]:
    yield f"key {told['key']}{' (new)' if told['made'] else ''}"
    yield f"signers {told['signers']}: {told['signer']}"
    if told["workflow"] is None:
        yield f"next: wfctl init PLAN --consent {_POLICY} --signers {told['signers']}"
    else:
        verb = "would be" if told["dry_run"] else "is"
        yield f"{told['workflow']}: consent {verb} by {told.get('would_be') or told['policy']}"
        yield f"approve from now on with: wfctl amend approve AMENDMENT --key {told['key']}"
    yield f"a new machine: wfctl machine init … --consent {_POLICY} --signers {told['signers']}"
