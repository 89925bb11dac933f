"""Send a notice of each pending decision, each failure, and the end of a run.

A separate thread sends the notices, so that a slow receiver does not delay the program. The version
of the last notice is stored next to the log. After a restart, the missing notices are sent.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import orjson

from eventstore.event import RecordedEvent
from eventstore.regular_files import read_regular
from extensions.notices.receiver import send_notice_with_retries
from lifecycle.state.workflow import Workflow
from lifecycle.words.waiting import waits_for_person
from projections.files.progress_log import format_line_without_time
from projections.words.account import list_waiting_items
from service.reading.log import WorkflowLog
from service.root.atomic_files import write_whole

Notice = dict[str, Any]
#: Seconds to wait for the last notices to be sent after the program has ended its work.
_LAST = 15.0
_KEPT = "notified.json"


#: Event type → kind of its notice, and commands to suggest. Names in braces stand for data of the
#: event.
_KINDS = {
    "amendment.proposed": (
        "decision",
        ["wfctl amend show {amendment}", "wfctl amend approve {amendment}"],
    ),
    "stage.computed": ("decision", ["wfctl stage complete {stage} --evidence TEXT"]),
    "drift.detected": ("decision", ["wfctl drift show"]),
    "attempt.observed": ("decision", ["wfctl show {stage}"]),
    "stage.failed": ("failure", ["wfctl show {stage}", "wfctl why {stage}"]),
    "session.ended": ("end", ["wfctl status"]),
}


def _notice_of(event: RecordedEvent, state: Workflow, root: Path) -> Notice | None:
    """Return the notice about an event, or None if nobody needs to know of it.

    ``state`` is the state after the event.
    """
    if event.type not in _KINDS:
        return None
    stage, waiting = event.data.get("stage"), list_waiting_items(state)
    unwanted = {
        "stage.computed": all(one.subject != str(stage) for one in waiting),
        "attempt.observed": not waits_for_person(event.data.get("waiting")),
        "drift.detected": not any(drift.touches for drift in state.drifts),
    }
    if unwanted.get(event.type, False):
        return None
    kind, commands = _KINDS[event.type]
    return {
        "kind": kind,
        "workflow": state.id,
        "root": str(root),
        "version": event.version,
        "at": event.recorded_at,
        "stage": stage,
        "text": " ".join((format_line_without_time(event, state) or event.type).split()),
        "commands": [command.format_map(event.data) for command in commands],
        "waits": [str(wait)[:200] for wait in waiting][:10],
    }


class Notifier:
    """Sends notices of new events to a program or web address."""

    def __init__(
        self,
        receiver: str,
        log: WorkflowLog,
        folder: Path,
        hide: Callable[[Notice], Notice],
        say: Callable[[str], None],
        *,
        tells_end: bool = True,
    ) -> None:
        """Prepare to send notices to the receiver.

        ``tells_end`` is false if the runner itself reports the end of a session.
        """
        self._receiver = receiver
        self._log = log
        self._kept = folder / _KEPT
        self._root = folder.parent
        self._hide = hide
        self._say = say
        self._untold = frozenset() if tells_end else frozenset({"session.ended"})
        self._queue: queue.Queue[Notice | None] = queue.Queue()
        self._seen = self._load_progress()
        self._state: Workflow | None = None
        self._thread = threading.Thread(target=self._send_notices, daemon=True, name="notices")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Send the remaining notices, and wait a limited time for them."""
        self.queue_new_notices()
        self._queue.put(None)
        self._thread.join(_LAST)
        if self._thread.is_alive():
            self._say(
                f"the receiver did not accept {self._queue.qsize()} notices in time; wfctl sends "
                "them later"
            )

    def queue_new_notices(self) -> None:
        """Queue a notice for each relevant event since the last call."""
        head = self._log.store.head(self._log.stream)
        if head is None or head.version <= self._seen:
            return
        for event, state in self._log.steps(self._seen, self._state):
            self._seen, self._state = event.version, state
            if event.type in self._untold:
                continue
            found = _notice_of(event, state, self._root)
            if found is not None:
                self._queue.put(self._hide(found))

    def _load_progress(self) -> int:
        """Return the version of the log up to which notices were sent.

        If no version is stored, notices start at the current version.
        """
        try:
            return int(orjson.loads(read_regular(self._kept))["version"])
        except (OSError, ValueError, KeyError, TypeError):
            head = self._log.store.head(self._log.stream)
            version = head.version if head is not None else 0
            self._save_progress(version)
            return version

    def _send_notices(self) -> None:
        while (notice := self._queue.get()) is not None:
            error = send_notice_with_retries(self._receiver, notice, self._root)
            if error is not None:
                self._say(
                    f"the receiver did not accept the notice of version {notice['version']}: "
                    f"{error}"
                )
            self._save_progress(notice["version"])

    def _save_progress(self, version: int) -> None:
        try:
            write_whole(self._kept, json.dumps({"format": 1, "version": version}).encode())
        except OSError as error:
            self._say(f"{self._kept} cannot be written ({error}), so wfctl may send a notice twice")
