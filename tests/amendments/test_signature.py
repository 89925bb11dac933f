"""Under ``signature`` nothing but an allowed signer's signature changes what is defined."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.amendments.support import LONGER, Keys, Place, canonical, sign
from tests.cli.support import call

Row = dict[str, Any]
APPROVAL: Row = {
    "amendment": "amend-1",
    "version": 2,
    "invalidated_stages": ["stage-1", "stage-2", "stage-3"],
    "approved_by": "user",
    "proof": {},
    "kept": {},
}


def statement(place: Place, id_: str = "amend-1") -> str:
    """Return what is to be signed, byte for byte, as `ssh-keygen` is given it."""
    answer = place.call("amend", "show", id_, "--statement")
    assert answer.code == 0, answer
    return answer.out


def digest_of(text: str) -> str:
    """Return the digest by which a proof names its statement."""
    from hashlib import sha256

    return sha256(text.encode()).hexdigest()


def proof(text: str, signature: Path | None = None, policy: str = "signature") -> Row:
    """Return a proof as an approval holds it."""
    signed = {"signature": signature.read_text(), "signer": "pi@example.org"} if signature else {}
    return {"policy": policy, "statement": digest_of(text), **signed}


def test_an_allowed_key_approves(signed: Place, keys: Keys) -> None:
    """In one step; the signer's name is in the record."""
    signed.finish("stage-1")
    signed.propose(*LONGER)
    assert signed.approve("amend-1", "--key", str(keys.allowed))[0] == "amendment.approved"
    document = signed.document()
    assert document["version"] == 2
    assert document["amendments"][0]["approved_by"] == "pi@example.org"
    assert signed.call("replay", "--check").code == 0
    assert signed.bypasses() == []


def test_a_signature_made_elsewhere_approves(signed: Place, keys: Keys, tmp_path: Path) -> None:
    """What `show --statement` prints is signed with OpenSSH alone, as on another machine."""
    signed.propose(*LONGER)
    made = sign(statement(signed), keys.allowed, tmp_path)
    assert signed.approve("amend-1", "--signature", str(made))[0] == "amendment.approved"


def test_the_statement_says_all_that_is_agreed_to(signed: Place) -> None:
    """Amendment, workflow, head, impact and policy, in canonical JSON."""
    signed.propose(*LONGER)
    text = statement(signed)
    said = json.loads(text)
    assert canonical(said) == text
    assert set(said) == {"amendment", "head", "impact", "policy", "workflow"}
    assert said["amendment"]["changes"] == {"parameters": {"n": {"old": 1, "new": 2}}}
    assert said["head"] == signed.last()["hash"]


def test_a_strangers_key_is_refused(signed: Place, keys: Keys) -> None:
    """Exit 6; the attempt is in the audit."""
    signed.propose(*LONGER)
    before = signed.definition()
    answer = signed.json("amend", "approve", "amend-1", "--key", str(keys.stranger))
    assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    assert signed.definition() == before
    assert [b["kind"] for b in signed.bypasses()] == ["refused"]


def test_a_signature_on_an_earlier_head_is_a_conflict(
    signed: Place, keys: Keys, tmp_path: Path
) -> None:
    """The workflow moved on: exit 4, nothing written."""
    signed.propose(*LONGER)
    made = sign(statement(signed), keys.allowed, tmp_path)
    signed.done("note", "meanwhile")
    version = signed.version()
    answer = signed.json("amend", "approve", "amend-1", "--signature", str(made))
    assert (answer.code, answer.error["code"]) == (4, "impact_changed")
    assert signed.version() == version


def test_append_takes_no_signature_however_good(signed: Place, keys: Keys, tmp_path: Path) -> None:
    """The agent's way in never carries consent, from a file of lines neither."""
    signed.propose(*LONGER)
    text = statement(signed)
    good = {**APPROVAL, "proof": proof(text, sign(text, keys.allowed, tmp_path))}
    before = signed.definition()
    for data in (good, APPROVAL, {"amendment": "amend-1", "approved_by": "user"}):
        assert signed.call("append", "amendment.approved", "--data", json.dumps(data)).code == 6
    lines = tmp_path / "lines"
    lines.write_text(json.dumps({"type": "amendment.approved", "data": good}))
    assert signed.call("append", "--from", str(lines)).code == 6
    assert signed.definition() == before
    assert [b["kind"] for b in signed.bypasses()] == ["refused"] * 4


