"""Who is told of decisions, failures and the end of a loop: --notify, or config.toml if agreed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from service.root.root import read_config
from service.root.trust import is_notice_trusted

if TYPE_CHECKING:
    from lifecycle.state.workflow import Workflow
    from reconciler.context import Jobs
    from service.writing.workflow_service import Outcome


def receiver_of(jobs: Jobs, given: str | None) -> str | None:
    """Return who is to be told; what only config.toml names needs a person's agreement."""
    if given is not None:
        return given or None
    named = read_config(jobs.service.root).notify
    if named is None or is_notice_trusted(named, jobs.root):
        return named
    jobs.say(
        f"config.toml names {named!r} to be told, and nobody of this login agreed to it: it may "
        "have come with a copy. `wfctl db trust` agrees to it; nobody is told until then.",
        level="warning",
    )
    return None


@contextmanager
def notifying(jobs: Jobs, given: str | None) -> Iterator[Jobs]:
    """Yield jobs that tell the receiver, if there is one, of what they record and wait for."""
    receiver = receiver_of(jobs, given)
    if receiver is None:
        yield jobs
        return
    from cli.terminal.talk import without_secrets
    from reconciler.loop.notices import Notifier

    def hide(notice: dict[str, Any]) -> dict[str, Any]:
        return dict(without_secrets(None, "", notice))

    def warn(text: str) -> None:
        jobs.say(text, level="warning")

    service = jobs.service
    with Notifier(receiver, service.log, service.root.folder, hide, warn) as notifier:

        def tell(outcome: Outcome) -> None:
            jobs.tell(outcome)
            notifier.look()

        def waits(state: Workflow, ids: Collection[str]) -> None:
            jobs.waits(state, ids)
            notifier.look()

        yield replace(jobs, tell=tell, waits=waits)
