"""``wfctl init``."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.options import CommandId, DryRun, ExpectedVersion, write_options
from cli.output import Output, say
from cli.settings import actor_of
from cli.workspace import create, settings_of, tell_of_password
from cli.writes import tell


class Consent(StrEnum):
    """How a person agrees to an amendment."""

    TERMINAL = "terminal"
    SIGNATURE = "signature"
    TRUST = "trust"


def init(
    context: typer.Context,
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="JSON, YAML or TOML; - is stdin.")],
    purpose: Annotated[str | None, typer.Option(help="What the workflow is for.")] = None,
    consent: Annotated[
        Consent, typer.Option(help="How amendments are agreed to.")
    ] = Consent.TERMINAL,
    signers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Allowed signers (ssh-keygen), for --consent signature."),
    ] = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Make a workflow here from a plan."""
    from lifecycle.plan import create as command_of
    from service.clock import system_clock, utc_text
    from service.initialise import init_options, initialise, root_at
    from service.place import identity
    from service.plan_file import read_plan

    settings = settings_of(context)
    root = root_at(settings.start, settings.database_url, settings.journal)
    document = read_plan(plan)
    command = command_of(
        document,
        created=utc_text(system_clock()),
        root=identity(root.path),
        consent=consent.value,
        signers=signers_of(consent, signers),
        purpose=purpose,
    )
    options = init_options(
        write_options(dry_run, command_id, expected_version),
        document,
        purpose=purpose,
        consent=consent.value,
    )
    outcome = initialise(
        root,
        command,
        connect=create,
        actor=actor_of(settings),
        clock=system_clock,
        options=options,
    )
    for name, path in _missing_machine_files(outcome.state.backend_profiles, root.path):
        say(f"{name}: the machine file {path} is missing; no stage can be dispatched to it yet")
    tell_of_password(settings.database_url)
    tell(Output(settings), outcome, options)


def _missing_machine_files(profiles: dict[str, Any], root: Path) -> Iterator[tuple[str, Path]]:
    """Yield each backend profile whose config_path leads nowhere; such a file is never read."""
    for name, profile in profiles.items():
        given = profile.get("config_path")
        if isinstance(given, str) and given and not (root / given).exists():
            yield name, root / given


def signers_of(consent: Consent, source: Path | None) -> list[str]:
    """Return the lines of an allowed-signers file; raises `InvalidOption` for unusable ones."""
    from lifecycle.decide_amendments import signer_problems
    from service.errors import InvalidOption, NotFound

    try:
        lines = source.read_text("utf-8").splitlines() if source is not None else []
    except FileNotFoundError:
        raise NotFound(f"no allowed signers at {source}") from None
    found = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    problems = signer_problems(consent.value, found)
    if problems:
        raise InvalidOption("; ".join(problems))
    return found
