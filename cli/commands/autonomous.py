"""``wfctl run --autonomous``: handing the loop to the runner."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cli.commands.runner import ways
from cli.frame.workspace import engine, reading, settings_of

if TYPE_CHECKING:
    from reconciler.loop.agent import Agent
    from reconciler.loop.loop_options import Orders

#: Set for a loop that the runner started.
CHILD = "WFCTL_RUNNER"


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """What a loop is told on its command line."""

    agent: str | None
    agent_time: float
    agent_name: str | None
    max_parallel: int
    report: str | None
    notify: str | None = None

    def found_agent(self) -> Agent | None:
        """Return the agent, None where none was named; raises `AgentMissing`."""
        from reconciler.loop.agent import agent_of

        if self.agent is None:
            return None
        return agent_of(self.agent, self.agent_time, Path.cwd(), self.agent_name)

    def orders(self, time_limit: float | None) -> Orders:
        """Return what the loop is told."""
        from reconciler.loop.loop_options import Orders

        return Orders(
            agent=self.found_agent(),
            max_parallel=self.max_parallel,
            time_limit=time_limit,
            served=CHILD in os.environ,
            report=self.report,
        )

    def words(self) -> list[str]:
        """Return the options that tell another process the same."""
        found = [f"--max-parallel={self.max_parallel}", "--attended"]
        agent = self.found_agent()
        if agent is not None:
            import shlex

            found += [f"--agent={shlex.join(agent.words)}", f"--agent-time={self.agent_time}"]
            found += [f"--agent-name={agent.name}"]
        found += [f"--notify={self.notify}"] if self.notify is not None else []
        return found + ([f"--report={self.report}"] if self.report is not None else [])


def is_wanted(context: typer.Context) -> bool:
    """Whether the workflow itself says that a loop is to be autonomous; its runner's never is."""
    if CHILD in os.environ:
        return False
    with reading(context) as workflow:
        return workflow.state().session_config.get("autonomous") is True


def launch(context: typer.Context, given: LoopOptions, limits: Mapping[str, float]) -> None:
    """Start the runner, and say how to watch, pause, resume, attach and stop it."""
    from reconciler.files.described import NoStageCommand
    from reconciler.loop.detached import start
    from reconciler.loop.run import without_commands
    from reconciler.loop.session import check_report
    from service.writing.undecided import check_edits_of_all

    with engine(context) as (jobs, output):
        silent = [] if given.found_agent() is not None else without_commands(jobs)
        if silent:
            # The session says so too; but then nobody may be at the terminal any more.
            jobs.say(NoStageCommand(silent).message, level="warning")
        check_report(jobs, given.report)
        check_edits_of_all(jobs.service)
        program = [sys.executable, "-P", "-m", "cli.main", "--root", str(jobs.root), "-o", "json"]
        # Whoever starts the runner is whom its sessions are told by.
        program.append(f"--actor={jobs.service.actor.kind}:{jobs.service.actor.name}")
        bounds = [f"{name}={value}" for name, value in limits.items()]
        loop = [*program, "run", *given.words()]
        url = settings_of(context).database_url
        place = {"WFCTL_DATABASE_URL": url} if url is not None else {}
        found = start(
            jobs, [*program, "runner", "serve", *bounds, "--", *loop], {**os.environ, **place}
        )
        known = ways(found.to_dict())
        output.result(
            {"runner": found.to_dict(), "ways": known},
            lambda: "\n".join(
                [f"the runner is at work (pid {found.pid})", *map(": ".join, known.items())]
            ),
            state=jobs.service.state(),
        )
