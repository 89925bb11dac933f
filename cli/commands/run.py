"""``wfctl run``: the loop."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Annotated

import typer

from cli.commands.autonomous import LoopOptions, is_wanted, launch
from cli.frame.exit_codes import NEEDS_PERSON
from cli.frame.options import CommandId, DryRun, ExpectedVersion, write_options
from cli.frame.workspace import engine, reading
from cli.terminal.output import Output
from service.errors import InvalidOption
from service.writing.stream_writer import WriteOptions

if TYPE_CHECKING:
    from reconciler.loop.ending import Ended
    from service.writing.workflow_service import Service

#: Seconds that an agent has for one task.
AGENT_TIME = 1800.0

AgentCommand = Annotated[
    str | None,
    typer.Option(
        "--agent",
        metavar="CMD",
        envvar="WFCTL_AGENT",
        help="A program for what has no command: its prompt is on stdin.",
    ),
]
AgentTime = Annotated[
    float, typer.Option("--agent-time", metavar="S", min=0.1, help="Seconds for one task of it.")
]
MaxParallel = Annotated[
    int, typer.Option("--max-parallel", metavar="N", min=1, help="Independent stages at a time.")
]
ReportPath = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="Where the report goes: a free path below the root."),
]
Receiver = Annotated[
    str | None,
    typer.Option(
        "--notify",
        metavar="CMD|URL",
        envvar="WFCTL_NOTIFY",
        help="Who is told, as JSON on stdin or by POST, of a decision, a failure, the end.",
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(metavar="S", min=0, help="Leave what still runs to the next session after S."),
]


def run(
    context: typer.Context,
    agent: AgentCommand = None,
    agent_time: AgentTime = AGENT_TIME,
    agent_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who acts, else its program's name.")
    ] = None,
    max_parallel: MaxParallel = 1,
    time_limit: TimeLimit = None,
    report: ReportPath = None,
    notify: Receiver = None,
    autonomous: Annotated[
        bool | None,
        typer.Option("--autonomous/--attended", help="Detached, session after session, or not."),
    ] = None,
    max_sessions: Annotated[int, typer.Option(min=1, help="Autonomous: at most so many.")] = 20,
    session_seconds: Annotated[
        float, typer.Option(min=0.1, help="Autonomous: seconds for each session.")
    ] = 7200.0,
    between: Annotated[
        float, typer.Option(min=0, help="Autonomous: seconds between two sessions.")
    ] = 15.0,
    rapid: Annotated[
        int, typer.Option(min=1, help="Autonomous: so many futile sessions in a row end it.")
    ] = 3,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Drive the workflow in a session, as far as it goes without anybody.

    --autonomous does so session after session, detached, as session_config.autonomous does.
    """
    if dry_run:
        _rehearse(context)
        return
    given = LoopOptions(agent, agent_time, agent_name, max_parallel, report, notify)
    if autonomous is None:
        autonomous = is_wanted(context)
    options = write_options(dry_run, command_id, expected_version)
    if autonomous:
        if options != WriteOptions() or time_limit is not None:
            raise InvalidOption(
                "--autonomous makes sessions of its own: expected neither --command-id nor "
                "--expected-version nor --time-limit with it (--session-seconds limits each, and "
                "--attended makes one session here)"
            )
        limits = {
            "--max-sessions": max_sessions,
            "--session-seconds": session_seconds,
            "--between": between,
            "--rapid": rapid,
        }
        launch(context, given, limits)
        return
    _attended(context, given, time_limit, options)


def _attended(
    context: typer.Context, given: LoopOptions, time_limit: float | None, options: WriteOptions
) -> None:
    from cli.frame.notifying import notifying
    from reconciler.loop.interruption import interruptible
    from reconciler.loop.patience import patience
    from reconciler.loop.run import run as drive

    with engine(context) as (jobs, output), interruptible() as asked:
        jobs.service.log.store.be_patient(patience(jobs, asked))
        with notifying(jobs, given.notify) as told:
            ended = drive(told, given.orders(time_limit), options, asked)
        tell(jobs.service, output, ended)
    if asked.signal is not None and ended.exit_reason == "waiting":
        raise typer.Exit(128 + signal.Signals(asked.signal))
    if ended.exit_reason == "blocked" or ended.hindrances:
        raise typer.Exit(NEEDS_PERSON)


def tell(service: Service, output: Output, ended: Ended) -> None:
    """Print how the loop ended, and what leads on, by a look at the files too."""
    from reconciler.files.freshness import look

    known = output.next_actions(ended.state, look(service.root, service.log, ended.state))
    output.changed(ended.to_dict(), lambda: str(ended), ended.state, actions=ended.actions(known))


def _rehearse(context: typer.Context) -> None:
    from reconciler.files.freshness import look

    with reading(context) as workflow:
        state = workflow.state()
        seen = look(workflow.root, workflow.log, state)
        actions = workflow.output.next_actions(state, seen)
        text = "\n".join(f"would do: {action}" for action in actions)
        workflow.output.result(
            {"would": [a.to_dict() for a in actions]},
            lambda: text or "nothing to do",
            state=state,
            seen=seen,
        )
