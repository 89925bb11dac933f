"""An external agent: a program that is given one task of one stage, and its prompt.

The log is believed, not the agent: what it says is kept, what it did is read from the events.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lifecycle import payload as p
from reconciler import processes
from reconciler.errors import AgentMissing
from reconciler.jobs import Jobs
from reconciler.processes import Process

#: Seconds between two looks at an agent, and those it has to end once it is asked to.
_GLANCE = 0.1
_GRACE = 5.0
#: Where an agent's prompts and words are kept, and which one works, below ``.wfctl/``.
FOLDER = "agents"
RECORD = "agent.json"


@dataclass(frozen=True, slots=True)
class Agent:
    """A command that takes a prompt on stdin; ``time_limit`` in seconds for each task.

    By its ``name`` its events are told.
    """

    words: tuple[str, ...]
    time_limit: float
    name: str


@dataclass(frozen=True, slots=True)
class Task:
    """What an agent is to do: a stage, the kind of work, and the prompt."""

    stage: str
    kind: str
    prompt: str


@dataclass(frozen=True, slots=True)
class Left:
    """How an agent ended: its exit code, negative for a signal; what it said is in ``output``.

    ``stopped``: it was ended from here, as it took too long or somebody asked.
    """

    exit_code: int
    seconds: float
    stopped: bool
    output: str

    @property
    def was_lost(self) -> bool:
        """Whether somebody else's signal ended it: no fault of its own."""
        return self.exit_code < 0 and not self.stopped

    def __str__(self) -> str:
        how = f"exited {self.exit_code}" if self.exit_code >= 0 else f"signal {-self.exit_code}"
        return f"{'was stopped' if self.stopped else how} after {self.seconds:.0f} s"


def agent_of(command: str, time_limit: float, folder: Path, name: str | None = None) -> Agent:
    """Return the agent that a command line names; a path in it is taken from ``folder``.

    Without a ``name`` it is called as its program is. Raises `AgentMissing` where there is no such
    program, before anything is started.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise AgentMissing(command) from error
    found = shutil.which(folder / words[0] if words and "/" in words[0] else "".join(words[:1]))
    if found is None:
        raise AgentMissing(command)
    return Agent((str(found), *words[1:]), time_limit, name or Path(words[0]).name)


def hand_over(jobs: Jobs, agent: Agent, task: Task, is_over: Callable[[], bool]) -> Left:
    """Give a task to the agent and wait until it has ended.

    It is stopped where its time is up or ``is_over`` says so.
    """
    folder = _fresh(jobs.service.root.folder / FOLDER / task.stage)
    prompt = folder / "prompt.md"
    prompt.write_text(task.prompt, "utf-8")
    shown = prompt.relative_to(jobs.root)
    _note(jobs, task.stage, f"handed to agent {agent.name} to {task.kind} (prompt: {shown})")
    left = _attended(jobs, agent, task, prompt, is_over)
    _note(jobs, task.stage, f"agent {agent.name} {left} (output: {left.output})")
    return left


def _note(jobs: Jobs, stage: str, text: str) -> None:
    jobs.record(p.NoteLogged(stage=stage, text=text))


def _fresh(parent: Path) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    folder = parent / f"{len(list(parent.iterdir())) + 1:04d}"
    folder.mkdir()
    return folder


def _attended(
    jobs: Jobs, agent: Agent, task: Task, prompt: Path, is_over: Callable[[], bool]
) -> Left:
    output = prompt.with_name("output.log")
    began = time.monotonic()
    with prompt.open("rb") as given, output.open("wb") as said:
        process = subprocess.Popen(
            agent.words,
            cwd=jobs.root,
            env=_environment(jobs, agent, task, prompt),
            stdin=given,
            stdout=said,
            stderr=subprocess.STDOUT,
            # A group of its own, to be stopped as a whole; jobs that it dispatched are in others.
            start_new_session=True,
        )
    _record(jobs, process.pid)
    stopped = False
    while process.poll() is None:
        if is_over() or time.monotonic() - began > agent.time_limit:
            stopped = True
            _stop(process)
        time.sleep(_GLANCE)
    if process.returncode < 0:
        # What a killed agent had begun must not go on beside the next one.
        _signal_group(process.pid, signal.SIGKILL)
    (jobs.service.root.folder / RECORD).unlink(missing_ok=True)
    seconds = time.monotonic() - began
    return Left(process.returncode, seconds, stopped, str(output.relative_to(jobs.root)))


def _environment(jobs: Jobs, agent: Agent, task: Task, prompt: Path) -> dict[str, str]:
    own = {
        "WFCTL_ACTOR": f"agent:{agent.name}",
        "WFCTL_STAGE": task.stage,
        "WFCTL_TASK": task.kind,
        "WFCTL_PROMPT": str(prompt),
    }
    if jobs.service.root.url is not None:
        own["WFCTL_DATABASE_URL"] = jobs.service.root.url
    inherited = {k: v for k, v in os.environ.items() if k != "WFCTL_RUNNER"}
    path = inherited.get("PATH", os.defpath)
    if shutil.which("wfctl", path=path) is None:
        # An installation of its own need not be on anybody's path.
        own["PATH"] = f"{path}{os.pathsep}{Path(sys.executable).parent}"
    return {**inherited, **own}


def _record(jobs: Jobs, pid: int) -> None:
    """Write down which process the agent is, so that it can be told if this loop dies."""
    found = processes.identify(pid)
    if found is not None:
        (jobs.service.root.folder / RECORD).write_text(json.dumps(found.to_dict()))


def end_orphan(jobs: Jobs) -> None:
    """Stop the agent of a loop that died: its stage is handed out anew.

    Only the very process that was recorded, and what it started, is stopped.
    """
    record = jobs.service.root.folder / RECORD
    try:
        orphan = Process(**json.loads(record.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        # Nobody worked, or the record was cut off by the crash: there is nobody to be told.
        return
    if orphan.is_alive():
        jobs.say(f"ending agent process {orphan.pid}, which an earlier loop left behind")
        _signal_group(orphan.pid, signal.SIGKILL)
        while orphan.is_alive():
            time.sleep(_GLANCE)
    record.unlink()


def _stop(process: subprocess.Popen[bytes]) -> None:
    _signal_group(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    # What it started may not have listened, whether it has ended itself or not.
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def _signal_group(pid: int, what: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, what)
