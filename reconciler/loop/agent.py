"""Run an external agent: a program that reads a prompt and works on one stage.

wfctl keeps the agent's output, but does not trust it. The results of the agent's work are read from
the events in the log.
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

from eventstore.regular_files import read_regular
from lifecycle.payload import models as p
from reconciler.context import JobContext
from reconciler.errors import AgentMissing, AgentNotStarted
from reconciler.host import processes
from reconciler.host.processes import Process

T = TypeVar("T")
#: Seconds between two checks of a process, and seconds that an agent has to end after a request.
_POLL_INTERVAL = 0.1
_TERMINATE_TIMEOUT = 5.0
#: Folder below ``.wfctl/`` for the prompts and the output of agents. Next to it is the record of
#: the running agent.
FOLDER = "agents"
RECORD = "agent.json"
#: Name of the folder for agent tasks that belong to no stage. It cannot be the name of a stage.
_NO_STAGE = "init.sh"
#: Environment variable with the path of the prompt, set for an agent and its child processes.
_PROMPT = "WFCTL_PROMPT"


@dataclass(frozen=True, slots=True)
class Agent:
    """A program that reads a prompt from stdin.

    ``words`` is its command, and ``name`` its name in events. ``time_limit`` is the maximum number
    of seconds for each task.
    """

    words: tuple[str, ...]
    time_limit: float
    name: str


@dataclass(frozen=True, slots=True)
class AgentTask:
    """A task for an agent: its kind, its prompt, and its stage.

    ``stage`` is None if the task belongs to no stage.
    """

    stage: str | None
    kind: str
    prompt: str


@dataclass(frozen=True, slots=True)
class AgentEnd:
    """A report on how an agent ended.

    ``exit_code`` is negative if a signal ended the agent. ``stopped`` states that wfctl ended the
    agent, because of its time limit or on request.
    """

    exit_code: int
    seconds: float
    stopped: bool
    output: str

    @property
    def is_killed_from_outside(self) -> bool:
        """Return whether a signal that wfctl did not send ended the agent.

        In this case, the agent did not fail by its own fault.
        """
        return self.exit_code < 0 and not self.stopped

    def __str__(self) -> str:
        how = f"exited {self.exit_code}" if self.exit_code >= 0 else f"signal {-self.exit_code}"
        return f"{'was stopped' if self.stopped else how} after {self.seconds:.0f} s"


@dataclass(frozen=True, slots=True)
class RunningAgent:
    """The record of the running agent, by which a later loop can find its processes."""

    pid: int
    ticks: int
    boot_id: str
    prompt: str

    def is_still_running(self) -> bool:
        """Return whether the agent, or a child process in its process group, still runs.

        After the agent has ended, its id may be reused. A group with this id then belongs to the
        agent only if one of its processes has the path of the agent's prompt in its environment.
        """
        if Process(self.pid, self.ticks, self.boot_id).is_alive():
            return True
        same_boot = processes.boot_id() == self.boot_id
        return same_boot and processes.has_group_variable(self.pid, f"{_PROMPT}={self.prompt}")


def parse_agent(command: str, time_limit: float, folder: Path, name: str | None = None) -> Agent:
    """Return the agent that a command line describes.

    A path in the command is relative to ``folder``. Without a ``name``, the agent gets the name of
    its program. Raises `AgentMissing` if the program does not exist.
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
    """Call ``look`` repeatedly until its result is true or ``within`` seconds have passed.

    Returns the last result.
    """
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
    """Wait for a process to end. Return whether it ended without being asked to.

    After ``limit`` seconds, or when ``is_over`` returns true, the process gets SIGTERM and has
    ``grace`` seconds to end.
    """
    poll_until(lambda: has_ended() or is_over(), limit)
    if has_ended():
        return True
    signals(signal.SIGTERM)
    poll_until(has_ended, grace)
    return False


def read_record(kind: Callable[..., T], path: Path) -> T | None:
    """Read the record of a process, or return None if the file is missing or incomplete.

    ``kind`` is the class of the record.
    """
    with suppress(FileNotFoundError, ValueError, TypeError):
        return kind(**orjson.loads(read_regular(path)))
    return None


def run_agent_task(
    jobs: JobContext, agent: Agent, task: AgentTask, is_over: Callable[[], bool]
) -> AgentEnd:
    """Start the agent with the prompt of a task, and wait until it ends.

    The agent is stopped after its time limit or when ``is_over`` returns true. Start and end are
    noted in the log. Raises `AgentNotStarted` if the system cannot run its program.
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
    jobs: JobContext, agent: Agent, task: AgentTask, prompt: Path, is_over: Callable[[], bool]
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
                # The agent gets its own process group, so that all its processes can be ended
                # together. Jobs that the agent dispatched run in other groups and continue.
                start_new_session=True,
            )
        except OSError as error:
            raise AgentNotStarted(agent.words[0], error.strerror or str(error)) from error
    pid = process.pid
    try:
        if found := processes.identify(pid):
            # If this loop crashes, a later loop finds the agent by this record and stops it.
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
        # Kill leftover child processes, so that they do not run at the same time as the next agent.
        # The id of the group is still valid, because it cannot be reused before `wait` is called.
        _signal_group(pid, signal.SIGKILL)
        process.wait()
        record.unlink(missing_ok=True)
    seconds = time.monotonic() - began
    shown = str(output.relative_to(jobs.root))
    return AgentEnd(process.returncode, seconds, not by_itself, shown)


def _build_environment(
    jobs: JobContext, agent: Agent, task: AgentTask, prompt: Path
) -> dict[str, str]:
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
        # The agent needs the command `wfctl`, and this installation may not be on the PATH.
        own["PATH"] = f"{path}{os.pathsep}{Path(sys.executable).parent}"
    return {**inherited, **own}


def stop_orphan(jobs: JobContext) -> None:
    """Kill the agent that a crashed loop left running, with its child processes.

    Does nothing if no such agent is recorded. Processes that do not belong to the agent are never
    signalled. The stage of the agent is assigned again later.
    """
    record = jobs.service.root.folder / RECORD
    orphan = read_record(RunningAgent, record)
    if orphan is None:
        return
    if orphan.is_still_running():
        jobs.say(f"stopping agent process {orphan.pid}, which an earlier `wfctl run` left running")
    while orphan.is_still_running():
        _signal_group(orphan.pid, signal.SIGKILL)
        time.sleep(_POLL_INTERVAL)
    record.unlink()


def _has_ended(pid: int) -> bool:
    """Return whether a child process has ended. Its exit status stays available for later."""
    with suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    # This process was started with SIGCHLD ignored, so the system discards the exit status of its
    # children.
    return True


def _signal_group(pid: int, what: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, what)
