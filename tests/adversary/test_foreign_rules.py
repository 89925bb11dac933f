"""A database that does something of its own with what is appended: it is told, and not written."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.adversary.raw import connected
from tests.cli.support import Place, tree, write_plan
from tests.cli.test_server import made
from tests.server import Server

RULES = {
    "swallows events": "CREATE TRIGGER t BEFORE INSERT ON events BEGIN SELECT RAISE(IGNORE); END",
    "takes them out": "CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM events; END",
    "swallows claims": "CREATE TRIGGER t BEFORE INSERT ON commands BEGIN SELECT RAISE(IGNORE); END",
    "swallows refusals": "CREATE TRIGGER t BEFORE INSERT ON refusals "
    "BEGIN SELECT RAISE(IGNORE); END",
    "by a name of ours": "CREATE TRIGGER events_no_update BEFORE INSERT ON events "
    "BEGIN SELECT RAISE(IGNORE); END",
}
LENIENT = (
    "CREATE TABLE folds (stream TEXT, reducer TEXT, reducer_version BIGINT, version BIGINT, "
    "state BLOB, PRIMARY KEY (stream, reducer) ON CONFLICT IGNORE)"
)
TABLE = ("ALTER TABLE folds RENAME TO old", LENIENT)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Make a workflow."""
    place = Place(tmp_path / "root")
    place.path.mkdir()
    assert place.call("init", str(write_plan(tmp_path)), "--consent", "trust").code == 0
    return place


def put_in(place: Place, *statements: str) -> None:
    """Change the database past the program."""
    with closing(connected(place.path)) as database:
        database.execute("DROP TRIGGER events_no_update")
        for statement in statements:
            database.execute(statement)


def files(place: Place) -> dict[str, str]:
    """Return the digests of the files but for those that SQLite keeps beside the log."""
    return {name: digest for name, digest in tree(place.path).items() if "events.db-" not in name}


@pytest.mark.parametrize("statements", [*((one,) for one in RULES.values()), TABLE])
def test_what_would_decide_over_appended_rows_stops_every_write(
    place: Place, statements: tuple[str, ...]
) -> None:
    """Nothing is acknowledged that might not be there; what looks goes on, and fsck tells."""
    put_in(place, *statements)
    right = place.done("events")
    before = files(place)
    for words in (["note", "x"], ["session", "start"], ["stage", "launch", "stage-2"]):
        answer = place.json(*words)
        assert (answer.code, answer.error["code"]) == (7, "foreign_rule"), answer
    assert files(place) == before
    assert place.done("events") == right
    answer = place.json("fsck")
    assert answer.code == 7
    assert {one["kind"] for one in answer.data["findings"]} == {"foreign_rule"}


def test_a_new_database_of_what_the_log_holds_goes_on(place: Place, tmp_path: Path) -> None:
    """The way that the message names leads out."""
    put_in(place, RULES["swallows events"])
    right = place.done("events")
    place.done("db", "backup", str(tmp_path / "log.jsonl"))
    for file in place.path.glob(".wfctl/events.db*"):
        file.rename(tmp_path / file.name)
    place.done("db", "restore", str(tmp_path / "log.jsonl"))
    place.done("note", "x")
    assert place.done("events")[: len(right)] == right


def test_a_trigger_that_is_gone_stops_nobody(place: Place) -> None:
    """Ours guard against slips; a log that was changed is told by its chain."""
    put_in(place)
    place.done("note", "x")


SWALLOW = (
    "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$"
)
EACH = "BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION swallow()"
ON_A_SERVER = {
    "trigger": (SWALLOW, f"CREATE TRIGGER t {EACH}"),
    "name of ours": (
        SWALLOW,
        "DROP TRIGGER events_no_update ON events",
        f"CREATE TRIGGER events_no_update {EACH}",
    ),
    "rule": ("CREATE RULE r AS ON INSERT TO events DO INSTEAD NOTHING",),
    "policy": (
        "ALTER TABLE events ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY p ON events USING (version < 3) WITH CHECK (true)",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("statements", ON_A_SERVER.values(), ids=ON_A_SERVER)
def test_on_a_server_too_nobody_else_decides_over_appended_rows(
    server: Server, tmp_path: Path, statements: tuple[str, ...]
) -> None:
    """Made by anyone who owns the tables: no write is acknowledged, and fsck tells."""
    url = server.log()
    place = made(tmp_path, url)
    place.done("note", "heard")
    server.sql(*statements, url=url)
    answer = place.json("note", "x")
    assert (answer.code, answer.error["code"]) == (7, "foreign_rule"), answer
    assert place.notes() == ["heard"]
    answer = place.json("fsck")
    assert answer.code == 7
    assert "foreign_rule" in {one["kind"] for one in answer.data["findings"]}


def test_of_many_findings_the_first_are_printed_and_the_rest_counted(place: Place) -> None:
    """Anyone who has SQL on the log fills nobody's screen."""
    put_in(place, *(RULES["swallows events"].replace(" t ", f" t{n} ") for n in range(130)))
    answer = place.json("fsck")
    assert (answer.code, len(answer.data["findings"])) == (7, 100)
    assert answer.data["findings_left_out"] == 30
    assert len(place.json("fsck", "--all").data["findings"]) == 130
    assert place.call("fsck").out.splitlines()[-1] == "and 30 more: `wfctl fsck --all`"
