"""A process that repeatedly swaps a folder or file for a link while wfctl opens it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from service.root.paths_within_root import (
    OutsideRoot,
    content_within,
    open_stable_path_within,
    open_within,
)
from tests.adversary.archives import completed, forged
from tests.cli.support import Place, call, write_plan
from tests.exports.support import handed_over

#: Script that swaps two paths atomically and repeatedly until its standard input is closed.
SWAP = """
import ctypes, os, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
one, other = (os.fsencode(path) for path in sys.argv[1:])
print("begun", flush=True)
while True:
    if libc.renameat2(-100, one, -100, other, 2):
        sys.exit(os.strerror(ctypes.get_errno()))
"""
TIMES = 1_000


@contextmanager
def swapping(one: Path, other: Path) -> Iterator[None]:
    """Start a process that swaps two paths as fast as it can."""
    command = [sys.executable, "-c", SWAP, str(one), str(other)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as swapper:
        assert swapper.stdout is not None
        assert swapper.stdin is not None
        assert swapper.stdout.readline() == "begun\n"
        yield
        assert swapper.poll() is None
        swapper.stdin.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create a root with a folder and a link to a folder outside, each with a file."""
    for folder, text in (("root/docs", "ours"), ("outside", "precious")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "report.md").write_text(text)
    (tmp_path / "root/link").symlink_to(tmp_path / "outside")
    return tmp_path / "root"


@pytest.mark.parametrize("what", ["the folder", "the file"])
def test_swapped_link_is_never_read(what: str, root: Path, tmp_path: Path) -> None:
    """While a file is swapped for a link, wfctl reads the file or reports the link."""
    place = root / "docs"
    if what == "the file":
        place = root / "docs/report.md"
        (root / "link").unlink()
        (root / "link").symlink_to(tmp_path / "outside/report.md")
    found = set()
    with swapping(place, root / "link"):
        for _ in range(TIMES):
            try:
                found.add(content_within(root, "docs/report.md"))
            except (OutsideRoot, NotADirectoryError):
                found.add(None)
    assert found == {b"ours", None}


def test_write_stays_in_the_opened_folder(root: Path, tmp_path: Path) -> None:
    """wfctl writes a file to the folder that it opened, even if a link replaced its path."""
    made = 0
    with swapping(root / "docs", root / "link"):
        for number in range(TIMES):
            try:
                with open_stable_path_within(root, f"docs/{number}.md") as place:
                    place.write_text("x")
                made += 1
            except (OutsideRoot, NotADirectoryError):
                continue
    assert made > 0
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["report.md"]


def test_link_within_the_root_is_followed(root: Path) -> None:
    """wfctl follows links within the root, and refuses links that lead out of the root."""
    (root / "inner").symlink_to("docs")
    (root / "docs/other.md").symlink_to("report.md")
    assert content_within(root, "inner/other.md") == b"ours"
    assert content_within(root, "inner/none.md") is None
    with pytest.raises(OutsideRoot):
        open_within(root, "link/report.md")


@pytest.mark.slow
def test_command_writes_nothing_outside_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command writes in the root while its paths are swapped for links."""
    outside, origin = tmp_path / "outside", tmp_path / "origin"
    for folder in (outside, origin):
        folder.mkdir()
    (outside / "precious").write_text("mine\n")
    assert (
        call("--root", str(origin), "init", str(write_plan(tmp_path)), "--consent", "trust").code
        == 0
    )
    honest = handed_over(Place(origin), tmp_path)
    made = tmp_path / "made"
    file = forged(honest, tmp_path / "due.zip", completed("docs/report.md"))
    assert call("import", str(file), "--into", str(made)).code == 0
    (made / "docs").mkdir(exist_ok=True)
    (made / "other").symlink_to(outside)
    (made / "log").symlink_to(outside / "precious")
    place = ("--root", str(made), "--root-is", "copied", "-o", "json")
    with swapping(made / "docs", made / "other"), swapping(made / "progress.log", made / "log"):
        for number in range(20):
            answer = call(*place, "note", f"note {number}")
            assert answer.code in (0, 1, 3), answer
            for report in made.glob("docs/*.md"):
                report.unlink(missing_ok=True)
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"precious": "mine\n"}