def test_a_hand_edited_file_changes_nothing(signed: Place) -> None:
    """The log decides; the audit lists the edit, before and after a write comes across it."""
    before = signed.definition()
    path = signed.path / "workflow-state.json"
    document = json.loads(path.read_text())
    document["stages"][0]["parameters"]["n"] = 99
    document["amendments"] = [{"id": "amend-1", "approved_by": "user"}]
    path.write_text(json.dumps(document))
    assert [b["kind"] for b in signed.bypasses()] == ["edited"]
    signed.done("note", "on we go")
    assert signed.definition() == before
    assert [b["kind"] for b in signed.bypasses()] == ["edited"]


Forge = Callable[[Place, Keys, Path], Row]


def _no_proof(place: Place, keys: Keys, folder: Path) -> Row:
    return APPROVAL


def _junk(place: Place, keys: Keys, folder: Path) -> Row:
    return {**APPROVAL, "proof": {"policy": "signature", "signature": "x", "signer": "pi"}}


def _other_policy(place: Place, keys: Keys, folder: Path) -> Row:
    return {**APPROVAL, "proof": proof(statement(place), policy="trust")}


def _terminal(place: Place, keys: Keys, folder: Path) -> Row:
    return {**APPROVAL, "proof": {**proof(statement(place), policy="terminal"), "typed": "y"}}


def _stranger(place: Place, keys: Keys, folder: Path) -> Row:
    text = statement(place)
    return {**APPROVAL, "proof": proof(text, sign(text, keys.stranger, folder))}


def _other_namespace(place: Place, keys: Keys, folder: Path) -> Row:
    text = statement(place)
    return {**APPROVAL, "proof": proof(text, sign(text, keys.allowed, folder, "git"))}


def _other_amendment(place: Place, keys: Keys, folder: Path) -> Row:
    text = statement(place)
    made = sign(text, keys.allowed, folder)
    place.propose("--stage", "stage-2", "--set", "name=Other", "--reason", "r")
    affected: list[str] = []
    data = {**APPROVAL, "amendment": "amend-2", "invalidated_stages": affected}
    return {**data, "proof": proof(text, made)}


def _other_head(place: Place, keys: Keys, folder: Path) -> Row:
    text = statement(place)
    made = sign(text, keys.allowed, folder)
    place.done("note", "meanwhile")
    return {**APPROVAL, "proof": proof(text, made)}


def _other_head_renamed(place: Place, keys: Keys, folder: Path) -> Row:
    made = sign(statement(place), keys.allowed, folder)
    place.done("note", "meanwhile")
    return {**APPROVAL, "proof": proof(statement(place), made)}


def _other_effect(place: Place, keys: Keys, folder: Path) -> Row:
    text = statement(place)
    made = sign(text, keys.allowed, folder)
    return {**APPROVAL, "invalidated_stages": [], "proof": proof(text, made)}


def _nonsense(place: Place, keys: Keys, folder: Path) -> Row:
    return {"amendment": "amend-1", "approved_by": "user", "kept": "none", "proof": {"policy": 1}}


def _nobody(place: Place, keys: Keys, folder: Path) -> Row:
    return {**APPROVAL, "amendment": "amend-77"}


FORGERIES = (
    _no_proof,
    _junk,
    _other_policy,
    _terminal,
    _stranger,
    _other_namespace,
    _other_amendment,
    _other_head,
    _other_head_renamed,
    _other_effect,
    _nonsense,
    _nobody,
)


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__.strip("_"))
def test_a_raw_row_with_a_right_chain_changes_nothing(
    forge: Forge, signed: Place, keys: Keys, tmp_path: Path
) -> None:
    """Whoever wrote it: the definition stays, and the audit lists the row."""
    signed.finish("stage-1")
    signed.propose(*LONGER)
    before = signed.definition()
    signed.write_row("amendment.approved", forge(signed, keys, tmp_path))
    signed.write_row("stage.invalidated", {"stage": "stage-1", "amendment": "amend-1"})
    signed.write_row("stage.skipped", {"stage": "stage-3", "amendment": "amend-1"})
    assert signed.call("fsck").code == 0
    assert signed.definition() == before
    signed.done("note", "on we go")
    assert signed.definition() == before
    assert [b["kind"] for b in signed.bypasses()] == ["ineffective"] * 3


