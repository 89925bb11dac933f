"""`wfctl db copy`, `backup` and `restore` preserve every hash, so the files still match."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from tests.cli.support import HERE, PLAN, Place, call, write_plan
from tests.cli.test_server import made, shown
from tests.server import Server


def lived(place: Place) -> Place:
    """Create a workflow whose log has events, a claim, an attempt and a refusal."""
    place.done("note", "hello", "--command-id", "k")
    place.done("dispatch", "stage-1", "--sync")
    assert place.json("stage", "launch", "stage-2").code == 5
    return place


def hashes(place: Place) -> list[str]:
    """Return the hash of every event."""
    return [event["hash"] for event in place.done("events")]


def check_same(place: Place, before: list[str]) -> None:
    """Check that a root has the given hashes, no findings, and its recorded command ids."""
    assert hashes(place) == before
    assert place.done("replay", "--check")["findings"] == []
    assert place.done("fsck")["findings"] == []
    assert place.done("note", "hello", "--command-id", "k")["repeated"] is True


@pytest.mark.long
@pytest.mark.slow
def test_workflow_moves_to_a_server_and_back(server: Server, place: Place, tmp_path: Path) -> None:
    """After each `db copy`, the generated files still match the log without a rewrite."""
    before, files = hashes(lived(place)), shown(place)
    own, url = place.done("db", "url")["url"], server.schema()
    rehearsed = call("-o", "json", "db", "copy", own, url, "--dry-run").data
    done = call("-o", "json", "db", "copy", own, url).data
    assert rehearsed["events"] == done["events"] == len(before)
    config = place.path / ".wfctl/config.toml"
    config.write_text(f'{config.read_text()}database_url = "{url}"\n')
    (place.path / ".wfctl/events.db").unlink()
    place.done("--actor", "user:ada", "db", "trust")
    check_same(place, before)
    assert shown(place) == files
    back = f"sqlite:///{tmp_path}/back.db"
    assert call("-o", "json", "db", "copy", url, back).code == 0
    config.write_text(config.read_text().replace(url, back))
    place.done("--actor", "user:ada", "db", "trust")
    check_same(place, before)
    assert call("-o", "json", "db", "copy", back, url).code == 4


@pytest.mark.slow
@pytest.mark.few(2)
@pytest.mark.parametrize("form", ["sqlite", "archive"])
@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_backup_restores_a_lost_log(
    request: pytest.FixtureRequest, tmp_path: Path, engine: str, form: str
) -> None:
    """`db restore` works for both databases and formats, but not while a log exists."""
    url = request.getfixturevalue("server").log() if engine == "postgresql" else None
    place = lived(made(tmp_path, url or f"sqlite:///{tmp_path}/log.db"))
    before, file = hashes(place), tmp_path / "backup"
    assert place.done("db", "backup", str(file), "--as", form, "--dry-run")["events"] == len(before)
    assert not file.exists()
    assert place.done("db", "backup", str(file), "--as", form)["events"] == len(before)
    assert place.json("db", "backup", str(file)).code == 4
    assert place.json("db", "restore", str(file)).code == 4
    assert [path.name for path in tmp_path.glob("backup*")] == ["backup"]
    if url is None:
        (tmp_path / "log.db").unlink()
    else:
        request.getfixturevalue("server").empty(url)
    assert place.done("db", "restore", str(file), "--dry-run")["events"] == len(before)
    assert place.done("db", "restore", str(file))["refusals"] == 1
    check_same(place, before)


@pytest.mark.parametrize("form", ["sqlite", "archive"])
def test_unknown_stream_is_not_backed_up(place: Place, tmp_path: Path, form: str) -> None:
    """Backup, copy and restore exit with code 3 and write nothing."""
    file, log = tmp_path / "kept", f"sqlite:///{place.path}/.wfctl/events.db"
    assert place.done("db", "backup", str(file), "--as", form)["events"] > 0
    for line in (
        ["backup", str(tmp_path / "other"), "--as", form],
        ["copy", log, f"sqlite:///{tmp_path}/other"],
        ["restore", str(file)],
    ):
        answer = place.json("db", *line, "--stream", "workflow-typo")
        assert (answer.code, answer.error["code"]) == (3, "not_found")
    assert not (tmp_path / "other").exists()
    assert place.json("db", "backup", "-", "--as", form).code == 2


@pytest.mark.parametrize(
    ("start", "line"),
    [
        (b'{"claim":', b'{"claim":{"x":1}}'),
        (b'{"refusal":', b'{"refusal":{"x":1}}'),
        (b'{"actor"', b'{"a":"\xff","hash":"' + b"0" * 64 + b'","position":1}'),
    ],
    ids=["claim", "refusal", "event"],
)
def test_archive_with_a_malformed_line_is_damaged(
    place: Place, tmp_path: Path, start: bytes, line: bytes
) -> None:
    """The restore fails even if the digest at the end of the archive matches."""
    assert place.call("stage", "complete", "stage-1").code == 5
    file = tmp_path / "kept"
    place.done("db", "backup", str(file), "--as", "archive")
    kept = [line if old.startswith(start) else old for old in file.read_bytes().splitlines()[:-1]]
    assert line in kept
    body = b"".join(one + b"\n" for one in kept)
    end = json.dumps({"end": {"sha256": sha256(body).hexdigest()}})
    file.write_bytes(body + end.encode() + b"\n")
    (place.path / ".wfctl/events.db").unlink()
    answer = place.json("db", "restore", str(file))
    assert answer.code == 1
    assert answer.error["code"] in ("store_damaged", "damaged_event")


def test_files_are_rebuilt_after_the_restore_of_an_older_backup(tmp_path: Path) -> None:
    """The command suggests `replay --rebuild`, and progress.log keeps its newer lines."""
    place = made(tmp_path, f"sqlite:///{tmp_path}/log.db")
    file = tmp_path / "backup"
    place.done("db", "backup", str(file))
    place.done("note", "after the backup")
    (tmp_path / "log.db").unlink()
    answer = place.json("db", "restore", str(file))
    assert [a["command"] for a in answer.envelope["next_actions"]] == ["wfctl replay --rebuild"]
    place.done("replay", "--rebuild")
    place.done("note", "afresh")
    kinds = [one["kind"] for one in place.json("replay", "--check").data["findings"]]
    assert kinds == ["anchor"]  # a person must accept this log first
    assert all(words in place.log() for words in ("after the backup", "afresh"))


@pytest.mark.parametrize("form", ["sqlite", "archive"])
def test_backup_is_restored_into_an_empty_folder(place: Place, tmp_path: Path, form: str) -> None:
    """The folder becomes a root of the workflow. A dry run writes nothing."""
    before, file, new = hashes(lived(place)), tmp_path / "backup", tmp_path / "new"
    place.done("db", "backup", str(file), "--as", form)
    new.mkdir()
    assert Place(new).done("db", "restore", str(file), "--dry-run")["events"] == len(before)
    assert list(new.iterdir()) == []
    Place(new).done("db", "restore", str(file))
    Place(new).done("replay", "--rebuild")
    assert hashes(Place(new)) == before
    assert Place(new).done("status") == place.done("status")
    assert Place(new).done("replay", "--check")["findings"] == []
    assert Place(new).json("db", "restore", str(file)).code == 4


def test_backup_of_machines_is_restored_into_an_empty_folder(tmp_path: Path) -> None:
    """The new root has the machines and no staged workflow."""
    roots = [Place(tmp_path / name) for name in ("old", "new")]
    for root in roots:
        root.path.mkdir()
    roots[0].done("machine", "init", "login", "--type", "feature")
    roots[0].done("db", "backup", str(tmp_path / "backup"))
    roots[1].done("db", "restore", str(tmp_path / "backup"))
    assert roots[1].done("machine", "get", "login") == roots[0].done("machine", "get", "login")
    assert roots[1].json("status").code == 3


def test_restore_of_several_workflows_needs_a_workflow_name(place: Place, tmp_path: Path) -> None:
    """Without a name, the command lists the workflows and writes nothing."""
    both, other, new = f"sqlite:///{tmp_path}/both.db", tmp_path / "other", tmp_path / "new"
    for folder in (other, new):
        folder.mkdir()
    plan = write_plan(tmp_path, {**PLAN, "workflow_id": "other"}, "other.json")
    assert call("--root", str(other), "init", str(plan), "--consent", "trust").code == 0
    for root in (place, Place(other)):
        call("db", "copy", root.done("db", "url")["url"], both)
    place.done("--database-url", both, "db", "backup", str(tmp_path / "backup"))
    answer = Place(new).json("db", "restore", str(tmp_path / "backup"))
    assert (answer.code, answer.error["code"]) == (2, "invalid_option")
    assert answer.error["data"]["workflows"] == sorted(["other", PLAN["workflow_id"]])
    assert list(new.iterdir()) == []
    Place(new).done("db", "restore", str(tmp_path / "backup"), "--stream", "workflow-other")
    assert Place(new).done("status")["workflow"] == "other"


@pytest.mark.parametrize("content", [b"", b"PGDMP...", b"{}\n"])
def test_restore_refuses_a_file_that_is_not_a_backup(
    place: Place, tmp_path: Path, content: bytes
) -> None:
    """The error names the file, and nothing changes."""
    file = tmp_path / "file"
    file.write_bytes(content)
    answer = place.json("db", "restore", str(file))
    assert (answer.code, answer.error["code"]) == (2, "invalid_option")
    assert str(file) in answer.error["message"]
    file.unlink()
    assert place.json("db", "restore", str(file)).code == 3


@pytest.mark.slow
@pytest.mark.long
def test_killed_copy_is_resumed(server: Server, tmp_path: Path) -> None:
    """The same command continues the copy, and reports the number of events already copied."""
    source = tmp_path / "long.db"
    program = (
        "import sys; from eventstore.store import Expected; from tests.eventstore.support import *;"
        "s = sqlite_store(fresh_database(Path(sys.argv[1])));"
        "[s.append('w', notes(1000), expected=Expected.ANY, claim=claim()) for _ in range(30)]"
    )
    folder = tmp_path / "f"
    folder.mkdir()
    subprocess.run([sys.executable, "-c", program, str(folder)], check=True, cwd=HERE)
    shutil.move(folder / "events.db", source)
    url = server.schema()
    command = [sys.executable, "-m", "cli.main", "db", "copy", f"sqlite:///{source}", url]
    with subprocess.Popen(command, cwd=HERE) as killed:
        server.wait_for_rows(url, 2000)
        killed.kill()
    again = call("-o", "json", "db", "copy", f"sqlite:///{source}", url)
    assert again.code == 0, again
    assert again.data["events"] == 30_000
    assert 2000 <= again.data["before"] < 30_000
