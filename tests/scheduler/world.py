"""One stage on a fake cluster with wrong answers, reconciled by the real reconciler."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

from cli.frame.workspace import create_log
from eventstore.event import Actor
from lifecycle.plan.document import build_creation_payload as command_of
from lifecycle.state.status import Status
from reconciler.context import JobContext
from reconciler.control import judge_attempts
from reconciler.control.dispatch import dispatch_stage
from reconciler.control.reconcile import reconcile_stages
from reconciler.dpdispatcher import watch
from reconciler.evidence.evidence import Evidence
from reconciler.host import processes
from reconciler.verdict.table import derive_verdict
from service.reading.log import WorkflowLog
from service.root.atomic_files import new_id, system_clock, utc_text
from service.root.root import read_identity
from service.writing.initialise import initialise, root_at
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Service
from tests.cli.support import agree
from tests.crash.support import until
from tests.scheduler.cluster import Cluster
from tests.scheduler.monitor import Monitor, Submitter

_ACTOR = Actor("user", "test")
_MACHINE = {"batch_type": "Slurm", "context_type": "LocalContext", "remote_root": "."}
_RESOURCES = {"number_node": 1, "cpu_per_node": 1, "group_size": 1}
_PROFILE = {
    "type": "remote",
    "config": _MACHINE,
    "resource_defaults": _RESOURCES,
    "query_interval": 0,
}
#: The real flock program, because the fake nodes of some clusters hide it.
_FLOCK = shutil.which("flock") or "flock"
_WORK = """
exec 7>>"{here}/computing"
flock -n 7 || echo "beside $WFCTL_ATTEMPT" >> "{here}/trace"
echo "begin $WFCTL_ATTEMPT" >> "{here}/trace"
until [ -e "{here}/fate-$WFCTL_SHORT" ]; do sleep 0.02 7>&-; done
read -r code < "{here}/fate-$WFCTL_SHORT"
[ "$code" -ne 0 ] || echo 1 > out.txt
echo "end $WFCTL_ATTEMPT $code" >> "{here}/trace"
exit "$code"
"""


class World:
    """A workflow of one stage, the fake cluster that runs it, and a trace of its commands."""

    def __init__(self, submitter: Submitter, *, sees_nodes: bool) -> None:
        self.here = Path(tempfile.mkdtemp(prefix="wfctl-lies-"))
        self.root = self.here / "root"
        self.cluster = Cluster(self.here / "cluster", has_locks=sees_nodes)
        self._open = ExitStack()
        self._submitter = submitter
        self._enter(sees_nodes=sees_nodes)
        self._init()
        self.jobs = self._open_jobs()

    def _enter(self, *, sees_nodes: bool) -> None:
        """Put the fake scheduler on PATH, remove pauses, and hide processes on far nodes."""
        self._open.enter_context(patch.dict(os.environ, {"PATH": self.cluster.path}))
        self._open.enter_context(patch.object(watch, "AGAIN", 0.0))
        self._open.enter_context(patch.object(judge_attempts, "AGAIN", 0.0))
        if not sees_nodes:
            self._open.enter_context(patch.object(processes, "list_user_processes", lambda: ()))

    def _init(self) -> None:
        self.root.mkdir()
        work = self.here / "work.sh"
        work.write_text(_WORK.replace("{here}", str(self.here)).replace("flock", _FLOCK))
        stage = {
            "id": "stage-1",
            "name": "the stage-1",
            "outputs": ["stage-1/out.txt"],
            "parameters": {"command": f"WFCTL_SHORT=${{WFCTL_ATTEMPT##*/}} bash {work}"},
        }
        plan = {
            "workflow_id": "w-lies",
            "default_backend": "hpc",
            "backend_profiles": {"hpc": _PROFILE},
            "stages": [stage],
        }
        (self.root / "stage-1").mkdir()
        command = command_of(plan, created=utc_text(system_clock()), root=read_identity(self.root))
        initialise(
            root_at(self.root),
            command,
            connect=create_log,
            actor=_ACTOR,
            clock=system_clock,
            options=WriteOptions(),
        )
        agree(self.root)

    def _open_jobs(self) -> JobContext:
        root = root_at(self.root)
        store = create_log(root)
        self._open.callback(store.close)
        service = Service(root, WorkflowLog(store, "workflow-w-lies"), _ACTOR)
        return JobContext(service, Monitor(self._program(), self._submitter), _mute, _mute)

    def _program(self) -> Path:
        """Create fake programs `dpdisp` and `dargs` that do nothing; return dpdisp's path."""
        folder = self.here / "programs"
        folder.mkdir()
        for name in ("dpdisp", "dargs"):
            (folder / name).write_text("#!/bin/bash\n")
            (folder / name).chmod(0o755)
        return folder / "dpdisp"

    def close(self) -> None:
        """Stop all processes and remove all files."""
        self.cluster.end()
        self._open.close()
        shutil.rmtree(self.here)

    def dispatch(self) -> None:
        """Dispatch the stage, which launches a new attempt."""
        options = WriteOptions(command_id=new_id())
        dispatch_stage(self.jobs, "stage-1", sync=False, options=options)

    def reconcile(self) -> None:
        """Reconcile the stage, which also carries out the actions of the verdicts."""
        reconcile_stages(self.jobs)

    @property
    def status(self) -> Status:
        """The status of the stage in the log."""
        return self.jobs.service.state().stage("stage-1").status

    @property
    def verdict(self) -> str | None:
        """The verdict on the newest attempt of the stage, or None."""
        return self.jobs.service.state().stage("stage-1").attempts[-1].verdict

    @property
    def last_error(self) -> str:
        """The error with which the stage failed, or an empty string."""
        return self.jobs.service.state().stage("stage-1").last_error or ""

    def start(self, id_: str) -> None:
        """Start a job, and wait until its command has started or its script has ended."""
        before = len(self.trace("begin"))
        self.cluster.start(id_)
        process = self.cluster.running.get(id_)
        if process is None:
            return
        until(lambda: len(self.trace("begin")) > before or process.poll() is not None)
        if process.poll() is not None:
            self.cluster.settle(id_)

    def finish(self, id_: str, code: int) -> None:
        """Let the command of a running job end with the given exit code."""
        fate = self.here / f"fate-{self.attempt_of(id_)}"
        # Write another file and rename it, because the command may read the file at any moment.
        new = fate.with_name("fate.new")
        new.write_text(f"{code}\n")
        new.rename(fate)
        self.cluster.settle(id_)
        fate.unlink()

    def attempt_of(self, id_: str) -> str:
        """Return the attempt that a job was submitted for."""
        folder = (self.cluster.folder / "jobs" / id_ / "folder").read_text()
        return folder.partition("/.attempts/")[2].partition("/")[0]

    def trace(self, word: str) -> list[list[str]]:
        """Return the other words of each line in the trace file that starts with ``word``."""
        path = self.here / "trace"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.split()[1:] for line in lines if line.split()[0] == word]

    def check_verdicts(self) -> None:
        """Check that each verdict in the log follows from the evidence in the same event."""
        log = self.jobs.service.log
        for event in log.store.read(log.stream):
            if event.type == "attempt.observed":
                told = event.data
                found = derive_verdict(Evidence.from_dict(told["evidence"])).to_dict()
                assert (found["row"], found["name"]) == (told["row"], told["verdict"])


def _mute(*_: object, **about: object) -> None:
    """Print nothing."""