def _adoption(document: Row) -> Row:
    change = {"stage": "stage-1", "field": "parameters", "value": {"n": 99}}
    return {"file": "workflow-state.json", "detected": 1, "unknown": [change], "left": []}


def _beginning(document: Row) -> Row:
    return {"document": document, "layout": {}, "consent": "trust", "events": 99}


OTHER_WAYS: dict[str, Callable[[Row], Row]] = {
    "drift.adopted": _adoption,
    "state.imported": _beginning,
    "workflow.created": _beginning,
    "workflow.imported": _beginning,
}


@pytest.mark.parametrize("type_", OTHER_WAYS)
def test_no_other_type_of_row_brings_a_definition_in(type_: str, signed: Place) -> None:
    """What carries a document counts only at the beginning of a log."""
    before = signed.definition()
    document = signed.document()
    document["stages"][0]["parameters"]["n"] = 99
    signed.write_row(type_, OTHER_WAYS[type_](document))
    assert signed.definition() == before
    assert signed.done("status")["consent"]["policy"] == "signature"


def test_a_row_that_borrows_an_accepted_hash_changes_nothing(signed: Place, keys: Keys) -> None:
    """The hash column of a row is the forger's to choose."""
    signed.propose(*LONGER)
    signed.approve("amend-1", "--key", str(keys.allowed))
    accepted = next(e for e in signed.done("events") if e["type"] == "amendment.approved")
    signed.propose("--stage", "stage-2", "--set", "name=Other", "--reason", "r")
    before = signed.definition()
    signed.write_row("amendment.approved", {**APPROVAL, "amendment": "amend-2", "version": 3})
    with signed.database() as database:
        database.execute("DROP TRIGGER events_no_update")
        database.execute(
            "UPDATE events SET hash = ? WHERE version = (SELECT max(version) FROM events)",
            (accepted["hash"],),
        )
    assert signed.definition() == before
    assert {"altered", "ineffective"} <= {b["kind"] for b in signed.bypasses()}


def test_a_second_proposal_of_an_id_counts_for_nothing(signed: Place, keys: Keys) -> None:
    """What was approved cannot be made to have been something else."""
    signed.propose(*LONGER)
    signed.approve("amend-1", "--key", str(keys.allowed))
    before = signed.definition()
    again = {"amendment": "amend-1", "kind": "stage_skip", "stage": "stage-1", "description": "d"}
    signed.write_row("amendment.proposed", again)
    assert signed.definition() == before
    assert [b["what"] for b in signed.bypasses()] == ["amendment.proposed"]


def test_a_policy_is_changed_by_consent_under_the_old_one(signed: Place, keys: Keys) -> None:
    """Signed, the new policy holds; from there on it is the one that counts."""
    signed.propose("--set", "consent=trust", "--reason", "alone now")
    assert signed.call("amend", "approve", "amend-1").code == 6
    signed.approve("amend-1", "--key", str(keys.allowed))
    signed.propose(*LONGER)
    signed.approve("amend-2")
    assert signed.document()["version"] == 3
    assert "consent is by trust" in signed.call("status").out


def test_a_policy_changed_without_consent_is_not_changed(signed: Place) -> None:
    """A row that makes it trust, and one that trusts in it: neither counts."""
    signed.propose("--set", "consent=trust", "--reason", "quick")
    text = statement(signed)
    data = {**APPROVAL, "invalidated_stages": [], "proof": proof(text, policy="trust")}
    signed.write_row("amendment.approved", data)
    signed.propose(*LONGER)
    before = signed.definition()
    text = statement(signed, "amend-2")
    data = {**APPROVAL, "amendment": "amend-2", "proof": proof(text, policy="trust")}
    signed.write_row("amendment.approved", data)
    assert signed.definition() == before
    assert signed.done("status")["consent"]["policy"] == "signature"
    assert len(signed.bypasses()) == 2


