"""Questions to a fixed history, on every engine; and SQL, which can only read."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from cli.program.tree import top
from tests.cli.support import Place, tree
from tests.history.on_file import FOLDER, QUESTIONS, SQL, files
from tests.history.story import written
from tests.server import Server


@pytest.fixture(params=["sqlite", "postgresql"])
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """The fixed history, in a file and on a server."""
    url = None
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("server")
        url = server.log()
    return Place(written(tmp_path / "root", url))


@pytest.fixture
def kept(tmp_path: Path) -> Place:
    """The fixed history in a file."""
    return Place(written(tmp_path / "root"))


@pytest.mark.forged
@pytest.mark.slow
@pytest.mark.few(2)
@pytest.mark.parametrize("projected", [False, True], ids=["folded", "projected"])
def test_every_question_is_answered_as_on_file(told: Place, projected: bool) -> None:
    """For people, as JSON and as CSV; from the tables, or from the log alone."""
    if projected:
        assert told.done("db", "project")["events"] == 33
    found = files(told.path)
    assert set(found) == set(FOLDER.iterdir())
    for path, content in found.items():
        assert content == path.read_bytes().decode(), path.name


def test_every_audit_is_among_them(kept: Place) -> None:
    """A new one gets its file."""
    words = kept.call("audit", "--help").out.split()
    asked = {line[1] for line in QUESTIONS.values() if line[0] == "audit"}
    assert asked <= set(words)
    assert {"blame", "why", "diff", "audit", "log", "events"} <= set(top())


def test_csv_is_what_a_spreadsheet_reads(kept: Place) -> None:
    """A head, a line each, JSON in the cells that hold more than a value; only of an audit."""
    rows = list(csv.DictReader(io.StringIO(kept.call("audit", "attempts", "-o", "csv").out)))
    assert [row["attempt"] for row in rows] == ["att-0001", "att-0002", "att-0001"]
    assert json.loads(rows[0]["evidence"]) == {"exit_code": 137}
    assert rows[1]["evidence"] == ""
    head = kept.call("audit", "refused", "--code", "none", "-o", "csv").out.strip()
    assert head == "at,actor,command,code,message,data"
    assert kept.call("status", "-o", "csv").code == 2


def test_a_spreadsheet_carries_out_nothing(kept: Place) -> None:
    """What begins as a formula is text there; a number is one, and JSON has all as it is."""
    sql = "SELECT '=1+1' AS a, '@SUM(1)' AS b, '-2+3' AS c, '+4' AS d, -5.5 AS e, -1e-7 AS f"
    out = kept.call("audit", "sql", sql, "-o", "csv").out
    assert out.splitlines()[1] == "'=1+1,'@SUM(1),'-2+3,+4,-5.5,-1e-07"
    assert kept.done("audit", "sql", sql)[0]["a"] == "=1+1"


def test_an_audit_looks_back(told: Place) -> None:
    """By both clocks, over tables that are further on."""
    told.done("db", "project")
    count = "SELECT count(*) AS n, max(version) AS v FROM v_events"
    assert told.done("audit", "sql", count) == [{"n": 33, "v": 33}]
    assert told.done("audit", "sql", count, "--at", "12") == [{"n": 12, "v": 12}]
    late = ["--at", "2026-03-31T10:03:00Z"]
    assert told.done("audit", "sql", count, *late) == [{"n": 10, "v": 10}]
    assert told.done("audit", "sql", count, "--known-at", late[1]) == [{"n": 6, "v": 6}]
    assert told.done("audit", "refused", "--known-at", "12") == []


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO refusals VALUES (1, 'x', 'x', 'x', 'x', 'x', 'x', 'x')",
        "DELETE FROM history_events",
        "UPDATE folds SET version = 0",
        "DROP TABLE history_events",
        "CREATE TABLE theirs (x INTEGER)",
        "ATTACH DATABASE 'other.db' AS other",
        "PRAGMA query_only = OFF",
        "PRAGMA user_version",
        "VACUUM",
        "VACUUM INTO 'copy.db'",
        "UPDATE v_events SET version = 1",
        "INSERT INTO nowhere VALUES (1)",
        "-- nothing",
        "BEGIN IMMEDIATE",
        "COMMIT",
        "SELECT 1; DELETE FROM history_events",
        "SELECT 1; COMMIT; DROP TABLE history_events",
        "SELECT 1; SELECT 2",
        "SET TRANSACTION READ WRITE",
        "COPY events TO PROGRAM 'true'",
        "EXPLAIN ANALYZE DELETE FROM folds",
    ],
)
def test_sql_can_only_read(told: Place, statement: str) -> None:
    """Whatever it is that would do more is refused; nothing is changed, nothing is made."""
    assert refused(told, statement) == (5, "sql_refused")


@pytest.mark.parametrize(
    ("statement", "engine"),
    [
        ("SELECT load_extension('x')", "sqlite"),
        ("SELECT setval('refusals_id_seq', 99)", "postgresql"),
        ("WITH x AS (DELETE FROM folds RETURNING 1) SELECT * FROM x", "postgresql"),
    ],
)
def test_what_one_engine_alone_would_do_is_refused_there(
    told: Place, statement: str, engine: str
) -> None:
    """The other does not know it, which is a usage error, and changes nothing either."""
    is_there = (engine == "sqlite") == (told.path / ".wfctl/events.db").exists()
    expected = (5, "sql_refused") if is_there else (2, "sql_error")
    assert refused(told, statement) == expected


def refused(told: Place, statement: str) -> tuple[int, str]:
    """Ask what must not be answered, see that all is as it was; return exit code and error."""
    told.done("db", "project")
    before, rows = tree(told.path), told.done("audit", "sql", "SELECT * FROM v_events")
    answer = told.call("-o", "json", "audit", "sql", "--", statement)
    assert tree(told.path) == before
    assert told.done("audit", "sql", "SELECT * FROM v_events") == rows
    return answer.code, answer.error["code"]


def test_a_question_that_takes_too_long_is_cut_off(told: Place) -> None:
    """On the engine's side and on ours."""
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    answer = told.json("audit", "sql", endless, "--timeout", "0.3")
    assert (answer.code, answer.error["code"]) == (1, "sql_timeout")


