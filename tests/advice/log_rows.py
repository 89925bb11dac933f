"""Errors of logs, databases, roots and history queries."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.adversary import raw
from tests.advice.table import place_in, root_in, row
from tests.cli.support import Answer, Place, write_plan
from tests.cli.test_place import replaced


def begun(folder: Path, plan: object = None) -> Place:
    """Create a workflow of two stages in the root of a row."""
    place = place_in(folder)
    place.done("init", str(write_plan(folder, plan)), "--consent", "trust")
    return place


def backed_up(place: Place) -> Path:
    """Back up the log next to the root."""
    file = place.path.parent / "backup.db"
    place.done("db", "backup", str(file))
    return file


def moved_aside(root: Path) -> None:
    """Rename the `.wfctl` folder of a root."""
    (root / ".wfctl").rename(root / ".wfctl.lost")


def database_moved_away(root: Path) -> None:
    """Write a backup of the event log, and move the database out of the root."""
    Place(root).done("db", "backup", str(root.parent / "backup.db"))
    for path in root.glob(".wfctl/events.db*"):
        path.rename(root.parent / path.name)


def configured(root: Path) -> None:
    """Replace the configuration with that of another root."""
    (root / ".wfctl").mkdir(exist_ok=True)
    shutil.copy(root.parent / "other/.wfctl/config.toml", root / ".wfctl/config.toml")


@row("no_workflow", 3, "contains a .wfctl folder", given={"PLAN": "../plan.json"})
def nowhere(folder: Path) -> Answer:
    """Call a command in a folder without a workflow."""
    write_plan(root_in(folder).parent)
    return place_in(folder).json("status")


@row(
    "database_missing",
    3,
    "contains no event database",
    given={"FILE": "../backup.db", "PLAN": "../plan.json"},
    first={"import": moved_aside, "init": moved_aside},
)
def lost(folder: Path) -> Answer:
    """Delete the database of a workflow, and run a command."""
    place = begun(folder)
    backed_up(place)
    replaced(place, "missing")
    return place.json("status")


@row("database_newer", 1, "database version", names="Update wfctl")
def newer_database(folder: Path) -> Answer:
    """Mark the database as created by a newer version of wfctl."""
    place = begun(folder)
    replaced(place, "database_newer")
    return place.json("status")


@row(
    "database_not_ours",
    1,
    "is not an event database of wfctl",
    names="Name another database, or move",
)
def foreign_database(folder: Path) -> Answer:
    """Replace the log with a database of another program."""
    place = begun(folder)
    replaced(place, "foreign")
    return place.json("status")


@row(
    "foreign_rule",
    7,
    "which wfctl did not create",
    given={"FILE": "../backup.db"},
    first={"db restore": database_moved_away},
)
def trigger(folder: Path) -> Answer:
    """Add a trigger that discards appended events."""
    place = begun(folder)
    with closing(raw.connected(place.path)) as database:
        database.execute("CREATE TRIGGER t BEFORE INSERT ON events BEGIN SELECT RAISE(IGNORE); END")
    return place.json("note", "hello")


@row("log_unsound", 7, "was changed after it was recorded")
def altered(folder: Path) -> Answer:
    """Change a row of the event log with SQL."""
    place = begun(folder)
    place.done("note", "hello")
    raw.tamper(place.path, "UPDATE events SET body = replace(body, 'hello', 'yes') ")
    return place.json("status")


@row("unknown_event_type", 7, "stage.melted", names="update wfctl")
def unknown_row(folder: Path) -> Answer:
    """Insert an event of an unknown type into the log."""
    place = begun(folder)
    raw.append(place.path, "stage.melted", {"stage": "stage-1"})
    return place.json("note", "hello")


@row("newer_event_schema", 7, "schema version", names="update wfctl")
def newer_row(folder: Path) -> Answer:
    """Add an event with a newer schema version."""
    place = begun(folder)
    raw.append(place.path, "note.logged", {"text": "x"}, schema_version=99)
    return place.json("note", "hello")


@row("root_elsewhere", 6, "now it is in", names="--root-is moved")
def moved(folder: Path) -> Answer:
    """Copy the root to another path, and write there."""
    place = begun(folder)
    place.path.rename(folder / "old")
    shutil.copytree(folder / "old", place.path)
    (folder / "old").rename(folder / "older")
    place.path.rename(folder / "roots")
    answer = Place(folder / "roots").json("note", "hello")
    (folder / "roots").rename(place.path)
    return answer


@row("wrong_expected_version", 4, "found version 2", names="Read the stream again")
def stale(folder: Path) -> Answer:
    """Run a command with an outdated --expected-version."""
    return begun(folder).json("note", "hello", "--expected-version", "1")


@row("command_conflict", 4, "with other content", names="Use a new id")
def used_again(folder: Path) -> Answer:
    """Run another command with the command id of an earlier command."""
    place = begun(folder)
    place.done("note", "hello", "--command-id", "k")
    return place.json("note", "other", "--command-id", "k")


@row("sql_error", 2, "the query is not valid", names="v_events")
def bad_sql(folder: Path) -> Answer:
    """Run an invalid SQL query."""
    return begun(folder).json("audit", "sql", "SELECT nothing FROM nowhere")


@row("sql_refused", 5, "found", names="one statement that only reads")
def writing_sql(folder: Path) -> Answer:
    """Run `audit sql` with a statement that writes."""
    return begun(folder).json("audit", "sql", "DELETE FROM v_events")


@row("sql_timeout", 1, "took longer than", names="--timeout SECONDS")
def long_sql(folder: Path) -> Answer:
    """Run an SQL query that takes too long."""
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT max(i) FROM n"
    return begun(folder).json("audit", "sql", endless, "--timeout", "0.1")


@row("not_found", 3, "version 99 does not exist", names="the log ends at version 2")
def no_version(folder: Path) -> Answer:
    """Request the state at a version that does not exist yet."""
    return begun(folder).json("status", "--at", "99")


@row("already_exists", 4, "already")
def second_init(folder: Path) -> Answer:
    """Create a second workflow in a root."""
    return begun(folder).json("init", str(folder / "plan.json"))


@row(
    "already_exists",
    4,
    "already contains a workflow",
    names="give the plan another",
    first={"rehydrate": configured},
)
def shared_log(folder: Path) -> Answer:
    """Create a workflow in another root, with a workflow id that its log already contains."""
    other = Place(folder / "other")
    other.path.mkdir(parents=True)
    url = ("--database-url", f"sqlite:///{folder}/shared.db")
    other.done("init", str(write_plan(folder)), "--consent", "trust", *url)
    return place_in(folder).json("init", str(folder / "plan.json"), *url)


@row("transfer_conflict", 4, "already contains:", names="Name an empty database")
def copied_twice(folder: Path) -> Answer:
    """Copy a log into a database that contains its stream."""
    place = begun(folder)
    other = Place(folder / "other")
    other.path.mkdir()
    other.done("init", str(folder / "plan.json"), "--consent", "trust")
    urls = [f"sqlite:///{one.path}/.wfctl/events.db" for one in (place, other)]
    return place.json("db", "copy", *urls)


@row("unimportable_state", 1, "cannot be imported", names="Correct the file and import it again")
def bad_state(folder: Path) -> Answer:
    """Import a workflow state file with invalid content."""
    (root_in(folder) / "workflow-state.json").write_text("[]")
    return place_in(folder).json("import", str(root_in(folder)))


@row("store_damaged", 1, "is damaged", names="estore an export or a backup")
def broken_backup(folder: Path) -> Answer:
    """Restore a backup file that was cut off."""
    place = begun(folder)
    file = folder / "kept"
    place.done("db", "backup", str(file), "--as", "archive")
    file.write_bytes(file.read_bytes()[:-40])
    replaced(place, "missing")
    return place.json("db", "restore", str(file))


#: SQL statements that undo the newest migration of the database.
_BEFORE = """
DROP TRIGGER commands_claimed_once;
DROP TRIGGER commands_no_update; DROP TRIGGER commands_no_delete;
DROP TRIGGER refusals_no_update; DROP TRIGGER refusals_no_delete;
ALTER TABLE events DROP COLUMN command_digest;
UPDATE alembic_version SET version_num = '0003';
"""


@row("database_older", 1, "database version")
def older_database(folder: Path) -> Answer:
    """Make the database look as if it had not been upgraded to the newest migration."""
    place = begun(folder)
    with closing(sqlite3.connect(place.path / ".wfctl/events.db")) as database, database:
        database.executescript(_BEFORE)
    return place.json("status")


@row("no_workflow_yet", 3, "the log has no workflow", given={"PLAN": "../plan.json"})
def machines_alone(folder: Path) -> Answer:
    """Request the staged workflow of a root that has only machines."""
    write_plan(root_in(folder).parent)
    place = place_in(folder)
    place.done("machine", "init", "login", "--type", "feature", "--consent", "trust")
    return place.json("status")


def emptied(root: Path) -> None:
    """Delete the database of a root."""
    replaced(Place(root), "missing")


def shorter(place: Place, *line: str) -> Answer:
    """Replace the log with an older backup, and call a command."""
    kept = backed_up(place)
    place.done("stage", "prepare", "stage-1")
    place.done("db", "backup", str(place.path.parent / "newer.db"))
    for path in place.path.glob(".wfctl/events.db*"):
        path.unlink()
    shutil.copyfile(kept, place.path / ".wfctl/events.db")
    return place.json(*line)


@row(
    "log_behind",
    7,
    "the log ends at version 2",
    given={"FILE": "../newer.db"},
    first={"db restore": emptied, "import": moved_aside},
)
def log_shorter_than_files(folder: Path) -> Answer:
    """Replace the log with an older copy, so that the other files of the root are newer."""
    return shorter(begun(folder), "note", "hello")
