"""Events are valid only at their place in the hash chain, approvals only with their proof."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adoption.support import document, imported, stage, write_files
from tests.adversary import raw
from tests.amendments.forgery import APPROVAL, proof
from tests.amendments.support import LONGER, Keys, Place, make, make_keys, sign

OTHER = ("--stage", "stage-2", "--set", "parameters.command=rm -rf data", "--reason", "r")


def _approval(place: Place) -> raw.Body:
    found = [b for b in raw.bodies(place.path) if b["type"] == "amendment.approved"]
    return found[0]


def _is_stopped(place: Place, version: int) -> None:
    """Check that commands exit with code 7 (altered log) and name the invalid version."""
    for words in (
        ("status",),
        ("replay",),
        ("log",),
        ("events",),
        ("blame", "stage-2.parameters.command"),
        ("note", "on we go"),
        ("run",),
        ("export", "archive", str(place.path.parent / "out.zip")),
    ):
        answer = place.json(*words)
        assert answer.code == 7, (words, answer)
        assert f"version {version}" in answer.out + answer.err, (words, answer)
    assert place.call("fsck").code == 7


def test_approval_with_hash_and_version_of_a_genuine_one_is_rejected(
    signed: Place, keys: Keys
) -> None:
    """A forged approval that copies the hash of a genuine one stops every command."""
    signed.propose(*LONGER)
    signed.approve("amend-1", "--key", str(keys.allowed))
    genuine = _approval(signed)
    signed.propose(*OTHER)
    data = {**genuine["data"], "amendment": "amend-2", "version": 3}
    forged = raw.following(signed.path, "amendment.approved", data)
    version = forged["version"]
    raw.insert(
        signed.path,
        {**forged, "version": genuine["version"]},
        hash=genuine["hash"],
        version=version,
    )
    _is_stopped(signed, version)


@pytest.mark.parametrize("column", ["hash", "prev_hash", "version", "stream"])
def test_row_with_a_false_column_is_rejected(signed: Place, column: str) -> None:
    """Every command stops at a row whose hash, link, version or stream is false."""
    lies: dict[str, Any] = {
        "hash": "0" * 64,
        "prev_hash": raw.bodies(signed.path)[0]["hash"],
        "version": 1,
        "stream": "workflow-other",
    }
    signed.done("note", "before")
    body = raw.following(signed.path, "note.logged", {"text": "x", "stage": None})
    version, stream = body["version"], body["stream"]
    if column == "hash":
        raw.insert(signed.path, body, hash=lies["hash"])
    else:
        raw.insert(signed.path, {**body, column: lies[column]}, version=version, stream=stream)
    _is_stopped(signed, version)


def test_replayed_signature_is_rejected(signed: Place, keys: Keys) -> None:
    """A row with the signature of a deleted approval does not continue the hash chain."""
    signed.propose(*LONGER)
    signed.approve("amend-1", "--key", str(keys.allowed))
    genuine = _approval(signed)
    raw.tamper(signed.path, f"DELETE FROM events WHERE version >= {genuine['version']}")
    assert signed.json("note", "the head moves on").error["code"] == "log_behind"
    signed.done("replay", "--rebuild")
    signed.done("note", "the head moves on")
    data = genuine["data"]
    late = raw.following(signed.path, "amendment.approved", data, prev_hash=genuine["prev_hash"])
    raw.insert(signed.path, late)
    assert signed.json("status").code == 7
    as_it_stands = signed.json("--as-is", "replay").data
    assert as_it_stands["stages"][0]["parameters"]["n"] == 1


def test_row_after_an_import_cannot_change_the_import(tmp_path: Path) -> None:
    """wfctl stops at a row that claims the version of an import to redefine the workflow."""
    source = write_files(tmp_path / "theirs", document(stage(1, parameters={"command": "true"})))
    place = Place(imported(source).path)
    before = place.document()
    wanted = place.document()
    wanted["stages"][0]["parameters"] = {"command": "rm -rf data"}
    body = raw.following(place.path, "state.imported", {"document": wanted, "layout": {}})
    raw.insert(place.path, {**body, "version": 2}, version=body["version"])
    assert place.json("status").code == 7
    raw.tamper(place.path, f"DELETE FROM events WHERE version = {body['version']}")
    assert place.document() == before


def test_key_expiry_is_checked_at_the_time_of_the_log(tmp_path: Path) -> None:
    """A signature of an expired key is invalid, even if its row states an earlier time."""
    folder = tmp_path / "keys"
    folder.mkdir()
    keys = make_keys(folder)
    line = keys.signers.read_text().split(" ", 1)
    keys.signers.write_text(f'{line[0]} valid-before="20240101" {line[1]}')
    policy = ("--consent", "signature", "--signers", str(keys.signers))
    place = make(tmp_path / "root", *policy, agreed=False)
    place.propose(*LONGER)
    statement = place.call("amend", "show", "amend-1", "--statement").out
    data = {**APPROVAL, "proof": proof(statement, sign(statement, keys.allowed, folder))}
    early = "2023-06-01T00:00:00.000000Z"
    raw.append(place.path, "amendment.approved", data, occurred_at=early, recorded_at=early)
    assert place.document()["version"] == 1
    assert [b["kind"] for b in place.bypasses()] == ["ineffective"]


def test_signature_under_another_name_is_rejected(tmp_path: Path) -> None:
    """An approval is invalid if its row names a person who does not own the signing key."""
    from tests.amendments.forgery import APPROVAL, proof

    folder = tmp_path / "keys"
    folder.mkdir()
    keys = make_keys(folder)
    intern = f"intern@example.org {(folder / 'stranger.pub').read_text()}"
    keys.signers.write_text(keys.signers.read_text() + intern)
    place = make(tmp_path / "root", "--consent", "signature", "--signers", str(keys.signers))
    place.propose(*LONGER)
    statement = place.call("amend", "show", "amend-1", "--statement").out
    made = proof(statement, sign(statement, keys.stranger, folder))
    data = {**APPROVAL, "approved_by": "pi@example.org"}
    data["proof"] = {**made, "signer": "intern@example.org"}
    raw.append(place.path, "amendment.approved", data)
    assert place.document()["version"] == 1
    assert [b["kind"] for b in place.bypasses()] == ["ineffective"]
