"""``wfctl run`` and ``wfctl runner …``: run all stages, in the foreground or background."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cli.frame.context import Context
from cli.frame.exit_codes import NEEDS_PERSON
from cli.frame.options import FirstTasks, Text, Writes, argument, option
from cli.frame.workspace import (
    open_for_reading,
    open_job_runner,
    require_work_tree_of_root,
    settings_of,
)
from cli.terminal.output import print_message
from reconciler.errors import NoRunner
from service.errors import InvalidOption
from service.root.root import read_config
from service.root.trusted_databases import is_notice_trusted
from service.writing.stream_writer import WriteOptions
from wfctl_eventstore.extension import require_extension

if TYPE_CHECKING:
    from lifecycle.state.workflow import Workflow
    from reconciler.context import JobContext
    from reconciler.loop.agent import Agent
    from service.writing.workflow_service import Outcome


def show(context: Context) -> None:
    """Show whether the background runner is active.

    Also show the commands that watch, pause and stop the runner.
    """
    from reconciler.loop.background_runner import find_running_runner
    from service.files.stage_obstacles import PAUSE

    with open_for_reading(context) as workflow:
        found = find_running_runner(workflow.root)
        paused = (workflow.root.path / PAUSE).exists()
        runner = None if found is None else found.to_dict()
        known = _list_runner_commands(runner)
        data = {"runner": runner, "paused": paused, "ways": known}
        at_work = "no runner is running" if runner is None else f"runner {runner['pid']} is at work"
        lines = [f"{at_work}{', paused' if paused else ''}", *map(" ".join, known.items())]
        workflow.output.result(data, lambda: "\n".join(lines))


def _list_runner_commands(runner: dict[str, Any] | None) -> dict[str, str]:
    if runner is None:
        return {"start": "wfctl run --autonomous"}
    found = {"watch": "tail -f progress.log"}
    found |= {verb: f"wfctl runner {verb}" for verb in ("pause", "resume", "stop")}
    if runner["session"] is not None:
        found["attach"] = f"tmux attach -t ={runner['session']}"
    return found


def pause(context: Context) -> None:
    """Pause the background runner.

    Running jobs continue. To continue the runner, use `wfctl runner resume`.
    """
    _set_paused(context, True, "paused; running jobs continue")


def resume(context: Context) -> None:
    """Continue a paused background runner."""
    _set_paused(context, False, "resumed")


def _set_paused(context: Context, paused: bool, text: str) -> None:
    from service.files.stage_obstacles import PAUSE

    with open_for_reading(context) as workflow:
        file = workflow.root.path / PAUSE
        file.touch() if paused else file.unlink(missing_ok=True)
        workflow.output.result({"paused": paused}, lambda: text)


def attach(context: Context) -> None:
    """Show the terminal of the background runner.

    To leave the terminal, press Ctrl-b, then d.
    """
    from reconciler.loop.background_runner import OUTPUT, find_running_runner

    with open_for_reading(context) as workflow:
        found = find_running_runner(workflow.root)
        if found is None:
            raise NoRunner(workflow.root.path)
        if found.session is None:
            print_message(
                "wfctl: the runner runs without tmux and writes its output to "
                f"{workflow.root.folder / OUTPUT}"
            )
            raise SystemExit(1)
    os.execvp("tmux", ["tmux", "attach", "-t", f"={found.session}"])


def stop(context: Context) -> None:
    """Stop the background runner and its session.

    Running jobs continue.
    """
    from reconciler.loop.background_runner import stop_runner as end

    with open_for_reading(context) as workflow:
        found = end(workflow.root)
        workflow.output.result({"stopped": found.pid}, lambda: f"runner {found.pid} has ended")


def serve(
    context: Context,
    words: Annotated[list[str], argument("WORD...", "The command line of the agent loop.")],
    max_sessions: int = option("N", "Start at most N sessions.", default=20, min=1),
    session_seconds: float = option("End a session after this time.", default=7200.0, min=0.1),
    between: float = option("Wait this time between two sessions.", default=15.0, min=0),
    rapid: int = option("N", "Stop after N short sessions in a row.", default=3, min=1),
    rapid_seconds: float = option("A session is short below this time.", default=60.0, min=0),
    notify: NotifyOption = None,
) -> None:
    """Be the runner: WORDs are the command line of a loop."""
    from reconciler.loop.background_runner import Runner, RunnerLimits, record_runner
    from reconciler.loop.stop_request import build_retry_rule, catch_stop_signals

    limits = RunnerLimits(max_sessions, session_seconds, between, rapid, rapid_seconds)
    with open_job_runner(context) as (jobs, output), catch_stop_signals() as asked:
        jobs.service.log.store.retry_while_unreachable(build_retry_rule(jobs, asked))
        receiver = _receiver_of_notices(jobs, notify)
        runner = Runner(jobs.acting_as("runner"), words, limits, asked, receiver)
        why = runner.serve(lambda: record_runner(jobs.service.root, jobs.now()))
        output.result({"ended": why}, lambda: f"ended: {why}")


#: Environment variable that the background runner sets for each ``wfctl run`` that it starts.
CHILD = "WFCTL_RUNNER"


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """The options of ``wfctl run`` that a background runner passes on to each session."""

    agent: str | None
    agent_time: float
    agent_name: str | None
    max_parallel: int
    report: str | None
    notify: str | None
    first: int | None

    def found_agent(self) -> Agent | None:
        """Return the AI agent program that the caller named, or None if none was named.

        Raises `AgentMissing` if the program does not exist.
        """
        from reconciler.loop.agent import parse_agent

        if self.agent is None:
            return None
        return parse_agent(self.agent, self.agent_time, Path.cwd(), self.agent_name)

    def words(self) -> list[str]:
        """Return command line options that pass these values to another ``wfctl run``."""
        found = [f"--max-parallel={self.max_parallel}", "--attended"]
        if (agent := self.found_agent()) is not None:
            import shlex

            found += [f"--agent={shlex.join(agent.words)}", f"--agent-time={self.agent_time}"]
            found += [f"--agent-name={agent.name}"]
        found += [f"--notify={self.notify}"] if self.notify is not None else []
        found += [f"--first={self.first}"] if self.first is not None else []
        return found + ([f"--report={self.report}"] if self.report is not None else [])


def _launch_runner(context: Context, given: LoopOptions, limits: Mapping[str, float]) -> None:
    from reconciler.files.described_submission import NoStageCommand
    from reconciler.host.program import command_of_module
    from reconciler.loop.background_runner import start_runner
    from reconciler.loop.run import find_stages_without_command
    from reconciler.loop.session import check_report_path_free
    from service.writing.undecided_edits import check_run_can_continue

    with open_job_runner(context) as (jobs, output):
        silent = [] if given.found_agent() is not None else find_stages_without_command(jobs)
        if silent:
            # Print the warning now. The session prints it too, but the user may have left the
            # terminal by then.
            jobs.say(NoStageCommand(silent).message, level="warning")
        check_report_path_free(jobs, given.report)
        check_run_can_continue(jobs.service)
        program = [*command_of_module("cli.main"), "--root", str(jobs.root), "-o", "json"]
        # The background runner records its sessions under the name of the person or agent who
        # starts it.
        program.append(f"--actor={jobs.service.actor.kind}:{jobs.service.actor.name}")
        bounds = [f"{name}={value}" for name, value in limits.items()]
        bounds += [f"--notify={given.notify}"] if given.notify is not None else []
        line = [*program, "runner", "serve", *bounds, "--", *program, "run", *given.words()]
        url = settings_of(context).database_url
        place = {"WFCTL_DATABASE_URL": url} if url is not None else {}
        found = start_runner(jobs, line, {**os.environ, **place})
        known = _list_runner_commands(found.to_dict())
        data = {"runner": found.to_dict(), "ways": known}
        lines = [f"the runner is running (pid {found.pid})", *map(": ".join, known.items())]
        output.result(data, lambda: "\n".join(lines), state=jobs.service.state())


Seconds = float | None
#: Maximum time in seconds that an agent program may take for one task.
AGENT_TIME = 1800.0


AgentOption = Annotated[
    Text,
    option(
        "CMD",
        "Start this agent program for each stage without a command. The program reads "
        "its instructions from stdin.",
        envvar="WFCTL_AGENT",
    ),
]
ReportOption = Annotated[
    Text,
    option(
        "PATH",
        "Write the report of the completed workflow to this file in the workflow's "
        "folder. Default: a dated file in docs/superscientist/reports/.",
    ),
]
NotifyOption = Annotated[
    Text,
    option(
        "CMD|URL",
        "Notify this command or URL when a person must decide, a stage fails, or the "
        "workflow ends.",
        envvar="WFCTL_NOTIFY",
    ),
]
AutonomousOption = Annotated[
    bool | None,
    option(
        "--autonomous/--attended",
        "Run working sessions in the background (autonomous), or one session in the "
        "foreground (attended). Default: the setting in the plan, otherwise attended.",
    ),
]
TimeLimitOption = Annotated[
    Seconds,
    option(
        "S",
        "End this working session after S seconds, without stopping running jobs. "
        "Default: no limit.",
        min=0,
    ),
]
RapidOption = Annotated[
    int,
    option(
        "Stop after N background sessions in a row without progress. Used only with --autonomous.",
        min=1,
    ),
]


def run(
    context: Context,
    options: Writes,
    agent: AgentOption = None,
    agent_time: float = option(
        "S", "Stop the agent program if it runs longer than S seconds.", min=0.1, default=AGENT_TIME
    ),
    agent_name: Text = option(
        "NAME", "Record the agent's work under this name. Default: the name of the agent program."
    ),
    first: FirstTasks = None,
    max_parallel: int = option("N", "Run at most N stages at the same time.", min=1, default=1),
    time_limit: TimeLimitOption = None,
    report: ReportOption = None,
    notify: NotifyOption = None,
    autonomous: AutonomousOption = None,
    max_sessions: int = option(
        "Run at most N background sessions. Used only with --autonomous.", min=1, default=20
    ),
    session_seconds: float = option(
        "S",
        "End each background session after S seconds. Used only with --autonomous.",
        min=0.1,
        default=7200.0,
    ),
    between: float = option(
        "S",
        "Wait S seconds between two background sessions. Used only with --autonomous.",
        min=0,
        default=15.0,
    ),
    rapid: RapidOption = 3,
) -> None:
    """Run every stage that can run now.

    The command ends when the workflow is completed or needs a decision by a person. If an agent or
    a script runs the command, it also ends when the budget of the session is used up. With
    --autonomous, wfctl runs one session after another in the background. To make this the default,
    set `session_config.autonomous` in the plan.
    """
    require_work_tree_of_root(context)
    if options.dry_run:
        _print_dry_run(context)
        return
    if autonomous is None and CHILD not in os.environ:  # its runner's loop never is
        with open_for_reading(context) as workflow:
            autonomous = workflow.state().session_config.get("autonomous") is True
    if autonomous and (options != WriteOptions() or time_limit is not None):
        raise InvalidOption(
            "an autonomous run starts its own sessions and does not accept --command-id, "
            "--expected-version or --time-limit. To limit the time of each session, use "
            "--session-seconds. To run one session here, use --attended."
        )
    given = LoopOptions(agent, agent_time, agent_name, max_parallel, report, notify, first)
    if autonomous:
        bounds = {"max-sessions": max_sessions, "session-seconds": session_seconds}
        limits = {**bounds, "between": between, "rapid": rapid}
        _launch_runner(context, given, {f"--{name}": value for name, value in limits.items()})
    else:
        _run_in_this_process(context, given, time_limit, options)


def _run_in_this_process(
    context: Context, given: LoopOptions, time_limit: float | None, options: WriteOptions
) -> None:
    from cli.frame.approve_plan import is_person_at_terminal
    from reconciler.files.freshness import find_log_differences
    from reconciler.loop.background_runner import forget_ended_runner
    from reconciler.loop.end_loop import SessionOptions
    from reconciler.loop.run import run_loop as drive
    from reconciler.loop.stop_request import build_retry_rule, catch_stop_signals

    with open_job_runner(context) as (jobs, output), catch_stop_signals() as asked:
        service = jobs.service
        if CHILD not in os.environ:
            forget_ended_runner(service.root)
        service.log.store.retry_while_unreachable(build_retry_rule(jobs, asked))
        with _add_notices(jobs, given.notify) as told:
            agent, served = given.found_agent(), CHILD in os.environ
            is_attended = agent is None and not served and is_person_at_terminal(service.actor)
            orders = SessionOptions(
                agent,
                given.max_parallel,
                time_limit,
                served,
                given.report,
                given.first,
                is_attended=is_attended,
            )
            ended = drive(told, orders, options, asked)
            jobs.waits(ended.state, ())  # erases the progress bars before the answer is printed
        # The next actions also depend on the result files, so check these files first.
        known = output.next_actions(
            ended.state, find_log_differences(service.root, service.log, ended.state)
        )
        actions = ended.actions(known)
        output.print_change(ended.to_dict(), lambda: str(ended), ended.state, actions=actions)
    if asked.signal is not None and ended.exit_reason == "waiting":
        raise SystemExit(128 + signal.Signals(asked.signal))
    if ended.exit_reason == "blocked" or ended.hindrances:
        raise SystemExit(NEEDS_PERSON)


def _print_dry_run(context: Context) -> None:
    from projections.screens.next_actions import is_ready_to_start
    from reconciler.control.recomputation import describe_recomputation
    from reconciler.files.freshness import find_log_differences

    with open_for_reading(context) as workflow:
        state = workflow.state()
        seen = find_log_differences(workflow.root, workflow.log, state)
        actions = workflow.output.next_actions(state, seen)
        known = (
            describe_recomputation(workflow.root.path, state, stage)
            for stage in state.stages.values()
            if is_ready_to_start(state, stage)
        )
        again = [text for text in known if text is not None]
        words = {True: "waits for a person", False: "would do"}
        lines = [*(f"{words[action.person]}: {action}" for action in actions), *again]
        text = "\n".join(lines) or "nothing to do"
        data = {"would": [action.to_dict() for action in actions], "computed_again": again}
        workflow.output.result(data, lambda: text, state=state, seen=seen)


def _receiver_of_notices(jobs: JobContext, named: str | None) -> str | None:
    """Return the receiver of notices from the option or from config.toml, or None.

    A receiver from config.toml is used only if the user account has approved it. Otherwise, print a
    warning and return None. Raises `InvalidOption` for an unusable receiver.
    """
    if named:
        return _checked_receiver(named, "--notify")
    receiver = None if named is not None else read_config(jobs.service.root).notify
    if receiver:
        _checked_receiver(receiver, f"notify in {jobs.service.root.config_file}")
    if receiver is None or is_notice_trusted(receiver, jobs.root):
        return receiver
    jobs.say(
        f"config.toml names {receiver!r} as the receiver of notices, but this user account has "
        "not approved "
        "it; it may come from a copied folder. `wfctl db trust` approves it; no notices are sent "
        "until then.",
        level="warning",
    )
    return None


def _checked_receiver(receiver: str, option: str) -> str:
    notices = require_extension("notices", option)
    try:
        notices.check_receiver(receiver)
    except ValueError as error:
        raise InvalidOption(f"{option}: {receiver!r:.200}: {error}") from error
    return receiver


@contextmanager
def _add_notices(jobs: JobContext, named: str | None) -> Iterator[JobContext]:
    """Yield a job runner that sends notices of new events and of waiting items.

    If no receiver is configured, yield the given job runner unchanged.
    """
    receiver = _receiver_of_notices(jobs, named)
    if not receiver:
        yield jobs
        return
    from cli.terminal.progress_messages import without_secrets

    def hide(notice: dict[str, Any]) -> dict[str, Any]:
        return dict(without_secrets(None, "", notice))

    def warn(text: str) -> None:
        jobs.say(text, level="warning")

    service = jobs.service
    tells_end = CHILD not in os.environ
    folder = service.root.folder
    notices = require_extension("notices", "--notify")
    with notices.open_notifier(
        receiver, service.log, folder, hide, warn, tells_end=tells_end
    ) as send_notices:

        def tell(outcome: Outcome) -> None:
            jobs.tell(outcome)
            send_notices()

        def waits(state: Workflow, ids: Collection[str]) -> None:
            jobs.waits(state, ids)
            send_notices()

        yield replace(jobs, tell=tell, waits=waits)
