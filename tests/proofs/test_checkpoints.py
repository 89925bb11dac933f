"""A checkpoint (signed digest of a log) proves the log's content to everyone who has a copy."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest

from eventstore.merkle_tree import Frontier, leaf_hash
from extensions.proofs.checkpoint import read_checkpoint
from extensions.proofs.signed_note import read_key, read_note, verify_note
from tests.cli.support import PLAN, Place, write_plan
from tests.need import need_programs


def _database(place: Place) -> Path:
    return place.path / ".wfctl" / "events.db"


def _sql(place: Place, *statements: str) -> None:
    """Change the log like a person who can write its file."""
    with sqlite3.connect(_database(place)) as connection:
        connection.execute("DROP TRIGGER IF EXISTS events_no_update")
        connection.execute("DROP TRIGGER IF EXISTS events_no_delete")
        for statement in statements:
            connection.execute(statement)
    connection.close()


def _copy(place: Place, folder: Path) -> None:
    folder.mkdir()
    for path in _database(place).parent.glob("events.db*"):
        shutil.copy2(path, folder)


def _put_back(place: Place, folder: Path) -> None:
    """Restore an old copy of the log, and remove what wfctl remembers of the newer log."""
    for path in _database(place).parent.glob("events.db*"):
        path.unlink()
    for path in folder.iterdir():
        shutil.copy2(path, _database(place).parent)
    (place.path / ".wfctl" / "sync.json").unlink()


def _notes(place: Place, *texts: str) -> None:
    for text in texts:
        place.done("note", text)


def _kinds(place: Place, *options: str) -> list[str]:
    answer = place.json("fsck", *options)
    assert answer.code == 7, answer
    return [one["kind"] for one in answer.data["findings"]]


def test_checkpoint_contains_the_merkle_root_of_the_log(place: Place) -> None:
    """Two checkpoints of an unchanged log are equal and have a valid signature."""
    _notes(place, "one", "two")
    found = place.done("checkpoint")
    note = read_note(found["checkpoint"].encode())
    checkpoint = read_checkpoint(note)
    tree, texts = Frontier(), place.call("events", "--stored").out.splitlines()
    for line in texts:
        tree.add(leaf_hash(line.rpartition(',"hash":')[0].encode() + b"}"))
    assert (checkpoint.size, checkpoint.root) == (len(texts), tree.root())
    assert verify_note(note, [read_key(found["public_key"])])
    assert place.call("checkpoint").out == found["checkpoint"]
    assert (place.path / found["kept"]).read_text("utf-8") == found["checkpoint"]


def test_checkpoint_continues_from_the_previous_one(place: Place) -> None:
    """A checkpoint that continues from the last one has the same root as one from the start."""
    _notes(place, "one")
    place.done("checkpoint")
    _notes(place, "two", "three")
    grown = place.done("checkpoint")
    os.environ["XDG_STATE_HOME"] += "-of-another"
    assert place.done("checkpoint")["root"] == grown["root"]


def test_checkpoint_does_not_change_the_log(place: Place) -> None:
    """`wfctl checkpoint` adds no event and changes no stored event."""
    before = place.version(), sha256(place.call("events", "--stored").out.encode()).hexdigest()
    place.done("checkpoint")
    after = place.version(), sha256(place.call("events", "--stored").out.encode()).hexdigest()
    assert after == before


def test_existing_checkpoint_file_is_not_overwritten(place: Place) -> None:
    """`wfctl checkpoint FILE` exits with 4 if the file exists."""
    file = place.path / "melt.checkpoint"
    place.done("checkpoint", str(file))
    content = file.read_bytes()
    assert place.json("checkpoint", str(file)).code == 4
    assert file.read_bytes() == content


def test_valid_log_agrees_with_its_checkpoints(place: Place) -> None:
    """`fsck` compares the log with its checkpoint in the root and in the user's state folder."""
    place.done("checkpoint")
    _notes(place, "one")
    data = place.done("fsck")
    assert (data["findings"], data["checkpoints"]) == ([], {"agree": 2, "passed_over": []})


def test_fsck_detects_a_truncated_log_by_its_checkpoint(place: Place) -> None:
    """`fsck` needs only the checkpoint to detect that the last events were deleted."""
    _notes(place, "one", "two")
    place.done("checkpoint")
    (place.path / ".wfctl" / "sync.json").unlink()
    _sql(place, "DELETE FROM events WHERE version > 3")
    found = place.json("fsck").data["findings"]
    assert [(f["kind"], f["version"]) for f in found if f["kind"] == "cut_tail"] == [
        ("cut_tail", 4)
    ]
    assert place.json("verify").code == 7
    assert place.json("checkpoint").code == 7


