"""A moved or copied root: nothing is written until the user says which of the two happened."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.host.processes import host
from service.errors import RootElsewhere
from service.root.root import Root, is_same, read_identity, require_same_place
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
    """Return the digest of every file, without the shared-memory files of SQLite."""
    return {name: digest for name, digest in tree(place.path).items() if "-shm" not in name}


def begin(place: Place) -> None:
    """Record an attempt that was started on this host."""
    known = {"root": str(place.path.resolve()), "host": host()}
    place.done("append", "attempt.started", "--data", attempt_data(**known))


def copied(place: Place) -> Place:
    """Copy the root to another path."""
    target = place.path.with_name("copy")
    shutil.copytree(place.path, target)
    return Place(target)


def moved(place: Place) -> Place:
    """Move the root to another path, and return the root there."""
    return Place(place.path.rename(place.path.with_name("moved")))


@pytest.mark.parametrize("line", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("carry", [moved, copied])
def test_write_in_a_moved_or_copied_root_is_refused(
    place: Place, carry: Callable[[Place], Place], line: list[str]
) -> None:
    """The command exits with code 6, names both paths and the option, and changes nothing."""
    elsewhere = carry(place)
    before = content(elsewhere)
    answer = elsewhere.json(*line)
    assert (answer.code, answer.error["code"]) == (6, "root_elsewhere")
    assert "--root-is moved" in answer.error["message"]
    assert answer.error["data"]["known"]["path"] == str(place.path)
    assert content(elsewhere) == before


@pytest.mark.parametrize("line", READS.values(), ids=READS)
def test_read_in_a_copied_root_works(place: Place, line: list[str]) -> None:
    """Commands that only read, and a rebuild of the files, do not need --root-is."""
    assert copied(place).call(*line).code == 0


@pytest.mark.parametrize("how", ["moved", "copied"])
def test_once_said_it_is_so(place: Place, how: str) -> None:
    """The log records the move or copy, and later writes need no option."""
    elsewhere = moved(place)
    elsewhere.done("note", "one", "--root-is", how)
    elsewhere.done("note", "two")
    [first, *rest] = elsewhere.notes()
    assert (first.startswith(f"Root {how} from {place.path}"), rest) == (True, ["one", "two"])
    assert elsewhere.call("replay", "--check").code == 0


def test_root_is_option_has_no_effect_on_an_unmoved_root(place: Place) -> None:
    """A script may always pass --root-is, which changes nothing in an unmoved root."""
    place.done("note", "one", "--root-is", "copied")
    assert place.notes() == ["one"]
    assert not (place.path / ".wfctl/root.json").exists()


def test_copy_does_not_take_over_attempts_of_the_original(place: Place) -> None:
    """In the copy, the attempt has the verdict ELSEWHERE, and no job starts."""
    begin(place)
    copy = copied(place)
    copy.done("reconcile", "--root-is", "copied")
    copy.done("rehydrate")
    [observed] = copy.done("events", "--type", "attempt.observed")
    assert (observed["data"]["verdict"], observed["data"]["action"]) == ("ELSEWHERE", "unknown")
    assert not (copy.path / "stage-1/.attempts").exists()
    assert place.types("--type", "attempt.observed") == []


def test_attempt_in_a_moved_root_is_judged_by_its_files(place: Place) -> None:
    """wfctl accepts a failure that the job recorded in its files before the move."""
    begin(place)
    folder = place.path / "stage-1/.attempts/att-0001"
    (folder / f"job-{'a' * 40}.started").mkdir(parents=True)
    (folder / f"job-{'a' * 40}.exit").write_text("3\n")
    (folder / "launch.json").write_text(json.dumps({"root": str(place.path), "host": host()}))
    elsewhere = moved(place)
    elsewhere.done("reconcile", "--root-is", "moved")
    [failed] = elsewhere.done("events", "--type", "stage.failed")
    assert failed["data"]["stage"] == "stage-1"


def test_unstarted_attempt_in_a_moved_root_gets_a_new_attempt(place: Place) -> None:
    """A new attempt replaces the old one, whose files contain paths that no longer exist."""
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
def test_root_identity_depends_on_its_path(
    tmp_path: Path, change: dict[str, object], same: bool
) -> None:
    """A root is the same under another hostname, but not at another path."""
    here = read_identity(tmp_path)
    assert is_same({**here, **change}, here) is same


def test_log_without_a_root_identity_is_accepted(tmp_path: Path) -> None:
    """A log with the identity of another root is refused."""
    require_same_place(Root(tmp_path), {})
    with pytest.raises(RootElsewhere):
        require_same_place(Root(tmp_path), {**read_identity(tmp_path), "path": "/elsewhere"})
