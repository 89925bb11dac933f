"""Jobs run with the machine files that `init --example-machine` writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.cli.support import call
from tests.cluster.support import Sshd, init, traced
from tests.cluster.test_ssh import ONCE, check_completed
from tests.crash.support import Workflow

KINDS = ("slurm", "slurm-ssh", "pbs")


def test_example_machine_is_complete_and_replaces_no_file(tmp_path: Path) -> None:
    """`init --example-machine` writes YAML with comments and refuses an existing file."""
    for kind in KINDS:
        path = tmp_path / f"{kind}.yaml"
        assert call("init", "--example-machine", kind, str(path)).code == 0
        text = path.read_text()
        found = yaml.safe_load(text)
        assert found["batch_type"].lower() == kind.removesuffix("-ssh")
        assert ("remote_profile" in found) == kind.endswith("-ssh")
        assert "group_size" in text
        assert call("init", "--example-machine", kind, str(path)).code == 4
        assert path.read_text() == text
        assert call("init", "--example-machine", kind, "-").out == text


def test_example_machine_needs_a_yaml_file_name(tmp_path: Path) -> None:
    """A `.json` name is refused, because the example has comments, which JSON lacks."""
    path = tmp_path / "machine.json"
    assert call("init", "--example-machine", "slurm", str(path)).code == 2
    assert call("init", "--example", "--example-machine", "slurm", "-").code == 2
    assert not path.exists()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["slurm", "slurm-ssh"])
def test_stage_runs_on_the_example_machine(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, kind: str
) -> None:
    """A stage runs with the example. Over SSH, only the connection data are changed."""
    workflow.succeed("init", "--example-machine", kind)
    path = workflow.root / "machine.yaml"
    own = {**sshd.profile(), "remote_root": str(tmp_path / "far")}
    text = path.read_text()
    for name, value in own.items() if kind == "slurm-ssh" else ():
        text = re.sub(rf"(?m)^( *){name}: \S+", rf"\g<1>{name}: {value}", text)
    path.write_text(text)
    init(workflow, "machine.yaml", traced(workflow, "echo 1 > out.txt"))
    workflow.succeed("run")
    check_completed(workflow, ONCE)
