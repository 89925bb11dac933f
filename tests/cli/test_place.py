"""Commands in folders with a workflow, without a workflow, and with an unusable database."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import PLAN, Place, call, tree, wfctl, write_plan

COMMANDS = {
    "status": ["status"],
    "show": ["show", "stage-1"],
    "log": ["log"],
    "events": ["events"],
    "replay": ["replay"],
    "fsck": ["fsck"],
    "note": ["note", "hello"],
    "append": ["append", "stage.prepared", "--stage", "stage-1"],
    "stage": ["stage", "prepare", "stage-1"],
    "dispatch": ["dispatch", "stage-1"],
    "wait": ["wait", "stage-1"],
    "run": ["run"],
    "rehydrate": ["rehydrate"],
    "reconcile": ["reconcile"],
    "db url": ["db", "url"],
    "db current": ["db", "current"],
    "db upgrade": ["db", "upgrade"],
}
#: Commands that open the event log, to read or to write it.
OPENING = {name: COMMANDS[name] for name in COMMANDS if not name.startswith("db ")}


@pytest.mark.parametrize("name", COMMANDS)
def test_command_without_a_workflow_exits_with_code_3(tmp_path: Path, name: str) -> None:
    """The error names the searched folder and `wfctl init`, and nothing is written."""
    answer = call("--root", str(tmp_path), "-o", "json", *COMMANDS[name])
    assert (answer.code, answer.error["code"]) == (3, "no_workflow")
    assert str(tmp_path) in answer.error["message"]
    assert "wfctl init PLAN" in answer.error["message"]
    assert tree(tmp_path) == {}


def test_workflow_is_found_from_any_folder_below_its_root(place: Place) -> None:
    """wfctl searches the current folder and its parents for a root, as git does."""
    deep = place.path / "stage-1" / "deep"
    deep.mkdir(parents=True)
    answer = wfctl("-o", "json", "status", cwd=deep)
    assert answer.data["workflow"] == PLAN["workflow_id"]


def unchanging(place: Place) -> tuple[dict[str, str], Any]:
    """Return the files and the events, without the database files that SQLite rewrites."""
    files = {k: v for k, v in tree(place.path).items() if "events.db" not in k}
    return files, place.done("events")


def test_second_init_is_refused_and_changes_nothing(place: Place, tmp_path: Path) -> None:
    """`init` never replaces an existing workflow, neither with the same plan nor another."""
    other = write_plan(tmp_path, {**PLAN, "workflow_id": "other"}, "other.json")
    before = unchanging(place)
    for plan in (tmp_path / "plan.json", other):
        for more in ([], ["--dry-run"]):
            answer = place.json("init", str(plan), *more)
            assert (answer.code, answer.error["code"]) == (4, "already_exists")
            assert answer.error["data"]["workflow"] == PLAN["workflow_id"]
    assert unchanging(place) == before


def test_repeated_init_with_the_same_key_returns_the_first_answer(tmp_path: Path) -> None:
    """With the same idempotency key, `init` repeats its answer, and refuses another plan."""
    plan = write_plan(tmp_path)
    here = [
        "--root",
        str(tmp_path),
        "-o",
        "json",
        "init",
        "--command-id",
        "k",
        "--consent",
        "trust",
    ]
    first = call(*here, str(plan)).data
    again = call(*here, str(plan)).data
    assert (first["repeated"], again["repeated"]) == (False, True)
    assert again["events"] == first["events"]
    other = write_plan(tmp_path, {**PLAN, "purpose": "another"}, "other.json")
    assert call(*here, str(other)).code == 4


def test_interrupted_init_is_completed(tmp_path: Path) -> None:
    """`init` succeeds if the configuration is missing or the log has no events."""
    root = tmp_path / "root"
    (root / ".wfctl").mkdir(parents=True)
    plan = write_plan(tmp_path)
    assert call("--root", str(root), "status").code == 3
    assert call("--root", str(root), "init", str(plan), "--consent", "trust").code == 0
    with closing(sqlite3.connect(root / ".wfctl/events.db")) as database:
        database.executescript("DROP TRIGGER events_no_delete; DELETE FROM events;")
    for name in (".wfctl/sync.json", "workflow-state.json", "progress.log"):
        (root / name).unlink()
    assert call("--root", str(root), "status").code == 3
    assert call("--root", str(root), "init", str(plan), "--consent", "trust").code == 0
    assert Place(root).version() == 2


def replaced(place: Place, how: str) -> None:
    """Replace the database of a root with an unusable one."""
    path = place.path / ".wfctl/events.db"
    if how in ("database_newer", "database_older"):
        version = "9999" if how == "database_newer" else "0000"
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("UPDATE alembic_version SET version_num = ?", (version,))
        return
    for beside in path.parent.glob("events.db*"):
        beside.unlink()
    if how == "garbage":
        path.write_bytes(b"this was never a database" * 500)
    if how == "foreign":
        with closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE recipes (name TEXT)")


@pytest.mark.parametrize("name", OPENING)
@pytest.mark.parametrize(
    ("how", "code", "exit_code"),
    [
        ("garbage", "database_not_ours", 1),
        ("foreign", "database_not_ours", 1),
        ("missing", "database_missing", 3),
        ("database_newer", "database_newer", 1),
        ("database_older", "database_older", 1),
    ],
)
def test_unusable_database_is_named_and_not_changed(
    place: Place, name: str, how: str, code: str, exit_code: int
) -> None:
    """The error shows the path of the database, and the generated files stay unchanged."""
    replaced(place, how)
    database = place.path / ".wfctl/events.db"
    before = database.read_bytes() if how in ("garbage", "foreign") else None
    files = {k: v for k, v in tree(place.path).items() if not k.startswith(".wfctl")}
    answer = place.json(*OPENING[name])
    assert (answer.code, answer.error["code"]) == (exit_code, code)
    assert str(database) in answer.error["message"]
    assert {k: v for k, v in tree(place.path).items() if not k.startswith(".wfctl")} == files
    if before is not None:
        assert database.read_bytes() == before


def test_init_refuses_a_foreign_database(tmp_path: Path) -> None:
    """`init` does not change a foreign file at the path of its own database."""
    (tmp_path / ".wfctl").mkdir()
    database = tmp_path / ".wfctl/events.db"
    with closing(sqlite3.connect(database)) as foreign:
        foreign.execute("CREATE TABLE recipes (name TEXT)")
    before = database.read_bytes()
    answer = call(
        "--root",
        str(tmp_path),
        "-o",
        "json",
        "init",
        str(write_plan(tmp_path)),
        "--consent",
        "trust",
    )
    assert (answer.code, answer.error["code"]) == (1, "database_not_ours")
    assert database.read_bytes() == before
    assert not (tmp_path / "workflow-state.json").exists()


@pytest.mark.parametrize(
    "text", ["workflow = ", "", "workflow = 3\n", 'workflow = "w"\ndatabase_url = 3', "\udcff"]
)
def test_invalid_configuration_is_named(place: Place, text: str) -> None:
    """The error shows the path of the configuration file."""
    path = place.path / ".wfctl/config.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    answer = place.json("status")
    assert (answer.code, answer.error["code"]) == (2, "invalid_option")
    assert str(path) in answer.error["message"]


def test_database_url_of_init_is_kept(tmp_path: Path) -> None:
    """`init` stores the database URL, with a relative path based on the root."""
    root = tmp_path / "root"
    root.mkdir()
    plan = write_plan(tmp_path)
    answer = call(
        "--root",
        str(root),
        "init",
        str(plan),
        "--database-url",
        "sqlite:///../x.db",
        "--consent",
        "trust",
    )
    assert answer.code == 0, answer.err
    assert (tmp_path / "x.db").exists()
    assert not (root / ".wfctl/events.db").exists()
    place = Place(root)
    assert place.version() == 2
    assert place.call("note", "hello").code == 0
    assert place.notes() == ["hello"]
    assert place.json("init", str(plan), "--consent", "trust").code == 4


def test_database_url_option_overrides_environment_and_configuration(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option comes first, then ``WFCTL_DATABASE_URL``, and then ``config.toml``."""
    config = place.path / ".wfctl/config.toml"
    config.write_text(config.read_text() + 'database_url = "sqlite:////c.db"\n')
    place.done("--actor", "user:ada", "db", "trust")
    assert place.done("db", "url")["url"] == "sqlite:////c.db"
    monkeypatch.setenv("WFCTL_DATABASE_URL", "sqlite:////e.db")
    assert place.done("db", "url")["url"] == "sqlite:////e.db"
    assert place.done("db", "url", "--database-url=sqlite:////o.db")["url"] == "sqlite:////o.db"


