"""On a full or read-only disk, wfctl loses no acknowledged data and can repair its files."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.cli.support import Answer, Place, tree, write_plan
from tests.cli.test_reads import READS
from tests.need import need

pytestmark = [pytest.mark.slow, pytest.mark.root]

#: Size in bytes of the test file system, slightly larger than a workflow.
SIZE = 2_000_000
#: Block size in bytes of the test file system.
BLOCK = 4096
#: A note so long that it needs more disk blocks in progress.log than in the event log.
LONG = "x" * 19_000


def mount(*arguments: str | Path) -> None:
    """Mount a file system, and skip the test if a container forbids that."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    need(done.returncode == 0, f"mount is not permitted here: {done.stderr.strip()}")


class Disk(Place):
    """A workflow root on a small separate file system."""

    def fill(self) -> None:
        """Fill the file system completely."""
        with (self.path / "ballast").open("wb", buffering=0) as ballast:
            try:
                while ballast.write(b"x" * BLOCK):
                    pass
            except OSError:
                return

    def make_room(self) -> None:
        """Free the space that `fill` used."""
        (self.path / "ballast").unlink()

    def leave(self, free: int) -> None:
        """Fill the file system, except for the given number of bytes."""
        self.fill()
        ballast = self.path / "ballast"
        os.truncate(ballast, max(0, ballast.stat().st_size - free))

    def become(self, kept: Path) -> None:
        """Replace the content with a saved copy."""
        for path in self.path.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(kept, self.path, dirs_exist_ok=True)

    def read_only(self, on: bool = True) -> None:
        """Make the file system read-only, or writable again."""
        mount("-o", f"remount,{'ro' if on else 'rw'}", self.path)

    def log_lines(self) -> list[str]:
        """Return the messages of progress.log."""
        return [line.split("] ", 1)[1] for line in self.log().splitlines()]


@contextmanager
def small_disk(path: Path, size: int) -> Iterator[Disk]:
    """Mount an empty file system of ``size`` bytes at a new folder."""
    path.mkdir()
    mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", path)
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "-l", path], check=True)


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Disk]:
    """Create an empty file system."""
    with small_disk(tmp_path / "disk", SIZE) as disk:
        yield disk


@pytest.fixture
def disk(bare: Disk, tmp_path: Path) -> Disk:
    """Create a workflow on a separate file system."""
    answer = bare.json("init", str(write_plan(tmp_path)), "--consent", "trust")
    assert answer.code == 0, answer
    return bare


WRITES = {
    "note": ["note", "hello"],
    "dispatch": ["dispatch", "stage-1"],
    "dispatch --sync": ["dispatch", "stage-1", "--sync"],
    "stage": ["stage", "prepare", "stage-1"],
    "rehydrate": ["rehydrate"],
    "replay": ["replay", "--rebuild"],
}


@pytest.mark.parametrize("name", sorted(set(READS) - {"a dry run"}))
def test_reading_command_works_on_a_read_only_disk(disk: Disk, name: str) -> None:
    """The command succeeds without writing a file."""
    disk.read_only()
    answer = disk.json(*READS[name])
    assert answer.code == 0, answer


@pytest.mark.parametrize("name", ["note", "dispatch", "dispatch --sync", "stage"])
def test_write_on_a_read_only_disk_changes_nothing(disk: Disk, name: str) -> None:
    """The command exits with code 1 and the reason, and succeeds once the disk is writable."""
    before = tree(disk.path)
    disk.read_only()
    answer = disk.json(*WRITES[name])
    assert (answer.code, answer.error["code"]) in ((1, "store_unwritable"), (1, "read_only"))
    assert "Traceback" not in answer.err
    assert tree(disk.path) == before
    disk.read_only(False)
    assert disk.json(*WRITES["note"]).code == 0
    assert disk.json("replay", "--check").code == 0


def test_init_on_a_read_only_disk_writes_nothing(bare: Disk, tmp_path: Path) -> None:
    """`init` fails, and succeeds after the disk is writable."""
    plan = str(write_plan(tmp_path))
    bare.read_only()
    answer = bare.json("init", plan, "--consent", "trust")
    assert (answer.code, answer.error["code"]) == (1, "read_only")
    assert tree(bare.path) == {}
    bare.read_only(False)
    assert bare.json("init", plan, "--consent", "trust").code == 0


