"""wfctl connects to an SSH host only with a known key. Unknown and changed keys block the stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.support import Sshd, init, traced, verdicts, write_machine
from tests.cluster.test_ssh import ONCE, check_completed, machine
from tests.crash.support import Workflow

pytestmark = [pytest.mark.slow, pytest.mark.long]

#: The public key of another host.
_ANOTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIX3iC0pV0p0rL5eG5f4mJj6ZyY0mF5e0k1m6vC2m3aX"


@pytest.fixture
def known_hosts(workflow: Workflow, sshd: Sshd, tmp_path: Path) -> Path:
    """Create a workflow on an unknown SSH host, and return the known_hosts file."""
    home = Path(workflow.environ["HOME"])
    (home / ".ssh/config").unlink()
    path = write_machine(workflow, machine(sshd, tmp_path / "far"))
    init(workflow, path, traced(workflow, "echo 1 > out.txt"))
    return home / ".ssh/known_hosts"


def line_of(sshd: Sshd) -> str:
    """Return the line of the host for a known_hosts file."""
    type_, key, *_ = (sshd.folder / "host_key.pub").read_text().split()
    return f"[127.0.0.1]:{sshd.port} {type_} {key}"


def check_blocked(workflow: Workflow, cause: str) -> None:
    """Check that `run` is blocked, names the cause in its first line, and starts no job."""
    done = workflow.call("run")
    assert done.returncode == 6
    assert cause in done.stdout.splitlines()[0]
    assert set(verdicts(workflow)) <= {"MACHINE_REFUSED"}
    assert workflow.trace() == []


@pytest.mark.parametrize("known", ["", f"# {_ANOTHER}\n"])
def test_unknown_host_is_used_once_its_key_is_known(
    workflow: Workflow, sshd: Sshd, known_hosts: Path, known: str
) -> None:
    """An unknown host blocks `run`. After its key is added, `run` completes the stage."""
    known_hosts.write_text(known)
    check_blocked(
        workflow, f"the host key of [127.0.0.1]:{sshd.port} is not known: ssh-ed25519 SHA"
    )
    known_hosts.write_text(f"{line_of(sshd)}\n")
    workflow.succeed("run")
    check_completed(workflow, ONCE)


def test_changed_host_key_stops_the_connection(
    workflow: Workflow, sshd: Sshd, known_hosts: Path
) -> None:
    """If another key is known for the hostname, `run` is blocked and starts no job."""
    known_hosts.write_text(f"[127.0.0.1]:{sshd.port} {_ANOTHER}\n")
    check_blocked(workflow, f"the host key of [127.0.0.1]:{sshd.port} has changed")


def test_revoked_host_key_stops_the_connection(
    workflow: Workflow, sshd: Sshd, known_hosts: Path
) -> None:
    """If a later line revokes the known key of the host, `run` starts no job."""
    known_hosts.write_text(f"{line_of(sshd)}\n@revoked {line_of(sshd)}\n")
    check_blocked(workflow, f"the host key of [127.0.0.1]:{sshd.port} has changed")


def test_any_of_several_known_keys_is_accepted(
    workflow: Workflow, sshd: Sshd, known_hosts: Path
) -> None:
    """One matching line among several for the hostname is enough, also with a wildcard."""
    pattern = line_of(sshd).replace("127.0.0.1", "127.0.0.*")
    known_hosts.write_text(f"[127.0.0.1]:{sshd.port} {_ANOTHER}\n{pattern}\n")
    workflow.succeed("run")
    check_completed(workflow, ONCE)


def test_accept_new_stores_the_first_key_of_a_host(
    workflow: Workflow, sshd: Sshd, known_hosts: Path
) -> None:
    """With `StrictHostKeyChecking accept-new`, another key is refused later."""
    (known_hosts.parent / "config").write_text("Host 127.*\n  StrictHostKeyChecking accept-new\n")
    workflow.succeed("run")
    check_completed(workflow, ONCE)
    pinned = Path(workflow.environ["XDG_CONFIG_HOME"]) / "wfctl/known_hosts"
    assert pinned.read_text().splitlines()[-1] == line_of(sshd)
    pinned.write_text(f"[127.0.0.1]:{sshd.port} {_ANOTHER}\n")
    workflow.succeed("rerun", "stage-1", "--reason", "once more")
    done = workflow.call("run")
    assert done.returncode == 6
    assert "has changed" in done.stdout.splitlines()[0]
