"""Run an external agent: a program that gets a prompt for one task of one stage.

wfctl trusts only the log. It keeps the agent's output, but reads the results from the events.
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
from dataclasses import asdict, dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import TypeVar

import orjson

from eventstore.private_files import read_regular
from lifecycle.payload import models as p
from reconciler.context import Jobs
from reconciler.errors import AgentMissing, AgentNotStarted
from reconciler.host import processes
from reconciler.host.processes import Process

T = TypeVar("T")
#: Seconds between two checks of a process, and for an agent to end after a request.
_POLL_INTERVAL = 0.1
_TERMINATE_TIMEOUT = 5.0
#: Folder below ``.wfctl/`` with the prompts and outputs of agents and the record of the active one.
FOLDER = "agents"
RECORD = "agent.json"
#: Folder name for agent tasks that belong to no stage. No stage can have this name.
_NO_STAGE = "init.sh"
#: Environment variable that names the prompt for an agent and its child processes.
_PROMPT = "WFCTL_PROMPT"


@dataclass(frozen=True, slots=True)
class Agent:
    """A command that takes a prompt on stdin. ``time_limit`` is in seconds for each task.

    The ``name`` identifies the agent in events.
    """

    words: tuple[str, ...]
    time_limit: float
    name: str


@dataclass(frozen=True, slots=True)
class AgentTask:
    """A task for an agent: the kind of work, the prompt and the stage, or None for no stage."""

    stage: str | None
    kind: str
    prompt: str


@dataclass(frozen=True, slots=True)
class AgentEnd:
    """The end of an agent. ``exit_code`` is negative for a signal.

    ``stopped`` means that wfctl ended the agent, after its time limit or on request.
    """

    exit_code: int
    seconds: float
    stopped: bool
    output: str

    @property
    def was_lost(self) -> bool:
        """Return whether a signal from elsewhere ended the agent, which is not its fault."""
        return self.exit_code < 0 and not self.stopped

    def __str__(self) -> str:
        how = f"exited {self.exit_code}" if self.exit_code >= 0 else f"signal {-self.exit_code}"
        return f"{'was stopped' if self.stopped else how} after {self.seconds:.0f} s"


@dataclass(frozen=True, slots=True)
class RunningAgent:
    """The running agent, identified for a later loop by its process and its prompt."""

    pid: int
    ticks: int
    boot_id: str
    prompt: str

    def is_left(self) -> bool:
        """Return whether the agent's process, or a child process in its process group, still runs.

        After the end of the process, its id may be reused. The group then belongs to the agent only
        if a process in it has the unique prompt of the agent in its environment.
        """
        if Process(self.pid, self.ticks, self.boot_id).is_alive():
            return True
        same_boot = processes.boot_id() == self.boot_id
        return same_boot and processes.group_began_with(self.pid, f"{_PROMPT}={self.prompt}")


def parse_agent(command: str, time_limit: float, folder: Path, name: str | None = None) -> Agent:
    """Return the agent that a command line names. A path in it is relative to ``folder``.

    Without a ``name``, the agent is named after its program. Raises `AgentMissing` if the program
    does not exist, before anything is started.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise AgentMissing(command) from error
    found = shutil.which(folder / words[0] if words and "/" in words[0] else "".join(words[:1]))
    if found is None:
        raise AgentMissing(command)
    return Agent((str(found), *words[1:]), time_limit, name or Path(words[0]).name)


def poll_until(look: Callable[[], T], within: float = inf) -> T:
    """Call `look` until its result is true or the time is over, and return the last result."""
    end = time.monotonic() + within
    while not (seen := look()) and time.monotonic() < end:
        time.sleep(_POLL_INTERVAL)
    return seen


def wait_or_terminate(
    has_ended: Callable[[], bool],
    signals: Callable[[signal.Signals], object],
    limit: float,
    grace: float,
    is_over: Callable[[], bool],
) -> bool:
    """Wait until a process has ended. If needed, signal it and give it time to end.

    It is signalled after ``limit`` seconds, or when ``is_over`` returns true.
    """
    poll_until(lambda: has_ended() or is_over(), limit)
    if has_ended():
        return True
    signals(signal.SIGTERM)
    poll_until(has_ended, grace)
    return False


def read_record(kind: Callable[..., T], path: Path) -> T | None:
    """Read a loop's record of a process, or return None if it is missing or incomplete."""
    with suppress(FileNotFoundError, ValueError, TypeError):
        return kind(**orjson.loads(read_regular(path)))
    return None


