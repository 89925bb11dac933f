"""``wfctl init``, ``import`` and ``plan …``: how a workflow begins, and a plan applied anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.approve_plan import approve_new_plan
from cli.frame.impact import begun_with, with_pins
from cli.frame.options import FINDINGS, AgreeingKey, File, Text, Why, Writes, argument, option
from cli.frame.workspace import (
    create_log,
    open_job_runner,
    reading_of,
    require_work_tree_of_root,
    settings_of,
    tell_of_password,
)
from cli.frame.write_command import print_outcome
from cli.settings import Settings, actor_of
from cli.terminal.output import Output, print_message
from eventstore.private_files import is_server
from lifecycle.plan.advice import group_parameters
from lifecycle.rules.amendable import build_plan_change
from lifecycle.rules.amendments import signer_problems
from lifecycle.sweeps.parameters import WORDS_OF_PARAMETER
from lifecycle.words.mandates import format_count
from service.errors import InvalidOption, NotFound
from service.files.workflow_files import STATE
from service.questions.causes import collect_advice
from service.root.atomic_files import content_of, system_clock, utc_text
from service.root.root import Root, read_identity
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome

if TYPE_CHECKING:
    from lifecycle.state.workflow import Workflow
    from reconciler.control.try_machines import Trial


class ExampleMachine(StrEnum):
    """A kind of machine of which an example file exists."""

    SLURM = "slurm"
    SLURM_SSH = "slurm-ssh"
    PBS = "pbs"


class Consent(StrEnum):
    """How a person agrees to an amendment."""

    TERMINAL = "terminal"
    SIGNATURE = "signature"
    TRUST = "trust"


Policy = Annotated[
    Consent,
    option(
        "Choose how people prove their approvals: by answering at a terminal, with an "
        "SSH signature, or not at all (trust)."
    ),
]
Signers = Annotated[
    File,
    option(
        "FILE",
        "Accept only approvals signed with an SSH key listed in this file "
        "(allowed-signers format of ssh-keygen). Requires --consent signature.",
    ),
]
PlanKey = Annotated[
    File,
    option(
        "FILE", "Sign your approval of the plan with this SSH key. Requires --consent signature."
    ),
]


def init(
    context: typer.Context,
    options: Writes,
    plan: Text = argument("PLAN", "The plan file in JSON, YAML or TOML, or - for stdin."),
    example: bool = option(
        "Write an example plan to the file PLAN (default: plan.toml), without creating a workflow."
    ),
    example_machine: Annotated[
        ExampleMachine | None,
        option(
            "KIND",
            "Write an example file that describes a cluster of this kind to PLAN "
            "(default: machine.yaml), without creating a workflow.",
        ),
    ] = None,
    purpose: Text = option(
        "Describe the purpose of the workflow. Default: the purpose in the plan."
    ),
    consent: Policy = Consent.TERMINAL,
    signers: Signers = None,
    key: PlanKey = None,
) -> None:
    """Create a workflow from a plan file.

    At a terminal, running `init` also approves the plan. If an agent runs `init`, a person must
    then approve the plan with `wfctl amend approve plan`, except with --consent trust.
    """
    if example and example_machine is not None:
        raise InvalidOption(_TWO_EXAMPLES)
    if example:
        name = plan or "plan.toml"
        told = f"{name}: example plan written; create the workflow with `wfctl init {name}`"
        _write_example(context, name, "example-plan.toml", told)
        return
    if example_machine is not None:
        _write_machine(context, plan or "machine.yaml", example_machine)
        return
    if plan is None:
        raise InvalidOption(
            "no plan file was given. To create an example plan, run `wfctl init --example`."
        )
    from service.consent.consent_weaknesses import list_pin_doubts
    from service.writing.initialise import root_at

    settings = settings_of(context)
    policy = {"consent": consent.value, "signers": signers_of(consent, signers, key)}
    root = root_at(settings.start, settings.database_url, settings.journal)
    outcome, options = _create_workflow(settings, root, plan, purpose, policy, options)
    for line in collect_advice(root.path, outcome.state):
        print_message(line)
    if not options.dry_run:
        # With another log pinned in the root none of this one's approvals would count.
        with reading_of(settings) as workflow:
            for doubt in list_pin_doubts(workflow.log.approvals):
                print_message(f"warning: {doubt}")
        outcome = approve_new_plan(settings, root, outcome, f"init {plan}", key)
    tell_of_password(settings.database_url)
    _tell_of_names(settings.database_url, outcome.state.consent)
    print_outcome(Output(settings, root=root), outcome, options)


def _tell_of_names(url: str | None, consent: str) -> None:
    """Print that a server does not check the names of actors, under the default policy."""
    if consent == "terminal" and is_server(url or ""):
        print_message(
            "wfctl: the server does not check the names of actors, so a member can approve under "
            "the name of another; `wfctl init --consent signature` proves who approved"
        )


def _create_workflow(
    settings: Settings,
    root: Root,
    plan: str,
    purpose: str | None,
    policy: dict[str, Any],
    options: WriteOptions,
) -> tuple[Outcome, WriteOptions]:
    from lifecycle.plan.document import build_creation_payload as command_of
    from service.documents.plan_file import read_plan
    from service.writing.initialise import init_options, initialise

    document = with_pins(read_plan(plan), root.path)
    command = command_of(
        document,
        created=utc_text(system_clock()),
        root=read_identity(root.path),
        purpose=purpose,
        **policy,
    )
    options = init_options(options, document, purpose=purpose, consent=policy["consent"])
    # The plan may be the root's own state file, as the published skill leaves it.
    own = root.path / STATE
    is_own = plan != "-" and own.exists() and Path(plan).resolve() == own.resolve()
    outcome = initialise(
        root,
        command,
        connect=create_log,
        actor=actor_of(settings),
        clock=system_clock,
        options=options,
        source=content_of(own) if is_own else None,
    )
    return outcome, options


def _write_example(context: typer.Context, name: str, source: str, told: str) -> None:
    """Write a file of the package under a new name, or to stdout if the name is ``-``."""
    from importlib.resources import files

    from cli.frame.write_command import write_new

    text = files("service").joinpath(source).read_text("utf-8")
    if name == "-":
        print(text, end="")
        return
    write_new(Path(name), text.encode())
    Output(settings_of(context)).result({"file": name}, lambda: told)


def _write_machine(context: typer.Context, name: str, kind: ExampleMachine) -> None:
    if name != "-" and Path(name).suffix not in (".yaml", ".yml"):
        # DPDispatcher reads YAML by this ending alone, and only YAML has comments.
        raise InvalidOption(
            f"the file name {name!r} does not end in .yaml or .yml. Choose a file name with one "
            "of these endings."
        )
    told = f"{name}: a machine to start from; `config_path` of a backend profile names it"
    _write_example(context, name, f"example-machines/{kind.value}.yaml", told)


def signers_of(consent: Consent, source: Path | None, key: Path | None = None) -> list[str]:
    """Return the lines of an allowed-signers file; raises `InvalidOption` for unusable ones.

    So for a ``key`` that no policy asks for.
    """
    try:
        lines = source.read_text("utf-8").splitlines() if source is not None else []
    except FileNotFoundError:
        raise NotFound(f"{source} contains no allowed signers") from None
    found = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    problems = signer_problems(consent.value, found)
    if key is not None and consent is not Consent.SIGNATURE:
        problems.append(f"--key can be used only with --consent signature, found {consent.value}")
    if problems:
        raise InvalidOption("; ".join(problems))
    return found


#: The answer if a plan changes nothing.
_TWO_EXAMPLES = (
    "the options --example and --example-machine cannot be combined. Choose one of these options."
)
_NOTHING: dict[str, Any] = {"dry_run": False, "repeated": False, "events": [], "changed": False}


def check(
    context: typer.Context,
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
    state = begun_with(read_plan(plan), settings.start)
    parameters = {stage.id: group_parameters(stage.parameters) for stage in state.stages.values()}
    used = {name for of in parameters.values() for name in of["wfctl"]}
    words = {name: text for name, text in WORDS_OF_PARAMETER.items() if name in used}
    found = collect_advice(settings.start, state)
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
    told += ["advice:", *(f"  {line}" for line in found)] if found else []
    told += [line for one in trials for line in _shown_of(one)]
    Output(settings).result(data, lambda: "\n".join([head, *told]))
    if any(one.problems for one in trials):
        raise typer.Exit(FINDINGS)


def _describe_next_step(settings: Settings, plan: str) -> str:
    """Return how to use a valid plan: in a new workflow, or in the existing workflow."""
    if (settings.start.absolute() / ".wfctl").is_dir():
        return f"`wfctl plan apply {plan}` proposes its changes for the workflow here"
    return f"create the workflow with `wfctl init {plan}`"


def _try_plan_machines(settings: Settings, state: Workflow) -> list[Trial]:
    from reconciler.control.try_machines import try_machines

    return try_machines(settings.start.absolute(), state)


def _shown_of(trial: Trial) -> Iterator[str]:
    head = f"{trial.profile} ({', '.join(trial.stages)})"
    if not trial.problems:
        yield f"{head}: all trials passed"
    for problem in trial.problems:
        yield f"{head}: would fail: {problem}"


#: Introduction to a list of parameters, by who gets them.
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
    context: typer.Context,
    options: Writes,
    plan: Annotated[str, argument("FILE", "The plan file in JSON, YAML or TOML, or - for stdin.")],
    reason: Why = None,
    key: AgreeingKey = None,
) -> None:
    """Apply an edited plan to the workflow.

    wfctl proposes all differences from the current plan together, as one amendment. A person must
    approve this amendment.
    """
    from cli.commands.amend import decide_proposals
    from cli.frame.consent import consenter_of
    from service.documents.plan_file import read_plan

    require_work_tree_of_root(context)
    document = read_plan(plan)
    with open_job_runner(context, options.dry_run) as (jobs, output):
        service = jobs.service
        options = replace(options, content={"plan apply": document, "reason": reason})
        proposed = service.first_answer(options)
        state = service.state()
        consenter = consenter_of(state.consent, service.actor, key, None)
        if proposed is None:
            command = build_plan_change(state, begun_with(document, service.root.path), reason)
            if command is None:
                said = f"{plan}: the workflow already matches the plan, so nothing changes"
                output.result(_NOTHING, lambda: said, state=state)
                return
            if not reason:
                raise InvalidOption(
                    "the plan has changed, and each change of a plan needs a reason. Give the "
                    "reason with --reason TEXT."
                )
            proposed = service.handle(command, options=options)
        decide_proposals(jobs, output, proposed, consenter, options)
