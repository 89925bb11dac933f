"""Forged rows with a valid hash chain change nothing under the policy ``signature``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.amendments.forgery import APPROVAL, Row, proof, statement
from tests.amendments.support import LONGER, Keys, Place, sign

pytestmark = pytest.mark.forged

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
def test_forged_approval_changes_nothing(
    forge: Forge, signed: Place, keys: Keys, tmp_path: Path
) -> None:
    """wfctl ignores an approval inserted with SQL, and the audit lists its row."""
    signed.finish("stage-1")
    signed.propose(*LONGER)
    before = signed.definition()
    signed.write_row("amendment.approved", forge(signed, keys, tmp_path))
    signed.write_row("stage.invalidated", {"stage": "stage-1", "amendment": "amend-1"})
    signed.write_row("stage.skipped", {"stage": "stage-3", "amendment": "amend-1"})
    kinds = {found["kind"] for found in signed.json("fsck").data["findings"]}
    assert kinds <= {"set_aside"}
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
def test_other_forged_events_cannot_change_the_plan(type_: str, signed: Place) -> None:
    """An event with a document only counts at the start of a log."""
    before = signed.definition()
    document = signed.document()
    document["stages"][0]["parameters"]["n"] = 99
    signed.write_row(type_, OTHER_WAYS[type_](document))
    assert signed.definition() == before
    assert signed.done("status")["consent"]["policy"] == "signature"


def test_row_with_a_copied_hash_changes_nothing(signed: Place, keys: Keys) -> None:
    """wfctl exits with code 7 if a forged row has the hash of an accepted approval."""
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
    assert signed.json("status").code == 7
    assert signed.bypasses()[0]["kind"] == "altered"
    with signed.database() as database:
        database.execute("DROP TRIGGER events_no_delete")
        database.execute("DELETE FROM events WHERE version = (SELECT max(version) FROM events)")
    assert signed.definition() == before


def test_second_proposal_with_the_same_id_is_ignored(signed: Place, keys: Keys) -> None:
    """An inserted proposal cannot replace an approved amendment with the same id."""
    signed.propose(*LONGER)
    signed.approve("amend-1", "--key", str(keys.allowed))
    before = signed.definition()
    again = {"amendment": "amend-1", "kind": "stage_skip", "stage": "stage-1", "description": "d"}
    signed.write_row("amendment.proposed", again)
    assert signed.definition() == before
    assert [b["what"] for b in signed.bypasses()] == ["amendment.proposed"]
