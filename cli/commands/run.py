"""``wfctl run``: the loop."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.options import NEEDS_PERSON, Text, Writes, option
from cli.frame.workspace import engine, reading, require_work_tree_of_root, settings_of
from cli.terminal.output import say
from reconciler.errors import NoRunner
from service.errors import InvalidOption
from service.root.root import read_config
from service.root.trust import is_notice_trusted
from service.writing.stream_writer import WriteOptions

if TYPE_CHECKING:
    from lifecycle.state.workflow import Workflow
    from reconciler.context import Jobs
    from reconciler.loop.agent import Agent
    from service.writing.workflow_service import Outcome


def show(context: typer.Context) -> None:
    """Show whether a runner is active, and how to watch, pause and stop it."""
    from reconciler.loop.detached import recorded
    from service.files.surroundings import PAUSE

    with reading(context) as workflow:
        found = recorded(workflow.root)
        paused = (workflow.root.path / PAUSE).exists()
        runner = None if found is None else found.to_dict()
        known = _ways(runner)
        data = {"runner": runner, "paused": paused, "ways": known}
        at_work = "no runner is at work" if runner is None else f"runner {runner['pid']} is at work"
        lines = [f"{at_work}{', paused' if paused else ''}", *map(" ".join, known.items())]
        workflow.output.result(data, lambda: "\n".join(lines))


def _ways(runner: dict[str, Any] | None) -> dict[str, str]:
    if runner is None:
        return {"start": "wfctl run --autonomous"}
    found = {"watch": "tail -f progress.log"}
    found |= {verb: f"wfctl runner {verb}" for verb in ("pause", "resume", "stop")}
    if runner["session"] is not None:
        found["attach"] = f"tmux attach -t ={runner['session']}"
    return found


def pause(context: typer.Context) -> None:
    """Start no new work until `runner resume`."""
    _pause(context, True, "paused; jobs that run go on")


def resume(context: typer.Context) -> None:
    """Continue after `runner pause`."""
    _pause(context, False, "resumed")


def _pause(context: typer.Context, paused: bool, text: str) -> None:
    from service.files.surroundings import PAUSE

    with reading(context) as workflow:
        file = workflow.root.path / PAUSE
        file.touch() if paused else file.unlink(missing_ok=True)
        workflow.output.result({"paused": paused}, lambda: text)


def attach(context: typer.Context) -> None:
    """Attach to the terminal of the runner; Ctrl-b d detaches."""
    from reconciler.loop.detached import OUTPUT, recorded

    with reading(context) as workflow:
        found = recorded(workflow.root)
        if found is None:
            raise NoRunner(workflow.root.path)
        if found.session is None:
            say(f"wfctl: it runs without tmux; it writes to {workflow.root.folder / OUTPUT}")
            raise typer.Exit(1)
    os.execvp("tmux", ["tmux", "attach", "-t", f"={found.session}"])


def stop(context: typer.Context) -> None:
    """Stop the runner and its session; running jobs continue."""
    from reconciler.loop.detached import stop as end

    with reading(context) as workflow:
        found = end(workflow.root)
        workflow.output.result({"stopped": found.pid}, lambda: f"runner {found.pid} has ended")


def serve(
    context: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="WORD...")],
    max_sessions: Annotated[int, typer.Option(min=1)] = 20,
    session_seconds: Annotated[float, typer.Option(min=0.1)] = 7200.0,
    between: Annotated[float, typer.Option(min=0)] = 15.0,
    rapid: Annotated[int, typer.Option(min=1)] = 3,
    rapid_seconds: Annotated[float, typer.Option(min=0)] = 60.0,
    notify: Annotated[str | None, typer.Option(envvar="WFCTL_NOTIFY")] = None,
) -> None:
    """Be the runner: WORDs are the command line of a loop."""
    from reconciler.loop.detached import Limits, Runner, record
    from reconciler.loop.ending import interruptible, patience

    limits = Limits(max_sessions, session_seconds, between, rapid, rapid_seconds)
    with engine(context) as (jobs, output), interruptible() as asked:
        jobs.service.log.store.be_patient(patience(jobs, asked))
        receiver = _receiver_of_notices(jobs, notify)
        runner = Runner(jobs.acting_as("runner"), words, limits, asked, receiver)
        why = runner.serve(lambda: record(jobs.service.root, jobs.now()))
        output.result({"ended": why}, lambda: f"ended: {why}")


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
    notify: str | None

    def found_agent(self) -> Agent | None:
        """Return the agent, None if no agent was named; raises `AgentMissing`."""
        from reconciler.loop.agent import agent_of

        if self.agent is None:
            return None
        return agent_of(self.agent, self.agent_time, Path.cwd(), self.agent_name)

    def words(self) -> list[str]:
        """Return the options that tell another process the same."""
        found = [f"--max-parallel={self.max_parallel}", "--attended"]
        if (agent := self.found_agent()) is not None:
            import shlex

            found += [f"--agent={shlex.join(agent.words)}", f"--agent-time={self.agent_time}"]
            found += [f"--agent-name={agent.name}"]
        found += [f"--notify={self.notify}"] if self.notify is not None else []
        return found + ([f"--report={self.report}"] if self.report is not None else [])


def _launch(context: typer.Context, given: LoopOptions, limits: Mapping[str, float]) -> None:
    from reconciler.files.described import NoStageCommand
    from reconciler.loop.detached import start
    from reconciler.loop.run import without_commands
    from reconciler.loop.session import check_report
    from service.writing.amendments import check_edits_of_all

    with engine(context) as (jobs, output):
        silent = [] if given.found_agent() is not None else without_commands(jobs)
        if silent:
            # The session says so too; but then nobody may be at the terminal any more.
            jobs.say(NoStageCommand(silent).message, level="warning")
        check_report(jobs, given.report)
        check_edits_of_all(jobs.service)
        program = [sys.executable, "-P", "-m", "cli.main", "--root", str(jobs.root), "-o", "json"]
        # Anyone who starts the runner is whom its sessions are told by.
        program.append(f"--actor={jobs.service.actor.kind}:{jobs.service.actor.name}")
        bounds = [f"{name}={value}" for name, value in limits.items()]
        bounds += [f"--notify={given.notify}"] if given.notify is not None else []
        line = [*program, "runner", "serve", *bounds, "--", *program, "run", *given.words()]
        url = settings_of(context).database_url
        place = {"WFCTL_DATABASE_URL": url} if url is not None else {}
        found = start(jobs, line, {**os.environ, **place})
        known = _ways(found.to_dict())
        data = {"runner": found.to_dict(), "ways": known}
        lines = [f"the runner is at work (pid {found.pid})", *map(": ".join, known.items())]
        output.result(data, lambda: "\n".join(lines), state=jobs.service.state())


Seconds = float | None
#: Seconds that an agent has for one task.
AGENT_TIME = 1800.0


def run(
    context: typer.Context,
    options: Writes,
    agent: Text = option(
        "CMD", "Program for stages without a command (prompt on stdin).", envvar="WFCTL_AGENT"
    ),
    agent_time: float = option("S", "Maximum time of its task.", min=0.1, default=AGENT_TIME),
    agent_name: Text = option("NAME", "Name of the agent (default: the name of its program)."),
    max_parallel: int = option("N", "Run at most N stages at the same time.", min=1, default=1),
    time_limit: Seconds = option("S", "End the session after S seconds; jobs continue.", min=0),
    report: Text = option("PATH", "Path of the report, below the root."),
    notify: Text = option(
        "CMD|URL", "Send notices of decisions, failures and the end.", envvar="WFCTL_NOTIFY"
    ),
    autonomous: bool | None = option(
        "--autonomous/--attended", "Run sessions in the background, or one here."
    ),
    max_sessions: int = option("With --autonomous: maximum number of sessions.", min=1, default=20),
    session_seconds: float = option(
        "With --autonomous: seconds for each session.", min=0.1, default=7200.0
    ),
    between: float = option(
        "With --autonomous: seconds between two sessions.", min=0, default=15.0
    ),
    rapid: int = option(
        "With --autonomous: maximum sessions in a row without progress.",
        min=1,
        default=3,
    ),
) -> None:
    """Run every stage that can run now.

    The session ends when the workflow is completed, or when only a person can continue it.
    --autonomous runs session after session in the background, as session_config.autonomous does.
    """
    require_work_tree_of_root(context)
    if options.dry_run:
        _rehearse(context)
        return
    if autonomous is None and CHILD not in os.environ:  # its runner's loop never is
        with reading(context) as workflow:
            autonomous = workflow.state().session_config.get("autonomous") is True
    if autonomous and (options != WriteOptions() or time_limit is not None):
        raise InvalidOption(
            "--autonomous makes sessions of its own: expected neither --command-id nor "
            "--expected-version nor --time-limit with it (--session-seconds limits each, and "
            "--attended makes one session here)"
        )
    given = LoopOptions(agent, agent_time, agent_name, max_parallel, report, notify)
    if autonomous:
        bounds = {"max-sessions": max_sessions, "session-seconds": session_seconds}
        limits = {**bounds, "between": between, "rapid": rapid}
        _launch(context, given, {f"--{name}": value for name, value in limits.items()})
    else:
        _attended(context, given, time_limit, options)


def _attended(
    context: typer.Context, given: LoopOptions, time_limit: float | None, options: WriteOptions
) -> None:
    from reconciler.files.freshness import look
    from reconciler.loop.detached import forget_ended_runner
    from reconciler.loop.ending import Orders, interruptible, patience
    from reconciler.loop.run import run as drive

    with engine(context) as (jobs, output), interruptible() as asked:
        service = jobs.service
        if CHILD not in os.environ:
            forget_ended_runner(service.root)
        service.log.store.be_patient(patience(jobs, asked))
        with _notifying(jobs, given.notify) as told:
            agent, served = given.found_agent(), CHILD in os.environ
            orders = Orders(agent, given.max_parallel, time_limit, served, given.report)
            ended = drive(told, orders, options, asked)
        # What leads on goes by a look at the files too.
        known = output.next_actions(ended.state, look(service.root, service.log, ended.state))
        actions = ended.actions(known)
        output.changed(ended.to_dict(), lambda: str(ended), ended.state, actions=actions)
    if asked.signal is not None and ended.exit_reason == "waiting":
        raise typer.Exit(128 + signal.Signals(asked.signal))
    if ended.exit_reason == "blocked" or ended.hindrances:
        raise typer.Exit(NEEDS_PERSON)


def _rehearse(context: typer.Context) -> None:
    from projections.screens.next_actions import is_due
    from reconciler.control.recomputation import describe_recomputation
    from reconciler.files.freshness import look

    with reading(context) as workflow:
        state = workflow.state()
        seen = look(workflow.root, workflow.log, state)
        actions = workflow.output.next_actions(state, seen)
        known = (
            describe_recomputation(workflow.root.path, state, stage)
            for stage in state.stages.values()
            if is_due(state, stage)
        )
        again = [text for text in known if text is not None]
        lines = [*(f"would do: {action}" for action in actions), *again]
        text = "\n".join(lines) or "nothing to do"
        data = {"would": [action.to_dict() for action in actions], "computed_again": again}
        workflow.output.result(data, lambda: text, state=state, seen=seen)


def _receiver_of_notices(jobs: Jobs, named: str | None) -> str | None:
    """Return who is told; a receiver that only config.toml names needs a person's agreement."""
    if named is not None:
        return named
    receiver = read_config(jobs.service.root).notify
    if receiver is None or is_notice_trusted(receiver, jobs.root):
        return receiver
    jobs.say(
        f"config.toml names {receiver!r} to be told, and nobody of this login agreed to "
        "it: it may have come with a copy. `wfctl db trust` agrees to it; nobody is told "
        "until then.",
        level="warning",
    )
    return None


@contextmanager
def _notifying(jobs: Jobs, named: str | None) -> Iterator[Jobs]:
    """Yield jobs that tell the receiver, if there is one, of what they record and wait for."""
    receiver = _receiver_of_notices(jobs, named)
    if not receiver:
        yield jobs
        return
    from cli.terminal.talk import without_secrets
    from reconciler.loop.notices import Notifier

    def hide(notice: dict[str, Any]) -> dict[str, Any]:
        return dict(without_secrets(None, "", notice))

    def warn(text: str) -> None:
        jobs.say(text, level="warning")

    service = jobs.service
    tells_end = CHILD not in os.environ
    folder = service.root.folder
    with Notifier(receiver, service.log, folder, hide, warn, tells_end=tells_end) as notifier:

        def tell(outcome: Outcome) -> None:
            jobs.tell(outcome)
            notifier.look()

        def waits(state: Workflow, ids: Collection[str]) -> None:
            jobs.waits(state, ids)
            notifier.look()

        yield replace(jobs, tell=tell, waits=waits)
