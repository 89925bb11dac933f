"""A connection that is cut during an upload counts as no answer, not as a refusal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster.support import PROMPT, Sshd, init, traced, write_machine
from tests.cluster.test_ssh import ONCE, check_completed, machine
from tests.crash.support import PATIENCE, Workflow, ending, until

pytestmark = pytest.mark.slow


@pytest.mark.long
def test_a_connection_cut_during_an_upload_is_made_again(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """After the cut, the upload is repeated, and the job runs once without a failure."""
    path = write_machine(workflow, machine(sshd, tmp_path / "far"))
    counted = 'test "$(wc -c < big.dat)" = 104857600'
    stage = traced(workflow, f"{counted} && echo 1 > out.txt")
    stage["parameters"]["forward_files"] = ["big.dat"]
    init(workflow, path, stage)
    (workflow.root / "stage-1").mkdir()
    (workflow.root / "stage-1/big.dat").write_bytes(os.urandom(100 << 20))
    with ending(workflow.start("run", **PROMPT)) as run:
        until(lambda: any((tmp_path / "far").rglob("*.tgz")) or run.poll() is not None)
        assert sshd.drop()
        assert run.wait(PATIENCE) == 0, workflow.said()
    check_completed(workflow, ONCE)
    # Either DPDispatcher sends the file again, or the next monitor does, so the message may be in
    # either of two places.
    written = [
        workflow.root / "progress.log",
        *workflow.root.glob("stage-1/.attempts/*/dpdisp.log"),
    ]
    words = ("the connection to the machine was closed", "SSH session not active")
    assert any(word in file.read_text() for word in words for file in written)
