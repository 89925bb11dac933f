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
from dataclasses import asdict, dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import TypeVar

import orjson

from eventstore.private import read_regular
from lifecycle.payload import models as p
from reconciler.context import Jobs
from reconciler.errors import AgentMissing, AgentNotStarted
from reconciler.host import processes
from reconciler.host.processes import Process

T = TypeVar("T")
#: Seconds between two looks at a process, and those an agent has to end once it is asked to.
_GLANCE = 0.1
_GRACE = 5.0
#: Where an agent's prompts and words are kept, and which one works, below ``.wfctl/``.
FOLDER = "agents"
RECORD = "agent.json"
#: What the folder of tasks is called that are of no stage; no stage can be called so.
_NO_STAGE = "init.sh"
#: The variable by which an agent, and what it starts, knows its prompt.
_PROMPT = "WFCTL_PROMPT"


@dataclass(frozen=True, slots=True)
class Agent:
    """A command that takes a prompt on stdin; ``time_limit`` in seconds for each task.

    By its ``name`` its events are told.
    """

    words: tuple[str, ...]
    time_limit: float
    name: str


@dataclass(frozen=True, slots=True)
class AgentTask:
    """What an agent is to do: a stage (None: of no stage), the kind of work, and the prompt."""

    stage: str | None
    kind: str
    prompt: str


@dataclass(frozen=True, slots=True)
class AgentEnd:
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


@dataclass(frozen=True, slots=True)
class Working:
    """The agent at work, as a later loop can tell it: its process and the prompt it was given."""

    pid: int
    ticks: int
    boot_id: str
    prompt: str

    def is_left(self) -> bool:
        """Say whether the very process lives, or something that it began, in its own group.

        Where it is gone its id may be another's: the group counts as its own only while a process
        of it began with the prompt in its environment, which is of one task alone.
        """
        if Process(self.pid, self.ticks, self.boot_id).is_alive():
            return True
        same_boot = processes.boot_id() == self.boot_id
        return same_boot and processes.group_began_with(self.pid, f"{_PROMPT}={self.prompt}")


def agent_of(command: str, time_limit: float, folder: Path, name: str | None = None) -> Agent:
    """Return the agent that a command line names; a path in it is taken from ``folder``.

    Without a ``name`` it is called as its program is. Raises `AgentMissing` if there is no such
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


def waited(look: Callable[[], T], within: float = inf) -> T:
    """Look until there is what is waited for, or so many seconds are over; return the last look."""
    end = time.monotonic() + within
    while not (seen := look()) and time.monotonic() < end:
        time.sleep(_GLANCE)
    return seen


def ended_by_itself(
    has_ended: Callable[[], bool],
    signals: Callable[[signal.Signals], object],
    limit: float,
    grace: float,
    is_over: Callable[[], bool],
) -> bool:
    """Wait until a process has ended, or ask it to, and give it some time for that.

    It is asked to once it took longer than ``limit`` seconds, or once ``is_over`` says so.
    """
    waited(lambda: has_ended() or is_over(), limit)
    if has_ended():
        return True
    signals(signal.SIGTERM)
    waited(has_ended, grace)
    return False


def record_of(kind: Callable[..., T], path: Path) -> T | None:
    """Return what a loop wrote down of a process; None if nothing is there or a crash cut it."""
    with suppress(FileNotFoundError, ValueError, TypeError):
        return kind(**orjson.loads(read_regular(path)))
    return None


def hand_over(jobs: Jobs, agent: Agent, task: AgentTask, is_over: Callable[[], bool]) -> AgentEnd:
    """Give a task to the agent and wait until it has ended.

    It is stopped if its time is up or ``is_over`` says so. Raises `AgentNotStarted`.
    """
    parent = jobs.service.root.folder / FOLDER / (task.stage or _NO_STAGE)
    parent.mkdir(parents=True, exist_ok=True)
    folder = parent / f"{len(list(parent.iterdir())) + 1:04d}"
    folder.mkdir()
    prompt = folder / "prompt.md"
    prompt.write_text(task.prompt, "utf-8")
    given = f"handed to agent {agent.name} to {task.kind} (prompt: {prompt.relative_to(jobs.root)})"
    jobs.record(p.NoteLogged(stage=task.stage, text=given))
    left = _attended(jobs, agent, task, prompt, is_over)
    said = f"agent {agent.name} {left} (output: {left.output})"
    jobs.record(p.NoteLogged(stage=task.stage, text=said))
    return left


def _attended(
    jobs: Jobs, agent: Agent, task: AgentTask, prompt: Path, is_over: Callable[[], bool]
) -> AgentEnd:
    output, record = prompt.with_name("output.log"), jobs.service.root.folder / RECORD
    began, environ = time.monotonic(), _environment(jobs, agent, task, prompt)
    with prompt.open("rb") as given, output.open("wb") as said:
        try:
            process = subprocess.Popen(
                agent.words,
                cwd=jobs.root,
                env=environ,
                stdin=given,
                stdout=said,
                stderr=subprocess.STDOUT,
                # A group of its own, to be ended as a whole; jobs that it dispatched are in others.
                start_new_session=True,
            )
        except OSError as error:
            raise AgentNotStarted(agent.words[0], error.strerror or str(error)) from error
    pid = process.pid
    try:
        if found := processes.identify(pid):
            # So that it can be told if this loop dies.
            entry = Working(**found.to_dict(), prompt=str(prompt))
            record.write_text(json.dumps(asdict(entry)))
        by_itself = ended_by_itself(
            partial(_has_ended, pid), partial(_signal_group, pid), agent.time_limit, _GRACE, is_over
        )
    finally:
        # What it began must not go on beside the next one. Its id is nobody else's until it is
        # reaped, so this is its group.
        _signal_group(pid, signal.SIGKILL)
        process.wait()
        record.unlink(missing_ok=True)
    seconds = time.monotonic() - began
    shown = str(output.relative_to(jobs.root))
    return AgentEnd(process.returncode, seconds, not by_itself, shown)


def _environment(jobs: Jobs, agent: Agent, task: AgentTask, prompt: Path) -> dict[str, str]:
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
        # An installation of its own need not be on anybody's path.
        own["PATH"] = f"{path}{os.pathsep}{Path(sys.executable).parent}"
    return {**inherited, **own}


def end_orphan(jobs: Jobs) -> None:
    """Stop the agent of a loop that died, and what it began: its stage is handed out anew.

    Nobody else is stopped: see `Working.is_left`.
    """
    record = jobs.service.root.folder / RECORD
    orphan = record_of(Working, record)
    if orphan is None:
        return
    if orphan.is_left():
        jobs.say(f"ending agent process {orphan.pid}, which an earlier loop left behind")
    while orphan.is_left():
        _signal_group(orphan.pid, signal.SIGKILL)
        time.sleep(_GLANCE)
    record.unlink()


def _has_ended(pid: int) -> bool:
    """Say whether a child has ended, without reaping it."""
    with suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    # Anyone who started this process has it ignore its children: none is kept.
    return True


def _signal_group(pid: int, what: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, what)
