"""What was just begun: its plan or definition is agreed to by the person who typed the command."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cli.frame.workspace import opened
from cli.settings import Settings, actor_of
from cli.terminal.output import say
from lifecycle.state.workflow import PLAN

if TYPE_CHECKING:
    from cli.frame.consent import AtTerminal, SignedConsent
    from eventstore.event import Actor
    from service.root.root import Root
    from service.writing.workflow_service import Outcome


def agreed(
    settings: Settings, root: Root, begun: Outcome, command: str, key: Path | None
) -> Outcome:
    """Return what was recorded, with the approval of the plan if a person typed the command.

    A person is one at a terminal; under ``signature`` with a key to sign with. Else the plan
    waits, and that is said. ``begun`` is no dry run.
    """
    if begun.state.plan is None or not begun.state.plan.is_open:
        return begun
    actor, policy = actor_of(settings), begun.state.consent
    if not agrees_by_typing(actor, policy, "plan", f"wfctl amend approve {PLAN}", key):
        return begun
    outcome = approved(root, actor, f"wfctl {command}", key)
    if outcome is None:
        return begun
    return replace(outcome, events=(*begun.events, *outcome.events), planned=begun.planned)


def agrees_by_typing(actor: Actor, policy: str, what: str, line: str, key: Path | None) -> bool:
    """Whether who typed the command agreed by that; else say which ``line`` is waited for."""
    by_signature = policy == "signature"
    if _is_person(actor) and not (by_signature and key is None):
        return True
    sign = " --key FILE" if by_signature else ""
    say(
        f"the {what} waits for a person: nothing starts before one runs "
        f"`{line}{sign}` at a terminal"
    )
    return False


def names_signers(settings: Settings, consent: str) -> bool:
    """Say whether signers are named by a caller who is no person at a terminal."""
    return consent == "signature" and not _is_person(actor_of(settings))


def _is_person(actor: Actor) -> bool:
    return actor.kind == "user" and sys.stdin.isatty()


def approved(root: Root, actor: Actor, command: str, key: Path | None) -> Outcome | None:
    """Approve the plan by the command that the actor typed at a terminal; None: it moved on."""
    from service.reading.log import WorkflowLog
    from service.root.root import read_config
    from service.writing.amendments import approve
    from service.writing.stream_writer import WriteOptions
    from service.writing.workflow_service import Service

    store = opened(root, read_only=False)
    try:
        log = WorkflowLog(store, read_config(root).stream, root.path)
        return approve(Service(root, log, actor), PLAN, typed(actor, command, key), WriteOptions())
    finally:
        store.close()


def typed(actor: Actor, command: str, key: Path | None) -> AtTerminal | SignedConsent:
    """Return how the person who typed the command at a terminal agrees by that."""
    from cli.frame.consent import AtTerminal, SignedConsent

    return (
        AtTerminal(actor, typed=command)
        if key is None
        else SignedConsent(actor, key, typed=command)
    )