def test_unsupported_database_url_is_refused_without_its_password(place: Place) -> None:
    """wfctl refuses the URL without using a default database or printing the password."""
    url = "mysql://me:secret@host/db"
    answer = place.call("status", "--database-url", url)
    assert answer.code == 2
    assert "mysql" in answer.err
    assert "secret" not in answer.err + answer.out


def test_stage_without_a_command_is_refused(tmp_path: Path) -> None:
    """The error names the stage and `parameters.command`, and nothing is launched."""
    plan: Any = {**PLAN, "stages": [{"id": "stage-1", "name": "Build"}]}
    assert (
        call(
            "--root", str(tmp_path), "init", str(write_plan(tmp_path, plan)), "--consent", "trust"
        ).code
        == 0
    )
    place = Place(tmp_path)
    answer = place.json("dispatch", "stage-1")
    assert (answer.code, answer.error["code"]) == (5, "no_stage_command")
    assert answer.error["data"]["stages"] == ["stage-1"]
    assert "parameters.command" in answer.error["message"]
    assert place.types() == ["workflow.created", "stage.readied"]


def test_plan_without_commands_blocks_the_run(tmp_path: Path) -> None:
    """The session ends normally, and names each blocked stage with a fix."""
    stages = [{"id": f"stage-{n}", "name": "Build"} for n in (1, 2)]
    plan: Any = {
        **PLAN,
        "stages": [*stages, {**stages[0], "id": "stage-3", "depends_on": ["stage-1"]}],
    }
    assert (
        call(
            "--root", str(tmp_path), "init", str(write_plan(tmp_path, plan)), "--consent", "trust"
        ).code
        == 0
    )
    place = Place(tmp_path)
    answer = place.json("run")
    assert (answer.code, answer.data["exit_reason"]) == (6, "blocked")
    assert [one["stage"] for one in answer.data["blocked"]] == ["stage-1", "stage-2"]
    for one in answer.data["blocked"]:
        assert "parameters.command" in one["why"]
        assert "--agent" in one["unblock"]
    assert place.types()[-1] == "session.ended"


