"""Another user of the host, who can read the folders above a root but not the root."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lifecycle.fold.evolve import REDUCER
from service.reading import stream_log
from service.reading.stream_log import key_file
from tests.cli.support import Place, wfctl, write_plan

STRANGER = 65534
#: Script of another user: locks every file below a folder that it can open, and prints their
#: number.
GRAB = """
import fcntl, os, sys
os.setgroups([]), os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[2]))
held = 0
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        try:
            file = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NONBLOCK)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held += "lock" in name or "queue" in name
        except OSError:
            pass
print(held, flush=True)
sys.stdin.read()
"""
#: Script of another group member: appends with a program that only the owner can start.
COLLEAGUE = """
import os, sys
from cli.main import run
root, user, group = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
assert run(["--root", root, "note", "warming up"]) == 0
os.setgroups([]), os.setgid(group), os.setuid(user)
sys.exit(run(["--root", root, "note", "a colleague's"]))
"""

#: Script of another group member: edits the cached state of the owner, and seals it with the
#: owner's key if that file is readable, or else with a key of zeros.
FORGER = """
import os, sqlite3, sys
from service.reading.stream_log import Seal
root, key, user, group = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
os.setgroups([]), os.setgid(group), os.setuid(user)
try:
    seal = Seal(open(key, "rb").read())
except PermissionError:
    seal = Seal(bytes(32))
    print("the key is closed")
with sqlite3.connect(os.path.join(root, ".wfctl/events.db")) as log:
    for stream, name, version, kept in log.execute(
        "SELECT stream, reducer, version, state FROM folds WHERE reducer LIKE 'workflow %'"
    ).fetchall():
        forged = kept[32:].replace(b'"command":"', b'"command":"evil ')
        assert forged != kept[32:]
        purpose = sys.argv[5].format(version=version, stream=stream)
        log.execute("UPDATE folds SET state = ? WHERE reducer = ?",
                    (seal.sealed(forged, purpose), name))
        print("forged")
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Yield a folder that every user can enter."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture(params=["022", "000"])
def rooted(open_folder: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    """Create a root with umask 022 (common) or 000 (every user may read and write)."""
    root = open_folder / "root"
    before = os.umask(int(request.param, 8))
    try:
        root.mkdir(mode=0o755)
        for words in (
            ["init", str(write_plan(open_folder)), "--consent", "trust"],
            ["dispatch", "stage-1"],
        ):
            answer = wfctl("--root", str(root), *words)
            assert answer.code == 0, answer
    finally:
        os.umask(before)
    yield Place(root)
    # Wait for the dispatched job, because it writes into the folder until it ends.
    assert wfctl("--root", str(root), "wait", "stage-1").code == 0


@pytest.mark.root
def test_lock_by_another_user_does_not_block_appends(rooted: Place) -> None:
    """Another user cannot open any file that wfctl locks, and so cannot block an append."""
    grabber = subprocess.Popen(
        [sys.executable, "-c", GRAB, str(rooted.path), str(STRANGER)],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert grabber.stdout is not None
        assert int(grabber.stdout.readline()) == 0
        assert wfctl("--root", str(rooted.path), "note", "still here").code == 0
    finally:
        grabber.communicate(timeout=30)


@pytest.mark.long
def test_log_and_locks_are_private_to_their_owner(rooted: Place) -> None:
    """Only the owner can read the log's folder and the lock files, whatever the umask."""
    # A finished job may remove a folder during this loop. `os.walk` ignores a removed folder.
    every = (
        Path(folder) / name
        for folder, folders, names in os.walk(rooted.path)
        for name in (*folders, *names)
    )
    private = [path for path in every if "lock" in path.name or "queue" in path.name]
    private += [rooted.path / ".wfctl", rooted.path / ".wfctl/events.db"]
    assert len(private) > 5
    assert {p.name: oct(_others(p)) for p in private if _others(p) and not _is_hidden(p)} == {}


def _others(path: Path) -> int:
    with suppress(FileNotFoundError):  # removed with the folder of its job
        return stat.S_IMODE(path.stat().st_mode) & 0o077
    return 0


def _is_hidden(path: Path) -> bool:
    """Return whether the path is inside a folder of wfctl that only its owner can enter."""
    return any(p.name == ".attempts" and not _others(p) for p in path.parents)


def shared(root: Path) -> Place:
    """Create a root that its owner shares with a group."""
    root.mkdir()
    place = Place(root)
    assert place.call("init", str(write_plan(root.parent)), "--consent", "trust").code == 0
    for path in (root, *root.rglob("*")):
        os.chown(path, -1, STRANGER)
        path.chmod(0o2770 if path.is_dir() else 0o660)
    return place


def as_colleague(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a script that becomes another member of the group."""
    return subprocess.run(
        [sys.executable, "-c", script, *words],
        # The other group member uses a separate configuration folder.
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "XDG_CONFIG_HOME": str(Path(words[0]).parent / "of-the-colleague"),
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.root
def test_root_shared_by_its_owner_stays_shared(open_folder: Path) -> None:
    """A group member who can write `.wfctl` can append events."""
    root = open_folder / "root"
    place = shared(root)
    assert place.call("note", "mine").code == 0
    done = as_colleague(COLLEAGUE, str(root), str(STRANGER - 1), str(STRANGER))
    assert done.returncode == 0, done.stderr
    assert place.call("note", "mine again").code == 0
    assert place.notes() == ["mine", "warming up", "a colleague's", "mine again"]


@pytest.mark.root
@pytest.mark.slow
def test_user_with_write_access_to_the_log_cannot_forge_a_cached_state(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """wfctl ignores a cached state that a colleague sealed without the owner's key."""
    monkeypatch.setenv("XDG_STATE_HOME", str(open_folder / "state-of-the-owner"))
    place = shared(open_folder / "root")
    notes = open_folder / "notes.jsonl"
    notes.write_text('{"type": "note.logged", "data": {"text": "x"}}\n' * 510)
    place.done("append", "--from", str(notes))
    right = place.done("show", "stage-1")["parameters"]
    purpose = f"{stream_log.NAME} {REDUCER} never-signed {{version}} {{stream}}"
    logins = (str(STRANGER - 1), str(STRANGER))
    done = as_colleague(FORGER, str(place.path), str(key_file()), *logins, purpose)
    assert done.stdout.splitlines() == ["the key is closed", "forged"], done.stderr
    assert place.done("show", "stage-1")["parameters"] == right
    # Check that the forged state would be accepted with the owner's key. Otherwise the test above
    # would prove nothing.
    done = as_colleague(FORGER, str(place.path), str(key_file()), "0", "0", purpose)
    assert done.stdout.splitlines() == ["forged"], done.stderr
    assert place.done("show", "stage-1")["parameters"] != right
