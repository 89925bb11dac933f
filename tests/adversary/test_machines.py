"""A person's gates of a phase machine let only the approved files and values pass."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.amendments.support import canonical
from tests.cli.support import call
from tests.cli.terminal import typed
from tests.machines.place import MachinePlace
from tests.need import need_programs

DEMAND = "memory/reports/demand.json"
FINAL = "memory/reports/final_design.json"
DESIGNS = "memory/reports/designs"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """Create a key, and a list of allowed signers next to it."""
    need_programs("ssh-keygen")
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    public = path.with_suffix(".pub").read_text()
    (tmp_path / "signers").write_text(f"ada@example.org {public}")
    return path


@pytest.fixture
def place(tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch) -> MachinePlace:
    """Start a machine whose consent policy is `signature`."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    root = tmp_path / "root"
    root.mkdir()
    found = MachinePlace(root)
    policy = ("--consent", "signature", "--signers", str(key.with_name("signers")))
    typed("--root", str(root), "machine", "init", "wf", "--type", "dotagent", *policy)
    return found


def approve(place: MachinePlace, key: Path, approval: str, *more: str) -> Any:
    """Approve a gate of the machine with the signing key."""
    return place.done("approve", "wf", approval, "--key", str(key), *more)


def phase(place: MachinePlace) -> Any:
    """Return the current phase of the machine."""
    return place.done("get", "wf", "--query", "current_phase")


def raw(place: MachinePlace, type_: str, data: dict[str, Any], form: int = 2) -> None:
    """Write an event with a valid hash chain directly into the database."""
    with sqlite3.connect(place.path / ".wfctl/events.db", isolation_level=None) as database:
        position, text, hash_ = database.execute(
            "SELECT position, body, hash FROM events ORDER BY position DESC LIMIT 1"
        ).fetchone()
        last = json.loads(text)
        number = last["version"] + 1
        own = {"event_id": f"forged-{number}", "command_id": f"forged-{number}"}
        body = {**last, **own, "type": type_, "data": data, "version": number, "prev_hash": hash_}
        new = canonical({**body, "schema_version": 1 if type_ == "machine.withdrawn" else form})
        database.execute(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'forged')",
            (
                position + 1,
                last["stream"],
                number,
                own["event_id"],
                type_,
                last["recorded_at"],
                sha256(new.encode()).hexdigest(),
                new,
            ),
        )


def moved(left: str, to: str, **more: Any) -> dict[str, Any]:
    """Return the data of a phase change."""
    none = dict.fromkeys(("reason", "asked", "loop", "count", "limit"))
    return {**none, "to": to, "left": left, "resets": [], "files": {}, "earlier": {}, **more}


def test_file_changed_after_its_approval_does_not_pass_the_gate(
    place: MachinePlace, key: Path
) -> None:
    """The gate stays closed until a person approves the new content."""
    place.write(DEMAND, {"wants": "a shop"})
    approve(place, key, "requirements")
    place.write(DEMAND, {"wants": "a bank"})
    refused = place.refused("GUARD_FAILED", 6, "transition", "wf", "ARCHITECTURE")
    assert refused["unmet"][0]["found"] == "the approval names other files"
    assert phase(place) == "REQUIREMENTS"
    approve(place, key, "requirements")
    place.done("transition", "wf", "ARCHITECTURE")
    assert phase(place) == "ARCHITECTURE"


def at_architecture(place: MachinePlace, key: Path) -> None:
    """Move the machine to the phase in which a design is chosen."""
    place.write(DEMAND, {"wants": "a shop"})
    approve(place, key, "requirements")
    place.done("transition", "wf", "ARCHITECTURE")
    for name in ("a", "b"):
        place.write(f"{DESIGNS}/{name}.json", {"style": name})


def test_final_design_other_than_the_chosen_one_does_not_pass(
    place: MachinePlace, key: Path
) -> None:
    """After the choice of design a, the machine refuses b as final and accepts a."""
    at_architecture(place, key)
    approve(place, key, "architecture", "--choice", "a")
    place.write(FINAL, {"style": "b"})
    place.refused("GUARD_FAILED", 6, "transition", "wf", "IMPLEMENTATION")
    place.write(FINAL, {"style": "a"})
    place.done("transition", "wf", "IMPLEMENTATION")
    assert phase(place) == "IMPLEMENTATION"


def test_chosen_design_that_was_changed_does_not_pass(place: MachinePlace, key: Path) -> None:
    """The machine refuses the chosen design if its file changed after the person's choice."""
    at_architecture(place, key)
    approve(place, key, "architecture", "--choice", "a")
    for path in (f"{DESIGNS}/a.json", FINAL):
        place.write(path, {"style": "evil"})
    place.refused("GUARD_FAILED", 6, "transition", "wf", "IMPLEMENTATION")


