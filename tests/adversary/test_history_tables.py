"""The history tables are a cache: an edited row changes no answer, and `fsck` reports it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from eventstore.database_url import libpq_url
from tests.adversary.raw import connected
from tests.amendments.support import make
from tests.cli.support import Place, tree, write_plan
from tests.cli.test_server import made
from tests.server import Server

STATEMENTS = {
    "changed": "UPDATE history_transitions SET actor = 'user:pi' WHERE stage = 'stage-1'",
    "taken out": "DELETE FROM history_transitions WHERE stage = 'stage-1'",
    "a version moved": "UPDATE history_events SET version = 77 WHERE version = 2",
    "an amendment made up": "INSERT INTO history_amendments (stream, amendment, type, state, "
    "description, changes, affected, proposed_version, proposed_at) SELECT stream, 'amend-9', "
    "'parameter_change', 'approved', 'x', '[]', '[]', 2, occurred_at FROM history_events "
    "WHERE version = 2",
    "no text": "UPDATE history_transitions SET actor = CAST(x'ff' AS TEXT)",
    "a session": "UPDATE history_sessions SET cost = 99",
}
ALTERED = (
    "DROP VIEW v_transitions",
    "ALTER TABLE history_transitions RENAME COLUMN actor TO who",
    "DROP VIEW v_sessions",
    "DROP TABLE history_sessions",
)
VIEWS = ("events", "transitions", "attempts", "amendments", "sessions")
QUESTIONS = [
    *([name] for name in ("transitions", "retries", "attempts", "times", "queue", "costs")),
    *(["amendments"], ["refused"]),
    *(["sql", f"SELECT * FROM v_{name} ORDER BY 1, 2, 3"] for name in VIEWS),
    *(["sql", f"SELECT * FROM history_{name} ORDER BY 1, 2, 3"] for name in VIEWS),
]


def worked(place: Place) -> None:
    """Record a few events, and update the history tables."""
    place.done("session", "start")
    place.done("note", "x")
    place.done("db", "project")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Create a workflow whose history tables are up to date."""
    place = Place(tmp_path / "root")
    place.path.mkdir()
    assert place.call("init", str(write_plan(tmp_path)), "--consent", "trust").code == 0
    worked(place)
    return place


@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
def test_fsck_reports_an_edited_history_row(place: Place, statement: str) -> None:
    """`fsck` exits with code 7, names the table and writes nothing; a rebuild corrects the rows."""
    right = place.done("audit", "transitions")
    assert place.done("fsck")["findings"] == []
    with closing(connected(place.path)) as database:
        assert database.execute(statement).rowcount
    place.done("note", "the files are as a writer leaves them")
    before = tree(place.path)
    answer = place.json("fsck")
    assert answer.code == 7
    (finding,) = answer.data["findings"]
    assert finding["kind"] == "history_changed"
    assert "db project --rebuild" in finding["message"]
    assert tree(place.path) == before
    place.done("db", "project", "--rebuild")
    assert place.done("fsck")["findings"] == []
    assert place.done("audit", "transitions") == right


def answers(place: Place, questions: Sequence[Sequence[str]] = QUESTIONS) -> list[Any]:
    """Return the answers of the history questions, without durations that still grow."""
    found = [place.done("audit", *question) for question in questions]
    for record in found[3]:
        record["seconds"] = None if record["is_open"] else record["seconds"]
    return found


@pytest.mark.slow
def test_edited_history_row_changes_no_answer(place: Place) -> None:
    """wfctl answers every history query from the log, whatever the tables contain."""
    right = answers(place)
    with closing(connected(place.path)) as database:
        for statement in [*STATEMENTS.values(), *ALTERED]:
            database.execute(statement)
    assert answers(place) == right


def test_unreadable_checkpoint_stops_no_question(place: Place) -> None:
    """wfctl answers from the log if the checkpoint of the history tables is damaged."""
    right = place.done("audit", "transitions")
    with closing(connected(place.path)) as database:
        assert database.execute(
            "UPDATE folds SET state = x'7b7d' WHERE reducer = 'history'"
        ).rowcount
    assert place.done("audit", "transitions") == right
    assert place.done("fsck")["findings"] == []


@pytest.mark.long
@pytest.mark.slow
def test_edited_history_rows_on_a_server_change_no_answer(server: Server, tmp_path: Path) -> None:
    """wfctl answers from the log after a database user edited the history tables."""
    url = server.log()
    place = made(tmp_path, url, "edited")
    worked(place)
    assert place.done("fsck")["findings"] == []
    documented = QUESTIONS[: -len(VIEWS)]  # a superuser can query only the views
    right = answers(place, documented)
    with psycopg.connect(libpq_url(url)) as connection:
        connection.execute(STATEMENTS["changed"].encode())
    assert answers(place, documented) == right
    assert [one["kind"] for one in place.json("fsck").data["findings"]] == ["history_changed"]


