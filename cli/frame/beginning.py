"""What was just begun: its plan or definition is agreed to by the person who typed the command."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from cli.frame.workspace import opened
from cli.settings import Settings, actor_of
from cli.terminal.output import say
from lifecycle.state.workflow import PLAN

if TYPE_CHECKING:
    from cli.frame.consent import PersonConsent
    from eventstore.event import Actor
    from service.root.root import Root
    from service.writing.workflow_service import Outcome


def agreed(
    settings: Settings, root: Root, begun: Outcome, command: str, key: Path | None
) -> Outcome:
    """Return what was recorded, with the approval of the plan if a person typed the command.

    Else the plan waits, and that is said. ``begun`` is no dry run.
    """
    if begun.state.plan is None or not begun.state.plan.is_open:
        return begun
    actor, line = actor_of(settings), f"wfctl amend approve {PLAN}"
    outcome = None
    if agrees_by_typing(actor, begun.state.consent, "plan", line, key):
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

    with closing(opened(root, read_only=False)) as store:
        log = WorkflowLog(store, read_config(root).stream, root.path)
        return approve(Service(root, log, actor), PLAN, typed(actor, command, key), WriteOptions())


def typed(actor: Actor, command: str, key: Path | None) -> PersonConsent:
    """Return how the person who typed the command at a terminal agrees by that."""
    from cli.frame.consent import PersonConsent

    policy = "terminal" if key is None else "signature"
    return PersonConsent(policy, actor, key, typed=command)


#: Seconds between two looks, and for the database to end a question itself.
_LOOK, _GRACE = 0.1, 1.0
_END: Any = object()


class Watch:
    """Gives up where one step of an answer takes longer than it may; only the steps are counted."""

    def __init__(self, seconds: float, give_up: Callable[[], None]) -> None:
        self._seconds = seconds + _GRACE
        self._give_up = give_up
        self._end: float | None = None
        self._over = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._look, daemon=True, name="patience").start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def step(self, work: Callable[[], Any]) -> Any:
        """Return what a step comes to."""
        self._end = time.monotonic() + self._seconds
        try:
            return work()
        finally:
            self._end = None

    def each(self, rows: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows, each as a step."""
        found = iter(rows)
        while (row := self.step(lambda: next(found, _END))) is not _END:
            yield row

    def _look(self) -> None:
        while not self._over.wait(_LOOK):
            end = self._end
            if end is not None and time.monotonic() > end:
                self._give_up()


def leave(settings: Settings, error: Exception) -> None:
    """Print the error and end the process, whose other thread does not come back.

    Only for a command that reads: the kernel gives back its locks, and there is nothing to undo.
    """
    from cli.frame.failure import report

    code = report(error, ["-o", settings.format.value])
    sys.stderr.flush()
    os._exit(code)
