"""Where wfctl works: no workflow, a second one, and a database that is not what it should be."""

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
#: What opens the log, for reading and for writing.
OPENING = {name: COMMANDS[name] for name in COMMANDS if not name.startswith("db ")}


@pytest.mark.parametrize("name", COMMANDS)
def test_without_a_workflow_every_command_is_not_found(tmp_path: Path, name: str) -> None:
    """Exit 3 says where it looked and what makes a workflow; nothing is made."""
    answer = call("--root", str(tmp_path), "-o", "json", *COMMANDS[name])
    assert (answer.code, answer.error["code"]) == (3, "no_workflow")
    assert str(tmp_path) in answer.error["message"]
    assert "wfctl init PLAN" in answer.error["message"]
    assert tree(tmp_path) == {}


def test_a_workflow_is_found_from_any_folder_below_it(place: Place) -> None:
    """As git finds its own."""
    deep = place.path / "stage-1" / "deep"
    deep.mkdir(parents=True)
    answer = wfctl("-o", "json", "status", cwd=deep)
    assert answer.data["workflow"] == PLAN["workflow_id"]


def unchanging(place: Place) -> tuple[dict[str, str], Any]:
    """Return the files and the events; the engine's own files are folded together now and then."""
    files = {k: v for k, v in tree(place.path).items() if "events.db" not in k}
    return files, place.done("events")


def test_a_second_init_is_a_conflict_and_changes_nothing(place: Place, tmp_path: Path) -> None:
    """Neither the same plan nor another one replaces what is there."""
    other = write_plan(tmp_path, {**PLAN, "workflow_id": "other"}, "other.json")
    before = unchanging(place)
    for plan in (tmp_path / "plan.json", other):
        for more in ([], ["--dry-run"]):
            answer = place.json("init", str(plan), *more)
            assert (answer.code, answer.error["code"]) == (4, "already_exists")
            assert answer.error["data"]["workflow"] == PLAN["workflow_id"]
    assert unchanging(place) == before


def test_an_init_that_is_repeated_by_its_key_gives_its_first_answer(tmp_path: Path) -> None:
    """The same key and plan is the same command; another plan under the key is a conflict."""
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


def test_an_init_that_was_interrupted_is_taken_up(tmp_path: Path) -> None:
    """A folder without a configuration, or a log without a first event, is no workflow yet."""
    root = tmp_path / "root"
    (root / ".wfctl").mkdir(parents=True)
    plan = write_plan(tmp_path)
    assert call("--root", str(root), "status").code == 3
    assert call("--root", str(root), "init", str(plan), "--consent", "trust").code == 0
    with closing(sqlite3.connect(root / ".wfctl/events.db")) as database:
        database.executescript("DROP TRIGGER events_no_delete; DELETE FROM events;")
    assert call("--root", str(root), "status").code == 3
    assert call("--root", str(root), "init", str(plan), "--consent", "trust").code == 0
    assert Place(root).version() == 2


def replaced(place: Place, how: str) -> None:
    """Put something else where the place's database was."""
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
def test_a_database_that_cannot_be_used_is_named_and_left_alone(
    place: Place, name: str, how: str, code: str, exit_code: int
) -> None:
    """The message holds its path; the files that people read are as they were."""
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


def test_a_workflow_is_never_made_in_a_database_of_somebody_else(tmp_path: Path) -> None:
    """Init refuses a foreign file where its own would lie, and does not touch it."""
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
def test_a_broken_configuration_is_named(place: Place, text: str) -> None:
    """A person who edited it learns which file it is."""
    path = place.path / ".wfctl/config.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    answer = place.json("status")
    assert (answer.code, answer.error["code"]) == (2, "invalid_option")
    assert str(path) in answer.error["message"]


def test_a_log_elsewhere_is_used_from_the_first_command_on(tmp_path: Path) -> None:
    """What init was told stands in the configuration; a relative path is taken from the root."""
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


def test_the_option_goes_before_the_environment_before_the_configuration(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--database-url``, ``WFCTL_DATABASE_URL``, ``config.toml``, in this order."""
    config = place.path / ".wfctl/config.toml"
    config.write_text(config.read_text() + 'database_url = "sqlite:////c.db"\n')
    place.done("--actor", "user:ada", "db", "trust")
    assert place.done("db", "url")["url"] == "sqlite:////c.db"
    monkeypatch.setenv("WFCTL_DATABASE_URL", "sqlite:////e.db")
    assert place.done("db", "url")["url"] == "sqlite:////e.db"
    assert place.done("db", "url", "--database-url=sqlite:////o.db")["url"] == "sqlite:////o.db"


def test_a_database_url_of_another_kind_is_refused_without_its_password(place: Place) -> None:
    """It is never taken for the usual database, and no secret is printed."""
    url = "mysql://me:secret@host/db"
    answer = place.call("status", "--database-url", url)
    assert answer.code == 2
    assert "mysql" in answer.err
    assert "secret" not in answer.err + answer.out


def test_a_stage_without_a_command_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """The stage that says nothing to run is named, and nothing is launched."""
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


def test_a_plan_without_any_command_blocks_its_stages_and_not_the_run(tmp_path: Path) -> None:
    """The session ends in order: each stage that could begin is named, with what would help."""
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
def test_without_dpdispatcher_nothing_is_launched_or_recorded(place: Place, name: str) -> None:
    """The message names the program, where it was looked for, and how to get it."""
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


def test_an_empty_path_does_not_stop_what_runs_no_program(place: Place) -> None:
    """Only launching needs other programs."""
    environ = {"PATH": ""}
    root = ["--root", str(place.path)]
    assert wfctl(*root, "note", "hello", environ=environ).code == 0
    assert wfctl(*root, "status", environ=environ).code == 0
    assert os.environ["PATH"]


def test_a_root_whose_path_is_not_utf_8_is_refused_in_words_and_nothing_is_made(
    tmp_path: Path, place: Place
) -> None:
    """A new root, and one whose folder was renamed to such a name."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    moved = folder / "moved"
    plan = str(write_plan(tmp_path))
    made = wfctl("-o", "json", "init", plan, cwd=folder)
    shutil.move(place.path, moved)
    read = wfctl("-o", "json", "status", cwd=moved)
    for answer in (made, read):
        assert (answer.code, answer.error["code"]) == (2, "invalid_option"), answer
        assert "expected a root whose path is UTF-8, found" in answer.error["message"]
        assert "caf\\xe9" in answer.error["message"]
    assert [*folder.iterdir()] == [moved]
