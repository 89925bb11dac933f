"""The report of a completed workflow: made from the log, written where the log says."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

from eventstore.errors import EventStoreError
from lifecycle.state.completion import numbered
from lifecycle.words.naming import is_report
from projections.files.report import Told, render
from projections.files.results import results
from projections.files.sessions import sessions
from projections.words.account import Seen
from service.errors import FilesBehind
from service.questions.audit import records
from service.reading.log import WorkflowLog
from service.root.below import OutsideRoot
from service.root.disk import write_whole
from service.root.root import Root
from service.root.within import place_within


def report(log: WorkflowLog, seen: Seen | None = None) -> bytes:
    """Return the report as the log has it now; raises `NoWorkflow` where nothing was created.

    All of it is of one version, whatever others record while it is made. ``seen`` is what a look
    at the files found.
    """
    state = log.replayed()
    [last] = log.store.read(log.stream, after=state.head - 1, upto=state.head)
    return render(
        Told(
            state=state,
            results=results(log.steps(upto=state.head)),
            sessions=sessions(log.steps(upto=state.head)),
            amendments=[record.to_dict() for record in records(log, state.head)],
            head=last.hash,
            seen=seen,
        )
    )


def write_due(root: Root, log: WorkflowLog, path: str | None, seen: Seen | None = None) -> None:
    """Write the report that a completion names, unless it is there; nobody's file is overwritten.

    ``path`` is relative to the root, None where none is due. Raises `FilesBehind` where the disk
    does not let it; the next command that writes tries again.
    """
    # A path that no command of ours records was put into the log: no report is due there.
    if path is None or not is_report(path) or os.path.lexists(root.path / path):
        return
    try:
        with place_within(root.path, path, make=True) as place:
            write_whole(place, report(log, seen))
    except (OSError, EventStoreError, OutsideRoot) as error:
        head = log.store.head(log.stream)
        raise FilesBehind(head.version if head else 0, error) from error


def free_place(root: Root, path: str) -> str:
    """Return ``path``, or the first after it at which nothing lies: report.md, report-2.md."""
    places = (numbered(path, number) for number in count(1))
    return next(place for place in places if not os.path.lexists(root.path / place))


def write_to(path: Path, content: bytes) -> None:
    """Write a report whole; folders above it are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)
