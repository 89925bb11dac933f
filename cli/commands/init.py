"""``wfctl init``: create a workflow from a plan file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from cli.frame.approve_plan import approve_new_plan
from cli.frame.context import Context
from cli.frame.impact import pin_scripts_of_plan
from cli.frame.options import File, Text, Writes, argument, option
from cli.frame.workspace import (
    create_log,
    open_workflow_for_reading,
    settings_of,
    warn_password_not_stored,
)
from cli.frame.write_command import print_outcome
from cli.settings import Settings, actor_of
from cli.terminal.output import Output, print_message
from eventstore.database_url import is_postgres_url
from lifecycle.rules.amendments import signer_problems
from service.errors import InvalidOption, NotFound
from service.files.workflow_files import STATE
from service.questions.advice import collect_advice
from service.root.atomic_files import content_of, system_clock, utc_text
from service.root.root import Root, read_identity
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome


class ExampleMachine(StrEnum):
    """The scheduler types for which wfctl provides an example configuration file."""

    SLURM = "slurm"
    SLURM_SSH = "slurm-ssh"
    PBS = "pbs"


class Consent(StrEnum):
    """The ways in which a person can approve an amendment (a change of the plan)."""

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
    context: Context,
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
    from service.consent.consent_weaknesses import list_pin_contradictions
    from service.writing.initialise import root_at

    settings = settings_of(context)
    policy = {"consent": consent.value, "signers": signers_of(consent, signers, key)}
    root = root_at(settings.start, settings.database_url, settings.journal)
    outcome, options = _create_workflow(settings, root, plan, purpose, policy, options)
    for line in collect_advice(root.path, outcome.state):
        print_message(line)
    if not options.dry_run:
        # Warn if this folder is pinned to another log, because the approvals in the new log would
        # then be invalid.
        with open_workflow_for_reading(settings) as workflow:
            for doubt in list_pin_contradictions(workflow.log.approvals):
                print_message(f"warning: {doubt}")
        outcome = approve_new_plan(settings, root, outcome, f"init {plan}", key)
    warn_password_not_stored(settings.database_url)
    _warn_unverified_names(settings.database_url, outcome.state.consent)
    print_outcome(Output(settings, root=root), outcome, options)


def _warn_unverified_names(url: str | None, consent: str) -> None:
    """Print a warning that the database server does not verify the names of users.

    Print it only under the default consent policy, where a name alone identifies the person who
    approves.
    """
    if consent == "terminal" and is_postgres_url(url or ""):
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
    from service.files.plan_file_record import build_plan_file_record, write_plan_file_record
    from service.writing.initialise import initialise, options_with_plan_content

    record = build_plan_file_record(plan)
    content = read_plan(plan)
    document = pin_scripts_of_plan(content, root.path)
    command = command_of(
        document,
        created=utc_text(system_clock()),
        root=read_identity(root.path),
        purpose=purpose,
        **policy,
    )
    options = options_with_plan_content(
        options, document, purpose=purpose, consent=policy["consent"]
    )
    # The given plan may be the workflow's own state file, because the published agent skill writes
    # the plan there.
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
    if not options.dry_run:
        write_plan_file_record(root, record, content)
    return outcome, options


def _write_example(context: Context, name: str, source: str, told: str) -> None:
    """Copy an example file of the package to the new file ``name``, or to stdout (``-``).

    Raises `AlreadyThere` if the file exists. After writing a file, print the message ``told``.
    """
    from importlib.resources import files

    from cli.frame.write_command import write_new

    text = files("service").joinpath(source).read_text("utf-8")
    if name == "-":
        print(text, end="")
        return
    write_new(Path(name), text.encode())
    Output(settings_of(context)).result({"file": name}, lambda: told)


def _write_machine(context: Context, name: str, kind: ExampleMachine) -> None:
    if name != "-" and Path(name).suffix not in (".yaml", ".yml"):
        # DPDispatcher recognises a YAML file by this ending, and the example needs YAML for its
        # comments.
        raise InvalidOption(
            f"the file name {name!r} does not end in .yaml or .yml. Choose a file name with one "
            "of these endings."
        )
    told = f"{name}: a machine to start from; `config_path` of a backend profile names it"
    _write_example(context, name, f"example-machines/{kind.value}.yaml", told)


def signers_of(consent: Consent, source: Path | None, key: Path | None = None) -> list[str]:
    """Read the approved signers from an allowed-signers file, and return its entries.

    Raises `InvalidOption` if an entry is invalid or does not suit the consent policy, and if a
    ``key`` is given for a policy without signatures. Raises `NotFound` if the file does not exist.
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


#: Result that the command prints if the plan changes nothing.
_TWO_EXAMPLES = (
    "the options --example and --example-machine cannot be combined. Choose one of these options."
)
