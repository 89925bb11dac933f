"""Reading a workflow from Python, as in a notebook: the answers of the commands, as dictionaries.

It writes nothing and takes no lock. Each call reads the log as it is then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cli.frame.workspace import Reading

__all__ = ["events", "metrics", "open_workflow", "status", "tasks"]

Place = str | os.PathLike[str]


def open_workflow(path: Place = ".") -> Path:
    """Return the root at or above a folder, for the other functions; they take a folder too.

    Each function raises the errors of the commands, which have ``code``, ``message`` and ``data``:
    `NoRoot` without a root, `NoWorkflow` for one that has machines alone.
    """
    with _reading(path) as workflow:
        workflow.state()
        return workflow.root.path


def status(workflow: Place, *, at: str | None = None, frame: bool = False) -> Any:
    """Return ``data`` of ``wfctl status -o json``, at a moment too; as a frame, a row a stage."""
    from cli.commands.status import status_of
    from cli.frame.options import moment

    with _reading(workflow) as opened:
        data = status_of(opened, moment(at, None)).data
    return _framed(data["stages"]) if frame else data


def metrics(
    workflow: Place, stage: str | None = None, *, where: Iterable[str] = (), frame: bool = False
) -> Any:
    """Return ``metrics`` of ``wfctl metrics [STAGE] -o json``: a row a number, of a sweep a task.

    ``where`` holds conditions such as ``T>2``. Raises `NotFound` for a stage without numbers.
    """
    from cli.commands.tasks import numbers_of

    with _reading(workflow) as opened:
        rows = numbers_of(opened, stage, _several(where))
    return _framed(rows) if frame else rows


def tasks(workflow: Place, stage: str, *, where: Iterable[str] = (), frame: bool = False) -> Any:
    """Return ``tasks`` of ``wfctl tasks STAGE -n 0 -o json``; as a frame, a column a value.

    Raises `NotFound` for a stage without tasks.
    """
    from cli.commands.tasks import chosen_of, flat

    with _reading(workflow) as opened:
        _, rows = chosen_of(opened, stage, _several(where))
    return _framed(map(flat, rows)) if frame else rows


def events(
    workflow: Place,
    *,
    types: Iterable[str] = (),
    stages: Iterable[str] = (),
    frame: bool = False,
) -> Any:
    """Return the events as ``wfctl events -o jsonl`` prints them; a type may end in ``*``."""
    from cli.commands.events import record_of
    from service.reading.log import Selection

    wanted = Selection(types=tuple(_several(types)), stages=tuple(_several(stages)))
    with _reading(workflow) as opened:
        found = opened.store.read(opened.log.stream)
        rows = [record_of(event) for event in found if wanted.fits(event)]
    return _framed(rows) if frame else rows


def _reading(path: Place) -> AbstractContextManager[Reading]:
    from cli.frame.workspace import reading_of
    from cli.settings import Settings

    return reading_of(Settings(Path(path).expanduser(), os.environ.get("WFCTL_DATABASE_URL")))


def _several(words: Iterable[str]) -> list[str]:
    """Return the words; a single one may be given as it is."""
    return [words] if isinstance(words, str) else [*words]


def _framed(rows: Iterable[Mapping[str, Any]]) -> Any:
    """Return a frame of pandas; raises `ModuleNotFoundError` where it is not installed."""
    from importlib import import_module

    return import_module("pandas").DataFrame([*rows])
