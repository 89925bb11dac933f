"""A database with foreign triggers or rules: wfctl reports them and refuses to write."""

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
    """Create a workflow."""
    place = Place(tmp_path / "root")
    place.path.mkdir()
    assert place.call("init", str(write_plan(tmp_path)), "--consent", "trust").code == 0
    return place


def put_in(place: Place, *statements: str) -> None:
    """Remove one of wfctl's triggers from the database, and run the given SQL statements."""
    with closing(connected(place.path)) as database:
        database.execute("DROP TRIGGER events_no_update")
        for statement in statements:
            database.execute(statement)


def files(place: Place) -> dict[str, str]:
    """Return the digests of the files, without the temporary files of SQLite."""
    return {name: digest for name, digest in tree(place.path).items() if "events.db-" not in name}


@pytest.mark.parametrize("statements", [*((one,) for one in RULES.values()), TABLE])
def test_foreign_trigger_stops_every_write(place: Place, statements: tuple[str, ...]) -> None:
    """Commands that write fail, commands that read work, and `fsck` reports the trigger."""
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


def test_log_is_restored_into_a_new_database(place: Place, tmp_path: Path) -> None:
    """After the suggested backup and restore, the log can be written again."""
    put_in(place, RULES["swallows events"])
    right = place.done("events")
    place.done("db", "backup", str(tmp_path / "log.jsonl"))
    for file in place.path.glob(".wfctl/events.db*"):
        file.rename(tmp_path / file.name)
    place.done("db", "restore", str(tmp_path / "log.jsonl"))
    place.done("note", "x")
    assert place.done("events")[: len(right)] == right


def test_missing_trigger_does_not_stop_writes(place: Place) -> None:
    """wfctl can write to a database without its own triggers, which only prevent mistakes."""
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
def test_foreign_rule_on_a_server_stops_every_write(
    server: Server, tmp_path: Path, statements: tuple[str, ...]
) -> None:
    """No write succeeds after the owner of the tables adds a rule, and `fsck` reports the rule."""
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


def test_fsck_prints_the_first_findings_and_counts_the_rest(place: Place) -> None:
    """`fsck` prints at most 100 findings and the number of others, unless --all is given."""
    put_in(place, *(RULES["swallows events"].replace(" t ", f" t{n} ") for n in range(130)))
    answer = place.json("fsck")
    assert (answer.code, len(answer.data["findings"])) == (7, 100)
    assert answer.data["findings_left_out"] == 30
    assert len(place.json("fsck", "--all").data["findings"]) == 130
    assert place.call("fsck").out.splitlines()[-1] == "and 30 more: `wfctl fsck --all`"