def _downgraded(bodies: list[Row]) -> list[Row]:
    bodies[0]["data"]["consent"] = "trust"
    return bodies


def _own_signer(bodies: list[Row]) -> list[Row]:
    bodies[0]["data"]["signers"] = ["mallory ssh-ed25519 AAAA"]
    return bodies


def _reordered(bodies: list[Row]) -> list[Row]:
    """Approve before the note that stood before the approval."""
    where = next(i for i, b in enumerate(bodies) if b["type"] == "amendment.approved")
    bodies[where - 1], bodies[where] = bodies[where], bodies[where - 1]
    return bodies


def _other_change(bodies: list[Row]) -> list[Row]:
    for body in bodies:
        if body["type"] == "amendment.proposed":
            body["data"]["changes"]["parameters"]["n"]["new"] = 99
    return bodies


@pytest.mark.parametrize("edit", [_downgraded, _own_signer, _reordered, _other_change])
def test_a_history_written_anew_loses_its_approvals(
    edit: Callable[[list[Row]], list[Row]], signed: Place, keys: Keys
) -> None:
    """With a right chain from the first event on: no approval counts, and the audit says so."""
    before = signed.definition()
    signed.propose(*LONGER)
    signed.done("note", "meanwhile")
    signed.approve("amend-1", "--key", str(keys.allowed))
    signed.edit_rows(edit)
    assert signed.definition() == before
    assert {"altered"} < {b["kind"] for b in signed.bypasses()}


def test_an_approval_is_refused_on_a_log_that_was_put_in_anothers_place(
    signed: Place, keys: Keys
) -> None:
    """This login knows the first event of the log that it made here."""
    signed.edit_rows(_downgraded)
    signed.propose(*LONGER)
    answer = signed.json("amend", "approve", "amend-1")
    assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    assert "the one that this login pinned" in answer.error["message"]


def test_a_forged_fold_is_not_believed(signed: Place) -> None:
    """A kept copy of the state is a row like others: under signature the events alone count."""
    from lifecycle.evolve import REDUCER
    from service import stored_fold

    before = signed.definition()
    forged = folded(signed)
    forged.stages["stage-1"].parameters = {"command": "true", "n": 99}
    forged.consent = "trust"
    with signed.database() as database:
        database.execute("DELETE FROM folds")
        database.execute(
            "INSERT INTO folds VALUES (?, ?, ?, ?, ?)",
            (
                "workflow-melt-2026-03-31",
                stored_fold.NAME,
                REDUCER,
                forged.head,
                stored_fold.to_bytes(forged),
            ),
        )
    signed.done("note", "on we go")
    assert signed.definition() == before
    assert signed.done("show", "stage-1")["parameters"]["n"] == 1


def folded(place: Place) -> Any:
    """Return the state of the workflow as an object."""
    from cli.workspace import SCHEMA
    from eventstore.sqlite import open_store
    from service.clock import system_clock
    from service.log import WorkflowLog

    database = place.path / ".wfctl/events.db"
    store = open_store(database, schema=SCHEMA, clock=system_clock, read_only=True)
    try:
        return WorkflowLog(store, "workflow-melt-2026-03-31", place.path).replayed()
    finally:
        store.close()


def test_a_time_long_past_is_read_with_the_approvals_of_the_whole_log(
    signed: Place, keys: Keys
) -> None:
    """``--at`` a time judges an approval where it stands, not among what happened by then."""
    signed.propose(*LONGER)
    signed.approve("amend-1", "--key", str(keys.allowed))
    assert signed.done("replay", "--at", "2100-01-01")["version"] == 2


def test_signature_needs_signers(tmp_path: Path) -> None:
    """A policy that nobody can meet is refused at init."""
    from tests.cli.support import write_plan

    answer = call(
        "--root", str(tmp_path), "init", str(write_plan(tmp_path)), "--consent", "signature"
    )
    assert answer.code == 2


def test_a_log_that_was_not_pinned_here_is_said_every_time(
    signed: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another login's first look at it is on trust."""
    assert "pinned" not in signed.call("status").out
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))
    assert "has not pinned this log" in signed.call("status").out
