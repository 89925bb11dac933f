"""Random sequences of writes, foreign writes and crashes, none of which may lose a byte."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.root.atomic_files import common_start
from tests.cli.support import Place, call, write_plan
from tests.drift.faults import Faults
from tests.drift.support import (
    LOG,
    PLAN,
    STATE,
    append_log,
    check_clean,
    kept,
    log_bytes,
)

LINES = st.lists(
    st.sampled_from(
        [b"a\n", b"b", b"\n", b"c\r\n", b"\xff\x00\n", b"[2026", b"x" * 13_000 + b"\n"]
    ),
    min_size=1,
    max_size=3,
).map(b"".join)

NOTES = st.tuples(st.just("note"), st.sampled_from(["one", "two"]))
ECHOES = st.tuples(st.just("echo"), LINES)
CRASHES = st.tuples(st.just("crash"), st.integers(0, 7), st.booleans())
EDITS = st.tuples(st.just("edit"), st.sampled_from([b'{"a": 1}\n', b"", b"{", b"[]\n", b"\xff"]))
PATCHES = st.tuples(st.just("patch"), st.sampled_from([b"melt", b"stage-1", b"2026", b"e"]))
REMOVALS = st.tuples(st.just("remove"), st.sampled_from([STATE, LOG]))
SPOILING = st.tuples(st.just("spoil"), st.integers(0, 400))
OURS = NOTES | CRASHES
WHAT_OTHERS_APPEND = st.lists(OURS | ECHOES, max_size=12)
ANYTHING = st.lists(OURS | ECHOES | EDITS | PATCHES | REMOVALS | SPOILING, max_size=12)


class World:
    """A workflow, the bytes that others appended to its log, and all states that wfctl wrote."""

    def __init__(self, place: Place, faults: Faults) -> None:
        self.place = place
        self.faults = faults
        self.echoed: list[bytes] = []
        self.ours: set[bytes] = set()
        self.seen = 0
        self.remember()

    def remember(self) -> None:
        """Add the state file of each new version to the states that wfctl wrote."""
        head = self.place.version()
        for version in range(self.seen + 1, head + 1):
            self.ours.add(self.place.call("replay", "--at", str(version)).out.encode())
        self.seen = head

    def do(self, action: tuple[object, ...]) -> None:
        """Run one action of the sequence."""
        kind, *arguments = action
        getattr(self, f"do_{kind}")(*arguments)

    def do_note(self, text: str) -> None:
        """Write a note with wfctl."""
        found = self.files()
        self.place.done("note", text)
        self.check_nothing_lost(*found)

    def do_crash(self, countdown: int, torn: bool) -> None:
        """Write a note with wfctl, and crash while the files are written."""
        found = self.files()
        self.faults.after(countdown, torn, lambda: self.place.done("note", "killed"))
        self.check_nothing_lost(*found)

    def files(self) -> tuple[bytes, bytes]:
        """Return the content of the state file and the log, or empty bytes for a missing file."""
        state, log = (self.place.path / name for name in (STATE, LOG))
        return (
            state.read_bytes() if state.exists() else b"",
            log.read_bytes() if log.exists() else b"",
        )

    def check_nothing_lost(self, state: bytes, log: bytes) -> None:
        """Check that each earlier byte of both files is kept, copied, or written by wfctl."""
        self.remember()
        new_state, new_log = self.files()
        assert state == new_state or state in kept(self.place) or self.is_ours(state), state
        same = common_start(log, new_log)
        # If wfctl crashed during a repair, the file starts with new bytes, followed by the end of a
        # kept version.
        assert any(old[same:].startswith(log[same:]) for old in (b"", *kept(self.place))), log

    def is_ours(self, state: bytes) -> bool:
        """Return whether wfctl wrote these bytes, completely or as an interrupted write."""
        return any(ours.startswith(state) for ours in self.ours)

    def do_echo(self, content: bytes) -> None:
        """Append bytes to the log as another program does."""
        append_log(self.place, content)
        self.echoed.append(content)

    def do_edit(self, content: bytes) -> None:
        """Replace the content of the state file."""
        (self.place.path / STATE).write_bytes(content)

    def do_patch(self, word: bytes) -> None:
        """Replace one word in the state file."""
        path = self.place.path / STATE
        if path.exists():
            path.write_bytes(path.read_bytes().replace(word, b"X", 1))

    def do_remove(self, name: str) -> None:
        """Delete a file of the workflow."""
        (self.place.path / name).unlink(missing_ok=True)

    def do_spoil(self, where: int) -> None:
        """Change one byte at the given position of the log."""
        path = self.place.path / LOG
        content = path.read_bytes() if path.exists() else b""
        if where < len(content):
            path.write_bytes(content[:where] + b"#" + content[where + 1 :])

    def settle(self) -> None:
        """Write a note without a crash, and check all files."""
        self.do_note("settled")
        check_clean(self.place)
        assert self.place.call("fsck").code == 0


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    """Simulate crashes at every disk write."""
    return Faults(monkeypatch)


@pytest.fixture
def base(tmp_path: Path) -> Place:
    """Create the workflow that every example copies."""
    root = tmp_path / "base"
    root.mkdir()
    answer = call(
        "--root", str(root), "init", str(write_plan(tmp_path, PLAN)), "--consent", "trust"
    )
    assert answer.code == 0, answer
    return Place(root)


def copies(base: Place, faults: Faults) -> Iterator[World]:
    """Yield a copy of the workflow, and delete the copy afterwards."""
    folder = Path(tempfile.mkdtemp(dir=base.path.parent))
    shutil.copytree(base.path, folder / "root")
    Place(folder / "root").done("note", "a copy", "--root-is", "copied")
    yield World(Place(folder / "root"), faults)
    shutil.rmtree(folder)


ROUNDS = settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.slow
@ROUNDS
@given(actions=WHAT_OTHERS_APPEND)
def test_foreign_lines_keep_their_order_in_the_log_and_in_the_file(
    base: Place, faults: Faults, actions: list[tuple[object, ...]]
) -> None:
    """No foreign byte is lost in a crash, and no drift is reported."""
    for world in copies(base, faults):
        for action in actions:
            world.do(action)
        world.settle()
        assert in_order(world.echoed, log_bytes(world.place))
        assert kept(world.place) == []
        assert [e["type"] for e in world.place.done("events")].count("drift.detected") == 0


def in_order(parts: list[bytes], content: bytes) -> bool:
    """Return whether the content contains all parts in their order."""
    position = 0
    for part in parts:
        found = content.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return True


@pytest.mark.slow
@ROUNDS
@given(actions=ANYTHING)
def test_foreign_bytes_survive_any_sequence_of_actions(
    base: Place, faults: Faults, actions: list[tuple[object, ...]]
) -> None:
    """Each write keeps or copies the foreign bytes. At the end, the files match the log."""
    for world in copies(base, faults):
        for action in actions:
            world.do(action)
        world.settle()
