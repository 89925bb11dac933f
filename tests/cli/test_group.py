"""A group that shares a database server, with one database account for each member."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.conftest import PAGE
from tests.cli.support import HERE, Answer, Place, write_plan
from tests.cli.terminal import QUESTION, at_a_terminal
from tests.cli.test_server import made
from tests.server import _GUARDED, Server

BEHIND = "user:ada (as the database user cy)"


@pytest.fixture(scope="module")
def cy(server: Server, page: dict[str, str]) -> str:
    """Return the database URL of a second writer besides ada."""
    assert page
    server.sql("CREATE ROLE cy LOGIN IN ROLE wfctl_writer")
    return server.url("wfctl", "cy")


def proofs(place: Place, *words: str) -> list[dict[str, Any]]:
    """Return the proofs of the approvals in a log."""
    found = place.done(*words, "events", "--type", "amendment.approved")
    return [event["data"]["proof"] for event in found]


@pytest.mark.slow
def test_approval_under_another_name_records_the_database_user(
    page: dict[str, str], cy: str, tmp_path: Path
) -> None:
    """The proof and every display of the approval name the database user."""
    place = made(tmp_path, page["writer"], "behind")
    ada = ("--actor", "user:ada")
    for number, url in enumerate((page["writer"], cy), 1):
        change = f"name=Go {number}"
        place.done("amend", "propose", "--stage", "stage-2", "--set", change, "--reason", "why not")
        place.done("--database-url", url, *ada, "amend", "approve", f"amend-{number}")
    assert [one["database_user"] for one in proofs(place)] == ["ada", "cy"]
    assert "user:ada" in place.call("amend", "show", "amend-1").out
    assert "as the database user" not in place.call("amend", "show", "amend-1").out
    page_ = tmp_path / "report.html"
    place.done("export", "report", str(page_))
    for text in (
        place.call("amend", "show", "amend-2").out,
        place.call("blame", "stage-2.name").out,
        place.call("status").out,
        place.call("report").out,
        page_.read_text("utf-8"),
    ):
        assert BEHIND in " ".join(text.split()), text
    assert place.done("audit", "amendments")[1]["database_user"] == "cy"
    assert place.done("fsck", "--protocol")["findings"] == []


@pytest.mark.slow
def test_reverted_edit_under_another_name_records_the_database_user(
    page: dict[str, str], cy: str, tmp_path: Path
) -> None:
    """The consent to revert a manual edit also names the database user."""
    place = made(tmp_path, page["writer"], "dismissed")
    state = place.path / "workflow-state.json"
    state.write_text(state.read_text("utf-8").replace('"Run"', '"Walk"'), "utf-8")
    place.done("note", "x")
    words = ("--database-url", cy, "--actor", "user:ada", "drift", "revert")
    place.done(*words)
    [reverted] = place.done("events", "--type", "drift.reverted")
    assert reverted["data"]["proof"]["database_user"] == "cy"
    assert BEHIND in " ".join(place.call("status").out.split())


@pytest.mark.slow
def test_machine_approval_under_another_name_records_the_database_user(
    page: dict[str, str], cy: str, tmp_path: Path
) -> None:
    """The proof and the report of the machine name the database user."""
    place = made(tmp_path, page["writer"], "of-a-machine")
    place.done("machine", "init", "wf", "--type", "dotagent", "--consent", "trust")
    demand = place.path / "memory/reports/demand.json"
    demand.parent.mkdir(parents=True)
    demand.write_text('{"wants": "a shop"}', "utf-8")
    as_ada = ("--database-url", cy, "--actor", "user:ada")
    place.done(*as_ada, "machine", "approve", "wf", "requirements")
    approved = place.done("events", "--machine", "wf", "--type", "machine.approved")
    assert [one["data"]["proof"]["database_user"] for one in approved] == ["cy"]
    report = tmp_path / "machine.html"
    place.done("export", "report", str(report), "--machine", "wf")
    assert BEHIND in report.read_text("utf-8")


def test_approval_in_a_sqlite_file_names_no_database_user(place: Place) -> None:
    """A SQLite file has no user accounts."""
    place.done("amend", "propose", "--stage", "stage-2", "--set", "name=Go", "--reason", "x")
    place.done("amend", "approve", "amend-1")
    assert ["database_user" in one for one in proofs(place)] == [False]


class Member(NamedTuple):
    """A member of the group, with a home folder and a database password."""

    name: str
    home: Path

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment of the member's shell, without the settings of other members."""
        kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_STATE_HOME": str(self.home / "state"),
            "LOGNAME": self.name,
            "PGUSER": self.name,
            "PGPASSFILE": str(self.home / ".pgpass"),
            "PATH": f"{self.home / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(HERE),
        }

    def shell(self, script: str, cwd: Path | None = None) -> Answer:
        """Run a script without a terminal."""
        done = subprocess.run(
            ["sh", "-c", script],
            cwd=cwd or self.home,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def at_terminal(self, script: str, cwd: Path, *answers: str, **environ: str) -> None:
        """Run a script at a terminal, and type each answer at its question."""
        line = f'{script}; echo "ended with $?"'
        with at_a_terminal("sh", "-c", line, cwd=cwd, environ=self.environ | environ) as keys:
            typed = ""
            for answer in answers:
                keys.type(typed, until=QUESTION)
                typed = answer
            keys.type(typed, until="ended with 0")


def member(server: Server, name: str, home: Path) -> Member:
    """Create the account, password file and program of a member, as the documentation says."""
    text = PAGE.read_text("utf-8")
    created = re.search(r"`(CREATE ROLE ada LOGIN IN ROLE wfctl_writer)`", " ".join(text.split()))
    line = re.search(r"^db\.example\.org:5432:wfctl:ada:PASSWORD$", text, re.MULTILINE)
    assert created
    assert line
    kind = "reader" if name == "dee" else "writer"
    account = created[1].replace("ada", name).replace("writer", kind)
    server.sql(account, f"ALTER ROLE {name} PASSWORD 'of-{name}'", f"GRANT {_GUARDED} TO {name}")
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "wfctl"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cli.main "$@"\n')
    program.chmod(0o755)
    known = line[0].replace("db.example.org", str(server.data)).replace(":ada:", f":{name}:")
    passwords = home / ".pgpass"
    passwords.write_text(known.replace("PASSWORD", f"of-{name}") + "\n")
    passwords.chmod(0o600)
    return Member(name, home)


def shell_blocks() -> list[str]:
    """Return the shell blocks of the documentation page."""
    return re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.mark.slow
@pytest.mark.long
def test_three_members_follow_the_documentation_page(
    server: Server, page: dict[str, str], tmp_path: Path
) -> None:
    """One member creates the workflow, one joins and writes, and one only reads."""
    assert page
    text = PAGE.read_text("utf-8")
    ana, bea, dee = (member(server, name, tmp_path / name) for name in ("ana", "bea", "dee"))
    asked = f"wfctl db current --database-url {url_of(server)}"
    assert ana.shell(f"PGPASSFILE=/nowhere {asked}").code == 1
    assert ana.shell(asked).code == 0

    # The first member creates the workflow with the command of the page.
    begin = next(line for line in shell_blocks()[0].splitlines() if line.startswith("wfctl init"))
    begin = re.sub(r"'postgresql\S+'", url_of(server), begin)
    first = ana.home / "melt"
    first.mkdir()
    write_plan(first, name="plan.json")
    ana.at_terminal(begin, first)
    config = (first / ".wfctl" / "config.toml").read_text("utf-8")
    assert "ana" not in config

    # The other members create their roots with the commands of the page, from a file that a
    # colleague sends.
    block = next(one for one in shell_blocks() if one.startswith("mkdir"))
    sent = tmp_path / "config.toml"
    sent.write_text(config)
    join = block.replace("/tmp/config.toml", str(sent)).strip().replace("\n", " && ")
    bea.at_terminal(join, bea.home)
    assert "Build" in bea.shell("wfctl status", bea.home / "melt").out

    # Each member writes in a separate root under her own name, and sees the work of the others.
    assert ana.shell("wfctl note 'from ana'", first).code == 0
    propose = "wfctl amend propose --stage stage-2 --set name=Go --reason 'why not'"
    assert bea.shell(propose, bea.home / "melt").code == 0
    assert "from ana" in bea.shell("wfctl -o json events", bea.home / "melt").out

    # A member approves under another name, and the log records the database account.
    approve = "wfctl amend approve amend-1"
    bea.at_terminal(approve, bea.home / "melt", "y\n", WFCTL_ACTOR="user:ana")
    said = " ".join(ana.shell("wfctl amend show amend-1", first).out.split())
    assert "by user:ana (as the database user bea)" in said

    # The member with read access can read everything, and each write exits with the code that the
    # page states.
    promised = re.search(r"ther commands fail with exit code (\d)", " ".join(text.split()))
    assert promised
    place = dee.home / "melt"
    (place / ".wfctl").mkdir(parents=True)
    (place / ".wfctl" / "config.toml").write_text(config)
    dee.at_terminal("wfctl db trust", place)
    for words in ("status", "events", "fsck", "log", "list"):
        answer = dee.shell(f"wfctl {words}", place)
        assert answer.code == 0, answer
    before = ana.shell("wfctl events", first).out
    for words in ("rehydrate", "note x", propose.removeprefix("wfctl "), "run"):
        answer = dee.shell(f"wfctl -o json --root-is copied {words}", place)
        assert answer.code == int(promised[1]), answer
        assert answer.error["code"] == "store_unwritable"
    assert ana.shell("wfctl events", first).out == before


def url_of(server: Server) -> str:
    """Return the quoted URL of the page's database, without an account name."""
    return f"'postgresql+psycopg:///wfctl?host={server.data}'"
