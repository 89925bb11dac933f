"""`wfctl list` shows all workflows of a user, wherever their roots are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.support import PLAN, Place, call, write_plan
from tests.server import Server


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a separate state folder, so that roots of other tests are not listed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def made(folder: Path, name: str, *more: str) -> Place:
    """Create a workflow with the given id in a folder."""
    folder.mkdir()
    plan = write_plan(folder, {**PLAN, "workflow_id": name})
    assert call("--root", str(folder), *more, "init", str(plan), "--consent", "trust").code == 0
    return Place(folder)


def listed(*more: str) -> list[dict[str, object]]:
    """Return the workflows that `wfctl list` shows."""
    answer = call("-o", "json", *more, "list")
    assert answer.code == 0, answer
    found: list[dict[str, object]] = answer.data["workflows"]
    return found


def test_every_written_root_is_listed_once(tmp_path: Path) -> None:
    """`wfctl list` shows the status, pending items and size of each existing root."""
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


def test_blocked_workflow_without_failures_is_reported(tmp_path: Path) -> None:
    """The list says that the last session ended blocked, because a stage has no command."""
    silent = {"id": "stage-1", "name": "Think", "outputs": ["stage-1/thought.txt"]}
    (tmp_path / "one").mkdir()
    plan = write_plan(tmp_path / "one", {"workflow_id": "w", "stages": [silent]})
    place = Place(tmp_path / "one")
    assert place.call("init", str(plan), "--consent", "trust").code == 0
    assert listed()[0]["waits"] == []
    assert "amend propose --stage stage-1 --set parameters.command=COMMAND" in place.call("run").out
    assert listed()[0]["waits"] == ["its last session ended blocked; wfctl why"]
    assert "next: wfctl dispatch stage-1" in place.call("why", "stage-1").out


def test_list_is_limited_and_counts_the_omitted_workflows(tmp_path: Path) -> None:
    """`wfctl list` shows the newest workflows first and the number of omitted ones."""
    for name in ("a", "b", "c"):
        made(tmp_path / name, name)
    answer = call("-o", "json", "list", "-n", "2").data
    assert [record["workflow"] for record in answer["workflows"]] == ["c", "b"]
    assert answer["left_out"] == 1


def test_unreadable_root_hides_no_other_root(tmp_path: Path) -> None:
    """`wfctl list` shows an unreadable root with the reason, and all other roots."""
    made(tmp_path / "good", "good")
    made(tmp_path / "bad", "bad")
    (tmp_path / "bad/.wfctl/events.db").unlink()
    found = listed()
    assert {record["workflow"] for record in found} == {"good", None}
    assert any(record["note"] for record in found)


@pytest.mark.slow
def test_list_on_a_server_includes_workflows_of_the_group(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list includes workflows of other users, and prints no password."""
    url = server.schema()
    made(tmp_path / "theirs", "theirs", "--database-url", url)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mine"))
    assert listed() == []
    found = listed("--database-url", url)
    assert [record["workflow"] for record in found] == ["theirs"]
    assert found[0]["root"] is None


@pytest.mark.slow
def test_damaged_row_on_a_server_affects_only_its_workflow(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list states the damage, and a backup (exit code 7) contains the other workflows."""
    url = server.schema()
    for name in ("altered", "intact"):
        made(tmp_path / name, name, "--database-url", url)
    server.sql(
        "SET session_replication_role = replica",
        "UPDATE events SET body = replace(body, 'See it', 'See') WHERE stream LIKE '%altered'",
        url=url,
    )
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mine"))
    found = {str(record["workflow"]): record for record in listed("--database-url", url)}
    assert set(found) == {"altered", "intact"}
    assert "was changed after it was recorded" in str(found["altered"]["note"])
    file = tmp_path / "backup"
    answer = call("-o", "json", "--database-url", url, "db", "backup", str(file))
    assert (answer.code, answer.data["left_out"]) == (7, ["workflow-altered"])
    new = tmp_path / "new"
    new.mkdir()
    assert call("--root", str(new), "db", "restore", str(file)).code == 0
    assert Place(new).json("status").envelope["_meta"]["workflow"] == "intact"


@pytest.mark.slow
def test_workflow_is_listed_once_under_all_spellings_of_its_server(
    tmp_path: Path, server: Server
) -> None:
    """A workflow is listed once if two different URLs name the same database."""
    url = server.schema()
    made(tmp_path / "mine", "mine", "--database-url", url)
    found = listed("--database-url", f"{url}&connect_timeout=9")
    assert [record["workflow"] for record in found] == ["mine"]
