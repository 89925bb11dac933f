"""A workflow of six stages, one of them on a machine that is reached by SSH."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.support import stages
from tests.amendments.support import make_keys
from tests.cli.support import agree
from tests.cluster.support import SSH, Sshd, free_port, script
from tests.crash.conftest import workflow as plain_workflow
from tests.crash.support import Workflow
from tests.need import need_programs

plain = plain_workflow


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """Start an sshd on loopback for all tests of a worker."""
    need_programs(*SSH)
    made = Sshd(tmp_path_factory.mktemp("sshd"), free_port())
    made.start()
    yield made
    script("start-sshd.sh", made.folder, made.port, "stop")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """Make the key of the person who may approve."""
    folder = tmp_path / "keys"
    folder.mkdir()
    return make_keys(folder).allowed


@pytest.fixture
def workflow(plain: Workflow, sshd: Sshd, key: Path, tmp_path: Path) -> Workflow:
    """Create the workflow of six stages, with a separate folder for the remote stage."""
    machine = {
        "batch_type": "Shell",
        "context_type": "SSHContext",
        "local_root": ".",
        "remote_root": str(tmp_path / "far"),
        "remote_profile": sshd.profile(),
    }
    (tmp_path / "machine.json").write_text(json.dumps(machine))
    local = {"type": "local", "config": {"batch_type": "Shell", "context_type": "LocalContext"}}
    far = {
        "type": "remote",
        "batch_type": "Shell",
        "config_path": str(tmp_path / "machine.json"),
        "resource_defaults": {"number_node": 1, "cpu_per_node": 1, "group_size": 1},
    }
    plan = {
        "workflow_id": "w-agents",
        "purpose": "Let an agent drive it.",
        "backend_profiles": {"local": local, "far": far},
        "stages": stages(plain.root),
    }
    (plain.root / "plan.json").write_text(json.dumps(plan))
    signers = str(key.parent / "signers")
    plain.succeed("init", "plan.json", "--consent", "signature", "--signers", signers)
    agree(plain.root, key)
    return plain
