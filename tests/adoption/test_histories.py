"""The seven real states import, to the letter, with the findings that were checked by eye."""

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
def test_a_real_state_has_the_findings_of_its_golden_file(name: str) -> None:
    """Kind, place and evidence of each, as checked line by line against the log."""
    assert found_in(s.history(name)) == golden(name.replace("/", "-"))


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_workflow_s_git_history_has_the_findings_of_its_golden_file(
    workflow: str, tmp_path: Path
) -> None:
    """With every version, what changed between them without an amendment is found too."""
    states = [s.history(name) for name in s.STATES if name.startswith(f"{workflow}/")]
    folder = s.committed(tmp_path / "repository", states)
    assert found_in(folder, git=True) == golden(f"{workflow}-git")


@pytest.mark.parametrize("name", s.STATES)
def test_an_imported_state_is_the_source_s_to_the_letter(name: str, tmp_path: Path) -> None:
    """Values, the order of keys and unknown fields are as they came."""
    source = s.history(name)
    root = s.imported(s.copied(source, tmp_path / "root"))
    rendered = json.loads((root.path / s.STATE).read_bytes())
    assert json.dumps(rendered) == json.dumps(json.loads((source / s.STATE).read_bytes()))


@pytest.mark.parametrize("name", s.STATES)
def test_nothing_is_lost_from_import_to_rebuild(name: str, tmp_path: Path) -> None:
    """Both files can be made anew from the events alone, the log's old lines byte for byte."""
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
def test_the_log_of_an_import_is_whole(name: str, tmp_path: Path) -> None:
    """Chain, files and stored state agree after an import."""
    root = s.imported(s.copied(s.history(name), tmp_path / "root"))
    assert root.json("fsck").code == 0
    assert root.json("replay", "--check").code == 0


def test_the_sources_are_kept_byte_for_byte(tmp_path: Path) -> None:
    """What was imported can be looked at again, whatever happens to the files."""
    source = s.history("bead-spring-rg/5-57815da")
    root = s.imported(s.copied(source, tmp_path / "root"))
    for file in (s.STATE, s.LOG):
        kept = root.path / ".wfctl" / "imported" / file
        assert kept.read_bytes() == (source / file).read_bytes()


def test_the_state_at_a_time_is_what_the_log_told_of_then(tmp_path: Path) -> None:
    """Between a failure and its retry the stage is shown as failed."""
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


def test_polls_are_folded_into_a_count_in_the_history(tmp_path: Path) -> None:
    """Seventy-four lines of polling are four entries, and the file still has every line."""
    source = s.history("bead-spring-rg-mpi-hpc/2-2b68b55")
    root = s.imported(s.copied(source, tmp_path / "root"))
    polls = [e["message"] for e in root.done("log") if ": polling " in e["message"]]
    assert [message.partition("(")[2] for message in polls] == ["", "35 times)", "", "37 times)"]
    assert root.log().count(": polling ") == (source / s.LOG).read_text("utf-8").count(": polling ")


def test_the_history_shows_the_times_of_the_source(tmp_path: Path) -> None:
    """Readers see when a line says it was so, not when it was imported."""
    root = s.imported(s.copied(s.history("bead-spring-rg/5-57815da"), tmp_path / "root"))
    lines = root.call("log").out.splitlines()
    assert "2026-11-" not in lines[0]
    assert root.done("log")[4]["occurred_at"] == "2026-04-01T00:08:00.000000Z"


def test_a_git_history_is_imported_oldest_first(tmp_path: Path) -> None:
    """Each version comes as its lines and its state; lines that are gone are told apart."""
    states = [s.history(name) for name in s.STATES if name.startswith("bead-spring-rg/")]
    folder = s.committed(tmp_path / "repository", states)
    root = s.imported(folder, "--git")
    types = [event["type"] for event in root.done("events")]
    documents = [e["data"]["document"] for e in root.done("events", "--type", "state.imported")]
    # The first two are of a workflow of another id, whose lines and times are not this one's.
    states = states[2:]
    assert [kind for kind, _ in groupby(types)] == [
        "workflow.imported",
        *["line.imported", "state.imported"] * 3,
    ]
    assert documents == [json.loads((state / s.STATE).read_bytes()) for state in states]
    assert root.log().startswith((states[-1] / s.LOG).read_text("utf-8"))
    assert sum("no longer in the file" in e["message"] for e in root.done("log")) == 18


def test_an_import_reads_the_same_in_another_place(tmp_path: Path) -> None:
    """With --into the source is left alone, and the new root holds what it held."""
    source = s.history("bead-spring-rg/4-ed0c833")
    target = tmp_path / "root"
    answer = call("import", str(source), "--into", str(target), "-o", "json")
    assert answer.code == 0
    assert not (source / ".wfctl").exists()
    root = Place(target)
    assert root.json("replay", "--check").code == 0
    assert root.log().startswith((source / s.LOG).read_text("utf-8"))
