"""SQL queries of `audit sql` that run very long or try to read other data of the server."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from eventstore.database_url import libpq_url
from tests.cli.support import call, wfctl, write_plan
from tests.cli.test_server import made
from tests.server import Server

#: SQL queries that spend a very long time in one function call, which SQLite cannot interrupt.
LONG = (
    "SELECT length(replace(hex(zeroblob(10000000)), hex(zeroblob(4000000)) || '1', ''))",
    "SELECT 1 UNION ALL SELECT instr(hex(zeroblob(10000000)), hex(zeroblob(4000000)) || '1')",
)


@pytest.mark.parametrize("question", LONG, ids=["first row", "later row"])
def test_long_sql_function_call_obeys_the_timeout(question: str, tmp_path: Path) -> None:
    """`audit sql` exits at the timeout, although SQLite cannot interrupt the call."""
    root = tmp_path / "root"
    root.mkdir()
    assert (
        call("--root", str(root), "init", str(write_plan(tmp_path)), "--consent", "trust").code == 0
    )
    line = ("--root", str(root), "-o", "json", "audit", "sql", question, "--timeout", "0.2")
    answer = wfctl(*line)
    assert (answer.code, answer.error["code"]) == (1, "sql_timeout"), answer
    assert wfctl("--root", str(root), "note", "nothing is held").code == 0


#: Queries that a superuser can run even in a read-only transaction, or that restore the superuser
#: role.
POWERS = {
    "a file": "SELECT pg_read_file('postgresql.conf')",
    "a folder": "SELECT * FROM pg_ls_dir('.')",
    "other sessions": "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE pid <> pg_backend_pid()",
    "the server": "SELECT pg_reload_conf()",
    "passwords": "SELECT rolpassword FROM pg_authid",
    "back by a role": "SELECT set_config('role', 'none', false), pg_read_file('postgresql.conf')",
    "back by a login": "SELECT query_to_xml($q$SELECT set_config('session_authorization', "
    "'postgres', false)$q$, false, false, ''), pg_read_file('postgresql.conf')",
    "in words": "SELECT query_to_xml('SELECT pg_read_file(''postgresql.conf'')', true, true, '')",
    "in a sort": "SELECT 1 ORDER BY pg_read_file('postgresql.conf')",
    "while it is planned": "SELECT 1 WHERE length(pg_read_file('postgresql.conf')) > 0",
    "closing the question": "SELECT 1; COMMIT; SELECT pg_read_file('postgresql.conf')",
}


@pytest.mark.slow
def test_superuser_query_reads_only_the_history(server: Server, tmp_path: Path) -> None:
    """`audit sql` refuses a superuser's queries for files, sessions and passwords."""
    place = made(tmp_path, server.log(), "asked-by-a-superuser")
    asked = "SELECT *, 'x' AS type, 1.50::numeric(5, 2) AS n FROM v_events ORDER BY version LIMIT 1"
    (row,) = place.done("audit", "sql", asked)
    assert (row["version"], row["n"]) == (1, 1.5)
    assert place.done("audit", "sql", "SELECT row(1, 2) AS pair, 3 AS n -- why") == [
        {"pair": "(1,2)", "n": 3}
    ]
    with psycopg.connect(libpq_url(server.url())) as other:
        for what, question in POWERS.items():
            answer = place.json("audit", "sql", question)
            assert (answer.code, answer.error["code"]) == (5, "sql_refused"), (what, answer)
        other.execute("SELECT 1")
        roles = other.execute("SELECT count(*) FROM pg_roles WHERE rolname LIKE 'wfctl_question%'")
        assert roles.fetchone() == (0,)
