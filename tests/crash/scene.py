"""Add the state of the root to the error of a failed test, because the root may be removed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.crash.support import Workflow
from tests.crash.victims import processes

#: Files of the root that show the recorded state.
_FILES = ("progress.log", ".wfctl/sync.json", "workflow-state.json", "trace")
#: Seconds after which progress.log is read again, in case it was read during a write.
_LATER = 2.0


@contextmanager
def telling(workflow: Workflow) -> Iterator[None]:
    """If the block fails, add the processes, files and events of the workflow to the error."""
    try:
        yield
    except Exception as error:
        for title, text in _parts(workflow):
            error.add_note(f"--- {title}\n{text}")
        raise


def _parts(workflow: Workflow) -> Iterator[tuple[str, str]]:
    alive = processes(workflow)
    yield "alive", "\n".join(f"{pid} {line}" for pid, line in alive.items())
    for name in _FILES:
        yield name, _text(workflow.root / name)
    time.sleep(_LATER)
    yield f"progress.log {_LATER:g} s later", _text(workflow.root / "progress.log")
    yield "events", workflow.call("events", "-o", "jsonl").stdout
    yield "said", workflow.said()


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else "(missing)"
