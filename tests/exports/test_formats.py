"""Properties of all export formats: their bytes, their targets and their versions."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from extensions.exports.formats import FORMATS
from tests.cli.support import Place, call, tree, wfctl, write_plan
from tests.exports.golden import KEPT, frozen_root, path_of
from tests.exports.support import exported, text_of
from tests.exports.world import STORIES, make_root

HOW = "if it is meant so, write them anew: python -m tests.exports.golden"
UNCHAINED = [name for name, maker in FORMATS.items() if not maker.chained]


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Place]:
    """Create roots from the stored events, without applying the current rules."""
    folder = tmp_path_factory.mktemp("frozen")
    return {story: Place(frozen_root(folder / story, story)) for story in KEPT}


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("story", KEPT)
def test_a_fixed_history_makes_these_very_bytes(
    frozen: dict[str, Place], story: str, format_: str
) -> None:
    """Each export equals its stored copy, because other tools read these formats."""
    assert text_of(frozen[story], format_) == path_of(story, format_).read_text("utf-8"), HOW


@pytest.mark.parametrize("format_", FORMATS)
def test_export_is_repeatable_and_changes_nothing(told: Place, format_: str) -> None:
    """Two exports have the same bytes, and the root stays unchanged."""
    before = tree(told.path)
    assert exported(told, format_) == exported(told, format_)
    assert tree(told.path) == before


@pytest.mark.parametrize("line", [["log"], ["log", "-"]])
def test_export_without_a_file_goes_to_stdout(half_way: Place, line: list[str]) -> None:
    """Without a file or with `-`, stdout has the export and nothing else."""
    answer = wfctl("--root", str(half_way.path), "export", *line)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == text_of(half_way, "log")


def test_export_writes_a_complete_file(half_way: Place, tmp_path: Path) -> None:
    """The export replaces an existing file, and its answer has the size and the digest."""
    file = tmp_path / "state.json"
    file.write_text("old")
    data = half_way.done("export", "state", str(file))
    content = file.read_bytes()
    assert data == {
        "format": "state",
        "file": str(file),
        "bytes": len(content),
        "sha256": sha256(content).hexdigest(),
    }
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_export_writes_through_a_link_but_not_to_a_pipe(half_way: Place, tmp_path: Path) -> None:
    """The target of a link is written, and a pipe or a folder is refused."""
    file, link, pipe = tmp_path / "file", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to("file")
    half_way.done("export", "state", str(link))
    assert link.is_symlink()
    assert file.read_bytes() == exported(half_way, "state")
    os.mkfifo(pipe)
    for format_ in ("state", "archive"):
        for place in (pipe, tmp_path):
            assert half_way.json("export", format_, str(place)).code == 2
    assert pipe.is_fifo()


def test_json_output_requires_a_file(half_way: Place) -> None:
    """With `-o json`, stdout has the answer and cannot have the export too."""
    answer = half_way.json("export", "svg")
    assert (answer.code, answer.error["code"]) == (2, "invalid_option")
    assert "FILE" in answer.error["message"]


def test_unknown_export_format_is_a_usage_error(half_way: Place) -> None:
    """The message lists the known formats."""
    answer = half_way.json("export", "pdf")
    assert (answer.code, answer.error["code"]) == (2, "usage")
    assert "mermaid" in answer.error["message"]


@pytest.mark.parametrize("format_", UNCHAINED)
def test_export_at_a_version_ignores_later_events(
    half_way: Place, tmp_path: Path, format_: str
) -> None:
    """The export equals that of a log which ends at this version."""
    story = STORIES["half-way"][:12]
    earlier = Place(make_root(tmp_path / "root", story))
    at = str(earlier.version())
    assert exported(half_way, format_, "--at", at) == exported(earlier, format_)


@pytest.mark.parametrize("format_", sorted(set(FORMATS) - set(UNCHAINED)))
def test_chained_export_takes_a_version_but_no_time(half_way: Place, format_: str) -> None:
    """`--at TIME` is refused, because events chosen by time may break the hash chain."""
    answer = half_way.json("export", format_, "-", "--at", "2026-03-31T10:05:00Z")
    assert (answer.code, answer.error["code"]) == (2, "invalid_option")


def test_export_at_a_time_before_the_start_is_not_found(half_way: Place, tmp_path: Path) -> None:
    """The export exits with code 3 and creates no file."""
    answer = half_way.json("export", "svg", str(tmp_path / "a.svg"), "--at", "1999-01-01")
    assert answer.code == 3
    assert list(tmp_path.iterdir()) == []


def test_exported_events_can_be_checked_without_wfctl(half_way: Place, tmp_path: Path) -> None:
    """The program of docs/trust/verify-without-wfctl.md finds a changed byte."""
    page = (Path(__file__).parents[2] / "docs/trust/verify-without-wfctl.md").read_text("utf-8")
    program = tmp_path / "verify.py"
    program.write_text(page.split("```python\n")[1].split("```")[0])
    file = tmp_path / "events.jsonl"
    half_way.done("export", "events", str(file))
    line = [sys.executable, str(program)]
    good = subprocess.run(line, input=file.read_bytes(), capture_output=True, check=False)
    assert good.returncode == 0
    bad = file.read_bytes().replace(b"more memory", b"less memory")
    assert subprocess.run(line, input=bad, capture_output=True, check=False).returncode != 0


def test_exported_state_and_log_equal_the_files(tmp_path: Path) -> None:
    """The exports equal the files, including lines that other programs wrote."""
    root = tmp_path / "root"
    root.mkdir()
    assert (
        call("--root", str(root), "init", str(write_plan(tmp_path)), "--consent", "trust").code == 0
    )
    place = Place(root)
    with (root / "progress.log").open("ab") as file:
        file.write("by hand: \xff, äöü\n".encode("latin-1"))
    place.done("note", "after that")
    for name, format_ in (("progress.log", "log"), ("workflow-state.json", "state")):
        place.done("export", format_, str(tmp_path / name))
        assert (tmp_path / name).read_bytes() == (root / name).read_bytes()
    assert json.loads((tmp_path / "workflow-state.json").read_bytes())["workflow_id"]


def test_table_has_one_row_for_each_attempt(told: Place) -> None:
    """Each row has the outcome and the command of the attempt."""
    attempts = {
        (stage["id"], one["id"]): one["outcome"] or ""
        for stage in told.done("status")["stages"]
        for one in told.done("show", stage["id"])["attempts"]
    }
    rows = list(csv.DictReader(io.StringIO(text_of(told, "table"))))
    assert {(row["stage"], row["attempt"]): row["outcome"] for row in rows} == attempts
    assert len(rows) == len(attempts)
    assert all("parameters.command" in row for row in rows)


def test_table_cell_is_never_a_formula(tmp_path: Path) -> None:
    """A value that starts with `=` gets a quote, so that a spreadsheet does not run it."""
    place = Place(tmp_path)
    stage = {"id": "stage-1", "name": "=1+1", "parameters": {"command": "true"}}
    (tmp_path / "plan.json").write_text(json.dumps({"workflow_id": "w", "stages": [stage]}))
    place.done("init", str(tmp_path / "plan.json"), "--consent", "trust")
    place.done("dispatch", "stage-1")
    assert "'=1+1" in text_of(place, "table")
