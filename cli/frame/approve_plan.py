"""Approve a new plan because a person typed the command that creates the workflow."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from cli.frame.workspace import open_root_log
from cli.settings import Settings, actor_of
from cli.terminal.output import print_message
from lifecycle.state.workflow import PLAN

if TYPE_CHECKING:
    from cli.frame.consent import PersonConsent
    from eventstore.event import Actor
    from service.root.root import Root
    from service.writing.workflow_service import Outcome


def approve_new_plan(
    settings: Settings, root: Root, begun: Outcome, command: str, key: Path | None
) -> Outcome:
    """Approve the new plan if a person typed the command, and return the new outcome.

    Otherwise, print that the plan waits for approval, and return ``begun`` unchanged. Do not call
    this function after a dry run.
    """
    if begun.state.plan is None or not begun.state.plan.is_open:
        return begun
    actor, line = actor_of(settings), f"wfctl amend approve {PLAN}"
    outcome = None
    if has_typed_consent(actor, begun.state.consent, "plan", line, key):
        outcome = approve_typed_plan(root, actor, f"wfctl {command}", key)
    if outcome is None:
        return begun
    return outcome._replace(events=(*begun.events, *outcome.events), planned=begun.planned)


def has_typed_consent(actor: Actor, policy: str, what: str, line: str, key: Path | None) -> bool:
    """Return whether a person agreed by typing the command at a terminal.

    Otherwise, print that the plan or machine waits until a person runs the command ``line``.
    """
    by_signature = policy == "signature"
    if is_person_at_terminal(actor) and not (by_signature and key is None):
        return True
    sign = " --key FILE" if by_signature else ""
    print_message(
        f"the {what} waits for a person: nothing starts before one runs "
        f"`{line}{sign}` at a terminal"
    )
    return False


def is_signer_choice_unattended(settings: Settings, consent: str) -> bool:
    """Return whether the signers are chosen by someone who is not a person at a terminal.

    This is possible only under the consent policy ``signature``.
    """
    return consent == "signature" and not is_person_at_terminal(actor_of(settings))


def is_person_at_terminal(actor: Actor) -> bool:
    """Return whether a person runs this command at a terminal."""
    return actor.kind == "user" and sys.stdin.isatty()


def approve_typed_plan(root: Root, actor: Actor, command: str, key: Path | None) -> Outcome | None:
    """Approve the new plan, with the command typed at a terminal as proof of consent.

    Return the outcome, or None if the plan was not approved.
    """
    from service.reading.log import WorkflowLog
    from service.root.root import read_config
    from service.writing.amendments import approve_amendment
    from service.writing.stream_writer import WriteOptions
    from service.writing.workflow_service import Service

    with closing(open_root_log(root, read_only=False)) as store:
        log = WorkflowLog(store, read_config(root).stream, root.path)
        return approve_amendment(
            Service(root, log, actor),
            PLAN,
            build_typed_consent(actor, command, key),
            WriteOptions(),
        )


def build_typed_consent(actor: Actor, command: str, key: Path | None) -> PersonConsent:
    """Return the consent of the person who typed the command, signed if a key is given."""
    from cli.frame.consent import PersonConsent

    policy = "terminal" if key is None else "signature"
    return PersonConsent(policy, actor, key, typed=command)
