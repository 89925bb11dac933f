"""A root that was moved or copied: nothing is written until somebody says which."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.host.processes import host
from service.errors import RootElsewhere
from service.root.root import Root, check_place, identity, is_same
from tests.cli.support import Place, attempt_data, tree

WRITES = {
    "note": ["note", "hello"],
    "stage prepare": ["stage", "prepare", "stage-1"],
    "dispatch": ["dispatch", "stage-1"],
    "run": ["run"],
    "reconcile": ["reconcile"],
    "rehydrate": ["rehydrate"],
    "wait": ["wait", "stage-1"],
}
READS = {
    "status": ["status"],
    "show": ["show", "stage-1"],
    "log": ["log"],
    "events": ["events"],
    "fsck": ["fsck"],
    "replay --check": ["replay", "--check"],
    "replay --rebuild": ["replay", "--rebuild"],
    "rehydrate --dry-run": ["rehydrate", "--dry-run"],
}


def content(place: Place) -> dict[str, str]:
    """Return every file with its digest, but for the index that SQLite's readers share."""
    return {name: digest for name, digest in tree(place.path).items() if "-shm" not in name}


def begin(place: Place) -> None:
    """Record an attempt that was begun here."""
    known = {"root": str(place.path.resolve()), "host": host()}
    place.done("append", "attempt.started", "--data", attempt_data(**known))


def copied(place: Place) -> Place:
    """Copy the root to another place."""
    target = place.path.with_name("copy")
    shutil.copytree(place.path, target)
    return Place(target)


def moved(place: Place) -> Place:
    """Move the root to another place."""
    return Place(place.path.rename(place.path.with_name("moved")))


@pytest.mark.parametrize("line", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("carry", [moved, copied])
def test_a_write_elsewhere_stops(
    place: Place, carry: Callable[[Place], Place], line: list[str]
) -> None:
    """Exit 6, with both places and the words to say; nothing is changed."""
    elsewhere = carry(place)
    before = content(elsewhere)
    answer = elsewhere.json(*line)
    assert (answer.code, answer.error["code"]) == (6, "root_elsewhere")
    assert "--root-is moved" in answer.error["message"]
    assert answer.error["data"]["known"]["path"] == str(place.path)
    assert content(elsewhere) == before


@pytest.mark.parametrize("line", READS.values(), ids=READS)
def test_a_read_elsewhere_goes_on(place: Place, line: list[str]) -> None:
    """A copy can be looked at and built anew without a word."""
    assert copied(place).call(*line).code == 0


@pytest.mark.parametrize("how", ["moved", "copied"])
def test_once_said_it_is_so(place: Place, how: str) -> None:
    """The word is taken down, the log tells of it, and it is not asked for again."""
    elsewhere = moved(place)
    elsewhere.done("note", "one", "--root-is", how)
    elsewhere.done("note", "two")
    [first, *rest] = elsewhere.notes()
    assert (first.startswith(f"Root {how} from {place.path}"), rest) == (True, ["one", "two"])
    assert elsewhere.call("replay", "--check").code == 0


def test_the_word_where_nothing_happened_changes_nothing(place: Place) -> None:
    """A script may say it every time."""
    place.done("note", "one", "--root-is", "copied")
    assert place.notes() == ["one"]
    assert not (place.path / ".wfctl/root.json").exists()


def test_a_copy_leaves_an_attempt_to_the_original(place: Place) -> None:
    """It is unknown there, whatever its files say, and nothing is started."""
    begin(place)
    copy = copied(place)
    copy.done("reconcile", "--root-is", "copied")
    copy.done("rehydrate")
    [observed] = copy.done("events", "--type", "attempt.observed")
    assert (observed["data"]["verdict"], observed["data"]["action"]) == ("ELSEWHERE", "unknown")
    assert not (copy.path / "stage-1/.attempts").exists()
    assert place.types("--type", "attempt.observed") == []


def test_an_attempt_that_was_moved_is_judged_by_what_it_wrote(place: Place) -> None:
    """A failure that the job itself recorded counts at the new place."""
    begin(place)
    folder = place.path / "stage-1/.attempts/att-0001"
    (folder / f"job-{'a' * 40}.started").mkdir(parents=True)
    (folder / f"job-{'a' * 40}.exit").write_text("3\n")
    (folder / "launch.json").write_text(json.dumps({"root": str(place.path), "host": host()}))
    elsewhere = moved(place)
    elsewhere.done("reconcile", "--root-is", "moved")
    [failed] = elsewhere.done("events", "--type", "stage.failed")
    assert failed["data"]["stage"] == "stage-1"


def test_an_attempt_of_which_nothing_ran_before_the_move_gets_a_new_one(place: Place) -> None:
    """Its own files name places that are gone, so it is not launched itself."""
    begin(place)
    elsewhere = moved(place)
    elsewhere.done("reconcile", "--root-is", "moved")
    [observed] = elsewhere.done("events", "--type", "attempt.observed")
    assert (observed["data"]["attempt"], observed["data"]["verdict"]) == ("att-0001", "LEFT_BEHIND")
    assert elsewhere.types("--type", "attempt.relaunched") == []
    started = elsewhere.done("events", "--type", "attempt.started")
    assert [event["data"]["attempt"] for event in started] == ["att-0001", "att-0002"]


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"inode": 1, "device": 1}, True),
        ({"host": "container"}, True),
        ({"host": "container", "device": 1}, True),
        ({"host": "other", "inode": 1}, False),
        ({"path": "/elsewhere"}, False),
    ],
    ids=["nothing", "restored", "another hostname", "NFS", "copied to a like path", "moved"],
)
def test_what_is_the_same_root(tmp_path: Path, change: dict[str, object], same: bool) -> None:
    """A restored backup and a network folder are; another path never is."""
    here = identity(tmp_path)
    assert is_same({**here, **change}, here) is same


def test_where_nobody_wrote_down_the_place_nothing_is_asked(tmp_path: Path) -> None:
    """A log without an identity is taken as it is; one with another is not."""
    check_place(Root(tmp_path), {})
    with pytest.raises(RootElsewhere):
        check_place(Root(tmp_path), {**identity(tmp_path), "path": "/elsewhere"})
