"""``wfctl init``, ``import`` and ``plan …``: how a workflow begins, and a plan applied anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.beginning import agreed
from cli.frame.impact import begun_with, with_pins
from cli.frame.options import FINDINGS, AgreeingKey, File, Text, Why, Writes, argument, option
from cli.frame.workspace import (
    create,
    engine,
    reading_of,
    require_work_tree_of_root,
    settings_of,
    tell_of_password,
)
from cli.frame.writes import foreseen, tell
from cli.settings import Settings, actor_of
from cli.terminal.output import Output, say
from lifecycle.plan.advice import parameters_of
from lifecycle.plan.fields import WORDS_OF_PARAMETER
from lifecycle.rules.amendable import replanned
from lifecycle.rules.amendments import signer_problems
from service.errors import InvalidOption, NotFound
from service.files.workflow_files import STATE
from service.questions.causes import advice_of
from service.root.disk import content_of, system_clock, utc_text
from service.root.root import Root, identity
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome

if TYPE_CHECKING:
    from lifecycle.state.workflow import Workflow
    from reconciler.control.trial import Trial
    from service.adoption.adopt import ImportResult
    from service.adoption.versions import ImportFinding


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


def init(
    context: typer.Context,
    options: Writes,
    plan: Text = argument("PLAN", "Plan file in JSON, YAML or TOML; - reads stdin."),
    example: bool = option("Write an example plan and create no workflow."),
    example_machine: Annotated[
        ExampleMachine | None,
        option("KIND", "Write an example machine file of a cluster and create no workflow."),
    ] = None,
    purpose: Text = option("Purpose of the workflow."),
    consent: Consent = option("Choose how amendments are approved.", default=Consent.TERMINAL),
    signers: File = option("FILE", "Allowed signers (ssh-keygen), for --consent signature."),
    key: File = option("FILE", "With --consent signature: approve the plan with this SSH key."),
) -> None:
    """Create a workflow from a plan file.

    At a terminal, `init` is your approval of the plan. A plan that an agent submits waits for
    `wfctl amend approve plan`, except under --consent trust.
    """
    if example and example_machine is not None:
        raise InvalidOption("expected --example or --example-machine, found both")
    if example:
        name = plan or "plan.toml"
        told = f"{name}: a plan to start from; `wfctl init {name}` takes it"
        _write_example(context, name, "example-plan.toml", told)
        return
    if example_machine is not None:
        _write_machine(context, plan or "machine.yaml", example_machine)
        return
    if plan is None:
        raise InvalidOption("expected a PLAN; `wfctl init --example` writes one to start from")
    from service.consent.doubts import of_pins
    from service.writing.initialise import root_at

    settings = settings_of(context)
    policy = {"consent": consent.value, "signers": signers_of(consent, signers, key)}
    root = root_at(settings.start, settings.database_url, settings.journal)
    outcome, options = _begun(settings, root, plan, purpose, policy, options)
    for line in advice_of(root.path, outcome.state):
        say(line)
    if not options.dry_run:
        # With another log pinned in the root none of this one's approvals would count.
        with reading_of(settings) as workflow:
            for doubt in of_pins(workflow.log.approvals):
                say(f"warning: {doubt}")
        outcome = agreed(settings, root, outcome, f"init {plan}", key)
    tell_of_password(settings.database_url)
    tell(Output(settings, root=root), outcome, options)


def _begun(
    settings: Settings,
    root: Root,
    plan: str,
    purpose: str | None,
    policy: dict[str, Any],
    options: WriteOptions,
) -> tuple[Outcome, WriteOptions]:
    from lifecycle.plan.document import create as command_of
    from service.documents.plan_file import read_plan
    from service.writing.initialise import init_options, initialise

    document = with_pins(read_plan(plan), root.path)
    command = command_of(
        document,
        created=utc_text(system_clock()),
        root=identity(root.path),
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
        connect=create,
        actor=actor_of(settings),
        clock=system_clock,
        options=options,
        source=content_of(own) if is_own else None,
    )
    return outcome, options


def _write_example(context: typer.Context, name: str, source: str, told: str) -> None:
    """Write a file of the package under a new name, or to stdout if the name is ``-``."""
    from importlib.resources import files

    from cli.frame.checkpoints import write_new

    text = files("service").joinpath(source).read_text("utf-8")
    if name == "-":
        print(text, end="")
        return
    write_new(Path(name), text.encode())
    Output(settings_of(context)).result({"file": name}, lambda: told)


def _write_machine(context: typer.Context, name: str, kind: ExampleMachine) -> None:
    if name != "-" and Path(name).suffix not in (".yaml", ".yml"):
        # DPDispatcher reads YAML by this ending alone, and only YAML has comments.
        raise InvalidOption(f"expected a name that ends in .yaml or .yml, found {name!r}")
    told = f"{name}: a machine to start from; `config_path` of a backend profile names it"
    _write_example(context, name, f"example-machines/{kind.value}.yaml", told)


def signers_of(consent: Consent, source: Path | None, key: Path | None = None) -> list[str]:
    """Return the lines of an allowed-signers file; raises `InvalidOption` for unusable ones.

    So for a ``key`` that no policy asks for.
    """
    try:
        lines = source.read_text("utf-8").splitlines() if source is not None else []
    except FileNotFoundError:
        raise NotFound(f"no allowed signers at {source}") from None
    found = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    problems = signer_problems(consent.value, found)
    if key is not None and consent is not Consent.SIGNATURE:
        problems.append(f"--key is for --consent signature, found {consent.value}")
    if problems:
        raise InvalidOption("; ".join(problems))
    return found


def import_(
    context: typer.Context,
    options: Writes,
    source: Annotated[
        Path,
        argument("DIR|FILE", "Folder with workflow-state.json and progress.log, or an archive."),
    ],
    into: File = option("DIR2", "Create the workflow in this folder."),
    git: bool = option("Import every version in the git history of DIR, oldest first."),
    utc_offset: Text = option(
        "+HH:MM", "UTC offset of times without one (default: detected, or local)."
    ),
    consent: Consent = option("Choose how amendments are approved.", default=Consent.TERMINAL),
    signers: File = option("FILE", "Allowed signers (ssh-keygen), for --consent signature."),
    key: File = option("FILE", "With --consent signature: approve the plan with this SSH key."),
) -> None:
    """Import a workflow kept by hand, or an archive.

    The import reports what is wrong in the files. Nothing in them is changed.
    """
    if source.is_file():
        from cli.commands.backup import restoring

        _only_of_a_folder(context)
        restoring(context, source, into, options.dry_run)
        return
    from reconciler.files.described import rests_of_imported
    from service.adoption.adopt import adopt
    from service.adoption.state_file import parse_offset
    from service.adoption.versions import read_sources
    from service.writing.initialise import root_at

    settings = settings_of(context)
    zone = parse_offset(utc_offset) if utc_offset is not None else None
    if utc_offset is not None and zone is None:
        wrong = f"expected an offset such as +02:00 or Z, found {utc_offset!r}"
        raise InvalidOption(wrong, value=utc_offset)
    sources = read_sources(source.resolve(), now=utc_text(system_clock()), git=git, zone=zone)
    place = _place(into or settings.root or source, options.dry_run)
    root = root_at(place, settings.database_url, settings.journal)
    content = {"import": str(sources.folder), "git": git, "consent": consent.value}
    options = replace(options, content=content)
    adoption = adopt(
        root,
        sources,
        connect=create,
        actor=actor_of(settings),
        clock=system_clock,
        options=options,
        rests_of=rests_of_imported,
        consent=consent.value,
        signers=signers_of(consent, signers, key),
    )
    if not options.dry_run:
        outcome = agreed(settings, root, adoption.outcome, f"import {source}", key)
        adoption = replace(adoption, outcome=outcome)
    _tell(Output(settings, root=root), adoption, options)


def _only_of_a_folder(context: typer.Context) -> None:
    """Raise `InvalidOption` for what an archive settles itself: it is restored as it was."""
    names = ("git", "utc_offset", "consent", "signers", "key", "command_id", "expected_version")
    sources = {name: context.get_parameter_source(name) for name in names}
    typed = [name for name, of in sources.items() if of is not None and of.name == "COMMANDLINE"]
    if typed:
        given = ", ".join(f"--{name.replace('_', '-')}" for name in typed)
        raise InvalidOption(
            f"an archive is restored as it was, its consent and the ids of its commands too: "
            f"expected a folder with {given}, found a file"
        )


def _place(place: Path, dry_run: bool) -> Path:
    if place.exists() or not place.parent.is_dir():
        return place
    if dry_run:
        return place.parent
    place.mkdir()
    return place


def _tell(output: Output, adoption: ImportResult, options: WriteOptions) -> None:
    outcome, findings = adoption.outcome, adoption.findings
    types = Counter(payload.type for payload, _ in outcome.planned)
    data = {
        "dry_run": options.dry_run,
        "repeated": outcome.repeated,
        "workflow": outcome.state.id,
        "source": str(adoption.sources.folder),
        "versions": len(adoption.sources.versions),
        "events": len(outcome.events or outcome.planned),
        "findings": [finding.to_dict() for finding in findings],
        **foreseen(outcome, options),
    }
    kinds = Counter(finding.kind for finding in findings).most_common()
    lines = [
        *_table(output, findings),
        (
            f"{'would import' if options.dry_run else 'imported'} {outcome.state.id}: "
            f"{data['events']} events ({types['line.imported']} of lines, "
            f"{types['state.imported']} of states)"
        ),
        f"findings: {', '.join(f'{number} {kind}' for kind, number in kinds) or 'none'}",
    ]
    position = outcome.events[-1].position if outcome.events else None
    output.changed(
        data,
        lambda: "\n".join(lines),
        outcome.state,
        is_rehearsal=options.dry_run,
        position=position,
    )


def _table(output: Output, findings: tuple[ImportFinding, ...]) -> Iterator[str]:
    rows = []
    for one in findings:
        commit = f"{one.commit[:9]}:" if one.commit else ""
        last = "" if one.last_line in (None, one.line) else f"-{one.last_line}"
        rows.append((one.kind, f"{commit}{one.file}:{one.line}{last}", one.stage or ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row, one in zip(rows, findings, strict=True):
        kind, where, stage = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        yield f"{output.style(kind, '33')}  {where}  {stage}  {one.evidence}"


#: The answer where a plan changes nothing.
_NOTHING: dict[str, Any] = {"dry_run": False, "repeated": False, "events": [], "changed": False}


def check(
    context: typer.Context,
    plan: Annotated[str, argument("FILE", "Plan file in JSON, YAML or TOML; - reads stdin.")],
    try_: bool = option("--try", "Contact the machines of the plan and print what would fail."),
) -> None:
    """Check a plan: print every problem and advice, and write nothing.

    With --try: connect to the machine of each profile that stages use, write and remove a file in
    its `remote_root`, ask `sbatch --test-only`, and check modules, environments and programs.
    """
    from service.documents.plan_file import read_plan

    settings = settings_of(context)
    state = begun_with(read_plan(plan), settings.start)
    parameters = {stage.id: parameters_of(stage.parameters) for stage in state.stages.values()}
    used = {name for of in parameters.values() for name in of["wfctl"]}
    words = {name: text for name, text in WORDS_OF_PARAMETER.items() if name in used}
    found = advice_of(settings.start, state)
    data: dict[str, Any] = {
        "workflow": state.id,
        "stages": [*state.stages],
        "problems": [],
        "advice": found,
        "parameters": parameters,
        "words": words,
    }
    trials = _trials(settings, state) if try_ else []
    data |= {"tried": [asdict(one) for one in trials]} if try_ else {}
    head = f"{plan}: a plan of {len(state.stages)} stages; `wfctl init {plan}` takes it"
    told = [f"{id_}: {line}" for id_, of in parameters.items() for line in _shown(of)]
    told += [f"  {name}: {text}" for name, text in words.items()]
    told += ["advice, which nothing enforces:", *(f"  {line}" for line in found)] if found else []
    told += [line for one in trials for line in _shown_of(one)]
    Output(settings).result(data, lambda: "\n".join([head, *told]))
    if any(one.problems for one in trials):
        raise typer.Exit(FINDINGS)


def _trials(settings: Settings, state: Workflow) -> list[Trial]:
    from reconciler.control.trial import try_machines

    return try_machines(settings.start.absolute(), state)


def _shown_of(trial: Trial) -> Iterator[str]:
    head = f"{trial.profile} ({', '.join(trial.stages)})"
    if not trial.problems:
        yield f"{head}: nothing that was tried would fail"
    for problem in trial.problems:
        yield f"{head}: would fail: {problem}"


def _shown(parameters: dict[str, list[str]]) -> Iterator[str]:
    for reader, names in parameters.items():
        if names:
            whose = "wfctl reads" if reader == "wfctl" else "its command alone reads"
            yield f"{whose} {', '.join(names)}"


def apply(
    context: typer.Context,
    options: Writes,
    plan: Annotated[str, argument("FILE", "Plan file in JSON, YAML or TOML; - reads stdin.")],
    reason: Why = None,
    key: AgreeingKey = None,
) -> None:
    """Apply an edited plan as one amendment."""
    from cli.commands.amend import decide
    from cli.frame.consent import consenter_of
    from service.documents.plan_file import read_plan

    require_work_tree_of_root(context)
    document = read_plan(plan)
    with engine(context, options.dry_run) as (jobs, output):
        service = jobs.service
        options = replace(options, content={"plan apply": document, "reason": reason})
        proposed = service.first_answer(options)
        state = service.state()
        consenter = consenter_of(state.consent, service.actor, key, None)
        if proposed is None:
            command = replanned(state, begun_with(document, service.root.path), reason)
            if command is None:
                said = f"{plan}: the workflow is as the plan says; there is nothing to change"
                output.result(_NOTHING, lambda: said, state=state)
                return
            if not reason:
                raise InvalidOption("a changed plan says why: give --reason TEXT")
            proposed = service.handle(command, options=options)
        decide(jobs, output, proposed, consenter, options)
