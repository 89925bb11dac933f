"""Approve a new plan because a person typed the command, and stop commands that hang."""

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
    if agrees_by_typing(actor, begun.state.consent, "plan", line, key):
        outcome = approve_typed_plan(root, actor, f"wfctl {command}", key)
    if outcome is None:
        return begun
    return replace(outcome, events=(*begun.events, *outcome.events), planned=begun.planned)


def agrees_by_typing(actor: Actor, policy: str, what: str, line: str, key: Path | None) -> bool:
    """Return whether a person agreed by typing the command at a terminal.

    Otherwise, print that the plan or machine waits until a person runs the command ``line``.
    """
    by_signature = policy == "signature"
    if _is_person(actor) and not (by_signature and key is None):
        return True
    sign = " --key FILE" if by_signature else ""
    print_message(
        f"the {what} waits for a person: nothing starts before one runs "
        f"`{line}{sign}` at a terminal"
    )
    return False


def names_signers(settings: Settings, consent: str) -> bool:
    """Return whether the signers are chosen by someone who is not a person at a terminal.

    This is possible only under the consent policy ``signature``.
    """
    return consent == "signature" and not _is_person(actor_of(settings))


def _is_person(actor: Actor) -> bool:
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


#: Seconds between two checks of the time limit, and extra seconds in which the database may stop
#: the query first.
_LOOK, _GRACE = 0.1, 1.0
_END: Any = object()


class Watch:
    """Limits the time of each step of an answer, and calls ``give_up`` after the limit.

    A separate thread checks the time, because the main thread may be blocked in a database call.
    """

    def __init__(self, seconds: float, give_up: Callable[[], None]) -> None:
        self._seconds = seconds + _GRACE
        self._give_up = give_up
        self._end: float | None = None
        self._over = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._check_time, daemon=True, name="patience").start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def step(self, work: Callable[[], Any]) -> Any:
        """Run ``work`` within the time limit, and return its result."""
        self._end = time.monotonic() + self._seconds
        try:
            return work()
        finally:
            self._end = None

    def each(self, rows: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows, with the time limit for each row."""
        found = iter(rows)
        while (row := self.step(lambda: next(found, _END))) is not _END:
            yield row

    def _check_time(self) -> None:
        while not self._over.wait(_LOOK):
            end = self._end
            if end is not None and time.monotonic() > end:
                self._give_up()


def exit_with_error(settings: Settings, error: Exception) -> None:
    """Print the error and end the process immediately, even if its main thread is blocked.

    Use this only for commands that read. The operating system then releases their locks, and no
    change is interrupted.
    """
    from cli.frame.failure import report_error

    code = report_error(error, ["-o", settings.format.value])
    sys.stderr.flush()
    os._exit(code)
