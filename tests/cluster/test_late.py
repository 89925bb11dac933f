"""A DPDispatcher process that submits its job only after its monitor was replaced."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.support import Sshd, init, let_go, traced, waiting, write_machine
from tests.crash.support import PATIENCE, Workflow, ending, until
from tests.crash.victims import Victim, strike
from tests.rounds import first

pytestmark = pytest.mark.slow

#: A dpdisp program whose first call hides from its monitor, waits until a file appears, and then
#: submits.
LATE = """#!{python}
import os, signal, sys, time
here = os.path.dirname(__file__)
if not os.path.exists(here + "/begun"):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.close(8)
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    with open(here + "/part", "w") as part:
        part.write(str(os.getpid()))
    os.rename(here + "/part", here + "/begun")
    while not os.path.exists(here + "/come"):
        time.sleep(0.05)
os.execv({dpdisp!r}, [{dpdisp!r}, *sys.argv[1:]])
"""


def late(folder: Path) -> Path:
    """Create a dpdisp that waits during its first call, and return its path."""
    beside = Path(sys.executable).parent
    folder.mkdir()
    program = folder / "late"
    program.write_text(LATE.format(python=sys.executable, dpdisp=str(beside / "dpdisp")))
    program.chmod(0o755)
    (folder / "dargs").symlink_to(beside / "dargs")
    return program


@pytest.mark.parametrize(
    ("batch_type", "context_type"),
    first([("Shell", "SSHContext"), ("Slurm", "LocalContext")]),
)
@pytest.mark.usefixtures("slurm")
@pytest.mark.long
def test_late_submission_runs_nothing_twice(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, batch_type: str, context_type: str
) -> None:
    """A second monitor runs the job first, and the late submission starts no second job."""
    there: dict[str, Any] = {"remote_root": "."}
    if context_type == "SSHContext":
        there = {"remote_root": str(tmp_path / "far"), "remote_profile": sshd.profile()}
    machine = {"batch_type": batch_type, "context_type": context_type, **there}
    init(workflow, write_machine(workflow, machine), traced(workflow, waiting(workflow)))
    program = late(tmp_path / "late")
    own = {"WFCTL_DPDISP": str(program)}
    with ending(workflow.start("dispatch", "stage-1", **own)) as dispatch:
        until((program.parent / "begun").exists)
        strike(workflow, Victim.MONITOR)
        dispatch.wait(PATIENCE)
    workflow.succeed("rehydrate", **own)
    until(workflow.trace)
    (program.parent / "come").touch()
    submitter = Path("/proc", (program.parent / "begun").read_text())
    until(lambda: not submitter.exists())
    let_go(workflow)
    workflow.succeed("run", **own)
    assert workflow.stage("stage-1")["status"] == "completed"
    assert workflow.trace() == ["w-far/stage-1/att-0001"]
    assert (workflow.root / "stage-1/out.txt").read_text() == "1\n"