def test_fsck_detects_a_restored_and_continued_log(place: Place, tmp_path: Path) -> None:
    """An old copy of the log with new events contradicts the checkpoint of the newer log."""
    place.done("checkpoint")
    size = place.version()
    _copy(place, tmp_path / "copy")
    _notes(place, "one", "two", "three")
    place.done("checkpoint")
    _put_back(place, tmp_path / "copy")
    assert "cut_tail" in _kinds(place)
    _notes(place, "another one", "another two", "another three", "another four")
    found = place.json("fsck").data["findings"]
    assert [(f["kind"], f["version"]) for f in found] == [("denied", size + 1)]
    assert place.json("checkpoint").code == 7  # A second history is not signed either.


def test_fsck_detects_a_replaced_log(place: Place, tmp_path: Path) -> None:
    """If the log was replaced by a new one, its origin differs from that of the checkpoint."""
    place.done("checkpoint")
    other = tmp_path / "other"
    other.mkdir()
    other_place = Place(other)
    assert other_place.call("init", str(tmp_path / "plan.json"), "--consent", "trust").code == 0
    _copy(other_place, tmp_path / "copy")
    _put_back(place, tmp_path / "copy")
    assert "another_log" in _kinds(place)
    assert place.json("checkpoint").error["code"] == "checkpoint_denied"


def test_checkpoint_of_another_workflow_is_skipped(place: Place, tmp_path: Path) -> None:
    """`fsck` lists the checkpoint, but does not compare it with this log."""
    (tmp_path / "other").mkdir()
    other = Place(tmp_path / "other")
    plan = write_plan(tmp_path, {**PLAN, "workflow_id": "frost"}, "frost.json")
    assert other.call("init", str(plan), "--consent", "trust").code == 0
    origin, kept = (other.done("checkpoint")[name] for name in ("origin", "kept"))
    place.done("checkpoint")
    shutil.copy2(other.path / kept, place.path / kept)
    found = place.done("fsck")["checkpoints"]
    assert found["agree"] == 2
    assert found["passed_over"] == [f"{kept}: a checkpoint of another log, {origin}"]
    assert origin in place.call("fsck").out


def test_machine_checkpoints_are_compared_with_their_own_log(place: Place) -> None:
    """`fsck` compares the checkpoint of a machine with the machine's events."""
    place.done("machine", "init", "ship", "--type", "feature")
    place.done("checkpoint")
    place.done("checkpoint", "--machine", "ship")
    assert place.done("fsck")["checkpoints"] == {"agree": 4, "passed_over": []}


@pytest.mark.parametrize("then", ["cut", "cut and written on"])
@pytest.mark.parametrize("kept", ["in the root", "by this login"])
def test_checkpoint_without_its_key_still_contradicts_a_log(
    place: Place, state_home: Path, kept: str, then: str
) -> None:
    """A user cannot hide deleted events by deleting the key that signed the checkpoint."""
    _notes(place, "one", "two")
    place.done("checkpoint")
    (state_home / "wfctl" / "checkpoint.key").unlink()
    assert place.done("fsck")["checkpoints"]["agree"] == 0
    gone = {"in the root": state_home / "wfctl", "by this login": place.path / ".wfctl"}
    shutil.rmtree(gone[kept] / "checkpoints")
    (place.path / ".wfctl" / "sync.json").unlink()
    _sql(place, "DELETE FROM events WHERE version > 3")
    if then == "cut and written on":
        _notes(place, "another", "and another")
    assert {"cut": "cut_tail", "cut and written on": "denied"}[then] in _kinds(place)
    assert place.json("verify").data["denied"]


def test_checkpoint_signed_by_an_unknown_key_is_skipped(place: Place, tmp_path: Path) -> None:
    """Anyone could write such a file, so `fsck` ignores it without `--public-key`."""
    found = place.done("checkpoint")
    os.environ["XDG_STATE_HOME"] += "-of-another"
    data = place.done("fsck")
    assert data["checkpoints"]["agree"] == 0
    assert "whose public key is not known" in data["checkpoints"]["passed_over"][0]
    key = tmp_path / "key"
    key.write_text(found["public_key"])
    assert place.done("fsck", "--public-key", str(key))["checkpoints"]["agree"] == 1


