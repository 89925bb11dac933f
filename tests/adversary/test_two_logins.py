"""A log that belongs to one user, and an agent that works as another user."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

from tests.amendments.support import LONGER, PLAN, make_keys, sign
from tests.cli.support import Answer, agree, wfctl, write_plan
from tests.cli.terminal import answered_as
from tests.forked import LOGIN

pytestmark = [pytest.mark.slow, pytest.mark.root]

#: User ids for the tests. The writer is Debian's `nobody`, because OpenSSH requires a user with a
#: name.
WRITER, AGENT, NAMELESS = 65534, 65532, 65531
#: Tries every operation on the log that the user can do without wfctl.
PAST = """
import os, sqlite3, sys
login, root = int(sys.argv[1]), sys.argv[2]
os.setgroups([]), os.setgid(login), os.setuid(login)
log = os.path.join(root, ".wfctl/events.db")
def tried(what):
    try:
        what()
    except (OSError, sqlite3.OperationalError) as error:
        return type(error).__name__
    return "done"
print(tried(lambda: sqlite3.connect(log).execute("DELETE FROM folds").connection.commit()))
print(tried(lambda: open(log, "rb")))
print(tried(lambda: os.rename(root + "/.wfctl", root + "/.old")))
print(tried(lambda: open(root + "/workflow-state.json", "a")))
print(tried(lambda: os.symlink("/etc/passwd", root + "/init.sh")))
"""


class Host(NamedTuple):
    """A folder that every user can enter, with a root and the writer's home."""

    path: Path

    @property
    def root(self) -> Path:
        """Return the root of the workflow."""
        return self.path / "root"

    @property
    def home(self) -> Path:
        """Return the folder in which the writer's pins (remembered logs) are stored."""
        return self.path / "home"

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment of the writer."""
        return dict.fromkeys(("XDG_CONFIG_HOME", "XDG_STATE_HOME", "TMPDIR"), str(self.home))

    def call(self, login: int, *words: str, actor: str = "agent:a") -> Answer:
        """Run wfctl as the given user, as `sudo -u` would."""
        line = ("--root", str(self.root), "--actor", actor, "-o", "json", *words)
        return wfctl(*line, cwd=self.path, environ={**self.environ, LOGIN: str(login)})

    def done(self, *words: str, actor: str = "agent:a") -> Any:
        """Run wfctl as the writer, and check that it succeeds."""
        answer = self.call(WRITER, *words, actor=actor)
        assert answer.code == 0, answer
        return answer.data

    def give_to(self, login: int) -> None:
        """Make a user the owner of the workflow and the pins."""
        for folder in (self.root, self.home):
            for place in (folder, *folder.rglob("*")):
                os.chown(place, login, login)

    def signed(self) -> str:
        """Sign the statement of the first amendment elsewhere; return the path of the signature."""
        shown = self.call(WRITER, "amend", "show", "amend-1", "--statement", actor="user:pi")
        assert shown.code == 0, shown
        signature = self.path / "statement.sig"
        signature.write_bytes(
            sign(shown.out, self.path / "keys" / "allowed", self.path / "keys").read_bytes()
        )
        signature.chmod(0o644)
        return str(signature)

    def parameters(self) -> Any:
        """Return the parameters of the first stage from the log."""
        return self.done("show", "stage-1")["parameters"]


@pytest.fixture
def host() -> Iterator[Host]:
    """Create the writer's root under `signature`. Root owns the keys of the person."""
    with TemporaryDirectory() as name:
        made = Host(Path(name))
        made.path.chmod(0o755)
        for folder in (made.root, made.home):
            folder.mkdir(mode=0o755)
        (made.path / "keys").mkdir(mode=0o700)
        keys = make_keys(made.path / "keys")
        allowed = made.path / "signers"
        allowed.write_bytes(keys.signers.read_bytes())
        plan = write_plan(made.path, PLAN)
        for file in (allowed, plan):
            file.chmod(0o644)
        policy = ("--consent", "signature", "--signers", str(allowed))
        answer = made.call(0, "init", str(plan), *policy, actor="user:pi")
        assert answer.code == 0, answer
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CONFIG_HOME", str(made.home))
            agree(made.root, keys.allowed)
        made.give_to(WRITER)
        yield made


def test_agent_of_another_user_reaches_the_log_only_through_wfctl(host: Host) -> None:
    """The agent cannot open the log or its files, and wfctl lets it change no definition."""
    past = subprocess.run(
        [sys.executable, "-c", PAST, str(AGENT), str(host.root)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert past.stdout.split() == [
        "OperationalError",
        "PermissionError",
        "PermissionError",
        "PermissionError",
        "PermissionError",
    ]
    assert host.call(AGENT, "note", "mine").code != 0
    before = host.parameters()
    host.done("note", "through the rules")
    host.done("amend", "propose", *LONGER)
    refused = host.call(WRITER, "amend", "approve", "amend-1")
    assert refused.code == 6, refused
    assert host.parameters() == before
    assert host.done("fsck")["findings"] == []


def test_person_approves_with_a_signature_made_elsewhere(host: Host) -> None:
    """The writer has no key: the person signs an exported statement, and the writer imports it."""
    host.done("amend", "propose", *LONGER)
    answer = host.call(
        WRITER, "amend", "approve", "amend-1", "--signature", host.signed(), actor="user:pi"
    )
    assert answer.code == 0, answer
    assert host.parameters()["n"] == 2
    assert host.done("fsck")["findings"] == []


def test_user_without_a_name_cannot_check_signatures(host: Host) -> None:
    """The error names the user id, and wfctl neither accepts nor rejects the signature."""
    host.done("amend", "propose", *LONGER)
    signature = host.signed()
    host.give_to(NAMELESS)
    line = ("amend", "approve", "amend-1", "--signature", signature)
    answer = host.call(NAMELESS, *line, actor="user:pi")
    assert answer.error["code"] == "signature_failed", answer
    assert f"user ID {NAMELESS}" in answer.error["message"]
    host.give_to(WRITER)
    assert host.call(WRITER, *line, actor="user:pi").code == 0
    host.give_to(NAMELESS)
    assert host.call(NAMELESS, "show", "stage-1").error["code"] == "signature_failed"


def test_program_that_types_an_answer_is_accepted_under_terminal(host: Host) -> None:
    """The policy `terminal` cannot distinguish a person from a program that types."""
    other = host._replace(path=host.path / "under-terminal")
    for folder in (other.path, other.root, other.home):
        folder.mkdir(mode=0o755)
    plan = str(host.path / "plan.json")
    assert other.call(0, "init", plan, "--consent", "terminal").code == 0
    other.give_to(WRITER)
    assert other.call(WRITER, "amend", "approve", "plan", actor="user:pi").code == 6
    line = ("--root", str(other.root), "--actor", "user:pi", "amend", "approve", "plan")
    code, shown = answered_as(WRITER, other.environ, "y\n", *line)
    assert code == 0, shown
    assert other.call(WRITER, "status").data["consent"]["decisions"] != {}
