"""Signed notes (https://c2sp.org/signed-note): a text that is followed by signature lines.

A signature identifies its key by the name of the key and four bytes of a digest. A public key is
written as a verifier key: the name, these four bytes in hexadecimal form, and the base64 form of
the key's type and 32 bytes, joined by plus signs.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple

from extensions.proofs.errors import UnreadableNote, UnverifiedNote

#: Type of a key that signs notes, and type of a witness's key, which signs a checkpoint with a
#: time.
LOG, WITNESS = 1, 4
_DASH = "\u2014 "
_KEY_BYTES, _ID_BYTES, TIME_BYTES = 32, 4, 8
#: Maximum number of signatures of a note. The specification requires support for at least 16.
MOST_SIGNATURES = 64
_MOST_BYTES = 1_000_000


class Signature(NamedTuple):
    """A signature line of a note: the key's name, its id (4 bytes), and the signature."""

    name: str
    key_id: bytes
    signature: bytes

    def line(self) -> str:
        """Return the signature line, with its newline."""
        return f"{_DASH}{self.name} {b64encode(self.key_id + self.signature).decode()}\n"


class Note(NamedTuple):
    """A text that ends with a newline, and its signatures, which are not verified yet."""

    text: str
    signatures: tuple[Signature, ...]

    def __str__(self) -> str:
        return f"{self.text}\n{''.join(one.line() for one in self.signatures)}"


class VerifierKey(NamedTuple):
    """A public Ed25519 key. ``kind`` is `LOG` or `WITNESS`."""

    name: str
    kind: int
    public: bytes

    @property
    def key_id(self) -> bytes:
        """The four bytes with which a signature identifies this key."""
        said = self.name.encode() + b"\n" + bytes([self.kind]) + self.public
        return sha256(said).digest()[:_ID_BYTES]

    def __str__(self) -> str:
        key = b64encode(bytes([self.kind]) + self.public).decode()
        return f"{self.name}+{self.key_id.hex()}+{key}"

    def is_stated_signer(self, signature: Signature) -> bool:
        """Return whether a signature states that this key made it."""
        return (signature.name, signature.key_id) == (self.name, self.key_id)

    def is_signature_valid(self, text: str, signature: Signature) -> bool:
        """Return whether a signature of the text is valid and was made with this key."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        signed = signature.signature
        if self.kind == WITNESS:
            time, signed = signed[:TIME_BYTES], signed[TIME_BYTES:]
            text = format_cosigned_text(text, int.from_bytes(time, "big"))
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signed, text.encode())
        except (InvalidSignature, ValueError):
            return False
        return True


def format_cosigned_text(text: str, time: int) -> str:
    """Return the text that a witness signs, which consists of a time and the checkpoint."""
    return f"cosignature/v1\ntime {time}\n{text}"


def read_note(content: bytes) -> Note:
    """Return the signed note in the bytes. Raise `UnreadableNote` if they are not a note."""
    if len(content) > _MOST_BYTES:
        raise UnreadableNote(
            f"a note can have at most {_MOST_BYTES} bytes, but this note is longer"
        )
    try:
        whole = content.decode()
    except UnicodeDecodeError as error:
        raise UnreadableNote(f"the note is not valid UTF-8: {error}") from error
    if any(letter < " " and letter != "\n" for letter in whole):
        raise UnreadableNote("the note contains a control character, which is not allowed")
    text, blank, lines = whole.rpartition("\n\n")
    if not blank or not text or not lines.endswith("\n"):
        raise UnreadableNote(
            "a note must consist of a text, an empty line and one or more lines with signatures"
        )
    return Note(f"{text}\n", read_signatures(lines))


def read_signatures(lines: str) -> tuple[Signature, ...]:
    """Return the signatures in the lines. Raise `UnreadableNote` for an invalid line."""
    found = lines.removesuffix("\n").split("\n")
    if len(found) > MOST_SIGNATURES:
        raise UnreadableNote(
            f"a note can have at most {MOST_SIGNATURES} signatures, but this note has {len(found)}"
        )
    return tuple(map(_parse_signature, found))


def _parse_signature(line: str) -> Signature:
    name, space, encoded = line.removeprefix(_DASH).rpartition(" ")
    content = decode_base64(encoded)
    if not line.startswith(_DASH) or not space or not _is_key_name(name):
        raise UnreadableNote(
            f"each signature line must have the form '{_DASH}NAME BASE64', but this line is "
            f"{line!r:.80}"
        )
    if len(content) <= _ID_BYTES:
        raise UnreadableNote(
            f"a signature must contain a key ID of {_ID_BYTES} bytes and more bytes after the key "
            f"ID, but this signature has only {len(content)} bytes"
        )
    return Signature(name, content[:_ID_BYTES], content[_ID_BYTES:])


def _is_key_name(name: str) -> bool:
    return bool(name) and name.isprintable() and not {"+", " "} & {*name}


def decode_base64(text: str) -> bytes:
    """Return the bytes of a base64 string. Raise `UnreadableNote` if it is not valid."""
    try:
        content = b64decode(text, validate=True)
    except (BadBase64, ValueError) as error:
        raise UnreadableNote(f"the text {text!r:.80} is not valid base64") from error
    if b64encode(content).decode() != text:
        raise UnreadableNote(f"the text {text!r:.80} is not base64 in its standard form")
    return content


def read_key(text: str) -> VerifierKey:
    """Return the verifier key in a string. Raise `UnreadableNote` if it is not a key."""
    name, _, rest = text.strip().partition("+")
    said, _, encoded = rest.partition("+")
    content = decode_base64(encoded)
    if not _is_key_name(name) or len(content) != _KEY_BYTES + 1 or content[0] not in (LOG, WITNESS):
        raise UnreadableNote(
            f"the text {text!r:.120} is not a valid public key. A public key is an Ed25519 key in "
            "the form NAME+ID+BASE64"
        )
    key = VerifierKey(name, content[0], content[1:])
    if key.key_id.hex() != said:
        raise UnreadableNote(
            f"the key must have the key ID {key.key_id.hex()}, but it has {said!r:.80}"
        )
    return key


def verify_note(note: Note, keys: Iterable[VerifierKey]) -> Sequence[VerifierKey]:
    """Return the known keys that signed a note.

    Raises `UnverifiedNote` if no known key signed it, or if a signature of a known key is invalid.
    Signatures of unknown keys are ignored.
    """
    known, found = list(keys), []
    for signature in note.signatures:
        for key in known:
            if not key.is_stated_signer(signature):
                continue
            if not key.is_signature_valid(note.text, signature):
                raise UnverifiedNote(
                    f"the signature of {key.name} does not match the note, so the note cannot be "
                    "trusted",
                    key=str(key),
                )
            found.append(key)
    if not found:
        names = ", ".join(sorted({one.name for one in note.signatures}))
        raise UnverifiedNote(
            f"the note is signed only by {names}, whose public key is not known. Get the public "
            "key from the signer, not together with the note",
            signed_by=names,
        )
    return found
