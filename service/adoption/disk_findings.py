"""What a state names, or its log, and what is not there on the disk."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from service.adoption.finding import ImportFinding
from service.adoption.versions import LOG, STATE, Version
from service.root.below import seen_from

_REPORT = re.compile(r"\bReport: (\S+)")


def disk_findings(version: Version, folder: Path) -> Iterator[ImportFinding]:
    """Yield the outputs, the report and the machine files that are named and not there."""
    yield from _outputs(version, folder)
    yield from _report(version, folder)
    yield from _machines(version, folder)


def _outputs(version: Version, folder: Path) -> Iterator[ImportFinding]:
    for index, stage in enumerate(version.state.stages):
        if stage.get("status") != "completed":
            continue
        for number, output in enumerate(stage.get("outputs") or []):
            if not _is_there(folder, output):
                line = version.state.line(f"/stages/{index}/outputs/{number}")
                yield ImportFinding("missing_output", STATE, line, output, stage["id"])


def _report(version: Version, folder: Path) -> Iterator[ImportFinding]:
    """The last report alone: one of an earlier end may have made room for it."""
    named = [(entry, _REPORT.search(entry.text)) for entry in version.entries]
    found = [(entry, name[1]) for entry, name in named if name and entry.workflow_completed]
    for entry, name in found[-1:]:
        if not _is_there(folder, name):
            yield ImportFinding("missing_report", LOG, entry.line, name)


def _machines(version: Version, folder: Path) -> Iterator[ImportFinding]:
    profiles = version.state.document.get("backend_profiles") or {}
    for name, profile in profiles.items():
        path = profile.get("config_path") if isinstance(profile, dict) else None
        if isinstance(path, str) and path and not seen_from(folder, path).exists():
            key = name.replace("~", "~0").replace("/", "~1")
            line = version.state.line(f"/backend_profiles/{key}/config_path")
            yield ImportFinding("missing_machine", STATE, line, path)


def _is_there(folder: Path, path: str) -> bool:
    return os.path.exists(folder / path)  # noqa: PTH110 - a path may be too long to look
