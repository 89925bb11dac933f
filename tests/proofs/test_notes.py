"""Signed notes (short texts with signatures) have the format of the public specification."""

from __future__ import annotations

from pathlib import Path

import pytest

from extensions.proofs.checkpoint import load_or_create_log_signer, load_or_create_witness_signer
from extensions.proofs.errors import UnreadableNote, UnverifiedNote
from extensions.proofs.signed_note import Note, Signature, read_key, read_note, verify_note

#: The example in the specification c2sp.org/signed-note.
KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
NOTE = """This is an example message.

\u2014 example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
"""  # noqa: E501 - a signature


def test_example_note_of_the_specification_is_verified() -> None:
    """wfctl verifies the example, and writes the note and its key exactly as it read them."""
    note = read_note(NOTE.encode())
    assert verify_note(note, [read_key(KEY)]) == [read_key(KEY)]
    assert str(note) == NOTE
    assert str(read_key(KEY)) == KEY


def test_changed_note_is_not_verified() -> None:
    """wfctl detects a changed character in the text or in the signature."""
    key = read_key(KEY)
    with pytest.raises(UnverifiedNote):
        verify_note(read_note(NOTE.replace("an example", "no example").encode()), [key])
    with pytest.raises(UnverifiedNote):
        verify_note(read_note(NOTE.replace("Uw2QOkn8", "Uw2QOkn9").encode()), [key])


def test_signatures_of_unknown_keys_are_ignored(tmp_path: Path) -> None:
    """wfctl verifies a note if at least one signature is from a known key."""
    note = read_note(NOTE.encode())
    other = Signature("example.com/bar", b"\0\0\0\0", b"x" * 64)
    both = Note(note.text, (other, *note.signatures))
    assert verify_note(read_note(str(both).encode()), [read_key(KEY)]) == [read_key(KEY)]
    with pytest.raises(UnverifiedNote, match="public key is not known"):
        verify_note(note, [load_or_create_log_signer("another").public])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no signature\n",
        "text\n\nno dash\n",
        "text\n\n\u2014 name\n",
        "text\n\n\u2014 a+b AAAAAAAA\n",
        "text\n\n\u2014 name AAAA\n",
        "text\n\n\u2014 name AAAAAAAB=\n",
        "text\n\n\u2014 name AAAAAAAA",
        "te\x07xt\n\n\u2014 name AAAAAAAA\n",
        "te\rxt\n\n\u2014 name AAAAAAAA\n",
        "text\n\n" + "\u2014 name AAAAAAAA\n" * 100,
    ],
)
def test_malformed_note_is_refused(text: str) -> None:
    """Reading the note raises UnreadableNote."""
    with pytest.raises(UnreadableNote):
        read_note(text.encode())


@pytest.mark.parametrize(
    "key",
    ["", "name", "name+530d903a", KEY + "A", KEY.replace("530d903a", "530d903b"), "a b" + KEY],
)
def test_malformed_key_is_refused(key: str) -> None:
    """Reading a key raises UnreadableNote, for example if its id does not match its content."""
    with pytest.raises(UnreadableNote):
        read_key(key)


def test_private_keys_are_readable_only_by_their_owner(
    state_home: Path,
) -> None:
    """The key files are outside the workflow's root and have the mode 0600."""
    log, witness = load_or_create_log_signer("one").public, load_or_create_witness_signer().public
    files = sorted((state_home / "wfctl").glob("*.key"))
    assert [path.name for path in files] == ["checkpoint.key", "witness.key"]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert log.public != witness.public
    assert load_or_create_log_signer("one").public == log
