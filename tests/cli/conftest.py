"""Fixtures: workflows on which the tests run wfctl commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.support import HERE, Place, call, write_plan
from tests.server import Server

PAGE = HERE / "docs" / "run" / "postgresql.md"


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the variables of the caller's environment that affect a test."""
    for name in ("WFCTL_ACTOR", "WFCTL_DATABASE_URL", "WFCTL_DEBUG", "WFCTL_DPDISP", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Create a workflow of two stages."""
    plan = write_plan(tmp_path)
    root = tmp_path / "root"
    root.mkdir()
    answer = call("--root", str(root), "init", str(plan), "--consent", "trust")
    assert answer.code == 0, answer
    return Place(root)


def blocks() -> list[list[str]]:
    """Return the SQL statements of each SQL block of the documentation page."""
    found = re.findall(r"```sql\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return [[s.strip() for s in block.split(";") if s.strip()] for block in found]


@pytest.fixture(scope="session")
def page(server: Server) -> dict[str, str]:
    """Run the commands of the documentation page, and return the database URL of each role."""
    once, in_database, after = blocks()
    server.sql(*once)
    server.sql(*in_database, url=server.url("wfctl"))
    owner = server.url("wfctl", "wfctl_owner")
    answer = call("--database-url", owner, "db", "upgrade")
    assert answer.code == 0, answer
    server.sql(*after, url=owner)
    server.sql(
        "CREATE ROLE ada LOGIN IN ROLE wfctl_writer", "CREATE ROLE bo LOGIN IN ROLE wfctl_reader"
    )
    roles = {"owner": "wfctl_owner", "writer": "ada", "reader": "bo"}
    return {role: server.url("wfctl", name) for role, name in roles.items()}
