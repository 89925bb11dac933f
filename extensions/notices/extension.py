"""Register the extension ``notices`` with the core of wfctl."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from service.reading.log import WorkflowLog
from wfctl_eventstore.extension import Extension, RunnerNotifier


class NoticesExtension(Extension):
    """Notify a program or web address of open decisions, failures and the end of a run."""

    def check_receiver(self, receiver: str) -> None:
        """Raise ValueError, with the reason, if notices cannot be sent to this receiver."""
        from extensions.notices.receiver import check_receiver

        check_receiver(receiver)

    @contextmanager
    def open_notifier(
        self,
        receiver: str,
        log: WorkflowLog,
        folder: Path,
        hide: Callable[[dict[str, Any]], dict[str, Any]],
        say: Callable[[str], None],
        *,
        tells_end: bool,
    ) -> Iterator[Callable[[], None]]:
        """Yield a function that sends notices of all events since its last call."""
        from extensions.notices.notifier import Notifier

        with Notifier(receiver, log, folder, hide, say, tells_end=tells_end) as notifier:
            yield notifier.queue_new_notices

    def open_runner_notifier(
        self, receiver: str, workflow: str, root: Path, pid: int
    ) -> RunnerNotifier:
        """Start a process that sends notices about a runner, even if the runner is killed."""
        from extensions.notices.runner_notices import RunnerNotices

        return RunnerNotices(receiver, workflow, root, pid)


EXTENSION = NoticesExtension()
