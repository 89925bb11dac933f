"""A fake cluster in a folder, whose scheduler commands give wrong answers on request."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.support import until

TOOLS = ("squeue", "sbatch", "scancel", "sacct")
LIES = {
    "squeue": ("silent", "broken", "forget", "garbage", "half", "other", "stale", "slow"),
    "sbatch": ("silent", "empty", "taken", "mute", "garbage", "other"),
    "scancel": ("silent", "forget"),
}
#: Fake commands on a compute node that is another machine and whose file system has no locks.
_NODE = {
    "flock": "echo 'flock: Function not implemented' >&2; exit 71",
    "uname": "echo node-7",
    "cat": 'case $1 in /proc/*/boot_id) echo node-7-boot ;; *) exec /bin/cat "$@" ;; esac',
}
#: Fake command that hides the processes of the compute node from wfctl.
_LOOKER = {"readlink": 'case $1 in /proc/*) exit 1 ;; *) exec /bin/readlink "$@" ;; esac'}


@dataclass
class Cluster:
    """The jobs of a fake cluster with their real states; a test starts and ends each job."""

    folder: Path
    has_locks: bool = True
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("bin", "jobs", "lies", "nodes"):
            (self.folder / name).mkdir(parents=True)
        for tool in TOOLS:
            shutil.copy(Path(__file__).with_name("standin.sh"), self.folder / "bin" / tool)
            (self.folder / "bin" / tool).chmod(0o755)
        if not self.has_locks:
            _programs(self.folder / "nodes", _NODE)
            _programs(self.folder / "bin", _LOOKER)

    @property
    def path(self) -> str:
        """PATH with the fake scheduler commands of this cluster in front."""
        return f"{self.folder / 'bin'}:{os.environ['PATH']}"

    def lie(self, tool: str, lies: Iterable[str]) -> None:
        """Make the next calls of a scheduler command give these wrong answers, one each."""
        with (self.folder / "lies" / tool).open("a") as told:
            told.writelines(f"{lie}\n" for lie in lies)

    def tell_the_truth(self) -> None:
        """Remove all wrong answers that no call has given yet."""
        for path in (self.folder / "lies").iterdir():
            path.unlink()

    def jobs(self, *states: str) -> list[str]:
        """Return the ids of the jobs in the given states, oldest first."""
        found = sorted((path for path in (self.folder / "jobs").iterdir()), key=lambda p: p.name)
        return [path.name for path in found if self.state(path.name) in states]

    def state(self, id_: str) -> str:
        """Return the state of a job, or an empty string if the scheduler forgot it."""
        path = self._file(id_, "state")
        return path.read_text().strip() if path.exists() else ""

    def start(self, id_: str, **environ: str) -> None:
        """Start the script of a pending job; if its folder is missing, mark it as failed."""
        folder = self._file(id_, "folder").read_text().strip()
        if not Path(folder).is_dir():
            self._set(id_, "FAILED")
            return
        path = f"{self.folder / 'nodes'}:{self.path}"
        process = subprocess.Popen(
            ["bash", self._file(id_, "script")],
            cwd=folder,
            env={**os.environ, **environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._file(id_, "group").write_text(str(process.pid))
        self.running[id_] = process
        self._set(id_, "RUNNING")

    def settle(self, id_: str) -> None:
        """Wait until the script of a job ends, and set the job's state by the exit code."""
        code = self.running.pop(id_).wait(60)
        if self.state(id_) == "RUNNING":
            self._set(id_, "COMPLETED" if code == 0 else "FAILED")

    def take(self, id_: str, state: str) -> None:
        """Kill a job and set its state, like an administrator or a failing node."""
        self._set(id_, state)
        process = self.running.pop(id_, None)
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            until(lambda: not _has_members(process.pid))

    def time_out(self, id_: str, completing: float, remembered: Callable[[], None]) -> None:
        """Signal a job, wait for its end, and set the states COMPLETING and TIMEOUT.

        This is how a scheduler ends a job at its time limit. The scheduler forgets the job after
        ``remembered`` returns.
        """
        process = self.running.pop(id_)
        self._set(id_, "COMPLETING")
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)
        time.sleep(completing)
        self._set(id_, "TIMEOUT")
        remembered()
        self.forget(id_)

    def forget(self, id_: str) -> None:
        """Remove an ended job from the scheduler."""
        self._file(id_, "state").unlink()

    def end(self) -> None:
        """Kill the processes of all jobs."""
        for id_ in list(self.running):
            self.take(id_, "CANCELLED")

    def _set(self, id_: str, state: str) -> None:
        self._file(id_, "state").write_text(f"{state}\n")

    def _file(self, id_: str, name: str) -> Path:
        return self.folder / "jobs" / id_ / name


def _programs(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
