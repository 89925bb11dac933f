"""A second user who writes notes while the workflow runs, and remembers the acknowledged ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.crash.support import Workflow

#: Seconds between two notes, because each note starts a process.
_PAUSE = 2.0


@contextmanager
def noting(workflow: Workflow) -> Iterator[list[str]]:
    """Write notes until the block ends, and yield the notes whose command exited with code 0."""
    acknowledged: list[str] = []
    over = threading.Event()
    writer = threading.Thread(target=_write, args=(workflow, acknowledged, over))
    writer.start()
    try:
        yield acknowledged
    finally:
        over.set()
        writer.join()


def _write(workflow: Workflow, acknowledged: list[str], over: threading.Event) -> None:
    number = 0
    while not over.wait(_PAUSE):
        number += 1
        text = f"note {number} of the other one"
        if workflow.call("note", text).returncode == 0:
            acknowledged.append(text)


def check_notes(workflow: Workflow, acknowledged: list[str]) -> None:
    """Check that each acknowledged note is in the log and in progress.log."""
    recorded = [event["data"]["text"] for event in workflow.events("note.logged")]
    assert [text for text in acknowledged if text not in recorded] == []
    shown = (workflow.root / "progress.log").read_text()
    assert [text for text in acknowledged if text not in shown] == []
