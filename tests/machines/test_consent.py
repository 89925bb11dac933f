"""Approvals take effect by a proof of consent, as amendments do, no matter who wrote the row."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from eventstore.event import Actor
from eventstore.store import Claim, Expected
from lifecycle.machines.payload import MachineApproved
from service.machines.log import MachineLog
from service.machines.service import MachineService
from service.root.root import Root
from tests.cli.support import Answer, call
from tests.cli.terminal import answered, typed
from tests.machines.place import MachinePlace
from tests.need import need_programs


def waiting(place: MachinePlace, *consent: str) -> None:
    """Begin a workflow whose first phase waits for a person."""
    typed("--root", str(place.path), "machine", "init", "wf", "--type", "dotagent", *consent)
    place.write("memory/reports/demand.json", {"wants": "a shop"})


def approve(place: MachinePlace, actor: str, *more: str) -> Answer:
    """Try to approve as somebody."""
    line = ("--actor", actor, "machine", "approve", "wf", "requirements", *more)
    return call("--root", str(place.path), "-o", "json", *line)


def test_no_agent_agrees_at_a_terminal(place: MachinePlace) -> None:
    """And without a terminal nobody does; either try is kept as a refusal."""
    waiting(place)
    for actor in ("agent:bot", "user:ada"):
        answer = approve(place, actor)
        assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    assert place.types("wf") == ["machine.created"]
    place.refused("GUARD_FAILED", 6, "transition", "wf", "ARCHITECTURE")


def test_a_row_without_a_proof_counts_for_nothing(place: MachinePlace) -> None:
    """Given an approval that was appended past the rules, then the phase still waits."""
    from cli.frame.workspace import opened

    waiting(place)
    root = Root(place.path)
    store = opened(root, read_only=False)
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
    """Make a key, and the list of allowed signers beside it."""
    need_programs("ssh-keygen")
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    public = path.with_suffix(".pub").read_text()
    (tmp_path / "signers").write_text(f"ada@example.org {public}")
    return path


def test_a_signature_agrees(place: MachinePlace, key: Path) -> None:
    """By an allowed signer, and by nobody else; made beforehand or now."""
    waiting(place, "--consent", "signature", "--signers", str(key.with_name("signers")))
    assert approve(place, "agent:bot").code == 6
    done = approve(place, "user:ada", "--key", str(key))
    assert done.code == 0, done
    assert place.events("wf")[-1]["data"]["approved_by"] == "ada@example.org"
    assert place.done("transition", "wf", "--auto")["phase"] == "ARCHITECTURE"


def test_an_approval_is_of_one_stay_in_one_phase(place: MachinePlace) -> None:
    """Given another phase, then it is refused; given again, then nothing is appended."""
    waiting(place, "--consent", "trust")
    place.refused("INVALID_TRANSITION", 5, "approve", "wf", "architecture")
    place.refused("INVALID_INPUT", 2, "approve", "wf", "nothing")
    place.done("approve", "wf", "requirements")
    assert place.done("approve", "wf", "requirements")["events"] == []


def test_what_is_to_be_signed_can_be_had(place: MachinePlace) -> None:
    """Byte for byte, bound to the head."""
    waiting(place)
    line = ["machine", "approve", "wf", "requirements", "--statement"]
    shown = call("--root", str(place.path), *line).out
    assert '"approval":"requirements"' in shown
    assert '"head":"' in shown


@pytest.mark.slow
def test_a_person_agrees_at_a_terminal(place: MachinePlace) -> None:
    """Shown the question there; no is no, and yes is recorded with its proof."""
    waiting(place)
    line = ["--root", str(place.path), "--actor", "user:ada", "machine", "approve", "wf"]
    code, _ = answered("n\n", *line, "requirements")
    assert code == 6
    code, shown = answered("y\n", *line, "requirements")
    assert code == 0, shown
    assert "Are these the requirements?" in shown
    (event,) = [e for e in place.events("wf") if e["type"] == "machine.approved"]
    assert event["data"]["proof"]["policy"] == "terminal"
    assert place.done("transition", "wf", "--auto")["phase"] == "ARCHITECTURE"
