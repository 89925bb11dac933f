"""``wfctl consent setup`` creates a key and a signers file, and sets the policy."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.amendments.support import LONGER, Keys, Place, make
from tests.cli.support import HERE, call

pytestmark = pytest.mark.slow

APPROVE = "Approve? [y/n: not now] "


def typed(answers: Sequence[tuple[str, str]], *line: str) -> tuple[int, str]:
    """Run a command at a terminal; type each answer when its question appears."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ["PYTHONPATH"] = str(HERE)
        os.execv(sys.executable, [sys.executable, "-m", "cli.main", *line])
    shown, left, deadline = "", list(answers), time.monotonic() + 60
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            shown += os.read(terminal, 4096).decode(errors="replace")
        except OSError:  # the command has ended
            break
        if left and left[0][0] in shown.rpartition("\n")[2]:
            os.write(terminal, left.pop(0)[1].encode())
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown.replace("\r\n", "\n")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Create a workflow under the default policy."""
    return make(tmp_path / "root")


def test_setup_creates_a_key_and_sets_the_policy(place: Place, tmp_path: Path) -> None:
    """The key has a passphrase, and later approvals need its signature."""
    answers = [("passphrase", "correct horse\n"), ("again", "correct horse\n"), (APPROVE, "y\n")]
    code, shown = typed(
        answers, "--root", str(place.path), "consent", "setup", "--name", "pi@example.org"
    )
    assert code == 0, shown
    kept = tmp_path / "configuration/wfctl"
    key = kept / "signing-key"
    assert (kept / "signers").read_text().startswith("pi@example.org ssh-ed25519 ")
    assert key.stat().st_mode & 0o077 == 0
    opened = subprocess.run(
        ["ssh-keygen", "-y", "-P", "", "-f", key], capture_output=True, check=False
    )
    assert opened.returncode != 0
    assert "ssh-add -c" in shown
    assert place.document()["session_config"] is not None
    place.propose(*LONGER)
    assert place.call("amend", "approve", "amend-2").code == 6
    signing = ("--root", str(place.path), "amend", "approve", "amend-2", "--key", str(key))
    code, shown = typed([("passphrase", "correct horse\n")], *signing)
    assert code == 0, shown
    assert place.document()["amendments"][1]["approved_by"] == "pi@example.org"


def test_setup_uses_an_existing_key(place: Place, keys: Keys, tmp_path: Path) -> None:
    """A key without a passphrase causes a warning, and a second call asks nothing."""
    line = ("--root", str(place.path), "consent", "setup", "--key", str(keys.allowed))
    code, shown = typed([(APPROVE, "y\n")], *line)
    assert code == 0, shown
    assert f"ssh-keygen -p -f {keys.allowed}" in shown
    code, shown = typed([], *line)
    assert (code, APPROVE in shown) == (0, False), shown
    signers = (tmp_path / "configuration/wfctl/signers").read_text()
    assert len(signers.splitlines()) == 1


def test_declined_setup_keeps_the_policy(place: Place, keys: Keys) -> None:
    """After the answer `n`, the setup exits with code 6 and the policy does not change."""
    line = ("--root", str(place.path), "consent", "setup", "--key", str(keys.allowed))
    code, shown = typed([(APPROVE, "n\n")], *line)
    assert code == 6
    assert "the consent policy is still terminal" in shown


def test_agent_cannot_run_setup(place: Place, tmp_path: Path) -> None:
    """An agent is refused before any file is written, because it could create its own key."""
    for words in ((), ("--actor", "agent:x"), ("--dry-run",)):
        assert place.call("consent", "setup", *words).code == 6
    assert not (tmp_path / "configuration/wfctl/signers").exists()


def test_setup_without_a_workflow_prepares_the_key(tmp_path: Path, keys: Keys) -> None:
    """The output has the options for `init`, and a dry run writes nothing."""
    folder = tmp_path / "empty"
    folder.mkdir()
    line = ("--root", str(folder), "consent", "setup", "--key", str(keys.allowed))
    kept = tmp_path / "configuration/wfctl/signers"
    assert typed([], *line, "--dry-run")[0] == 0
    assert not kept.exists()
    code, shown = typed([], *line)
    assert code == 0, shown
    assert f"--consent signature --signers {kept}" in " ".join(shown.split())


@pytest.mark.parametrize("name", ["a b", "a,b", "*", ""])
def test_name_that_matches_several_signers_is_refused(
    tmp_path: Path, keys: Keys, name: str
) -> None:
    """`consent setup` refuses spaces, commas and wildcards in the signer's name."""
    line = ("--root", str(tmp_path), "--actor", "user:pi", "consent", "setup", "--name", name)
    assert call(*line, "--key", str(keys.allowed)).code == (2 if name else 0)
