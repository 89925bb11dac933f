"""Forged approvals of amendments."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.amendments.support import Place

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
    """Return the statement of an amendment: the text that an approver signs."""
    answer = place.call("amend", "show", id_, "--statement")
    assert answer.code == 0, answer
    return answer.out


def digest_of(text: str) -> str:
    """Return the SHA-256 digest of a statement, as a proof of consent contains it."""
    return sha256(text.encode()).hexdigest()


def proof(text: str, signature: Path | None = None, policy: str = "signature") -> Row:
    """Return a proof of consent (the part of an approval that shows who approved)."""
    signed = {"signature": signature.read_text(), "signer": "pi@example.org"} if signature else {}
    return {"policy": policy, "form": 4, "statement": digest_of(text), **signed}
