"""Signed notes, by the text https://c2sp.org/signed-note: a text, and lines of signatures under it.

A key is known by its name and four bytes of a digest. Its public half is written as a verifier key:
the name, those bytes in hex, and base64 of its type and its 32 bytes, with a plus sign between.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple

from service.errors import ServiceError


class UnreadableNote(ServiceError):
    """A text that is no signed note, checkpoint or proof by the letter of its format."""

    code = "unreadable_note"


class UnverifiedNote(ServiceError):
    """A note that no known key has signed, or a signature that does not hold."""

    code = "unverified_note"


class CheckpointDenied(ServiceError):
    """The log is not one that grew from what a checkpoint says of it."""

    code = "checkpoint_denied"


class ProofRejected(ServiceError):
    """A proof that does not lead to what it claims."""

    code = "proof_rejected"


class NotWitnessed(ServiceError):
    """A witness that could not be asked, or that did not cosign."""

    code = "not_witnessed"


#: The type of a key that signs the note itself, and of one that cosigns a checkpoint with a time.
LOG, WITNESS = 1, 4
_DASH = "\u2014 "
_KEY_BYTES, _ID_BYTES, TIME_BYTES = 32, 4, 8
#: Signatures that a note may have; the text asks for 16 at least.
MOST_SIGNATURES = 64
_MOST_BYTES = 1_000_000


class Signature(NamedTuple):
    """One line under a note: the key's name, its id (4 bytes), and the signature."""

    name: str
    key_id: bytes
    signature: bytes

    def line(self) -> str:
        """Return the line, with its newline."""
        return f"{_DASH}{self.name} {b64encode(self.key_id + self.signature).decode()}\n"


class Note(NamedTuple):
    """A text that ends with a newline, and its signatures, of which nothing is known yet."""

    text: str
    signatures: tuple[Signature, ...]

    def __str__(self) -> str:
        return f"{self.text}\n{''.join(one.line() for one in self.signatures)}"


class VerifierKey(NamedTuple):
    """The public half of an Ed25519 key; ``kind`` is `LOG` or `WITNESS`."""

    name: str
    kind: int
    public: bytes

    @property
    def key_id(self) -> bytes:
        """The four bytes by which a signature says whose it is."""
        said = self.name.encode() + b"\n" + bytes([self.kind]) + self.public
        return sha256(said).digest()[:_ID_BYTES]

    def __str__(self) -> str:
        key = b64encode(bytes([self.kind]) + self.public).decode()
        return f"{self.name}+{self.key_id.hex()}+{key}"

    def made(self, signature: Signature) -> bool:
        """Whether a signature says that it is of this key."""
        return (signature.name, signature.key_id) == (self.name, self.key_id)

    def holds(self, text: str, signature: Signature) -> bool:
        """Whether the signature is one of this key over the text."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        signed = signature.signature
        if self.kind == WITNESS:
            time, signed = signed[:TIME_BYTES], signed[TIME_BYTES:]
            text = cosigned(text, int.from_bytes(time, "big"))
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signed, text.encode())
        except (InvalidSignature, ValueError):
            return False
        return True


def cosigned(text: str, time: int) -> str:
    """Return what a witness signs: the checkpoint's text behind the seconds of its time."""
    return f"cosignature/v1\ntime {time}\n{text}"


def read_note(content: bytes) -> Note:
    """Return the note that the bytes are; raises `UnreadableNote`."""
    if len(content) > _MOST_BYTES:
        raise UnreadableNote(f"expected a note of at most {_MOST_BYTES} bytes")
    try:
        whole = content.decode()
    except UnicodeDecodeError as error:
        raise UnreadableNote(f"expected a note in UTF-8, found other bytes: {error}") from error
    if any(letter < " " and letter != "\n" for letter in whole):
        raise UnreadableNote("expected a note without control characters, found one")
    text, blank, lines = whole.rpartition("\n\n")
    if not blank or not text or not lines.endswith("\n"):
        raise UnreadableNote("expected a text, an empty line and signature lines")
    return Note(f"{text}\n", read_signatures(lines))


def read_signatures(lines: str) -> tuple[Signature, ...]:
    """Return the signatures that the lines are; raises `UnreadableNote`."""
    found = lines.removesuffix("\n").split("\n")
    if len(found) > MOST_SIGNATURES:
        raise UnreadableNote(f"expected at most {MOST_SIGNATURES} signatures, found {len(found)}")
    return tuple(map(_signature, found))


def _signature(line: str) -> Signature:
    name, space, encoded = line.removeprefix(_DASH).rpartition(" ")
    content = decoded(encoded)
    if not line.startswith(_DASH) or not space or not _is_key_name(name):
        raise UnreadableNote(f"expected a line such as '{_DASH}NAME BASE64', found {line!r:.80}")
    if len(content) <= _ID_BYTES:
        raise UnreadableNote(f"expected a key id and a signature, found {len(content)} bytes")
    return Signature(name, content[:_ID_BYTES], content[_ID_BYTES:])


def _is_key_name(name: str) -> bool:
    return bool(name) and "+" not in name and not any(letter.isspace() for letter in name)


def decoded(text: str) -> bytes:
    """Return what a text in base64 holds; raises `UnreadableNote`."""
    try:
        content = b64decode(text, validate=True)
    except (BadBase64, ValueError) as error:
        raise UnreadableNote(f"expected base64, found {text!r:.80}") from error
    if b64encode(content).decode() != text:
        raise UnreadableNote(
            f"expected base64 as it is written once and for all, found {text!r:.80}"
        )
    return content


def read_key(text: str) -> VerifierKey:
    """Return the verifier key that a text is; raises `UnreadableNote`."""
    name, _, rest = text.strip().partition("+")
    said, _, encoded = rest.partition("+")
    content = decoded(encoded)
    if not _is_key_name(name) or len(content) != _KEY_BYTES + 1 or content[0] not in (LOG, WITNESS):
        raise UnreadableNote(
            f"expected a verifier key NAME+ID+BASE64 of an Ed25519 key, found {text!r:.120}"
        )
    key = VerifierKey(name, content[0], content[1:])
    if key.key_id.hex() != said:
        raise UnreadableNote(f"expected the key id {key.key_id.hex()}, found {said!r:.80}")
    return key


def verified(note: Note, keys: Iterable[VerifierKey]) -> Sequence[VerifierKey]:
    """Return the keys, of those known, that signed the note; raises `UnverifiedNote`.

    A signature of an unknown key is passed over. One that says that it is of a known key, and does
    not hold, denies the whole note.
    """
    known, found = list(keys), []
    for signature in note.signatures:
        for key in known:
            if not key.made(signature):
                continue
            if not key.holds(note.text, signature):
                raise UnverifiedNote(
                    f"the signature of {key.name} does not hold; nothing that the note says counts",
                    key=str(key),
                )
            found.append(key)
    if not found:
        names = ", ".join(sorted({one.name for one in note.signatures}))
        raise UnverifiedNote(
            f"expected a note signed by a known key, found signatures of {names} with other keys; "
            "the public key comes from anyone who signed, by another way than the note",
            signed_by=names,
        )
    return found