@pytest.mark.parametrize("name", ["run", "dispatch"])
def test_missing_dpdispatcher_is_reported_before_a_launch(place: Place, name: str) -> None:
    """The error names the program, the searched path and the fix, and nothing is recorded."""
    given = place.path / "stage-2"
    given.mkdir()
    shutil.copy(write_plan(place.path.parent), given / "submission.json")
    line = {"run": ["run"], "dispatch": ["dispatch", "stage-1"]}[name]
    nowhere = {"WFCTL_DPDISP": str(place.path / "nowhere" / "dpdisp"), "PATH": ""}
    answer = wfctl("-o", "json", "--root", str(place.path), *line, environ=nowhere)
    assert (answer.code, answer.error["code"]) == (1, "program_missing")
    assert nowhere["WFCTL_DPDISP"] in answer.error["message"]
    of_stages = [t for t in place.types() if t not in ("session.started", "session.ended")]
    assert of_stages == ["workflow.created", "stage.readied"]


def test_empty_path_variable_stops_no_other_command(place: Place) -> None:
    """With an empty PATH, only commands that launch a job fail."""
    environ = {"PATH": ""}
    root = ["--root", str(place.path)]
    assert wfctl(*root, "note", "hello", environ=environ).code == 0
    assert wfctl(*root, "status", environ=environ).code == 0
    assert os.environ["PATH"]


def test_root_path_that_is_not_utf8_is_refused(tmp_path: Path, place: Place) -> None:
    """wfctl refuses a new or renamed root at such a path, and writes nothing."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    moved = folder / "moved"
    plan = str(write_plan(tmp_path))
    made = wfctl("-o", "json", "init", plan, cwd=folder)
    shutil.move(place.path, moved)
    read = wfctl("-o", "json", "status", cwd=moved)
    for answer in (made, read):
        assert (answer.code, answer.error["code"]) == (2, "invalid_option"), answer
        assert "the path of the folder must be valid UTF-8, but it is" in answer.error["message"]
        assert "caf\\xe9" in answer.error["message"]
    assert [*folder.iterdir()] == [moved]
