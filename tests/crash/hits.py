"""Kill a target of the kill matrix, and name the processes that were killed."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.cluster.support import Sshd
from tests.crash.cells import Target
from tests.crash.support import Workflow
from tests.crash.victims import is_job, kill, processes, suspend

_SESSION = "dpdisp_stage-1_w-crash"
#: For each victim that can be recognized by its command line: a characteristic part of that line.
_LINES = {
    Target.ORCHESTRATOR: "-m cli.main run",
    Target.TMUX_SERVER: " tmux ",
    Target.COMMAND: "work.sh",
}


def hit(workflow: Workflow, target: Target, sshd: Sshd | None) -> list[str]:
    """Kill a victim, and return the names of the killed programs.

    Fail if no program was killed.
    """
    if sshd is not None and target in (Target.CONNECTION, Target.SSHD):
        dropped = sshd.drop()
        assert dropped or target is Target.SSHD, "there was no connection"
        if target is Target.SSHD:
            sshd.stop()
        return ["sshd"]
    everyone = processes(workflow)
    found = _find(workflow, everyone, target)
    assert found, f"no {target} among {everyone}"
    # A process of a remote job has no other sign of this test run than its process id, so its
    # command line is read before the kill.
    lines = {pid: _line(pid) for pid in found}
    if target is Target.TMUX_SESSION:
        _kill_session(workflow)
    elif target in (Target.EVERYTHING, Target.EVERYTHING_NEAR):
        found = _kill_everything(workflow)
    else:
        kill(found)
    names = {_name(lines.get(pid) or everyone.get(pid, "")) for pid in found}
    # A short-lived child of a program is not listed as a separate victim.
    return sorted(names - {"", "sleep"})


def _find(workflow: Workflow, everyone: dict[int, str], target: Target) -> list[int]:
    if target in _LINES:
        return [pid for pid, line in everyone.items() if _LINES[target] in f" {line}"]
    match target:
        case Target.WRAPPER:
            return [_wrapper(workflow)]
        case Target.MONITOR:
            below = _below(_wrapper(workflow))
            return [pid for pid in below if pid in everyone and not is_job(pid)]
        case Target.TMUX_SESSION:
            return [_wrapper(workflow), *_below(_wrapper(workflow))]
        case Target.JOB_SHELL:
            return [_shell(workflow)]
        case _:
            return list(everyone)


def _wrapper(workflow: Workflow) -> int:
    record = workflow.attempts("stage-1")[-1] / "monitor.json"
    return int(json.loads(record.read_text())["pid"])


def _shell(workflow: Workflow) -> int:
    """Return the process id of the job's shell from its start record."""
    found = workflow.root.parent.rglob("job-*.started/record")
    # A second copy of the start record exists below .wfctl. Only the other copy is used.
    [record] = (path for path in found if ".wfctl" not in path.parts)
    return int(record.read_text().split("\n")[-5])


def _below(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    own = [int(word) for word in path.read_text().split()] if path.exists() else []
    return [*own, *(one for child in own for one in _below(child))]


def _line(pid: int) -> str:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def _kill_session(workflow: Workflow) -> None:
    # The start of the session name is enough, because the tmux server belongs to this test.
    command = ["tmux", "kill-session", "-t", _SESSION]
    subprocess.run(command, env=workflow.environ, check=True, capture_output=True)


def _kill_everything(workflow: Workflow) -> list[int]:
    """Stop all processes repeatedly before the kill, so that no new child process is missed."""
    stopped: set[int] = set()
    while found := set(processes(workflow)) - stopped:
        suspend(found)
        stopped |= found
    kill(stopped)
    return list(stopped)


def _name(line: str) -> str:
    """Return a readable name for a command line."""
    known = {
        "tmux ": "tmux",
        "-m cli.main": "wfctl",
        "reconciler.dpdispatcher.watch": "watch",
        "/dpdisp ": "dpdisp",
        "dpdisp-run.sh": "wrapper",
        "work.sh": "command",
        ".sub": "job shell",
        "slurm_script": "job shell",
        "/bin/mv ": "mv",
    }
    return next((name for part, name in known.items() if part in line), _program(line.split()))


def _program(words: Iterable[str]) -> str:
    return Path(next(iter(words), "")).name