NO_ROOM = ("disk_full", "store_unwritable", "files_behind")


@pytest.mark.parametrize("free", [0, 4096, 16_384, 45_056, 65_536, 98_304])
def test_init_on_a_full_disk_can_be_repeated(bare: Disk, tmp_path: Path, free: int) -> None:
    """A second `init` completes the failed one, or reports that the workflow exists."""
    plan = str(write_plan(tmp_path))
    bare.leave(free)
    first = bare.json("init", plan, "--consent", "trust")
    assert first.code in (0, 1)
    assert first.code == 0 or first.error["code"] in NO_ROOM
    bare.make_room()
    recorded = first.code == 1 and first.error["code"] == "files_behind"
    again = bare.json("init", plan, "--consent", "trust")
    assert again.code == (4 if first.code == 0 or recorded else 0), again
    assert bare.json("note", "then").code == 0
    check(bare)


def check(disk: Disk) -> None:
    """Check that the files match the log, and that the log has no findings."""
    assert disk.json("replay", "--check").code == 0
    assert disk.json("fsck").code == 0


def test_note_on_a_full_disk_is_recorded_or_refused(disk: Disk) -> None:
    """The log contains every note whose command succeeded, and no refused note."""
    disk.leave(65_536)
    acknowledged = []
    for number in range(25):
        text = f"{number} " + "x" * 4000
        answer = disk.json("note", text)
        if answer.code == 0 or answer.error["code"] == "files_behind":
            acknowledged.append(text)
        else:
            assert answer.error["code"] in ("store_unwritable", "disk_full")
    assert 0 < len(acknowledged) < 25
    disk.make_room()
    assert disk.json("note", "then").code == 0
    assert disk.notes() == [*acknowledged, "then"]
    assert [line for line in disk.log_lines() if line in acknowledged] == acknowledged
    check(disk)


def test_note_that_is_recorded_but_not_in_the_files_is_reported(disk: Disk, tmp_path: Path) -> None:
    """The error states the version, and a repetition with the same key records no second note."""
    line = ["note", LONG, "--command-id", "key-1"]
    answer = first_behind(disk, line, shutil.copytree(disk.path, tmp_path / "kept"))
    assert "the next command that writes" in answer.error["message"]
    assert answer.error["data"]["version"] == 3
    disk.make_room()
    again = disk.json(*line)
    assert again.data["repeated"] is True
    assert disk.log_lines()[-1] == LONG
    check(disk)


def first_behind(disk: Disk, line: list[str], kept: Path) -> Answer:
    """Find an amount of space that fits the log but not the files, and return the answer.

    Each try starts with the same files, because leftover engine files would change the required
    space.
    """
    for free in range(0, 64 * BLOCK, BLOCK):
        disk.leave(free)
        answer = disk.json(*line)
        assert answer.code == 1, "the disk was never between the two"
        if answer.error["code"] == "files_behind":
            return answer
        disk.become(kept)
    raise AssertionError("nothing was ever recorded")


def test_write_without_space_leaves_no_file_open(disk: Disk) -> None:
    """No file stays open, even while the error object exists."""
    disk.leave(0)
    gc.disable()
    try:
        assert disk.json("note", LONG).error["code"] == "store_unwritable"
        assert [name for name in open_files() if str(disk.path) in name] == []
    finally:
        gc.enable()


def open_files() -> list[str]:
    """Return the names of the open files of this process."""
    found = []
    for number in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(number.readlink()))
    return found


@pytest.mark.parametrize("free", [0, 8192, 32_768])
def test_dispatch_on_a_full_disk_runs_no_unrecorded_attempt(disk: Disk, free: int) -> None:
    """The dispatch is refused or recorded, and the workflow continues once there is space."""
    disk.leave(free)
    answer = disk.json("dispatch", "stage-1", "--sync")
    assert answer.code in (0, 1)
    started = "attempt.started" in disk.types()
    traces = list(disk.path.glob("stage-1/.attempts/*/work/**/*.json"))
    assert started or not traces
    disk.make_room()
    assert disk.json("rehydrate").code == 0
    check(disk)
