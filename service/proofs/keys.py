"""The private keys of this login: one signs checkpoints of logs, one cosigns as a witness.

They lie in the login's own state folder, outside every root, readable for nobody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from service.proofs.note import LOG, WITNESS, Signature, VerifierKey, cosigned
from service.reading.sealing import key_file, known_secret, own_secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_NAMES = {LOG: "checkpoint.key", WITNESS: "witness.key"}
_TIME_BYTES = 8


def state_folder() -> Path:
    """Return where this login keeps what it knows of logs, outside every root."""
    return key_file().parent


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key under a name."""

    key: Ed25519PrivateKey
    name: str
    kind: int

    @property
    def public(self) -> VerifierKey:
        """The key by which others check."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        raw = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return VerifierKey(self.name, self.kind, raw)

    def signed(self, text: str) -> Signature:
        """Return the signature of a note's text."""
        return Signature(self.name, self.public.key_id, self.key.sign(text.encode()))

    def cosigned(self, text: str, time: int) -> Signature:
        """Return a witness's signature of a checkpoint's text at a time, in seconds of POSIX."""
        made = self.key.sign(cosigned(text, time).encode())
        return Signature(self.name, self.public.key_id, time.to_bytes(_TIME_BYTES, "big") + made)


def log_signer(origin: str) -> Signer:
    """Return this login's key for the log of an origin, made now where there is none."""
    return Signer(_loaded(own_secret(_path(LOG))), origin, LOG)


def known_log_key(origin: str) -> VerifierKey | None:
    """Return the public key of this login for a log, None where it never made one."""
    secret = known_secret(_path(LOG))
    return Signer(_loaded(secret), origin, LOG).public if secret is not None else None


def witness_signer() -> Signer:
    """Return the key of this login as a witness, made now where there is none.

    Its name is made from the key, so that no two witnesses share one.
    """
    key = _loaded(own_secret(_path(WITNESS)))
    public = Signer(key, "unnamed", WITNESS).public.public
    return Signer(key, f"wfctl-witness/{sha256(public).hexdigest()[:16]}", WITNESS)


def _path(kind: int) -> Path:
    return state_folder() / _NAMES[kind]


def _loaded(secret: bytes | None) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if secret is None:
        raise OSError(f"no key could be kept in {state_folder()}")
    return Ed25519PrivateKey.from_private_bytes(secret)
