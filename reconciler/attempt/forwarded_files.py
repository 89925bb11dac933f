"""The files that a submission sends to its jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from glob import has_magic
from pathlib import Path
from typing import Any

from reconciler.errors import MissingInput


def forwarded(own: Mapping[str, Any]) -> Iterator[Path]:
    """Yield each file or folder that an attempt's own submission sends, patterns resolved.

    Raises MissingInput for what is not there: DPDispatcher would find out only when it uploads.
    """
    base = Path(own["machine"]["local_root"]) / str(own.get("work_base", "."))
    for pattern in dict.fromkeys(_patterns(own)):
        found = sorted(base.glob(pattern)) if has_magic(pattern) else [base / pattern]
        if not found or not found[0].exists():
            raise MissingInput(pattern)
        yield from found


def _patterns(own: Mapping[str, Any]) -> Iterator[str]:
    yield from own.get("forward_common_files", [])
    for task in own.get("task_list", []):
        yield from (f"{task['task_work_path']}/{path}" for path in task.get("forward_files", []))