def run_agent_task(
    jobs: Jobs, agent: Agent, task: AgentTask, is_over: Callable[[], bool]
) -> AgentEnd:
    """Give a task to the agent and wait until the agent has ended.

    The agent is stopped after its time limit or when ``is_over`` returns true. Raises
    `AgentNotStarted`.
    """
    parent = jobs.service.root.folder / FOLDER / (task.stage or _NO_STAGE)
    parent.mkdir(parents=True, exist_ok=True)
    folder = parent / f"{len(list(parent.iterdir())) + 1:04d}"
    folder.mkdir()
    prompt = folder / "prompt.md"
    prompt.write_text(task.prompt, "utf-8")
    place = prompt.relative_to(jobs.root)
    given = f"gave the task {task.kind!r} to agent {agent.name} (prompt: {place})"
    jobs.record(p.NoteLogged(stage=task.stage, text=given))
    left = _run_agent(jobs, agent, task, prompt, is_over)
    said = f"agent {agent.name} {left} (output: {left.output})"
    jobs.record(p.NoteLogged(stage=task.stage, text=said))
    return left


def _run_agent(
    jobs: Jobs, agent: Agent, task: AgentTask, prompt: Path, is_over: Callable[[], bool]
) -> AgentEnd:
    output, record = prompt.with_name("output.log"), jobs.service.root.folder / RECORD
    began, environ = time.monotonic(), _build_environment(jobs, agent, task, prompt)
    with prompt.open("rb") as given, output.open("wb") as said:
        try:
            process = subprocess.Popen(
                agent.words,
                cwd=jobs.root,
                env=environ,
                stdin=given,
                stdout=said,
                stderr=subprocess.STDOUT,
                # The agent gets its own process group, so that it can be ended as a whole.
                # Jobs that the agent dispatched are in other groups.
                start_new_session=True,
            )
        except OSError as error:
            raise AgentNotStarted(agent.words[0], error.strerror or str(error)) from error
    pid = process.pid
    try:
        if found := processes.identify(pid):
            # Record the agent, so that it can be found if this loop dies.
            entry = RunningAgent(**found.to_dict(), prompt=str(prompt))
            record.write_text(json.dumps(asdict(entry)))
        by_itself = wait_or_terminate(
            partial(_has_ended, pid),
            partial(_signal_group, pid),
            agent.time_limit,
            _TERMINATE_TIMEOUT,
            is_over,
        )
    finally:
        # Child processes of this agent must not run at the same time as the next agent.
        # The id cannot be reused before the agent is reaped, so this is its group.
        _signal_group(pid, signal.SIGKILL)
        process.wait()
        record.unlink(missing_ok=True)
    seconds = time.monotonic() - began
    shown = str(output.relative_to(jobs.root))
    return AgentEnd(process.returncode, seconds, not by_itself, shown)


def _build_environment(jobs: Jobs, agent: Agent, task: AgentTask, prompt: Path) -> dict[str, str]:
    known = {
        "WFCTL_ACTOR": f"agent:{agent.name}",
        "WFCTL_STAGE": task.stage,
        "WFCTL_TASK": task.kind,
        _PROMPT: str(prompt),
        "WFCTL_DATABASE_URL": jobs.service.root.url,
    }
    own = {name: value for name, value in known.items() if value is not None}
    inherited = {k: v for k, v in os.environ.items() if k != "WFCTL_RUNNER"}
    path = inherited.get("PATH", os.defpath)
    if shutil.which("wfctl", path=path) is None:
        # A private installation of wfctl may not be on the PATH.
        own["PATH"] = f"{path}{os.pathsep}{Path(sys.executable).parent}"
    return {**inherited, **own}


def stop_orphan(jobs: Jobs) -> None:
    """Stop the agent, and its child processes, that a crashed loop left.

    Its stage is assigned again. No other process is stopped, see `RunningAgent.is_left`.
    """
    record = jobs.service.root.folder / RECORD
    orphan = read_record(RunningAgent, record)
    if orphan is None:
        return
    if orphan.is_left():
        jobs.say(f"stopping agent process {orphan.pid}, which an earlier `wfctl run` left running")
    while orphan.is_left():
        _signal_group(orphan.pid, signal.SIGKILL)
        time.sleep(_POLL_INTERVAL)
    record.unlink()


def _has_ended(pid: int) -> bool:
    """Return whether a child process has ended, without reaping it."""
    with suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    # The parent of this process ignores its children, so the exit status is lost.
    return True


def _signal_group(pid: int, what: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, what)
