"""`wfctl serve ARCHIVE` shows an archived workflow without importing it, and leaves no files."""

from __future__ import annotations

import signal
import stat
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.cli.support import Place, tree, wfctl
from tests.exports.support import handed_over
from tests.keeping.support import made, stage
from tests.pages.support import PATIENCE, served
from tests.pages.test_pages import PAGES, home


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the folders in which wfctl could leave files, first the one for temporary files."""
    made = {name: tmp_path / name for name in ("TMPDIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    for name, folder in made.items():
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    return list(made.values())


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_served_archive_leaves_no_files(
    half_way: Place, tmp_path: Path, places: list[Path], end: signal.Signals
) -> None:
    """wfctl unpacks the archive to a private folder, and removes it when the server ends."""
    file = handed_over(half_way, tmp_path)
    before = [tree(place) for place in places]
    with served(tmp_path, str(file)) as pages:
        (folder,) = places[0].iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        unpacked = tree(folder)
        listed = pages.get("/").text
        assert f"archive {file}" in listed
        assert 'class="command"' not in listed
        for page in PAGES:
            found = pages.get(f"{home(pages)}{page}")
            assert (found.status, f"From the archive {file}" in found.text) == (200, True)
            assert found.text.count('class="command"') == 1  # The only command is the import.
            assert 'method="post"' not in found.text.lower()
        assert "amend-3" in pages.get(f"{home(pages)}amendments").text
        assert pages.ask("/", "POST", Cookie=pages.cookie).status == 501
        assert tree(folder) == unpacked
        pages.process.send_signal(end)
        pages.process.wait(PATIENCE)
    assert [tree(place) for place in places] == before


@pytest.mark.long
def test_archive_pages_match_the_pages_of_the_root(tmp_path: Path, places: list[Path]) -> None:
    """The pages of an archive equal those of its workflow, including the content of results."""
    outputs = {"outputs": ["stage-1/a.csv"]}
    place = made(
        tmp_path, stage(1, "printf 'x\\n%s\\n' $((6 * 7)) > a.csv", **outputs), consent="trust"
    )
    place.done("run")
    file, of_root = handed_over(place, tmp_path), ("--root", str(place.path))
    with served(tmp_path, str(file)) as there, served(tmp_path, *of_root) as here:
        for page in ("history", "amendments", "stage/stage-1", "?at=4"):
            shown = [pages.get(f"{home(pages)}{page}").text for pages in (there, here)]
            parts = [text.partition('<main id="main">')[2] for text in shown]
            assert parts[0] == parts[1]
        assert "<td>42</td>" in there.get(f"{home(there)}stage/stage-1").text


def test_serving_another_file_is_refused(
    completed: Place, tmp_path: Path, places: list[Path]
) -> None:
    """`wfctl serve` refuses a file that is no archive, says why, and writes nothing."""
    (tmp_path / "text.zip").write_text("no")
    whole = handed_over(completed, tmp_path).read_bytes()
    (tmp_path / "half.zip").write_bytes(whole[: len(whole) // 2])
    with ZipFile(tmp_path / "other.zip", "w") as other:
        other.writestr("notes.txt", "no")
    before = [tree(place) for place in places]
    expected = {
        "text.zip": (1, "complete zip file"),
        "half.zip": (1, "complete zip file"),
        "other.zip": (1, "manifest.json"),
        "missing.zip": (3, "found no file"),
        ".": (2, "found a folder"),
    }
    for name, (code, why) in expected.items():
        answer = wfctl("serve", str(tmp_path / name))
        assert (answer.code, why in answer.err) == (code, True), answer
    both = ("--workflows", str(tmp_path))
    assert wfctl("serve", str(tmp_path / "archive.zip"), *both).code == 2
    assert [tree(place) for place in places] == before