@pytest.mark.parametrize("to", ["ARCHITECTURE", "IMPLEMENTATION", "COMPLETE"])
def test_raw_phase_change_through_a_gate_is_ignored(to: str, place: MachinePlace) -> None:
    """A raw row that passes or bypasses a gate changes no phase and causes a warning."""
    place.write(DEMAND, {"wants": "a shop"})
    raw(place, "machine.transitioned", moved("REQUIREMENTS", to))
    assert phase(place) == "REQUIREMENTS"
    warnings = place.call("get", "wf").envelope["_meta"]["warnings"]
    assert sum("is ignored" in one for one in warnings) == 1


def test_statement_names_the_approved_files(place: MachinePlace) -> None:
    """The statement lists the digest of each file, so that a signer can compare it."""
    place.write(DEMAND, {"wants": "a shop"})
    line = ["machine", "approve", "wf", "requirements", "--statement"]
    said = json.loads(call("--root", str(place.path), *line).out)
    assert said["files"] == {DEMAND: sha256((place.path / DEMAND).read_bytes()).hexdigest()}


@pytest.mark.parametrize("form", [1, 2])
def test_approval_of_an_older_format_is_still_valid(
    form: int, place: MachinePlace, key: Path
) -> None:
    """Approvals in older logs name no fields and no files, and still open the gate."""
    place.write(DEMAND, {"wants": "a shop"})
    line = ["machine", "approve", "wf", "requirements", "--statement"]
    said = json.loads(call("--root", str(place.path), *line).out)
    files = {"files": said.pop("files")} if form == 2 else {}
    named = {"form": said.pop("form") - 1} if form == 2 else {}
    newer = ("form", "fields", "files", "leads_to")
    said = {name: said[name] for name in said if name not in newer}
    said |= {**files, **named}
    text = canonical(said)
    path = key.with_name("statement")
    path.write_text(text)
    subprocess.run(["ssh-keygen", "-Y", "sign", "-q", "-f", key, "-n", "wfctl", path], check=True)
    proof = {
        "policy": "signature",
        "statement": sha256(text.encode()).hexdigest(),
        "signature": path.with_suffix(".sig").read_text(),
        "signer": "ada@example.org",
        **named,
    }
    data: dict[str, Any] = {"approval": "requirements", "choice": None, "phase": "REQUIREMENTS"}
    data |= {"approved_by": "ada@example.org", "proof": proof, **files}
    raw(place, "machine.approved", data, form)
    place.done("transition", "wf", "ARCHITECTURE")
    assert phase(place) == "ARCHITECTURE"


def test_only_an_allowed_signer_withdraws_an_approval(place: MachinePlace, key: Path) -> None:
    """A withdrawal without the key is refused, and a forged one in the log is ignored."""
    place.write(DEMAND, {"wants": "a shop"})
    approve(place, key, "requirements")
    place.refused("needs_consent", 6, "approve", "wf", "requirements", "--withdraw")
    proof = {"policy": "signature", "statement": "0" * 64}
    forged = {"approval": "requirements", "phase": "REQUIREMENTS", "proof": proof}
    raw(place, "machine.withdrawn", {**forged, "approved_by": "ada@example.org"})
    assert place.done("get", "wf", "--query", "user_checkpoints")
    approve(place, key, "requirements", "--withdraw")
    assert place.done("get", "wf", "--query", "user_checkpoints") == []
    place.refused("GUARD_FAILED", 6, "transition", "wf", "ARCHITECTURE")


def test_raw_phase_change_after_changed_fields_is_ignored(place: MachinePlace, key: Path) -> None:
    """A phase change inserted with SQL is ignored if an approved field value has changed."""
    policy = ("--consent", "signature", "--signers", str(key.with_name("signers")))
    place.done("cancel", "wf")
    typed("--root", str(place.path), "machine", "init", "f", "--type", "oneshot", *policy)
    place.done("update", "f", "artifacts.plan=short", "oneshot.synthesisPolicy=always")
    for to in ("implementing", "synthesize"):
        place.done("transition", "f", to)
    place.done("update", "f", "synthesis.prUrl=https://example.org/1")
    place.done("approve", "f", "finish", "--key", str(key))
    place.done("update", "f", "synthesis.prUrl=https://example.org/evil")
    raw(place, "machine.transitioned", moved("synthesize", "completed"))
    assert place.done("get", "f", "--query", "phase") == "synthesize"
