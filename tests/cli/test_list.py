"""All workflows of a login, wherever they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.support import PLAN, Place, call, write_plan
from tests.server import Server


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the roots of other tests be no roots of this login."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def made(folder: Path, name: str, *more: str) -> Place:
    """Make a workflow of this name in a folder."""
    folder.mkdir()
    plan = write_plan(folder, {**PLAN, "workflow_id": name})
    assert call("--root", str(folder), *more, "init", str(plan), "--consent", "trust").code == 0
    return Place(folder)


def listed(*more: str) -> list[dict[str, object]]:
    """Return what is listed."""
    answer = call("-o", "json", *more, "list")
    assert answer.code == 0, answer
    found: list[dict[str, object]] = answer.data["workflows"]
    return found


def test_every_root_that_was_written_in_is_listed_once(tmp_path: Path) -> None:
    """With status, what waits, and its size; one that is gone is not."""
    one, two = made(tmp_path / "one", "first"), made(tmp_path / "two", "second")
    one.done("note", "again")
    two.done("stage", "prepare", "stage-1")
    two.done("stage", "fail", "stage-1", "--error", "broke")
    two.done("amend", "propose", "--stage", "stage-2", "--set", "parameters.x=1", "--reason", "so")
    found = {str(record["workflow"]): record for record in listed()}
    assert set(found) == {"first", "second"}
    assert found["first"]["root"] == str(tmp_path / "one")
    waits = str(found["second"]["waits"])
    assert "amendment amend-1" in waits
    assert "failure stage-1" in waits
    assert int(str(found["second"]["bytes"])) > 0
    text = call("list").out
    assert "first" in text
    assert "WAITS FOR A PERSON" in text
    shutil.rmtree(tmp_path / "one")
    assert [record["workflow"] for record in listed()] == ["second"]


def test_a_workflow_whose_session_found_nothing_more_to_do_is_told(tmp_path: Path) -> None:
    """No failure and no decision says so: a stage has nothing to run."""
    silent = {"id": "stage-1", "name": "Think", "outputs": ["stage-1/thought.txt"]}
    (tmp_path / "one").mkdir()
    plan = write_plan(tmp_path / "one", {"workflow_id": "w", "stages": [silent]})
    place = Place(tmp_path / "one")
    assert place.call("init", str(plan), "--consent", "trust").code == 0
    assert listed()[0]["waits"] == []
    assert "amend propose --stage stage-1 --set parameters.command=COMMAND" in place.call("run").out
    assert listed()[0]["waits"] == ["its last session ended blocked; wfctl why"]
    assert "to go on: wfctl dispatch stage-1" in place.call("why", "stage-1").out


def test_a_list_is_bounded_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    """The newest first."""
    for name in ("a", "b", "c"):
        made(tmp_path / name, name)
    answer = call("-o", "json", "list", "-n", "2").data
    assert [record["workflow"] for record in answer["workflows"]] == ["c", "b"]
    assert answer["left_out"] == 1


def test_a_root_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    """It is told with the reason."""
    made(tmp_path / "good", "good")
    made(tmp_path / "bad", "bad")
    (tmp_path / "bad/.wfctl/events.db").unlink()
    found = listed()
    assert {record["workflow"] for record in found} == {"good", None}
    assert any(record["note"] for record in found)


@pytest.mark.slow
def test_on_a_server_the_workflows_of_the_group_are_listed(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of other logins too, which no root here shows; nothing of a password."""
    url = server.schema()
    made(tmp_path / "theirs", "theirs", "--database-url", url)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mine"))
    assert listed() == []
    found = listed("--database-url", url)
    assert [record["workflow"] for record in found] == ["theirs"]
    assert found[0]["root"] is None
