"""``wfctl consent setup``: from no key at all to a policy under which only a signature counts."""

from __future__ import annotations

import getpass
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from cli.frame.consent import consenter_of
from cli.frame.options import DryRun, File, Text, option
from cli.frame.workspace import settings_of, writing
from cli.settings import actor_of
from cli.terminal.output import Output, say
from lifecycle.errors import NeedsConsent
from service.consent import signature
from service.errors import NoRoot
from service.root.disk import config_folder
from service.writing import amendments as decisions
from service.writing.amendments import check_person
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Service

_POLICY = "signature"
_WHY = "only a signature shall count, so that nobody can agree in a person's name"


def setup(
    context: typer.Context,
    name: Text = option("NAME", "Name of the signer (default: login@host)."),
    key: File = option("FILE", "Existing key, with its .pub in the same folder."),
    hardware: bool = option("Create the key on a FIDO device, which requires a touch."),
    dry_run: DryRun = False,
) -> None:
    """Create your key and the signers file, and require signatures here.

    For a person at a terminal: ssh-keygen asks for a passphrase, then the change of policy is shown
    and agreed to under the policy in force. Again, it takes what is there.
    """
    settings = settings_of(context)
    actor = actor_of(settings)
    check_person(actor, "how a person agrees")
    own = name or f"{getpass.getuser()}@{platform.node()}"
    path, signers = key or config_folder() / "signing-key", config_folder() / "signers"
    made = key is None and not path.exists()
    # A name that cannot be one is told before a passphrase is asked.
    signature.signer_line(own, "")
    line = f"{own} …"
    if not (dry_run and made):
        if made:
            say(f"wfctl: making your key at {path}; choose a passphrase that no program has")
            signature.make_key(path, own, hardware=hardware)
        line = signature.signer_line(own, signature.public_of(path))
        if not dry_run:
            signature.allow(signers, line)
    _explain(path, line)
    try:
        with writing(context, dry_run) as (service, output):
            data = _decided(service, path, line, dry_run)
    except NoRoot:
        output, data = Output(settings), {"workflow": None, "policy": None}
    told = {"dry_run": dry_run, "key": str(path), "made": made, "signers": str(signers)}
    told |= {"signer": line, **data}
    output.result(told, lambda: "\n".join(_text(told)))


def _explain(key: Path, line: str) -> None:
    """Say what keeps programs of this login from signing with the key, or that nothing does."""
    if not key.exists():
        return
    if signature.needs_touch(line.partition(" ")[2]):
        text = "the key is on a device: each signature wants a touch, which no program gives"
    elif key.suffix == ".pub":
        text = "the SSH agent signs: add the key with `ssh-add -c`, so that it asks each time"
    elif signature.is_open(key):
        text = (
            f"warning: {key} has no passphrase: every program of this login can "
            f"sign with it. `ssh-keygen -p -f {key}` sets one"
        )
    else:
        text = (
            "the passphrase is asked for at each signature. Do not add the key to an SSH "
            "agent without `ssh-add -c`: the agent would sign for every program that asks"
        )
    say(f"wfctl: {text}")


def _decided(service: Service, key: Path, line: str, dry_run: bool) -> dict[str, Any]:
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
    if decisions.approve(service, id_, consenter, WriteOptions()) is None:
        raise NeedsConsent(
            f"the policy stays {policy}: n was typed. `wfctl amend approve {id_}` asks again, "
            f"`wfctl amend reject {id_}` closes it.",
            amendments=[id_],
        )
    return {**found, "policy": service.state().consent, "amendment": id_}


def _text(told: dict[str, Any]) -> Iterator[str]:
    yield f"key {told['key']}{' (new)' if told['made'] else ''}"
    yield f"signers {told['signers']}: {told['signer']}"
    if told["workflow"] is None:
        yield f"next: wfctl init PLAN --consent {_POLICY} --signers {told['signers']}"
    else:
        verb = "would be" if told["dry_run"] else "is"
        yield f"{told['workflow']}: consent {verb} by {told.get('would_be') or told['policy']}"
        yield f"from now on: wfctl amend approve AMENDMENT --key {told['key']}"
    yield f"a new machine: wfctl machine init … --consent {_POLICY} --signers {told['signers']}"
