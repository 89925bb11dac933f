"""wfctl with its log on a PostgreSQL server; one database contains several workflows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from eventstore.database_url import url_without_password
from service.root.trusted_databases import trust_database
from tests.cli.support import HERE, PLAN, Place, call, tree, wfctl, write_plan
from tests.server import Server

SECRET = "s3cr3t-of-ada"
FILES = ("workflow-state.json", "progress.log")


def made(folder: Path, url: str, name: str = "w", **plan: object) -> Place:
    """Create a workflow with the given id in a root of the same name."""
    root = folder / name
    root.mkdir()
    file = write_plan(folder, {**PLAN, "workflow_id": name, **plan}, f"{name}.json")
    answer = call(
        "--root",
        str(root),
        "--database-url",
        url,
        "-o",
        "json",
        "init",
        str(file),
        "--consent",
        "trust",
    )
    assert answer.code == 0, answer
    return Place(root)


def second(place: Place, folder: Path) -> Place:
    """Create a root from the files that git keeps, as another host would."""
    other = folder / "other"
    (other / ".wfctl").mkdir(parents=True)
    shutil.copy(place.path / ".wfctl/config.toml", other / ".wfctl")
    return Place(other)


def shown(place: Place) -> list[bytes]:
    """Return the bytes of the generated files."""
    return [(place.path / name).read_bytes() for name in FILES]


@pytest.mark.slow
def test_every_kind_of_command_works_with_a_server(server: Server, tmp_path: Path) -> None:
    """After commands of each kind, the generated files match the log on the server."""
    url = server.log()
    place = made(tmp_path, url)
    place.done("note", "hello", "--command-id", "k")
    assert place.done("note", "hello", "--command-id", "k")["repeated"] is True
    assert place.json("note", "late", "--expected-version", "1").code == 4
    place.done("dispatch", "stage-1", "--sync")
    assert place.json("stage", "launch", "stage-2").code == 5
    place.done("stage", "complete", "stage-1")
    assert place.done("status")["stages"][0]["status"] == "completed"
    place.done("amend", "propose", "--stage", "stage-2", "--set", "name=Go", "--reason", "why not")
    assert place.done("fsck")["findings"] == []
    assert place.done("replay", "--check")["findings"] == []
    place.done("rehydrate")
    assert place.done("db", "url") == {"url": url_without_password(url), "journal": None}
    assert place.done("status")["journal"] is None
    assert not (place.path / ".wfctl/events.db").exists()


def test_many_workflows_share_a_database(server: Server, tmp_path: Path) -> None:
    """Each root sees only its own workflow. A second workflow with the same id is a conflict."""
    url = server.log()
    one, two = made(tmp_path, url, "one"), made(tmp_path, url, "two")
    one.done("note", "in one")
    assert (one.notes(), two.notes()) == (["in one"], [])
    assert one.json("fsck").code == two.json("fsck").code == 0
    again = tmp_path / "again"
    again.mkdir()
    plan = str(tmp_path / "one.json")
    answer = call(
        "--root",
        str(again),
        "--database-url",
        url,
        "-o",
        "json",
        "init",
        plan,
        "--consent",
        "trust",
    )
    assert (answer.code, answer.error["code"]) == (4, "already_exists")
    assert "--root-is copied" in answer.error["message"]


@pytest.mark.slow
@pytest.mark.parametrize("words", ["'status'", "'db', 'current'"])
def test_missing_driver_error_names_the_package(tmp_path: Path, words: str) -> None:
    """Reading and migrating commands name the extra to install."""
    (tmp_path / ".wfctl").mkdir()
    (tmp_path / ".wfctl/config.toml").write_text('workflow = "w"\ndatabase_url = "postgres://h/d"')
    trust_database("postgres://h/d", tmp_path)
    program = f"import sys; sys.modules['psycopg'] = None; import cli.main as m; m.run([{words}])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(HERE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "wfctl-eventstore[postgres]" in done.stderr


def test_init_prepares_an_empty_database(server: Server, tmp_path: Path) -> None:
    """`init` creates the tables, so that a later `db upgrade` has nothing to do."""
    url = server.schema()
    place = made(tmp_path, url)
    revision = place.done("db", "current")["revision"]
    assert place.done("db", "upgrade")["revision"] == revision
    assert place.done("db", "upgrade", "--dry-run")["was"] == revision
    assert place.json("db", "upgrade", "--expected-version", "99").code == 4


@pytest.mark.slow
def test_password_is_not_written(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file, event or traceback contains the password, nor does the output of `db url`."""
    address = server.log()
    login = server.login("ada", SECRET, address)
    url = address.replace("postgres@", f"{login}:{SECRET}@")
    place = made(tmp_path, url)
    monkeypatch.setenv("WFCTL_DATABASE_URL", url)
    place.done("note", "hello")
    place.done("dispatch", "stage-1", "--sync")
    monkeypatch.setenv("WFCTL_DEBUG", "1")
    lines = [["db", "url"], ["events"], ["status"], ["note", "x", "--expected-version", "1"]]
    wrong = [
        url.replace(SECRET, f"{SECRET}-not"),
        url.replace("/postgres?", "/nosuch?"),
        url.replace("host=", "host=/nowhere"),
        f"postgresql+psycopg://u:{SECRET}@[bad/x",
        f"mysql://u:{SECRET}@h/d",
    ]
    answers = [place.json(*line) for line in lines]
    answers += [place.json("note", "x", "--database-url", each) for each in wrong]
    assert [answer.code for answer in answers] == [0, 0, 0, 4, 1, 1, 1, 1, 2]
    assert not [answer for answer in answers if SECRET in answer.out + answer.err]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
    kept = (place.path / ".wfctl/config.toml").read_text()
    assert f"{login}@" in kept
    monkeypatch.delenv("WFCTL_DATABASE_URL")
    assert place.json("status").code == 1
    monkeypatch.setenv("PGPASSWORD", SECRET)
    assert place.json("status").code == 0


