"""Run one cell of the kill matrix: a stage whose attempt is held at one moment."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.host.file_locks import is_lock_held
from tests.cluster.support import Slurm, Sshd
from tests.crash.cells import Backend, Cell, Target, When
from tests.crash.outcome import version
from tests.crash.pauses import Pauses
from tests.crash.support import Workflow, until
from tests.crash.victims import processes

#: From a moment to the pause point of the program that holds it open. For a moment without a pause
#: point, the job itself waits.
_POINTS = {
    When.BEFORE_UPLOAD: "upload",
    When.SUBMITTED: "record",
    When.ENDED: "download",
    When.COLLECTED: "cleaned",
    When.CODED: "done",
}
_AFTER_THE_COMMAND = (When.ENDED, When.CODED)

_WORK = """\
exec 7>>"$0.lock"
flock -n 7 || echo "beside $WFCTL_ATTEMPT" >> "{trace}"
echo "begin $WFCTL_ATTEMPT" >> "{trace}"
while [ ! -e "{root}/go" ]; do sleep 0.05 7>&-; done
echo 1 > out.txt
echo "end $WFCTL_ATTEMPT" >> "{trace}"
"""


@dataclass(frozen=True)
class Held:
    """A workflow of one stage whose attempt stays at one moment until it is released."""

    workflow: Workflow
    cell: Cell
    pauses: Pauses
    slurm: Slurm | None
    sshd: Sshd | None = None

    def prepare(self) -> None:
        """Write the plan and the program of the job, and arm the pause point of the moment."""
        root = self.workflow.root
        work = root / "work.sh"
        work.write_text(_WORK.format(root=root, trace=root / "trace"))
        (root / "plan.json").write_text(json.dumps(self._plan(f"bash {shlex.quote(str(work))}")))
        self.workflow.succeed("init", "plan.json", "--consent", "trust")
        if self.point is not None:
            self.pauses.arm(self.point)
        if self.cell.when in _AFTER_THE_COMMAND:
            self.let_compute()

    @property
    def point(self) -> str | None:
        """Return the pause point of a program, or None if the job itself waits."""
        if self.cell.target is Target.CONNECTION and self.cell.when is not When.ENDED:
            # The process that watches the job connects only for a moment. DPDispatcher stays
            # connected while it works, so the connection can be cut at its pause point.
            return "recorded"
        return None if self._is_held_by_shell else _POINTS.get(self.cell.when)

    @property
    def _is_held_by_shell(self) -> bool:
        """Return whether the job's own shell stays alive after its command, so that it can be
        killed.
        """
        return self.cell.when is When.ENDED and self.cell.target is Target.JOB_SHELL

    def wait(self) -> None:
        """Wait until the moment has come."""
        if self.cell.when is When.COLLECTED:
            # The test waits for the submission, because DPDispatcher does not remove the files of a
            # job that has already ended at its first check.
            until(self._has_submitted)
            self.let_compute()
        if self.point is not None:
            self.pauses.wait(self.point)
        if self.cell.when is When.SUBMITTED:
            until(self.workflow.trace)
        elif self.cell.when is When.PENDING:
            until(self._waits_in_the_queue)
        elif self.cell.when is When.RUNNING:
            until(lambda: self.workflow.trace() and self._is_watched())
        elif self._is_held_by_shell:
            until(lambda: any(self._place.rglob("*_job_tag_finished")))

    @property
    def _place(self) -> Path:
        """Return the folder in which the job runs."""
        far, near = self.workflow.root.parent / "far", self.workflow.root / "stage-1"
        return far if self.cell.backend.is_far else near

    def _is_watched(self) -> bool:
        """Return whether the launch is recorded and the monitor only waits for the job."""
        if self.point is not None:
            return True
        if not self.workflow.committed("stage.launched"):
            return False
        log = (self.workflow.attempts("stage-1")[-1] / "dpdisp.log").read_text()
        if self.cell.backend is not Backend.SHELL:
            return "it waits or runs" in log
        waits = any("flock -s" in line for line in processes(self.workflow).values())
        return waits and "submission succeeded" in log

    def _has_submitted(self) -> bool:
        logs = (folder / "dpdisp.log" for folder in self.workflow.attempts("stage-1"))
        return any("submission succeeded" in log.read_text() for log in logs if log.exists())

    def _waits_in_the_queue(self) -> bool:
        assert self.slurm is not None
        return bool(self.slurm.jobs(self._place)) and self._is_watched()

    def let_compute(self) -> None:
        """Let the command end."""
        (self.workflow.root / "go").touch()

    def let_go(self) -> None:
        """Release the stopped programs, and start a job that waits in the queue."""
        self.pauses.release()
        (self.workflow.root / "leave").touch()
        if self.slurm is not None and self.cell.when is When.PENDING:
            self.slurm.ask("scontrol", "release", *self.slurm.jobs(self._place))

    def until_nobody_watches(self) -> None:
        """Wait until no monitor of the stage is alive."""
        until(lambda: not is_lock_held(self.workflow.root / "stage-1/.monitor.lock"))

    def _plan(self, command: str) -> dict[str, Any]:
        parameters = {"command": command, "resource_overrides": self._resources()}
        stage = {
            "id": "stage-1",
            "name": "the stage-1",
            "outputs": ["stage-1/out.txt"],
            "parameters": parameters,
        }
        return {"workflow_id": "w-crash", "stages": [stage], **self._backend()}

    def _resources(self) -> dict[str, Any]:
        if self._is_held_by_shell:
            leave = shlex.quote(str(self.workflow.root / "leave"))
            return {"append_script": [f"while [ ! -e {leave} ]; do sleep 0.05; done"]}
        held = self.cell.when is When.PENDING
        return {"custom_flags": ["#SBATCH --hold"]} if held else {}

    def _backend(self) -> dict[str, Any]:
        if self.cell.backend is Backend.SHELL:
            return {}
        machine: dict[str, Any] = {
            "batch_type": "Slurm" if self.cell.backend.has_queue else "Shell",
            "context_type": "LocalContext",
            "local_root": ".",
            "remote_root": ".",
        }
        if self.sshd is not None:
            machine["context_type"] = "SSHContext"
            machine["remote_root"] = str(self._place)
            machine["remote_profile"] = self.sshd.profile()
        path = self.workflow.root.parent / "machine.json"
        path.write_text(json.dumps(machine))
        profile = {
            "type": "remote",
            "batch_type": machine["batch_type"],
            "config_path": str(path),
            "resource_defaults": {"number_node": 1, "cpu_per_node": 1, "group_size": 1},
        }
        return {"default_backend": "far", "backend_profiles": {"far": profile}}

    def bring_back(self) -> None:
        """Restart the SSH server, as an administrator would."""
        if self.sshd is not None and self.cell.target is Target.SSHD:
            assert self.slurm is not None
            self.sshd.start(**self.slurm.environ)


def settled(held: Held) -> int:
    """Call `rehydrate` until no attempt is active and no event is added; return the call count."""
    workflow, calls = held.workflow, 0
    while calls < 10:
        before = version(workflow)
        workflow.succeed("rehydrate")
        calls += 1
        in_flight = workflow.stage("stage-1")["status"] in ("preparing", "running")
        if not in_flight and version(workflow) == before:
            return calls
        held.until_nobody_watches()
    raise AssertionError(f"never quiet: {workflow.stage('stage-1')}")