CHECKPOINTS: dict[str, dict[str, Any]] = {
    "far ahead": {"state": {"head": 10**6}},
    "no number": {"state": {"head": "x"}},
    "another state": {"state": {"stages": {"stage-1": 7}}},
    "another memory": {"carried": {"statuses": [1, 2]}},
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHECKPOINTS.values(), ids=CHECKPOINTS)
def test_forged_checkpoint_does_not_stop_the_projection(
    place: Place, change: dict[str, Any]
) -> None:
    """wfctl rebuilds the history tables if their checkpoint does not match the log."""
    with closing(connected(place.path)) as database:
        (text,) = database.execute("SELECT state FROM folds WHERE reducer = 'history'").fetchone()
        kept = json.loads(text)
        for part, values in change.items():
            kept[part].update(values)
        forged = json.dumps(kept).encode()
        database.execute("UPDATE folds SET state = ? WHERE reducer = 'history'", (forged,))
    place.done("fsck")
    place.done("append", "stage.prepared", "--data", '{"stage": "stage-1"}')
    assert place.done("db", "project")["events"] > 0
    assert place.done("fsck")["findings"] == []


JUNK = {
    "a claim": "INSERT INTO commands VALUES ('c', 'workflow-x', x'ff', 'x', 'y')",
    "a refusal": "INSERT INTO refusals VALUES (99, 'workflow-melt-2026-03-31', 7, x'ff', x'00', "
    "1.5, 'm', '{not json')",
    "a time": "INSERT INTO refusals VALUES (99, 'never', 'workflow-melt-2026-03-31', 'user:x', "
    "'x', 'needs_consent', 'm', '{}')",
    "bytes that are no text": "INSERT INTO refusals VALUES (99, '2026-03-31T10:00:00.000000Z', "
    "'workflow-melt-2026-03-31', 'user:x', 'x', 'needs_consent', CAST(x'ff' AS TEXT), '{}')",
    "a claim of nothing": "INSERT INTO commands VALUES ('c', 'workflow-nowhere', 'd', 1, 1)",
    "a claim of versions to come": "INSERT INTO commands VALUES "
    "('c', 'workflow-melt-2026-03-31', 'd', 9000000, 9000001)",
    "a claim of another's event": "INSERT INTO commands VALUES "
    "('c', 'workflow-melt-2026-03-31', 'd', 1, 2)",
    "a claim under a long id": "INSERT INTO commands VALUES "
    "(hex(zeroblob(100000)), 'workflow-melt-2026-03-31', 'd', 1, 0)",
}


@pytest.mark.slow
@pytest.mark.parametrize("statement", JUNK.values(), ids=JUNK)
def test_invalid_claim_or_refusal_row_stops_nothing(
    place: Place, statement: str, tmp_path: Path
) -> None:
    """All commands ignore the row, and `fsck` and a backup name it."""
    assert place.done("fsck")["findings"] == []
    right = place.done("audit", "refused")
    with closing(connected(place.path)) as database:
        database.execute(statement)
    assert place.done("audit", "refused") == right
    listed = place.json("audit", "bypasses")
    assert (listed.code, [one["kind"] for one in listed.data]) == (7, ["ineffective"])
    place.done("note", "x")
    place.done("export", "archive", str(tmp_path / "a.zip"))
    backup = place.json("db", "backup", str(tmp_path / "b.jsonl"))
    assert (backup.code, len(backup.data["findings"]), backup.data["left_out"]) == (7, 1, [])
    answer = place.json("fsck")
    assert [one["kind"] for one in answer.data["findings"]] == ["stray"], answer
    assert (answer.code, "ignores the row" in answer.data["findings"][0]["message"]) == (7, True)


@pytest.mark.slow
def test_fsck_names_inserted_claims_and_refusals_on_a_server(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fsck` reports each claim or refusal that a database user inserted, and the reason."""
    import psycopg

    url = server.log()
    monkeypatch.setenv("WFCTL_DATABASE_URL", url)
    place = make(tmp_path / "root", "--consent", "trust")
    assert place.done("fsck")["findings"] == []
    with psycopg.connect(url.replace("+psycopg", "")) as database:
        for name in ("a claim of nothing", "a claim of another's event"):
            database.execute(JUNK[name].replace("'c'", f"'{name[-5:]}'"))
        database.execute(JUNK["a time"])
    found = place.json("fsck").data["findings"]
    assert [one["kind"] for one in found] == ["stray"] * 3, found
    place.done("note", "x")