@pytest.mark.slow
def test_second_root_reads_immediately_and_writes_after_rehydrate(
    server: Server, tmp_path: Path
) -> None:
    """Commands that read write no file. The first write asks for the option --root-is."""
    one = made(tmp_path, server.log())
    one.done("note", "from one")
    two = second(one, tmp_path)
    before = tree(two.path)
    assert two.notes() == ["from one"]
    assert two.json("status").code == 0
    assert tree(two.path) == before
    assert two.json("rehydrate").code == 6
    assert two.json("rehydrate", "--root-is", "copied").code == 0
    one.done("note", "from one again")
    two.done("rehydrate")
    one.done("rehydrate")
    assert shown(one) == shown(two)
    two.done("note", "from two")
    assert one.notes()[-1] == "from two"
    for place in (one, two):
        place.done("rehydrate")
        assert place.done("replay", "--check")["findings"] == []


@pytest.mark.long
@pytest.mark.slow
def test_two_hosts_drive_two_stages_of_one_workflow(server: Server, tmp_path: Path) -> None:
    """Two hosts run the attempts of two stages at the same time, each in its own root."""
    stages = [
        {
            "id": f"stage-{n}",
            "name": "Work",
            "outputs": [f"stage-{n}/out.txt"],
            "parameters": {"command": f"sleep 1; echo {n} > out.txt"},
        }
        for n in (1, 2)
    ]
    one = made(tmp_path, server.log(), stages=stages)
    two = second(one, tmp_path)
    assert two.json("rehydrate", "--root-is", "copied").code == 0

    def drive(place: Place, stage: str) -> int:
        return wfctl("--root", str(place.path), "dispatch", stage, "--sync").code

    with ThreadPoolExecutor() as pool:
        codes = list(pool.map(drive, (one, two), ("stage-1", "stage-2")))
    assert codes == [0, 0]
    one.done("stage", "complete", "stage-1")
    two.done("stage", "complete", "stage-2")
    assert [s["status"] for s in one.done("status")["stages"]] == ["completed", "completed"]
    assert (one.path / "stage-1/out.txt").exists()
    assert (two.path / "stage-2/out.txt").exists()
    assert not (two.path / "stage-1/out.txt").exists()
    for place in (one, two):
        place.done("rehydrate")
        assert place.done("fsck")["findings"] == []
    assert shown(one) == shown(two)


@pytest.mark.slow
def test_stage_launched_by_two_hosts_runs_once(server: Server, tmp_path: Path) -> None:
    """wfctl refuses the launch by the second host, and the log contains one attempt."""
    one = made(tmp_path, server.log())
    two = second(one, tmp_path)
    assert two.json("rehydrate", "--root-is", "copied").code == 0

    def drive(place: Place) -> int:
        return wfctl("--root", str(place.path), "dispatch", "stage-1", "--sync").code

    with ThreadPoolExecutor() as pool:
        codes = list(pool.map(drive, (one, two)))
    assert 0 in codes
    assert one.types("--type", "attempt.started") == ["attempt.started"]


@pytest.mark.slow
@pytest.mark.long
def test_two_run_loops_in_two_roots_compute_nothing_twice(server: Server, tmp_path: Path) -> None:
    """The run loop that finds the other loop's attempt ends blocked; no stage runs twice."""
    stages = [
        {
            "id": f"stage-{n}",
            "name": "Work",
            "outputs": [f"stage-{n}/out.txt"],
            "parameters": {"command": "sleep 1; echo done > out.txt", "expected_seconds": 2},
        }
        for n in (1, 2)
    ]
    one = made(tmp_path, server.log(), stages=stages)
    two = second(one, tmp_path)
    assert two.json("rehydrate", "--root-is", "copied").code == 0
    with ThreadPoolExecutor() as pool:
        codes = list(pool.map(lambda p: wfctl("--root", str(p.path), "run").code, (one, two)))
    assert set(codes) <= {0, 6}
    started = [e["data"]["stage"] for e in one.done("events", "--type", "attempt.started")]
    assert len(started) == len(set(started))
    for place in (one, two):
        place.done("rehydrate")
    assert shown(one) == shown(two)


def test_init_on_a_server_warns_that_names_are_not_verified(server: Server, tmp_path: Path) -> None:
    """`init` warns that the default policy proves no identity on a server."""
    plan = write_plan(tmp_path)
    line = ("--root", str(tmp_path), "--database-url", server.log(), "init", str(plan))
    answer = call(*line)
    assert answer.code == 0, answer
    assert "--consent signature" in answer.err
