"""Notes are by the letter of the text that others write and read them by."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.proofs.checkpoint import log_signer, witness_signer
from service.proofs.note import (
    Note,
    Signature,
    UnreadableNote,
    UnverifiedNote,
    read_key,
    read_note,
    verified,
)

#: The example of c2sp.org/signed-note.
KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
NOTE = """This is an example message.

\u2014 example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
"""  # noqa: E501 - a signature


def test_the_example_of_the_text_is_verified_with_its_key() -> None:
    """And is written again as it was read."""
    note = read_note(NOTE.encode())
    assert verified(note, [read_key(KEY)]) == [read_key(KEY)]
    assert str(note) == NOTE
    assert str(read_key(KEY)) == KEY


def test_a_letter_that_was_changed_denies_the_note() -> None:
    """Of the text, or of the signature."""
    key = read_key(KEY)
    with pytest.raises(UnverifiedNote):
        verified(read_note(NOTE.replace("an example", "no example").encode()), [key])
    with pytest.raises(UnverifiedNote):
        verified(read_note(NOTE.replace("Uw2QOkn8", "Uw2QOkn9").encode()), [key])


def test_signatures_of_unknown_keys_are_passed_over_and_are_not_enough(tmp_path: Path) -> None:
    """A known key must be among those that signed."""
    note = read_note(NOTE.encode())
    other = Signature("example.com/bar", b"\0\0\0\0", b"x" * 64)
    both = Note(note.text, (other, *note.signatures))
    assert verified(read_note(str(both).encode()), [read_key(KEY)]) == [read_key(KEY)]
    with pytest.raises(UnverifiedNote, match="known key"):
        verified(note, [log_signer("another").public])


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
def test_what_is_no_note_is_refused(text: str) -> None:
    """With an error of this program."""
    with pytest.raises(UnreadableNote):
        read_note(text.encode())


@pytest.mark.parametrize(
    "key",
    ["", "name", "name+530d903a", KEY + "A", KEY.replace("530d903a", "530d903b"), "a b" + KEY],
)
def test_what_is_no_key_is_refused(key: str) -> None:
    """Its id must be the one that follows from it."""
    with pytest.raises(UnreadableNote):
        read_key(key)


def test_a_private_key_is_for_this_login_alone_and_lies_outside_of_every_root(
    state_home: Path,
) -> None:
    """Mode 0600; the witness has another key than the logs."""
    log, witness = log_signer("one").public, witness_signer().public
    files = sorted((state_home / "wfctl").glob("*.key"))
    assert [path.name for path in files] == ["checkpoint.key", "witness.key"]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert log.public != witness.public
    assert log_signer("one").public == log
