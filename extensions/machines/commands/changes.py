"""The commands that change a phase machine. Each command records one event."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ValidationError

from cli.frame.ask_decision import NOBODY, Decision, DecisionKey, record_decisions
from cli.frame.consent import Wording, consenter_of
from cli.frame.context import Context
from cli.frame.options import File, Text, Texts, Why, Writes, argument, option
from cli.terminal.output import print_statement
from extensions.machines.commands.output import (
    Data,
    DespiteClaim,
    MachineId,
    TaskId,
    Under,
    Values,
    open_for_writing,
    parse_data_option,
    parse_path_values,
    print_outcome,
)
from extensions.machines.rules import payload as p
from extensions.machines.rules.decide import limit_in_force
from extensions.machines.rules.errors import InvalidInput
from extensions.machines.service import approval as decisions
from lifecycle.errors import NeedsConsent
from lifecycle.payload.base import Payload
from lifecycle.words.document import record_key_order
from lifecycle.words.validation_errors import explain_validation_error_at_path
from lifecycle.words.values import parse_span
from projections.words.text import spell_unseen
from service.writing.stream_writer import WriteOptions
from wording import FirstReasons


def update(
    context: Context,
    options: Writes,
    machine: MachineId,
    values: Values = None,
    data: Data = None,
    under: Under = None,
) -> None:
    """Set fields in the state of a phase machine.

    To change the phase, use `wfctl machine transition`.
    """
    fields = {**parse_data_option(data), **parse_path_values(values)}
    if not fields:
        raise InvalidInput(
            "no field to update was given. Give PATH=VALUE, or a JSON object with --data."
        )
    changes = [p.change_of(path, value) for path, value in fields.items()]
    listed = [change.model_dump(mode="json") for change in changes]
    command = p.MachineUpdated(changes=changes, layout=record_key_order(listed))
    _run_and_print_commands(context, machine, options, command, under=under)


def transition(
    context: Context,
    options: Writes,
    machine: MachineId,
    to: Text = argument("[PHASE]", "The phase to enter."),
    auto: bool = option("Enter the next phase, if only one phase can be entered now."),
    reason: Why = None,
) -> None:
    """Move a phase machine to another phase.

    wfctl refuses the move if the conditions for the new phase are not met.
    """
    if auto == (to is not None):
        raise InvalidInput("expected either a PHASE or --auto")
    _run_and_print_commands(
        context, machine, options, build_command(p.MachineTransitioned, to=to, reason=reason)
    )


def append(
    context: Context,
    options: Writes,
    machine: MachineId,
    name: Annotated[str, argument("TYPE", "The event type, for example synthesize.requested.")],
    data: Text = option(
        "JSON|@FILE|-",
        "Set the data of the event: a JSON object, a file that contains the object "
        "(@FILE), or - for stdin.",
    ),
) -> None:
    """Record an event of a type that the phase machine defines."""
    _run_and_print_commands(
        context,
        machine,
        options,
        build_command(p.MachineRecorded, name=name, data=parse_data_option(data)),
    )


def task(
    context: Context,
    options: Writes,
    machine: MachineId,
    task_id: TaskId,
    values: Texts = argument("[FIELD=VALUE]…", "The fields of the task to set."),
    status: Text = option("Set the status of the task, for example complete."),
    title: Text = option("Set the title of the task."),
    reason: Why = None,
    under: Under = None,
    despite_claim: DespiteClaim = None,
) -> None:
    """Add a task to a phase machine, or change a task."""
    named = {"title": title, "status": status}
    changes = {key: value for key, value in named.items() if value is not None} | parse_path_values(
        values
    )
    if task_id in ("claim", "release") and not changes:
        way = f"`wfctl machine task {task_id} {machine} TASK`"
        raise InvalidInput(
            f"the action {task_id} must come before the id of the machine. Run {way}.", task=task_id
        )
    command = build_command(p.MachineTaskChanged, task=task_id, changes=changes, reason=reason)
    commands = [*_build_release_commands(task_id, despite_claim), command]
    _run_and_print_commands(context, machine, options, *commands, under=under)


def checkpoint(
    context: Context,
    options: Writes,
    machine: MachineId,
    summary: Annotated[str, option("TEXT", "Describe the completed work for the next session.")],
    next_: Texts = option(
        "--next", "TEXT", "Describe a next step, for the next session. You can repeat this option."
    ),
) -> None:
    """Write a summary and next steps for the next session."""
    command = build_command(p.MachineCheckpointed, summary=summary, next=next_ or [])
    _run_and_print_commands(context, machine, options, command)


def cancel(context: Context, options: Writes, machine: MachineId, reason: Why = None) -> None:
    """Cancel a phase machine.

    The command lists the git branches, worktrees and pull request that remain.
    """
    from extensions.machines.service.guard_facts import list_git_leftovers

    command = build_command(p.MachineCancelled, reason=reason)
    with open_for_writing(context, machine, options.dry_run) as (service, output):
        left = list_git_leftovers(service.root.path, service.state())
        print_outcome(output, service, service.handle(command, options=options), options, left=left)


def _run_and_print_commands(
    context: Context,
    machine: str,
    options: WriteOptions,
    *commands: Payload,
    under: str | None = None,
) -> None:
    with open_for_writing(context, machine, options.dry_run, under) as (service, output):
        print_outcome(output, service, service.handle(*commands, options=options), options)


def _build_release_commands(task_id: str, why: str | None) -> list[Payload]:
    if why is None:
        return []
    return [build_command(p.MachineTaskReleased, task=task_id, reason=why, despite=True)]


def build_command(kind: type[Payload], **fields: Any) -> Payload:
    """Return a command for a machine. Raise `InvalidInput` if a field is not allowed."""
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        problems = FirstReasons(explain_validation_error_at_path(e) for e in error.errors())
        raise InvalidInput(
            f"the values do not match the event {kind.type}: {'; '.join(problems)}",
            problems=problems,
        ) from error


_WORDING = Wording(
    told=lambda question: question.text,
    approve="wfctl machine approve",
    show="wfctl machine approve",
)


def approve(
    context: Context,
    options: Writes,
    machine: MachineId,
    approval: Annotated[
        str,
        argument("APPROVAL", "The name of the approval, as `wfctl machine describe` prints it."),
    ],
    choice: Text = option(
        "FILE", "Select this file, if the approval requires a choice between several files."
    ),
    key: File = option(
        "FILE",
        "Sign your approval with this SSH key. FILE is the private key, or the .pub file "
        "of a key in ssh-agent.",
    ),
    signature: File = option(
        "FILE",
        "Approve with this signature file. To create the file, sign the output of "
        "`wfctl machine approve --statement`.",
    ),
    statement: bool = option(
        "Print only the text to sign, so that you can sign your approval on another computer."
    ),
    withdraw: bool = option("Withdraw your earlier approval."),
) -> None:
    """Approve what a phase waits for, or withdraw your approval.

    Only a person can do this.
    """
    with open_for_writing(context, machine, options.dry_run or statement) as (service, output):
        if not (statement or options.dry_run):
            outcome = decisions.record_approval(
                service,
                approval,
                choice,
                lambda policy: consenter_of(policy, service.actor, key, signature, _WORDING),
                options,
                withdraws=withdraw,
            )
            if outcome is None:
                why = f"{approval} was not approved, so nothing was recorded."
                raise NeedsConsent(why, machine=service.log.machine, approval=approval)
            print_outcome(output, service, outcome, options)
            return
        question = decisions.question_of(service, approval, choice, withdraws=withdraw)
        if statement:
            print_statement(question.statement)
            return
        asked = decisions.build_request(approval, question.choice, withdraw)
        planned = asked.model_copy(update={"proof": NOBODY})
        print_outcome(output, service, service.handle(planned, options=options), options)


def claim(
    context: Context,
    options: Writes,
    machine: MachineId,
    task_id: TaskId,
    for_: str = option(
        "--for",
        "TIME",
        "Reserve the task for this time, for example 90s, 30m, 12h or 7d. Other "
        "people and agents cannot change the task until then.",
        default="30m",
    ),
    renew: bool = option("Extend your current reservation of the task."),
    under: Under = None,
    despite_claim: DespiteClaim = None,
) -> None:
    """Reserve a task for a limited time.

    Until the claim ends, other actors cannot change the task. The exit code is 4 if another actor
    has claimed the task.
    """
    found = parse_span(for_)
    if found is None:
        raise InvalidInput(
            f"the value {for_!r} of the option --for is not a valid duration. Give a duration "
            "such as 90s, 30m or 12h."
        )
    seconds = int(found.total_seconds())
    command = build_command(p.MachineTaskClaimed, task=task_id, seconds=seconds, renew=renew)
    commands = [*_build_release_commands(task_id, despite_claim), command]
    _run_and_print_commands(context, machine, options, *commands, under=under)


def release(
    context: Context,
    options: Writes,
    machine: MachineId,
    task_id: TaskId,
    reason: Why = None,
    under: Under = None,
    despite_claim: DespiteClaim = None,
) -> None:
    """End your claim, so that others can claim the task."""
    if reason is not None and despite_claim is not None:
        raise InvalidInput(
            "the options --despite-claim and --reason cannot be combined, because "
            "--despite-claim already contains the reason. Remove --reason."
        )
    commands = _build_release_commands(task_id, despite_claim)
    commands = commands or [build_command(p.MachineTaskReleased, task=task_id, reason=reason)]
    _run_and_print_commands(context, machine, options, *commands, under=under)


def limit(
    context: Context,
    options: Writes,
    machine: MachineId,
    loop: Annotated[
        str, argument("LOOP", "The name of the loop, i.e. a group of phases that may repeat.")
    ],
    times: Annotated[int, argument("N", "The new maximum number of repetitions.")],
    reason: Annotated[
        str, option("TEXT", "Record this text in the log as the reason for the change.")
    ],
    key: DecisionKey = None,
) -> None:
    """Change how often a loop of a phase machine may repeat.

    Only a person can do this.
    """
    with open_for_writing(context, machine, options.dry_run) as (service, output):
        state = service.state()
        before = limit_in_force(state, loop)
        command = build_command(p.MachineLimited, loop=loop, before=before, to=times, reason=reason)
        told = (
            f"{state.id} ({state.definition.title}), in {state.phase}",
            f"the loop {loop} may run {times} times instead of {before}",
            f"{state.counts.get(loop, 0)} are used; because: {reason}",
        )
        text = "\n".join(map(spell_unseen, told))
        asked = [] if before == times else [Decision(command, f"{machine} {loop}", text)]
        line = f"wfctl machine limit {machine} {loop} {times} --reason TEXT"
        outcome = record_decisions(service, asked, line, key, options)
        print_outcome(output, service, outcome, options)
