"""Approvals of machines take effect only with a proof of consent."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from eventstore.event import Actor
from eventstore.store import Claim, Expected
from extensions.machines.rules.payload import MachineApproved
from extensions.machines.service.log import MachineLog
from extensions.machines.service.service import MachineService
from service.root.root import Root
from tests.cli.support import Answer, call
from tests.cli.terminal import answered, typed
from tests.machines.place import MachinePlace
from tests.need import need_programs


def waiting(place: MachinePlace, *consent: str) -> None:
    """Create a machine whose first phase waits for a person."""
    typed("--root", str(place.path), "machine", "init", "wf", "--type", "dotagent", *consent)
    place.write("memory/reports/demand.json", {"wants": "a shop"})


def approve(place: MachinePlace, actor: str, *more: str) -> Answer:
    """Try to approve the first phase as the given user or agent, and return the answer."""
    line = ("--actor", actor, "machine", "approve", "wf", "requirements", *more)
    return call("--root", str(place.path), "-o", "json", *line)


def test_approval_without_a_terminal_is_refused(place: MachinePlace) -> None:
    """Under the policy terminal, neither an agent nor a user without a terminal can approve."""
    waiting(place)
    for actor in ("agent:bot", "user:ada"):
        answer = approve(place, actor)
        assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    assert place.types("wf") == ["machine.created"]
    place.refused("GUARD_FAILED", 6, "transition", "wf", "ARCHITECTURE")


def test_appended_approval_without_a_valid_proof_is_ignored(place: MachinePlace) -> None:
    """wfctl warns about forged approvals in the log, and the machine stays in its phase."""
    from cli.frame.workspace import open_root_log

    waiting(place)
    root = Root(place.path)
    store = open_root_log(root, read_only=False)
    try:
        service = MachineService(root, MachineLog(store, "wf", place.path), Actor("agent", "bot"))
        proofs: list[dict[str, Any]] = [
            {},
            {"policy": "terminal"},
            {"policy": "terminal", "statement": "0" * 64},
        ]
        for proof in proofs:
            forged = MachineApproved(approval="requirements", phase="REQUIREMENTS", proof=proof)
            store.append(
                service.log.stream,
                service.writer.new_events(((forged, "2026-03-31T10:00:00.000000Z"),), [None]),
                expected=Expected.STREAM_EXISTS,
                claim=Claim(f"forged-{len(proof)}", "x"),
            )
        assert service.state().approvals == []
    finally:
        store.close()
    warnings = place.call("get", "wf").envelope["_meta"]["warnings"]
    assert sum("is ignored" in one for one in warnings) == 3
    place.refused("GUARD_FAILED", 6, "transition", "wf", "ARCHITECTURE")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """Create an SSH key, and a file of allowed signers next to it."""
    need_programs("ssh-keygen")
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    public = path.with_suffix(".pub").read_text()
    (tmp_path / "signers").write_text(f"ada@example.org {public}")
    return path


def test_signature_of_an_allowed_signer_approves(place: MachinePlace, key: Path) -> None:
    """wfctl records the name of the signer, and refuses an agent without the key."""
    waiting(place, "--consent", "signature", "--signers", str(key.with_name("signers")))
    assert approve(place, "agent:bot").code == 6
    done = approve(place, "user:ada", "--key", str(key))
    assert done.code == 0, done
    assert place.events("wf")[-1]["data"]["approved_by"] == "ada@example.org"
    assert place.done("transition", "wf", "--auto")["phase"] == "ARCHITECTURE"


def test_approval_belongs_to_the_current_phase(place: MachinePlace) -> None:
    """wfctl refuses to approve another phase, and ignores a repeated approval."""
    waiting(place, "--consent", "trust")
    place.refused("INVALID_TRANSITION", 5, "approve", "wf", "architecture")
    place.refused("INVALID_INPUT", 2, "approve", "wf", "nothing")
    place.done("approve", "wf", "requirements")
    assert place.done("approve", "wf", "requirements")["events"] == []


def test_statement_for_an_approval_is_printed(place: MachinePlace) -> None:
    """`machine approve --statement` prints the text to sign, with approval and log head."""
    waiting(place)
    line = ["machine", "approve", "wf", "requirements", "--statement"]
    shown = call("--root", str(place.path), *line).out
    assert '"approval":"requirements"' in shown
    assert '"head":"' in shown


@pytest.mark.slow
def test_person_approves_at_a_terminal(place: MachinePlace) -> None:
    """wfctl asks a question. After `n` nothing is approved, and after `y` a proof is recorded."""
    waiting(place)
    line = ["--root", str(place.path), "--actor", "user:ada", "machine", "approve", "wf"]
    code, _ = answered("n\n", *line, "requirements")
    assert code == 6
    code, shown = answered("y\n", *line, "requirements")
    assert code == 0, shown
    assert "Are these requirements correct and complete?" in shown
    (event,) = [e for e in place.events("wf") if e["type"] == "machine.approved"]
    assert event["data"]["proof"]["policy"] == "terminal"
    assert place.done("transition", "wf", "--auto")["phase"] == "ARCHITECTURE"
