"""`wfctl import` of seven real workflow states loses nothing and reports known findings."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

import pytest

from tests.adoption import support as s
from tests.adoption.golden import found_in, golden
from tests.cli.support import Place, call

WORKFLOWS = ["bead-spring-rg", "bead-spring-rg-mpi-hpc"]


@pytest.mark.parametrize("name", s.STATES)
def test_real_state_has_the_findings_of_its_golden_file(name: str) -> None:
    """The import reports the findings that were checked by hand against the log."""
    assert found_in(s.history(name)) == golden(name.replace("/", "-"))


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_git_history_has_the_findings_of_its_golden_file(workflow: str, tmp_path: Path) -> None:
    """An import of all versions in git also finds changes that have no amendment."""
    states = [s.history(name) for name in s.STATES if name.startswith(f"{workflow}/")]
    folder = s.committed(tmp_path / "repository", states)
    assert found_in(folder, git=True) == golden(f"{workflow}-git")


@pytest.mark.parametrize("name", s.STATES)
def test_imported_state_equals_its_source(name: str, tmp_path: Path) -> None:
    """An import preserves values, key order and unknown fields of the state file."""
    source = s.history(name)
    root = s.imported(s.copied(source, tmp_path / "root"))
    rendered = json.loads((root.path / s.STATE).read_bytes())
    assert json.dumps(rendered) == json.dumps(json.loads((source / s.STATE).read_bytes()))


@pytest.mark.parametrize("name", s.STATES)
def test_rebuild_after_an_import_loses_nothing(name: str, tmp_path: Path) -> None:
    """The rebuild restores the state file and the log file with their imported content."""
    source = s.history(name)
    root = s.imported(s.copied(source, tmp_path / "root"))
    written = {file: (root.path / file).read_bytes() for file in (s.STATE, s.LOG)}
    for file in written:
        (root.path / file).unlink()
    root.done("replay", "--rebuild")
    log = (root.path / s.LOG).read_bytes()
    assert (root.path / s.STATE).read_bytes() == written[s.STATE]
    assert log.startswith((source / s.LOG).read_bytes())
    assert b"Workflow imported: " in log


@pytest.mark.parametrize("name", s.STATES)
def test_log_of_an_import_has_no_findings(name: str, tmp_path: Path) -> None:
    """After an import, the hash chain, the files and the cached state have no error."""
    root = s.imported(s.copied(s.history(name), tmp_path / "root"))
    assert root.json("fsck").code == 0
    assert root.json("replay", "--check").code == 0


def test_imported_sources_are_kept_unchanged(tmp_path: Path) -> None:
    """The workflow keeps copies of the imported files, even if the originals change later."""
    source = s.history("bead-spring-rg/5-57815da")
    root = s.imported(s.copied(source, tmp_path / "root"))
    for file in (s.STATE, s.LOG):
        kept = root.path / ".wfctl" / "imported" / file
        assert kept.read_bytes() == (source / file).read_bytes()


def test_state_at_a_past_time_follows_the_imported_log(tmp_path: Path) -> None:
    """Between a failure and its retry, the stage is shown as failed."""
    root = s.imported(s.copied(s.history("bead-spring-rg-mpi-hpc/2-2b68b55"), tmp_path / "root"))
    seen = {
        moment: [
            stage["status"]
            for stage in root.done("status", "--at", f"2026-04-02T{moment}Z")["stages"]
        ]
        for moment in ("01:08:30", "02:21:30", "03:30:00")
    }
    assert seen == {
        "01:08:30": ["completed", "running", "pending"],
        "02:21:30": ["completed", "completed", "preparing"],
        "03:30:00": ["completed", "completed", "completed"],
    }


def test_polling_lines_are_combined_in_the_history(tmp_path: Path) -> None:
    """Seventy-four polling lines become four entries, and the file keeps every line."""
    source = s.history("bead-spring-rg-mpi-hpc/2-2b68b55")
    root = s.imported(s.copied(source, tmp_path / "root"))
    polls = [e["message"] for e in root.done("log") if ": polling " in e["message"]]
    assert [message.partition("(")[2] for message in polls] == ["", "35 times)", "", "37 times)"]
    assert root.log().count(": polling ") == (source / s.LOG).read_text("utf-8").count(": polling ")


def test_history_shows_the_times_of_the_source(tmp_path: Path) -> None:
    """An imported line shows its original time, not the time of the import."""
    root = s.imported(s.copied(s.history("bead-spring-rg/5-57815da"), tmp_path / "root"))
    lines = root.call("log").out.splitlines()
    assert "2026-11-" not in lines[0]
    assert root.done("log")[4]["occurred_at"] == "2026-04-01T00:08:00.000000Z"


def test_git_history_is_imported_oldest_first(tmp_path: Path) -> None:
    """For each version in git, the import records the new log lines and then the state."""
    states = [s.history(name) for name in s.STATES if name.startswith("bead-spring-rg/")]
    folder = s.committed(tmp_path / "repository", states)
    root = s.imported(folder, "--git")
    types = [event["type"] for event in root.done("events")]
    documents = [e["data"]["document"] for e in root.done("events", "--type", "state.imported")]
    # The first two versions belong to a workflow with another id, so they are ignored.
    states = states[2:]
    assert [kind for kind, _ in groupby(types)] == [
        "workflow.imported",
        *["line.imported", "state.imported"] * 3,
    ]
    assert documents == [json.loads((state / s.STATE).read_bytes()) for state in states]
    assert root.log().startswith((states[-1] / s.LOG).read_text("utf-8"))
    assert sum("no longer in the file" in e["message"] for e in root.done("log")) == 18


def test_import_into_another_folder_keeps_the_source(tmp_path: Path) -> None:
    """With --into the source stays unchanged, and the new root has the same content."""
    source = s.history("bead-spring-rg/4-ed0c833")
    target = tmp_path / "root"
    answer = call("import", str(source), "--into", str(target), "-o", "json")
    assert answer.code == 0
    assert not (source / ".wfctl").exists()
    root = Place(target)
    assert root.json("replay", "--check").code == 0
    assert root.log().startswith((source / s.LOG).read_text("utf-8"))
