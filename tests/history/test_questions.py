"""Queries of a fixed history on every database, and SQL queries, which can only read."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from cli.program.commands import find_top_words
from tests.cli.support import Place, tree
from tests.history.on_file import FOLDER, QUESTIONS, SQL, files
from tests.history.story import written
from tests.server import Server


@pytest.fixture(params=["sqlite", "postgresql"])
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return the fixed history, in a file or on a server."""
    url = None
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("server")
        url = server.log()
    return Place(written(tmp_path / "root", url))


@pytest.fixture
def kept(tmp_path: Path) -> Place:
    """Return the fixed history in a file."""
    return Place(written(tmp_path / "root"))


@pytest.mark.forged
@pytest.mark.slow
@pytest.mark.few(2)
@pytest.mark.parametrize("projected", [False, True], ids=["folded", "projected"])
def test_query_output_matches_golden_files(told: Place, projected: bool) -> None:
    """Text, JSON and CSV are the same from the tables and from the log alone."""
    if projected:
        assert told.done("db", "project")["events"] == 33
    found = files(told.path)
    assert set(found) == set(FOLDER.iterdir())
    for path, content in found.items():
        assert content == path.read_bytes().decode(), path.name


def test_golden_files_include_every_audit(kept: Place) -> None:
    """A new audit command needs a golden file."""
    words = kept.call("audit", "--help").out.split()
    asked = {line[1] for line in QUESTIONS.values() if line[0] == "audit"}
    assert asked <= set(words)
    assert {"blame", "why", "diff", "audit", "log", "events"} <= set(find_top_words())


def test_csv_output_has_a_header_and_json_cells(kept: Place) -> None:
    """Only `audit` supports CSV. A cell with a structured value contains JSON."""
    rows = list(csv.DictReader(io.StringIO(kept.call("audit", "attempts", "-o", "csv").out)))
    assert [row["attempt"] for row in rows] == ["att-0001", "att-0002", "att-0001"]
    assert json.loads(rows[0]["evidence"]) == {"exit_code": 137}
    assert rows[1]["evidence"] == ""
    head = kept.call("audit", "refused", "--code", "none", "-o", "csv").out.strip()
    assert head == "at,actor,command,code,message,data"
    assert kept.call("status", "-o", "csv").code == 2


def test_csv_output_escapes_formulas(kept: Place) -> None:
    """Text that looks like a formula gets a quote; numbers and JSON output are unchanged."""
    sql = "SELECT '=1+1' AS a, '@SUM(1)' AS b, '-2+3' AS c, '+4' AS d, -5.5 AS e, -1e-7 AS f"
    out = kept.call("audit", "sql", sql, "-o", "csv").out
    assert out.splitlines()[1] == "'=1+1,'@SUM(1),'-2+3,+4,-5.5,-1e-07"
    assert kept.done("audit", "sql", sql)[0]["a"] == "=1+1"


def test_audit_accepts_at_and_known_at(told: Place) -> None:
    """The answer about an earlier state is right although the tables contain newer events."""
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
def test_sql_that_writes_is_refused(told: Place, statement: str) -> None:
    """`audit sql` refuses the statement and changes neither the root nor the tables."""
    assert refused(told, statement) == (5, "sql_refused")


@pytest.mark.parametrize(
    ("statement", "engine"),
    [
        ("SELECT load_extension('x')", "sqlite"),
        ("SELECT setval('refusals_id_seq', 99)", "postgresql"),
        ("WITH x AS (DELETE FROM folds RETURNING 1) SELECT * FROM x", "postgresql"),
    ],
)
def test_engine_specific_sql_that_writes_is_refused(
    told: Place, statement: str, engine: str
) -> None:
    """One database engine refuses the statement, and the other reports a syntax error."""
    is_there = (engine == "sqlite") == (told.path / ".wfctl/events.db").exists()
    expected = (5, "sql_refused") if is_there else (2, "sql_error")
    assert refused(told, statement) == expected


def refused(told: Place, statement: str) -> tuple[int, str]:
    """Run a statement that must be refused, and check that it changed nothing.

    Return the exit code and the error code.
    """
    told.done("db", "project")
    before, rows = tree(told.path), told.done("audit", "sql", "SELECT * FROM v_events")
    answer = told.call("-o", "json", "audit", "sql", "--", statement)
    assert tree(told.path) == before
    assert told.done("audit", "sql", "SELECT * FROM v_events") == rows
    return answer.code, answer.error["code"]


def test_slow_sql_is_stopped_by_the_timeout(told: Place) -> None:
    """An endless query ends with the error sql_timeout."""
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    answer = told.json("audit", "sql", endless, "--timeout", "0.3")
    assert (answer.code, answer.error["code"]) == (1, "sql_timeout")


def test_invalid_sql_is_a_usage_error(told: Place) -> None:
    """The message is that of the database; an empty statement is refused too."""
    for statement in ("SELECT * FROM nowhere", "SELECT 1 FROM", " "):
        assert told.json("audit", "sql", statement).code == 2
    assert "nowhere" in told.json("audit", "sql", "SELECT * FROM nowhere").error["message"]


def test_duplicate_sql_columns_get_numbered_names(told: Place) -> None:
    """Equal column names get numbers, so that no column is lost in the JSON object."""
    found = told.done("audit", "sql", "SELECT 1 AS n, 2 AS n, '%' AS percent")
    assert found == [{"n": 1, "n_2": 2, "percent": "%"}]


def test_sql_aggregates_are_numbers(told: Place) -> None:
    """Sums are integers on every database engine."""
    sql = "SELECT sum(version) AS s, avg(version) AS m FROM v_events WHERE version < 3"
    answer = told.call("audit", "sql", sql, "-o", "jsonl").out
    assert answer == '{"s":3,"m":1.5}\n'


def test_sql_may_start_with_comments(told: Place) -> None:
    """A statement that writes is also refused after a comment."""
    comments = "/* which\nof */ -- them\n"
    assert told.done("audit", "sql", f"{comments}SELECT 1 AS n") == [{"n": 1}]
    assert told.call("audit", "sql", f"{comments}DELETE FROM folds").code == 5


def test_sql_values_without_json_form_are_strings(kept: Place) -> None:
    """Infinity and invalid UTF-8 are converted to text."""
    sql = "SELECT 1e999 AS i, -1e999 AS j, CAST(x'61ff' AS TEXT) AS t"
    assert kept.done("audit", "sql", sql) == [{"i": "inf", "j": "-inf", "t": "a\ufffd"}]


def test_query_with_outdated_tables_writes_nothing(kept: Place) -> None:
    """If the tables lack events, the answer is still complete, and no file changes."""
    before = tree(kept.path)
    assert kept.done("audit", "sql", SQL)[0] == {"stage": "stage-1", "times": 9}
    assert tree(kept.path) == before


@pytest.mark.slow
def test_queries_write_nothing(kept: Place) -> None:
    """A query changes no file in the root or below ``.wfctl``."""
    before = tree(kept.path)
    assert files(kept.path)
    assert tree(kept.path) == before


def test_dry_run_of_db_project_writes_nothing(kept: Place) -> None:
    """`db project --dry-run` states the version that the tables would reach."""
    before = tree(kept.path)
    planned = kept.done("db", "project", "--dry-run")
    assert (planned["was"], planned["events"], planned["version"]) == (0, 33, 33)
    assert tree(kept.path) == before
