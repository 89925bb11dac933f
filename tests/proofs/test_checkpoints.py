"""A checkpoint shows what a log was, to anyone who holds it elsewhere."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest

from eventstore.chain import Frontier, leaf_hash
from service.proofs.checkpoint import read_checkpoint
from service.proofs.note import read_key, read_note, verified
from tests.cli.support import PLAN, Place, write_plan
from tests.need import need_programs


def _database(place: Place) -> Path:
    return place.path / ".wfctl" / "events.db"


def _sql(place: Place, *statements: str) -> None:
    """Change the log as somebody does who has its file."""
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
    """Put an old copy of the log into its place, with what wfctl remembers of it taken away."""
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


def test_a_checkpoint_holds_the_root_over_the_bytes_that_were_hashed(place: Place) -> None:
    """Three lines and a signature; the same log gives the same bytes."""
    _notes(place, "one", "two")
    found = place.done("checkpoint")
    note = read_note(found["checkpoint"].encode())
    checkpoint = read_checkpoint(note)
    tree, texts = Frontier(), place.call("events", "--stored").out.splitlines()
    for line in texts:
        tree.add(leaf_hash(line.rpartition(',"hash":')[0].encode() + b"}"))
    assert (checkpoint.size, checkpoint.root) == (len(texts), tree.root())
    assert verified(note, [read_key(found["public_key"])])
    assert place.call("checkpoint").out == found["checkpoint"]
    assert (place.path / found["kept"]).read_text("utf-8") == found["checkpoint"]


def test_a_checkpoint_is_grown_on_from_the_last_one(place: Place) -> None:
    """It is the same as one made at once by another login."""
    _notes(place, "one")
    place.done("checkpoint")
    _notes(place, "two", "three")
    grown = place.done("checkpoint")
    os.environ["XDG_STATE_HOME"] += "-of-another"
    assert place.done("checkpoint")["root"] == grown["root"]


def test_a_checkpoint_changes_nothing_in_the_log(place: Place) -> None:
    """No event, no table."""
    before = place.version(), sha256(place.call("events", "--stored").out.encode()).hexdigest()
    place.done("checkpoint")
    after = place.version(), sha256(place.call("events", "--stored").out.encode()).hexdigest()
    assert after == before


def test_a_file_in_the_place_of_the_checkpoint_is_left_as_it_is(place: Place) -> None:
    """Exit 4."""
    file = place.path / "melt.checkpoint"
    place.done("checkpoint", str(file))
    content = file.read_bytes()
    assert place.json("checkpoint", str(file)).code == 4
    assert file.read_bytes() == content


def test_a_sound_log_agrees_with_its_checkpoints(place: Place) -> None:
    """The file in the root, and what this login signed last."""
    place.done("checkpoint")
    _notes(place, "one")
    data = place.done("fsck")
    assert (data["findings"], data["checkpoints"]) == ([], {"agree": 2, "passed_over": []})


def test_a_tail_that_was_cut_off_is_named_by_the_checkpoint(place: Place) -> None:
    """By the file alone, where the rest that was remembered is gone too."""
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


def test_an_old_copy_that_was_put_back_and_written_on_is_a_fork(
    place: Place, tmp_path: Path
) -> None:
    """Its chain is whole; the checkpoint denies it, and one that agrees says from where on."""
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
    assert place.json("checkpoint").code == 7  # nor is a second history signed


def test_another_log_in_the_place_of_the_one_is_named(place: Place, tmp_path: Path) -> None:
    """A history written anew from its first event has another origin."""
    place.done("checkpoint")
    other = tmp_path / "other"
    other.mkdir()
    other_place = Place(other)
    assert other_place.call("init", str(tmp_path / "plan.json"), "--consent", "trust").code == 0
    _copy(other_place, tmp_path / "copy")
    _put_back(place, tmp_path / "copy")
    assert "another_log" in _kinds(place)
    assert place.json("checkpoint").error["code"] == "checkpoint_denied"


def test_a_checkpoint_of_a_log_with_another_id_is_told(place: Place, tmp_path: Path) -> None:
    """It agrees with nothing, and denies nothing."""
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


def test_a_checkpoint_of_a_machine_in_this_root_is_of_no_other_log(place: Place) -> None:
    """Each is held against its own log."""
    place.done("machine", "init", "ship", "--type", "feature")
    place.done("checkpoint")
    place.done("checkpoint", "--machine", "ship")
    assert place.done("fsck")["checkpoints"] == {"agree": 4, "passed_over": []}


@pytest.mark.parametrize("then", ["cut", "cut and written on"])
@pytest.mark.parametrize("kept", ["in the root", "by this login"])
def test_a_log_is_denied_by_a_checkpoint_whose_key_is_gone(
    place: Place, state_home: Path, kept: str, then: str
) -> None:
    """Else a login had only to delete its key for a log that it cut to be clean."""
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


def test_a_checkpoint_that_nobody_known_signed_is_told_and_agrees_with_nothing(
    place: Place, tmp_path: Path
) -> None:
    """Else anyone who can write a file could deny every log; with its key it counts."""
    found = place.done("checkpoint")
    os.environ["XDG_STATE_HOME"] += "-of-another"
    data = place.done("fsck")
    assert data["checkpoints"]["agree"] == 0
    assert "known key" in data["checkpoints"]["passed_over"][0]
    key = tmp_path / "key"
    key.write_text(found["public_key"])
    assert place.done("fsck", "--public-key", str(key))["checkpoints"]["agree"] == 1


def test_a_checkpoint_from_elsewhere_is_named_on_the_line(place: Place, tmp_path: Path) -> None:
    """A co-author kept it; the root has none any more, and this login forgot."""
    _notes(place, "one")
    file = tmp_path / "theirs"
    found = place.done("checkpoint", str(file))
    shutil.rmtree(place.path / ".wfctl" / "checkpoints")
    os.environ["XDG_STATE_HOME"] += "-of-another"
    (place.path / ".wfctl" / "sync.json").unlink()
    _sql(place, "DELETE FROM events WHERE version > 2")
    kinds = _kinds(place, "--checkpoint", str(file), "--public-key", found["public_key"])
    assert "cut_tail" in kinds


def test_a_tag_keeps_a_checkpoint_where_git_carries_it(place: Place) -> None:
    """fsck reads tags too, and one that is there is not made again."""
    need_programs("git")
    git = ["git", "-C", str(place.path), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    assert place.json("checkpoint", "--git-tag").code == 3  # no repository
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


def test_a_record_of_what_was_signed_that_cannot_be_read_lets_nothing_be_signed(
    place: Place, state_home: Path
) -> None:
    """Without it a second history could be signed."""
    place.done("checkpoint")
    (record,) = (state_home / "wfctl" / "checkpoints").glob("*.json")
    record.write_text("{}")
    assert place.json("checkpoint").error["code"] == "checkpoint_denied"


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"nothing\n", b"a\n1\nAA==\n\n\xe2\x80\x94 n AAAAAAAA\n"]
)
def test_a_file_that_is_no_checkpoint_is_told_and_passed_over(place: Place, content: bytes) -> None:
    """It hides nothing and denies nothing."""
    place.done("checkpoint")
    (place.path / ".wfctl" / "checkpoints" / "x.checkpoint").write_bytes(content)
    data = place.done("fsck")
    assert data["checkpoints"]["agree"] == 2
    assert len(data["checkpoints"]["passed_over"]) == 1


def test_an_archive_has_a_checkpoint_of_its_log_in_it(place: Place, tmp_path: Path) -> None:
    """The root that is made from it agrees, and one that lost events does not."""
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


def test_what_is_no_file_among_the_checkpoints_holds_nobody_up(place: Place) -> None:
    """A pipe and a folder are told, and not waited for."""
    place.done("checkpoint")
    os.mkfifo(place.path / ".wfctl" / "checkpoints" / "pipe.checkpoint")
    (place.path / ".wfctl" / "checkpoints" / "folder.checkpoint").mkdir()
    data = place.done("fsck")
    assert data["checkpoints"]["agree"] == 2
    assert len(data["checkpoints"]["passed_over"]) == 2
