"""The plan of a workflow that was just begun: agreed to by the person who typed the command."""

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
    actor = actor_of(settings)
    by_signature = begun.state.consent == "signature"
    if not _is_person(actor) or (by_signature and key is None):
        sign = " --key FILE" if by_signature else ""
        say(
            "the plan waits for a person: nothing starts before one runs "
            f"`wfctl amend approve {PLAN}{sign}` at a terminal"
        )
        return begun
    outcome = approved(root, actor, f"wfctl {command}", key)
    if outcome is None:
        return begun
    return replace(outcome, events=(*begun.events, *outcome.events), planned=begun.planned)


def names_signers(settings: Settings, consent: str) -> bool:
    """Say whether signers are named by a caller who is no person at a terminal."""
    return consent == "signature" and not _is_person(actor_of(settings))


def _is_person(actor: Actor) -> bool:
    return actor.kind == "user" and sys.stdin.isatty()


def approved(root: Root, actor: Actor, command: str, key: Path | None) -> Outcome | None:
    """Approve the plan by the command that the actor typed at a terminal; None: it moved on."""
    from cli.frame.consent import AtTerminal, Signed
    from service.reading.log import WorkflowLog
    from service.root.root import read_config
    from service.writing.amendments import approve
    from service.writing.stream_writer import WriteOptions
    from service.writing.workflow_service import Service

    consenter = (
        AtTerminal(actor, typed=command) if key is None else Signed(actor, key, typed=command)
    )
    store = opened(root, read_only=False)
    try:
        log = WorkflowLog(store, read_config(root).stream, root.path)
        return approve(Service(root, log, actor), PLAN, consenter, WriteOptions())
    finally:
        store.close()
