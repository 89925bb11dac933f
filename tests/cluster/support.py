"""Helpers for workflows that run on a real scheduler or over a real SSH server.

The module also starts and stops these servers.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.crash.support import Workflow, until

HERE = Path(__file__).parent
#: Folder of the Slurm that all test runs of this user share.
#: Its daemons outlive a test run, because no run knows whether another one follows.
PLACE = Path(f"/var/tmp/wfctl-cluster-{os.geteuid()}")
#: Port of slurmctld, which differs between users. slurmd listens on the next port.
SLURM_PORT = 16817 + 2 * (os.geteuid() % 5000)
SLURM = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scancel", "srun")
SSH = ("sshd", "ssh", "ssh-keygen")


def script(name: str, *arguments: object, **environ: str) -> None:
    """Run a script of the folder tests/cluster, and check that it succeeds."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    done = subprocess.run(
        ["bash", HERE / name, *map(str, arguments)],
        env={**os.environ, "PATH": path, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (name, done.stdout, done.stderr)


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """Hold a lock in the folder, so that only one test worker starts a server at a time."""
    with place.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True)
class Slurm:
    """A running Slurm of one node, accessed with a client configuration."""

    conf: Path

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment that the Slurm clients need."""
        return {"SLURM_CONF": str(self.conf)}

    def ask(self, *command: str) -> str:
        """Run a Slurm client, check that it succeeds, and return its output."""
        environ = {**os.environ, **self.environ}
        return subprocess.run(
            command, env=environ, capture_output=True, text=True, check=True
        ).stdout

    def jobs(self, root: Path) -> list[str]:
        """Return the ids of the active jobs that run below a folder."""
        listed = self.ask("squeue", "-h", "-o", "%i|%Z").splitlines()
        pairs = [line.split("|", 1) for line in listed]
        return [id_ for id_, folder in pairs if Path(folder).is_relative_to(root.resolve())]

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Make the controller unreachable for this test's clients."""
        text = self.conf.read_text()
        # No program listens on port 1.
        self.conf.write_text(re.sub("SlurmctldPort=[0-9]+", "SlurmctldPort=1", text))
        try:
            yield
        finally:
            self.conf.write_text(text)


@dataclass(frozen=True)
class Sshd:
    """A separate SSH server for one test, reachable only from this computer."""

    folder: Path
    port: int

    def start(self, **environ: str) -> None:
        """Start the sshd unless it runs."""
        script("start-sshd.sh", self.folder, self.port, **environ)

    def stop(self) -> None:
        """Kill the SSH server and all its connections."""
        pid = int((self.folder / "sshd.pid").read_text())
        _kill(pid, *_below(pid))
        until(lambda: not Path(f"/proc/{pid}").exists())

    def drop(self) -> list[int]:
        """Kill all SSH connections but not the server, and return the killed process ids."""
        found = _below(int((self.folder / "sshd.pid").read_text()))
        _kill(*found)
        return found

    def profile(self) -> dict[str, Any]:
        """Return the connection settings in the format of DPDispatcher."""
        return {
            "hostname": "127.0.0.1",
            "username": getpass.getuser(),
            "port": self.port,
            "key_filename": str(self.folder / "id_ed25519"),
        }


def _below(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    own = [int(word) for word in path.read_text().split()] if path.exists() else []
    # Only the processes of sshd belong to the connection. Other children belong to the job, which
    # outlives the connection.
    return [child for child in own if "sshd" in _name(child)]


def _name(pid: int) -> str:
    # A connection may end at any time, so its process or its entry in /proc may not exist.
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/comm").read_text()
    return ""


def _kill(*pids: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def free_port() -> int:
    """Return a port on which no program listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def write_machine(workflow: Workflow, machine: Mapping[str, Any]) -> str:
    """Write a machine file outside the root, and return its path."""
    path = workflow.root.parent / "machine.json"
    path.write_text(json.dumps({"local_root": ".", **machine}))
    return str(path)


def init(
    workflow: Workflow,
    machine: str,
    *stages: Mapping[str, Any],
    rounds: Mapping[str, Any] | None = None,
    query_interval: int = 0,
    **resources: Any,
) -> None:
    """Create a workflow whose stages run on the machine of a machine file.

    By default, wfctl asks the scheduler at each check, so that no test waits for an old answer.
    """
    profile = {
        "type": "remote",
        "batch_type": "Slurm",
        "config_path": machine,
        "query_interval": query_interval,
        "resource_defaults": {"number_node": 1, "cpu_per_node": 1, "group_size": 1, **resources},
    }
    budget = {"session_config": {"session_budget": 1000}}
    plan = {
        "workflow_id": "w-far",
        "purpose": "far",
        "default_backend": "far",
        "backend_profiles": {"far": profile},
        "stages": stages,
        **({} if rounds is None else {"rounds": rounds, **budget}),
    }
    (workflow.root / "plan.json").write_text(json.dumps(plan))
    workflow.succeed("init", "plan.json", "--consent", "trust")


def traced(workflow: Workflow, command: str, id_: str = "stage-1") -> dict[str, Any]:
    """Return a stage whose command first writes a line with its attempt to the trace file."""
    trace = workflow.root / "trace"
    return {
        "id": id_,
        "name": f"the {id_}",
        "outputs": [f"{id_}/out.txt"],
        "parameters": {"command": f'echo "$WFCTL_ATTEMPT" >> "{trace}"; {command}'},
    }


def waiting(workflow: Workflow) -> str:
    """Return a command that runs until `let_go` releases it."""
    return f'while [ ! -e "{workflow.root}/go" ]; do sleep 0.1; done; echo 1 > out.txt'


def let_go(workflow: Workflow) -> None:
    """Release the commands that `waiting` returned, so that they end."""
    (workflow.root / "go").touch()


def watched(workflow: Workflow) -> bool:
    """Return whether DPDispatcher has submitted the job and the monitor watches it."""
    logs = workflow.root.glob("stage-1/.attempts/att-0001-*/dpdisp.log")
    return any("it waits or runs" in log.read_text() for log in logs)


def verdicts(workflow: Workflow) -> list[str]:
    """Return the names of the recorded verdicts, in order."""
    return [event["data"]["verdict"] for event in workflow.events("attempt.observed")]


#: Makes a monitor give up immediately if a machine does not answer.
PROMPT = {"WFCTL_PATIENCE": "1"}