def test_a_question_that_is_none_is_a_usage_error(told: Place) -> None:
    """With what the database says of it; an empty one too."""
    for statement in ("SELECT * FROM nowhere", "SELECT 1 FROM", " "):
        assert told.json("audit", "sql", statement).code == 2
    assert "nowhere" in told.json("audit", "sql", "SELECT * FROM nowhere").error["message"]


def test_columns_of_the_same_name_are_told_apart(told: Place) -> None:
    """Nothing is lost in an object."""
    found = told.done("audit", "sql", "SELECT 1 AS n, 2 AS n, '%' AS percent")
    assert found == [{"n": 1, "n_2": 2, "percent": "%"}]


def test_sums_and_means_are_numbers(told: Place) -> None:
    """As whole as they are, on every engine."""
    sql = "SELECT sum(version) AS s, avg(version) AS m FROM v_events WHERE version < 3"
    answer = told.call("audit", "sql", sql, "-o", "jsonl").out
    assert answer == '{"s":3,"m":1.5}\n'


def test_a_question_may_begin_with_comments(told: Place) -> None:
    """As in a file that goes to stdin; they hide no other statement."""
    comments = "/* which\nof */ -- them\n"
    assert told.done("audit", "sql", f"{comments}SELECT 1 AS n") == [{"n": 1}]
    assert told.call("audit", "sql", f"{comments}DELETE FROM folds").code == 5


def test_what_json_cannot_hold_is_text(kept: Place) -> None:
    """A number without end, and bytes that are no text, which damage nothing."""
    sql = "SELECT 1e999 AS i, -1e999 AS j, CAST(x'61ff' AS TEXT) AS t"
    assert kept.done("audit", "sql", sql) == [{"i": "inf", "j": "-inf", "t": "a\ufffd"}]


def test_a_read_over_tables_that_are_behind_writes_nothing(kept: Place) -> None:
    """Not a byte, and without the tables neither."""
    before = tree(kept.path)
    assert kept.done("audit", "sql", SQL)[0] == {"stage": "stage-1", "times": 9}
    assert tree(kept.path) == before


@pytest.mark.slow
def test_no_question_changes_a_byte(kept: Place) -> None:
    """Not in the root, and not below ``.wfctl``."""
    before = tree(kept.path)
    assert files(kept.path)
    assert tree(kept.path) == before


def test_the_dry_run_of_a_projection_writes_nothing(kept: Place) -> None:
    """It says how far it would go."""
    before = tree(kept.path)
    planned = kept.done("db", "project", "--dry-run")
    assert (planned["was"], planned["events"], planned["version"]) == (0, 33, 33)
    assert tree(kept.path) == before