def test_fsck_accepts_a_checkpoint_file_as_option(place: Place, tmp_path: Path) -> None:
    """`fsck` detects a change with a copy of the checkpoint that another person kept."""
    _notes(place, "one")
    file = tmp_path / "theirs"
    found = place.done("checkpoint", str(file))
    shutil.rmtree(place.path / ".wfctl" / "checkpoints")
    os.environ["XDG_STATE_HOME"] += "-of-another"
    (place.path / ".wfctl" / "sync.json").unlink()
    _sql(place, "DELETE FROM events WHERE version > 2")
    kinds = _kinds(place, "--checkpoint", str(file), "--public-key", found["public_key"])
    assert "cut_tail" in kinds


def test_checkpoint_can_be_stored_in_a_git_tag(place: Place) -> None:
    """`fsck` reads checkpoints from git tags, and wfctl creates no tag a second time."""
    need_programs("git")
    git = ["git", "-C", str(place.path), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    assert place.json("checkpoint", "--git-tag").code == 3  # The root is not in a repository yet.
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "begin"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    for name, value in (("user.name", "A"), ("user.email", "a@example.org")):
        subprocess.run([*git, "config", name, value], check=True)
    tag = place.done("checkpoint", "--git-tag")["tag"]
    assert place.done("checkpoint", "--git-tag")["tag"] == tag
    shutil.rmtree(place.path / ".wfctl" / "checkpoints")
    assert place.done("fsck")["checkpoints"] == {"agree": 2, "passed_over": []}
    text = subprocess.run(
        [*git, "for-each-ref", "--format=%(contents)", f"refs/tags/{tag}"],
        check=True,
        capture_output=True,
    ).stdout
    assert read_checkpoint(read_note(text.removesuffix(b"\n"))).size == place.version()


def test_unreadable_signing_record_prevents_new_signatures(place: Place, state_home: Path) -> None:
    """Without the record of signed checkpoints, wfctl could sign a second history."""
    place.done("checkpoint")
    (record,) = (state_home / "wfctl" / "checkpoints").glob("*.json")
    record.write_text("{}")
    assert place.json("checkpoint").error["code"] == "checkpoint_denied"


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"nothing\n", b"a\n1\nAA==\n\n\xe2\x80\x94 n AAAAAAAA\n"]
)
def test_invalid_checkpoint_file_is_skipped(place: Place, content: bytes) -> None:
    """`fsck` lists the invalid file, and still compares the log with other checkpoints."""
    place.done("checkpoint")
    (place.path / ".wfctl" / "checkpoints" / "x.checkpoint").write_bytes(content)
    data = place.done("fsck")
    assert data["checkpoints"]["agree"] == 2
    assert len(data["checkpoints"]["passed_over"]) == 1


def test_archive_contains_a_checkpoint_of_its_log(place: Place, tmp_path: Path) -> None:
    """If an imported log loses events, `fsck` detects this with the archive's checkpoint."""
    _notes(place, "one", "two")
    place.done("export", "archive", str(tmp_path / "melt.zip"))
    key = place.done("checkpoint", "--public-key")["public_key"]
    with ZipFile(tmp_path / "melt.zip") as archive:
        archive.extract("log.checkpoint", tmp_path)
    _notes(place, "later")
    line = ["--checkpoint", str(tmp_path / "log.checkpoint"), "--public-key", key]
    assert place.done("fsck", *line)["checkpoints"]["agree"] == 2
    made = Place(tmp_path / "made")
    place.done("import", str(tmp_path / "melt.zip"), "--into", str(made.path))
    os.environ["XDG_STATE_HOME"] += "-of-another"
    assert made.done("fsck", *line)["checkpoints"]["agree"] == 1
    _sql(made, "DELETE FROM events WHERE version > 3")
    assert "cut_tail" in _kinds(made, *line)


def test_fifo_and_folder_among_checkpoints_are_skipped(place: Place) -> None:
    """`fsck` lists a pipe and a folder in the checkpoint folder, and does not wait for the pipe."""
    place.done("checkpoint")
    os.mkfifo(place.path / ".wfctl" / "checkpoints" / "pipe.checkpoint")
    (place.path / ".wfctl" / "checkpoints" / "folder.checkpoint").mkdir()
    data = place.done("fsck")
    assert data["checkpoints"]["agree"] == 2
    assert len(data["checkpoints"]["passed_over"]) == 2
