"""``wfctl plan check`` and ``wfctl plan apply``: check a plan, or apply an edited plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cli.frame.context import Context
from cli.frame.exit_codes import FINDINGS
from cli.frame.impact import build_initial_state
from cli.frame.options import AgreeingKey, Why, Writes, argument, option
from cli.frame.workspace import (
    open_job_runner,
    open_workflow_for_reading,
    require_work_tree_of_root,
    settings_of,
)
from cli.settings import Settings
from cli.terminal.output import Output
from lifecycle.plan.advice import group_parameters_by_consumer
from lifecycle.rules.amendable import build_plan_change
from lifecycle.state.requested_resources import list_requests
from lifecycle.sweeps.parameters import WORDS_OF_PARAMETER
from lifecycle.words.mandates import format_count
from service.errors import InvalidOption
from service.questions.advice import collect_advice

if TYPE_CHECKING:
    from lifecycle.state.workflow import Workflow
    from reconciler.control.try_machines import MachineProblems


_NOTHING: dict[str, Any] = {"dry_run": False, "repeated": False, "events": [], "changed": False}


def check(
    context: Context,
    plan: Annotated[str, argument("FILE", "The plan file in JSON, YAML or TOML, or - for stdin.")],
    try_: bool = option(
        "--try",
        "Also connect to the clusters and computers in the plan, and report what would fail there.",
    ),
) -> None:
    """Check a plan file, and print its problems and advice.

    The command writes nothing. With --try, it also connects to the machines that the stages use.
    There it writes and removes a test file in `remote_root`, runs `sbatch --test-only`, and checks
    modules, environments and programs.
    """
    from service.documents.plan_file import read_plan

    settings = settings_of(context)
    state = build_initial_state(read_plan(plan), settings.start)
    parameters = {
        stage.id: group_parameters_by_consumer(stage.parameters) for stage in state.stages.values()
    }
    used = {name for of in parameters.values() for name in of["wfctl"]}
    words = {name: text for name, text in WORDS_OF_PARAMETER.items() if name in used}
    found = [*collect_advice(settings.start, state), *_suggest_resource_starts(settings, state)]
    data: dict[str, Any] = {
        "workflow": state.id,
        "stages": [*state.stages],
        "problems": [],
        "advice": found,
        "parameters": parameters,
        "words": words,
    }
    trials = _try_plan_machines(settings, state) if try_ else []
    data |= {"tried": [asdict(one) for one in trials]} if try_ else {}
    stages = format_count(len(state.stages), "stage")
    head = f"{plan}: valid plan with {stages}; {_describe_next_step(settings, plan)}"
    told = [f"{id_}: {line}" for id_, of in parameters.items() for line in _format_parameters(of)]
    told += [f"  {name}: {text}" for name, text in words.items()]
    told += [
        f"{stage.id}: {start}"
        for stage in state.stages.values()
        if (start := stage.work.describe_start())
    ]
    told += ["advice:", *(f"  {line}" for line in found)] if found else []
    told += [line for one in trials for line in _format_trial(one)]
    Output(settings).result(data, lambda: "\n".join([head, *told]))
    if any(one.problems for one in trials):
        raise SystemExit(FINDINGS)


def _suggest_resource_starts(settings: Settings, state: Workflow) -> list[str]:
    """Return advice about requested resources, if the folder contains earlier attempts."""
    is_growing = any(list_requests(state, stage) for stage in state.stages.values())
    if not (is_growing and (settings.start.absolute() / ".wfctl").is_dir()):
        return []
    from lifecycle.plan.resource_advice import suggest_resource_starts

    with open_workflow_for_reading(settings) as workflow:
        return suggest_resource_starts(state, workflow.state())


def _describe_next_step(settings: Settings, plan: str) -> str:
    """Return a sentence with the next command for a valid plan.

    The command is ``wfctl plan apply`` if the folder already contains a workflow, or else ``wfctl
    init``.
    """
    if (settings.start.absolute() / ".wfctl").is_dir():
        return f"`wfctl plan apply {plan}` proposes its changes for the workflow here"
    return f"create the workflow with `wfctl init {plan}`"


def _try_plan_machines(settings: Settings, state: Workflow) -> list[MachineProblems]:
    from reconciler.control.try_machines import try_machines

    return try_machines(settings.start.absolute(), state)


def _format_trial(trial: MachineProblems) -> Iterator[str]:
    head = f"{trial.profile} ({', '.join(trial.stages)})"
    if not trial.problems:
        yield f"{head}: all trials passed"
    for problem in trial.problems:
        yield f"{head}: would fail: {problem}"


#: Receiver of parameters → the words that introduce the list of these parameters.
_READERS = {
    "wfctl": "settings of wfctl",
    "command": "parameters of the command (a new value computes the stage again)",
    "verify": "parameters of the verify commands only (a new value checks the results again)",
}


def _format_parameters(parameters: dict[str, list[str]]) -> Iterator[str]:
    for reader, names in parameters.items():
        if names:
            yield f"{_READERS[reader]}: {', '.join(names)}"


def apply(
    context: Context,
    options: Writes,
    plan: Annotated[str, argument("FILE", "The plan file in JSON, YAML or TOML, or - for stdin.")],
    reason: Why = None,
    key: AgreeingKey = None,
) -> None:
    """Apply an edited plan to the workflow.

    wfctl proposes all differences from the current plan together, as one amendment. A person must
    approve this amendment.
    """
    from cli.commands.amend import ask_to_approve_proposal
    from cli.frame.consent import consenter_of
    from service.documents.plan_file import read_plan
    from service.files.plan_file_record import build_plan_file_record, write_plan_file_record

    require_work_tree_of_root(context)
    record = build_plan_file_record(plan)
    document = read_plan(plan)
    with open_job_runner(context, options.dry_run) as (jobs, output):
        service = jobs.service
        options = options._replace(content={"plan apply": document, "reason": reason})
        proposed = service.first_answer(options)
        state = service.state()
        consenter = consenter_of(state.consent, service.actor, key, None)
        if proposed is None:
            command = build_plan_change(
                state, build_initial_state(document, service.root.path), reason
            )
            if command is None:
                if not options.dry_run:
                    write_plan_file_record(service.root, record, document)
                said = f"{plan}: the workflow already matches the plan, so nothing changes"
                output.result(_NOTHING, lambda: said, state=state)
                return
            if not reason:
                raise InvalidOption(
                    "the plan has changed, and each change of a plan needs a reason. Give the "
                    "reason with --reason TEXT."
                )
            proposed = service.handle(command, options=options)
        if not options.dry_run:
            write_plan_file_record(service.root, record, document)
        ask_to_approve_proposal(jobs, output, proposed, consenter, options)
