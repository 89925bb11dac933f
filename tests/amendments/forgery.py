"""Approvals as a forger would write them."""

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
    """Return what is to be signed, byte for byte, as `ssh-keygen` is given it."""
    answer = place.call("amend", "show", id_, "--statement")
    assert answer.code == 0, answer
    return answer.out


def digest_of(text: str) -> str:
    """Return the digest by which a proof names its statement."""
    return sha256(text.encode()).hexdigest()


def proof(text: str, signature: Path | None = None, policy: str = "signature") -> Row:
    """Return a proof as an approval holds it."""
    signed = {"signature": signature.read_text(), "signer": "pi@example.org"} if signature else {}
    return {"policy": policy, "form": 4, "statement": digest_of(text), **signed}
