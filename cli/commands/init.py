"""``wfctl init``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.beginning import agreed
from cli.frame.options import CommandId, DryRun, ExpectedVersion, write_options
from cli.frame.planned import with_pins
from cli.frame.workspace import create, reading_of, settings_of, tell_of_password
from cli.frame.writes import tell
from cli.settings import Settings, actor_of
from cli.terminal.output import Output, say

if TYPE_CHECKING:
    from service.root.root import Root
    from service.writing.stream_writer import WriteOptions
    from service.writing.workflow_service import Outcome


class Consent(StrEnum):
    """How a person agrees to an amendment."""

    TERMINAL = "terminal"
    SIGNATURE = "signature"
    TRUST = "trust"


def init(
    context: typer.Context,
    plan: Annotated[
        str | None, typer.Argument(metavar="PLAN", help="JSON, YAML or TOML; - is stdin.")
    ] = None,
    example: Annotated[
        bool, typer.Option("--example", help="Write a plan to start from, and make nothing of it.")
    ] = False,
    purpose: Annotated[str | None, typer.Option(help="What the workflow is for.")] = None,
    consent: Annotated[
        Consent, typer.Option(help="How amendments are agreed to.")
    ] = Consent.TERMINAL,
    signers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Allowed signers (ssh-keygen), for --consent signature."),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Under signature: agree to the plan by this SSH key."),
    ] = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Make a workflow here from a plan; typed at a terminal it is the approval of the plan.

    Begun by an agent the plan waits for `wfctl amend approve plan`; under --consent trust it goes
    on without.
    """
    if example:
        _write_example(context, plan or "plan.toml")
        return
    if plan is None:
        from service.errors import InvalidOption

        raise InvalidOption("expected a PLAN; `wfctl init --example` writes one to start from")
    from service.questions.advice import advice_of

    settings = settings_of(context)
    root, outcome, options = _begun(
        settings,
        plan,
        purpose,
        policy_of(consent, signers, key),
        write_options(dry_run, command_id, expected_version),
    )
    for line in advice_of(root.path, outcome.state):
        say(line)
    if not dry_run:
        _tell_of_pin(settings)
        outcome = agreed(settings, root, outcome, f"init {plan}", key)
    tell_of_password(settings.database_url)
    tell(Output(settings, root=root), outcome, options)


def _begun(
    settings: Settings,
    plan: str,
    purpose: str | None,
    policy: dict[str, Any],
    options: WriteOptions,
) -> tuple[Root, Outcome, WriteOptions]:
    """Begin the workflow of a plan; ``policy`` is how people agree to it, and who may."""
    from lifecycle.plan.document import create as command_of
    from service.documents.plan_file import read_plan
    from service.files.workflow_files import STATE
    from service.root.clock import system_clock, utc_text
    from service.root.disk import content_of
    from service.writing.initialise import init_options, initialise, root_at
    from service.writing.place import identity

    root = root_at(settings.start, settings.database_url, settings.journal)
    document = with_pins(read_plan(plan), root.path)
    own = root.path / STATE
    command = command_of(
        document,
        created=utc_text(system_clock()),
        root=identity(root.path),
        purpose=purpose,
        **policy,
    )
    options = init_options(options, document, purpose=purpose, consent=policy["consent"])
    outcome = initialise(
        root,
        command,
        connect=create,
        actor=actor_of(settings),
        clock=system_clock,
        options=options,
        source=content_of(own) if _is_same(plan, own) else None,
    )
    return root, outcome, options


def _is_same(plan: str, own: Path) -> bool:
    """Say whether the plan is the root's own state file, as the published skill leaves it."""
    return plan != "-" and own.exists() and Path(plan).resolve() == own.resolve()


def _tell_of_pin(settings: Settings) -> None:
    """Say where another log is pinned in the root: none of this one's approvals would count."""
    from service.consent.doubts import of_pins

    with reading_of(settings) as workflow:
        for doubt in of_pins(workflow.log.approvals):
            say(f"warning: {doubt}")


def _write_example(context: typer.Context, name: str) -> None:
    """Write the commented plan to a file that is not there yet, or to stdout."""
    from importlib.resources import files

    from service.errors import AlreadyThere

    text = files("service").joinpath("example-plan.toml").read_text("utf-8")
    if name == "-":
        print(text, end="")
        return
    try:
        with Path(name).open("x", encoding="utf-8") as made:
            made.write(text)
    except FileExistsError:
        raise AlreadyThere(Path(name)) from None
    Output(settings_of(context)).result(
        {"file": name}, lambda: f"{name}: a plan to start from; `wfctl init {name}` takes it"
    )


def policy_of(consent: Consent, signers: Path | None, key: Path | None) -> dict[str, Any]:
    """Return how people agree, as the first event has it; raises as `signers_of` does."""
    return {"consent": consent.value, "signers": signers_of(consent, signers, key)}


def signers_of(consent: Consent, source: Path | None, key: Path | None = None) -> list[str]:
    """Return the lines of an allowed-signers file; raises `InvalidOption` for unusable ones.

    So for a ``key`` that no policy asks for.
    """
    from lifecycle.rules.amendments import signer_problems
    from service.errors import InvalidOption, NotFound

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
